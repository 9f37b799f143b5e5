"""Rows of charges. The passes over clusters write them; they outlive their clusters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec
from sqlalchemy import Connection, Select, bindparam, delete, insert, or_, select, update

from brickyard.domain.spend import Charge
from brickyard.store.prepared import Prepared
from brickyard.store.tables import charges as t

_decode = msgspec.json.Decoder(Charge).decode
_encode = msgspec.json.Encoder().encode
_COLUMNS = ("cluster_id", "instance_id", "started_ms", "ended_ms")
_OPEN = Prepared(select(t.c.doc).where(t.c.cluster_id == bindparam("id"), t.c.ended_ms == 0).order_by(t.c.instance_id))
_END = Prepared(
    update(t).where(t.c.cluster_id == bindparam("cluster"), t.c.instance_id == bindparam("instance"), t.c.ended_ms == 0),
    ["ended_ms", "doc"],
)
_AT_ONCE = 2_000  # rows
_BEGIN = Prepared(insert(t), (*_COLUMNS, "doc"))


class ChargeRows:
    """Rows within one transaction. Whoever changes the charges of a cluster holds the lock of its row."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def open(self, cluster_id: str) -> list[Charge]:
        """The charges of a cluster that have not ended."""
        return [_decode(doc) for (doc,) in _OPEN.all(self._connection, id=cluster_id)]

    def open_clusters(self) -> list[str]:
        """The clusters with charges that have not ended."""
        return sorted(self._connection.execute(select(t.c.cluster_id).where(t.c.ended_ms == 0).distinct()).scalars())

    def write(self, ended: Iterable[Charge], begun: Iterable[Charge]) -> None:
        """Records the end of open charges, and new ones."""
        for charge in ended:
            doc = _encode(charge).decode()
            at = {"cluster": charge.cluster_id, "instance": charge.instance_id}
            _END.run(self._connection, **at, ended_ms=charge.ended_ms, doc=doc)
        for charge in begun:
            _BEGIN.run(self._connection, **{name: getattr(charge, name) for name in _COLUMNS}, doc=_encode(charge).decode())

    def each_between(self, start_ms: int, end_ms: int, *, cluster_id: str = "") -> Iterator[Charge]:
        """The charges with a part between two times, of one cluster or of all, one after the other: few of them are in memory at
        once."""
        rows = self._connection.execution_options(yield_per=_AT_ONCE).execute(_between(start_ms, end_ms, cluster_id))
        for doc in rows.scalars():
            yield _decode(doc)

    def between(self, start_ms: int, end_ms: int, *, cluster_id: str = "") -> Sequence[Charge]:
        """The charges with a part between two times, of one cluster or of all."""
        return [_decode(doc) for doc in self._connection.execute(_between(start_ms, end_ms, cluster_id)).scalars()]

    def trim(self, before_ms: int, limit: int) -> int:
        """Removes charges that ended before that time; returns how many."""
        old = select(t.c.id).where(t.c.ended_ms > 0, t.c.ended_ms < before_ms).limit(limit)
        return self._connection.execute(delete(t).where(t.c.id.in_(old))).rowcount


def _between(start_ms: int, end_ms: int, cluster_id: str) -> Select[str]:
    query = select(t.c.doc).where(t.c.started_ms < end_ms, or_(t.c.ended_ms == 0, t.c.ended_ms > start_ms))
    return query.where(t.c.cluster_id == cluster_id) if cluster_id else query
