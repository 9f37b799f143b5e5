"""How a running command is cancelled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .client import Kernel

if TYPE_CHECKING:
    from .drivernode import ContextOwner

SIGNAL_EVERY_S = 1.0  # an interrupt at the wrong moment is lost, so it is repeated
CANCEL_GRACE_S = 6.0  # after this, the process is replaced


class Stubborn(Exception):
    """A cancelled command did not end."""


class Cancel:
    """Interrupts a running command repeatedly. Raises Stubborn if that does not help."""

    def __init__(self, kernel: Kernel, owner: ContextOwner, command_id: str) -> None:
        self._kernel, self._owner, self._command_id = kernel, owner, command_id
        self._since = 0.0
        self._last = 0.0

    def press(self, now: float) -> None:
        self._since = self._since or now
        if now - self._since > CANCEL_GRACE_S:
            raise Stubborn
        if now - self._last >= SIGNAL_EVERY_S:
            self._last = now
            self._owner.cancel_jobs(self._command_id)
            self._kernel.interrupt()
