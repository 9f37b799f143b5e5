"""Several servers on one PostgreSQL database: they share the work, and what one leaves undone another one finishes in seconds."""

from __future__ import annotations

import asyncio
import functools
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest
import structlog.testing

from brickyard.domain.cluster import Cluster, Instance, Target, public_state
from brickyard.domain.instances import InstanceState
from brickyard.domain.node import AssignmentReply, NodeStatus, Poll, Role, StatusReply, StatusReport
from brickyard.domain.run import RunResultState
from brickyard.domain.states import State
from brickyard.nodes.sessions import AgentService
from brickyard.providers.base import LaunchRequest
from brickyard.providers.simulated import Knobs, SimulatedProvider
from brickyard.store.store import Store
from brickyard.store.tx import Tx
from brickyard.testing.builders import SMALL, cluster, instance
from brickyard.testing.clock import ManualClock
from tests.reconcile.crashes import Fuse, FusedStore, end
from tests.reconcile.runworld import RunWorld, task
from tests.reconcile.test_crashes import fused
from tests.reconcile.test_pools import POOL, create, make_pool, taken_over
from tests.reconcile.test_run_crashes import fused_runs
from tests.reconcile.world import World, provider
from tests.support.patience import PATIENCE_S, until
from tests.support.postgres import Postgres

DOOMED = 14  # servers that die, each one step later than the one before
TAKEOVER_S = 5
CALM_S = 5.0  # living servers have done by then what they are about
BAD = {"pass_failed", "poll_failed", "launch_failed", "task_call_failed", "database_unavailable"}


@pytest.fixture
def two(postgres: Postgres) -> Iterator[tuple[Store, Store, str]]:
    url = postgres.new_database()
    one, other = Store.open(url), Store.open(url)
    yield one, other, url
    one.close()
    other.close()


class CountingProvider(SimulatedProvider):
    """Counts the launch calls for each instance."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.launched: Counter[str] = Counter()

    def launch(self, request: LaunchRequest) -> None:
        self.launched[request.instance_id] += 1
        super().launch(request)


class AnyServer:
    """The agents' line to some living server, another one each time."""

    def __init__(self, *servers: AgentService) -> None:
        self.living = list(servers)
        self._random = random.Random(7)  # noqa: S311 - the same choices each time
        self._moves: dict[str, tuple[AgentService, int]] = {}  # by instance

    async def report(self, report: StatusReport) -> StatusReply:
        """Counts how often an agent switches, as real agents do: what a server knew before is not what it knows."""
        server = self._random.choice(self.living)
        last, moves = self._moves.get(report.instance_id, (server, 0))
        self._moves[report.instance_id] = (server, moves + (last is not server))
        return await server.report(msgspec.structs.replace(report, moves=self._moves[report.instance_id][1]))

    async def assignment(self, instance_id: str, have: int, wait_s: float, *, same: bool = False) -> AssignmentReply:
        return await self._random.choice(self.living).assignment(instance_id, have, min(wait_s, 2.0), same=same)

    async def poll(self, poll: Poll) -> AssignmentReply:
        return await self._random.choice(self.living).poll(msgspec.structs.replace(poll, wait=min(poll.wait, 2.0)))

    def lose(self, server: AgentService) -> None:
        """It dies: whoever waits for it turns to another one."""
        if server in self.living:
            self.living.remove(server)
            server.release()


@asynccontextmanager
async def loops(*worlds: World) -> AsyncIterator[None]:
    """The servers' loops, and the instance monitor of the first."""
    works = [work for world in worlds for work in (world.loop.run(), world.agents.run())]
    tasks = [asyncio.create_task(work) for work in (*works, worlds[0].monitor.run())]
    try:
        yield
    finally:
        await end(tasks)


