"""Ports of a cluster's driver that are reachable from outside: the calls of the /v1/clusters dialect."""

from __future__ import annotations

from collections.abc import Sequence

from brickyard.access import Authorizer
from brickyard.clusters.v1.ports import PortPlanner
from brickyard.clusters.v1.problems import permitted, refuse
from brickyard.domain.access import Permission
from brickyard.domain.caller import Caller
from brickyard.domain.cluster import Cluster
from brickyard.domain.errors import ResourceNotFound
from brickyard.domain.ports import (
    AddPort,
    ChangePort,
    GetProxy,
    PortMapping,
    PortUpdate,
    PortView,
    Proxy,
    RemovePort,
    SetProxy,
)
from brickyard.store.store import Store
from brickyard.store.tx import Tx


class PortService:
    """One per server. Methods raise ApiError."""

    def __init__(self, *, store: Store, authorizer: Authorizer, planner: PortPlanner) -> None:
        self._store = store
        self._authorizer = authorizer
        self._planner = planner

    async def get(self, caller: Caller, request: GetProxy) -> Proxy:
        """All mappings of a cluster."""

        def work(tx: Tx) -> Proxy:
            return self._proxy(
                tx, permitted(tx, self._authorizer, caller, request.cluster_id, Permission.CAN_ATTACH_TO, to="see")
            )

        return await self._store.read(work)

    async def set(self, caller: Caller, request: SetProxy) -> Proxy:
        """Replaces all mappings of a cluster."""
        return await self._change(caller, request.cluster_id, request.port_mappings, field="port_mappings", whole=True)

    async def add(self, caller: Caller, request: AddPort) -> PortView:
        """One more mapping."""
        proxy = await self._change(caller, request.cluster_id, [_update(request)], field="", add_only=True)
        return proxy.port_mappings[-1]

    async def change(self, caller: Caller, request: ChangePort) -> PortView:
        """Changes a mapping."""
        update = _update(request, id=request.port_id)
        proxy = await self._change(caller, request.cluster_id, [update], field="", of=request.port_id)
        return next(each for each in proxy.port_mappings if each.id == request.port_id)

    async def remove(self, caller: Caller, request: RemovePort) -> None:
        """Removes a mapping."""
        update = PortUpdate(id=request.port_id, remove=True)
        await self._change(caller, request.cluster_id, [update], field="", of=request.port_id)

    async def http(self, cluster_id: str, internal_port: int) -> PortMapping | None:
        """The http mapping of a port, for those who may see the cluster."""
        return await self._store.read(lambda tx: tx.ports.http(cluster_id, internal_port))

    async def _change(
        self,
        caller: Caller,
        cluster_id: str,
        updates: Sequence[PortUpdate],
        *,
        field: str,
        of: str = "",
        whole: bool = False,
        add_only: bool = False,
    ) -> Proxy:
        """`of`: the mapping that must exist."""

        def work(tx: Tx) -> Proxy:
            cluster = permitted(tx, self._authorizer, caller, cluster_id, Permission.CAN_MANAGE, to="change the ports of")
            tx.lock(tx.ports.PORTS)
            if of and not any(row.mapping.port_id == of for row in tx.ports.of_cluster(cluster_id)):
                raise ResourceNotFound(f"Cluster {cluster_id} has no port mapping {of[:140]}.", resource="port", id=of[:140])
            planned = self._planner.planned(tx, cluster_id, updates, field=field, whole=whole, add_only=add_only)
            refuse(planned.problems)
            self._planner.write(tx, cluster_id, planned.mappings)
            return self._proxy(tx, cluster)

        return await self._store.write(work)

    def _proxy(self, tx: Tx, cluster: Cluster) -> Proxy:
        rows = tx.ports.of_cluster(cluster.cluster_id)
        return Proxy(proxy_url=self._planner.proxy_url(cluster.cluster_id), port_mappings=self._planner.views(cluster, rows))


def _update(request: AddPort | ChangePort, *, id: str | None = None) -> PortUpdate:
    return PortUpdate(
        id=id,
        internal_port=request.internal_port,
        external_port=request.external_port,
        protocol=request.protocol,
        description=request.description,
        bind_address=request.bind_address,
        strip_prefix=request.strip_prefix,
    )
