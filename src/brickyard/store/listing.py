"""Pages of clusters, by keyset: a page costs the same wherever it is in the list, however long the list is."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any

from sqlalchemy import BindParameter, Column, ColumnElement, Connection, bindparam, or_, select, tuple_

from brickyard.domain.access import ObjectKind, Visible
from brickyard.domain.queries import ClusterFilter, ClusterOrder, ClusterPosition, ClusterSort
from brickyard.store.grants import granted
from brickyard.store.indexes import named as not_empty
from brickyard.store.indexes import positive
from brickyard.store.prepared import Prepared
from brickyard.store.tables import clusters as t

_KEPT = 256  # statements: building one takes longer than executing it
Parameters = dict[str, Any]


class ListingRows:
    """Lists over the index columns of clusters; documents that are not cached are fetched by id afterwards."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def page(
        self, which: ClusterFilter, *, sort: ClusterSort, limit: int | None = None, after: ClusterPosition | None = None
    ) -> list[ClusterPosition]:
        """Positions (and so ids) of the matching clusters in order, at most `limit`, strictly after `after`."""
        common: Parameters = {}
        if which.policy_id is not None:
            common["policy"] = which.policy_id
        if which.ended_after_ms:
            common["ended_after"] = which.ended_after_ms
        if after is not None:
            common |= {"value": after.value, "id": after.cluster_id}
        if limit is not None:
            common["limit"] = limit
        # An index gives the rows of one state in order, but several states only after sorting all of them. So a page is merged
        # from one query per state.
        alternatives = [only | seen for only in _alternatives(which) for seen in _seen(which.visible)]
        parts = [self._part(sort, which.is_pinned, common | each) for each in alternatives]
        merged = parts[0] if len(parts) == 1 else heapq.merge(*parts, key=_place, reverse=sort.descending)
        return list(islice(merged, limit))

    def _part(self, sort: ClusterSort, is_pinned: bool | None, parameters: Parameters) -> list[ClusterPosition]:
        statement = _statement(sort.by, sort.descending, is_pinned, tuple(parameters))
        return [ClusterPosition(value=row[0], cluster_id=row[1]) for row in statement.all(self._connection, **parameters)]


def _alternatives(which: ClusterFilter) -> list[Parameters]:
    """The parameters of alternative conditions: exactly one of them must hold."""
    sources, states = (_numbered(name, values) for name, values in (("source", which.sources), ("state", which.states)))
    if which.is_pinned:
        return [states | sources]
    if which.states:
        return [{"state": state.value} | sources for state in dict.fromkeys(which.states)]
    return [{"source": source.value} for source in dict.fromkeys(which.sources)] or [{}]


def _seen(visible: Visible) -> list[Parameters]:
    """Likewise for who sees them: one's own clusters, and others' that were granted. What is hidden is not read."""
    if visible.everything:
        return [{}]
    own: Parameters = {"owner": visible.owner}
    return [own, own | {f"holder_{number}": holder for number, holder in enumerate(sorted(visible.holders))}]


def _numbered(name: str, values: Iterable[Any]) -> Parameters:
    return {f"{name}_{number}": value.value for number, value in enumerate(values)}


@lru_cache(_KEPT)
def _statement(by: ClusterOrder, descending: bool, is_pinned: bool | None, names: tuple[str, ...]) -> Prepared:
    """The query with these parameters."""

    def named(name: str) -> list[BindParameter[Any]]:
        return [bindparam(each) for each in names if each == name or each.startswith(f"{name}_")]

    value: Column[Any] = t.c.cluster_name if by is ClusterOrder.NAME else t.c.created_ms
    query = select(value, t.c.cluster_id).where(t.c.deleted_ms == 0)
    if is_pinned:  # there are few, so use their own index, whatever else the filter asks for
        query = query.where(t.c.cluster_id.in_(select(t.c.cluster_id).where(positive(t.c.pinned_ms))))
    elif is_pinned is False:
        query = query.where(t.c.pinned_ms == 0)
    for column, name in ((t.c.state, "state"), (t.c.source, "source"), (t.c.policy_id, "policy")):
        if given := named(name):
            query = query.where(_one_of(column, given))
    if "policy" in names:
        query = query.where(not_empty(t.c.policy_id))
    if "ended_after" in names:
        query = query.where(or_(t.c.unkept_ms == 0, t.c.unkept_ms >= bindparam("ended_after")))
    if holders := named("holder"):
        query = query.where(t.c.cluster_id.in_(granted(ObjectKind.CLUSTER, holders)), t.c.creator != bindparam("owner"))
    elif "owner" in names:
        query = query.where(t.c.creator == bindparam("owner"))
    if "value" in names:
        here = tuple_(value, t.c.cluster_id)
        there = tuple_(bindparam("value", type_=value.type), bindparam("id", type_=t.c.cluster_id.type))
        query = query.where(here < there if descending else here > there)
    order = (value.desc(), t.c.cluster_id.desc()) if descending else (value.asc(), t.c.cluster_id.asc())
    return Prepared(query.order_by(*order).limit(bindparam("limit") if "limit" in names else None))


def _one_of(column: Column[Any], values: Sequence[BindParameter[Any]]) -> ColumnElement[bool]:
    return column == values[0] if len(values) == 1 else column.in_(values)


def _place(position: ClusterPosition) -> tuple[Any, str]:
    return position.value, position.cluster_id
