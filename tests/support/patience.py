"""How long tests wait, and the one way to wait for a condition."""

import time
from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

T = TypeVar("T")

# A wait ends as soon as its condition holds, so a long limit costs time only when a test fails, and a machine that is ten times
# slower for a minute (a busy host can be) fails no test.
PATIENCE_S = 240.0
SOON = timedelta(seconds=PATIENCE_S)


def until(condition: Callable[[], T | None], what: str = "the condition", *, patience_s: float = PATIENCE_S) -> T:
    """Calls `condition` 50 times a second and returns its first true answer."""
    deadline = time.monotonic() + patience_s
    while not (answer := condition()):
        assert time.monotonic() < deadline, f"{what}: not within {patience_s:g} s"
        time.sleep(0.02)
    return answer
