"""A clock that tests set."""

from __future__ import annotations


class ManualClock:
    """Starts at a fixed moment in 2026 and moves only through `advance`."""

    def __init__(self, now_ms: int = 1_790_000_000_000) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        return self._now_ms

    def advance(self, *, ms: int = 0, seconds: float = 0, minutes: float = 0) -> int:
        """Advances the clock and returns the new time."""
        self._now_ms += ms + int(seconds * 1_000) + int(minutes * 60_000)
        return self._now_ms
