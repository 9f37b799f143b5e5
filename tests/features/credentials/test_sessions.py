"""Browser sessions and OAuth log-ins in the database: when they end. On both kinds of database."""

from __future__ import annotations

import pytest

from brickyard.domain.identity import CredentialKind
from brickyard.features.credentials.oauth import AGAIN_S, CODE_S, REFRESH_S, InvalidGrant
from brickyard.features.credentials.sessions import MAX_SESSIONS
from brickyard.store.store import Store
from tests.support.credentials import IDLE_MS, LIFETIME_MS, VERIFIER, World
from tests.support.databases import both_databases
from tests.support.people import lock_out


async def test_a_session_ends_when_it_is_not_used_and_when_it_is_old(world: World) -> None:
    idle = await world.session()
    world.clock.advance(ms=IDLE_MS)
    assert not await world.lasts(idle)
    used, began = await world.session(), world.clock.now_ms()
    while world.clock.now_ms() - began < LIFETIME_MS - IDLE_MS // 2:
        world.clock.advance(ms=IDLE_MS // 2)
        assert await world.lasts(used)
    world.clock.advance(ms=IDLE_MS // 2)
    assert not await world.lasts(used)


async def test_a_session_outlives_neither_its_token_nor_its_user(world: World, store: Store) -> None:
    short = await world.session(lifetime_seconds=IDLE_MS // 1000)
    world.clock.advance(ms=IDLE_MS // 2)
    assert await world.lasts(short)
    world.clock.advance(ms=IDLE_MS // 2)
    assert not await world.lasts(short)
    cookie = await world.session()
    await store.write(lambda tx: lock_out(tx, world.me))
    assert not await world.lasts(cookie)


async def test_only_bearer_tokens_begin_sessions(world: World) -> None:
    for wrong in ("", await world.session(), await world.code(), (await world.log_in()).refresh_token):
        assert await world.sessions.begin(wrong) is None


async def test_a_user_has_a_limited_number_of_sessions(world: World) -> None:
    token, _ = await world.tokens.create(world.me)
    first = await world.sessions.begin(token) or ""
    for _ in range(MAX_SESSIONS):
        world.clock.advance(ms=1)
        last = await world.sessions.begin(token) or ""
    assert len(world.rows(CredentialKind.SESSION)) == MAX_SESSIONS
    assert not await world.lasts(first)
    assert await world.lasts(last)


@both_databases
async def test_a_refresh_token_that_comes_again_ends_the_log_in(world: World) -> None:
    other = await world.log_in()
    first = await world.log_in()
    second = await world.oauth.refresh(first.refresh_token)
    world.clock.advance(ms=AGAIN_S * 1000)
    third = await world.oauth.refresh(first.refresh_token)  # two programs at the same moment
    for issued in (first, second, third, other):
        assert await world.counts(issued)
    world.clock.advance(ms=1)
    with pytest.raises(InvalidGrant):
        await world.oauth.refresh(first.refresh_token)
    for issued in (first, second, third):
        assert not await world.counts(issued)
        with pytest.raises(InvalidGrant):
            await world.oauth.refresh(issued.refresh_token)
    assert await world.counts(other)


async def test_codes_and_refresh_tokens_expire(world: World) -> None:
    code = await world.code()
    world.clock.advance(ms=CODE_S * 1000)
    with pytest.raises(InvalidGrant):
        await world.oauth.exchange(code, redirect_uri="r", verifier=VERIFIER)
    issued = await world.log_in()
    world.clock.advance(ms=REFRESH_S * 1000)
    with pytest.raises(InvalidGrant):
        await world.oauth.refresh(issued.refresh_token)


async def test_who_is_locked_out_gets_no_more_tokens(world: World, store: Store) -> None:
    code, issued = await world.code(), await world.log_in()
    await store.write(lambda tx: lock_out(tx, world.me))
    assert not await world.counts(issued)
    with pytest.raises(InvalidGrant):
        await world.oauth.refresh(issued.refresh_token)
    with pytest.raises(InvalidGrant):
        await world.oauth.exchange(code, redirect_uri="r", verifier=VERIFIER)
