"""A server without its API: store, loops, agents' service and the simulated provider."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Sequence

import msgspec

from brickyard.domain.clock import Clock, Ids, SystemClock
from brickyard.domain.cluster import Cluster, Instance, Target, public_state
from brickyard.domain.events import ClusterEvent, EventType
from brickyard.domain.queries import EventFilter
from brickyard.domain.states import State
from brickyard.nodes.loads import Loads
from brickyard.nodes.sessions import AgentService
from brickyard.nodes.tokens import InstanceTokens
from brickyard.plan.policy import Policy
from brickyard.providers.base import Provider
from brickyard.providers.fleet import Providers
from brickyard.providers.simulated import Knobs, SimulatedProvider
from brickyard.reconcile.instances import InstanceMonitor
from brickyard.reconcile.loops import OwnerLoops
from brickyard.store.servers import About, Server
from brickyard.store.store import Store
from brickyard.store.tx import Tx
from brickyard.testing.builders import SMALL, cluster
from tests.support.patience import PATIENCE_S

CLOCK = SystemClock()


class _Members:
    """The server `number`, of those that are `living`."""

    alone = False

    def __init__(self, number: int, living: Callable[[], frozenset[int]]) -> None:
        self.number = number
        self._living = living

    def servers(self) -> tuple[Server, ...]:
        return tuple(Server(number=each, about=About(), started_ms=0) for each in self._living())


class World:
    """One server process; make a second one over the same store and provider to play a restart."""

    def __init__(
        self,
        store: Store,
        provider: SimulatedProvider,
        *,
        policy: Policy | None = None,
        clock: Clock = CLOCK,
        called: Provider | None = None,
        written: Store | None = None,
        number: int = 0,
        living: Callable[[], frozenset[int]] = frozenset,
        others: Sequence[SimulatedProvider] = (),
        silence_s: float = 30,
        grace_s: float = 600,
    ) -> None:
        """`called` and `written`: what the loops use in place of the provider and the store. `number`: which server
        it is, of those that are `living`. `others`: providers beside the default one."""
        self.store = store
        self.written = loops_store = written or store
        self.providers = providers = Providers(called or provider, *others)
        self._attached = (provider, *others)
        self.provider = provider
        tokens, loads = InstanceTokens(key=b"k" * 32), Loads(sharing=store)
        self.agents = AgentService(store=store, clock=clock, tokens=tokens, wake=self.wake, silence_s=silence_s, loads=loads)
        self.loop = OwnerLoops(
            store=loops_store,
            providers=providers,
            clock=clock,
            ids=Ids(),
            policy=policy or Policy(launch_backoff_ms=10, grow_backoff_ms=200),
            tokens=tokens,
            server_url="http://127.0.0.1:1",
            agents=self.agents,
            loads=loads,
            members=_Members(number, living),
        )
        self.monitor = InstanceMonitor(
            store=loops_store,
            providers=providers,
            agents=self.agents,
            wake=self.loop.wake,
            grace_s=grace_s,
        )

    def wake(self, name: str) -> None:
        self.loop.wake(name)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[World]:
        for each in self._attached:
            each.attach(self.agents)
        await self.monitor.run_once()
        await self.loop.first_pass()
        works = (self.loop.run(), self.monitor.run(), self.agents.run())
        tasks = [asyncio.create_task(work) for work in works]
        try:
            yield self
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def create(self, name: str, *, num_workers: int = 2, autoscale: tuple[int, int] | None = None) -> str:
        now = CLOCK.now_ms()
        row = cluster(num_workers=num_workers, autoscale=autoscale, cluster_id=name, created_ms=now, launch_started_ms=now)
        await self.store.write(lambda tx: tx.clusters.insert(row))
        self.loop.wake(name)
        return name

    async def change(self, name: str, how: Callable[[Cluster], Cluster]) -> None:
        """What a service does: change desired state in one transaction, and wake."""

        def work(tx: Tx) -> None:
            found = tx.clusters.get(name)
            assert found is not None
            tx.clusters.update(how(found))
            tx.clusters.wake(name)

        await self.store.write(work)
        self.loop.wake(name)

    async def resize(self, name: str, workers: int) -> None:
        await self.change(
            name,
            lambda of: msgspec.structs.replace(of, spec=msgspec.structs.replace(of.spec, num_workers=workers), sized=False),
        )

    async def terminate(self, name: str) -> None:
        await self.change(name, lambda of: msgspec.structs.replace(of, target=Target.TERMINATED, ended=False))

    async def start(self, name: str) -> None:
        await self.change(
            name,
            lambda of: msgspec.structs.replace(
                of,
                target=Target.RUNNING,
                ended=False,
                incarnation=of.incarnation + 1,
                restarting=of.up,
                launch_started_ms=CLOCK.now_ms(),
                sized=True,
            ),
        )

    async def look(self, name: str) -> tuple[Cluster | None, list[Instance]]:
        return await self.store.read(lambda tx: (tx.clusters.get(name), tx.instances.of_cluster(name)))

    async def wait(self, name: str, *states: State, timeout: float = PATIENCE_S) -> Cluster:
        """Until the cluster is in one of the states."""
        deadline = asyncio.get_running_loop().time() + timeout
        while True:
            found, instances = await self.look(name)
            if found is not None and public_state(found) in states:
                return found
            if asyncio.get_running_loop().time() > deadline:
                raise AssertionError(f"not {states} within {timeout:g} s: {found}, {instances}, {await self.events(name)}")
            await asyncio.sleep(0.05)

    async def wait_event(self, name: str, kind: EventType) -> None:
        """Until it is told of; the state that goes with it may be over before anybody looks."""
        async with asyncio.timeout(PATIENCE_S):
            while kind not in await self.kinds(name):
                await asyncio.sleep(0.05)

    async def until(self, condition: Callable[[], object], timeout: float = PATIENCE_S) -> None:
        async with asyncio.timeout(timeout):
            while not condition():
                await asyncio.sleep(0.05)

    async def events(self, name: str, *kinds: EventType) -> list[ClusterEvent]:
        which = EventFilter(cluster_id=name, types=kinds)
        return [event for _, event in await self.store.read(lambda tx: tx.events.page(which, descending=False, limit=500))]

    async def kinds(self, name: str) -> list[EventType]:
        return [event.type for event in await self.events(name)]


def provider(**knobs: object) -> SimulatedProvider:
    return SimulatedProvider(node_types=[SMALL], knobs=Knobs(**knobs))  # type: ignore[arg-type] # keyword arguments of a struct


def check_books(found: Cluster, instances: Iterable[Instance], listed: Iterable[str]) -> None:
    """What must hold of a cluster at rest."""
    own = {instance.instance_id for instance in instances}
    assert own == set(listed), "every instance that exists is on record, and the other way round"
    if public_state(found) is State.TERMINATED:
        assert not own
    if public_state(found) is State.RUNNING:
        assert len(own) == found.num_workers + 1
