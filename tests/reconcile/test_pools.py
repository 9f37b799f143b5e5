"""Pools under the loops: instances change hands and never have two owners, whatever races or dies."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from brickyard.domain.cluster import Cluster, Instance, public_state
from brickyard.domain.events import EventType
from brickyard.domain.instances import InstanceState
from brickyard.domain.node import Assignment, Role
from brickyard.domain.pools import Pool, PoolSpec, Standing
from brickyard.domain.queries import EventFilter
from brickyard.domain.states import State
from brickyard.domain.terminations import TerminationReasonCode
from brickyard.store.store import Store
from brickyard.testing.builders import cluster
from tests.reconcile.crashes import Fuse, end, first_of, killed_at_every_step
from tests.reconcile.test_crashes import fused
from tests.reconcile.world import CLOCK, World, provider
from tests.support.golden import Golden
from tests.support.patience import PATIENCE_S

POOL = "0101-000000-test-pool-A"
RUNTIME = "17.3.x-scala2.13"


async def make_pool(world: World, **fields: object) -> None:
    spec = PoolSpec(instance_pool_name="p", node_type_id="small", **fields)  # type: ignore[arg-type] # keyword arguments of a struct
    row = Pool(instance_pool_id=POOL, creator_user_name="u", creator_user_id="1", created_ms=CLOCK.now_ms(), spec=spec)
    await world.store.write(lambda tx: tx.pools.insert(row))
    world.wake(POOL)


async def change_pool(world: World, how: Callable[[Pool], Pool]) -> None:
    def work(tx: Any) -> None:
        tx.pools.update(how(tx.pools.get(POOL)))
        tx.pools.wake(POOL)

    await world.store.write(work)
    world.wake(POOL)


async def create(world: World, name: str, *, num_workers: int = 1) -> None:
    now = CLOCK.now_ms()
    row = cluster(num_workers=num_workers, cluster_id=name, created_ms=now, launch_started_ms=now)
    spec = msgspec.structs.replace(row.spec, instance_pool_id=POOL, driver_instance_pool_id=POOL)
    row = msgspec.structs.replace(row, spec=spec)
    await world.store.write(lambda tx: tx.clusters.insert(row))
    world.wake(name)


async def standings(world: World) -> dict[Standing, int]:
    found = await world.store.read(lambda tx: tx.instances.standings(POOL).get(POOL, {}))
    return {kind: count for kind, count in found.items() if kind is not Standing.NONE}


async def settle(world: World, wanted: dict[Standing, int], timeout: float = PATIENCE_S) -> None:
    """Until the pool's instances are so, and the provider has exactly those on record."""
    async with asyncio.timeout(timeout):
        while True:
            rows = await world.store.read(lambda tx: tx.instances.many(tx.instances.states()))
            if await standings(world) == wanted and {row.instance_id for row in rows} == set(world.provider.observe()):
                return
            await asyncio.sleep(0.01)


def taken_over(instances: list[Instance], clusters: list[Cluster]) -> None:
    """Every cluster has its nodes, and each node of it knows that cluster and no other."""
    for of in clusters:
        own = [row for row in instances if row.cluster_id == of.cluster_id]
        assert len(own) == of.num_workers + 1
        assert Counter(row.role for row in own)[Role.DRIVER] == 1
        assert all(row.assignment is not None and row.assignment.cluster_id == of.cluster_id for row in own)
        assert all(row.status.generation == row.assignment.generation for row in own if row.assignment is not None)


class Watcher:
    """Sees every assignment that any agent is given, and with which versions and generations."""

    def __init__(self, world: World) -> None:
        self.seen: dict[str, list[Assignment]] = {}
        ask = world.agents.assignment

        async def watched(instance_id: str, have: int, wait_s: float, *, same: bool = False) -> Any:
            reply = await ask(instance_id, have, wait_s, same=same)
            told = self.seen.setdefault(instance_id, [])
            if reply.assignment is not None and (not told or told[-1] != reply.assignment):
                told.append(reply.assignment)
            return reply

        world.agents.assignment = watched  # type: ignore[method-assign] # a test's look through the keyhole

    def check(self) -> None:
        """Versions grow with every change, and no generation ever serves two tenants."""
        for told in self.seen.values():
            assert [each.version for each in told] == sorted({each.version for each in told})
            tenants: dict[int, set[str]] = {}
            for each in told:
                tenants.setdefault(each.generation, set()).add(each.cluster_id)
            assert all(len(names) == 1 for names in tenants.values())
            assert list(tenants) == sorted(tenants)


