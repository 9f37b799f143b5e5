"""The executor's description of a step."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from brickyard.agent.state import NodeState


class Work(NamedTuple):
    """How to do a step. A step may raise HostError; any other exception is reported as a bug."""

    do: Callable[[NodeState], Awaitable[None]]
    progress: str = ""  # shown to the cluster when the step begins
    limit_s: float | None = None  # None: what it waits for has its own limits
    failure: str = ""  # TerminationReasonCode for an error without a code; "": depends on how far the node has come
    whole: bool = False  # never given up in the middle, because the next step relies on it
