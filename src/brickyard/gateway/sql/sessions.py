"""How many sessions users have. Spark holds the sessions themselves, and ends one that is idle for an hour."""

from __future__ import annotations

import time
from typing import NamedTuple

from brickyard.domain.access import Principal
from brickyard.domain.clock import Monotonic
from brickyard.domain.errors import QuotaExceeded
from brickyard.domain.quotas import Occupancy, Quota, Slot
from brickyard.gateway.sql.driver import Target

IDLE_S = 3600.0  # Spark's limit [spark.connect.session.manager.defaultSessionTimeout]
OPEN = Quota("open SQL sessions", total=2_000, share=500, reserve=200, admin_share=500)
_LOOK_S = 60.0  # between two looks for idle ones


class _Session(NamedTuple):
    used: float
    slot: Slot


class Sessions:
    """Those that clients of this server use."""

    def __init__(self, monotonic: Monotonic = time.monotonic) -> None:
        self._monotonic = monotonic
        self._open: dict[tuple[str, str, str], _Session] = {}
        self._occupancy = Occupancy()
        self._looked = monotonic()

    def open(self, principal: Principal, target: Target) -> None:
        """Count one more. Raises QuotaExceeded."""
        now = self._monotonic()
        if now - self._looked > _LOOK_S:
            self._looked = now
            for key in [key for key, each in self._open.items() if now - each.used > IDLE_S]:
                self._open.pop(key).slot.release()
        slot = self._occupancy.enter(OPEN, principal, error=QuotaExceeded)
        self._open[target[:3]] = _Session(now, slot)

    def touch(self, principal: Principal, target: Target) -> None:
        """It is in use. One of another server counts from now on. Raises QuotaExceeded."""
        known = self._open.get(target[:3])
        if known is None:
            self.open(principal, target)
        else:
            self._open[target[:3]] = known._replace(used=self._monotonic())

    def close(self, target: Target) -> None:
        """Count one less."""
        if (known := self._open.pop(target[:3], None)) is not None:
            known.slot.release()
