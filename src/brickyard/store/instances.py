"""Rows of instances."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Connection, and_, bindparam, delete, func, insert, select, text, update

from brickyard.domain.cluster import Instance
from brickyard.domain.instances import InstanceState, check_edge
from brickyard.domain.pools import Standing, standing
from brickyard.store.changeset import Changes
from brickyard.store.indexes import named
from brickyard.store.prepared import Prepared
from brickyard.store.tables import instances as t

_KEYS = ("cluster_id", "state", "pool_id", "standing", "provider")
_decode = msgspec.json.Decoder(Instance).decode
_encode = msgspec.json.Encoder().encode

_BY_ID = select(t.c.doc).where(t.c.instance_id == bindparam("id"))
_GET = Prepared(_BY_ID)
_GET_LOCKED = Prepared(_BY_ID.with_for_update())
_BY_CLUSTER = select(t.c.doc).where(t.c.cluster_id == bindparam("id")).order_by(t.c.instance_id)
_OF_CLUSTER = Prepared(_BY_CLUSTER)
_OF_CLUSTER_LOCKED = Prepared(_BY_CLUSTER.with_for_update())
_WITHIN = _BY_CLUSTER.limit(bindparam("limit"))
_OF_CLUSTER_WITHIN = Prepared(_WITHIN)
_OF_CLUSTER_WITHIN_LOCKED = Prepared(_WITHIN.with_for_update())
_DOC = select(t.c.doc)
_INSERT = Prepared(insert(t), t.c.keys())
_DELETE = Prepared(delete(t).where(t.c.instance_id == bindparam("id")))

_IN_POOL = select(t.c.doc).where(t.c.pool_id == bindparam("id"), named(t.c.pool_id))
_OF_POOL = _IN_POOL.where(t.c.cluster_id == "").order_by(t.c.instance_id)
_LIVE_OF_POOL = _IN_POOL.where(t.c.standing != Standing.NONE).order_by(t.c.instance_id)
_TO_TAKE = _IN_POOL.where(t.c.standing >= Standing.WARM).order_by(t.c.standing, t.c.instance_id).limit(bindparam("limit"))
_STANDINGS = select(t.c.pool_id, t.c.standing, func.count()).where(named(t.c.pool_id)).group_by(t.c.pool_id, t.c.standing)
_OWNER = Prepared(select(t.c.cluster_id, t.c.pool_id).where(t.c.instance_id == bindparam("id")))

# Locks the cluster's row first: the join has nothing to lock before the CTE has returned a row. If a row changed while this
# waited, its new version is read, as with FOR UPDATE; an instance that changed hands is not found.
_GET_WITH_CLUSTER = Prepared(
    text("""
    WITH owner AS MATERIALIZED (
        SELECT clusters.cluster_id FROM clusters
        WHERE clusters.cluster_id = (SELECT instances.cluster_id FROM instances WHERE instances.instance_id = :id) FOR UPDATE)
    SELECT instances.doc FROM owner JOIN instances ON instances.cluster_id = owner.cluster_id
    WHERE instances.instance_id = :id FOR UPDATE OF instances
