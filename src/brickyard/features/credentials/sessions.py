"""Browser sessions: a cookie that stands for a user. They are rows beside the tokens, so every server knows them. They end
when they are not used, when they are old, and at log-out."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import NamedTuple

from brickyard.access.credentials import end, hold
from brickyard.access.principals import active_principal
from brickyard.domain.caller import Caller
from brickyard.domain.clock import Clock, Ids
from brickyard.domain.identity import NEVER, CredentialKind, TokenRow
from brickyard.features.credentials.tokens import BEARERS, TokenService
from brickyard.store.store import Store
from brickyard.store.tx import Tx

MAX_SESSIONS = 100  # per user; the oldest ends when another one begins


class Session(NamedTuple):
    """`csrf_token` has to come with every call that changes something: only our own pages can know it."""

    caller: Caller
    csrf_token: str


class SessionService:
    """One per server. `key` is the workspace's secret."""

    def __init__(self, *, store: Store, clock: Clock, ids: Ids, tokens: TokenService, key: bytes) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        self._tokens = tokens
        self._key = hmac.new(key, b"csrf tokens", hashlib.sha256).digest()

    @property
    def lifetime_ms(self) -> int:
        """How long a session lasts at most."""
        return self._tokens.use.sessions.lifetime_ms

    async def find(self, cookie: str) -> Session | None:
        """The session of a cookie, if its user may still use it."""
        caller = await self._tokens.authenticate(cookie, kinds=frozenset({CredentialKind.SESSION})) if cookie else None
        return None if caller is None else Session(caller, self._csrf_token(caller.token_id))

    async def begin(self, token: str, *, instead_of: str = "") -> str | None:
        """The cookie of a new session of a bearer token's user, or None if the token is not valid. The session ends with the
        token. It replaces the session of an earlier cookie: no cookie from before the log-in is valid after it."""
        now, entered = self._clock.now_ms(), self._tokens.digests.of(token)

        def work(tx: Tx) -> str | None:
            row = tx.tokens.by_hash(entered)
            if row is None or row.kind not in BEARERS or row.expired(now) or not hold(tx, row.token_id):
                return None
            principal = active_principal(tx, row.user_name)
            if principal is None:
                return None
            tx.identify(principal, credential_id=row.token_id)
            return self.open(tx, row.user_name, instead_of=instead_of, parent=row.token_id, until_ms=row.expiry_ms)

        return await self._store.write(work)

    def open(self, tx: Tx, user_name: str, *, instead_of: str, parent: str = "", until_ms: int = NEVER) -> str:
        """The cookie of a new session of a user who has just shown who they are. It ends with the credential `parent`, and at
        `until_ms`. A session that lets in its own browser again stays: the new one ends with it."""
        limits, cookie, now = self._tokens.use.sessions, self._ids.secret(), self._clock.now_ms()
        before = tx.tokens.by_hash(self._tokens.digests.of(instead_of))
        if before is not None and before.kind is CredentialKind.SESSION and before.token_id != parent:
            _end(tx, before)
        held = tx.tokens.of_user(user_name, CredentialKind.SESSION)
        for each in held[: max(0, len(held) - MAX_SESSIONS + 1)]:
            tx.tokens.delete(each.token_id)
        last = now + limits.lifetime_ms if until_ms == NEVER else min(now + limits.lifetime_ms, until_ms)
        tx.tokens.insert(
            TokenRow(
                token_id=self._ids.hex(64),
                digest=self._tokens.digests.of(cookie),
                user_name=user_name,
                comment="",
                created_ms=now,
                expiry_ms=min(now + limits.idle_ms, last),
                kind=CredentialKind.SESSION,
                parent=parent,
                details=str(last),
            )
        )
        return cookie

    async def end(self, session: Session) -> TokenRow | None:
        """Logs out, on every server. Returns the log-in with the identity provider that the session came from, if it did."""

        def work(tx: Tx) -> TokenRow | None:
            tx.identify(session.caller, credential_id=session.caller.token_id)
            row = tx.tokens.get(session.caller.token_id)
            return None if row is None else _end(tx, row)

        return await self._store.write(work)

    def _csrf_token(self, token_id: str) -> str:
        signed = hmac.new(self._key, token_id.encode(), hashlib.sha256).digest()
        return base64.urlsafe_b64encode(signed).decode().rstrip("=")


def _end(tx: Tx, session: TokenRow) -> TokenRow | None:
    """Ends a session, with the log-in with the identity provider that it came from."""
    log_in = tx.tokens.get(session.parent) if session.parent else None
    if log_in is not None and log_in.kind is CredentialKind.PROVIDER:
        end(tx, log_in.token_id)
        return log_in
    end(tx, session.token_id)
    return None