@pytest.fixture
async def world(store: Store) -> AsyncIterator[World]:
    world = World(store, provider())
    watcher = Watcher(world)
    async with world.running():
        yield world
    watcher.check()


async def test_instances_go_round(world: World, golden: Golden) -> None:
    await make_pool(world, min_idle_instances=2, preloaded_spark_versions=[RUNTIME])
    await settle(world, {Standing.WARM: 2})
    first = set(world.provider.observe())
    await create(world, "a")
    of = await world.wait("a", State.RUNNING)
    await settle(world, {Standing.USED: 2, Standing.WARM: 2})
    rows = await world.store.read(lambda tx: tx.instances.of_cluster("a"))
    assert {row.instance_id for row in rows} == first, "idle instances are taken before new ones are launched"
    taken_over(rows, [of])
    events = await world.store.read(lambda tx: tx.events.page(EventFilter(cluster_id="a"), limit=50))
    running = next(event for _, event in events if event.type is EventType.RUNNING)
    golden(running.details.driver_state_message)
    await world.terminate("a")
    await world.wait("a", State.TERMINATED)
    await settle(world, {Standing.WARM: 4})
    await world.start("a")
    await world.wait("a", State.RUNNING)


async def test_a_cold_start_says_why(world: World, golden: Golden) -> None:
    await make_pool(world, min_idle_instances=1, preloaded_spark_versions=["another"])
    await settle(world, {Standing.WARM: 1})
    await create(world, "a")
    await world.wait("a", State.RUNNING)
    events = await world.store.read(lambda tx: tx.events.page(EventFilter(cluster_id="a"), limit=50))
    golden(next(event for _, event in events if event.type is EventType.RUNNING).details.driver_state_message)


async def test_many_clusters_at_once_get_instances_of_their_own(world: World) -> None:
    await make_pool(world, min_idle_instances=12)
    await settle(world, {Standing.IDLE: 12})
    names = [f"c{number}" for number in range(10)]
    await asyncio.gather(*(create(world, name) for name in names))
    clusters = [await world.wait(name, State.RUNNING) for name in names]
    await settle(world, {Standing.USED: 20, Standing.IDLE: 12})
    taken_over(await world.store.read(lambda tx: tx.instances.many(tx.instances.states())), clusters)


async def test_two_servers_on_one_database_share_a_pool(store_url: str) -> None:
    if not store_url.startswith("postgresql"):
        pytest.skip("SQLite has one server")

    stores = [Store.open(store_url) for _ in range(2)]
    simulated = provider()
    first, second = (World(each, simulated) for each in stores)
    async with first.running():
        await make_pool(first, min_idle_instances=8, max_capacity=24)
        await settle(first, {Standing.IDLE: 8})
        loops = asyncio.create_task(second.loop.run())
        names = [f"c{number}" for number in range(8)]
        await asyncio.gather(*(create((first, second)[index % 2], name) for index, name in enumerate(names)))
        for name in names:  # both servers look at every cluster
            second.wake(name)
        clusters = [await first.wait(name, State.RUNNING) for name in names]
        await settle(first, {Standing.USED: 16, Standing.IDLE: 8})
        taken_over(await first.store.read(lambda tx: tx.instances.many(tx.instances.states())), clusters)
        loops.cancel()
        await asyncio.gather(loops, return_exceptions=True)
    for each in stores:
        each.close()


