"""OAuth: access tokens for service principals by client id and secret, and for people by authorization codes. All are rows beside
personal access tokens; a token that came from another credential ends with it."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from brickyard.access import Authorizer
from brickyard.access.credentials import end, hold
from brickyard.access.objects import WORKSPACE
from brickyard.access.principals import active_principal
from brickyard.domain.access import Permission
from brickyard.domain.caller import Caller
from brickyard.domain.clock import Clock, Ids
from brickyard.domain.errors import ApiError, InvalidParameterValue, QuotaExceeded, ResourceDoesNotExist, Unauthenticated
from brickyard.domain.identity import CredentialKind, IdentityKind, TokenRow, UserRow, fold_name
from brickyard.features.credentials.digests import Digests
from brickyard.store.store import Store
from brickyard.store.tx import Tx

ACCESS_S = 3600  # lifetime of an access token
MAX_SECRETS = 5  # per service principal, as in the Databricks API
SECRET_LIFETIME_S = 730 * 86_400  # likewise, unless the request names another
CLIENT_ID = "databricks-cli"  # the one client for people, which has no secret: the Databricks CLI and SDKs
CODE_S = 60  # for exchanging a code
REFRESH_S = 30 * 86_400  # for using a refresh token; the next one lasts as long again
# A refresh token may be used again for this long: programs that share a file of tokens refresh them at the same moment, and an
# answer may be lost. Later it must have been stolen.
AGAIN_S = 10
SCOPES = frozenset({"all-apis", "offline_access"})
_VERIFIER = re.compile(r"[A-Za-z0-9._~-]{43,128}")


class InvalidClient(Unauthenticated):
    """The client is unknown, or its secret is wrong."""

    error_code = "invalid_client"


class InvalidGrant(ApiError):
    """What was to be exchanged for tokens is unknown, used up, expired or revoked."""

    error_code = "invalid_grant"
    http_status = 400


class InvalidScope(ApiError):
    error_code = "invalid_scope"
    http_status = 400


class InvalidOAuthRequest(ApiError):
    error_code = "invalid_request"
    http_status = 400


class UnsupportedGrantType(ApiError):
    error_code = "unsupported_grant_type"
    http_status = 400


class _Grant(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a code or a refresh token is good for; `spent_ms` is when it was first used."""

    scope: str
    redirect_uri: str = ""
    challenge: str = ""
    spent_ms: int = 0


_decode_grant = msgspec.json.Decoder(_Grant).decode


class Issued(NamedTuple):
    """Tokens for a client. `refresh_token` is "" if there is none."""

    access_token: str
    expires_in: int
    scope: str
    refresh_token: str = ""


