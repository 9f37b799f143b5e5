"""The /v1/clusters API: ports of a cluster's driver that are reachable from outside."""

from __future__ import annotations

from brickyard.api.edge.group import CAN_ATTACH, CAN_MANAGE, Group
from brickyard.api.edge.registry import Operation
from brickyard.api.v1.dialect import V1
from brickyard.domain import ports
from brickyard.domain.caller import Caller
from brickyard.features.ports.service import PortService


async def _get(service: PortService, caller: Caller, request: ports.GetProxy) -> ports.ProxyAnswer:
    return ports.ProxyAnswer(data=await service.get(caller, request))


async def _set(service: PortService, caller: Caller, request: ports.SetProxy) -> ports.ProxyAnswer:
    return ports.ProxyAnswer(data=await service.set(caller, request))


async def _add(service: PortService, caller: Caller, request: ports.AddPort) -> ports.PortAnswer:
    return ports.PortAnswer(data=await service.add(caller, request))


async def _change(service: PortService, caller: Caller, request: ports.ChangePort) -> ports.PortAnswer:
    return ports.PortAnswer(data=await service.change(caller, request))


async def _remove(service: PortService, caller: Caller, request: ports.RemovePort) -> ports.RemovedPortAnswer:
    await service.remove(caller, request)
    return ports.RemovedPortAnswer(data=ports.RemovedPort(id=request.port_id))


_PORTS = Group(
    "gpu_ports",
    lambda ctx: ctx.services.ports,
    "/v1/clusters/{cluster_id}/proxy",
    needs=CAN_MANAGE,
    dialect=V1,
    errors=(404, 422),
)
OPERATIONS: tuple[Operation, ...] = (
    _PORTS("GET", _get, "A cluster's port mappings", name="get", needs=CAN_ATTACH, errors=(404,)),
    _PORTS("PUT", _set, "Replace all port mappings of a cluster", name="set"),
    _PORTS("POST /ports", _add, "Add a port mapping", name="add"),
    _PORTS("PUT /ports/{port_id}", _change, "Change a port mapping", name="change"),
    _PORTS("DELETE /ports/{port_id}", _remove, "Remove a port mapping", name="remove", errors=(404,)),
)
