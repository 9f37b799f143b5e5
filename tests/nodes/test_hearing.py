"""Several servers on one database: who was heard of by any of them is judged by one, and loads are known to all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import TypeVar

import msgspec
import pytest

from brickyard.domain.errors import DatabaseAway
from brickyard.domain.node import Load, NodeStatus, Phase, Role, StatusReport
from brickyard.nodes.hearing import BEHIND_S, PAUSE_S, PRUNE_S, Hearing
from brickyard.nodes.loads import ASK_AGAIN_S, OWN_S, Loads
from brickyard.store.heard import Heard
from brickyard.store.store import Store
from brickyard.store.tx import Tx
from brickyard.testing.builders import cluster, instance
from tests.support.databases import both_databases
from tests.support.members import SetMembers
from tests.support.patience import PATIENCE_S
from tests.support.world import agent_service

T = TypeVar("T")
DRIVER = instance(cluster(), role=Role.DRIVER)
ID = DRIVER.instance_id
SILENCE_S = 30.0
BUSY = Load(pending=7, backlog_since_ms=5)


class Time:
    """A clock that tests put forward."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Shared(Store):
    """A store that other servers use as well, and that may be out of reach."""

    away = False
    alone = False

    async def write(self, work: Callable[[Tx], T], *, background: bool = False, inserts: bool = False) -> T:
        if self.away:
            raise DatabaseAway("it is away")
        return await super().write(work, background=background, inserts=inserts)


class Server:
    """One of several, as far as agents are concerned."""

    def __init__(self, url: str, time: Time) -> None:
        opened = Shared.open(url)
        assert isinstance(opened, Shared)
        self.store = opened
        self.loads = Loads(sharing=self.store, monotonic=time)
        self.hearing = Hearing(store=self.store, loads=self.loads, silence_s=SILENCE_S, monotonic=time)
        self.agents = agent_service(self.store, silence_s=SILENCE_S, loads=self.loads, monotonic=time)


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def servers(store_url: str, time: Time) -> Iterator[tuple[Server, Server]]:
    """Two of them, with one driver on record."""
    first, second = Server(store_url, time), Server(store_url, time)
    first.store.write_sync(lambda tx: tx.clusters.insert(cluster()))
    first.store.write_sync(lambda tx: tx.instances.insert(DRIVER))
    yield first, second
    first.store.close()
    second.store.close()


async def watch(judge: Server, time: Time, seconds: float, *, heard_by: Server | None = None) -> frozenset[str]:
    """Let the judge look every 5 s, and the other server hear of the agent in between; the last verdict."""
    silent: frozenset[str] = frozenset()
    until = time.now + seconds
    while time.now < until:
        time.now += 5
        if heard_by is not None:
            heard_by.hearing.hear(ID)
            await heard_by.hearing.write()
        silent = await judge.hearing.judge([ID])
    return silent


@both_databases
async def test_an_agent_that_any_server_hears_of_is_not_silent(servers: tuple[Server, Server], time: Time) -> None:
    judge, other = servers

    judge.hearing.hear(ID)  # once; then it went to the other server
    await judge.hearing.write()
    assert not await watch(judge, time, 3 * SILENCE_S, heard_by=other)
    assert not await watch(judge, time, SILENCE_S)
    assert await watch(judge, time, 5) == {ID}
    assert judge.hearing.silent() == {ID}
    time.now += PAUSE_S + 1
    assert not judge.hearing.silent()  # who did not look lately knows nothing


@both_databases
async def test_a_new_judge_gives_everybody_the_full_time(servers: tuple[Server, Server], time: Time) -> None:
    first, second = servers

    await watch(first, time, SILENCE_S)
    assert not await watch(second, time, SILENCE_S)
    assert await watch(second, time, 10) == {ID}


@both_databases
async def test_after_trouble_of_the_database_everybody_has_the_full_time(servers: tuple[Server, Server], time: Time) -> None:
    judge, _ = servers

    await watch(judge, time, SILENCE_S)
    judge.store.away = True  # nobody can write down whom he hears of
    time.now += 1
    with pytest.raises(DatabaseAway):
        await judge.hearing.judge([ID])
    judge.store.away = False
    assert not await watch(judge, time, SILENCE_S)
    assert await watch(judge, time, 10) == {ID}


@both_databases
async def test_who_becomes_alone_or_is_so_no_more_gives_everybody_the_full_time(
    servers: tuple[Server, Server], time: Time
) -> None:
    judge, other = servers

    judge.hearing.hear(ID)
    await watch(judge, time, 5 * SILENCE_S, heard_by=other)
    judge.store.alone = True  # the other one is killed, and what it heard was never heard here
    assert not await watch(judge, time, SILENCE_S)
    judge.store.alone = False
    assert not await watch(judge, time, SILENCE_S)
    assert await watch(judge, time, 10) == {ID}


