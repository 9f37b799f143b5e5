"""What clusters cost. Specific to Brickyard: Databricks bills through its account console."""

from __future__ import annotations

from brickyard.api.edge.group import ADMIN, CAN_ATTACH, IN_WORKSPACE, Group
from brickyard.api.edge.registry import Operation
from brickyard.features.spend.service import SpendService

_SPEND = Group("spend", lambda ctx: ctx.services.spend, "/api/2.1/spend")
OPERATIONS: tuple[Operation, ...] = (
    _SPEND(
        "GET",
        SpendService.workspace,
        "What all clusters cost over a range of time, by cluster, creator, node type or tag",
        name="workspace",
        needs=ADMIN,
    ),
    _SPEND(
        "GET /cluster",
        SpendService.cluster,
        "What a cluster costs per hour now, and has cost over a range of time",
        needs=CAN_ATTACH,
        errors=(404,),
    ),
    _SPEND("GET /prices", SpendService.prices, "The prices of node types", needs=IN_WORKSPACE),
)