class ClientSecrets:
    """The client secrets of service principals. Every method raises PermissionDenied unless the caller is an administrator, and
    ResourceDoesNotExist."""

    def __init__(self, *, store: Store, clock: Clock, ids: Ids, authorizer: Authorizer, digests: Digests) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        self._authorizer = authorizer
        self._digests = digests

    async def create(self, caller: Caller, principal_id: str, *, lifetime_s: int = SECRET_LIFETIME_S) -> tuple[str, TokenRow]:
        """Creates a secret; returns it, this only time, and its row. Raises InvalidParameterValue and QuotaExceeded."""
        if not 0 < lifetime_s <= SECRET_LIFETIME_S:
            raise InvalidParameterValue(f"lifetime is {lifetime_s} s; it must be between 1 and {SECRET_LIFETIME_S} s (730 days).")
        secret, now = f"dose{self._ids.hex(32)}", self._clock.now_ms()

        def work(tx: Tx) -> TokenRow:
            principal = self._principal(tx, caller, principal_id)
            held = [row for row in tx.tokens.of_user(principal.user_name, CredentialKind.CLIENT_SECRET) if not row.expired(now)]
            if len(held) >= MAX_SECRETS:
                raise QuotaExceeded(f"The service principal has {MAX_SECRETS} secrets, which is the maximum. Delete one first.")
            row = TokenRow(
                token_id=self._ids.hex(32),
                digest=self._digests.of(secret),
                user_name=principal.user_name,
                comment="",
                created_ms=now,
                expiry_ms=now + lifetime_s * 1000,
                kind=CredentialKind.CLIENT_SECRET,
                created_by=caller.user_name,
            )
            tx.tokens.insert(row)
            return row

        return secret, await self._store.write(work)

    async def list(self, caller: Caller, principal_id: str) -> list[TokenRow]:
        """The secrets that have not expired, oldest first."""
        now = self._clock.now_ms()

        def work(tx: Tx) -> list[TokenRow]:
            principal = self._principal(tx, caller, principal_id)
            return tx.tokens.of_user(principal.user_name, CredentialKind.CLIENT_SECRET)

        return [row for row in await self._store.read(work) if not row.expired(now)]

    async def delete(self, caller: Caller, principal_id: str, secret_id: str) -> None:
        """Deletes a secret and revokes all access tokens that it was exchanged for."""

        def work(tx: Tx) -> None:
            principal = self._principal(tx, caller, principal_id)
            row = tx.tokens.get(secret_id)
            if row is None or row.kind is not CredentialKind.CLIENT_SECRET or row.user_name != principal.user_name:
                raise ResourceDoesNotExist(f"The service principal has no secret with ID {secret_id}.")
            end(tx, secret_id)

        await self._store.write(work)

    def _principal(self, tx: Tx, caller: Caller, principal_id: str) -> UserRow:
        self._authorizer.require(tx, caller, Permission.ADMIN, WORKSPACE, to="manage the service principals of the")
        user = tx.users.by_id(principal_id)
        if user is None or user.kind is not IdentityKind.SERVICE_PRINCIPAL:
            raise ResourceDoesNotExist(f"There is no service principal with ID {principal_id}.")
        return user


