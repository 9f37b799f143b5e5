"""Browser sessions and OAuth log-ins in the database: when they end. On both kinds of database."""

from __future__ import annotations

import base64
import hashlib

import pytest

from brickyard.domain.clock import Ids
from brickyard.domain.identity import CredentialKind
from brickyard.services.access import Authorizer
from brickyard.services.caller import Caller
from brickyard.services.lastuse import SessionLimits
from brickyard.services.oauth import AGAIN_S, CODE_S, REFRESH_S, InvalidGrant, Issued, OAuthService
from brickyard.services.sessions import MAX_SESSIONS, SessionService
from brickyard.services.tokens import TokenService
from brickyard.store.store import Store
from brickyard.testing.clock import ManualClock
from tests.services.test_tokens import KEY, ME, run
from tests.services.test_tokens import World as TokenWorld
from tests.support.databases import both_databases
from tests.support.people import lock_out

IDLE_MS, LIFETIME_MS = 600_000, 3_600_000
VERIFIER = "v" * 43
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).decode().rstrip("=")


class Desk:
    """One server, with a user."""

    def __init__(self, world: TokenWorld, me: Caller) -> None:
        self.store: Store = world.store
        self.clock: ManualClock = world.clock
        self.me = me
        self.tokens = TokenService(
            store=world.store, clock=world.clock, ids=Ids(), authorizer=Authorizer(), key=KEY,
            sessions=SessionLimits(IDLE_MS, LIFETIME_MS),
        )  # fmt: skip
        self.sessions = SessionService(store=world.store, clock=world.clock, ids=Ids(), tokens=self.tokens, key=KEY)
        self.oauth = OAuthService(store=world.store, clock=world.clock, ids=Ids(), digests=self.tokens.digests)

    @classmethod
    async def of(cls, world: TokenWorld) -> Desk:
        return cls(world, await world.user(ME))

    async def session(self, lifetime_seconds: int | None = None) -> str:
        cookie = await self.sessions.begin((await self.tokens.create(self.me, lifetime_seconds=lifetime_seconds))[0])
        assert cookie is not None
        return cookie

    async def lasts(self, cookie: str) -> bool:
        """Whether the session goes on. Asking uses it."""
        found = await self.sessions.find(cookie)
        await self.tokens.use.run_once()
        return found is not None

    async def code(self) -> str:
        return await self.oauth.authorize(self.me, redirect_uri="r", scope="all-apis offline_access", challenge=CHALLENGE)

    async def log_in(self) -> Issued:
        return await self.oauth.exchange(await self.code(), redirect_uri="r", verifier=VERIFIER)

    async def counts(self, issued: Issued) -> bool:
        return await self.tokens.authenticate(issued.access_token) is not None


def test_a_session_ends_when_it_is_not_used_and_when_it_is_old(store: Store) -> None:
    async def work(world: TokenWorld) -> None:
        desk = await Desk.of(world)
        idle = await desk.session()
        world.clock.advance(ms=IDLE_MS)
        assert not await desk.lasts(idle)
        used, began = await desk.session(), world.clock.now_ms()
        while world.clock.now_ms() - began < LIFETIME_MS - IDLE_MS // 2:
            world.clock.advance(ms=IDLE_MS // 2)
            assert await desk.lasts(used)
        world.clock.advance(ms=IDLE_MS // 2)
        assert not await desk.lasts(used)

    run(store, work)


def test_a_session_outlives_neither_its_token_nor_its_user(store: Store) -> None:
    async def work(world: TokenWorld) -> None:
        desk = await Desk.of(world)
        short = await desk.session(lifetime_seconds=IDLE_MS // 1000)
        world.clock.advance(ms=IDLE_MS // 2)
        assert await desk.lasts(short)
        world.clock.advance(ms=IDLE_MS // 2)
        assert not await desk.lasts(short)
        cookie = await desk.session()
        await store.write(lambda tx: lock_out(tx, desk.me))
        assert not await desk.lasts(cookie)

    run(store, work)


def test_only_bearer_tokens_begin_sessions(store: Store) -> None:
    async def work(world: TokenWorld) -> None:
        desk = await Desk.of(world)
        for wrong in ("", await desk.session(), await desk.code(), (await desk.log_in()).refresh_token):
            assert await desk.sessions.begin(wrong) is None

    run(store, work)


def test_a_user_has_a_limited_number_of_sessions(store: Store) -> None:
    async def work(world: TokenWorld) -> None:
        desk = await Desk.of(world)
        token, _ = await desk.tokens.create(desk.me)
        first = await desk.sessions.begin(token) or ""
        for _ in range(MAX_SESSIONS):
            world.clock.advance(ms=1)
            last = await desk.sessions.begin(token) or ""
        assert len(world.rows(CredentialKind.SESSION)) == MAX_SESSIONS
        assert not await desk.lasts(first)
        assert await desk.lasts(last)

    run(store, work)


@both_databases
def test_a_refresh_token_that_comes_again_ends_the_log_in(store: Store) -> None:
    async def work(world: TokenWorld) -> None:
        desk = await Desk.of(world)
        other = await desk.log_in()
        first = await desk.log_in()
        second = await desk.oauth.refresh(first.refresh_token)
        world.clock.advance(ms=AGAIN_S * 1000)
        third = await desk.oauth.refresh(first.refresh_token)  # two programs at the same moment
        for issued in (first, second, third, other):
            assert await desk.counts(issued)
        world.clock.advance(ms=1)
        with pytest.raises(InvalidGrant):
            await desk.oauth.refresh(first.refresh_token)
        for issued in (first, second, third):
            assert not await desk.counts(issued)
            with pytest.raises(InvalidGrant):
                await desk.oauth.refresh(issued.refresh_token)
        assert await desk.counts(other)

    run(store, work)


def test_codes_and_refresh_tokens_expire(store: Store) -> None:
    async def work(world: TokenWorld) -> None:
        desk = await Desk.of(world)
        code = await desk.code()
        world.clock.advance(ms=CODE_S * 1000)
        with pytest.raises(InvalidGrant):
            await desk.oauth.exchange(code, redirect_uri="r", verifier=VERIFIER)
        issued = await desk.log_in()
        world.clock.advance(ms=REFRESH_S * 1000)
        with pytest.raises(InvalidGrant):
            await desk.oauth.refresh(issued.refresh_token)

    run(store, work)


def test_who_is_locked_out_gets_no_more_tokens(store: Store) -> None:
    async def work(world: TokenWorld) -> None:
        desk = await Desk.of(world)
        code, issued = await desk.code(), await desk.log_in()
        await store.write(lambda tx: lock_out(tx, desk.me))
        assert not await desk.counts(issued)
        with pytest.raises(InvalidGrant):
            await desk.oauth.refresh(issued.refresh_token)
        with pytest.raises(InvalidGrant):
            await desk.oauth.exchange(code, redirect_uri="r", verifier=VERIFIER)

    run(store, work)
