"""Links that log a browser in: once, soon, and no longer than the token that they were made with. On both kinds of database."""

from __future__ import annotations

import asyncio

from brickyard.domain.clock import Ids
from brickyard.domain.identity import CredentialKind
from brickyard.services.caller import Caller
from brickyard.services.loginlinks import LIFETIME_MS, MAX_LINKS, LoginLinks
from brickyard.store.store import Store
from tests.services.test_sessions import Desk
from tests.services.test_tokens import World, run
from tests.support.people import lock_out


def links_of(desk: Desk) -> LoginLinks:
    return LoginLinks(store=desk.store, clock=desk.clock, ids=Ids(), tokens=desk.tokens, sessions=desk.sessions)


async def caller_of(desk: Desk) -> tuple[Caller, str]:
    """The user as a token makes them known, and the token's id."""
    token, row = await desk.tokens.create(desk.me)
    caller = await desk.tokens.authenticate(token)
    assert caller is not None
    return caller, row.token_id


def test_a_link_counts_once_even_if_two_follow_it_together(store: Store) -> None:
    async def work(world: World) -> None:
        desk = await Desk.of(world)
        links, (caller, _) = links_of(desk), await caller_of(desk)
        code, until_ms = await links.make(caller)
        assert until_ms == world.clock.now_ms() + LIFETIME_MS
        assert code not in world.rows(CredentialKind.LINK)[0].digest
        cookies = [each for each in await asyncio.gather(*(links.follow(code) for _ in range(5))) if each is not None]
        assert len(cookies) == 1
        assert await desk.lasts(cookies[0])
        assert await links.follow(code) is None

    run(store, work)


def test_a_link_ends_soon_and_with_its_token_and_its_user(store: Store) -> None:
    async def work(world: World) -> None:
        desk = await Desk.of(world)
        links, (caller, token_id) = links_of(desk), await caller_of(desk)
        late, _ = await links.make(caller)
        world.clock.advance(ms=LIFETIME_MS)
        assert await links.follow(late) is None
        unused, _ = await links.make(caller)
        used, _ = await links.make(caller)
        cookie = await links.follow(used) or ""
        await desk.tokens.delete(caller, token_id)
        assert not await desk.lasts(cookie)
        assert await links.follow(unused) is None
        again, (caller, _) = links_of(desk), await caller_of(desk)
        code, _ = await again.make(caller)
        await store.write(lambda tx: lock_out(tx, desk.me))
        assert await again.follow(code) is None

    run(store, work)


def test_a_link_is_no_other_credential_and_no_other_is_a_link(store: Store) -> None:
    async def work(world: World) -> None:
        desk = await Desk.of(world)
        links, (caller, _) = links_of(desk), await caller_of(desk)
        code, _ = await links.make(caller)
        assert await desk.tokens.authenticate(code) is None
        assert await desk.sessions.find(code) is None
        assert await desk.sessions.begin(code) is None
        token, _ = await desk.tokens.create(desk.me)
        for wrong in ("", token, await desk.session(), await desk.code()):
            assert await links.follow(wrong) is None

    run(store, work)


def test_a_user_has_a_limited_number_of_links(store: Store) -> None:
    async def work(world: World) -> None:
        desk = await Desk.of(world)
        links, (caller, _) = links_of(desk), await caller_of(desk)
        first, _ = await links.make(caller)
        for _ in range(MAX_LINKS):
            world.clock.advance(ms=1)
            last, _ = await links.make(caller)
        assert len(world.rows(CredentialKind.LINK)) == MAX_LINKS
        assert await links.follow(first) is None
        assert await links.follow(last) is not None

    run(store, work)
