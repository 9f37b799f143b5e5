"""The SQL Warehouses API, and the data sources of clients from before it."""

from __future__ import annotations

import msgspec

from brickyard.api.edge.group import ADMIN, IN_WORKSPACE, Group
from brickyard.api.edge.registry import EVERY, Need, Operation
from brickyard.domain.access import ObjectKind, Permission
from brickyard.domain.caller import Caller
from brickyard.features.warehouses import model
from brickyard.features.warehouses.service import WarehouseService


async def _create(service: WarehouseService, caller: Caller, request: model.CreateWarehouse) -> model.CreatedWarehouse:
    return model.CreatedWarehouse(id=await service.create(caller, request))


async def _data_sources(service: WarehouseService, caller: Caller) -> bytes:
    return msgspec.json.encode(await service.data_sources(caller))  # a list, as Databricks answers


def _warehouse(permission: Permission, of: str = "id") -> Need:
    return Need(permission, ObjectKind.WAREHOUSE, of)


_MANAGE = _warehouse(Permission.CAN_MANAGE)
_WAREHOUSES = Group(
    "warehouses", lambda ctx: ctx.services.warehouses, "/api/2.0/sql/warehouses", "/api/2.0/sql/endpoints", errors=(404,)
)
_CONFIG = Group(
    "warehouses", lambda ctx: ctx.services.warehouses, "/api/2.0/sql/config/warehouses", "/api/2.0/sql/config/endpoints"
)
OPERATIONS: tuple[Operation, ...] = (
    _WAREHOUSES(
        "POST",
        _create,
        "Create a SQL warehouse, which starts",
        name="create",
        needs=Need(Permission.ALLOW_CLUSTER_CREATE, ObjectKind.WORKSPACE, unless="policy_id"),
        makes_work=True,
    ),
    _WAREHOUSES(
        "GET",
        WarehouseService.list,
        "SQL warehouses, oldest first",
        name="list",
        needs=_warehouse(Permission.CAN_VIEW, EVERY),
        with_base_url=True,
    ),
    _WAREHOUSES(
        "GET /{id}",
        WarehouseService.get,
        "One SQL warehouse",
        name="get",
        needs=_warehouse(Permission.CAN_VIEW),
        with_base_url=True,
    ),
    _WAREHOUSES("DELETE /{id}", WarehouseService.delete, "Delete a SQL warehouse", name="delete", needs=_MANAGE),
    _WAREHOUSES("POST /{id}/edit", WarehouseService.edit, "Change a SQL warehouse", name="edit", needs=_MANAGE, makes_work=True),
    _WAREHOUSES(
        "POST /{id}/start",
        WarehouseService.start,
        "Start a SQL warehouse",
        name="start",
        needs=_warehouse(Permission.CAN_USE),
        makes_work=True,
    ),
    _WAREHOUSES("POST /{id}/stop", WarehouseService.stop, "Stop a SQL warehouse", name="stop", needs=_MANAGE),
    _CONFIG(
        "GET",
        WarehouseService.configuration,
        "What all SQL warehouses have",
        name="get_config",
        needs=IN_WORKSPACE,
    ),
    _CONFIG("PUT", WarehouseService.configure, "Set what all SQL warehouses have", name="set_config", needs=ADMIN),
    Group("warehouses", lambda ctx: ctx.services.warehouses)(
        "GET /api/2.0/preview/sql/data_sources",
        _data_sources,
        "SQL warehouses, as clients from before the Warehouses API list them",
        name="data_sources",
        needs=_warehouse(Permission.CAN_VIEW, EVERY),
        documented=False,  # the answer is a list, as only clients from then expect
    ),
)
