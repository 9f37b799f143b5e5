"""OAuth 2.0: the discovery documents, the token endpoint, and the client secrets of service principals."""

from __future__ import annotations

import base64
import binascii
import re
import time
from urllib.parse import unquote_plus

import msgspec

from brickyard.api.context import ApiContext
from brickyard.api.databricks.dialects import OAUTH
from brickyard.api.databricks.tokens import check_scopes
from brickyard.api.edge.dialects import Reply
from brickyard.api.edge.group import ADMIN, Group
from brickyard.api.edge.registry import Auth, Operation
from brickyard.domain.caller import Caller
from brickyard.domain.errors import InvalidParameterValue
from brickyard.domain.identity import TokenRow
from brickyard.domain.spec import Wire
from brickyard.features.credentials.oauth import (
    CLIENT_ID,
    SCOPES,
    SECRET_LIFETIME_S,
    ClientSecrets,
    InvalidClient,
    InvalidOAuthRequest,
    OAuthService,
    UnsupportedGrantType,
)

SECRETS = "/api/2.0/accounts/servicePrincipals/{service_principal_id}/credentials/secrets"
GRANTS = ("authorization_code", "refresh_token", "client_credentials")
_LIFETIME = re.compile(r"(\d{1,12})s?")


class ServerRequest(Wire, frozen=True, kw_only=True):
    base_url: str


