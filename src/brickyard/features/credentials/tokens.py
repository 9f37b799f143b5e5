"""Personal access tokens, and the caller of every bearer token. Whoever holds a token acts as its user. Only keyed hashes are
stored (`digests.py`)."""

from __future__ import annotations

from collections.abc import Set
from typing import NamedTuple

import msgspec

from brickyard.access import Authorizer, conf
from brickyard.access.credentials import counts, end
from brickyard.access.objects import TOKENS
from brickyard.access.principals import active_principal, caller_of
from brickyard.access.users import new_user
from brickyard.domain.access import Permission
from brickyard.domain.caller import Caller
from brickyard.domain.clock import Clock, Ids
from brickyard.domain.errors import InvalidParameterValue, PermissionDenied, QuotaExceeded, ResourceDoesNotExist
from brickyard.domain.identity import ADMIN_TOKEN_ID, ADMINS_ID, NEVER, CredentialKind, TokenRow, UserRow
from brickyard.features.credentials.digests import Digests, plain
from brickyard.features.credentials.lastuse import LastUse, SessionLimits
from brickyard.store.changeset import Changes
from brickyard.store.identity import LOCK
from brickyard.store.store import Store
from brickyard.store.tx import Tx

MAX_TOKENS = 600  # per user
MAX_LIFETIME_S = 100 * 365 * 86_400
MAX_COMMENT = 1024
CACHE_MS = 5_000  # how long a caller is kept while nothing changes
SHARED_CACHE_MS = 1_000  # likewise while other servers write: the notice of a change may be late
CACHE_SIZE = 10_000
DEFAULT = SessionLimits()
BEARERS = frozenset({CredentialKind.PERSONAL, CredentialKind.ACCESS})


class _Known(NamedTuple):
    caller: Caller
    kind: CredentialKind
    until_ms: int


