"""How long tests wait, and the one way to wait for a condition."""

import time
from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

T = TypeVar("T")

# What does not come within this time does not come at all: a wait that is met ends at once, so this costs only those who
# wait for ever, and a machine that is ten times slower for a minute (a busy host does that) fails no test.
PATIENCE_S = 240.0
SOON = timedelta(seconds=PATIENCE_S)


def until(condition: Callable[[], T | None], what: str = "the condition", *, patience_s: float = PATIENCE_S) -> T:
    """The first true answer of `condition`, which is asked 50 times a second."""
    deadline = time.monotonic() + patience_s
    while not (answer := condition()):
        assert time.monotonic() < deadline, f"{what}: not within {patience_s:g} s"
        time.sleep(0.02)
    return answer
