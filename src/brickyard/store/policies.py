"""Rows of cluster policies."""

from __future__ import annotations

from typing import Any

import msgspec
from sqlalchemy import Connection, bindparam, delete, func, insert, select, update

from brickyard.domain.access import ObjectKind, Place, Visible
from brickyard.domain.policies import PolicyRow
from brickyard.domain.states import State
from brickyard.store.changeset import Changes
from brickyard.store.grants import granted, remove_grants, seen
from brickyard.store.indexes import named
from brickyard.store.tables import clusters
from brickyard.store.tables import policies as t

_decode = msgspec.json.Decoder(PolicyRow).decode
_encode = msgspec.json.Encoder().encode


def _columns(row: PolicyRow) -> dict[str, Any]:
    return {"unique_name": row.name, "creator": row.creator_user_name, "doc": _encode(row).decode()}


class PolicyRows:
    """Policy rows within one transaction."""

    def __init__(self, connection: Connection, *, changed: Changes) -> None:
        self._connection = connection
        self._changed = changed

    def get(self, policy_id: str) -> PolicyRow | None:
        doc = self._connection.execute(select(t.c.doc).where(t.c.policy_id == policy_id)).scalar()
        return None if doc is None else _decode(doc)

    def shown(self, visible: Visible) -> list[PolicyRow]:
        """The policies that a list shows, in no order."""
        shared = t.c.policy_id.in_(granted(ObjectKind.CLUSTER_POLICY, visible.holders))
        parts = [select(t.c.doc).where(only) for only in seen(visible, t.c.creator, shared)]
        return [_decode(doc) for part in parts for doc in self._connection.execute(part).scalars()]

    def named(self, name: str) -> str | None:
        """The id of the policy with that name."""
        return self._connection.execute(select(t.c.policy_id).where(t.c.unique_name == name)).scalar()

    def put(self, row: PolicyRow) -> None:
        """Inserts or replaces a policy. Raises IntegrityError if its name is taken."""
        self._changed.policies.add(row.policy_id)
        changed = self._connection.execute(
            update(t).where(t.c.policy_id == bindparam("id")), {"id": row.policy_id, **_columns(row)}
        )
        if changed.rowcount == 0:
            self._connection.execute(insert(t), {"policy_id": row.policy_id, **_columns(row)})

    def delete(self, policy_id: str) -> None:
        """Removes the policy, and what was granted on it."""
        self._changed.policies.add(policy_id)
        creator = self._connection.execute(select(t.c.creator).where(t.c.policy_id == policy_id)).scalar()
        self._connection.execute(delete(t).where(t.c.policy_id == policy_id))
        remove_grants(self._connection, self._changed, Place(ObjectKind.CLUSTER_POLICY, policy_id), owner=creator or "")

    def active(self, policy_id: str) -> list[str]:
        """The ids of all clusters that are not terminated and are governed by the policy, in order."""
        c = clusters.c
        query = select(c.cluster_id).where(
            c.policy_id == policy_id, named(c.policy_id), c.deleted_ms == 0, c.state != State.TERMINATED.value
        )
        return list(self._connection.execute(query.order_by(c.cluster_id)).scalars())

    def active_clusters(self, policy_id: str, user_name: str) -> int:
        """How many of a user's clusters that are not terminated are governed by the policy."""
        c = clusters.c
        query = select(func.count()).where(
            c.policy_id == policy_id,
            named(c.policy_id),
            c.creator == user_name,
            c.deleted_ms == 0,
            c.state != State.TERMINATED.value,
        )
        return int(self._connection.execute(query).scalar() or 0)
