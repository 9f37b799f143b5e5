"""The loops over the owners of instances: clusters and, for idle instances, pools. They share the provider calls."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from prometheus_client import CollectorRegistry

from brickyard.domain.clock import Clock, Ids
from brickyard.domain.nodetypes import Catalogue, NodeTypes
from brickyard.domain.periodic import Loop, Periodic
from brickyard.domain.pools import is_pool_id
from brickyard.nodes.loads import Loads
from brickyard.nodes.tokens import InstanceTokens
from brickyard.plan.policy import Policy
from brickyard.providers.fleet import Providers
from brickyard.reconcile.agents import Agents
from brickyard.reconcile.aside import Aside
from brickyard.reconcile.clusters import ClusterLoop, Sweeper
from brickyard.reconcile.launches import Launches, OwnerContext, take_over_launches
from brickyard.reconcile.measures import ClusterMeasures
from brickyard.reconcile.pools import PoolLoop
from brickyard.store.membership import ALONE, Members, living
from brickyard.store.store import Store

LOOK_S = 0.5  # between two checks of which servers are alive
LATE_S = 30.0  # after a server has gone, a commit that it had sent may still take effect


class OwnerLoops(Loop):
    """`wake` from anywhere on the event loop, with the id of a cluster or pool. `node_types`: the
    types on offer at the workspace's prices."""

    def __init__(
        self,
        *,
        store: Store,
        providers: Providers,
        clock: Clock,
        wall: Clock | None = None,
        ids: Ids,
        policy: Policy,
        tokens: InstanceTokens,
        server_url: str,
        members: Members = ALONE,
        server_ca: str = "",
        agents: Agents,
        loads: Loads,
        measures: ClusterMeasures | None = None,
        sweeper: Sweeper | None = None,
        node_types: NodeTypes | None = None,
    ) -> None:
        self._store = store
        self._members = members
        self._aside = Aside[str]("takeover")
        measures = measures or ClusterMeasures(registry=CollectorRegistry())
        self._launches = Launches(
            store=store,
            providers=providers,
            clock=clock,
            tokens=tokens,
            server_url=server_url,
            members=members,
            server_ca=server_ca,
            wake=self.wake,
            measures=measures,
        )
        given = OwnerContext(
            store=store,
            clock=clock,
            wall=wall or clock,
            ids=ids,
            policy=policy,
            node_types=Catalogue(node_types or providers.node_types),
            launches=self._launches,
            members=members,
        )
        self._pools = PoolLoop(given)
        self._clusters = ClusterLoop(
            given,
            agents=agents,
            loads=loads,
            measures=measures,
            wake_pool=self._pools.wake,
            sweeper=sweeper,
        )

    def wake(self, owner_id: str) -> None:
        """Requests a pass over the cluster or pool soon. Merges with one that is already waiting."""
        (self._pools if is_pool_id(owner_id) else self._clusters).wake(owner_id)

    @property
    def trouble(self) -> str:
        return "; ".join(filter(None, (self._clusters.trouble, self._pools.trouble)))

    @property
    def lag_s(self) -> float:
        """How long the longest-waiting cluster or pool has waited for its pass."""
        return max(self._clusters.lag_s, self._pools.lag_s)

    async def run(self) -> None:
        """Polls for due clusters and pools and works on them until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._clusters.run())
                group.create_task(self._pools.run())
                group.create_task(_GoneServers(self, self._store, self._members).run())
        finally:
            self._launches.close()

    async def take_over(self, gone: Callable[[int], bool]) -> None:
        """Repeats the launches of these servers."""
        for owner_id in await take_over_launches(self._store, gone, self._aside):
            self.wake(owner_id)

    async def first_pass(self) -> None:
        """Handles every due cluster and pool before the API serves: this picks up what a killed server left behind.

        Launches that no other living server has leased are repeated at once instead of when their lease ends.
        """
        others = living(self._members) - {self._members.number}
        await self.take_over(lambda number: number not in others)
        await self._clusters.first_pass()
        for cluster_id in await self._store.read(lambda tx: tx.charges.open_clusters(), background=True):
            self._clusters.wake(cluster_id)  # its nodes may cost something else since this start
        await self._pools.first_pass()


class _GoneServers(Periodic):
    """Repeats the launches of servers that have gone, also those that the database records only after that."""

    def __init__(self, owners: OwnerLoops, store: Store, members: Members) -> None:
        super().__init__(every_s=LOOK_S, database=store)
        self._owners = owners
        self._members = members
        self._known, self._gone, self._late_until = living(members), frozenset[int](), 0.0

    async def run_once(self) -> None:
        alive = living(self._members)
        if self._known - alive:
            self._late_until = time.monotonic() + LATE_S
        self._gone = (self._gone | self._known) - alive if time.monotonic() < self._late_until else frozenset()
        self._known = alive
        if self._gone:
            await self._owners.take_over(self._gone.__contains__)
