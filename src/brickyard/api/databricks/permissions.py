"""The Permissions API."""

from __future__ import annotations

import msgspec

from brickyard.api.edge.group import Group
from brickyard.api.edge.registry import Need, Operation
from brickyard.domain.access import AccessControlRequest, ObjectKind
from brickyard.domain.caller import Caller
from brickyard.domain.spec import Wire
from brickyard.features.permissions.service import ObjectPermissions, PermissionService, manages, sees
from brickyard.plan.permissions import OBJECT_TYPES, Level, ObjectType


class PermissionsOf(msgspec.Struct, frozen=True, kw_only=True):
    object_id: str = ""  # "": the only one


class ChangePermissions(Wire, frozen=True, kw_only=True):
    object_id: str = ""  # "": the only one
    access_control_list: list[AccessControlRequest] = []


class PermissionLevels(msgspec.Struct, frozen=True, kw_only=True):
    permission_levels: list[Level]


_SINGLE = {ObjectKind.TOKENS: "personal access tokens", ObjectKind.PASSWORDS: "log-ins with a password"}


def _operations(of: ObjectType) -> tuple[Operation, ...]:
    def named(request: PermissionsOf | ChangePermissions) -> str:
        return of.object_type if of.is_single else request.object_id

    async def get(permissions: PermissionService, caller: Caller, request: PermissionsOf) -> ObjectPermissions:
        return await permissions.get(caller, of, named(request))

    async def replace(permissions: PermissionService, caller: Caller, request: ChangePermissions) -> ObjectPermissions:
        return await permissions.change(caller, of, named(request), request.access_control_list, replace=True)

    async def update(permissions: PermissionService, caller: Caller, request: ChangePermissions) -> ObjectPermissions:
        return await permissions.change(caller, of, named(request), request.access_control_list, replace=False)

    async def levels(permissions: PermissionService, caller: Caller, request: PermissionsOf) -> PermissionLevels:
        return PermissionLevels(permission_levels=await permissions.levels(caller, of, named(request)))

    single = of.is_single
    noun = of.object_type if single or of.aliases else of.collection.replace("-", "_")
    on = _SINGLE.get(of.kind) or f"a {'SQL warehouse' if of.kind is ObjectKind.WAREHOUSE else of.object_type.replace('-', ' ')}"
    named_by = of.object_type if single else "{object_id}"
    paths = [f"permissions/{collection}/{named_by}" for collection in (of.collection, *of.aliases)]
    see, manage = (Need(each, of.kind, "" if single else "object_id") for each in (sees(of), manages(of)))
    group = Group(
        "permissions",
        lambda ctx: ctx.services.permissions,
        *(f"/api/2.0/{before}{path}" for before in ("", "preview/") for path in paths),
        errors=(404,),
    )
    return (
        group("GET", get, f"The permissions on {on}", name=f"get.{noun}", needs=see),
        group("PUT", replace, f"Replace the permissions on {on}", name=f"set.{noun}", needs=manage),
        group("PATCH", update, f"Change permissions on {on}", name=f"update.{noun}", needs=manage),
        group("GET /permissionLevels", levels, f"The permission levels of {on}", name=f"levels.{noun}", needs=see),
    )


OPERATIONS: tuple[Operation, ...] = tuple(operation for of in OBJECT_TYPES for operation in _operations(of))
