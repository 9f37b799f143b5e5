"""Records when credentials were last used: in memory at once, in the database once a minute, so that no request waits for it.
Browser sessions last from their last use on."""

from __future__ import annotations

import asyncio
import contextlib
from typing import NamedTuple

from brickyard.domain.errors import DatabaseTrouble
from brickyard.domain.periodic import Periodic
from brickyard.store.store import Store
from brickyard.store.tx import Tx

EVERY_S = 60.0
CLOSE_S = 1.0


class SessionLimits(NamedTuple):
    """How long a browser session lasts without being used, and in all."""

    idle_ms: int = 8 * 3_600_000
    lifetime_ms: int = 7 * 86_400_000


class LastUse(Periodic):
    """For one event loop."""

    def __init__(self, *, store: Store, sessions: SessionLimits) -> None:
        super().__init__(every_s=EVERY_S)
        self._store = store
        self.sessions = sessions
        self._last: dict[str, int] = {}  # token id -> epoch ms, since the last write

    def saw(self, token_id: str, now_ms: int) -> None:
        """A credential was used."""
        self._last[token_id] = now_ms

    async def run_once(self) -> None:
        """Writes what has been used since the last time. While the database is away it is kept for later."""
        last, self._last = self._last, {}
        if last:
            try:
                await self._store.write(lambda tx: self._record(tx, last), background=True)
            except BaseException as error:
                self._last = last | self._last
                if not isinstance(error, DatabaseTrouble):
                    raise

    async def end(self) -> None:
        """Write the rest. A database that hangs does not delay the server's stop."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                await self.run_once()

    def _record(self, tx: Tx, last: dict[str, int]) -> None:
        tx.tokens.used(last)
        tx.tokens.extend_sessions(last, idle_ms=self.sessions.idle_ms)
