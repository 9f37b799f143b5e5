"""The agent's clock, which no setting of the machine's clock changes. Its node uses it too (`runtime/node/clock.py`), and its
reports say what time it has, so that a server can tell how long ago something was, whatever the clocks of the two machines."""

from __future__ import annotations

import time

from brickyard.domain.clock import elapsed_ns

VARIABLE = "BRICKYARD_BOOTED_NS"  # as in runtime/node/clock.py

_booted_ns = time.time_ns() - elapsed_ns()


def now_ms() -> int:
    """Epoch milliseconds, as they were when the agent was started and have passed since."""
    return (_booted_ns + elapsed_ns()) // 1_000_000


def environment() -> dict[str, str]:
    """What gives the node this clock."""
    return {VARIABLE: str(_booted_ns)}