class ServerMetadata(Wire, frozen=True, kw_only=True):
    """What OAuth clients learn about this server (RFC 8414)."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    scopes_supported: list[str]
    response_types_supported: list[str]
    grant_types_supported: list[str]
    code_challenge_methods_supported: list[str]
    token_endpoint_auth_methods_supported: list[str]


class TokenRequest(Wire, frozen=True, kw_only=True):
    """A form. The client says who it is by Basic authentication, or with `client_id` and `client_secret`."""

    grant_type: str = ""
    scope: str = ""
    client_id: str = ""
    client_secret: str = ""
    code: str = ""
    code_verifier: str = ""
    redirect_uri: str = ""
    refresh_token: str = ""
    assume_group: str = ""
    authorization_details: str = ""
    authorization: str = ""  # the header


class IssuedTokens(Wire, frozen=True, kw_only=True):
    access_token: str
    expires_in: int  # seconds
    scope: str
    token_type: str
    refresh_token: str = ""


class SecretsOf(Wire, frozen=True, kw_only=True):
    service_principal_id: str


class CreateSecretRequest(Wire, frozen=True, kw_only=True):
    """`lifetime` is in seconds, such as `3600s`; 730 days by default, which is also the maximum."""

    service_principal_id: str
    lifetime: str | None = None
    scopes: list[str] | None = None


class SecretId(Wire, frozen=True, kw_only=True):
    service_principal_id: str
    secret_id: str


class SecretInfo(Wire, frozen=True, kw_only=True):
    """A secret as it is listed. Times are in UTC (RFC 3339)."""

    id: str
    create_time: str
    update_time: str
    expire_time: str
    secret_hash: str
    status: str


class CreatedSecret(SecretInfo, frozen=True, kw_only=True):
    """`secret` is shown only in this response."""

    secret: str


class ListSecretsResponse(Wire, frozen=True, kw_only=True):
    secrets: list[SecretInfo] | None = None


async def _metadata(ctx: ApiContext, caller: Caller, request: ServerRequest) -> ServerMetadata:
    issuer = oidc_endpoint(request.base_url)
    return ServerMetadata(
        issuer=issuer,
        authorization_endpoint=f"{issuer}/v1/authorize",
        token_endpoint=f"{issuer}/v1/token",
        scopes_supported=sorted(SCOPES),
        response_types_supported=["code"],
        grant_types_supported=list(GRANTS),
        code_challenge_methods_supported=["S256"],
        token_endpoint_auth_methods_supported=["client_secret_basic", "client_secret_post", "none"],
    )


async def _token(oauth: OAuthService, caller: Caller, request: TokenRequest) -> Reply:
    if request.assume_group or request.authorization_details:
        raise InvalidOAuthRequest("assume_group and authorization_details are not supported: a token has all its user's rights.")
    if request.grant_type not in GRANTS:
        raise UnsupportedGrantType(f"grant_type is {request.grant_type[:100]!r}; it must be one of {', '.join(GRANTS)}.")
    client_id, client_secret = _client(request)
    if request.grant_type == "client_credentials":
        issued = await oauth.client_credentials(client_id, client_secret, request.scope)
    elif client_id != CLIENT_ID or client_secret:
        raise InvalidClient(f"Only {CLIENT_ID}, which has no secret, may use {request.grant_type}.")
    elif request.grant_type == "authorization_code":
        issued = await oauth.exchange(request.code, redirect_uri=request.redirect_uri, verifier=request.code_verifier)
    else:
        issued = await oauth.refresh(request.refresh_token)
    tokens = IssuedTokens(
        access_token=issued.access_token,
        expires_in=issued.expires_in,
        scope=issued.scope,
        refresh_token=issued.refresh_token,
        token_type="Bearer",  # noqa: S106 - a type
    )
    return Reply(body=msgspec.json.encode(tokens), headers=(("cache-control", "no-store"),))


async def _create_secret(secrets: ClientSecrets, caller: Caller, request: CreateSecretRequest) -> CreatedSecret:
    check_scopes(request.scopes)
    lifetime_s = SECRET_LIFETIME_S if request.lifetime is None else _seconds(request.lifetime)
    secret, row = await secrets.create(caller, request.service_principal_id, lifetime_s=lifetime_s)
    return CreatedSecret(**msgspec.structs.asdict(_secret_info(row)), secret=secret)


async def _list_secrets(secrets: ClientSecrets, caller: Caller, request: SecretsOf) -> ListSecretsResponse:
    rows = await secrets.list(caller, request.service_principal_id)
    return ListSecretsResponse(secrets=[_secret_info(row) for row in rows])


async def _delete_secret(secrets: ClientSecrets, caller: Caller, request: SecretId) -> None:
    await secrets.delete(caller, request.service_principal_id, request.secret_id)


def oidc_endpoint(base_url: str) -> str:
    """Where clients find everything about OAuth."""
    return f"{base_url}/oidc"


def _client(request: TokenRequest) -> tuple[str, str]:
    """Client id and secret. Raises InvalidClient."""
    scheme, _, rest = request.authorization.partition(" ")
    if scheme.lower() != "basic":
        return request.client_id, request.client_secret
    try:
        client_id, _, secret = base64.b64decode(rest, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError) as error:
        raise InvalidClient("The Authorization header cannot be read. Send Basic with client id and secret.") from error
    return unquote_plus(client_id), unquote_plus(secret)  # RFC 6749, 2.3.1


def _seconds(lifetime: str) -> int:
    if (match := _LIFETIME.fullmatch(lifetime)) is None:
        raise InvalidParameterValue(f"lifetime is {lifetime[:50]!r}; it must be a number of seconds, such as 3600s.")
    return int(match[1])


def _secret_info(row: TokenRow) -> SecretInfo:
    return SecretInfo(
        id=row.token_id,
        create_time=_time(row.created_ms),
        update_time=_time(row.created_ms),
        expire_time=_time(row.expiry_ms),
        secret_hash=row.digest,
        status="ACTIVE",
    )


def _time(ms: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(ms / 1000))


_METADATA = Group(
    "oauth",
    lambda ctx: ctx,
    "/oidc/.well-known/oauth-authorization-server",
    "/oidc/.well-known/openid-configuration",
    needs=(),
    auth=Auth.NONE,
)
_OAUTH = Group("oauth", lambda ctx: ctx.services.oauth, "/oidc/v1", needs=(), auth=Auth.NONE)
_SECRETS = Group("service_principal_secrets", lambda ctx: ctx.services.client_secrets, SECRETS, needs=ADMIN, errors=(404,))
OPERATIONS: tuple[Operation, ...] = (
    _METADATA("GET", _metadata, "What OAuth clients need to know", name="metadata", with_base_url=True),
    _OAUTH(
        "POST /token",
        _token,
        "Exchange a client's credentials, a code or a refresh token for an access token",
        response=IssuedTokens,
        dialect=OAUTH,
        urlencoded=True,
        logs_in=True,
        body_limit=64 * 1024,
        from_headers={"authorization": "authorization"},
        errors=(401,),
    ),
    _SECRETS("POST", _create_secret, "Create a client secret of a service principal", name="create"),
    _SECRETS("GET", _list_secrets, "A service principal's client secrets", name="list"),
    _SECRETS(
        "DELETE /{secret_id}",
        _delete_secret,
        "Delete a client secret, and revoke the access tokens that came from it",
        name="delete",
    ),
)
