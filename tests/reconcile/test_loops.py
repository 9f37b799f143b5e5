"""Clusters through their whole life on the simulated provider, with real loops and both databases."""

from __future__ import annotations

import asyncio

from brickyard.domain.events import EventType
from brickyard.domain.instances import InstanceState
from brickyard.domain.node import Failure, Role
from brickyard.domain.states import State
from brickyard.domain.terminations import TerminationReasonCode
from brickyard.plan.autoscale import Rules
from brickyard.plan.policy import Policy
from brickyard.store.store import Store
from tests.reconcile.world import World, check_books, provider
from tests.support.golden import Golden
from tests.support.patience import PATIENCE_S


async def test_create_resize_terminate_start(store: Store) -> None:
    async with World(store, provider()).running() as world:
        await world.create("c", num_workers=2)
        await world.wait("c", State.RUNNING)
        await world.resize("c", 4)
        await world.wait("c", State.RESIZING, State.RUNNING)
        await world.wait("c", State.RUNNING)
        await world.resize("c", 1)
        found = await world.wait("c", State.RUNNING)
        await world.until(lambda: len(world.provider.observe()) == 2)
        await world.terminate("c")
        await world.wait("c", State.TERMINATED)
        assert not world.provider.observe()
        await world.start("c")
        found = await world.wait("c", State.RUNNING)
        check_books(found, (await world.look("c"))[1], world.provider.observe())
        assert EventType.UPSIZE_COMPLETED in await world.kinds("c")


async def test_a_restart_reuses_the_instances(store: Store) -> None:
    async with World(store, provider()).running() as world:
        await world.create("c", num_workers=2)
        await world.wait("c", State.RUNNING)
        before = set(world.provider.observe())
        await world.start("c")
        found = await world.wait("c", State.RUNNING)
        assert found.ready_incarnation == 2
        assert set(world.provider.observe()) == before


async def test_a_killed_worker_is_replaced_and_a_killed_driver_ends_the_cluster(store: Store) -> None:
    async with World(store, provider()).running() as world:
        await world.create("c", num_workers=2)
        await world.wait("c", State.RUNNING)
        _, nodes = await world.look("c")
        world.provider.kill(next(node.instance_id for node in nodes if node.role is Role.WORKER))
        await world.wait_event("c", EventType.NODES_LOST)
        await world.wait("c", State.RUNNING)
        _, nodes = await world.look("c")
        world.provider.kill(next(node.instance_id for node in nodes if node.role is Role.DRIVER))
        found = await world.wait("c", State.TERMINATED)
        assert found.termination_reason is not None
        assert found.termination_reason.code is TerminationReasonCode.DRIVER_UNREACHABLE
        assert not world.provider.observe()


async def test_a_failing_driver_ends_the_cluster(store: Store) -> None:
    async with World(store, provider()).running() as world:
        await world.create("c", num_workers=1)
        await world.wait("c", State.RUNNING)
        _, nodes = await world.look("c")
        driver = next(node for node in nodes if node.role is Role.DRIVER)
        world.provider.fail(driver.instance_id, Failure(code="DRIVER_OUT_OF_MEMORY", message="heap", log_tail="x"))
        found = await world.wait("c", State.TERMINATED)
        assert found.termination_reason is not None
        assert found.termination_reason.code is TerminationReasonCode.DRIVER_OUT_OF_MEMORY


async def test_no_room_ends_a_start_and_leaves_nothing_behind(store: Store) -> None:
    async with World(store, provider(max_instances=3)).running() as world:
        await world.create("c", num_workers=5)
        found = await world.wait("c", State.TERMINATED)
        assert found.termination_reason is not None
        assert found.termination_reason.code is TerminationReasonCode.CLOUD_PROVIDER_RESOURCE_STOCKOUT
        assert "left" in found.state_message
        assert not world.provider.observe()


async def test_launch_errors_that_pass_are_survived(store: Store) -> None:
    async with World(store, provider(launch_error=0.4, seed=3)).running() as world:
        for number in range(4):
            await world.create(f"c-{number}", num_workers=3)
        for number in range(4):
            await world.wait(f"c-{number}", State.RUNNING, State.TERMINATED)


async def test_an_instance_that_nobody_knows_is_ended(store: Store) -> None:
    simulated = provider()
    world = World(store, simulated)
    async with world.running():
        await world.create("c", num_workers=1)
        await world.wait("c", State.RUNNING)
        _, nodes = await world.look("c")

        # What a database restored from a backup looks like: the provider has more than is on record.
        await store.write(lambda tx: tx.instances.delete(nodes[0]))
        await world.until(lambda: nodes[0].instance_id not in simulated.observe())


async def test_termination_while_starting(store: Store) -> None:
    async with World(store, provider(start_s=30.0)).running() as world:
        await world.create("c", num_workers=2)
        await world.until(lambda: len(world.provider.observe()) == 3)
        await world.terminate("c")
        await world.wait("c", State.TERMINATED)
        assert not world.provider.observe()
        _, nodes = await world.look("c")
        assert not [node for node in nodes if node.state is not InstanceState.GONE]


async def test_an_autoscaling_cluster_follows_its_load(store: Store) -> None:
    rules = Rules(up_after_ms=50, down_after_ms=300, down_pause_ms=50, unknown_ms=200)

    world = World(store, provider(), policy=Policy(autoscale=rules))
    async with world.running():
        await world.create("c", autoscale=(1, 6))
        found = await world.wait("c", State.RUNNING)
        assert (found.num_workers, len(world.provider.observe())) == (1, 2)
        world.provider.set_tasks("c", 100, slots=4)
        await world.until(lambda: len(world.provider.observe()) == 7)
        found = await world.wait("c", State.RUNNING)
        assert found.num_workers == 6
        # A server that was killed and comes back learns of the load by itself.
    again = World(store, world.provider, policy=Policy(autoscale=rules))
    async with again.running():
        again.provider.set_tasks("c", 5, slots=4)
        await again.until(lambda: len(again.provider.observe()) == 3)
        again.provider.set_tasks("c", 0)
        await again.until(lambda: len(again.provider.observe()) == 2)
        found = await again.wait("c", State.RUNNING)
        async with asyncio.timeout(PATIENCE_S):
            while len(rows := (await again.look("c"))[1]) > 2:  # the last that left is still on record
                await asyncio.sleep(0.02)
        check_books(found, rows, again.provider.observe())
        kinds = await again.kinds("c")
        assert EventType.RESIZING in kinds and EventType.UPSIZE_COMPLETED in kinds
        assert kinds.count(EventType.DECOMMISSION_STARTED) == 5
        assert EventType.NODES_LOST not in kinds


async def test_an_autoscaling_cluster_makes_do_where_capacity_ends(store: Store, golden: Golden) -> None:
    world = World(store, provider(max_instances=4), policy=Policy(autoscale=Rules(up_after_ms=20), grow_backoff_ms=100))
    async with world.running():
        await world.create("c", autoscale=(1, 8))
        await world.wait("c", State.RUNNING)
        world.provider.set_tasks("c", 1_000)
        await world.until(lambda: len(world.provider.observe()) == 4)
        async with asyncio.timeout(PATIENCE_S):
            while not (failed := await world.events("c", EventType.AUTOSCALING_FAILED)):
                await asyncio.sleep(0.02)
        golden(failed[0].details.did_not_expand_reason)
        await world.wait("c", State.RUNNING)
        assert len(world.provider.observe()) == 4
        world.provider.knobs.max_instances = 9
        await world.until(lambda: len(world.provider.observe()) == 9)
        assert (await world.wait("c", State.RUNNING)).num_workers == 8
