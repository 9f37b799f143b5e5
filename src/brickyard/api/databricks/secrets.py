"""The Secrets API."""

from __future__ import annotations

import base64
from enum import StrEnum
from typing import Any

import msgspec

from brickyard.api.context import ApiContext
from brickyard.api.edge.registry import Empty, Handler, Need, Operation
from brickyard.domain.access import Grant, ObjectKind, Permission
from brickyard.domain.errors import InvalidParameterValue
from brickyard.domain.secrets import SecretName
from brickyard.domain.spec import Wire
from brickyard.services.caller import Caller

BODY_LIMIT = 1024 * 1024  # a value of 128 KB, escaped


class AclPermission(StrEnum):
    READ = "READ"
    WRITE = "WRITE"
    MANAGE = "MANAGE"


class ScopeBackendType(StrEnum):
    DATABRICKS = "DATABRICKS"
    AZURE_KEYVAULT = "AZURE_KEYVAULT"


class KeyVault(Wire, frozen=True, kw_only=True):
    resource_id: str | None = None
    dns_name: str | None = None
    tenant_id: str | None = None


class CreateScope(Wire, frozen=True, kw_only=True):
    scope: str
    initial_manage_principal: str | None = None
    scope_backend_type: ScopeBackendType | None = None
    backend_azure_keyvault: KeyVault | None = None


class ScopeRef(Wire, frozen=True, kw_only=True):
    scope: str


class SecretRef(Wire, frozen=True, kw_only=True):
    scope: str
    key: str


class PutSecret(Wire, frozen=True, kw_only=True):
    scope: str
    key: str
    string_value: str | None = None
    bytes_value: str | None = None


class AclRef(Wire, frozen=True, kw_only=True):
    scope: str
    principal: str


class PutAcl(Wire, frozen=True, kw_only=True):
    scope: str
    principal: str
    permission: AclPermission


