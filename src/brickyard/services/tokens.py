"""Personal access tokens. Whoever holds a token acts as its user. Only digests are stored."""

from __future__ import annotations

import hashlib
import hmac
from typing import NamedTuple

import msgspec

from brickyard.domain.access import Permission
from brickyard.domain.clock import Clock, Ids
from brickyard.domain.errors import InvalidParameterValue, QuotaExceeded, ResourceDoesNotExist
from brickyard.domain.identity import NEVER, TokenRow, UserRow
from brickyard.services.access import Authorizer
from brickyard.services.access.objects import TOKENS
from brickyard.services.caller import Caller
from brickyard.services.users import new_user
from brickyard.store.store import Store
from brickyard.store.tx import Tx

MAX_TOKENS = 600  # per user
MAX_LIFETIME_S = 100 * 365 * 86_400
MAX_COMMENT = 1024
ADMIN_TOKEN_ID = "admin-token"  # noqa: S105 - the name of a row, not a secret
CACHE_MS = 5_000  # how long a token or a user's rights may still count after another process changed them
CACHE_SIZE = 10_000


class _Known(NamedTuple):
    caller: Caller
    until_ms: int


class TokenService:
    """Authenticates users and manages their tokens. For one event loop."""

    def __init__(self, *, store: Store, clock: Clock, ids: Ids, authorizer: Authorizer) -> None:
        self._store = store
        self._authorizer = authorizer
        self._clock = clock
        self._ids = ids
        self._known: dict[bytes, _Known] = {}
        self._revocations = 0

    async def authenticate(self, bearer: str) -> Caller | None:
        """The user of this token, or None. A token seen in the last few seconds needs no read."""
        digest = hashlib.sha256(bearer.encode()).digest()
        now = self._clock.now_ms()
        known = self._known.get(digest)
        if known is not None and now < known.until_ms:
            return known.caller
        revocations = self._revocations
        hexed = digest.hex()
        found = await self._store.read(lambda tx: _find(tx, hexed))
        if found is None or not hmac.compare_digest(found[0].digest, hexed) or found[0].expired(now):
            self._known.pop(digest, None)
            return None
        row, user = found
        caller = Caller(user_name=user.user_name, user_id=user.user_id, is_admin=user.is_admin, token_id=row.token_id)
        # Race: the token is revoked between our read and this line. The result may be stale then, and is not cached.
        if revocations == self._revocations:
            self._keep(digest, caller, now + CACHE_MS if row.expiry_ms == NEVER else min(now + CACHE_MS, row.expiry_ms))
        return caller

    async def create(self, caller: Caller, *, comment: str = "", lifetime_seconds: int | None = None) -> tuple[str, TokenRow]:
        """Creates a token for the caller; returns (the token itself, shown only this once; its row).

        Raises InvalidParameterValue and QuotaExceeded."""
        if lifetime_seconds is not None and not 0 < lifetime_seconds <= MAX_LIFETIME_S:
            raise InvalidParameterValue(
                f"lifetime_seconds is {lifetime_seconds}; it must be between 1 and {MAX_LIFETIME_S}, or absent for a token "
                "that does not expire."
            )
        if len(comment) > MAX_COMMENT:
            raise InvalidParameterValue(f"comment has {len(comment)} characters; at most {MAX_COMMENT} are allowed.")
        now = self._clock.now_ms()
        token = self._ids.token()
        row = TokenRow(
            token_id=self._ids.hex(64),
            digest=_digest(token),
            user_name=caller.user_name,
            comment=comment,
            created_ms=now,
            expiry_ms=NEVER if lifetime_seconds is None else now + lifetime_seconds * 1000,
        )

        def work(tx: Tx) -> None:
            self._may_use(tx, caller)
            _insert(tx, row, now=now)

        await self._store.write(work)
        return token, row

    async def list(self, caller: Caller) -> list[TokenRow]:
        """The caller's unexpired tokens, oldest first."""
        now = self._clock.now_ms()

        def work(tx: Tx) -> list[TokenRow]:
            self._may_use(tx, caller)
            return tx.tokens.of_user(caller.user_name)

        rows = await self._store.read(work)
        return [row for row in rows if not row.expired(now)]

    async def delete(self, caller: Caller, token_id: str) -> None:
        """Revokes a token of the caller at once. Raises ResourceDoesNotExist."""

        def work(tx: Tx) -> bool:
            self._may_use(tx, caller)
            mine = any(row.token_id == token_id for row in tx.tokens.of_user(caller.user_name))
            return mine and tx.tokens.delete(token_id)

        if not await self._store.write(work):
            raise ResourceDoesNotExist(f"Token with ID {token_id} does not exist.")
        self._forget(token_id)

    async def ensure_admin(self, user_name: str, token: str) -> None:
        """Ensures that the user exists, is an administrator and has exactly this token as the workspace's admin token. A previous
        admin token becomes invalid: to revoke a leaked one, set another."""
        now = self._clock.now_ms()
        row = TokenRow(
            token_id=ADMIN_TOKEN_ID,
            digest=_digest(token),
            user_name=user_name,
            comment="The workspace's admin token",
            created_ms=now,
            expiry_ms=NEVER,
        )
        fresh = new_user(user_name, is_admin=True, ids=self._ids)
        await self._store.write(lambda tx: _ensure_admin(tx, row, fresh))
        self._forget(ADMIN_TOKEN_ID)

    def _may_use(self, tx: Tx, caller: Caller) -> None:
        self._authorizer.require(tx, caller, Permission.CAN_USE, TOKENS, to="use personal access")

    def _keep(self, digest: bytes, caller: Caller, until_ms: int) -> None:
        self._known.pop(digest, None)  # so that it becomes the newest again
        if len(self._known) >= CACHE_SIZE:
            del self._known[next(iter(self._known))]
        self._known[digest] = _Known(caller, until_ms)

    def _forget(self, token_id: str) -> None:
        self._revocations += 1
        for digest in [digest for digest, known in self._known.items() if known.caller.token_id == token_id]:
            del self._known[digest]