class TokenService:
    """Authenticates users and manages their tokens. For one event loop."""

    def __init__(
        self, *, store: Store, clock: Clock, ids: Ids, authorizer: Authorizer, key: bytes, sessions: SessionLimits = DEFAULT
    ) -> None:
        """`key` is the workspace's secret."""
        self.digests = Digests(key=key)
        self.use = LastUse(store=store, sessions=sessions)
        self._store = store
        self._authorizer = authorizer
        self._clock = clock
        self._ids = ids
        self._known: dict[bytes, _Known] = {}
        self._forgotten = 0  # times
        store.on_commit(self._committed)
        store.on_gap(self._forget)

    def known(self, bearer: str, *, kinds: Set[CredentialKind] = BEARERS) -> Caller | None:
        """The caller with this token, if it was seen in the last few seconds, so that nothing must be read."""
        known = self._known.get(plain(bearer))
        if known is None or (now := self._clock.now_ms()) >= known.until_ms or known.kind not in kinds:
            return None
        self.use.saw(known.caller.token_id, now)
        return known.caller

    async def authenticate(self, bearer: str, *, kinds: Set[CredentialKind] = BEARERS) -> Caller | None:
        """The caller with this token, or None: also while the identity is not active, or if it is a credential of another kind. A
        token seen in the last few seconds needs no read."""
        if (caller := self.known(bearer, kinds=kinds)) is not None:
            return caller
        digest, now = plain(bearer), self._clock.now_ms()
        forgotten = self._forgotten
        keyed = self.digests.of_plain(digest)
        found = await self._store.read(lambda tx: _find(tx, keyed))
        if found is None or found[0].kind not in kinds or found[0].expired(now):
            self._known.pop(digest, None)
            return None
        row, caller = found
        self.use.saw(row.token_id, now)
        # Race: the token is revoked between our read and this line. The result may be stale then, and is not cached.
        if forgotten == self._forgotten:
            until = now + (CACHE_MS if self._store.alone else SHARED_CACHE_MS)
            self._keep(digest, caller, row.kind, until if row.expiry_ms == NEVER else min(until, row.expiry_ms))
        return caller

    async def create(self, caller: Caller, *, comment: str = "", lifetime_seconds: int | None = None) -> tuple[str, TokenRow]:
        """Creates a token for the caller; returns (the token itself, shown only this once; its row).

        Raises InvalidParameterValue and QuotaExceeded."""
        token, row = self.new(caller.user_name, comment=comment, lifetime_seconds=lifetime_seconds)

        def work(tx: Tx) -> TokenRow:
            self.may_use(tx, caller)
            return insert_token(tx, row)

        return token, await self._store.write(work)

    def new(self, user_name: str, *, comment: str, lifetime_seconds: int | None, created_by: str = "") -> tuple[str, TokenRow]:
        """A new personal access token of that user, and its row, to be inserted. Raises InvalidParameterValue."""
        if lifetime_seconds is not None and not 0 < lifetime_seconds <= MAX_LIFETIME_S:
            raise InvalidParameterValue(
                f"lifetime_seconds is {lifetime_seconds}; it must be between 1 and {MAX_LIFETIME_S}, or absent for a token "
                "that does not expire."
            )
        check_comment(comment)
        now, token = self._clock.now_ms(), self._ids.token()
        return token, TokenRow(
            token_id=self._ids.hex(64),
            digest=self.digests.of(token),
            user_name=user_name,
            comment=comment,
            created_ms=now,
            expiry_ms=NEVER if lifetime_seconds is None else now + lifetime_seconds * 1000,
            created_by=created_by,
        )

    async def list(self, caller: Caller) -> list[TokenRow]:
        """The caller's unexpired tokens, oldest first."""
        now = self._clock.now_ms()

        def work(tx: Tx) -> list[TokenRow]:
            self.may_use(tx, caller)
            return tx.tokens.of_user(caller.user_name)

        rows = await self._store.read(work)
        return [row for row in rows if not row.expired(now)]

    async def delete(self, caller: Caller, token_id: str) -> None:
        """Revokes a token of the caller at once. Raises ResourceDoesNotExist."""

        def work(tx: Tx) -> None:
            self.may_use(tx, caller)
            end(tx, personal(tx, token_id, of=caller.user_name).token_id)

        await self._store.write(work)

    async def update(self, caller: Caller, token_id: str, *, comment: str) -> None:
        """Changes the comment of a token of the caller. Raises ResourceDoesNotExist and InvalidParameterValue."""
        check_comment(comment)

        def work(tx: Tx) -> None:
            self.may_use(tx, caller)
            tx.tokens.set_comment(personal(tx, token_id, of=caller.user_name).token_id, comment)

        await self._store.write(work)

    async def key_digests(self) -> None:
        """Replaces the plain digests of older versions by keyed ones. The tokens go on working."""

        def work(tx: Tx) -> None:
            for token_id, old in tx.tokens.plain():
                tx.tokens.set_digest(token_id, old=old, new=self.digests.of_plain(bytes.fromhex(old)))

        if await self._store.read(lambda tx: tx.tokens.plain()):
            await self._store.write(work)

    async def ensure_admin(self, user_name: str, token: str) -> None:
        """Ensures that the user exists, is active, is an administrator and has exactly this token as the workspace's admin token.
        A previous admin token becomes invalid: to revoke a leaked one, set another."""
        now = self._clock.now_ms()
        row = TokenRow(
            token_id=ADMIN_TOKEN_ID,
            digest=self.digests.of(token),
            user_name=user_name,
            comment="The workspace's admin token",
            created_ms=now,
            expiry_ms=NEVER,
        )
        fresh = new_user(user_name, ids=self._ids, now_ms=now)
        await self._store.write(lambda tx: _ensure_admin(tx, row, fresh))

    def may_use(self, tx: Tx, caller: Caller) -> None:
        self._authorizer.require(tx, caller, Permission.CAN_USE, TOKENS, to="use personal access")

    def _keep(self, digest: bytes, caller: Caller, kind: CredentialKind, until_ms: int) -> None:
        self._known.pop(digest, None)  # so that it becomes the newest again
        if len(self._known) >= CACHE_SIZE:
            del self._known[next(iter(self._known))]
        self._known[digest] = _Known(caller, kind, until_ms)

    def _committed(self, changes: Changes) -> None:
        if changes.identity:
            self._forget()

    def _forget(self) -> None:
        """Every caller may have changed."""
        self._forgotten += 1
        self._known.clear()


