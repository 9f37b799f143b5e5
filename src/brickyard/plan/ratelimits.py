"""Token buckets, without counting tokens: a bucket is the time at which it will be full again. Pure.

A bucket holds `burst` calls, and gets one back every `interval_s`. Each call moves the time at which the bucket is full by one
interval into the future; a call has to wait while that is more than a whole bucket away.
"""

from __future__ import annotations

from typing import NamedTuple

ROUNDING_S = 1e-9  # sums of intervals are not exact


class Limit(NamedTuple):
    """`burst` calls at once, and one more every `interval_s`."""

    burst: float
    interval_s: float


def spent(full_s: float, limit: Limit, now_s: float) -> float:
    """When the bucket will be full again if a call is taken out now."""
    return max(full_s, now_s) + limit.interval_s


def wait_s(full_s: float, limit: Limit, now_s: float) -> float:
    """How long until the bucket holds a call; 0 if it does."""
    wait = full_s - now_s - (limit.burst - 1) * limit.interval_s
    return wait if wait > ROUNDING_S else 0.0
