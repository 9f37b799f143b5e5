"""Whose an instance is: its provider is on record, and one that is not configured any more is left alone."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import msgspec
import structlog

from brickyard.domain.cluster import Instance
from brickyard.domain.instances import InstanceState
from brickyard.domain.nodetypes import NodeType
from brickyard.domain.states import State
from brickyard.providers.base import LaunchRequest
from brickyard.providers.simulated import SimulatedProvider
from brickyard.store.store import Store
from brickyard.store.tx import Tx
from brickyard.testing.builders import SMALL
from tests.reconcile.world import World, provider
from tests.stateful.workspace import Workspace
from tests.support.golden import Golden
from tests.support.patience import PATIENCE_S


class Noted(SimulatedProvider):
    """Remembers which servers its agents were told to call."""

    def __init__(self, *, node_types: Sequence[NodeType]) -> None:
        super().__init__(node_types=node_types)
        self.called: set[str] = set()

    def launch(self, request: LaunchRequest) -> None:
        self.called.add(request.server_url)
        super().launch(request)


async def give_to(store: Store, rows: list[Instance], name: str) -> None:
    def work(tx: Tx) -> None:
        for row in rows:
            tx.instances.update(msgspec.structs.replace(row, provider=name))

    await store.write(work)


async def running_cluster(world: World, name: str) -> list[Instance]:
    """A cluster of a driver and a worker, up; its instances."""
    await world.create(name, num_workers=1)
    await world.wait(name, State.RUNNING)
    _, rows = await world.look(name)
    return list(rows)


async def test_an_instance_of_a_provider_that_is_not_configured_is_told_of_once_and_left(store: Store) -> None:
    simulated = provider()
    async with World(store, simulated).running() as world:
        rows = await running_cluster(world, "kept")
    await give_to(store, rows, "slurm")
    for row in rows:
        simulated.kill(row.instance_id)  # so that nobody lists them
    again = World(store, simulated)
    with structlog.testing.capture_logs() as said:
        async with again.running():
            await running_cluster(again, "other")
            for _ in range(3):
                await again.monitor.run_once()
            found, left = await again.look("kept")
            assert found is not None and found.up
            assert [row.state for row in left] == [row.state for row in rows]
    told = [(each["instance_id"], each["provider"]) for each in said if each["event"] == "instance_left"]
    assert sorted(told) == sorted((row.instance_id, "slurm") for row in rows)


async def test_one_that_is_listed_is_not_ended_as_an_orphan(store: Store) -> None:
    simulated = provider()
    async with World(store, simulated).running() as world:
        rows = await running_cluster(world, "c")
        await give_to(store, rows, "slurm")
        for _ in range(3):
            await world.monitor.run_once()
        assert set(simulated.observe()) == {row.instance_id for row in rows}


async def test_one_that_nobody_can_end_is_gone_when_its_agent_must_have_ended_itself(store: Store) -> None:
    """Its provider is no longer in the settings: a cluster of it can be terminated all the same, and comes back elsewhere."""

    simulated = provider()
    async with World(store, simulated).running() as world:
        rows = await running_cluster(world, "c")
        await give_to(store, rows, "slurm")
        await world.terminate("c")
        await world.wait("c", State.TERMINATING)
        async with asyncio.timeout(PATIENCE_S):
            while {row.state for row in (await world.look("c"))[1]} != {InstanceState.TERMINATING}:
                await asyncio.sleep(0.05)
        await world.monitor.run_once()
        assert {row.state for row in (await world.look("c"))[1]} == {InstanceState.TERMINATING}
    async with World(store, simulated, grace_s=0).running() as later:
        await later.wait("c", State.TERMINATED)
        await later.start("c")
        await later.wait("c", State.RUNNING)
        assert {row.provider for row in (await later.look("c"))[1]} == {simulated.name}


async def test_one_that_is_silent_is_lost_though_nobody_can_be_asked_for_it(store: Store, golden: Golden) -> None:
    simulated = provider()
    async with World(store, simulated).running() as world:
        rows = await running_cluster(world, "c")
        await give_to(store, rows, "slurm")
        for row in rows:
            simulated.kill(row.instance_id)
    async with World(store, provider(), silence_s=0.1, grace_s=0).running() as later:
        found = await later.wait("c", State.TERMINATED)
        golden(found.state_message)


async def test_rows_from_before_belong_to_the_configured_provider(store: Store) -> None:
    simulated = provider()
    async with World(store, simulated).running() as world:
        rows = await running_cluster(world, "c")
        await give_to(store, rows, "")
        await world.terminate("c")
        await world.wait("c", State.TERMINATED)
        assert not simulated.observe()


async def test_a_server_records_the_provider_and_tells_agents_the_public_url(tmp_path: Path) -> None:
    machines = Noted(node_types=[SMALL])
    workspace = Workspace(tmp_path, machines=machines, public_url="http://10.0.0.7:8080/")
    await workspace.boot()
    body = {"spark_version": "17.3.x-scala2.13", "node_type_id": "small", "num_workers": 1}
    _, made = await workspace.post("create", **body)
    _, pool = await workspace.pool("POST", "create", instance_pool_name="p", node_type_id="small", min_idle_instances=1)
    await workspace.until(made["cluster_id"], "RUNNING")
    rows = await workspace.app.store.read(lambda tx: tx.instances.many(tx.instances.states()))
    assert {row.pool_id for row in rows} == {"", pool["instance_pool_id"]}
    assert {row.provider for row in rows} == {"simulated"}
    assert machines.called == {"http://10.0.0.7:8080"}
    await workspace.crash()