class SecretScope(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    backend_type: ScopeBackendType = ScopeBackendType.DATABRICKS


class ListScopesResponse(msgspec.Struct, frozen=True, kw_only=True):
    scopes: list[SecretScope]


class SecretMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """`last_updated_timestamp` is in epoch milliseconds."""

    key: str
    last_updated_timestamp: int


class ListSecretsResponse(msgspec.Struct, frozen=True, kw_only=True):
    secrets: list[SecretMetadata]


class GetSecretResponse(msgspec.Struct, frozen=True, kw_only=True):
    """`value` is base64."""

    key: str
    value: str


class AclItem(msgspec.Struct, frozen=True, kw_only=True):
    principal: str
    permission: AclPermission


class ListAclsResponse(msgspec.Struct, frozen=True, kw_only=True):
    items: list[AclItem]


class RotatedKey(msgspec.Struct, frozen=True, kw_only=True):
    """How many secrets were encrypted with the new key."""

    secrets: int


async def _create_scope(ctx: ApiContext, caller: Caller, request: CreateScope) -> None:
    if request.scope_backend_type is ScopeBackendType.AZURE_KEYVAULT or request.backend_azure_keyvault is not None:
        raise InvalidParameterValue(
            "scope_backend_type AZURE_KEYVAULT is not supported here: no Azure Key Vault can be reached on behalf of "
            "the workspace. Use DATABRICKS, and put the secrets into the scope."
        )
    await ctx.services.secrets.create_scope(
        caller, request.scope, initial_manage_principal=request.initial_manage_principal or ""
    )


async def _delete_scope(ctx: ApiContext, caller: Caller, request: ScopeRef) -> None:
    await ctx.services.secrets.delete_scope(caller, request.scope)


async def _list_scopes(ctx: ApiContext, caller: Caller, request: Empty) -> ListScopesResponse:
    return ListScopesResponse(scopes=[SecretScope(name=row.name) for row in await ctx.services.secrets.list_scopes(caller)])


async def _put(ctx: ApiContext, caller: Caller, request: PutSecret) -> None:
    name = SecretName(request.scope, request.key)
    await ctx.services.secrets.put(caller, name, string_value=request.string_value, bytes_value=request.bytes_value)


async def _get(ctx: ApiContext, caller: Caller, request: SecretRef) -> GetSecretResponse:
    key, value = await ctx.services.secrets.get(caller, SecretName(request.scope, request.key))
    return GetSecretResponse(key=key, value=base64.b64encode(value).decode())


async def _delete(ctx: ApiContext, caller: Caller, request: SecretRef) -> None:
    await ctx.services.secrets.delete(caller, SecretName(request.scope, request.key))


async def _list(ctx: ApiContext, caller: Caller, request: ScopeRef) -> ListSecretsResponse:
    rows = await ctx.services.secrets.list_secrets(caller, request.scope)
    return ListSecretsResponse(secrets=[SecretMetadata(key=row.key, last_updated_timestamp=row.updated_ms) for row in rows])


async def _put_acl(ctx: ApiContext, caller: Caller, request: PutAcl) -> None:
    await ctx.services.secrets.put_acl(caller, request.scope, Grant(request.principal, Permission(request.permission.value)))


async def _get_acl(ctx: ApiContext, caller: Caller, request: AclRef) -> AclItem:
    return _acl(await ctx.services.secrets.get_acl(caller, request.scope, request.principal))


async def _delete_acl(ctx: ApiContext, caller: Caller, request: AclRef) -> None:
    await ctx.services.secrets.delete_acl(caller, request.scope, request.principal)


async def _list_acls(ctx: ApiContext, caller: Caller, request: ScopeRef) -> ListAclsResponse:
    return ListAclsResponse(items=[_acl(grant) for grant in await ctx.services.secrets.list_acls(caller, request.scope)])


async def _rotate_key(ctx: ApiContext, caller: Caller, request: Empty) -> RotatedKey:
    return RotatedKey(secrets=await ctx.services.secrets.rotate_key(caller))


def _acl(grant: Grant) -> AclItem:
    return AclItem(principal=grant.principal, permission=AclPermission(grant.permission.value))


_IN_WORKSPACE = Need(Permission.WORKSPACE_ACCESS, ObjectKind.WORKSPACE)


def _on_scope(permission: Permission) -> Need:
    return Need(permission, ObjectKind.SECRET_SCOPE, "scope")


def _operation(method: str, verb: str, handler: Handler, summary: str, need: Need, **options: Any) -> Operation:
    return Operation(
        name=f"secrets.{verb.replace('/', '_').replace('-', '_')}",
        method=method,
        paths=(f"/api/2.0/secrets/{verb}",),
        handler=handler,
        summary=summary,
        needs=(need,),
        body_limit=BODY_LIMIT,
        errors=(404,),
        **options,
    )


_READ, _WRITE, _MANAGE = (_on_scope(level) for level in (Permission.READ, Permission.WRITE, Permission.MANAGE))
_ROTATE = Need(Permission.ADMIN, ObjectKind.WORKSPACE)

OPERATIONS: tuple[Operation, ...] = (
    _operation("POST", "scopes/create", _create_scope, "Create a secret scope", _IN_WORKSPACE, request=CreateScope),
    _operation("POST", "scopes/delete", _delete_scope, "Delete a scope with its secrets", _MANAGE, request=ScopeRef),
    _operation("GET", "scopes/list", _list_scopes, "All secret scopes", _IN_WORKSPACE, response=ListScopesResponse),
    _operation("POST", "put", _put, "Write a secret", _WRITE, request=PutSecret),
    _operation("GET", "get", _get, "The value of a secret", _READ, request=SecretRef, response=GetSecretResponse),
    _operation("POST", "delete", _delete, "Delete a secret", _WRITE, request=SecretRef),
    _operation("GET", "list", _list, "The secrets of a scope", _READ, request=ScopeRef, response=ListSecretsResponse),
    _operation("POST", "acls/put", _put_acl, "Give a permission on a scope", _MANAGE, request=PutAcl),
    _operation("GET", "acls/get", _get_acl, "The permission of one principal", _MANAGE, request=AclRef, response=AclItem),
    _operation("POST", "acls/delete", _delete_acl, "Take back a permission on a scope", _MANAGE, request=AclRef),
    _operation("GET", "acls/list", _list_acls, "Permissions on a scope", _MANAGE, request=ScopeRef, response=ListAclsResponse),
    _operation("POST", "rotate-key", _rotate_key, "Change the key that encrypts secrets", _ROTATE, response=RotatedKey),
)
