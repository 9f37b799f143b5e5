"""Of several servers, one compares what the provider lists with what is on record: the one that has the lease."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from brickyard.providers.base import Observed
from brickyard.providers.fleet import Providers
from brickyard.providers.simulated import SimulatedProvider
from brickyard.reconcile.instances import InstanceMonitor
from brickyard.store.store import Store
from brickyard.testing.builders import SMALL
from tests.support.patience import PATIENCE_S
from tests.support.quietagents import QuietAgents


class Orphaned(SimulatedProvider):
    """Lists an instance that is not on record, until it is ended."""

    def __init__(self) -> None:
        super().__init__(node_types=[SMALL])
        self.left = {"i-orphan": Observed(instance_id="i-orphan", alive=True)}

    def observe(self) -> dict[str, Observed]:
        return dict(self.left)

    def terminate(self, instance_id: str, *, reason: str) -> None:
        self.left.pop(instance_id, None)


def monitor(store: Store, simulated: SimulatedProvider, held: Callable[[], bool], judged: Callable[[], None]) -> InstanceMonitor:
    class Judged(QuietAgents):
        async def judge(self, registered: Iterable[str]) -> frozenset[str]:
            judged()
            return await super().judge(registered)

    return InstanceMonitor(
        store=store,
        providers=Providers(simulated),
        agents=Judged(),
        wake=lambda _: None,
        held=held,
    )


async def test_a_server_without_the_lease_looks_at_nothing(store: Store) -> None:
    simulated, holds, asked = Orphaned(), False, 0

    def held() -> bool:
        nonlocal asked
        asked += 1
        return holds

    running = asyncio.create_task(monitor(store, simulated, held, lambda: None).run())
    async with asyncio.timeout(PATIENCE_S):
        while asked < 3:
            await asyncio.sleep(0.02)
        assert simulated.left
        holds = True
        while simulated.left:
            await asyncio.sleep(0.02)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_server_that_loses_the_lease_while_it_looks_does_nothing(store: Store) -> None:
    simulated, holds = Orphaned(), True

    def lose() -> None:
        nonlocal holds
        holds = False

    await monitor(store, simulated, lambda: holds, lose).run_once()
    assert simulated.left