async def test_a_pool_never_exceeds_its_capacity_whatever_meets(store_url: str) -> None:
    """Two servers create clusters for its last instances while it is edited, and delete it while others take from it."""

    several = store_url.startswith("postgresql")
    stores = [Store.open(store_url) for _ in range(2 if several else 1)]
    simulated = provider()
    worlds = [World(each, simulated) for each in stores]
    first, most, seen = worlds[0], 5, list[int]()

    async def watch() -> None:
        while True:
            seen.append(sum((await standings(first)).values()))
            await asyncio.sleep(0.005)

    async def end(name: str, refused: TerminationReasonCode) -> State:
        """Ends a cluster that runs, or that had found no room."""
        found = await first.wait(name, State.RUNNING, State.TERMINATED)
        state, reason = public_state(found), found.termination_reason
        assert state is State.RUNNING or (reason is not None and reason.code is refused)
        await first.terminate(name)
        return state

    async with first.running():
        beside = [asyncio.create_task(watch()), *(asyncio.create_task(each.loop.run()) for each in worlds[1:])]
        await make_pool(first, min_idle_instances=2, max_capacity=most)
        names = [f"c{number}" for number in range(6)]
        edit = change_pool(worlds[-1], lambda pool: msgspec.structs.replace(pool, errors=()))
        await asyncio.gather(*(create(worlds[index % len(worlds)], name) for index, name in enumerate(names)), edit)
        ends = [await end(name, TerminationReasonCode.INSTANCE_POOL_MAX_CAPACITY_REACHED) for name in names]
        assert State.RUNNING in ends
        gone = change_pool(first, lambda pool: msgspec.structs.replace(pool, deleted_ms=CLOCK.now_ms()))
        await asyncio.gather(gone, *(create(worlds[-1], f"late{number}", num_workers=0) for number in range(3)))
        for number in range(3):
            await end(f"late{number}", TerminationReasonCode.INSTANCE_POOL_NOT_FOUND)
        async with asyncio.timeout(PATIENCE_S):  # nothing is left of the pool
            while await first.store.read(lambda tx: tx.pools.get(POOL)) or first.provider.observe():
                await asyncio.sleep(0.01)
        for task in beside:
            task.cancel()
        await asyncio.gather(*beside, return_exceptions=True)
    for each in stores:
        each.close()
    assert 0 < max(seen) <= most


async def test_a_killed_idle_instance_is_replaced(world: World) -> None:
    await make_pool(world, min_idle_instances=2)
    await settle(world, {Standing.IDLE: 2})
    world.provider.kill(next(iter(world.provider.observe())))
    await world.until(lambda: len(world.provider.observe()) == 1)
    await settle(world, {Standing.IDLE: 2})


async def test_a_node_that_failed_does_not_go_back(world: World) -> None:
    await make_pool(world, max_capacity=2)
    world.provider.knobs.node_failure = 1.0
    await create(world, "a")
    await world.wait("a", State.TERMINATED)
    async with asyncio.timeout(PATIENCE_S):
        while any(row.cluster_id for row in await world.store.read(lambda tx: tx.instances.many(tx.instances.states()))):
            await asyncio.sleep(0.01)
    rows = await world.store.read(lambda tx: tx.instances.idle_of_pool(POOL))
    assert all(row.role is Role.WARM for row in rows)
    assert Standing.USED not in await standings(world)
    world.provider.knobs.node_failure = 0.0
    await create(world, "b")
    await world.wait("b", State.RUNNING)


async def test_a_provider_without_room_is_asked_ever_more_rarely(world: World, golden: Golden) -> None:
    calls: list[str] = []
    launch = world.provider.launch

    def counted(request: Any) -> None:
        calls.append(request.instance_id)
        launch(request)

    world.provider.launch = counted  # type: ignore[method-assign] # counts
    world.provider.knobs.max_instances = 1
    await make_pool(world, min_idle_instances=3)
    async with asyncio.timeout(PATIENCE_S):
        while True:
            found = await world.store.read(lambda tx: tx.pools.get(POOL))
            if found is not None and found.failures >= 4:
                break
            await asyncio.sleep(0.01)
    golden(found.errors[0].message)
    assert len(calls) <= 3 + 4, "three at once, then one at a time"
    world.provider.knobs.max_instances = 10
    await settle(world, {Standing.IDLE: 3})
    async with asyncio.timeout(PATIENCE_S):
        while (await world.store.read(lambda tx: tx.pools.get(POOL))).errors:  # type: ignore[union-attr] # it is there
            await asyncio.sleep(0.05)


