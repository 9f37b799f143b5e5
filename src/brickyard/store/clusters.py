"""Rows of clusters."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import msgspec
from sqlalchemy import Connection, bindparam, delete, func, insert, or_, select, update

from brickyard.domain.access import ObjectKind, Place, Visible
from brickyard.domain.cluster import Cluster, Target, public_state
from brickyard.domain.states import ClusterSource, State
from brickyard.store.changeset import Changes
from brickyard.store.due import Due, DueRows
from brickyard.store.grants import granted, remove_grants
from brickyard.store.indexes import named, positive
from brickyard.store.prepared import Prepared
from brickyard.store.tables import charges, purged, schedules
from brickyard.store.tables import clusters as t

_decode = msgspec.json.Decoder(Cluster).decode
_encode = msgspec.json.Encoder().encode

_BY_ID = select(t.c.doc).where(t.c.cluster_id == bindparam("id"))
_GET = Prepared(_BY_ID)
_GET_LOCKED = Prepared(_BY_ID.with_for_update())
_LOCK = Prepared(select(t.c.cluster_id).where(t.c.cluster_id == bindparam("id")).with_for_update())
_INSERT = Prepared(insert(t), t.c.keys())
_WITH_TASKS = select(t.c.cluster_id).where(t.c.task_ms.is_not(None)).order_by(t.c.task_ms).limit(bindparam("limit"))
_PURGED = select(purged.c.cluster_id).where(purged.c.cluster_id == bindparam("id"), positive(purged.c.purged_ms))
_BY_TOKEN = select(t.c.doc).where(t.c.idempotency_token == bindparam("token"), named(t.c.idempotency_token), t.c.deleted_ms == 0)


def _keys(cluster: Cluster) -> dict[str, Any]:
    """The columns that queries use."""
    return {
        "cluster_name": cluster.spec.cluster_name or "",
        "state": public_state(cluster).value,
        "source": cluster.source.value,
        "creator": cluster.creator_user_name,
        "policy_id": cluster.spec.policy_id or "",
        "idempotency_token": cluster.idempotency_token,
        "created_ms": cluster.created_ms,
        "unkept_ms": cluster.unkept_ms,
        "pinned_ms": cluster.pinned_ms,
        "deleted_ms": cluster.deleted_ms,
        "task_ms": cluster.workbench.task.due_ms,
    }


def _changed(old: Cluster | None, new: Cluster) -> dict[str, Any]:
    """The columns of a row that has changed. Only those: SQLite writes every index of a column that it is given, changed or
    not."""
    values, before = _keys(new), _keys(old) if old is not None else {}
    changed = {name: value for name, value in values.items() if name not in before or before[name] != value}
    return {**changed, **_doc(new)}


def _doc(cluster: Cluster) -> dict[str, Any]:
    return {"version": cluster.version, "doc": _encode(cluster).decode()}


@functools.cache
def _update(columns: tuple[str, ...]) -> Prepared:
    """Sets these columns. There are few ways in which rows change."""
    return Prepared(update(t).where(t.c.cluster_id == bindparam("id")), columns)


class ClusterRows(DueRows[str]):
    """Cluster rows within one transaction."""

    _due = Due(t, t.c.cluster_id)

    def __init__(self, connection: Connection, *, locking: bool, changed: Changes) -> None:
        self._connection = connection
        self._locking = locking
        self._get = _GET_LOCKED if locking else _GET
        self._changed = changed
        self._rows: dict[str, Cluster] = {}  # read or written in this transaction

    def get(self, cluster_id: str) -> Cluster | None:
        """The cluster, even one that is being deleted. Inside `write` the row is locked until the commit."""
        doc = self._get.scalar(self._connection, id=cluster_id)
        if doc is None:
            return None
        cluster = self._rows[cluster_id] = _decode(doc)
        return cluster

    def lock(self, cluster_id: str) -> None:
        """Locks the row against other writers until the commit, without reading it. SQLite's writers always take turns."""
        if self._locking:
            _LOCK.run(self._connection, id=cluster_id)

    def many(self, cluster_ids: Iterable[str]) -> dict[str, Cluster]:
        """The existing clusters among those, by id."""
        found: dict[str, Cluster] = {}
        wanted = list(cluster_ids)
        for start in range(0, len(wanted), 500):  # SQLite limits the variables of a statement
            rows = self._connection.execute(
                select(t.c.cluster_id, t.c.doc).where(t.c.cluster_id.in_(wanted[start : start + 500]))
            )
            found.update((cluster_id, _decode(doc)) for cluster_id, doc in rows)
        return found

    def existing(self, cluster_ids: Iterable[str]) -> set[str]:
        """Which of the ids belong to clusters, without decoding documents."""
        wanted, found = list(cluster_ids), set[str]()
        for start in range(0, len(wanted), 500):
            found.update(
                self._connection.execute(select(t.c.cluster_id).where(t.c.cluster_id.in_(wanted[start : start + 500]))).scalars()
            )
        return found

    def undeleted(self, cluster_ids: Iterable[str]) -> set[str]:
        """Which of the ids belong to clusters that calls find, without decoding documents."""
        wanted, found = list(cluster_ids), set[str]()
        for start in range(0, len(wanted), 500):
            some = t.c.cluster_id.in_(wanted[start : start + 500])
            found.update(self._connection.execute(select(t.c.cluster_id).where(some, t.c.deleted_ms == 0)).scalars())
        return found

    def insert(self, cluster: Cluster) -> None:
        """Inserts a new cluster, due at once. Raises IntegrityError if the id is taken, in a batch at its end."""
        self._wrote(cluster)
        _INSERT.insert(self._connection, cluster_id=cluster.cluster_id, due_ms=0, **_keys(cluster), **_doc(cluster))

    def update(self, cluster: Cluster) -> Cluster:
        """Writes the whole row; returns it with its next version. `get` it in this transaction first."""
        old, cluster = self._rows.get(cluster.cluster_id), msgspec.structs.replace(cluster, version=cluster.version + 1)
        self._wrote(cluster)
        changed = _changed(old, cluster)
        _update(tuple(changed)).run(self._connection, id=cluster.cluster_id, **changed)
        return cluster

    def _wrote(self, cluster: Cluster) -> None:
        self._rows[cluster.cluster_id] = cluster
        self._changed.clusters.add(cluster.cluster_id)
        self._changed.snapshots |= cluster.workbench.task.due_ms is not None

    def finish(self, before: Cluster, after: Cluster, *, due_ms: int | None) -> None:
        """Ends a pass: writes the row if it has changed, and `schedule`s the next look, in one statement."""
        if after == before:
            self.schedule(after.cluster_id, due_ms)
            return
        after = msgspec.structs.replace(after, version=after.version + 1)
        self._wrote(after)
        changed = {**_changed(before, after), "due_ms": due_ms}
        _update(tuple(changed)).run(self._connection, id=after.cluster_id, **changed)

    def delete(self, cluster_id: str) -> None:
        """Removes the row for good, what was granted on the cluster, and its schedules."""
        self._changed.clusters.add(cluster_id)
        owner = self._connection.execute(select(t.c.creator).where(t.c.cluster_id == cluster_id)).scalar() or ""
        self._connection.execute(delete(t).where(t.c.cluster_id == cluster_id))
        self._connection.execute(delete(schedules).where(schedules.c.cluster_id == cluster_id))
        remove_grants(self._connection, self._changed, Place(ObjectKind.CLUSTER, cluster_id), owner=owner)

    def remember(self, cluster_id: str, *, purged_ms: int) -> None:
        """Remembers that this cluster existed, so that what it has left can be removed and, unless `purged_ms` is 0, a later
        request can be told what happened to it."""
        self._connection.execute(insert(purged), {"cluster_id": cluster_id, "purged_ms": purged_ms})

    def gone(self, cluster_ids: Iterable[str]) -> set[str]:
        """Which of the ids belong to clusters that are no more. Not those that this database has never known."""
        wanted, found = list(cluster_ids), set[str]()
        for start in range(0, len(wanted), 500):
            for column in (purged.c.cluster_id, charges.c.cluster_id):  # the second: of before all were remembered
                some = select(column).where(column.in_(wanted[start : start + 500])).distinct()
                found.update(self._connection.execute(some).scalars())
        return found - self.existing(found)

    def was_purged(self, cluster_id: str) -> bool:
        return self._connection.execute(_PURGED, {"id": cluster_id}).scalar() is not None

    def with_tasks(self, limit: int) -> list[str]:
        """Ids of the clusters whose workspace task can be done, longest waiting first."""
        return list(self._connection.execute(_WITH_TASKS, {"limit": limit}).scalars())

    def by_idempotency_token(self, token: str, user_name: str) -> Cluster | None:
        """The user's active cluster that was created with the token: one that is running or is to run."""
        for doc in self._connection.execute(_BY_TOKEN, {"token": token}).scalars():
            cluster = _decode(doc)
            if cluster.target is Target.RUNNING and cluster.creator_user_name == user_name:
                return cluster
        return None

    def running(self) -> list[str]:
        """Ids of the clusters that are running, starting or restarting."""
        states = (State.PENDING, State.RUNNING, State.RESTARTING, State.RESIZING)
        return list(self._connection.execute(select(t.c.cluster_id).where(t.c.state.in_(states), t.c.deleted_ms == 0)).scalars())

    def with_libraries(self, visible: Visible) -> list[Cluster]:
        """The visible clusters that have libraries, oldest first. What is hidden is not read."""
        query = select(t.c.doc).where(t.c.deleted_ms == 0, t.c.doc.contains('"libraries":[{', autoescape=True))
        if not visible.everything:
            shared = t.c.cluster_id.in_(granted(ObjectKind.CLUSTER, visible.holders))
            query = query.where(or_(t.c.creator == visible.owner, shared))
        found = map(_decode, self._connection.execute(query.order_by(t.c.created_ms, t.c.cluster_id)).scalars())
        return [each for each in found if each.libraries]

    def warehouses(self) -> list[Cluster]:
        """The clusters that are SQL warehouses, oldest first."""
        query = select(t.c.doc).where(t.c.source == ClusterSource.SQL.value, t.c.deleted_ms == 0)
        return list(map(_decode, self._connection.execute(query.order_by(t.c.created_ms, t.c.cluster_id)).scalars()))

    def count_pinned(self) -> int:
        return self._connection.execute(
            select(func.count()).select_from(t).where(positive(t.c.pinned_ms), t.c.deleted_ms == 0)
        ).scalar_one()

    def count_by_state(self) -> dict[str, int]:
        """How many clusters are in each public state."""
        rows = self._connection.execute(select(t.c.state, func.count()).where(t.c.deleted_ms == 0).group_by(t.c.state))
        return {row[0]: row[1] for row in rows}

    def touch(self, cluster_id: str) -> None:
        """Reports the cluster as changed although only its instances have changed."""
        self._changed.clusters.add(cluster_id)
