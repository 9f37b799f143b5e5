"""What clusters cost. Specific to Brickyard: Databricks bills through its account console."""

from __future__ import annotations

from brickyard.api.edge.group import ADMIN, CAN_ATTACH, IN_WORKSPACE, Group
from brickyard.api.edge.registry import Operation
from brickyard.features.spend.budgets import BudgetService
from brickyard.features.spend.service import SpendService

_SPEND = Group("spend", lambda ctx: ctx.services.spend, "/api/2.1/spend")
_BUDGETS = Group("budgets", lambda ctx: ctx.services.budgets, "/api/2.1/budgets", needs=ADMIN)
OPERATIONS: tuple[Operation, ...] = (
    _SPEND(
        "GET",
        SpendService.workspace,
        "What clusters cost over a range of time, by cluster, creator, node type, tag or day",
        name="workspace",
        needs=IN_WORKSPACE,
    ),
    _SPEND(
        "GET /cluster",
        SpendService.cluster,
        "What a cluster costs per hour now, and has cost over a range of time",
        needs=CAN_ATTACH,
        errors=(404,),
    ),
    _SPEND("GET /prices", SpendService.prices, "The prices of node types", needs=IN_WORKSPACE),
    _BUDGETS("GET", BudgetService.shown, "Monthly budgets and what was spent of them", name="list", needs=IN_WORKSPACE),
    _BUDGETS("POST", BudgetService.create, "Create a monthly budget", name="create"),
    _BUDGETS("PUT /{budget_id}", BudgetService.replace, "Replace a budget", name="replace", errors=(404,)),
    _BUDGETS("DELETE /{budget_id}", BudgetService.delete, "Delete a budget", name="delete", errors=(404,)),
)