async def test_a_deleted_pool_goes_when_its_last_instance_has_gone(world: World) -> None:
    await make_pool(world, min_idle_instances=1)
    await create(world, "a")
    await world.wait("a", State.RUNNING)
    await change_pool(world, lambda of: msgspec.structs.replace(of, deleted_ms=CLOCK.now_ms()))
    await settle(world, {Standing.USED: 2})
    await world.terminate("a")
    async with asyncio.timeout(PATIENCE_S):
        while await world.store.read(lambda tx: tx.pools.get(POOL)) is not None:
            await asyncio.sleep(0.01)
    await world.until(lambda: not world.provider.observe())


# -- crashes -----------------------------------------------------------------------------------------------------------


GOALS: dict[str, tuple[dict[Standing, int], set[str]]] = {
    "fill": ({Standing.WARM: 2}, set()),
    "take": ({Standing.WARM: 2, Standing.USED: 3}, {"a"}),
    "release": ({Standing.WARM: 5}, set()),
    "hand over": ({Standing.WARM: 2, Standing.USED: 3}, {"b"}),
    "delete": ({Standing.USED: 3}, {"a"}),
}


async def act_on(world: World, act: str) -> None:
    match act:
        case "fill":
            await make_pool(world, min_idle_instances=2, preloaded_spark_versions=[RUNTIME])
        case "take":
            await create(world, "a", num_workers=2)
        case "release":
            await world.terminate("a")
        case "hand over":
            await world.terminate("a")
            await create(world, "b", num_workers=2)
        case _:
            await change_pool(world, lambda of: msgspec.structs.replace(of, deleted_ms=CLOCK.now_ms()))


async def at_goal(world: World, act: str) -> bool:
    wanted, running = GOALS[act]
    rows = await world.store.read(lambda tx: tx.instances.many(tx.instances.states()))
    found = await standings(world)
    if act == "hand over":  # how many more are idle depends on how soon the first cluster's were clean
        found = {kind: min(count, wanted.get(kind, 0)) for kind, count in found.items()}
    if found != wanted or {row.instance_id for row in rows} != set(world.provider.observe()):
        return False
    for name in running:
        of, nodes = await world.look(name)
        if of is None or not of.up or not all(node.ready for node in nodes):
            return False
    return True


async def crash_and_recover(store: Store, act: str, steps: int, *, before: bool) -> bool:
    """Returns whether the crash came before the work was done."""
    simulated = provider()
    async with World(store, simulated).running() as calm:
        if act != "fill":
            await act_on(calm, "fill")
            await settle(calm, {Standing.WARM: 2})
        if act in ("release", "hand over", "delete"):
            await act_on(calm, "take")
            await calm.wait("a", State.RUNNING)
            await settle(calm, GOALS["take"][0])
    fuse = Fuse(steps)
    first = fused(store, simulated, fuse, before=before)
    watcher = Watcher(first)
    simulated.attach(first.agents)
    tasks = [asyncio.create_task(first.loop.run()), asyncio.create_task(first.monitor.run())]
    await act_on(first, act)

    async def reach(world: World) -> None:
        while not await at_goal(world, act):
            await asyncio.sleep(0.05)

    await first_of(fuse.blown.wait(), reach(first))
    crashed = fuse.blown.is_set()
    await end(tasks)
    watcher.check()

    await store.write(lambda tx: None)  # what was under way is let through: a killed process commits nothing later
    second = World(store, simulated)
    later = Watcher(second)
    async with second.running():
        await reach(second)
        rows = await store.read(lambda tx: tx.instances.many(tx.instances.states()))
        running = [of for name in GOALS[act][1] if (of := (await second.look(name))[0]) is not None]
        taken_over(rows, running)
        assert not [row for row in rows if row.state is InstanceState.GONE]
    later.check()
    return crashed


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("act", list(GOALS))
def test_killed_at_every_step(tmp_path: Path, act: str, before: bool) -> None:
    async def crash_at(_: Path, store: Store, steps: int) -> bool:
        return await crash_and_recover(store, act, steps, before=before)

    killed_at_every_step(tmp_path, crash_at)
