"""What nodes cost, as the passes record it: over restarts of the server, changed prices, and the end of the cluster."""

from __future__ import annotations

import asyncio

import msgspec

from brickyard.domain.cluster import Target
from brickyard.domain.spend import Charge
from brickyard.domain.states import State
from brickyard.store.store import Store
from brickyard.testing.builders import SMALL
from tests.reconcile.world import World, provider


async def charges(store: Store) -> list[Charge]:
    return sorted(await store.read(lambda tx: tx.charges.between(0, 1 << 62)), key=lambda each: each.started_ms)


async def test_a_server_that_starts_with_other_prices_charges_them_from_then_on(store: Store) -> None:
    machines = provider()
    machines.offer([msgspec.structs.replace(SMALL, price_per_hour=1.0)])
    async with World(store, machines).running() as world:
        await world.create("c", num_workers=2)
        await world.wait("c", State.RUNNING)
        before = await charges(store)
        assert [(charge.price_per_hour, charge.ended_ms) for charge in before] == [(1.0, 0)] * 3
        assert {charge.role for charge in before} == {"driver", "worker"}
    machines.offer([msgspec.structs.replace(SMALL, price_per_hour=2.0)])
    async with World(store, machines).running() as world:
        await world.loop.first_pass()

        async def doubled() -> bool:
            return [charge.price_per_hour for charge in await charges(store) if not charge.ended_ms] == [2.0] * 3

        while not await doubled():
            await asyncio.sleep(0.01)
        await world.terminate("c")
        await world.wait("c", State.TERMINATED)
        ended = await charges(store)
        assert len(ended) == 6
        for charge in before:
            first, second = (each for each in ended if each.instance_id == charge.instance_id)
            assert (first.started_ms, first.ended_ms) == (charge.started_ms, second.started_ms)
            assert second.ended_ms >= second.started_ms
        await world.change("c", lambda found: msgspec.structs.replace(found, deleted_ms=1, target=Target.TERMINATED))

        async def gone() -> bool:
            return (await world.look("c"))[0] is None

        world.wake("c")
        while not await gone():
            await asyncio.sleep(0.01)
        assert await charges(store) == ended, "they outlive the cluster"
