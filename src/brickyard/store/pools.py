"""Rows of instance pools."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import Any

import msgspec
from sqlalchemy import Connection, bindparam, delete, insert, select, update

from brickyard.domain.access import ObjectKind, Place, Visible
from brickyard.domain.pools import Pool
from brickyard.store.changeset import Changes
from brickyard.store.due import Due, DueRows
from brickyard.store.grants import granted, remove_grants, seen
from brickyard.store.tables import pools as t

_decode = msgspec.json.Decoder(Pool).decode
_encode = msgspec.json.Encoder().encode

_GET = select(t.c.doc).where(t.c.instance_pool_id == bindparam("id"))
_GET_LOCKED = _GET.with_for_update()
_ACTIVE = select(t.c.doc).where(t.c.deleted_ms == 0).order_by(t.c.created_ms, t.c.instance_pool_id)
_LISTED = _ACTIVE.with_only_columns(t.c.created_ms, t.c.instance_pool_id, t.c.doc)
_BY_NAME = select(t.c.instance_pool_id).where(t.c.unique_name == bindparam("name"))
_INSERT = insert(t)
_UPDATE = update(t).where(t.c.instance_pool_id == bindparam("id"))
_DELETE = delete(t).where(t.c.instance_pool_id == bindparam("id"))


def _columns(pool: Pool) -> dict[str, Any]:
    return {
        "unique_name": pool.spec.instance_pool_name if pool.active else pool.instance_pool_id,
        "creator": pool.creator_user_name,
        "created_ms": pool.created_ms,
        "deleted_ms": pool.deleted_ms,
        "doc": _encode(pool).decode(),
    }


class PoolRows(DueRows[str]):
    """Pool rows within one transaction. Lock order everywhere: clusters, then pools by id, then instances."""

    _due = Due(t, t.c.instance_pool_id)

    def __init__(self, connection: Connection, *, locking: bool, changed: Changes) -> None:
        self._connection = connection
        self._changed = changed
        self._get = _GET_LOCKED if locking else _GET

    def get(self, pool_id: str) -> Pool | None:
        """The pool, even a deleted one of which something is left. Inside `write` the row is locked until the commit."""
        doc = self._connection.execute(self._get, {"id": pool_id}).scalar()
        return None if doc is None else _decode(doc)

    def many(self, pool_ids: Iterable[str]) -> dict[str, Pool]:
        """The existing pools among those, by id; locked inside `write`, in a fixed order."""
        found = {pool_id: self.get(pool_id) for pool_id in sorted(set(pool_ids))}
        return {pool_id: pool for pool_id, pool in found.items() if pool is not None}

    def active(self) -> list[Pool]:
        """Every pool that is not deleted, oldest first."""
        return [_decode(doc) for doc in self._connection.execute(_ACTIVE).scalars()]

    def shown(self, visible: Visible) -> list[Pool]:
        """Those of them that a list shows, in the same order."""
        shared = t.c.instance_pool_id.in_(granted(ObjectKind.INSTANCE_POOL, visible.holders))
        parts = [self._connection.execute(_LISTED.where(only)).all() for only in seen(visible, t.c.creator, shared)]
        return [_decode(row[2]) for row in heapq.merge(*parts, key=lambda row: row[:2])]

    def named(self, name: str) -> str | None:
        """The id of the active pool with that name."""
        return self._connection.execute(_BY_NAME, {"name": name}).scalar()

    def insert(self, pool: Pool) -> None:
        """Inserts a new pool, due at once. Raises IntegrityError if its id or name is taken."""
        self._changed.pools.add(pool.instance_pool_id)
        self._connection.execute(_INSERT, {"instance_pool_id": pool.instance_pool_id, "due_ms": 0, **_columns(pool)})

    def update(self, pool: Pool) -> None:
        """Writes the whole row. `get` it in this transaction first."""
        self._changed.pools.add(pool.instance_pool_id)
        self._connection.execute(_UPDATE, {"id": pool.instance_pool_id, **_columns(pool)})

    def delete(self, pool_id: str) -> None:
        """Removes the row for good, and what was granted on the pool."""
        self._changed.pools.add(pool_id)
        pool = self.get(pool_id)
        self._connection.execute(_DELETE, {"id": pool_id})
        owner = pool.creator_user_name if pool is not None else ""
        remove_grants(self._connection, self._changed, Place(ObjectKind.INSTANCE_POOL, pool_id), owner=owner)
