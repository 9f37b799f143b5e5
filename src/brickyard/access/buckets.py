"""Token buckets by key, in this server's memory: at most so many, the least recently used is forgotten first."""

from __future__ import annotations

from brickyard.plan.ratelimits import Limit, spent, wait_s

MOST = 10_000


class Buckets:
    """One limit, with a bucket for each key. `now_s` is monotonic. For one event loop."""

    def __init__(self, limit: Limit, *, most: int = MOST) -> None:
        self.limit = limit
        self._most = most
        self._full_s: dict[str, float] = {}  # least recently used first

    def __len__(self) -> int:
        return len(self._full_s)

    def wait_s(self, key: str, now_s: float) -> float:
        """How long until this bucket holds a call; 0 if it does."""
        return wait_s(self._full_s.get(key, 0.0), self.limit, now_s)

    def spend(self, key: str, now_s: float) -> None:
        """Takes a call out of the bucket, even if none is left."""
        self._full_s[key] = spent(self._full_s.pop(key, 0.0), self.limit, now_s)
        if len(self._full_s) > self._most:
            del self._full_s[next(iter(self._full_s))]
