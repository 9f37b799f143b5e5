"""The Secrets API."""

from __future__ import annotations

import base64
from enum import StrEnum

import msgspec

from brickyard.api.edge.group import ADMIN, IN_WORKSPACE, Group
from brickyard.api.edge.registry import Empty, Need, Operation
from brickyard.domain.access import Grant, ObjectKind, Permission
from brickyard.domain.caller import Caller
from brickyard.domain.errors import InvalidParameterValue
from brickyard.domain.secrets import SecretName
from brickyard.domain.spec import Wire
from brickyard.features.secrets.service import SecretService

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


async def _create_scope(secrets: SecretService, caller: Caller, request: CreateScope) -> None:
    if request.scope_backend_type is ScopeBackendType.AZURE_KEYVAULT or request.backend_azure_keyvault is not None:
        raise InvalidParameterValue(
            "scope_backend_type AZURE_KEYVAULT is not supported here: no Azure Key Vault can be reached on behalf of "
            "the workspace. Use DATABRICKS, and put the secrets into the scope."
        )
    await secrets.create_scope(caller, request.scope, initial_manage_principal=request.initial_manage_principal or "")


async def _delete_scope(secrets: SecretService, caller: Caller, request: ScopeRef) -> None:
    await secrets.delete_scope(caller, request.scope)


async def _list_scopes(secrets: SecretService, caller: Caller, request: Empty) -> ListScopesResponse:
    return ListScopesResponse(scopes=[SecretScope(name=row.name) for row in await secrets.list_scopes(caller)])


async def _put(secrets: SecretService, caller: Caller, request: PutSecret) -> None:
    name = SecretName(request.scope, request.key)
    await secrets.put(caller, name, string_value=request.string_value, bytes_value=request.bytes_value)


async def _get(secrets: SecretService, caller: Caller, request: SecretRef) -> GetSecretResponse:
    key, value = await secrets.get(caller, SecretName(request.scope, request.key))
    return GetSecretResponse(key=key, value=base64.b64encode(value).decode())


async def _delete(secrets: SecretService, caller: Caller, request: SecretRef) -> None:
    await secrets.delete(caller, SecretName(request.scope, request.key))


async def _list(secrets: SecretService, caller: Caller, request: ScopeRef) -> ListSecretsResponse:
    rows = await secrets.list_secrets(caller, request.scope)
    return ListSecretsResponse(secrets=[SecretMetadata(key=row.key, last_updated_timestamp=row.updated_ms) for row in rows])


async def _put_acl(secrets: SecretService, caller: Caller, request: PutAcl) -> None:
    await secrets.put_acl(caller, request.scope, Grant(request.principal, Permission(request.permission.value)))


async def _get_acl(secrets: SecretService, caller: Caller, request: AclRef) -> AclItem:
    return _acl(await secrets.get_acl(caller, request.scope, request.principal))


async def _delete_acl(secrets: SecretService, caller: Caller, request: AclRef) -> None:
    await secrets.delete_acl(caller, request.scope, request.principal)


async def _list_acls(secrets: SecretService, caller: Caller, request: ScopeRef) -> ListAclsResponse:
    return ListAclsResponse(items=[_acl(grant) for grant in await secrets.list_acls(caller, request.scope)])


async def _rotate_key(secrets: SecretService, caller: Caller, request: Empty) -> RotatedKey:
    return RotatedKey(secrets=await secrets.rotate_key(caller))


def _acl(grant: Grant) -> AclItem:
    return AclItem(principal=grant.principal, permission=AclPermission(grant.permission.value))


_READ, _WRITE, _MANAGE = (
    Need(each, ObjectKind.SECRET_SCOPE, "scope") for each in (Permission.READ, Permission.WRITE, Permission.MANAGE)
)
_SECRETS = Group("secrets", lambda ctx: ctx.services.secrets, "/api/2.0/secrets", body_limit=BODY_LIMIT, errors=(404,))
OPERATIONS: tuple[Operation, ...] = (
    _SECRETS("POST /scopes/create", _create_scope, "Create a secret scope", needs=IN_WORKSPACE),
    _SECRETS("POST /scopes/delete", _delete_scope, "Delete a scope with its secrets", needs=_MANAGE),
    _SECRETS("GET /scopes/list", _list_scopes, "All secret scopes", needs=IN_WORKSPACE),
    _SECRETS("POST /put", _put, "Write a secret", needs=_WRITE),
    _SECRETS("GET /get", _get, "The value of a secret", needs=_READ),
    _SECRETS("POST /delete", _delete, "Delete a secret", needs=_WRITE),
    _SECRETS("GET /list", _list, "The secrets of a scope", needs=_READ),
    _SECRETS("POST /acls/put", _put_acl, "Give a permission on a scope", needs=_MANAGE),
    _SECRETS("GET /acls/get", _get_acl, "The permission of one principal", needs=_MANAGE),
    _SECRETS("POST /acls/delete", _delete_acl, "Take back a permission on a scope", needs=_MANAGE),
    _SECRETS("GET /acls/list", _list_acls, "Permissions on a scope", needs=_MANAGE),
    _SECRETS("POST /rotate-key", _rotate_key, "Change the key that encrypts secrets", needs=ADMIN),
)