def personal(tx: Tx, token_id: str, *, of: str = "") -> TokenRow:
    """That personal access token, if it is the user's `of` (anybody's if that is ""). Raises ResourceDoesNotExist."""
    row = tx.tokens.get(token_id)
    if row is None or row.kind is not CredentialKind.PERSONAL or (of and row.user_name != of):
        raise ResourceDoesNotExist(f"Token with ID {token_id} does not exist.")
    return row


def check_comment(comment: str) -> None:
    """Raises InvalidParameterValue."""
    if len(comment) > MAX_COMMENT:
        raise InvalidParameterValue(f"comment has {len(comment)} characters; at most {MAX_COMMENT} are allowed.")


def _find(tx: Tx, digest: str) -> tuple[TokenRow, Caller] | None:
    row = tx.tokens.by_hash(digest)
    principal = None if row is None else active_principal(tx, row.user_name)
    if row is None or principal is None or not counts(tx, row, principal):
        return None
    return row, caller_of(principal, token_id=row.token_id)


def insert_token(tx: Tx, row: TokenRow) -> TokenRow:
    """Inserts a personal access token, as the workspace's settings have it, and returns its row. Raises PermissionDenied,
    InvalidParameterValue and QuotaExceeded."""
    row = _allowed(tx, row)
    rows = tx.tokens.of_user(row.user_name)
    for old in rows:
        if old.expired(row.created_ms):
            tx.tokens.delete(old.token_id)
    if sum(not old.expired(row.created_ms) for old in rows) >= MAX_TOKENS:
        raise QuotaExceeded(f"User {row.user_name} has {MAX_TOKENS} tokens, which is the maximum. Delete one first.")
    tx.tokens.insert(row)
    return row


def _allowed(tx: Tx, row: TokenRow) -> TokenRow:
    """The row, with the longest lifetime that the workspace allows if it would never expire. Raises PermissionDenied and
    InvalidParameterValue."""
    if not conf.has_tokens(tx):
        raise PermissionDenied(
            "Personal access tokens are turned off in this workspace: its setting enableTokensConfig is false."
        )
    if (most_s := conf.most_token_s(tx)) is None:
        return row
    if row.expiry_ms == NEVER:
        return msgspec.structs.replace(row, expiry_ms=row.created_ms + most_s * 1000)
    if row.expiry_ms > row.created_ms + most_s * 1000:
        raise InvalidParameterValue(
            f"lifetime_seconds is {(row.expiry_ms - row.created_ms) // 1000}; at most {most_s} are allowed in this workspace: "
            f"its setting maxTokenLifetimeDays is {most_s // conf.DAY_S}."
        )
    return row


def _ensure_admin(tx: Tx, row: TokenRow, fresh: UserRow) -> None:
    tx.lock(LOCK)
    user = tx.users.get(row.user_name)
    if user is None or not user.active:
        user = fresh if user is None else msgspec.structs.replace(user, active=True)
        tx.users.put(user)
    tx.groups.add(ADMINS_ID, [user.user_id])
    row = msgspec.structs.replace(row, user_name=user.user_name)  # as it is written there
    holder = tx.tokens.by_hash(row.digest)
    if holder is not None and (holder.token_id, holder.user_name) == (row.token_id, row.user_name):
        return
    if holder is not None:
        tx.tokens.delete(holder.token_id)
    tx.tokens.delete(row.token_id)
    tx.tokens.insert(row)