async def doom(world: World, fuse: Fuse, line: AnyServer, died: Callable[[], None] = lambda: None) -> None:
    """A server lives until its fuse blows, and then does nothing any more."""
    running = [asyncio.create_task(world.loop.run()), asyncio.create_task(world.agents.run())]
    if isinstance(world, RunWorld):
        running.append(asyncio.create_task(world.runs.run()))
    try:
        await fuse.blown.wait()
    finally:
        await end(running)
        line.lose(world.agents)
        if isinstance(world.written, FusedStore):
            await world.written.let_through()
        died()


async def within(clock: ManualClock, reached: Callable[[], Any], died: Callable[[], int]) -> None:
    """Reached within five seconds of the servers' time after the last of them has died, however long the test takes for it.
    `died`: how many have. On a busy machine, servers die when those seconds have passed: then the others get as many again."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            before, calm_s = died(), time.monotonic() + CALM_S
            for _ in range(TAKEOVER_S):
                clock.advance(seconds=1)
                await asyncio.sleep(0.05)
            while died() == before or time.monotonic() < calm_s:
                if await reached():
                    return
                await asyncio.sleep(0.1)


async def test_what_dead_servers_left_is_done_in_seconds_and_nothing_twice(two: tuple[Store, Store, str]) -> None:
    """Servers that die at every step of creating, resizing and ending clusters; one lives on beside them."""
    one, other, _ = two
    clock, simulated = ManualClock(), CountingProvider(node_types=[SMALL], knobs=Knobs())
    launched = simulated.launched

    async def settled(names: list[str], state: State) -> bool:
        found = await other.read(lambda tx: tx.clusters.many(names))
        nodes = await other.read(lambda tx: tx.instances.of_clusters(names))
        return all(
            public_state(found[name]) is state
            and len([node for node in nodes[name] if node.live]) == (found[name].num_workers + 1 if state is State.RUNNING else 0)
            for name in names
        ) and set(simulated.observe()) == {node.instance_id for rows in nodes.values() for node in rows}

    dead: set[int] = set()

    async def soon(names: list[str], state: State) -> None:
        try:
            await within(clock, lambda: settled(names, state), lambda: len(dead))
        except TimeoutError:
            found = await other.read(lambda tx: tx.clusters.many(names))
            rows = [row for each in (await other.read(lambda tx: tx.instances.of_clusters(names))).values() for row in each]
            now, observed = clock.now_ms(), set(simulated.observe())
            said = f"at {now} not {state}: {summary(found.values(), rows)}\nobserved {observed}\nlaunched {launched}"
            pytest.fail(said, pytrace=False)

    with structlog.testing.capture_logs() as logs:
        survivor = World(other, simulated, clock=clock, living=lambda: frozenset(range(DOOMED + 1)) - dead)
        fuses = [Fuse(steps + 1) for steps in range(DOOMED)]
        doomed = [
            fused(one, simulated, fuse, before=bool(steps % 2), clock=clock, number=steps + 1) for steps, fuse in enumerate(fuses)
        ]
        line = AnyServer(survivor.agents, *(world.agents for world in doomed))
        simulated.attach(line)
        async with loops(survivor):
            deaths = [
                asyncio.create_task(doom(world, fuse, line, functools.partial(dead.add, number)))
                for number, (world, fuse) in enumerate(zip(doomed, fuses, strict=True), 1)
            ]
            try:
                names = [await world.create(f"c-{number}", num_workers=2) for number, world in enumerate(doomed)]
                await soon(names, State.RUNNING)
                assert len(launched) == 3 * DOOMED, "no instance too many"
                for world, name in zip(doomed, names, strict=True):
                    await world.resize(name, 3)
                await soon(names, State.RUNNING)
                assert len(launched) == 4 * DOOMED
                for world, name in zip(doomed, names, strict=True):
                    await world.terminate(name)
                await soon(names, State.TERMINATED)
                assert sum(fuse.blown.is_set() for fuse in fuses) >= DOOMED // 2, "servers died"
            finally:
                await end(deaths)
        repeated = {name: count for name, count in launched.items() if count > 1}
        assert len(repeated) <= DOOMED, "only launches of servers that died meanwhile are repeated"
        assert set(repeated.values()) <= {2}
    assert not [each for each in logs if each["event"] in BAD]


async def test_a_launch_that_is_recorded_after_its_server_has_gone_is_repeated_at_once(two: tuple[Store, Store, str]) -> None:
    """The database may carry out the last commit of a killed server after the others have looked for its launches."""
    one, other, _ = two
    clock, simulated = ManualClock(), provider()
    dead: set[int] = set()
    looks = 0

    def living() -> frozenset[int]:
        nonlocal looks
        looks += 1
        return frozenset({0, 1}) - dead

    survivor = World(other, simulated, clock=clock, living=living)
    simulated.attach(AnyServer(survivor.agents))
    async with loops(survivor):
        await survivor.until(lambda: looks >= 2)
        dead.add(1)
        died = looks
        await survivor.until(lambda: looks >= died + 3)  # its launches have been taken over
        now = clock.now_ms()
        late = cluster(single=True, cluster_id="late", created_ms=now, launch_started_ms=now)
        leased = instance(
            late, role=Role.SINGLE, state=InstanceState.REQUESTED, status=NodeStatus(), ready_ms=0, registered_ms=0,
            launched_ms=0, created_ms=now, attempts=1, launcher=1, not_before_ms=now + 15_000, provider="",
        )  # fmt: skip

        def commit(tx: Tx) -> None:
            tx.clusters.insert(late)
            tx.instances.insert(leased)

        await one.write(commit)
        await survivor.wait("late", State.RUNNING)  # no time passes on its clock
        assert set(simulated.observe()) == {leased.instance_id}


async def test_runs_of_dead_servers_go_on_in_seconds_and_no_task_begins_twice(
    two: tuple[Store, Store, str], tmp_path: Path
) -> None:
    one, other, _ = two
    simulated = provider()

    with structlog.testing.capture_logs() as logs:
        survivor = RunWorld(other, simulated, tmp_path)
        survivor.file("a", "one")
        survivor.file("b", "two")
        fuses = [Fuse(3 * steps + 1) for steps in range(6)]
        doomed = []
        for steps, fuse in enumerate(fuses):
            doomed.append(fused_runs(one, simulated, tmp_path, fuse, before=bool(steps % 2)))
        line = AnyServer(survivor.agents, *(world.agents for world in doomed))
        simulated.attach(line)
        async with loops(survivor):
            others = [asyncio.create_task(survivor.runs.run())]
            others += [asyncio.create_task(doom(world, fuse, line)) for world, fuse in zip(doomed, fuses, strict=True)]
            try:
                runs = [await world.submit(task("a"), task("b", "a")) for world in doomed]
                for run_id in runs:
                    assert (await survivor.over(run_id)).state.result_state is RunResultState.SUCCESS
                assert sum(fuse.blown.is_set() for fuse in fuses) >= 3, "servers died"
            finally:
                await end(others)
        begun = [command for _, command in simulated.kernels.begun]
        assert len(begun) == len(set(begun)) == 2 * len(runs), "each task began once"
    assert not [each for each in logs if each["event"] in BAD]


def summary(clusters: Iterable[Cluster], rows: Iterable[Instance]) -> str:
    """What a failure needs to say."""
    lines = [f"{of.cluster_id}: {of.target}, up {of.up}, {of.num_workers} workers, {public_state(of)}" for of in clusters]
    for row in rows:
        told, wanted = row.status, row.assignment
        generations = (told.generation if told else None, wanted.generation if wanted else None)
        launch = f"launcher {row.launcher}, attempts {row.attempts}, launched {row.launched_ms}, not before {row.not_before_ms}"
        lines.append(
            f"{row.instance_id} of {row.cluster_id or row.pool_id}: {row.state}, {launch}, registered {row.registered_ms}, "
            f"ready {row.ready_ms}, told and wanted {generations}"
        )
    return "\n".join(lines)


async def test_two_servers_at_work_lose_no_change_and_never_wait_for_each_other_in_a_circle(
    two: tuple[Store, Store, str],
) -> None:
    """Clusters take from one pool and give back to it while users change both, on two servers that share all the work."""
    one, other, url = two
    simulated = provider()
    chosen = random.Random(3)  # noqa: S311 - the same choices each time
    names = [f"c-{number}" for number in range(6)]
    counted: Counter[str] = Counter()

    def change(name: str) -> Callable[[Any], None]:
        """What users do, at random, and a count in a field that nothing else changes."""
        kind, workers, warm = chosen.randrange(4), chosen.randrange(1, 4), chosen.randrange(6)

        def work(tx: Any) -> None:
            of = tx.clusters.get(name)
            of = msgspec.structs.replace(of, unpinned_ms=of.unpinned_ms + 1)
            if kind == 0 and of.target is Target.RUNNING:
                of = msgspec.structs.replace(of, target=Target.TERMINATED, ended=False)
            elif kind == 1 and public_state(of) is State.TERMINATED:
                of = msgspec.structs.replace(of, target=Target.RUNNING, ended=False, incarnation=of.incarnation + 1, sized=True)
            elif kind == 2 and of.up:
                of = msgspec.structs.replace(of, spec=msgspec.structs.replace(of.spec, num_workers=workers), sized=False)
            tx.clusters.update(of)
            tx.clusters.wake(name)
            if kind == 3:
                pool = tx.pools.get(POOL)
                tx.pools.update(msgspec.structs.replace(pool, spec=msgspec.structs.replace(pool.spec, min_idle_instances=warm)))
                tx.pools.wake(POOL)

        return work

    async def user(world: World, name: str) -> None:
        for _ in range(12):
            await world.store.write(change(name))
            counted[name] += 1
            world.wake(name)
            world.wake(POOL)
            await asyncio.sleep(chosen.uniform(0.0, 0.1))

    async def rest(worlds: list[World]) -> None:
        """Everything runs again, and comes to rest."""

        def work(tx: Any) -> None:
            for name in names:
                of = tx.clusters.get(name)
                if of.target is not Target.RUNNING:
                    of = msgspec.structs.replace(of, incarnation=of.incarnation + 1, sized=True)
                of = msgspec.structs.replace(of, target=Target.RUNNING, ended=False)
                tx.clusters.update(of)
                tx.clusters.wake(name)

        await one.write(work)
        deadline = time.monotonic() + PATIENCE_S
        while True:
            found = await one.read(lambda tx: tx.clusters.many(names))
            rows = await one.read(lambda tx: tx.instances.many(tx.instances.states()))
            own = Counter(row.cluster_id for row in rows)
            if (
                all(of.up and own[of.cluster_id] == of.num_workers + 1 for of in found.values())
                and {row.instance_id for row in rows} == set(simulated.observe())
                and all(row.status.generation == row.assignment.generation for row in rows if row.cluster_id and row.assignment)
            ):
                taken_over(rows, list(found.values()))
                assert {name: of.unpinned_ms for name, of in found.items()} == counted, "no change is lost"
                return
            if time.monotonic() > deadline:
                pytest.fail(f"no rest: {summary(found.values(), rows)}, observed {set(simulated.observe())}", pytrace=False)
            await asyncio.sleep(0.1)

    with structlog.testing.capture_logs() as logs:
        worlds = [World(store, simulated) for store in (one, other)]
        simulated.attach(AnyServer(*(world.agents for world in worlds)))
        async with loops(*worlds):
            await make_pool(worlds[0], min_idle_instances=3)
            for name in names:
                await create(worlds[0], name, num_workers=2)
            await asyncio.gather(*(user(world, name) for name in names for world in worlds))
            await rest(worlds)
    assert not [each for each in logs if each["event"] in BAD]
    one.close()
    other.close()

    def deadlocks() -> int:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("SELECT pg_stat_clear_snapshot()")
            count = connection.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()").fetchone()
            assert count is not None
            return int(count[0])

    until(lambda: deadlocks() >= 0)
    assert deadlocks() == 0