@both_databases
async def test_a_server_that_cannot_write_down_whom_it_hears_sends_agents_away(
    servers: tuple[Server, Server], time: Time
) -> None:
    server, _ = servers
    status = NodeStatus(phase=Phase.PREPARING, generation=DRIVER.generation)
    report = StatusReport(instance_id=ID, boot_id="boot", endpoint="http://127.0.0.1:9", pid=7, status=status)

    running = asyncio.create_task(server.agents.run())
    assert (await server.agents.report(report)).known
    server.store.away = True
    await server.agents.report(report)  # a heartbeat needs no database
    time.now += BEHIND_S + 1
    with pytest.raises(DatabaseAway):
        await server.agents.report(report)
    server.store.away = False
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                assert (await server.agents.report(report)).known
                break
            except DatabaseAway:
                await asyncio.sleep(0.05)
    running.cancel()


@both_databases
async def test_what_is_no_more_is_forgotten_by_servers_that_did_not_see_to_its_end(
    servers: tuple[Server, Server], time: Time
) -> None:
    server, other = servers

    server.hearing.hear(ID)
    await server.hearing.write()
    forgotten: list[str] = []

    def forget(name: str) -> None:
        forgotten.append(name)
        server.hearing.forget(name)

    other.store.write_sync(lambda tx: tx.instances.delete(DRIVER))
    time.now += PRUNE_S + 1
    await server.hearing.tell_others(forget)
    assert forgotten == [ID]
    assert ID not in await other.store.write(lambda tx: tx.heard.marks())


@both_databases
async def test_a_pass_knows_the_load_of_a_driver_that_reports_elsewhere(servers: tuple[Server, Server], time: Time) -> None:
    here, there = servers
    load = here.store.read_sync
    old = Load(pending=1)

    assert load(lambda tx: here.loads.of(tx, ID, 1)) is None
    assert here.loads.hear(ID, 1, old)
    assert load(lambda tx: here.loads.of(tx, ID, 1)) == old
    assert there.loads.hear(ID, 1, BUSY)  # the driver has turned to another server
    there.hearing.hear(ID)
    await there.hearing.write()
    time.now += OWN_S + 1
    assert load(lambda tx: here.loads.of(tx, ID, 1)) == BUSY
    assert load(lambda tx: here.loads.of(tx, ID, 2)) is None
    await here.store.write(lambda tx: tx.heard.note([Heard(id=ID, age_ms=60_000)]))  # a server that hung, with an old word
    assert load(lambda tx: here.loads.of(tx, ID, 1)) == BUSY
    here.store.alone = True
    assert load(lambda tx: here.loads.of(tx, ID, 1)) == old  # alone, it keeps what it hears


@both_databases
def test_what_was_written_long_ago_is_no_load(servers: tuple[Server, Server]) -> None:
    server, _ = servers
    server.store.write_sync(
        lambda tx: tx.heard.note([Heard(id=ID, age_ms=20_000, load="{}"), Heard(id="other", age_ms=0, load="{}")])
    )
    assert server.store.read_sync(lambda tx: tx.heard.load(ID, within_ms=15_000)) is None
    assert server.store.read_sync(lambda tx: tx.heard.load("other", within_ms=15_000)) == "{}"


@both_databases
def test_every_note_is_a_new_mark_though_clocks_go_back(servers: tuple[Server, Server]) -> None:
    server, _ = servers
    seen = []
    for age_ms in (0, 5_000, 60_000, 0):
        server.store.write_sync(lambda tx, age_ms=age_ms: tx.heard.note([Heard(id=ID, age_ms=age_ms)]))  # type: ignore[misc] # a default binds it
        seen.append(server.store.write_sync(lambda tx: tx.heard.marks())[ID])
    assert sorted(set(seen)) == seen


def test_whoever_hears_a_load_has_the_pass_find_out_whether_it_is_followed(time: Time) -> None:
    members = SetMembers(alone=False)
    loads = Loads(sharing=members, monotonic=time)
    assert loads.follows("c")  # the pass may have run elsewhere
    assert not loads.follow("c", False)
    assert not loads.follows("c")
    time.now += ASK_AGAIN_S + 1
    assert loads.follows("c")  # another server may have made it autoscale
    assert loads.follow("c", True)
    assert not loads.follow("c", True)
    assert loads.follows("c")
    members.alone = True
    assert not loads.follow("c", False)
    assert not loads.follows("c")


@both_databases
async def test_a_long_poll_is_answered_by_any_server(servers: tuple[Server, Server]) -> None:
    here, there = servers
    assert DRIVER.assignment is not None
    version = DRIVER.assignment.version
    newer = msgspec.structs.replace(DRIVER.assignment, version=version + 1)
    changed = msgspec.structs.replace(DRIVER, assignment=newer)

    agents = agent_service(here.store, silence_s=SILENCE_S, loads=here.loads)
    assert (await agents.assignment(ID, 0, 0)).assignment == DRIVER.assignment
    waiting = asyncio.create_task(agents.assignment(ID, version, 20))
    await asyncio.sleep(0.05)  # not needed: it only makes it likely that the poll waits by now
    await asyncio.to_thread(there.store.write_sync, lambda tx: tx.instances.update(changed))
    reply = await asyncio.wait_for(waiting, PATIENCE_S)
    assert reply.assignment == newer
