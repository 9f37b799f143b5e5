"""The Permissions API."""

from __future__ import annotations

from typing import Any

import msgspec

from brickyard.api.context import ApiContext
from brickyard.api.edge.registry import Handler, Need, Operation
from brickyard.domain.access import AccessControlRequest, ObjectKind, Permission
from brickyard.domain.spec import Wire
from brickyard.plan.permissions import OBJECT_TYPES, Level, ObjectType
from brickyard.services.caller import Caller
from brickyard.services.permissions import ObjectPermissions, manages, sees

_TOKENS = "tokens"  # the id in paths: all tokens have one list


class PermissionsOf(msgspec.Struct, frozen=True, kw_only=True):
    object_id: str = _TOKENS


class ChangePermissions(Wire, frozen=True, kw_only=True):
    object_id: str = _TOKENS
    access_control_list: list[AccessControlRequest] = []


class PermissionLevels(msgspec.Struct, frozen=True, kw_only=True):
    permission_levels: list[Level]


def _get(of: ObjectType) -> Handler:
    async def get(ctx: ApiContext, caller: Caller, request: PermissionsOf) -> ObjectPermissions:
        return await ctx.services.permissions.get(caller, of, request.object_id)

    return get


def _levels(of: ObjectType) -> Handler:
    async def levels(ctx: ApiContext, caller: Caller, request: PermissionsOf) -> PermissionLevels:
        return PermissionLevels(permission_levels=await ctx.services.permissions.levels(caller, of, request.object_id))

    return levels


def _change(of: ObjectType, *, replace: bool) -> Handler:
    async def change(ctx: ApiContext, caller: Caller, request: ChangePermissions) -> ObjectPermissions:
        return await ctx.services.permissions.change(caller, of, request.object_id, request.access_control_list, replace=replace)

    return change


def _operations(of: ObjectType) -> tuple[Operation, ...]:
    on = "personal access tokens" if of.kind is ObjectKind.TOKENS else f"a {of.object_type.replace('-', ' ')}"
    see, manage = sees(of), manages(of)
    change = {"request": ChangePermissions, "response": ObjectPermissions}
    return (
        _operation(of, "get", "GET", _get(of), see, summary=f"The permissions on {on}", response=ObjectPermissions),
        _operation(of, "set", "PUT", _change(of, replace=True), manage, summary=f"Replace the permissions on {on}", **change),
        _operation(of, "update", "PATCH", _change(of, replace=False), manage, summary=f"Change permissions on {on}", **change),
        _operation(of, "levels", "GET", _levels(of), see, summary=f"The permission levels of {on}", response=PermissionLevels),
    )


def _operation(of: ObjectType, verb: str, method: str, handler: Handler, need: Permission, **options: Any) -> Operation:
    tokens = of.kind is ObjectKind.TOKENS
    noun = _TOKENS if tokens else of.collection.replace("-", "_")
    where = f"{of.collection}/{_TOKENS}" if tokens else f"{of.collection}/{{object_id}}"
    tail = "/permissionLevels" if verb == "levels" else ""
    return Operation(
        name=f"permissions.{verb}.{noun}",
        method=method,
        paths=tuple(f"/api/2.0/{prefix}permissions/{where}{tail}" for prefix in ("", "preview/")),
        handler=handler,
        needs=(Need(need, of.kind, "" if tokens else "object_id"),),
        errors=(404,),
        **{"request": PermissionsOf, **options},
    )


OPERATIONS: tuple[Operation, ...] = tuple(operation for of in OBJECT_TYPES for operation in _operations(of))
