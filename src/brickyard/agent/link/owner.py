"""The agent as its link to the servers and its own server know it."""

from __future__ import annotations

from typing import Protocol

from brickyard.domain.node import Assignment, StatusReport
from brickyard.domain.samples import NodeSamples


class LinkedAgent(Protocol):
    """The agent itself: `run.Agent`."""

    def report(self) -> StatusReport:
        """What the agent reports now."""
        ...

    def assign(self, assignment: Assignment | None) -> None:
        """A server has answered with this assignment; None ends the node."""
        ...

    def samples_taken(self, samples: NodeSamples | None, *, again: bool) -> None:
        """A server has taken these samples. `again`: it wants those before them once more."""
        ...

    def leave(self, reason: str) -> None:
        """The agent must exit."""
        ...
