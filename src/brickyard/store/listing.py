"""Pages of clusters, by keyset: a page costs the same wherever it is in the list, however long the list is."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from itertools import islice
from typing import Any

from sqlalchemy import ColumnElement, Connection, or_, select, tuple_

from brickyard.domain.queries import ClusterFilter, ClusterOrder, ClusterPosition, ClusterSort
from brickyard.store.tables import clusters as t


class ListingRows:
    """Lists over the index columns of clusters; documents that are not cached are fetched by id afterwards."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def page(
        self, which: ClusterFilter, *, sort: ClusterSort, limit: int | None = None, after: ClusterPosition | None = None
    ) -> list[ClusterPosition]:
        """Positions (and so ids) of the matching clusters in order, at most `limit`, strictly after `after`."""
        # An index gives the rows of one state in order, but several states only after sorting all of them. So a page is merged
        # from one query per state.
        parts = [self._part(which, only, sort=sort, limit=limit, after=after) for only in _alternatives(which)]
        merged = heapq.merge(*parts, key=_place, reverse=sort.descending)
        return list(islice(merged, limit))

    def _part(
        self,
        which: ClusterFilter,
        only: Sequence[ColumnElement[bool]],
        *,
        sort: ClusterSort,
        limit: int | None,
        after: ClusterPosition | None,
    ) -> list[ClusterPosition]:
        value: ColumnElement[Any] = t.c.cluster_name if sort.by is ClusterOrder.NAME else t.c.created_ms
        query = select(value, t.c.cluster_id).where(t.c.deleted_ms == 0, *only)
        if which.policy_id is not None:
            query = query.where(t.c.policy_id == which.policy_id)
        if which.is_pinned is False:
            query = query.where(t.c.pinned_ms + 0 == 0)  # a sum, else SQLite uses the index of pins and sorts all unpinned rows
        if which.visible.owners is not None:
            query = query.where(t.c.creator.in_(sorted(which.visible.owners)))
        if which.ended_after_ms:
            query = query.where(or_(t.c.unkept_ms == 0, t.c.unkept_ms >= which.ended_after_ms))
        if after is not None:
            here, there = tuple_(value, t.c.cluster_id), tuple_(after.value, after.cluster_id)
            query = query.where(here < there if sort.descending else here > there)
        order = (value.desc(), t.c.cluster_id.desc()) if sort.descending else (value.asc(), t.c.cluster_id.asc())
        query = query.order_by(*order).limit(limit)
        return [ClusterPosition(value=row[0], cluster_id=row[1]) for row in self._connection.execute(query)]


def _alternatives(which: ClusterFilter) -> list[list[ColumnElement[bool]]]:
    """Alternative conditions: exactly one of them must hold."""
    sources = [t.c.source.in_([source.value for source in which.sources])] if which.sources else []
    states = [t.c.state.in_([state.value for state in which.states])] if which.states else []
    if which.is_pinned:
        # There are few, so use their own index, whatever else the filter asks for.
        pinned = t.c.cluster_id.in_(select(t.c.cluster_id).where(t.c.pinned_ms > 0))
        return [[pinned, *states, *sources]]
    if which.states:
        return [[t.c.state == state.value, *sources] for state in dict.fromkeys(which.states)]
    return [[t.c.source == source.value] for source in dict.fromkeys(which.sources)] or [[]]


def _place(position: ClusterPosition) -> tuple[Any, str]:
    return position.value, position.cluster_id
