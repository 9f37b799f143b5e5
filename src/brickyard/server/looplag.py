"""Measures the lag of the event loop: the time between when something was due and when it ran."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable
from typing import Protocol

from brickyard.domain.clock import Monotonic
from brickyard.domain.periodic import Periodic

EVERY_S = 0.2
KEPT = 5  # measurements that count: those of one second
AS_OF_S = 0.05  # the largest lag is at most so old: every call asks for it


class LoopLag(Periodic):
    """For one event loop."""

    def __init__(self, *, monotonic: Monotonic = time.monotonic) -> None:
        super().__init__(every_s=EVERY_S)
        self._monotonic = monotonic
        self._due: float | None = None
        self._late: deque[float] = deque(maxlen=KEPT)

    async def run_once(self) -> None:
        self.came()
        self.expect(EVERY_S)

    def expect(self, seconds: float) -> None:
        """Something is due in this many seconds."""
        self._due = self._monotonic() + seconds

    def came(self) -> None:
        """It has just run."""
        self._late.append(self._overdue())
        self._due = None

    @property
    def lag_s(self) -> float:
        """The worst lag of the last second, including anything overdue."""
        return max(self._overdue(), *self._late, 0.0)

    def _overdue(self) -> float:
        return 0.0 if self._due is None else max(0.0, self._monotonic() - self._due)


class Lag(Protocol):
    """For how many seconds the oldest work of some kind has waited to begin."""

    def __call__(self) -> float: ...


class LargestLag:
    """The largest of several lags."""

    def __init__(self, lags: Iterable[Lag], *, monotonic: Monotonic = time.monotonic) -> None:
        self._lags = tuple(lags)
        self._monotonic = monotonic
        self._until = 0.0
        self._lag_s = 0.0

    def __call__(self) -> float:
        now = self._monotonic()
        if now >= self._until:
            self._until, self._lag_s = now + AS_OF_S, max(lag() for lag in self._lags)
        return self._lag_s
