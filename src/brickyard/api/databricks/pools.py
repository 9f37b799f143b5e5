"""The Instance Pools API: 5 calls, and one of our own."""

from __future__ import annotations

from brickyard.api.context import ApiContext
from brickyard.api.edge.registry import EVERY, Empty, Handler, Need, Operation
from brickyard.domain import pools
from brickyard.domain.access import ObjectKind, Permission
from brickyard.services.caller import Caller


async def _create(ctx: ApiContext, caller: Caller, request: pools.CreateInstancePool) -> pools.CreateInstancePoolResponse:
    return pools.CreateInstancePoolResponse(instance_pool_id=await ctx.services.pools.create(caller, request))


async def _edit(ctx: ApiContext, caller: Caller, request: pools.EditInstancePool) -> None:
    await ctx.services.pools.edit(caller, request)


async def _delete(ctx: ApiContext, caller: Caller, request: pools.InstancePoolId) -> None:
    await ctx.services.pools.delete(caller, request)


async def _get(ctx: ApiContext, caller: Caller, request: pools.InstancePoolId) -> pools.InstancePoolView:
    return await ctx.services.pools.get(caller, request)


async def _list(ctx: ApiContext, caller: Caller, request: Empty) -> pools.ListInstancePoolsResponse:
    return await ctx.services.pools.list(caller)


async def _details(ctx: ApiContext, caller: Caller, request: pools.ListPoolDetails) -> pools.ListPoolDetailsResponse:
    return await ctx.services.pools.details(caller, request)


def _pool(permission: Permission, of: str = "instance_pool_id") -> tuple[Need]:
    return (Need(permission, ObjectKind.INSTANCE_POOL, of),)


_NEEDS: dict[str, tuple[Need, ...]] = {
    "create": (Need(Permission.ALLOW_INSTANCE_POOL_CREATE, ObjectKind.WORKSPACE),),
    "edit": _pool(Permission.CAN_MANAGE),
    "delete": _pool(Permission.CAN_MANAGE),
    "get": _pool(Permission.CAN_ATTACH_TO),
    "list": _pool(Permission.CAN_ATTACH_TO, EVERY),
}


def _operation(
    verb: str, method: str, handler: Handler, summary: str, *, request: type = Empty, response: type | None = None
) -> Operation:
    return Operation(
        name=f"instance_pools.{verb}",
        method=method,
        paths=(f"/api/2.0/instance-pools/{verb}",),
        handler=handler,
        request=request,
        response=response,
        summary=summary,
        needs=_NEEDS[verb],
        makes_work=verb in ("create", "edit"),
        errors=() if verb in ("create", "list") else (404,),
    )


OPERATIONS: tuple[Operation, ...] = (
    _operation(
        "create",
        "POST",
        _create,
        "Create an instance pool; its idle instances are launched in the background",
        request=pools.CreateInstancePool,
        response=pools.CreateInstancePoolResponse,
    ),
    _operation("edit", "POST", _edit, "Change an instance pool's name, size, idle time or tags", request=pools.EditInstancePool),
    _operation("delete", "POST", _delete, "Delete an instance pool for good", request=pools.InstancePoolId),
    _operation("get", "GET", _get, "One instance pool", request=pools.InstancePoolId, response=pools.InstancePoolView),
    _operation("list", "GET", _list, "All instance pools", response=pools.ListInstancePoolsResponse),
    Operation(
        name="instance_pools.details",
        method="GET",
        paths=("/api/2.1/instance-pools/details",),
        handler=_details,
        request=pools.ListPoolDetails,
        response=pools.ListPoolDetailsResponse,
        summary="Who made the instance pools, and how many of their instances are warm; of one pool, each instance",
        needs=(*_NEEDS["list"], Need(Permission.CAN_ATTACH_TO, ObjectKind.CLUSTER, EVERY)),
    ),
)
