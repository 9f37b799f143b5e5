"""What the loops ask of this server's side of the agents."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol


class Agents(Protocol):
    """Who is silent, and who should report often: `nodes.sessions.AgentService`."""

    async def judge(self, registered: Iterable[str]) -> frozenset[str]:
        """The registered instances whose agents no server has heard from for too long. Raises DatabaseTrouble."""
        ...

    def silent(self) -> frozenset[str]:
        """The result of the last `judge`, if that was recent."""
        ...

    def need(self, cluster_id: str, needed: bool) -> None:
        """Whether the cluster's size or end depends on what its nodes do: then their agents report often."""
        ...

    def forget(self, instance_id: str) -> None:
        """Drops everything about the instance, which is gone."""
        ...
