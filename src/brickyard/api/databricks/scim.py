"""SCIM 2.0: users, service principals and groups, for clients and for identity providers that provision them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from brickyard.api.context import ApiContext
from brickyard.api.databricks.dialects import SCIM
from brickyard.api.edge.dialects import Reply
from brickyard.api.edge.group import ADMIN, IN_WORKSPACE, Group
from brickyard.api.edge.registry import Operation
from brickyard.domain.caller import Caller
from brickyard.domain.spec import Wire
from brickyard.features.identity import PAGE, Asked, GroupService, IdentityService, MeService, Resource, Shown

PREFIXES = ("/api/2.0/preview/scim/v2", "/api/2.0/scim/v2", "/api/2.0/account/scim/v2")


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


async def _me(me: MeService, caller: Caller, request: ScimGet) -> bytes:
    return msgspec.json.encode(await me.get(caller, request.shown))


_Service = IdentityService | GroupService


def _operations(group: str, path: str, service: Callable[[ApiContext], _Service], what: str) -> tuple[Operation, ...]:
    async def create(service: _Service, caller: Caller, request: ScimWrite) -> Reply:
        resource = await service.create(caller, request.resource)
        made = ScimMade(
            id=resource["id"],
            user_name=resource.get("userName", ""),
            application_id=resource.get("applicationId", ""),
            group_name=resource["displayName"] if group == "groups" else "",
        )
        return _answer(resource, status=201, made=made)

    async def get(service: _Service, caller: Caller, request: ScimGet) -> Reply:
        return _answer(await service.get(caller, request.id, request.shown))

    async def search(service: _Service, caller: Caller, request: ScimList) -> Reply:
        return _answer(await service.search(caller, request.asked))

    async def replace(service: _Service, caller: Caller, request: ScimWrite) -> Reply:
        return _answer(await service.replace(caller, request.id, request.resource))

    async def patch(service: _Service, caller: Caller, request: ScimWrite) -> Reply:
        changed = await service.patch(caller, request.id, request.resource)
        return _answer(changed) if changed is not None else Reply(status=204, body=b"")

    async def delete(service: _Service, caller: Caller, request: ScimId) -> Reply:
        await service.delete(caller, request.id)
        return Reply(status=204, body=b"")

    paths = (f"{prefix}/{path}" for prefix in PREFIXES)
    scim = Group(group, service, *paths, needs=ADMIN, dialect=SCIM)
    exists, conflicts = (404,), (404, 409)
    return (
        scim("POST", create, f"Create a {what}", name="create", document="resource", statuses=(201,), errors=(409,)),
        scim("GET", search, f"Every {what} for which a filter holds, page by page", name="list", needs=IN_WORKSPACE),
        scim("GET /{id}", get, f"One {what}", name="get", needs=IN_WORKSPACE, errors=exists),
        scim("PUT /{id}", replace, f"Replace a {what}", name="update", document="resource", errors=conflicts),
        scim(
            "PATCH /{id}",
            patch,
            f"Change a {what}",
            name="patch",
            document="resource",
            statuses=(204 if group == "groups" else 200,),
            errors=conflicts,
        ),
        scim("DELETE /{id}", delete, f"Delete a {what}", name="delete", statuses=(204,), errors=exists),
    )


def _answer(resource: Resource, *, status: int = 200, made: ScimMade | None = None) -> Reply:
    return Reply(status=status, body=msgspec.json.encode(resource), made=made)


_ME = Group("current_user", lambda ctx: ctx.services.identity.me, *PREFIXES, needs=IN_WORKSPACE, dialect=SCIM)
OPERATIONS: tuple[Operation, ...] = (
    _ME("GET /Me", _me, "The calling user", name="me"),
    *_operations("users", "Users", lambda ctx: ctx.services.identity.users, "user"),
    *_operations(
        "service_principals", "ServicePrincipals", lambda ctx: ctx.services.identity.service_principals, "service principal"
    ),
    *_operations("groups", "Groups", lambda ctx: ctx.services.identity.groups, "group"),
)
