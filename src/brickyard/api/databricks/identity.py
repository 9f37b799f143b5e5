"""Identity: discovery of the host, the caller's user, personal access tokens."""

from __future__ import annotations

import uuid

from brickyard.api.context import ApiContext
from brickyard.api.databricks import wire
from brickyard.api.databricks.dialects import SCIM
from brickyard.api.edge.registry import Auth, Empty, Need, Operation
from brickyard.domain.access import ObjectKind, Permission
from brickyard.domain.identity import TokenRow, UserRow
from brickyard.services.caller import Caller

_SCHEMAS = [
    "urn:ietf:params:scim:schemas:core:2.0:User",
    "urn:ietf:params:scim:schemas:extension:workspace:2.0:User",
]
_ENTITLEMENTS = ("allow-cluster-create", "allow-instance-pool-create", "workspace-access", "databricks-sql-access")


async def _discovery(ctx: ApiContext, caller: Caller, request: Empty) -> wire.Discovery:
    return wire.Discovery(account_id=_account_id(ctx.workspace_id), workspace_id=ctx.workspace_id, host_type="workspace")


def _account_id(workspace_id: str) -> str:
    """Each workspace is its own account. The account id is a UUID that stays the same for the life of the workspace."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"brickyard {workspace_id}"))


async def _me(ctx: ApiContext, caller: Caller, request: Empty) -> wire.ScimUser:
    return scim_user(await ctx.users.me(caller))


async def _create_token(ctx: ApiContext, caller: Caller, request: wire.CreateTokenRequest) -> wire.CreateTokenResponse:
    token, row = await ctx.tokens.create(caller, comment=request.comment or "", lifetime_seconds=request.lifetime_seconds)
    return wire.CreateTokenResponse(token_value=token, token_info=token_info(row))


async def _list_tokens(ctx: ApiContext, caller: Caller, request: Empty) -> wire.ListPublicTokensResponse:
    return wire.ListPublicTokensResponse(token_infos=[token_info(row) for row in await ctx.tokens.list(caller)])


async def _delete_token(ctx: ApiContext, caller: Caller, request: wire.RevokeTokenRequest) -> None:
    await ctx.tokens.delete(caller, request.token_id)


def token_info(row: TokenRow) -> wire.PublicTokenInfo:
    """A token without its secret."""
    return wire.PublicTokenInfo(
        token_id=row.token_id, creation_time=row.created_ms, expiry_time=row.expiry_ms, comment=row.comment or None
    )


def scim_user(user: UserRow) -> wire.ScimUser:
    """A user in SCIM's format. All users have all entitlements unless permissions say otherwise."""
    given, _, family = user.display_name.partition(" ")
    groups = ["users", "admins"] if user.is_admin else ["users"]
    return wire.ScimUser(
        schemas=_SCHEMAS,
        id=user.user_id,
        user_name=user.user_name,
        display_name=user.display_name,
        active=True,
        name=wire.ScimName(given_name=given or None, family_name=family or None),
        emails=[wire.ScimValue(value=user.user_name, type="work", primary=True)],
        groups=[wire.ScimValue(value=name, display=name, type="direct", ref=f"Groups/{name}") for name in groups],
        entitlements=[wire.ScimValue(value=name) for name in _ENTITLEMENTS],
    )


OPERATIONS: tuple[Operation, ...] = (
    Operation(
        name="discovery.get",
        method="GET",
        paths=("/.well-known/databricks-config",),
        handler=_discovery,
        response=wire.Discovery,
        summary="Information about this host",
        needs=(),
        auth=Auth.NONE,
    ),
    Operation(
        name="current_user.me",
        method="GET",
        paths=("/api/2.0/preview/scim/v2/Me",),
        handler=_me,
        response=wire.ScimUser,
        summary="The calling user",
        needs=(Need(Permission.WORKSPACE_ACCESS, ObjectKind.WORKSPACE),),
        dialect=SCIM,
    ),
    Operation(
        name="tokens.create",
        method="POST",
        paths=("/api/2.0/token/create",),
        handler=_create_token,
        request=wire.CreateTokenRequest,
        response=wire.CreateTokenResponse,
        summary="Create a personal access token",
        needs=(Need(Permission.CAN_USE, ObjectKind.TOKENS),),
    ),
    Operation(
        name="tokens.list",
        method="GET",
        paths=("/api/2.0/token/list",),
        handler=_list_tokens,
        response=wire.ListPublicTokensResponse,
        summary="Your personal access tokens",
        needs=(Need(Permission.CAN_USE, ObjectKind.TOKENS),),
    ),
    Operation(
        name="tokens.delete",
        method="POST",
        paths=("/api/2.0/token/delete",),
        handler=_delete_token,
        request=wire.RevokeTokenRequest,
        summary="Revoke a personal access token",
        needs=(Need(Permission.CAN_USE, ObjectKind.TOKENS),),
        errors=(404,),
    ),
)
