"""Links that log a browser in: once, soon, and no longer than the token that they were made with. On both kinds of database."""

from __future__ import annotations

import asyncio

from brickyard.access import conf
from brickyard.domain.caller import Caller
from brickyard.domain.clock import Ids
from brickyard.domain.identity import CredentialKind
from brickyard.features.credentials.loginlinks import LIFETIME_MS, MAX_LINKS, LoginLinks
from brickyard.store.store import Store
from tests.support.credentials import World
from tests.support.people import lock_out


def links_of(world: World) -> LoginLinks:
    return LoginLinks(store=world.store, clock=world.clock, ids=Ids(), tokens=world.tokens, sessions=world.sessions)


async def caller_of(world: World) -> tuple[Caller, str]:
    """The user as a token makes them known, and the token's id."""
    token, row = await world.tokens.create(world.me)
    caller = await world.tokens.authenticate(token)
    assert caller is not None
    return caller, row.token_id


async def test_a_link_counts_once_even_if_two_follow_it_together(world: World) -> None:
    links, (caller, _) = links_of(world), await caller_of(world)
    code, until_ms = await links.make(caller)
    assert until_ms == world.clock.now_ms() + LIFETIME_MS
    assert code not in world.rows(CredentialKind.LINK)[0].digest
    cookies = [each for each in await asyncio.gather(*(links.follow(code) for _ in range(5))) if each is not None]
    assert len(cookies) == 1
    assert await world.lasts(cookies[0])
    assert await links.follow(code) is None


async def test_a_link_ends_soon_and_with_its_token_and_its_user(world: World, store: Store) -> None:
    links, (caller, token_id) = links_of(world), await caller_of(world)
    late, _ = await links.make(caller)
    world.clock.advance(ms=LIFETIME_MS)
    assert await links.follow(late) is None
    unused, _ = await links.make(caller)
    used, _ = await links.make(caller)
    cookie = await links.follow(used) or ""
    await world.tokens.delete(caller, token_id)
    assert not await world.lasts(cookie)
    assert await links.follow(unused) is None
    again, (caller, _) = links_of(world), await caller_of(world)
    code, _ = await again.make(caller)
    await store.write(lambda tx: lock_out(tx, world.me))
    assert await again.follow(code) is None


async def test_a_link_is_no_other_credential_and_no_other_is_a_link(world: World) -> None:
    links, (caller, _) = links_of(world), await caller_of(world)
    code, _ = await links.make(caller)
    assert await world.tokens.authenticate(code) is None
    assert await world.sessions.find(code) is None
    assert await world.sessions.begin(code) is None
    token, _ = await world.tokens.create(world.me)
    for wrong in ("", token, await world.session(), await world.code()):
        assert await links.follow(wrong) is None


async def test_a_user_has_a_limited_number_of_links(world: World) -> None:
    links, (caller, _) = links_of(world), await caller_of(world)
    first, _ = await links.make(caller)
    for _ in range(MAX_LINKS):
        world.clock.advance(ms=1)
        last, _ = await links.make(caller)
    assert len(world.rows(CredentialKind.LINK)) == MAX_LINKS
    assert await links.follow(first) is None
    assert await links.follow(last) is not None


async def test_what_a_session_has_let_in_ends_with_its_token(world: World, store: Store) -> None:
    links = links_of(world)

    async def chain() -> tuple[str, str, str]:
        """A token's id, the cookie of a session that it began, and that of one whose link that session has made."""
        token, row = await world.tokens.create(world.me)
        first = await world.sessions.begin(token) or ""
        session = await world.sessions.find(first)
        assert session is not None
        second = await links.follow((await links.make(session.caller))[0], instead_of=first) or ""
        assert await world.lasts(second)
        return row.token_id, first, second

    token_id, first, second = await chain()
    await world.tokens.delete(world.me, token_id)
    assert not await world.lasts(first)
    assert not await world.lasts(second)
    _, first, second = await chain()
    await store.write(lambda tx: conf.put(tx, conf.TOKENS, "false"))
    assert not await world.lasts(first)
    assert not await world.lasts(second)


async def test_who_logs_out_ends_what_the_session_has_let_in(world: World) -> None:
    links, first = links_of(world), await world.session()
    session = await world.sessions.find(first)
    assert session is not None
    second = await links.follow((await links.make(session.caller))[0]) or ""
    assert await world.lasts(second)
    await world.sessions.end(session)
    assert not await world.lasts(second)
