"""Following logs: every byte once, one reader for all, and nothing that grows for whoever does not read."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from brickyard.clusters.logs import following as logfollowing
from brickyard.clusters.logs.following import Follower, LogFollowers
from brickyard.clusters.logs.service import LogText, partial_character
from brickyard.domain.errors import PermissionDenied, QuotaExceeded
from brickyard.domain.identity import NEVER, TokenRow
from brickyard.domain.nodeops import AgentUnreachable, ReadLog
from brickyard.providers.simulated.knobsfile import Knobs
from brickyard.providers.simulated.logs import SimulatedLogs
from brickyard.storage.directory import Storage
from brickyard.store.store import Store
from brickyard.store.tx import Tx
from brickyard.testing.builders import cluster, up
from tests.support import world as shared
from tests.support.desk import USER
from tests.support.people import enter, lock_out

LOG = "log4j-active.log"


class WritesLogs:
    knobs = Knobs(logs=True)


class World(shared.World):
    """A running cluster without workers, and what its driver writes. Its agent counts how often it is asked."""

    def __init__(self, store: Store, root: Path) -> None:
        super().__init__(store, agents=self, place=root)
        self.storage, self.asked, self.gone = Storage(root), 0, False
        made = up(cluster(creator_user_name=USER.user_name))
        driver = self.put(made)
        self.cluster_id, self.instance_id = made.cluster_id, driver.instance_id
        assert driver.assignment is not None
        self.generation = driver.assignment.generation
        store.write_sync(lambda tx: enter(tx, USER))
        store.write_sync(lambda tx: tx.tokens.insert(_token()))
        self.agent = SimulatedLogs(self.storage, WritesLogs())
        self.agent.begin(self.instance_id, driver.assignment)
        self.directory = self.agent.directory(self.instance_id)
        (self.directory / LOG).write_text("")
        self.followers = LogFollowers(logs=self.logs, store=store, clock=self.clock, pause_s=0.01)
        self.file = f"{self.instance_id}-{self.generation}/{LOG}"

    async def call(self, endpoint: str, server_token: str, method: str, path: str, body: Any = None) -> dict[str, Any]:
        self.asked += 1
        if self.gone:
            raise AgentUnreachable("it was killed", sent=False)
        answer = self.agent.call(self.instance_id, method, path)
        assert answer is not None
        return answer

    async def close(self) -> None:
        """Nothing is open."""

    def write(self, text: str) -> None:
        with (self.directory / LOG).open("a") as file:
            file.write(text)

    def roll(self, number: int) -> None:
        (self.directory / LOG).rename(self.directory / f"log4j-{number}.log")
        (self.directory / LOG).touch()

    async def follow(self, **asked: Any) -> Follower:
        return await self.followers.follow(USER, self.cluster_id, self.file, ReadLog(name="", **asked))


def _token() -> TokenRow:
    return TokenRow(
        token_id=USER.token_id, digest="d", user_name=USER.user_name, comment="", created_ms=0, expiry_ms=NEVER
    )  # fmt: skip


@pytest.fixture
async def world(store: Store, tmp_path: Path) -> AsyncIterator[World]:
    world = World(store, tmp_path)
    yield world
    world.followers.close()


@contextlib.asynccontextmanager
async def texts(follower: Follower) -> AsyncIterator[AsyncIterator[logfollowing.Followed | None]]:
    try:
        async with contextlib.aclosing(follower.texts()) as found:  # type: ignore[type-var]
            yield found
    finally:
        follower.close()


async def collect(follower: Follower, until: str = "") -> str:
    """All that a follower gets, until it has got that text or nothing more comes."""
    text = ""
    async with texts(follower) as found:
        async for each in found:
            assert each is None or not each.skipped
            text += each.text if each is not None else ""
            if until and text.endswith(until):
                break
    return text


async def test_nothing_is_lost_or_repeated_when_a_log_is_rolled_and_its_node_ends(world: World) -> None:
    following = asyncio.create_task(collect(await world.follow()))
    late = asyncio.create_task(collect(await world.follow(offset=-1)))
    written = ""
    for number in range(1, 30):
        written += (line := f"line {number} of späte Zeilen €\n")
        world.write(line)
        if number % 7 == 0:
            world.roll(number)
        await asyncio.sleep(0.003)
    world.write("the last words")
    world.gone = True  # for a moment nobody can tell
    await asyncio.sleep(0.05)
    world.agent.end(world.instance_id)
    assert await following == written + "the last words"
    assert (written + "the last words").endswith(await late)


async def test_many_followers_cost_the_node_as_much_as_one(world: World) -> None:
    world.write("x" * 1000)
    followers = [asyncio.create_task(collect(await world.follow(offset=n), until="end\n")) for n in range(20)]
    await asyncio.sleep(0.1)
    before = world.asked
    for _ in range(10):
        world.write("more\n")
        await asyncio.sleep(0.02)
    world.write("end\n")
    found = await asyncio.gather(*followers)
    assert [len(text) for text in found] == [1000 - n + 54 for n in range(20)]
    assert world.asked - before < 100, "20 followers with 10 lines each would make more"


async def test_a_reader_that_stalls_holds_nothing_up_and_costs_nothing(world: World) -> None:
    async with texts(await world.follow()) as stalled:
        world.write("first\n")
        assert (each := await anext(stalled)) and each.text == "first\n"
        other = asyncio.create_task(collect(await world.follow(), until="end\n"))
        world.write("y" * 3_000_000 + "end\n")
        assert len(await other) == 3_000_010
        while world.followers._readers:  # nothing is read or kept for it
            await asyncio.sleep(0.01)
        got = ""
        while not got.endswith("end\n"):
            got += each.text if (each := await anext(stalled)) else ""
        assert got == "y" * 3_000_000 + "end\n"


async def test_following_goes_on_from_the_last_event(world: World) -> None:
    world.write("a€"[:2])
    with (world.directory / LOG).open("ab") as file:
        file.write("ü".encode()[:1])  # half a character
    async with texts(await world.follow()) as found:
        first = await anext(found)
        assert first is not None and first.text == "a€"
    with (world.directory / LOG).open("ab") as file:
        file.write("ü".encode()[1:] + b"end")
    assert await collect(await world.follow(position=first.position), until="end") == "üend"


async def test_it_ends_when_the_caller_may_no_longer_read(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logfollowing, "IDLE_S", 0.05)

    async with texts(await world.follow()) as found:
        world.write("before")
        assert await anext(found) is not None
        assert await anext(found) is None, "a sign of life"
        await world.store.write(lambda tx: tx.tokens.delete(USER.token_id))
        assert [each async for each in found if each is not None] == []


async def test_nothing_that_is_written_later_reaches_whoever_was_locked_out(world: World) -> None:
    async with texts(await world.follow()) as found:
        world.write("before")
        assert (first := await anext(found)) is not None
        assert first.text == "before"
        waiting = asyncio.ensure_future(anext(found, None))
        calls = world.asked
        while world.asked == calls:
            await asyncio.sleep(0.01)
        await world.store.write(lambda tx: lock_out(tx, USER))
        world.write("after")
        assert await waiting is None


async def test_a_read_at_the_end_waits_for_the_rest_of_a_character(world: World) -> None:
    async def read(position: str) -> LogText:
        return await world.logs.read(USER, world.cluster_id, world.file, ReadLog(name="", position=position))

    with (world.directory / LOG).open("ab", buffering=0) as file:
        file.write(b"a")
        first = await read("")
        file.write("é".encode()[:1])
        half = await read(first.next_position)
        assert (half.text, half.next_offset) == ("", first.next_offset)
        file.write("é".encode()[1:])
        assert (await read(half.next_position)).text == "é"


async def test_followers_are_limited(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logfollowing, "FOLLOWERS", logfollowing.FOLLOWERS._replace(share=2, admin_share=2))

    followers = [await world.follow() for _ in range(2)]
    with pytest.raises(QuotaExceeded):
        await world.follow()
    followers[0].close()
    followers[0].close()
    (await world.follow()).close()
    with pytest.raises(PermissionDenied):
        await world.store.write(lambda tx: _single_user(tx, world.cluster_id))
        await world.follow()
    (await asyncio.gather(*(_closed(each) for each in followers)))


def _single_user(tx: Tx, cluster_id: str) -> None:
    found = tx.clusters.get(cluster_id)
    assert found is not None
    spec = msgspec.structs.replace(found.spec, single_user_name="somebody")
    tx.clusters.update(msgspec.structs.replace(found, spec=spec))


async def _closed(follower: Follower) -> None:
    follower.close()


@pytest.mark.parametrize("text", ["", "a", "aü", "a€", "a𝄞", "€€"])
def test_characters_are_not_torn(text: str) -> None:
    data = text.encode()
    assert partial_character(data) == 0
    for size in range(len(data)):
        cut = data[:size]
        assert text.startswith(cut[: size - partial_character(cut)].decode())
    assert partial_character(b"\x80\x80\x80\x80") == 0
