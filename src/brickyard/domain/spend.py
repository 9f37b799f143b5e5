"""What nodes cost: charges, each of which is a stretch of one node's life at one price."""

from __future__ import annotations

import msgspec


class Charge(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A node worked for a cluster from `started_ms` to `ended_ms` (0: it still does), and nothing here changed meanwhile. It
    names what spend is grouped by, so that it outlives its cluster."""

    cluster_id: str
    instance_id: str
    started_ms: int
    ended_ms: int = 0
    price_per_hour: float
    currency: str
    node_type_id: str
    role: str
    creator_user_name: str
    cluster_name: str = ""
    tags: dict[str, str] = {}  # the user's, and the pool's

    def amount(self, start_ms: int, end_ms: int) -> float:
        """The cost between two times."""
        return self.hours(start_ms, end_ms) * self.price_per_hour

    def hours(self, start_ms: int, end_ms: int) -> float:
        """How long it lasted between two times. One that has not ended lasts until then."""
        return max(0, min(end_ms, self.ended_ms or end_ms) - max(start_ms, self.started_ms)) / 3_600_000
