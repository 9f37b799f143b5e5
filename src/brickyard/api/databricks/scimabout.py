"""What the SCIM interface can do (RFC 7643, 5 and 6), for clients that ask before they begin."""

from __future__ import annotations

from typing import Any

import msgspec

from brickyard.api.context import ApiContext
from brickyard.api.databricks.dialects import SCIM
from brickyard.api.databricks.scim import PREFIXES
from brickyard.api.edge.dialects import Reply
from brickyard.api.edge.group import Group
from brickyard.api.edge.registry import Auth, Operation
from brickyard.domain.caller import Caller
from brickyard.domain.errors import ResourceDoesNotExist
from brickyard.domain.spec import Wire
from brickyard.features.identity.listing import MOST
from brickyard.features.identity.scim.schemas import CORE, WORKSPACE_USER, schemas

_TYPES = ("User", "Group", "ServicePrincipal")


class OfServer(Wire, frozen=True, kw_only=True):
    base_url: str = ""


class OneOfServer(OfServer, frozen=True, kw_only=True):
    id: str


async def _config(ctx: ApiContext, caller: Caller, request: OfServer) -> Reply:
    no = {"supported": False}
    place = f"{request.base_url}{PREFIXES[0]}/ServiceProviderConfig"
    return _answer(
        {
            "schemas": [f"{CORE}ServiceProviderConfig"],
            "patch": {"supported": True},
            "bulk": {**no, "maxOperations": 0, "maxPayloadSize": 0},
            "filter": {"supported": True, "maxResults": MOST},
            "changePassword": no,
            "sort": {"supported": True},
            "etag": no,
            "authenticationSchemes": [
                {
                    "type": "oauthbearertoken",
                    "name": "Bearer token",
                    "description": "A token of an administrator",
                    "primary": True,
                }
            ],
            "meta": {"resourceType": "ServiceProviderConfig", "location": place},
        }
    )


def _types_of(request: OfServer) -> list[dict[str, Any]]:
    return [
        {
            "schemas": [f"{CORE}ResourceType"],
            "id": name,
            "name": name,
            "endpoint": f"/{name}s",
            "schema": f"{CORE}{name}",
            **({"schemaExtensions": [{"schema": WORKSPACE_USER, "required": False}]} if name == "User" else {}),
            "meta": {"resourceType": "ResourceType", "location": f"{request.base_url}{PREFIXES[0]}/ResourceTypes/{name}"},
        }
        for name in _TYPES
    ]


def _schemas_of(request: OfServer) -> list[dict[str, Any]]:
    return schemas(f"{request.base_url}{PREFIXES[0]}/Schemas")


async def _types(ctx: ApiContext, caller: Caller, request: OfServer) -> Reply:
    return _list(_types_of(request))


async def _type(ctx: ApiContext, caller: Caller, request: OneOfServer) -> Reply:
    return _one(_types_of(request), request.id)


async def _schemas(ctx: ApiContext, caller: Caller, request: OfServer) -> Reply:
    return _list(_schemas_of(request))


async def _schema(ctx: ApiContext, caller: Caller, request: OneOfServer) -> Reply:
    return _one(_schemas_of(request), request.id)


def _list(found: list[dict[str, Any]]) -> Reply:
    return _answer(
        {
            "schemas": ["urn:ietf:params:scim:api:messages:2.0:ListResponse"],
            "totalResults": len(found),
            "startIndex": 1,
            "itemsPerPage": len(found),
            "Resources": found,
        }
    )


def _one(found: list[dict[str, Any]], wanted: str) -> Reply:
    for each in found:
        if each["id"] == wanted:
            return _answer(each)
    raise ResourceDoesNotExist(f"There is no {found[0]['meta']['resourceType']} with the id {wanted[:100]}.")


def _answer(body: dict[str, Any]) -> Reply:
    return Reply(body=msgspec.json.encode(body))


_SCIM = Group(
    "scim",
    lambda ctx: ctx,
    *PREFIXES,
    needs=(),
    auth=Auth.NONE,  # RFC 7644, 4: it tells nothing about the workspace
    dialect=SCIM,
    with_base_url=True,
)
OPERATIONS: tuple[Operation, ...] = (
    _SCIM("GET /ServiceProviderConfig", _config, "What the SCIM interface can do", name="service_provider_config"),
    _SCIM("GET /ResourceTypes", _types, "The kinds of SCIM resources", name="resource_types"),
    _SCIM("GET /ResourceTypes/{id}", _type, "One kind of SCIM resources", name="resource_type", errors=(404,)),
    _SCIM("GET /Schemas", _schemas, "The attributes of all kinds of SCIM resources", name="schemas"),
    _SCIM("GET /Schemas/{id}", _schema, "The attributes of one kind of SCIM resources", name="schema", errors=(404,)),
)
