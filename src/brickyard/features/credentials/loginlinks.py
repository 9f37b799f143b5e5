"""Links that log a browser in, once. A link is a row beside the tokens, so that only its hash is stored and every server knows
it. It ends with the token that it was made with, and so does the session that it begins."""

from __future__ import annotations

from urllib.parse import quote

from brickyard.access.credentials import hold
from brickyard.access.principals import active_principal
from brickyard.domain.caller import Caller
from brickyard.domain.clock import Clock, Ids
from brickyard.domain.identity import CredentialKind, TokenRow
from brickyard.features.credentials.sessions import SessionService
from brickyard.features.credentials.tokens import TokenService
from brickyard.store.store import Store
from brickyard.store.tx import Tx

PATH = "/login/link"
LIFETIME_MS = 10 * 60_000
MAX_LINKS = 20  # per user; the oldest ends when another one is made


def link_path(code: str) -> str:
    """What to add to the server's URL; it leads to the web page."""
    return f"{PATH}?code={quote(code)}"


class LoginLinks:
    """One per server."""

    def __init__(self, *, store: Store, clock: Clock, ids: Ids, tokens: TokenService, sessions: SessionService) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        self._tokens = tokens
        self._sessions = sessions

    async def make(self, caller: Caller) -> tuple[str, int]:
        """A link's code, shown only this once, and its expiry (epoch ms). Raises PermissionDenied."""
        code, now = self._ids.secret(), self._clock.now_ms()
        row = TokenRow(
            token_id=self._ids.hex(64),
            digest=self._tokens.digests.of(code),
            user_name=caller.user_name,
            comment="",
            created_ms=now,
            expiry_ms=now + LIFETIME_MS,
            kind=CredentialKind.LINK,
            parent=caller.token_id,
        )

        def work(tx: Tx) -> None:
            self._tokens.may_use(tx, caller)
            held = tx.tokens.of_user(caller.user_name, CredentialKind.LINK)
            for each in held[: max(0, len(held) - MAX_LINKS + 1)]:
                tx.tokens.delete(each.token_id)
            tx.tokens.insert(row)

        await self._store.write(work)
        return code, row.expiry_ms

    async def follow(self, code: str, *, instead_of: str = "") -> str | None:
        """The cookie of a new session of the user who made the link; None if it does not count, or no longer. It replaces the
        session of an earlier cookie, as any log-in does."""
        now, given = self._clock.now_ms(), self._tokens.digests.of(code)

        def work(tx: Tx) -> str | None:
            row = tx.tokens.by_hash(given)
            if row is None or row.kind is not CredentialKind.LINK or not hold(tx, row.token_id) or not hold(tx, row.parent):
                return None  # a second click has waited for the first one: the link is gone
            tx.tokens.delete(row.token_id)
            made_with, principal = tx.tokens.get(row.parent), active_principal(tx, row.user_name)
            if row.expired(now) or made_with is None or made_with.expired(now) or principal is None:
                return None
            tx.identify(principal, credential_id=row.parent)
            return self._sessions.open(tx, row.user_name, instead_of=instead_of, parent=row.parent, until_ms=made_with.expiry_ms)

        return await self._store.write(work)
