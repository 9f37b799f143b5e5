"""What a provider says of its instances: on the way from `observe` to a cluster's state, its events, and its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import msgspec
import pytest

from brickyard.domain.events import EventType
from brickyard.domain.node import Role
from brickyard.domain.states import State
from brickyard.providers.base import Observed
from brickyard.providers.simulated import Knobs, SimulatedProvider
from brickyard.store.store import Store
from brickyard.testing.builders import SMALL
from tests.reconcile.world import World
from tests.support.golden import Golden
from tests.support.patience import PATIENCE_S


class Telling(SimulatedProvider):
    """Its instances come when `come`; before that it says of each what `says`. Those in `ended` have ended by themselves."""

    def __init__(self, *, come: bool = True) -> None:
        super().__init__(node_types=[SMALL], knobs=Knobs(register_s=0 if come else 3600))
        self.says = ""
        self.ended: dict[str, str] = {}
        self.looks = 0

    def observe(self) -> Mapping[str, Observed]:
        self.looks += 1
        return {
            name: msgspec.structs.replace(
                seen, alive=seen.alive and name not in self.ended, message=self.ended.get(name, self.says)
            )
            for name, seen in super().observe().items()
        }


async def shows(world: World, name: str, text: str) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while (found := (await world.look(name))[0]) is None or text not in found.state_message:
            await asyncio.sleep(0.05)


async def look_again(world: World, provider: Telling) -> None:
    """Until the monitor has looked twice more: once may have begun before."""
    seen = provider.looks
    await world.until(lambda: provider.looks >= seen + 2)


def counting(world: World) -> Callable[[], int]:
    """How many commits there are that change a cluster."""
    commits: list[int] = []
    world.store.on_commit(lambda changes: commits.append(1) if changes.clusters else None)
    return lambda: len(commits)


async def test_a_pending_cluster_says_what_the_provider_says_and_costs_nothing_while_that_stays(store: Store) -> None:
    telling = Telling(come=False)
    telling.says = "waiting for Ray: {CPU: 4}"
    async with World(store, telling).running() as world:
        await world.create("c", num_workers=1)
        await shows(world, "c", "Waiting for Ray: {CPU: 4}")
        await look_again(world, telling)
        commits = counting(world)
        for _ in range(3):
            await look_again(world, telling)
        assert commits() == 0
        (event,) = await world.events("c", EventType.AUTOSCALING_BACKOFF)
        assert (event.details.did_not_expand_reason or "").lower() == telling.says.lower()


async def test_an_instance_that_ends_before_its_agent_calls_ends_the_start_with_the_providers_words(
    store: Store, golden: Golden
) -> None:
    telling = Telling(come=False)
    async with World(store, telling).running() as world:
        await world.create("c", num_workers=0)
        await world.until(telling.observe)
        why = "its pod cannot pull its image"
        telling.ended = dict.fromkeys(telling.observe(), why)
        golden((await world.wait("c", State.TERMINATED)).state_message, why)


async def test_a_worker_that_ends_later_is_replaced_and_the_event_says_why(store: Store) -> None:
    telling = Telling()
    async with World(store, telling).running() as world:
        await world.create("c", num_workers=1)
        await world.wait("c", State.RUNNING)
        (worker,) = [row for row in (await world.look("c"))[1] if row.role is Role.WORKER]
        why = "its Slurm job was preempted"
        telling.ended = {worker.instance_id: why}
        await world.wait_event("c", EventType.NODES_LOST)
        (event,) = await world.events("c", EventType.NODES_LOST)
        assert event.details.driver_state_message == why
        await world.wait("c", State.RUNNING)


async def test_a_cluster_that_runs_shows_what_the_provider_says_of_a_node_as_long_as_that_holds(store: Store) -> None:
    telling = Telling()
    async with World(store, telling).running() as world:
        await world.create("c", num_workers=1)
        await world.wait("c", State.RUNNING)
        telling.says = "the time limit of Slurm job 7 ends this node at 12:00"
        await shows(world, "c", "The time limit of Slurm job 7 ends this node at 12:00")
        await look_again(world, telling)
        commits = counting(world)
        await look_again(world, telling)
        assert commits() == 0
        telling.says = ""
        async with asyncio.timeout(PATIENCE_S):
            while (await world.wait("c", State.RUNNING)).state_message:
                await asyncio.sleep(0.05)


@pytest.mark.parametrize("runs", [False, True])
async def test_one_that_vanishes_is_lost_with_what_was_said_last(store: Store, runs: bool, golden: Golden) -> None:
    telling = Telling(come=runs)
    async with World(store, telling).running() as world:
        await world.create("c", num_workers=0)
        if runs:
            await world.wait("c", State.RUNNING)
        telling.says = "its pod is being deleted."
        await shows(world, "c", "Its pod is being deleted.")
        for name in telling.observe():
            telling.kill(name)
        found = await world.wait("c", State.TERMINATED)
        golden(found.state_message)
