"""The node's clock, which no setting of the machine's clock changes: times of one node can be compared with each other."""

from __future__ import annotations

import os
import time
from typing import Protocol

VARIABLE = "BRICKYARD_BOOTED_NS"  # when the machine was started, in epoch ns, as the node's agent has it


class Clock(Protocol):
    """Seconds since any moment, which never go back: `time.monotonic`, or what a test says."""

    def __call__(self) -> float: ...


def _elapsed_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic_ns()


_booted_ns = int(os.environ.get(VARIABLE) or time.time_ns() - _elapsed_ns())


def now_ms() -> int:
    """Epoch milliseconds on the clock of the node's agent."""
    return (_booted_ns + _elapsed_ns()) // 1_000_000