""")
)


class InstanceRows:
    """Instance rows within one transaction."""

    def __init__(self, connection: Connection, *, locking: bool, changed: Changes) -> None:
        self._connection = connection
        self._get = _GET_LOCKED if locking else _GET
        self._of_cluster = _OF_CLUSTER_LOCKED if locking else _OF_CLUSTER
        self._of_cluster_within = _OF_CLUSTER_WITHIN_LOCKED if locking else _OF_CLUSTER_WITHIN
        self._locking = locking
        self._changed = changed
        self._rows: dict[str, Instance] = {}  # read or written in this transaction: nobody else can change them

    def get(self, instance_id: str) -> Instance | None:
        """The instance. Inside `write` the row is locked until the commit: lock its cluster first, or risk a deadlock."""
        doc = self._get.scalar(self._connection, id=instance_id)
        return None if doc is None else self._seen(_decode(doc))

    def guarded(self, instance_id: str) -> Instance | None:
        """The instance without a lock on its row, for a caller that has locked its pool, as every writer of an idle instance
        does. A transaction that has since taken it from the pool may hold the row's lock and wait for the pool's."""
        doc = _GET.scalar(self._connection, id=instance_id)
        return None if doc is None else self._seen(_decode(doc))

    def get_with_cluster(self, instance_id: str) -> Instance | None:
        """The instance, locked after its cluster, in one statement; None if no cluster has it. For PostgreSQL."""
        doc = _GET_WITH_CLUSTER.scalar(self._connection, id=instance_id)
        return None if doc is None else self._seen(_decode(doc))

    def of_cluster(self, cluster_id: str) -> list[Instance]:
        """All instances of a cluster, ordered by id. Inside `write` the rows are locked."""
        return [self._seen(_decode(doc)) for (doc,) in self._of_cluster.all(self._connection, id=cluster_id)]

    def of_cluster_within(self, cluster_id: str, limit: int) -> tuple[list[Instance], bool]:
        """The instances of a cluster, ordered by id, and False. If there are more than `limit`, some of them and True: first
        those that are not just being ended."""
        docs = self._of_cluster_within.all(self._connection, id=cluster_id, limit=limit + 1)
        if len(docs) <= limit:
            return [self._seen(_decode(doc)) for (doc,) in docs], False
        return self._first(t.c.cluster_id == cluster_id, limit, lock=self._locking), True

    def _first(self, of: ColumnElement[bool], limit: int, *, lock: bool) -> list[Instance]:
        """At most `limit` of those instances: the ones that somebody must act upon, then those that their providers end."""
        found: list[Instance] = []
        for ending in (False, True):
            query = _DOC.where(of, (t.c.state == InstanceState.TERMINATING.value) == ending).limit(limit - len(found))
            rows = self._connection.execute(query.with_for_update() if lock else query).scalars()
            found += [self._seen(_decode(doc)) for doc in rows]
        return found

    def of_clusters(self, cluster_ids: Iterable[str]) -> dict[str, list[Instance]]:
        """Instances by cluster; a cluster without instances has an empty list."""
        wanted = list(cluster_ids)
        found: dict[str, list[Instance]] = {cluster_id: [] for cluster_id in wanted}
        for start in range(0, len(wanted), 500):
            rows = self._connection.execute(
                select(t.c.doc).where(t.c.cluster_id.in_(wanted[start : start + 500])).order_by(t.c.instance_id)
            ).scalars()
            for doc in rows:
                instance = _decode(doc)
                found[instance.cluster_id].append(instance)
        return found

    def states(self) -> dict[str, tuple[str, InstanceState]]:
        """(cluster id, state) of every instance, without decoding documents. For the monitor."""
        rows = self._connection.execute(select(t.c.instance_id, t.c.cluster_id, t.c.state))
        return {instance_id: (cluster_id, InstanceState(state)) for instance_id, cluster_id, state in rows}

    def by_provider(self, cluster_ids: Collection[str] | None = None) -> dict[str, dict[str, tuple[str, InstanceState]]]:
        """The same of all instances or of those clusters, by the name of the provider on record."""
        found: dict[str, dict[str, tuple[str, InstanceState]]] = {}
        pairs: dict[tuple[str, str], tuple[str, InstanceState]] = {}  # one for all nodes of a cluster that are in one state
        query = select(t.c.provider, t.c.instance_id, t.c.cluster_id, t.c.state)
        wanted = None if cluster_ids is None else list(cluster_ids)
        parts = [query]
        if wanted is not None:  # SQLite limits the variables of a statement
            parts = [query.where(t.c.cluster_id.in_(wanted[start : start + 500])) for start in range(0, len(wanted), 500)]
        for provider, instance_id, cluster_id, state in (row for part in parts for row in self._connection.execute(part)):
            pair = pairs.get((cluster_id, state))
            if pair is None:
                pair = pairs[cluster_id, state] = (cluster_id, InstanceState(state))
            found.setdefault(provider, {})[instance_id] = pair
        return found

    def many(self, instance_ids: Iterable[str]) -> list[Instance]:
        """The existing instances among those."""
        wanted = list(instance_ids)
        found: list[Instance] = []
        for start in range(0, len(wanted), 500):
            rows = self._connection.execute(select(t.c.doc).where(t.c.instance_id.in_(wanted[start : start + 500])))
            found.extend(_decode(doc) for doc in rows.scalars())
        return found

    def many_locked(self, instance_ids: Iterable[str]) -> list[Instance]:
        """The same, locked until the commit inside `write`, in a fixed order. Lock their clusters and pools first."""
        wanted = sorted(instance_ids)
        found: list[Instance] = []
        for start in range(0, len(wanted), 500):
            query = _DOC.where(t.c.instance_id.in_(wanted[start : start + 500])).order_by(t.c.instance_id)
            rows = self._connection.execute(query.with_for_update() if self._locking else query).scalars()
            found += [self._seen(_decode(doc)) for doc in rows]
        return found

    def insert(self, instance: Instance) -> None:
        self._changed.wrote(instance)
        _INSERT.run(self._connection, instance_id=instance.instance_id, **_columns(instance))

    def update(self, instance: Instance) -> None:
        """Writes the whole row. Raises ValueError for a transition that `domain.instances` does not allow."""
        old = self._rows.get(instance.instance_id) or self.get(instance.instance_id)
        if old is None:
            raise ValueError(f"instance {instance.instance_id} does not exist")
        check_edge(old.state, instance.state)
        self._seen(instance)
        self._changed.wrote(instance)
        if instance.assignment is not old.assignment and instance.assignment != old.assignment:
            self._changed.instances.add(instance.instance_id)
        if old.live and not instance.live:
            self._changed.ended.add(instance.instance_id)
        # Only what has changed: SQLite writes every index of the columns that it is given, changed or not.
        before, columns = _keys(old), _columns(instance)
        changed = {name: columns[name] for name, value in zip(_KEYS, before, strict=True) if columns[name] != value}
        changed["doc"] = columns["doc"]
        _update(tuple(changed)).run(self._connection, id=instance.instance_id, **changed)

    def delete(self, instance: Instance) -> None:
        self._changed.wrote(instance)
        self._rows.pop(instance.instance_id, None)
        _DELETE.run(self._connection, id=instance.instance_id)

    def idle_of_pool(self, pool_id: str) -> list[Instance]:
        """The instances of a pool that no cluster has, in any state, ordered by id. Lock the pool first: every writer of one of
        them does."""
        return [self._seen(_decode(doc)) for doc in self._connection.execute(_OF_POOL, {"id": pool_id}).scalars()]

    def idle_of_pool_within(self, pool_id: str, limit: int) -> tuple[list[Instance], int]:
        """The same, and 0. If there are more than `limit`, some of them, first those that are not just being ended, and how many
        others there are."""
        docs = self._connection.execute(_OF_POOL.limit(limit + 1), {"id": pool_id}).scalars().all()
        if len(docs) <= limit:
            return [self._seen(_decode(doc)) for doc in docs], 0
        idle = and_(t.c.pool_id == pool_id, named(t.c.pool_id), t.c.cluster_id == "")
        total = self._connection.execute(select(func.count()).select_from(t).where(idle)).scalar_one()
        return self._first(idle, limit, lock=False), total - limit

    def live_of_pool(self, pool_id: str) -> list[Instance]:
        """The instances of a pool that are not being ended, used or not, ordered by id. Without locks: only to show them."""
        return [_decode(doc) for doc in self._connection.execute(_LIVE_OF_POOL, {"id": pool_id}).scalars()]

    def to_take(self, pool_id: str, limit: int) -> list[Instance]:
        """The best idle instances of a pool, at most `limit`: warm ones first. Lock the pool first."""
        rows = self._connection.execute(_TO_TAKE, {"id": pool_id, "limit": limit}).scalars()
        return [self._seen(_decode(doc)) for doc in rows]

    def standings(self, *pool_ids: str) -> dict[str, dict[Standing, int]]:
        """How many instances have each standing, by pool: for these pools, or for all pools with instances."""
        found: dict[str, dict[Standing, int]] = {}
        for start in range(0, len(pool_ids) or 1, 500):  # SQLite limits the variables of a statement
            some = _STANDINGS.where(t.c.pool_id.in_(pool_ids[start : start + 500])) if pool_ids else _STANDINGS
            for name, kind, count in self._connection.execute(some):
                found.setdefault(name, {})[Standing(kind)] = count
        return found

    def count_of_pool(self, pool_id: str) -> int:
        """How many rows a pool has, in any state and with any cluster."""
        of_pool = select(func.count()).select_from(t).where(t.c.pool_id == pool_id, named(t.c.pool_id))
        return self._connection.execute(of_pool).scalar_one()

    def owner_of(self, instance_id: str) -> tuple[str, str] | None:
        """(cluster id or "", pool id or ""), without a lock: check again once the owner is locked."""
        row = _OWNER.first(self._connection, id=instance_id)
        return None if row is None else (row[0], row[1])

    def count_by_state(self) -> dict[str, int]:
        """How many instances are in each state."""
        rows = self._connection.execute(select(t.c.state, func.count()).group_by(t.c.state))
        return {row[0]: row[1] for row in rows}

    def _seen(self, instance: Instance) -> Instance:
        self._rows[instance.instance_id] = instance
        return instance


@functools.cache
def _update(columns: tuple[str, ...]) -> Prepared:
    """Sets these columns. There are few ways in which rows change."""
    return Prepared(update(t).where(t.c.instance_id == bindparam("id")), columns)


def _keys(instance: Instance) -> tuple[Any, ...]:
    """The columns beside the document."""
    return instance.cluster_id, instance.state.value, instance.pool_id, standing(instance).value, instance.provider


def _columns(instance: Instance) -> dict[str, Any]:
    return {**dict(zip(_KEYS, _keys(instance), strict=True)), "doc": _encode(instance).decode()}
