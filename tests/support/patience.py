"""How long tests wait, the one way to wait for a condition, and how to measure what is promised in seconds."""

import contextlib
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

# A wait ends as soon as its condition holds, so a long limit costs time only when a test fails, and a machine that is ten times
# slower for a minute (a busy host can be) fails no test.
PATIENCE_S = 240.0
SOON = timedelta(seconds=PATIENCE_S)


def until(
    condition: Callable[[], T | None],
    what: str | Callable[[], str] = "the condition",
    *,
    patience_s: float = PATIENCE_S,
    pause_s: float = 0.02,
) -> T:
    """Calls `condition` 50 times a second, or with another pause, and returns its first true answer. `what` it is, or a function
    that tells how things are when patience has ended."""
    deadline = time.monotonic() + patience_s
    while not (answer := condition()):
        if time.monotonic() >= deadline:
            raise AssertionError(f"{what if isinstance(what, str) else what()}: not within {patience_s:g} s")
        time.sleep(pause_s)
    return answer


class Stopwatch:
    """Measures how long something took, for promises in seconds. Time in which something on this machine waited for a processor
    does not count (where the kernel tells it): a busy machine breaks no promise."""

    def __init__(self) -> None:
        self._began_s, self._waited_s = time.monotonic(), _waited_s()

    @property
    def took_s(self) -> float:
        """Seconds since it was made."""
        return max(0.0, time.monotonic() - self._began_s - (_waited_s() - self._waited_s))


def _waited_s() -> float:
    with contextlib.suppress(OSError):  # not every kernel tells it
        some = Path("/proc/pressure/cpu").read_text().splitlines()[0]
        return int(some.rpartition("total=")[2]) / 1e6
    return 0.0
