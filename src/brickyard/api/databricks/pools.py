"""The Instance Pools API: 5 calls, and one of our own."""

from __future__ import annotations

from brickyard.api.edge.group import Group, on_cluster
from brickyard.api.edge.registry import EVERY, Need, Operation
from brickyard.domain import pools
from brickyard.domain.access import ObjectKind, Permission
from brickyard.domain.caller import Caller
from brickyard.features.pools.service import PoolService


async def _create(service: PoolService, caller: Caller, request: pools.CreateInstancePool) -> pools.CreateInstancePoolResponse:
    return pools.CreateInstancePoolResponse(instance_pool_id=await service.create(caller, request))


def _pool(permission: Permission, of: str = "instance_pool_id") -> Need:
    return Need(permission, ObjectKind.INSTANCE_POOL, of)


_DETAILS = Group("instance_pools", lambda ctx: ctx.services.pools, "/api/2.1/instance-pools")
_POOLS = Group("instance_pools", lambda ctx: ctx.services.pools, "/api/2.0/instance-pools")
OPERATIONS: tuple[Operation, ...] = (
    _POOLS(
        "POST /create",
        _create,
        "Create an instance pool; its idle instances are launched in the background",
        needs=Need(Permission.ALLOW_INSTANCE_POOL_CREATE, ObjectKind.WORKSPACE),
        makes_work=True,
    ),
    _POOLS(
        "POST /edit",
        PoolService.edit,
        "Change an instance pool's name, size, idle time or tags",
        needs=_pool(Permission.CAN_MANAGE),
        makes_work=True,
        errors=(404,),
    ),
    _POOLS(
        "POST /delete",
        PoolService.delete,
        "Permanently delete an instance pool",
        needs=_pool(Permission.CAN_MANAGE),
        errors=(404,),
    ),
    _POOLS("GET /get", PoolService.get, "One instance pool", needs=_pool(Permission.CAN_ATTACH_TO), errors=(404,)),
    _POOLS("GET /list", PoolService.list, "All instance pools", needs=_pool(Permission.CAN_ATTACH_TO, EVERY)),
    _DETAILS(
        "GET /details",
        PoolService.details,
        "Who made the instance pools, and how many of their instances are warm; of one pool, each instance",
        needs=(_pool(Permission.CAN_ATTACH_TO, EVERY), on_cluster(Permission.CAN_ATTACH_TO, EVERY)),
    ),
)
