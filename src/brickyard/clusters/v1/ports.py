"""Ports of a cluster's driver that are reachable from outside, within the transactions of calls that change clusters or ports.

A mapping is the cluster's, whether it runs or not. `gateway/` serves those of running clusters.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol
from urllib.parse import urlsplit

import msgspec

from brickyard.domain.clock import Ids
from brickyard.domain.cluster import Cluster
from brickyard.domain.ports import PortMapping, PortRow, PortUpdate, PortView
from brickyard.domain.strict import Problem
from brickyard.machine.listening import CannotListen, bound_alone
from brickyard.plan import ports as plan
from brickyard.plan.ports import Planned, Rules
from brickyard.store.tx import Tx

Held = Callable[[str, int], str]  # why nothing can listen at an address and port, or ""


def held(address: str, port: int) -> str:
    """Why nothing can listen there now, found by trying; or ""."""
    try:
        bound_alone(address, port).close()
    except CannotListen as error:
        return str(error)
    return ""


class OpenPorts(Protocol):
    """What listens for clusters on this server."""

    @property
    def ports(self) -> Collection[int]:
        """External ports on which this server listens."""
        ...


class PortPlanner:
    """Plans and writes mappings within transactions. `server_url`: this server's; `external_url`: the one to show instead
    for http mappings. `own_ports`: those that the workspace's servers
    use themselves; `addresses`: where listeners may be besides loopback; `open_here`: ports on which this server listens for
    mappings now."""

    def __init__(
        self,
        *,
        ids: Ids,
        server_url: str,
        external_url: str = "",
        own_ports: Collection[int] = (),
        addresses: Collection[str] = (),
        open_here: OpenPorts | None = None,
        held: Held = held,
    ) -> None:
        self._ids = ids
        self._server_url = server_url
        self._shown_url = external_url or server_url.rstrip("/")
        self._own_ports = own_ports
        self._addresses = addresses
        self._open_here = open_here
        self._held = held

    def planned(
        self,
        tx: Tx,
        cluster_id: str,
        updates: Sequence[PortUpdate],
        *,
        field: str,
        whole: bool = False,
        add_only: bool = False,
    ) -> Planned:
        """What updates would make of a cluster's mappings; with `whole` they are all that it is to have. The cluster need not
        exist yet."""
        current = [row.mapping for row in tx.ports.of_cluster(cluster_id)]
        rules = Rules(
            http_port=self._http_port,
            own_ports={self._http_port, *self._own_ports},
            taken=tx.ports.external(but=cluster_id),
            spark_ports=plan.spark_ports(tx.instances.of_cluster(cluster_id)),
            addresses=self._addresses,
        )
        if whole:
            planned = plan.replaced(cluster_id, current, updates, field=field, rules=rules, new_id=self._new_id)
        else:
            planned = plan.merged(cluster_id, current, updates, field=field, rules=rules, new_id=self._new_id, add_only=add_only)
        if planned.problems:
            return planned
        return Planned(planned.mappings, self._taken(current, planned.mappings, updates, field))

    def write(self, tx: Tx, cluster_id: str, mappings: Sequence[PortMapping]) -> None:
        """Writes a cluster's mappings. They may have been planned before it had an id."""
        tx.ports.replace(cluster_id, [msgspec.structs.replace(each, cluster_id=cluster_id) for each in mappings])

    def views(self, cluster: Cluster, rows: Sequence[PortRow]) -> list[PortView]:
        """Mappings as they are shown."""
        return [plan.view(row, cluster, base_url=self._shown_url, http_port=_port(self._shown_url)) for row in rows]

    def proxy_url(self, cluster_id: str) -> str:
        """Below it are the paths of the cluster's http mappings."""
        return f"{self._shown_url}/ports/{cluster_id}/"

    @property
    def _http_port(self) -> int:
        return _port(self._server_url)

    def _new_id(self) -> str:
        return f"port_{self._ids.hex(16)}"

    def _taken(
        self, current: Sequence[PortMapping], mappings: Sequence[PortMapping], updates: Sequence[PortUpdate], field: str
    ) -> list[Problem]:
        """New listeners where something else listens. Those of mappings that are just being removed will have gone."""
        open_already = {
            *(each.external_port for each in current),
            *(self._open_here.ports if self._open_here is not None else ()),
        }
        found = []
        for each in mappings:
            if not each.external_port or each.external_port in open_already:
                continue
            if why := self._held(each.bind_address, each.external_port):
                name = f"{_place(field, updates, each)}external_port"
                found.append(Problem(field=name, reason=why, requested=each.external_port))
        return found


def _port(url: str) -> int:
    parts = urlsplit(url)
    return parts.port or (443 if parts.scheme == "https" else 80)


def _place(field: str, updates: Sequence[PortUpdate], mapping: PortMapping) -> str:
    """Where a request has this mapping: such as `port_mappings[2].`; "" where it is the whole request."""
    if not field:
        return ""
    same = (
        number
        for number, each in enumerate(updates)
        if each.id == mapping.port_id or (each.internal_port == mapping.internal_port and each.protocol is mapping.protocol)
    )
    return f"{field}[{next(same, 0)}]."
