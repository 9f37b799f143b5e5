"""Pages of clusters, by keyset: a page costs the same wherever it is in the list."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, or_, select

from brickyard.domain.queries import ClusterFilter, ClusterOrder, ClusterPosition, ClusterSort
from brickyard.store.tables import clusters as t


class ListingRows:
    """Lists over the index columns of clusters; documents are fetched by id afterwards, where they are not cached."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def page(
        self, which: ClusterFilter, *, sort: ClusterSort, limit: int | None = None, after: ClusterPosition | None = None
    ) -> list[ClusterPosition]:
        """Positions (and so ids) of the matching clusters in order, at most `limit` of them, strictly behind `after`."""
        value: ColumnElement[Any] = t.c.cluster_name if sort.by is ClusterOrder.NAME else t.c.created_ms
        query = select(value, t.c.cluster_id).where(t.c.deleted_ms == 0)
        if which.sources:
            query = query.where(t.c.source.in_([source.value for source in which.sources]))
        if which.states:
            query = query.where(t.c.state.in_([state.value for state in which.states]))
        if which.policy_id is not None:
            query = query.where(t.c.policy_id == which.policy_id)
        if which.is_pinned is not None:
            query = query.where(t.c.pinned_ms > 0 if which.is_pinned else t.c.pinned_ms == 0)
        if which.ended_after_ms:
            query = query.where(or_(t.c.pinned_ms > 0, t.c.terminated_ms == 0, t.c.terminated_ms >= which.ended_after_ms))
        if after is not None:
            # Spelled out rather than as a row value, which not every SQLite uses an index for.
            behind, tie = (
                (value < after.value, t.c.cluster_id < after.cluster_id)
                if sort.descending
                else (value > after.value, t.c.cluster_id > after.cluster_id)
            )
            query = query.where(or_(behind, and_(value == after.value, tie)))
        order = (value.desc(), t.c.cluster_id.desc()) if sort.descending else (value.asc(), t.c.cluster_id.asc())
        query = query.order_by(*order)
        if limit is not None:
            query = query.limit(limit)
        return [ClusterPosition(value=row[0], cluster_id=row[1]) for row in self._connection.execute(query)]
