"""Two providers in one workspace: each has its instances, and trouble with one is not the other's."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest
import structlog

from brickyard.domain.cluster import Instance
from brickyard.domain.states import State
from brickyard.providers.base import LaunchRequest, Observed, TransientError
from brickyard.reconcile import instances
from brickyard.store.store import Store
from brickyard.testing.builders import SMALL, cluster
from tests.providers.several import LARGE, First, Second, two
from tests.reconcile.world import CLOCK, World
from tests.stateful.workspace import Workspace
from tests.support.golden import Golden


async def create(world: World, name: str, node_type_id: str) -> None:
    now = CLOCK.now_ms()
    row = cluster(num_workers=1, cluster_id=name, created_ms=now, launch_started_ms=now)
    spec = msgspec.structs.replace(row.spec, node_type_id=node_type_id, driver_node_type_id=node_type_id)
    await world.store.write(lambda tx: tx.clusters.insert(msgspec.structs.replace(row, spec=spec, request=spec)))
    world.wake(name)


async def rows_of(world: World, name: str) -> list[Instance]:
    return (await world.look(name))[1]


async def test_instances_come_from_the_provider_of_their_type(store: Store) -> None:
    first, second = two()
    async with World(store, first, others=[second]).running() as world:
        await create(world, "small", "small")
        await create(world, "large", "large")
        for name, listing in (("small", first), ("large", second)):
            await world.wait(name, State.RUNNING)
            rows = await rows_of(world, name)
            assert {row.provider for row in rows} == {listing.name}
            assert set(listing.observe()) == {row.instance_id for row in rows}
        await world.terminate("large")
        await world.wait("large", State.TERMINATED)
        assert not second.observe()
        assert len(first.observe()) == 2


async def test_an_orphan_of_either_is_ended(store: Store) -> None:
    first, second = two()
    async with World(store, first, others=[second]).running() as world:
        for each in (first, second):
            each.launch(
                LaunchRequest(instance_id=f"i-{each.name}", node_type=LARGE, server_url="", agent_token="a", server_token="s")
            )
        await world.until(lambda: not first.observe() and not second.observe())


async def test_one_that_a_late_call_launched_where_it_was_refused_before_is_ended_there_only(store: Store) -> None:
    first, second = two()
    async with World(store, first, others=[second]).running() as world:
        await create(world, "c", "large")
        await world.wait("c", State.RUNNING)
        rows = await rows_of(world, "c")
        first.launch(
            LaunchRequest(instance_id=rows[0].instance_id, node_type=LARGE, server_url="", agent_token="a", server_token="s")
        )
        await world.until(lambda: not first.observe())
        assert set(second.observe()) == {row.instance_id for row in rows}


class Away(Second):
    """Cannot be asked while `away`; the engine's API is down."""

    TROUBLE = "the engine does not answer"
    away = False
    refused = 0

    def observe(self) -> Mapping[str, Observed]:
        if self.away:
            self.refused += 1
            raise TransientError(self.TROUBLE)
        return super().observe()


async def test_while_one_cannot_be_asked_the_other_is_compared(store: Store) -> None:
    first, second = First(node_types=[SMALL]), Away(node_types=[LARGE])
    async with World(store, first, others=[second]).running() as world:
        await create(world, "small", "small")
        await create(world, "large", "large")
        for name in ("small", "large"):
            await world.wait(name, State.RUNNING)
        second.away = True
        workers = await rows_of(world, "large")
        for row in workers:
            second.kill(row.instance_id)
        for row in await rows_of(world, "small"):
            first.kill(row.instance_id)
        await world.wait("small", State.TERMINATED)
        assert [row.state for row in await rows_of(world, "large")] == [row.state for row in workers]
        second.away = False
        await world.wait("large", State.TERMINATED)


async def test_one_that_cannot_be_reached_is_told_once(store: Store) -> None:
    first, second = First(node_types=[SMALL]), Away(node_types=[LARGE])
    with structlog.testing.capture_logs() as said:
        async with World(store, first, others=[second]).running() as world:
            second.away = True
            await world.until(lambda: second.refused > 3)
            assert world.monitor.troubles == {second.name: Away.TROUBLE}
            second.away = False
            await world.until(lambda: not world.monitor.troubles)
    told = [each["event"] for each in said if each["event"].startswith("observe_")]
    assert told == ["observe_failed", "observe_works"]


class Hanging(Second):
    """Its list comes only when `go` is set."""

    def __init__(self) -> None:
        super().__init__(node_types=[LARGE])
        self.go = threading.Event()
        self.go.set()

    def observe(self) -> Mapping[str, Observed]:
        found = super().observe()
        self.go.wait()
        return found


