"""SCIM 2.0: users, service principals and groups, for clients and for identity providers that provision them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import msgspec

from brickyard.api.context import ApiContext
from brickyard.api.databricks.dialects import SCIM
from brickyard.api.edge.dialects import Reply
from brickyard.api.edge.registry import Handler, Need, Operation
from brickyard.domain.access import ObjectKind, Permission
from brickyard.domain.spec import Wire
from brickyard.services.caller import Caller
from brickyard.services.identity import PAGE, Asked, GroupService, IdentityService, Resource, Shown

PREFIXES = ("/api/2.0/preview/scim/v2", "/api/2.0/scim/v2", "/api/2.0/account/scim/v2")
_SEE = (Need(Permission.WORKSPACE_ACCESS, ObjectKind.WORKSPACE),)
_CHANGE = (Need(Permission.ADMIN, ObjectKind.WORKSPACE),)
_Service = Callable[[ApiContext], IdentityService | GroupService]


class ScimGet(Wire, frozen=True, kw_only=True):
    """`attributes`: only these; `excludedAttributes`: all but these; with commas between them."""

    id: str = ""
    attributes: str = ""
    excluded_attributes: str = msgspec.field(default="", name="excludedAttributes")

    @property
    def shown(self) -> Shown:
        return Shown(self.attributes, self.excluded_attributes)


class ScimList(Wire, frozen=True, kw_only=True):
    """A page of resources, numbered from 1."""

    filter: str = ""
    start_index: int = msgspec.field(default=1, name="startIndex")
    count: int = PAGE
    sort_by: str = msgspec.field(default="", name="sortBy")
    sort_order: str = msgspec.field(default="ascending", name="sortOrder")
    attributes: str = ""
    excluded_attributes: str = msgspec.field(default="", name="excludedAttributes")

    @property
    def asked(self) -> Asked:
        return Asked(
            filter=self.filter,
            start_index=self.start_index,
            limit=self.count,
            sort_by=self.sort_by,
            descending=self.sort_order.lower() == "descending",
            shown=Shown(self.attributes, self.excluded_attributes),
        )


class ScimWrite(Wire, frozen=True, kw_only=True):
    """A resource or a patch, as the client writes it."""

    id: str = ""
    resource: dict[str, Any] = {}


class ScimId(Wire, frozen=True, kw_only=True):
    id: str


class ScimMade(Wire, frozen=True, kw_only=True):
    """What the audit log says of a new resource."""

    id: str
    user_name: str = ""
    group_name: str = ""
    application_id: str = ""


async def _me(ctx: ApiContext, caller: Caller, request: ScimGet) -> bytes:
    return msgspec.json.encode(await ctx.services.identity.me.get(caller, request.shown))


def _operations(group: str, path: str, service: _Service, what: str) -> tuple[Operation, ...]:
    async def create(ctx: ApiContext, caller: Caller, request: ScimWrite) -> Reply:
        resource = await service(ctx).create(caller, request.resource)
        made = ScimMade(
            id=resource["id"],
            user_name=resource.get("userName", ""),
            application_id=resource.get("applicationId", ""),
            group_name=resource["displayName"] if group == "groups" else "",
        )
        return dataclasses.replace(_answer(resource, status=201), made=made)

    async def get(ctx: ApiContext, caller: Caller, request: ScimGet) -> Reply:
        return _answer(await service(ctx).get(caller, request.id, request.shown))

    async def list_(ctx: ApiContext, caller: Caller, request: ScimList) -> Reply:
        return _answer(await service(ctx).search(caller, request.asked))

    async def replace(ctx: ApiContext, caller: Caller, request: ScimWrite) -> Reply:
        return _answer(await service(ctx).replace(caller, request.id, request.resource))

    async def patch(ctx: ApiContext, caller: Caller, request: ScimWrite) -> Reply:
        changed = await service(ctx).patch(caller, request.id, request.resource)
        return _answer(changed) if changed is not None else Reply(status=204, body=b"")

    async def delete(ctx: ApiContext, caller: Caller, request: ScimId) -> Reply:
        await service(ctx).delete(caller, request.id)
        return Reply(status=204, body=b"")

    def operation(
        verb: str, method: str, handler: Handler, request: type[msgspec.Struct], summary: str, *statuses: int, of: str = "/{id}"
    ) -> Operation:
        return Operation(
            name=f"{group}.{verb}",
            method=method,
            paths=tuple(f"{prefix}/{path}{of}" for prefix in PREFIXES),
            handler=handler,
            request=request,
            summary=summary,
            needs=_SEE if method == "GET" else _CHANGE,
            dialect=SCIM,
            document="resource" if request is ScimWrite else "",
            statuses=statuses,
            errors=((404,) if of else ()) + ((409,) if method in ("POST", "PUT", "PATCH") else ()),
        )

    return (
        operation("create", "POST", create, ScimWrite, f"Create a {what}", 201, of=""),
        operation("list", "GET", list_, ScimList, f"Every {what} for which a filter holds, page by page", 200, of=""),
        operation("get", "GET", get, ScimGet, f"One {what}", 200),
        operation("update", "PUT", replace, ScimWrite, f"Replace a {what}", 200),
        operation("patch", "PATCH", patch, ScimWrite, f"Change a {what}", 204 if group == "groups" else 200),
        operation("delete", "DELETE", delete, ScimId, f"Delete a {what}", 204),
    )


def _answer(resource: Resource, *, status: int = 200) -> Reply:
    return Reply(status=status, body=msgspec.json.encode(resource))


OPERATIONS: tuple[Operation, ...] = (
    Operation(
        name="current_user.me",
        method="GET",
        paths=tuple(f"{prefix}/Me" for prefix in PREFIXES),
        handler=_me,
        request=ScimGet,
        summary="The calling user",
        needs=_SEE,
        dialect=SCIM,
    ),
    *_operations("users", "Users", lambda ctx: ctx.services.identity.users, "user"),
    *_operations(
        "service_principals", "ServicePrincipals", lambda ctx: ctx.services.identity.service_principals, "service principal"
    ),
    *_operations("groups", "Groups", lambda ctx: ctx.services.identity.groups, "group"),
)