def renewed(tx: Tx, caller: Caller, *, now_ms: int, made_by_ms: int) -> Caller | None:
    """The caller with current rights; None if the user or token no longer exists. A token with the same name made after
    `made_by_ms` is a different one: the administrator's token keeps its name when it is replaced."""
    rows = [row for row in tx.tokens.of_user(caller.user_name) if row.token_id == caller.token_id]
    user = tx.users.get(caller.user_name) if any(r.created_ms <= made_by_ms and not r.expired(now_ms) for r in rows) else None
    if user is None:
        return None
    return Caller(user_name=user.user_name, user_id=user.user_id, is_admin=user.is_admin, token_id=caller.token_id)


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _find(tx: Tx, digest: str) -> tuple[TokenRow, UserRow] | None:
    row = tx.tokens.by_hash(digest)
    user = None if row is None else tx.users.get(row.user_name)
    return None if row is None or user is None else (row, user)


def _insert(tx: Tx, row: TokenRow, *, now: int) -> None:
    rows = tx.tokens.of_user(row.user_name)
    for old in rows:
        if old.expired(now):
            tx.tokens.delete(old.token_id)
    if sum(not old.expired(now) for old in rows) >= MAX_TOKENS:
        raise QuotaExceeded(f"User {row.user_name} has {MAX_TOKENS} tokens, which is the maximum. Delete one first.")
    tx.tokens.insert(row)


def _ensure_admin(tx: Tx, row: TokenRow, fresh: UserRow) -> None:
    user = tx.users.get(row.user_name)
    if user is None or not user.is_admin:
        tx.users.upsert(fresh if user is None else msgspec.structs.replace(user, is_admin=True))
    holder = tx.tokens.by_hash(row.digest)
    if holder is not None and (holder.token_id, holder.user_name) == (row.token_id, row.user_name):
        return
    if holder is not None:
        tx.tokens.delete(holder.token_id)
    tx.tokens.delete(row.token_id)
    tx.tokens.insert(row)
