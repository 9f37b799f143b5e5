"""The servers of a workspace as a test wants them (`store.membership.Members`)."""

from __future__ import annotations

from dataclasses import dataclass, field

from brickyard.store.servers import Server


@dataclass
class SetMembers:
    """All of it may change while a test runs."""

    number: int = 0
    alone: bool = True
    living: list[Server] = field(default_factory=list)

    def servers(self) -> tuple[Server, ...]:
        return tuple(self.living)
