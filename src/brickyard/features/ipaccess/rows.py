"""Rows of IP access lists. There are few, and they are always read together."""

from __future__ import annotations

import msgspec
from sqlalchemy import Connection, delete, insert, select, update

from brickyard.features.ipaccess.model import IpAccessList
from brickyard.store.tables import ip_access_lists as t

_decode = msgspec.json.Decoder(IpAccessList).decode
_encode = msgspec.json.Encoder().encode


class IpAccessListRows:
    """Rows within one transaction. Who changes some locks the workspace's settings first (`access.conf`)."""

    def __init__(self, connection: Connection, *, locking: bool) -> None:
        self._connection = connection

    def all(self) -> list[IpAccessList]:
        """All lists, oldest first."""
        lists = map(_decode, self._connection.execute(select(t.c.doc)).scalars())
        return sorted(lists, key=lambda each: (each.created_at, each.list_id))

    def insert(self, row: IpAccessList) -> None:
        self._connection.execute(insert(t), {"list_id": row.list_id, "doc": _encode(row).decode()})

    def update(self, row: IpAccessList) -> None:
        self._connection.execute(update(t).where(t.c.list_id == row.list_id).values(doc=_encode(row).decode()))

    def delete(self, list_id: str) -> None:
        self._connection.execute(delete(t).where(t.c.list_id == list_id))
