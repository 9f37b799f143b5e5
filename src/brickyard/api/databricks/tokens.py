"""Personal access tokens: a user's own (Tokens API), and everybody's (Token Management API)."""

from __future__ import annotations

from brickyard.api.context import ApiContext
from brickyard.api.edge.group import ADMIN, Group
from brickyard.api.edge.registry import Empty, Need, Operation
from brickyard.domain.access import ObjectKind, Permission
from brickyard.domain.caller import Caller
from brickyard.domain.errors import InvalidParameterValue
from brickyard.domain.identity import TokenRow
from brickyard.domain.spec import Wire
from brickyard.features.credentials.tokenmanagement import ManagedToken
from brickyard.features.credentials.tokens import TokenService

DAY_MS = 86_400_000


class CreateTokenRequest(Wire, frozen=True, kw_only=True):
    """A token without `lifetime_seconds` does not expire. A token may do whatever its user may: there are no scopes."""

    comment: str | None = None
    lifetime_seconds: int | None = None
    scopes: list[str] | None = None
    autoscope_enabled: bool | None = None


class PublicTokenInfo(Wire, frozen=True, kw_only=True):
    """A token as its user sees it. Times are epoch milliseconds; an `expiry_time` of -1 means never; `last_used_day` is the
    beginning of that day in UTC."""

    token_id: str
    creation_time: int
    expiry_time: int
    comment: str | None = None
    last_used_day: int | None = None


class CreateTokenResponse(Wire, frozen=True, kw_only=True):
    """`token_value` is shown only in this response."""

    token_value: str
    token_info: PublicTokenInfo


class ListPublicTokensResponse(Wire, frozen=True, kw_only=True):
    token_infos: list[PublicTokenInfo] | None = None


class RevokeTokenRequest(Wire, frozen=True, kw_only=True):
    token_id: str


class TokenChange(Wire, frozen=True, kw_only=True):
    """The fields of a token that can change. Clients send others along with them."""

    comment: str = ""


class UpdateTokenRequest(Wire, frozen=True, kw_only=True):
    """`update_mask` names the fields to change; only `comment` can."""

    token_id: str
    token: TokenChange
    update_mask: str


class TokenInfo(PublicTokenInfo, frozen=True, kw_only=True):
    """A token as administrators see it. `owner_username` is ours: programs whose numbers are floating-point cannot look up
    `owner_id`, which may have 16 digits."""

    created_by_username: str
    created_by_id: int | None = None
    owner_id: int | None = None
    owner_username: str
    workspace_id: int


class TokenInfoResponse(Wire, frozen=True, kw_only=True):
    token_info: TokenInfo


class ListTokensResponse(Wire, frozen=True, kw_only=True):
    token_infos: list[TokenInfo] | None = None


class ListTokensRequest(Wire, frozen=True, kw_only=True):
    created_by_id: int | None = None
    created_by_username: str | None = None


class CreateOnBehalfRequest(CreateTokenRequest, frozen=True, kw_only=True):
    """`application_id` is the service principal's."""

    application_id: str


class CreateForRequest(CreateTokenRequest, frozen=True, kw_only=True):
    """`user_name` is a person's, or a service principal's application id."""

    user_name: str


class CreateOnBehalfResponse(Wire, frozen=True, kw_only=True):
    """`token_value` is shown only in this response."""

    token_value: str
    token_info: TokenInfo


class TokenId(Wire, frozen=True, kw_only=True):
    token_id: str


async def _create(tokens: TokenService, caller: Caller, request: CreateTokenRequest) -> CreateTokenResponse:
    check_scopes(request.scopes, autoscope=request.autoscope_enabled)
    token, row = await tokens.create(caller, comment=request.comment or "", lifetime_seconds=request.lifetime_seconds)
    return CreateTokenResponse(token_value=token, token_info=_public(row))


async def _list(tokens: TokenService, caller: Caller, request: Empty) -> ListPublicTokensResponse:
    return ListPublicTokensResponse(token_infos=[_public(row) for row in await tokens.list(caller)])


async def _delete(tokens: TokenService, caller: Caller, request: RevokeTokenRequest) -> None:
    await tokens.delete(caller, request.token_id)


async def _update(tokens: TokenService, caller: Caller, request: UpdateTokenRequest) -> None:
    _check_mask(request.update_mask)
    await tokens.update(caller, request.token_id, comment=request.token.comment)


async def _list_all(ctx: ApiContext, caller: Caller, request: ListTokensRequest) -> ListTokensResponse:
    found = await ctx.services.token_management.list(
        caller, created_by=request.created_by_username or "", created_by_id=request.created_by_id
    )
    return ListTokensResponse(token_infos=[_managed(ctx, each) for each in found])


async def _get_any(ctx: ApiContext, caller: Caller, request: TokenId) -> TokenInfoResponse:
    return TokenInfoResponse(token_info=_managed(ctx, await ctx.services.token_management.get(caller, request.token_id)))