async def test_one_that_hangs_holds_nothing_up_and_its_late_answer_counts(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """An instance that comes while it hangs is not in its answer, and not missing."""
    monkeypatch.setattr(instances, "PATIENCE_S", 0.5)  # longer than an answer takes on a busy machine

    first, second = First(node_types=[SMALL]), Hanging()
    with structlog.testing.capture_logs() as said:
        async with World(store, first, others=[second]).running() as world:
            await create(world, "early", "large")
            await world.wait("early", State.RUNNING)
            second.go.clear()
            await world.until(lambda: [each for each in said if each["event"] == "observe_slow"])
            await create(world, "small", "small")
            await create(world, "large", "large")
            await world.wait("small", State.RUNNING)
            await world.wait("large", State.RUNNING)
            for row in await rows_of(world, "small"):
                first.kill(row.instance_id)
            await world.wait("small", State.TERMINATED)
            second.go.set()
            for row in await rows_of(world, "early"):
                second.kill(row.instance_id)
            await world.wait("early", State.TERMINATED)
            assert (await world.wait("large", State.RUNNING)).up
    assert len([each for each in said if each["event"] == "observe_slow"]) == 1


async def test_only_clusters_of_providers_that_end_with_the_server_end_with_it(tmp_path: Path) -> None:
    first, second = two()
    workspace = Workspace(tmp_path, machines=first, others=[second])
    await workspace.boot()
    made = {}
    for name in ("small", "large"):
        body = {"spark_version": "17.3.x-scala2.13", "node_type_id": name, "num_workers": 1}
        _, answer = await workspace.post("create", **body)
        made[name] = answer["cluster_id"]
        await workspace.until(made[name], "RUNNING")
    pools = {}
    for name in ("small", "large"):
        _, answer = await workspace.pool("POST", "create", instance_pool_name=name, node_type_id=name, min_idle_instances=1)
        pools[name] = answer["instance_pool_id"]
    store = workspace.app.store
    await workspace.settle(lambda: idle(store, *pools.values()))
    await workspace.app.close(keep_nodes=False)
    assert await workspace.state(made["large"]) == "RUNNING"
    assert await workspace.state(made["small"]) != "RUNNING"
    rows = await store.read(lambda tx: tx.instances.many(tx.instances.states()))
    assert {row.provider for row in rows if row.live and not row.cluster_id} == {"second"}, "the idle ones"
    await workspace.crash()


async def idle(store: Store, *pool_ids: str) -> str:
    """Until every pool has an instance whose agent has called."""
    found = await store.read(lambda tx: [tx.instances.idle_of_pool(pool_id) for pool_id in pool_ids])
    return "" if all(rows and rows[0].registered_ms for rows in found) else "a pool has none"


async def test_what_is_offered_says_of_which_provider_and_mixtures_are_refused(tmp_path: Path, golden: Golden) -> None:
    first, second = two()
    workspace = Workspace(tmp_path, machines=first, others=[second])
    await workspace.boot()
    _, offered = await workspace.get("list-node-types")
    assert {each["node_type_id"]: each["provider"] for each in offered["node_types"]} == {
        "small": "simulated",
        "large": "second",
    }
    body = {"spark_version": "17.3.x-scala2.13", "num_workers": 1, "node_type_id": "small", "driver_node_type_id": "large"}
    status, refused = await workspace.post("create", **body)
    assert (status, refused["error_code"]) == (400, "INVALID_PARAMETER_VALUE")
    golden(refused["message"], "node_type_id small", "simulated", "driver_node_type_id large", "second")
    _, machine = await workspace.call("GET", "/api/2.1/machine")
    assert [(each["name"], each["hidden_node_types"]) for each in machine["providers"]] == [
        ("simulated", []),
        ("second", [{"node_type_id": "small", "provider": "simulated"}]),
    ]
    await workspace.crash()


async def test_nodes_of_two_providers_on_one_network_may_be_in_one_cluster(tmp_path: Path) -> None:
    first, second = two(network="machines")
    workspace = Workspace(tmp_path, machines=first, others=[second])
    await workspace.boot()
    body = {"spark_version": "17.3.x-scala2.13", "num_workers": 2, "node_type_id": "large", "driver_node_type_id": "small"}
    status, _ = await workspace.post("create", **body)
    assert status == 200

    async def launched() -> str:
        return "" if (len(first.observe()), len(second.observe())) == (1, 2) else "its nodes"

    await workspace.settle(launched)  # simulated nodes of two worlds do not find each other: it does not come up
    _, machine = await workspace.call("GET", "/api/2.1/machine")
    assert {each["name"]: each["nodes"] for each in machine["providers"]} == {"simulated": 1, "second": 2}
    await workspace.crash()
