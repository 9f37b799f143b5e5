"""How late the event loop is: by the time between when something was due there and when it came to be done."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable

EVERY_S = 0.2
KEPT = 5  # looks that count: of one second


class LoopLag:
    """For one event loop."""

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._due: float | None = None
        self._late: deque[float] = deque(maxlen=KEPT)

    async def watch(self) -> None:
        """Look until cancelled."""
        while True:
            self.expect(EVERY_S)
            await asyncio.sleep(EVERY_S)
            self.came()

    def expect(self, seconds: float) -> None:
        """Something is due in so many seconds."""
        self._due = self._monotonic() + seconds

    def came(self) -> None:
        """It was done now."""
        self._late.append(self._overdue())
        self._due = None

    @property
    def lag_s(self) -> float:
        """The worst of the last second, what is due now included."""
        return max(self._overdue(), *self._late, 0.0)

    def _overdue(self) -> float:
        return 0.0 if self._due is None else max(0.0, self._monotonic() - self._due)
