"""Users, their tokens and sessions over a database: the services that let callers in, with one clock."""

from __future__ import annotations

import base64
import hashlib

from brickyard.domain.caller import Caller
from brickyard.domain.identity import CredentialKind, TokenRow
from brickyard.features.credentials.lastuse import SessionLimits
from brickyard.features.credentials.oauth import Issued
from brickyard.features.credentials.tokens import TokenService
from brickyard.store.store import Store
from brickyard.testing.clock import ManualClock
from tests.support import world as shared
from tests.support.people import enter
from tests.support.world import KEY

ROOT, ME, OTHER = "root@example.com", "me@example.com", "other@example.com"
ROOT_TOKEN = "dapi" + "1" * 32
IDLE_MS, LIFETIME_MS = 600_000, 3_600_000
VERIFIER = "v" * 43
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).decode().rstrip("=")


class World(shared.World):
    """One server, with the user `me`."""

    def __init__(self, store: Store, clock: ManualClock | None = None) -> None:
        super().__init__(store, clock=clock)
        self.tokens = self.server()
        self.me = Caller(user_name=ME, user_id=str(len(ME)), is_admin=False, token_id="")
        store.write_sync(lambda tx: enter(tx, self.me))

    def server(self, key: bytes = KEY) -> TokenService:
        """The tokens of one more server of the workspace."""
        return TokenService(**self.common, key=key, sessions=SessionLimits(IDLE_MS, LIFETIME_MS))

    async def user(self, name: str) -> Caller:
        caller = Caller(user_name=name, user_id=str(len(name)), is_admin=False, token_id="")
        await self.store.write(lambda tx: enter(tx, caller))
        return caller

    async def root(self) -> Caller:
        await self.tokens.ensure_admin(ROOT, ROOT_TOKEN)
        caller = await self.tokens.authenticate(ROOT_TOKEN)
        assert caller is not None
        return caller

    def rows(self, kind: CredentialKind = CredentialKind.PERSONAL) -> list[TokenRow]:
        return self.store.read_sync(lambda tx: tx.tokens.all(kind))

    async def session(self, lifetime_seconds: int | None = None) -> str:
        """The cookie of a new session of `me`."""
        cookie = await self.sessions.begin((await self.tokens.create(self.me, lifetime_seconds=lifetime_seconds))[0])
        assert cookie is not None
        return cookie

    async def lasts(self, cookie: str) -> bool:
        """Whether the session goes on. Asking uses it."""
        session = await self.sessions.find(cookie)
        await self.tokens.use.run_once()
        return session is not None

    async def code(self) -> str:
        return await self.oauth.authorize(self.me, redirect_uri="r", scope="all-apis offline_access", challenge=CHALLENGE)

    async def log_in(self) -> Issued:
        return await self.oauth.exchange(await self.code(), redirect_uri="r", verifier=VERIFIER)

    async def counts(self, issued: Issued) -> bool:
        return await self.tokens.authenticate(issued.access_token) is not None
