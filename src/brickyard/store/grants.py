"""Rows of grants: who was given which permission on which object. A grant goes with its object, in the same commit."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from sqlalchemy import (
    BigInteger,
    BindParameter,
    ColumnElement,
    Connection,
    ScalarSelect,
    and_,
    bindparam,
    cast,
    delete,
    insert,
    select,
    true,
    tuple_,
)

from brickyard.domain.access import Grant, ObjectKind, Permission, Place, Visible
from brickyard.store.changeset import Changes
from brickyard.store.tables import grants as t
from brickyard.store.tables import runs

_OF = select(t.c.principal_id, t.c.permission).where(t.c.kind == bindparam("kind"), t.c.object_id == bindparam("id"))
_BATCH = 200  # places in one query: SQLite limits the variables of a statement


class GrantRows:
    """Within one transaction. Writers take turns by `Tx.lock`."""

    def __init__(self, connection: Connection, *, changed: Changes) -> None:
        self._connection = connection
        self._changed = changed

    def of(self, place: Place) -> tuple[Grant, ...]:
        """What was granted there, by principal."""
        rows = self._connection.execute(_OF.order_by(t.c.principal_id), {"kind": place.kind.value, "id": place.id})
        return tuple(Grant(row.principal_id, Permission(row.permission)) for row in rows)

    def of_many(self, places: Iterable[Place]) -> dict[Place, tuple[Grant, ...]]:
        """The same for many places; those without grants have an empty tuple."""
        found: dict[Place, list[Grant]] = {place: [] for place in places}
        wanted = list(found)
        for start in range(0, len(wanted), _BATCH):
            batch = [(place.kind.value, place.id) for place in wanted[start : start + _BATCH]]
            query = select(t).where(tuple_(t.c.kind, t.c.object_id).in_(batch)).order_by(t.c.principal_id)
            for row in self._connection.execute(query):
                found[Place(ObjectKind(row.kind), row.object_id)].append(Grant(row.principal_id, Permission(row.permission)))
        return {place: tuple(each) for place, each in found.items()}

    def held(self, kinds: Collection[ObjectKind], holders: Collection[str]) -> frozenset[Place]:
        """The places of the kinds where one of the holders was granted anything."""
        query = select(t.c.kind, t.c.object_id).where(
            t.c.principal_id.in_(sorted(holders)), t.c.kind.in_([kind.value for kind in kinds])
        )
        return frozenset(Place(ObjectKind(row.kind), row.object_id) for row in self._connection.execute(query))

    def put(self, place: Place, grants: Sequence[Grant]) -> None:
        """Replaces everything that was granted there."""
        before = self.of(place)
        if set(before) == set(grants):
            return
        self._connection.execute(delete(t).where(*_at(place)))
        rows = [
            {"kind": place.kind.value, "object_id": place.id, "principal_id": each.principal, "permission": each.permission.value}
            for each in grants
        ]
        if rows:
            self._connection.execute(insert(t), rows)
        self._tell(place, {each.principal for each in before} - {each.principal for each in grants})

    def remove_below(self, kind: ObjectKind, path: str) -> None:
        """Removes what was granted on a path and on everything below it."""
        below = t.c.object_id.startswith(path.rstrip("/") + "/", autoescape=True)
        self._connection.execute(delete(t).where(t.c.kind == kind.value, (t.c.object_id == path) | below))

    def forget_principal(self, principal_id: str) -> None:
        """Removes everything that was granted to an identity or group, because it is being removed."""
        query = select(t.c.kind, t.c.object_id).where(t.c.principal_id == principal_id)
        places = [Place(ObjectKind(row.kind), row.object_id) for row in self._connection.execute(query)]
        self._connection.execute(delete(t).where(t.c.principal_id == principal_id))
        for place in places:
            self._tell(place, {principal_id})

    def _tell(self, place: Place, lost: Collection[str]) -> None:
        """Cached views and watchers hear of it, on every server: a view holds its object's grants."""
        if place.kind is ObjectKind.CLUSTER:
            self._changed.clusters.add(place.id)
        elif place.kind is ObjectKind.INSTANCE_POOL:
            self._changed.pools.add(place.id)
        elif place.kind is ObjectKind.CLUSTER_POLICY:
            self._changed.policies.add(place.id)
        elif place.kind is ObjectKind.JOB:
            for run_id in self._connection.execute(select(runs.c.run_id).where(runs.c.job_id == int(place.id))).scalars():
                self._changed.runs.add(run_id)
                self._changed.lose(ObjectKind.RUN, str(run_id), lost)
        elif place.kind is ObjectKind.TOKENS:
            self._changed.identity = True  # who is who by a token may have changed
        self._changed.lose(place.kind, place.id, lost)


def remove_grants(connection: Connection, changed: Changes, place: Place, *, owner: str = "") -> None:
    """Removes the grants of an object that is being removed. Those who could see it, `owner` included, are told."""
    lost = set(connection.execute(select(t.c.principal_id).where(*_at(place))).scalars())
    connection.execute(delete(t).where(*_at(place)))
    changed.lose(place.kind, place.id, lost, owner=owner)


def granted(kind: ObjectKind, holders: Collection[str | BindParameter[Any]]) -> ScalarSelect[Any]:
    """For conditions on an id column: the ids of the objects of the kind on which one of the holders was granted anything."""
    id: ColumnElement[Any] = cast(t.c.object_id, BigInteger) if kind is ObjectKind.JOB else t.c.object_id
    return select(id).where(t.c.principal_id.in_(list(holders)), t.c.kind == kind.value).scalar_subquery()


def seen(visible: Visible, creator: ColumnElement[str], shared: ColumnElement[bool]) -> list[ColumnElement[bool]]:
    """Alternative conditions for the objects that a list shows: all, or the caller's own, and of others' those that are `shared`.
    No object meets two of them. Each is a query of its own, which starts from an index."""
    if visible.everything:
        return [true()]
    return [creator == visible.owner, and_(shared, creator != visible.owner)]


def _at(place: Place) -> tuple[ColumnElement[bool], ...]:
    return (and_(t.c.kind == place.kind.value, t.c.object_id == place.id),)
