"""The /v1/clusters API: ports of a cluster's driver that are reachable from outside."""

from __future__ import annotations

from brickyard.api.context import ApiContext
from brickyard.api.edge.registry import Operation
from brickyard.api.v1.operations import MANAGE, SEE, declared
from brickyard.domain import ports
from brickyard.services.caller import Caller

_PROXY = "/v1/clusters/{cluster_id}/proxy"
_PORT = f"{_PROXY}/ports/{{port_id}}"


async def _get(ctx: ApiContext, caller: Caller, request: ports.GetProxy) -> ports.ProxyAnswer:
    return ports.ProxyAnswer(data=await ctx.services.ports.get(caller, request))


async def _set(ctx: ApiContext, caller: Caller, request: ports.SetProxy) -> ports.ProxyAnswer:
    return ports.ProxyAnswer(data=await ctx.services.ports.set(caller, request))


async def _add(ctx: ApiContext, caller: Caller, request: ports.AddPort) -> ports.PortAnswer:
    return ports.PortAnswer(data=await ctx.services.ports.add(caller, request))


async def _change(ctx: ApiContext, caller: Caller, request: ports.ChangePort) -> ports.PortAnswer:
    return ports.PortAnswer(data=await ctx.services.ports.change(caller, request))


async def _remove(ctx: ApiContext, caller: Caller, request: ports.RemovePort) -> ports.RemovedPortAnswer:
    await ctx.services.ports.remove(caller, request)
    return ports.RemovedPortAnswer(data=ports.RemovedPort(id=request.port_id))


OPERATIONS: tuple[Operation, ...] = (
    declared(
        "gpu_ports.get",
        "GET",
        _PROXY,
        _get,
        "A cluster's port mappings",
        request=ports.GetProxy,
        response=ports.ProxyAnswer,
        needs=SEE,
    ),
    declared(
        "gpu_ports.set",
        "PUT",
        _PROXY,
        _set,
        "Replace all port mappings of a cluster",
        request=ports.SetProxy,
        response=ports.ProxyAnswer,
        needs=MANAGE,
        errors=(404, 422),
    ),
    declared(
        "gpu_ports.add",
        "POST",
        f"{_PROXY}/ports",
        _add,
        "Add a port mapping",
        request=ports.AddPort,
        response=ports.PortAnswer,
        needs=MANAGE,
        errors=(404, 422),
    ),
    declared(
        "gpu_ports.change",
        "PUT",
        _PORT,
        _change,
        "Change a port mapping",
        request=ports.ChangePort,
        response=ports.PortAnswer,
        needs=MANAGE,
        errors=(404, 422),
    ),
    declared(
        "gpu_ports.remove",
        "DELETE",
        _PORT,
        _remove,
        "Remove a port mapping",
        request=ports.RemovePort,
        response=ports.RemovedPortAnswer,
        needs=MANAGE,
    ),
)
