"""Three servers on one PostgreSQL are one workspace, and the end of any of them loses nothing.

BRICKYARD_REPLICA_STEPS sets how many random steps are made; the default is a short run.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import random
import secrets
import shutil
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import psycopg
import pytest

from brickyard.store import servers
from tests.replicas.people import KEY, NODE, Caller, Person, eventually, nodes_of, seeded
from tests.replicas.servers import Replicas, proxy
from tests.support.patience import Stopwatch, until
from tests.support.postgres import Postgres

STEPS = int(os.environ.get("BRICKYARD_REPLICA_STEPS", "250"))
SEED = int(os.environ.get("BRICKYARD_REPLICA_SEED", "0")) or secrets.randbelow(10**9)
TAKEOVER_S = 5.0
SLACK_S = 2.0  # for a busy machine: what is promised is TAKEOVER_S


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory, postgres: Postgres) -> Iterator[Replicas]:
    """Three servers, whose simulated drivers write down which commands they begin."""
    home = tmp_path_factory.mktemp("replicas")
    knobs = home / "knobs.toml"
    knobs.write_text(f'commands_file = "{home / "begun"}"\ncommand_s = 0.3\nstart_s = 0.2\njitter = 0.5\n')
    with Replicas.running(home, postgres.new_database(), count=3, provider="simulated", simulated_knobs=knobs) as running:
        yield running


@pytest.fixture
def replicas(workspace: Replicas) -> Replicas:
    """All three of them serve."""
    for replica in workspace.all:
        if not replica.serves:
            replica.start()
    return workspace


@pytest.fixture
def begun(replicas: Replicas) -> Path:
    """Where simulated drivers write down which commands they begin."""
    assert replicas.all[0].settings.simulated_knobs is not None
    place = replicas.all[0].settings.simulated_knobs.with_name("begun")
    place.unlink(missing_ok=True)
    return place


@contextlib.asynccontextmanager
async def calling(replicas: Replicas, *, only: int | None = None) -> AsyncIterator[Caller]:
    """A caller of any server that serves, or of one."""
    urls = (lambda: [replicas.all[only].url]) if only is not None else (lambda: [each.url for each in replicas.serving])
    caller = Caller(urls, replicas.token, seeded(SEED))
    try:
        yield caller
    finally:
        await caller.close()


async def create(caller: Caller, name: str, workers: int = 2) -> str:
    made = await caller.call(
        "POST", "2.1/clusters/create", cluster_name=name, spark_version=KEY, node_type_id=NODE, num_workers=workers
    )
    key: str = made["cluster_id"]
    return key


async def running(caller: Caller, key: str, workers: int = 2) -> dict[str, Any]:
    async def there() -> dict[str, Any] | None:
        shown = await caller.call("GET", "2.1/clusters/get", cluster_id=key)
        return shown if shown["state"] == "RUNNING" and len(shown.get("executors", ())) == workers else None

    found: dict[str, Any] = await eventually(there, f"{key} runs with {workers} workers")
    return found


@pytest.mark.timeout(3_600)
def test_random_calls_while_servers_are_killed_and_stopped(replicas: Replicas, begun: Path) -> None:
    print(f"BRICKYARD_REPLICA_SEED={SEED}")
    asyncio.run(_random_steps(replicas, begun))


async def _random_steps(replicas: Replicas, begun: Path) -> None:
    chance = seeded(SEED)
    async with calling(replicas) as caller:
        content = base64.b64encode(b"print('simulated')").decode()
        await caller.call("POST", "2.0/dbfs/put", path="/task.py", contents=content, overwrite=True)
        people = [Person(f"person-{n}", caller, seeded(chance.random())) for n in range(6)]
        ended: list[str] = []
        enough = asyncio.Event()
        ends = asyncio.create_task(_end_servers(replicas, chance, ended, enough))

        async def act(person: Person) -> None:
            while caller.steps < STEPS and not ends.done():
                await person.step()

        try:
            await asyncio.gather(*(act(person) for person in people))
        finally:
            enough.set()
            await ends
        counts = ", ".join(f"{how} {count}" for how, count in Counter(ended).items())
        print(f"{caller.steps} calls, {caller.retried} asked again, one for {caller.trouble_s:.1f} s; servers: {counts}")
        assert ended
        for replica in replicas.all:
            if not replica.serves:
                await asyncio.to_thread(replica.start)
        for person in people:
            for key in person.live:
                await person.settled(key)
            await person.finished()
            for key in person.live:
                await _nothing_was_lost(caller, key)
        wanted = sum(size + 1 for person in people for size in person.live.values() if size is not None)
        await _no_node_too_many(caller, people, wanted)
    commands = begun.read_text().split() if begun.exists() else []
    assert len(commands) == len(set(commands)), "a command was begun twice"
    assert len(commands) == sum(len(person.runs) for person in people)


async def _end_servers(replicas: Replicas, chance: random.Random, ended: list[str], enough: asyncio.Event) -> None:
    """End one after the other, at random, and start it again after a while, until there is enough. At least one serves at any
    time."""
    while not enough.is_set():
        await asyncio.sleep(chance.uniform(0.2, 4.0))
        victim = replicas.any(chance)
        ended.append(how := chance.choice(["kill", "kill", "stop", "hang"]))
        if how == "hang":
            with victim.hung():
                await asyncio.sleep(chance.uniform(1.0, 9.0))
            continue
        await asyncio.to_thread(victim.kill if how == "kill" else victim.stop)
        await asyncio.sleep(chance.uniform(0.0, 3.0))
        if chance.random() < 0.3:
            ended.append("kill")
            await asyncio.to_thread(replicas.any(chance).kill)
        for replica in replicas.all:
            if not replica.serves:
                await asyncio.to_thread(replica.start)


async def _nothing_was_lost(caller: Caller, key: str) -> None:
    """No node of the cluster was ended that should have lived."""
    told = await caller.call("POST", "2.1/clusters/events", cluster_id=key, limit=500)
    types = [each["type"] for each in told["events"]]
    lost = {"NODES_LOST", "DRIVER_NOT_RESPONDING", "ADD_NODES_FAILED", "SPARK_EXCEPTION"} & set(types)
    assert not lost, (key, lost, told)


async def _no_node_too_many(caller: Caller, people: list[Person], wanted: int) -> None:
    """What the provider has is what clusters have: nothing was launched twice."""

    async def counted() -> bool:
        url = caller._urls()[0]
        async with caller._session.get(f"{url}/metrics") as response:
            text = await response.text()
        states = [line for line in text.splitlines() if line.startswith("brickyard_instances{")]
        live = sum(float(line.rsplit(" ", 1)[1]) for line in states if '"GONE"' not in line)
        return int(live) == wanted

    await eventually(counted, f"{wanted} instances of {len(people)} people")


async def test_every_server_shows_what_any_was_told(replicas: Replicas) -> None:
    """Read at once on another server; and never an older state than one that was already shown."""

    order = ["PENDING", "RUNNING", "TERMINATING", "TERMINATED"]
    async with calling(replicas, only=0) as first, calling(replicas, only=1) as second, calling(replicas, only=2) as third:
        key = await create(first, "shown")
        seen = 0
        asked_to_end = False
        for caller in _in_turn(second, third, first):
            shown = await caller.call("GET", "2.1/clusters/get", cluster_id=key)
            at = order.index(shown["state"])
            assert at >= seen, f"{order[seen]} was shown before {shown['state']}"
            seen = at
            if shown["state"] == "RUNNING" and not asked_to_end:
                asked_to_end = True
                await first.call("POST", "2.1/clusters/delete", cluster_id=key)
                seen = order.index("TERMINATING")
            if shown["state"] == "TERMINATED":
                break


def _in_turn(*callers: Caller) -> Iterator[Caller]:
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline:
        yield from callers


async def test_a_killed_server_is_replaced_within_five_seconds(replicas: Replicas) -> None:
    """Its loops, its leases, its launches and its agents: whichever server is killed."""

    async with calling(replicas) as caller:
        key = await create(caller, "kept")
        before = nodes_of(await running(caller, key))
        for victim in replicas.all:
            watch = Stopwatch()
            await asyncio.to_thread(victim.kill)
            made = await create(caller, f"after-{victim.number}")
            await running(caller, made)
            await caller.call("POST", "2.1/clusters/resize", cluster_id=key, num_workers=3)
            shown = await running(caller, key, 3)
            took = watch.took_s
            assert took < TAKEOVER_S + SLACK_S, f"server {victim.number}: {took:.1f} s"
            assert before <= nodes_of(shown), "a node was replaced that was not lost"
            await caller.call("POST", "2.1/clusters/resize", cluster_id=key, num_workers=2)
            before = nodes_of(await running(caller, key))
            await caller.call("POST", "2.1/clusters/permanent-delete", cluster_id=made)
            await asyncio.to_thread(victim.start)
        await _nothing_was_lost(caller, key)


async def test_agents_spread_again_when_a_server_comes_back(replicas: Replicas) -> None:
    """Nothing is lost on the way: no node, and no change that is made meanwhile."""
    replicas.all[0].kill()

    def calling_each() -> list[int]:
        with psycopg.connect(replicas.all[0].settings.database_url) as connection:
            return [each.about.agents for each in servers.look(connection) if each.serves]

    async with calling(replicas) as caller:
        key = await create(caller, "spread", 11)
        before = nodes_of(await running(caller, key, 11))
        await asyncio.to_thread(replicas.all[0].start)

        async def even() -> bool:
            counts = await asyncio.to_thread(calling_each)
            return len(counts) == 3 and min(counts) >= sum(counts) // 6 > 0

        await caller.call("POST", "2.1/clusters/resize", cluster_id=key, num_workers=12)
        await eventually(even, "every server has agents")
        await caller.call("POST", "2.1/clusters/resize", cluster_id=key, num_workers=13)
        assert before <= nodes_of(await running(caller, key, 13)), "a node was replaced"
        await _nothing_was_lost(caller, key)
        await caller.call("POST", "2.1/clusters/permanent-delete", cluster_id=key)


async def test_stopping_one_server_ends_nothing_and_the_last_ends_all(replicas: Replicas) -> None:
    async with calling(replicas) as caller:
        key = await create(caller, "stays")
        before = nodes_of(await running(caller, key))
        for replica in replicas.all[:2]:
            await asyncio.to_thread(replica.stop)
            assert nodes_of(await running(caller, key)) == before
        await asyncio.to_thread(replicas.all[2].stop)
    await asyncio.to_thread(replicas.all[0].start)
    async with calling(replicas, only=0) as caller:
        shown = await caller.call("GET", "2.1/clusters/get", cluster_id=key)
        assert shown["state"] in ("TERMINATING", "TERMINATED")


@pytest.mark.timeout(900)
async def test_postgresql_is_away_for_a_while(replicas: Replicas, postgres: Postgres) -> None:
    """Requests get 503 with Retry-After; then everything goes on, with the nodes of before."""
    away_s = float(os.environ.get("BRICKYARD_REPLICA_AWAY_S", "12"))

    async with calling(replicas) as caller, aiohttp.ClientSession() as session:
        key = await create(caller, "through")
        before = nodes_of(await running(caller, key))
        # On this thread: PostgreSQL ends with the thread that has started it.
        postgres.stop()
        try:
            back = time.monotonic() + away_s
            while time.monotonic() < back:
                for replica in replicas.all:
                    where = f"{replica.url}/api/2.1/clusters/get?cluster_id={key}"
                    async with session.get(where, headers={"Authorization": f"Bearer {replicas.token}"}) as response:
                        told = await response.json()
                        assert response.status == 503, told
                        assert int(response.headers["Retry-After"]) > 0
                        assert told["error_code"] == "TEMPORARILY_UNAVAILABLE", told
                await asyncio.sleep(0.5)
        finally:
            postgres.launch()
        assert nodes_of(await running(caller, key)) == before
        for number in range(3):
            async with calling(replicas, only=number) as one:
                made = await create(one, f"new-{number}")
                await running(one, made)
        await _nothing_was_lost(caller, key)


async def test_an_upload_goes_on_at_another_server(replicas: Replicas) -> None:
    async with calling(replicas, only=0) as first, calling(replicas, only=1) as second, calling(replicas, only=2) as third:
        handle = (await first.call("POST", "2.0/dbfs/create", path="/big", overwrite=True))["handle"]
        for number, caller in enumerate((second, first, third)):
            block = base64.b64encode(bytes([number]) * 1000).decode()
            await caller.call("POST", "2.0/dbfs/add-block", handle=handle, data=block)
        await second.call("POST", "2.0/dbfs/close", handle=handle)
        read = await third.call("GET", "2.0/dbfs/read", path="/big")
        assert base64.b64decode(read["data"]) == b"\0" * 1000 + b"\1" * 1000 + b"\2" * 1000


def test_behind_a_proxy(replicas: Replicas, tmp_path: Path) -> None:
    """The configuration that docs/replicas.md shows: a killed server costs its clients nothing but a retry."""
    nginx = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    if nginx is None:
        pytest.skip("nginx is not installed")

    async def check(url: str) -> None:
        caller = Caller(lambda: [url], replicas.token, seeded(SEED))
        try:
            key = await create(caller, "behind")
            before = nodes_of(await running(caller, key))
            for replica in replicas.all:
                await asyncio.to_thread(replica.kill)
                for _ in range(20):
                    shown = await caller.once(url, "GET", "2.1/clusters/get", {"cluster_id": key})  # not one of them fails
                    assert nodes_of(shown) == before
                await asyncio.to_thread(replica.start)
        finally:
            await caller.close()

    with proxy(nginx, tmp_path / "nginx", [each.url for each in replicas.all]) as url:
        asyncio.run(check(url))


async def test_a_server_that_hangs_is_passed_over(replicas: Replicas) -> None:
    """Stopped for longer than others wait for it: they do its work, and when it comes round it does no harm."""

    async with calling(replicas) as caller:
        key = await create(caller, "hung")
        before = nodes_of(await running(caller, key))
    for victim in replicas.all:
        others = [each.number for each in replicas.all if each is not victim]
        with victim.hung():
            began = time.monotonic()
            async with calling(replicas, only=others[0]) as caller:
                while time.monotonic() < began + 7:
                    made = await create(caller, "meanwhile")
                    await running(caller, made)
                    await caller.call("POST", "2.1/clusters/permanent-delete", cluster_id=made)
        async with calling(replicas, only=victim.number) as caller:
            assert nodes_of(await running(caller, key)) == before
            await running(caller, await create(caller, "again"))
    async with calling(replicas) as caller:
        await _nothing_was_lost(caller, key)


def test_what_is_not_one_workspace_is_refused(replicas: Replicas, tmp_path: Path) -> None:
    """Another storage directory with the same database."""
    import msgspec  # noqa: PLC0415 - only here

    from brickyard.cli import CliError  # noqa: PLC0415 - only here
    from tests.replicas.servers import Replica  # noqa: PLC0415 - only here

    stranger = msgspec.structs.replace(replicas.all[0].settings, data_dir=tmp_path / "stranger", storage_url="", port=0)
    with pytest.raises(CliError, match="storage_url"):
        Replica(9, stranger).start()
    assert until(lambda: len(replicas.serving) == 3, "all serve")
