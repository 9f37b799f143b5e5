"""One authenticator for everything that the server serves: the same callers and the same refusals, however they come."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from brickyard.api.edge.authentication import MISSING, UNKNOWN, UNKNOWN_LINK, Authenticator
from brickyard.domain.caller import Caller
from brickyard.domain.errors import MalformedRequest, Unauthenticated
from brickyard.features.credentials.uilinks import UiLinks
from brickyard.store.store import Store
from tests.support.databases import empty_sqlite
from tests.support.golden import Golden
from tests.support.world import World

TOKEN = "dapi" + "5" * 32
Ask = Callable[[Authenticator, UiLinks], Awaitable[Caller]]


def answered(tmp_path: Path, ask: Ask) -> Caller:
    async def work() -> Caller:
        store = Store.open(empty_sqlite(tmp_path / "test.db"))
        try:
            world = World(store)
            await world.tokens.ensure_admin("me@example.com", TOKEN)
            return await ask(world.authenticator, world.links)
        finally:
            store.close()

    return asyncio.run(work())


def header(value: str) -> list[tuple[bytes, bytes]]:
    return [(b"host", b"h"), (b"authorization", value.encode())]


async def by_link(authenticator: Authenticator, links: UiLinks, to: str) -> Caller:
    me = await authenticator.of_token(TOKEN)
    return await authenticator.of_link(links.make(me, "c")[0], to)


@pytest.mark.parametrize(
    "ask",
    [
        lambda a, _: a.of_headers(header(f"bearer  {TOKEN}")),
        lambda a, _: a.of_headers(header("Basic " + base64.b64encode(f"token:{TOKEN}".encode()).decode())),
        lambda a, _: a.of_metadata({"authorization": f"Bearer {TOKEN} "}, missing="none"),
        lambda a, _: a.of_token(TOKEN),
        lambda a, links: by_link(a, links, "c"),
    ],
)
def test_whoever_has_the_token_is_its_user(tmp_path: Path, ask: Ask) -> None:
    caller = answered(tmp_path, ask)
    assert (caller.user_name, caller.is_admin) == ("me@example.com", True)


@pytest.mark.parametrize(
    ("ask", "why"),
    [
        (lambda a, _: a.of_headers([]), MISSING),
        (lambda a, _: a.of_headers(header("Digest x"), missing="sign in"), "sign in"),
        (lambda a, _: a.of_headers(header("Bearer wrong")), UNKNOWN),
        (lambda a, _: a.of_metadata({}, missing="none"), "none"),
        (lambda a, _: a.of_metadata({"authorization": f"Basic {TOKEN}"}, missing="none"), "none"),
        (lambda a, _: a.of_metadata({"authorization": "Bearer wrong"}, missing="none"), UNKNOWN),
        (lambda a, _: a.of_token(""), UNKNOWN),
        (lambda a, links: by_link(a, links, "another"), UNKNOWN_LINK),
        (lambda a, _: a.of_link("x" * 80, "c"), UNKNOWN_LINK),
    ],
)
def test_anybody_else_is_refused_in_words_that_fit(tmp_path: Path, ask: Ask, why: str) -> None:
    with pytest.raises(Unauthenticated) as refused:
        answered(tmp_path, ask)
    assert refused.value.message == why


def test_two_authorization_headers_are_refused(tmp_path: Path, golden: Golden) -> None:
    with golden.refused(MalformedRequest):
        answered(tmp_path, lambda a, _: a.of_headers(header(f"Bearer {TOKEN}") * 2))
