"""Samples of nodes, packed: a row has those of one cluster in some span of time (`domain.samples`, `plan.samples`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sqlalchemy import Connection, bindparam, delete, insert, literal_column, select, update

from brickyard.store.prepared import Prepared
from brickyard.store.tables import clusters
from brickyard.store.tables import samples as t


class SampleRow(NamedTuple):
    """Points of one cluster's nodes. `id` is 0 before it is stored."""

    cluster_id: str
    tier: int
    start_ms: int
    end_ms: int
    packed: bytes
    id: int = 0


_OF_TIER = select(*(t.c[name] for name in SampleRow._fields)).where(
    t.c.cluster_id == bindparam("id"), t.c.tier == bindparam("tier")
)
# "+ 0" keeps SQLite from the index of all clusters' ends: it would read every cluster's rows for each cluster.
_ENDED = Prepared(_OF_TIER.where(t.c.end_ms + literal_column("0") < bindparam("before")).order_by(t.c.start_ms, t.c.id))
_WINDOW = Prepared(_OF_TIER.where(t.c.start_ms == bindparam("start")))


class SampleRows:
    """Rows within one transaction. Those who move rows take turns by `Tx.lock`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def insert(self, rows: Iterable[SampleRow]) -> None:
        values = [row._asdict() for row in rows]
        for value in values:
            del value["id"]
        if values:
            self._connection.execute(insert(t), values)

    def update(self, row: SampleRow) -> None:
        changed = {"end_ms": row.end_ms, "packed": row.packed}
        self._connection.execute(update(t).where(t.c.id == row.id).values(changed))

    def between(self, cluster_id: str, start_ms: int, end_ms: int) -> list[SampleRow]:
        """The rows of a cluster with points between these times, the coarsest first. One statement: a sample that moves from one
        tier to another meanwhile is seen in one of them."""
        query = select(t).where(t.c.cluster_id == cluster_id, t.c.start_ms < end_ms, t.c.end_ms >= start_ms)
        return self._rows(query.order_by(t.c.tier.desc(), t.c.start_ms, t.c.id))

    def ended(self, cluster_id: str, tier: int, before_ms: int) -> list[SampleRow]:
        """The rows of a cluster and tier that end before that time."""
        return [SampleRow(*row) for row in _ENDED.all(self._connection, id=cluster_id, tier=tier, before=before_ms)]

    def window(self, cluster_id: str, tier: int, start_ms: int) -> SampleRow | None:
        row = _WINDOW.first(self._connection, id=cluster_id, tier=tier, start=start_ms)
        return None if row is None else SampleRow(*row)

    def clusters(self, tier: int, before_ms: int) -> list[str]:
        """The clusters with rows of that tier that end before that time."""
        query = select(t.c.cluster_id).where(t.c.tier == tier, t.c.end_ms < before_ms).distinct()
        return sorted(self._connection.execute(query).scalars())

    def remove(self, ids: Sequence[int]) -> None:
        self._connection.execute(delete(t).where(t.c.id.in_(ids)))

    def trim(self, tier: int, before_ms: int) -> int:
        """Removes the rows of a tier that end before that time, and those of clusters that no longer exist. Returns how many."""
        old = (t.c.tier == tier) & (t.c.end_ms < before_ms)
        return self._connection.execute(delete(t).where(old | t.c.cluster_id.not_in(select(clusters.c.cluster_id)))).rowcount

    def _rows(self, query: object) -> list[SampleRow]:
        return [
            SampleRow(row.cluster_id, row.tier, row.start_ms, row.end_ms, row.packed, row.id)
            for row in self._connection.execute(query)  # type: ignore[call-overload] # a select, whose type is generic
        ]
