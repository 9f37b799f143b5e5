"""What the executor needs to know of a step."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from brickyard.agent.state import NodeState


class Work(NamedTuple):
    """How a step is done. A step may raise HostError; anything else that it raises is a mistake of ours, and told as one."""

    do: Callable[[NodeState], Awaitable[None]]
    progress: str = ""  # told to the cluster when the step begins
    limit_s: float | None = None  # None: what it waits for has limits of its own
    failure: str = ""  # TerminationReasonCode of an error that brings none; "": by how far the node has come
    cleans_up: bool = False  # never given up: what comes next relies on it