async def _update_any(ctx: ApiContext, caller: Caller, request: UpdateTokenRequest) -> TokenInfo:
    _check_mask(request.update_mask)
    return _managed(ctx, await ctx.services.token_management.update(caller, request.token_id, comment=request.token.comment))


async def _create_on_behalf(ctx: ApiContext, caller: Caller, request: CreateOnBehalfRequest) -> CreateOnBehalfResponse:
    check_scopes(request.scopes, autoscope=request.autoscope_enabled)
    token, made = await ctx.services.token_management.create_on_behalf(
        caller, request.application_id, comment=request.comment or "", lifetime_seconds=request.lifetime_seconds
    )
    return CreateOnBehalfResponse(token_value=token, token_info=_managed(ctx, made))


async def _create_for(ctx: ApiContext, caller: Caller, request: CreateForRequest) -> CreateOnBehalfResponse:
    check_scopes(request.scopes, autoscope=request.autoscope_enabled)
    token, made = await ctx.services.token_management.create_for(
        caller, request.user_name, comment=request.comment or "", lifetime_seconds=request.lifetime_seconds
    )
    return CreateOnBehalfResponse(token_value=token, token_info=_managed(ctx, made))


async def _delete_any(ctx: ApiContext, caller: Caller, request: TokenId) -> None:
    await ctx.services.token_management.delete(caller, request.token_id)


def check_scopes(scopes: list[str] | None, *, autoscope: bool | None = None) -> None:
    """Refuses what would limit a token: Brickyard cannot hold it to that. Raises InvalidParameterValue."""
    if autoscope:
        raise InvalidParameterValue("autoscope_enabled is true, but tokens have no scopes here. Leave it out.")
    if set(scopes or ()) - {"all-apis"}:
        raise InvalidParameterValue(
            "scopes is set, but tokens have no scopes here: each may do whatever its user may. Leave it out, or give all-apis."
        )


def _check_mask(mask: str) -> None:
    paths = {path.strip() for path in mask.split(",") if path.strip()}
    if not paths or paths - {"comment", "*"}:
        raise InvalidParameterValue(f"update_mask is {mask[:100]!r}; the only field of a token that can change is comment.")


def _public(row: TokenRow) -> PublicTokenInfo:
    return PublicTokenInfo(
        token_id=row.token_id,
        creation_time=row.created_ms,
        expiry_time=row.expiry_ms,
        comment=row.comment or None,
        last_used_day=_day(row),
    )


def _managed(ctx: ApiContext, token: ManagedToken) -> TokenInfo:
    row = token.row
    return TokenInfo(
        token_id=row.token_id,
        creation_time=row.created_ms,
        expiry_time=row.expiry_ms,
        comment=row.comment or None,
        created_by_username=token.creator,
        created_by_id=int(token.creator_id) if token.creator_id else None,
        owner_id=int(token.owner_id) if token.owner_id else None,
        owner_username=row.user_name,
        last_used_day=_day(row),
        workspace_id=int(ctx.workspace_id),
    )


def _day(row: TokenRow) -> int | None:
    return row.last_used_ms // DAY_MS * DAY_MS or None


_TOKENS = Group("tokens", lambda ctx: ctx.services.tokens, "/api/2.0/token", needs=Need(Permission.CAN_USE, ObjectKind.TOKENS))
_FOR = Group("token_management", lambda ctx: ctx, "/api/2.1/token-management")
_MANAGED = Group("token_management", lambda ctx: ctx, "/api/2.0/token-management", needs=ADMIN)
OPERATIONS: tuple[Operation, ...] = (
    _TOKENS("POST /create", _create, "Create a personal access token"),
    _TOKENS("GET /list", _list, "Your personal access tokens"),
    _TOKENS("POST /delete", _delete, "Revoke a personal access token", errors=(404,)),
    _TOKENS("PATCH /{token_id}", _update, "Change the comment of a personal access token", name="update", errors=(404,)),
    _MANAGED(
        "POST /on-behalf-of/tokens",
        _create_on_behalf,
        "Create a personal access token for a service principal",
        name="create_on_behalf",
        errors=(404,),
    ),
    _FOR(
        "POST /tokens", _create_for, "Create a personal access token for somebody", name="create_for", needs=ADMIN, errors=(404,)
    ),
    _MANAGED("GET /tokens", _list_all, "Everybody's personal access tokens", name="list"),
    _MANAGED("GET /tokens/{token_id}", _get_any, "One personal access token, of any user", name="get", errors=(404,)),
    _MANAGED(
        "PATCH /tokens/{token_id}",
        _update_any,
        "Change the comment of anybody's personal access token",
        name="update",
        errors=(404,),
    ),
    _MANAGED("DELETE /tokens/{token_id}", _delete_any, "Revoke anybody's personal access token", name="delete", errors=(404,)),
)
