"""Rows of port mappings, and what the server that listens has made of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from sqlalchemy import Connection, Select, bindparam, delete, insert, select, update

from brickyard.domain.ports import PortMapping, PortProtocol, PortRow
from brickyard.store.changeset import Changes
from brickyard.store.prepared import Prepared
from brickyard.store.tables import ports as t

_decode = msgspec.json.Decoder(PortMapping).decode
_encode = msgspec.json.Encoder().encode
_ROW = select(t.c.doc, t.c.opened, t.c.fault)
_TELL = (
    update(t)
    .where(t.c.port_id == bindparam("id"), t.c.doc == bindparam("known"))
    .values(opened=bindparam("at"), fault=bindparam("why"))
)
_EXTERNAL = Prepared(select(t.c.external_port).where(t.c.external_port.is_not(None), t.c.cluster_id != bindparam("but")))
_OF_CLUSTER = Prepared(_ROW.where(t.c.cluster_id == bindparam("id")).order_by(t.c.position, t.c.port_id))


class PortRows:
    """Rows within one transaction. Whoever changes a cluster's mappings locks PORTS first (`Tx.lock`), after the cluster's row:
    two clusters may want one external port."""

    PORTS = "ports"

    def __init__(self, connection: Connection, *, changed: Changes) -> None:
        self._connection = connection
        self._changed = changed

    def of_cluster(self, cluster_id: str) -> list[PortRow]:
        """The mappings of a cluster, in the order in which they were made."""
        return [_row(*row) for row in _OF_CLUSTER.all(self._connection, id=cluster_id)]

    def of_clusters(self, cluster_ids: Iterable[str]) -> dict[str, list[PortRow]]:
        """Those of at most a few hundred clusters, by id."""
        found: dict[str, list[PortRow]] = {each: [] for each in cluster_ids}
        for row in self._read(_ROW.where(t.c.cluster_id.in_(list(found))).order_by(t.c.position, t.c.port_id)):
            found[row.mapping.cluster_id].append(row)
        return found

    def http(self, cluster_id: str, internal_port: int) -> PortMapping | None:
        """The http mapping of that port, if there is one."""
        for row in self.of_cluster(cluster_id):
            if (row.mapping.internal_port, row.mapping.protocol) == (internal_port, PortProtocol.HTTP):
                return row.mapping
        return None

    def external(self, *, but: str) -> set[int]:
        """The external ports of all clusters but that one."""
        return {port for (port,) in _EXTERNAL.all(self._connection, but=but)}

    def listening(self) -> list[PortRow]:
        """The mappings of all clusters that have a listener while their cluster runs."""
        return self._read(_ROW.where(t.c.external_port.is_not(None)).order_by(t.c.port_id))

    def tell(self, rows: Iterable[PortRow]) -> None:
        """Writes down what has become of listeners, unless a mapping has changed meanwhile."""
        for row in rows:
            self._changed.clusters.add(row.mapping.cluster_id)
            self._connection.execute(
                _TELL, {"id": row.mapping.port_id, "known": _text(row.mapping), "at": row.opened, "why": row.fault}
            )

    def replace(self, cluster_id: str, mappings: Sequence[PortMapping]) -> None:
        """Writes all mappings of a cluster. What is known of a listener is forgotten if its mapping has changed."""
        before = {row.mapping.port_id: row for row in self.of_cluster(cluster_id)}
        self.delete(cluster_id)
        rows = [
            {
                "port_id": each.port_id,
                "cluster_id": cluster_id,
                "external_port": each.external_port or None,
                "position": position,
                "opened": row.opened if (row := before.get(each.port_id)) and row.mapping == each else 0,
                "fault": row.fault if row and row.mapping == each else "",
                "doc": _text(each),
            }
            for position, each in enumerate(mappings)
        ]
        if rows:
            self._connection.execute(insert(t), rows)

    def delete(self, cluster_id: str) -> None:
        """Removes all mappings of a cluster."""
        self._changed.clusters.add(cluster_id)
        self._connection.execute(delete(t).where(t.c.cluster_id == cluster_id))

    def _read(self, query: Select[Any]) -> list[PortRow]:
        return [_row(doc, opened, fault) for doc, opened, fault in self._connection.execute(query)]


def _text(mapping: PortMapping) -> str:
    return _encode(mapping).decode()


def _row(doc: str, opened: int, fault: str) -> PortRow:
    return PortRow(mapping=_decode(doc), opened=opened, fault=fault)
