"""Who may use the page: browsers that were opened by a link of this process. Kept in memory, so it ends with the process."""

from __future__ import annotations

from typing import NamedTuple

from brickyard.domain.caller import Caller
from brickyard.domain.clock import Clock, Ids
from brickyard.features.credentials.loginlinks import LIFETIME_MS
from brickyard.features.credentials.sessions import Session

SESSION_MS = 24 * 3_600_000
MAX_SESSIONS = 100  # the oldest ends when another one begins


class _Open(NamedTuple):
    session: Session
    until_ms: int


class LinkedSessions:
    """One per process. It is the `Sessions` of an Authenticator. Codes and cookies are random: knowing one is the proof."""

    def __init__(self, caller: Caller, *, clock: Clock, ids: Ids) -> None:
        self._caller = caller
        self._clock = clock
        self._ids = ids
        self._links: dict[str, int] = {}  # code -> expiry, epoch ms
        self._open: dict[str, _Open] = {}  # by cookie, the oldest first

    def link(self) -> str:
        """The code of a new link, which works once."""
        code = self._ids.secret()
        self._links[code] = self._clock.now_ms() + LIFETIME_MS
        return code

    def follow(self, code: str) -> str | None:
        """The cookie of a new session; None if the link does not count, or no longer."""
        now = self._clock.now_ms()
        if self._links.pop(code, 0) <= now:
            return None
        cookie = self._ids.secret()
        self._open[cookie] = _Open(Session(self._caller, self._ids.secret()), now + SESSION_MS)
        if len(self._open) > MAX_SESSIONS:
            del self._open[next(iter(self._open))]
        return cookie

    async def find(self, cookie: str) -> Session | None:
        """The session of a cookie."""
        found = self._open.get(cookie)
        if found is None or found.until_ms <= self._clock.now_ms():
            self._open.pop(cookie, None)
            return None
        return found.session

    def end(self, cookie: str) -> None:
        """Logs out."""
        self._open.pop(cookie, None)
