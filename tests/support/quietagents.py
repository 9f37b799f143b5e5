"""Agents as the loops see them, none of which is ever silent (`reconcile.agents.Agents`)."""

from __future__ import annotations

from collections.abc import Iterable


class QuietAgents:
    async def judge(self, registered: Iterable[str]) -> frozenset[str]:
        return frozenset()

    def silent(self) -> frozenset[str]:
        return frozenset()

    def need(self, cluster_id: str, needed: bool) -> None:
        """Nobody reports."""

    def forget(self, instance_id: str) -> None:
        """Nothing is known of it."""