class OAuthService:
    """The token endpoint."""

    def __init__(self, *, store: Store, clock: Clock, ids: Ids, digests: Digests) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        self._digests = digests

    async def client_credentials(self, client_id: str, client_secret: str, scope: str) -> Issued:
        """An access token for a service principal. Raises InvalidClient and InvalidScope."""
        scope = known_scope(scope)
        now, token, digest = self._clock.now_ms(), self._ids.secret(), self._digests.of(client_secret)

        def work(tx: Tx) -> int:
            """How many seconds the token lasts: no longer than the secret."""
            row = tx.tokens.by_hash(digest)
            if row is None or row.kind is not CredentialKind.CLIENT_SECRET or row.expired(now):
                return 0
            if fold_name(row.user_name) != fold_name(client_id) or not hold(tx, row.token_id):
                return 0
            principal, lasts_s = active_principal(tx, row.user_name), min(ACCESS_S, (row.expiry_ms - now) // 1000)
            if principal is None or lasts_s < 1:
                return 0
            tx.identify(principal, credential_id=row.token_id)
            tx.tokens.insert(self._row(CredentialKind.ACCESS, token, row.user_name, lasts_s, parent=row.token_id))
            tx.tokens.used({row.token_id: now})
            return lasts_s

        if not (lasts_s := await self._store.write(work)):
            raise InvalidClient("The client id or the client secret is wrong, or the secret has expired or was deleted.")
        return Issued(token, lasts_s, scope)

    async def authorize(self, caller: Caller, *, redirect_uri: str, scope: str, challenge: str) -> str:
        """A code that a program can exchange for tokens of the caller, with the verifier of that challenge (S256)."""
        code = self._ids.secret()
        grant = _Grant(scope=scope, redirect_uri=redirect_uri, challenge=challenge)
        row = self._row(CredentialKind.CODE, code, caller.user_name, CODE_S, grant=grant)

        def work(tx: Tx) -> None:
            tx.identify(caller, credential_id=caller.token_id)
            tx.tokens.insert(row)

        await self._store.write(work)
        return code

    async def exchange(self, code: str, *, redirect_uri: str, verifier: str) -> Issued:
        """The first tokens of a log-in. A code that comes a second time revokes them: somebody else may have them. Raises
        InvalidGrant."""

        def good(row: TokenRow, grant: _Grant, now: int) -> bool:
            if grant.spent_ms:
                return False
            hashed = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
            proved = _VERIFIER.fullmatch(verifier) is not None and hmac.compare_digest(hashed, grant.challenge)
            if not proved or redirect_uri != grant.redirect_uri:
                raise InvalidGrant("redirect_uri or code_verifier does not belong to this code.")
            return True

        return await self._spend(CredentialKind.CODE, code, good)

    async def refresh(self, refresh_token: str) -> Issued:
        """The next tokens of a log-in, with a new refresh token. One that was used before revokes all tokens of its log-in.
        Raises InvalidGrant."""

        def good(row: TokenRow, grant: _Grant, now: int) -> bool:
            return not grant.spent_ms or now - grant.spent_ms <= AGAIN_S * 1000

        return await self._spend(CredentialKind.REFRESH, refresh_token, good)

    async def _spend(self, kind: CredentialKind, given: str, good: Callable[[TokenRow, _Grant, int], bool]) -> Issued:
        """Exchanges a code or a refresh token. If it is not `good` any more, everything of its log-in is revoked."""
        now, digest = self._clock.now_ms(), self._digests.of(given)
        access, refresh = self._ids.secret(), self._ids.secret()

        def work(tx: Tx) -> str:
            found = tx.tokens.by_hash(digest)
            if found is None or found.kind is not kind:
                return ""
            login = found.parent or found.token_id
            hold(tx, login)
            row, principal = tx.tokens.get(found.token_id), active_principal(tx, found.user_name)
            if row is None or row.expired(now) or principal is None:
                return ""
            tx.identify(principal, credential_id=row.token_id)
            grant = _decode_grant(row.details)
            if not good(row, grant, now):
                end(tx, login)
                return ""
            spent = msgspec.structs.replace(grant, spent_ms=grant.spent_ms or now)
            tx.tokens.set_details(row.token_id, msgspec.json.encode(spent).decode())
            tx.tokens.insert(self._row(CredentialKind.ACCESS, access, row.user_name, ACCESS_S, parent=login))
            if "offline_access" in grant.scope.split():
                more = self._row(
                    CredentialKind.REFRESH, refresh, row.user_name, REFRESH_S, parent=login, grant=_Grant(scope=grant.scope)
                )
                tx.tokens.insert(more)
            return grant.scope

        scope = await self._store.write(work)
        if not scope:
            raise InvalidGrant("The code or refresh token is unknown, was used before, has expired or was revoked. Log in again.")
        return Issued(access, ACCESS_S, scope, refresh if "offline_access" in scope.split() else "")

    def _row(
        self,
        kind: CredentialKind,
        credential: str,
        user_name: str,
        lifetime_s: int,
        *,
        parent: str = "",
        grant: _Grant | None = None,
    ) -> TokenRow:
        now = self._clock.now_ms()
        return TokenRow(
            token_id=self._ids.hex(64),
            digest=self._digests.of(credential),
            user_name=user_name,
            comment="",
            created_ms=now,
            expiry_ms=now + lifetime_s * 1000,
            kind=kind,
            parent=parent,
            details="" if grant is None else msgspec.json.encode(grant).decode(),
        )


def known_scope(scope: str) -> str:
    """The scope that is granted: access tokens have all. Raises InvalidScope for one that would limit them."""
    asked = scope.split() or ["all-apis"]
    if unknown := set(asked) - SCOPES:
        raise InvalidScope(f"scope has {min(unknown)[:100]!r}; the scopes here are {', '.join(sorted(SCOPES))}.")
    return " ".join(asked)
