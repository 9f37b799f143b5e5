"""Rows of snapshots of workspace directories."""

from __future__ import annotations

from typing import Any

import msgspec
from sqlalchemy import Connection, delete, func, insert, select, update

from brickyard.domain.snapshots import SnapshotRow, SnapshotStatus
from brickyard.store.changeset import Changes
from brickyard.store.tables import snapshots as t

_decode = msgspec.json.Decoder(SnapshotRow).decode
_encode = msgspec.json.Encoder().encode


def _columns(row: SnapshotRow) -> dict[str, Any]:
    return {
        "cluster_id": row.cluster_id,
        "created_ms": row.created_ms,
        "status": row.status.value,
        "doc": _encode(row).decode(),
    }


class SnapshotRows:
    """Within one transaction. Whoever writes a row has locked its cluster's row, if there is one."""

    def __init__(self, connection: Connection, *, changed: Changes) -> None:
        self._connection = connection
        self._changed = changed

    def get(self, snapshot_id: str) -> SnapshotRow | None:
        doc = self._connection.execute(select(t.c.doc).where(t.c.snapshot_id == snapshot_id)).scalar()
        return None if doc is None else _decode(doc)

    def insert(self, row: SnapshotRow) -> None:
        self._changed.snapshots |= row.status is SnapshotStatus.CREATING
        self._connection.execute(insert(t), {"snapshot_id": row.snapshot_id, **_columns(row)})

    def finish(self, row: SnapshotRow) -> bool:
        """Writes what has become of a snapshot that is being created. Returns False, and does nothing, if it is none any more."""
        being = (t.c.snapshot_id == row.snapshot_id) & (t.c.status == SnapshotStatus.CREATING.value)
        return bool(self._connection.execute(update(t).where(being), _columns(row)).rowcount)

    def delete(self, snapshot_id: str) -> None:
        self._connection.execute(delete(t).where(t.c.snapshot_id == snapshot_id))

    def delete_all(self, cluster_id: str) -> None:
        """Removes all of a cluster's snapshots."""
        self._connection.execute(delete(t).where(t.c.cluster_id == cluster_id))

    def of_cluster(self, cluster_id: str, *, offset: int = 0, limit: int = 1_000) -> list[SnapshotRow]:
        """A cluster's snapshots, newest first."""
        query = select(t.c.doc).where(t.c.cluster_id == cluster_id).order_by(t.c.created_ms.desc(), t.c.snapshot_id)
        return [_decode(doc) for doc in self._connection.execute(query.offset(offset).limit(limit)).scalars()]

    def count(self, cluster_id: str, *statuses: SnapshotStatus) -> int:
        """How many snapshots of these states a cluster has; of any state if none is named."""
        query = select(func.count()).where(t.c.cluster_id == cluster_id)
        if statuses:
            query = query.where(t.c.status.in_([each.value for each in statuses]))
        return int(self._connection.execute(query).scalar() or 0)

    def creating(self, limit: int) -> list[str]:
        """Ids of the snapshots that are being created, oldest first."""
        query = select(t.c.snapshot_id).where(t.c.status == SnapshotStatus.CREATING.value).order_by(t.c.created_ms).limit(limit)
        return list(self._connection.execute(query).scalars())

    def names(self) -> list[str]:
        """The names of all manifests that may be needed; of a snapshot that is being created, the beginning: its id and a dot."""
        rows = map(_decode, self._connection.execute(select(t.c.doc)).scalars())
        return [f"{row.snapshot_id}.{row.sha256}" for row in rows if row.status is not SnapshotStatus.FAILED]

    def trim(self, status: SnapshotStatus, before_ms: int) -> int:
        """Removes those of a status that were asked for before that time; returns how many."""
        old = (t.c.status == status.value) & (t.c.created_ms < before_ms)
        return self._connection.execute(delete(t).where(old)).rowcount
