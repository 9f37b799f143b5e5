"""What clusters cost. Specific to Brickyard: Databricks bills through its account console."""

from __future__ import annotations

from brickyard.api.context import ApiContext
from brickyard.api.edge.registry import Empty, Need, Operation
from brickyard.domain.access import ObjectKind, Permission
from brickyard.services.caller import Caller
from brickyard.services.spend import AskClusterSpend, AskSpend, PriceList, Spend


async def _workspace(ctx: ApiContext, caller: Caller, request: AskSpend) -> Spend:
    found: Spend = await ctx.services.spend.workspace(caller, request)
    return found


async def _cluster(ctx: ApiContext, caller: Caller, request: AskClusterSpend) -> Spend:
    found: Spend = await ctx.services.spend.cluster(caller, request)
    return found


async def _prices(ctx: ApiContext, caller: Caller, request: Empty) -> PriceList:
    found: PriceList = await ctx.services.spend.prices(caller)
    return found


OPERATIONS: tuple[Operation, ...] = (
    Operation(
        name="spend.workspace",
        method="GET",
        paths=("/api/2.1/spend",),
        handler=_workspace,
        request=AskSpend,
        response=Spend,
        summary="What all clusters cost over a range of time, by cluster, creator, node type or tag",
        needs=(Need(Permission.ADMIN, ObjectKind.WORKSPACE),),
    ),
    Operation(
        name="spend.cluster",
        method="GET",
        paths=("/api/2.1/spend/cluster",),
        handler=_cluster,
        request=AskClusterSpend,
        response=Spend,
        summary="What a cluster costs per hour now, and has cost over a range of time",
        needs=(Need(Permission.CAN_ATTACH_TO, ObjectKind.CLUSTER, "cluster_id"),),
        errors=(404,),
    ),
    Operation(
        name="spend.prices",
        method="GET",
        paths=("/api/2.1/spend/prices",),
        handler=_prices,
        request=Empty,
        response=PriceList,
        summary="The prices of node types",
        needs=(Need(Permission.WORKSPACE_ACCESS, ObjectKind.WORKSPACE),),
    ),
)
