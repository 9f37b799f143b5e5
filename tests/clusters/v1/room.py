"""The service of /v1/clusters over a database, with a clock that tests move, and passes at its time."""

from __future__ import annotations

import asyncio
import functools
from typing import Any

import msgspec

from brickyard.domain.clock import Ids
from brickyard.domain.cluster import Cluster
from brickyard.domain.events import EventType
from brickyard.domain.instances import InstanceState
from brickyard.domain.queries import EventFilter
from brickyard.domain.v1.clusters import AutoTerminate, CreateV1Cluster, V1Cluster
from brickyard.nodes.loads import Loads
from brickyard.plan.policy import Policy
from brickyard.reconcile.clusters import pass_over_cluster
from brickyard.store.store import Store
from brickyard.testing.builders import SMALL
from tests.support.desk import ADMIN, Desk
from tests.support.world import World

PRICED = msgspec.structs.replace(SMALL, price_per_hour=6.0)
MINUTE = 60_000


class Room(World):
    """A service, a clock, and passes at its time."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, node_types=[PRICED])
        self.desk = Desk(store, clock=self.clock, node_types=[PRICED])
        self.clusters = self.desk.clusters

    async def running(self, **limits: Any) -> str:
        made = await self.v1.create(ADMIN, CreateV1Cluster(name="abc", auto_terminate=AutoTerminate(**limits)))
        await self.up(made.id)
        return made.id

    async def up(self, cluster_id: str) -> None:
        await self.desk.bring_up(cluster_id)
        row, now = await self.row(cluster_id), self.clock.now_ms()

        def since_now(tx: Any) -> None:
            tx.clusters.update(msgspec.structs.replace(tx.clusters.get(cluster_id), last_restarted_ms=now))
            for node in tx.instances.of_cluster(cluster_id):
                tx.instances.update(msgspec.structs.replace(node, launched_ms=now, node_type_id=row.spec.node_type_id or ""))

        await self.store.write(since_now)

    async def end(self, cluster_id: str) -> Cluster:
        """What the provider does once the cluster is to end: its nodes are gone."""

        def gone(tx: Any) -> None:
            for node in tx.instances.of_cluster(cluster_id):
                tx.instances.update(msgspec.structs.replace(node, state=InstanceState.GONE))

        await self.store.write(gone)
        return await self.passes(cluster_id)

    async def passes(self, cluster_id: str, at_once: int = 1, *, began_ms: int = 0) -> Cluster:
        """Passes of so many servers at this moment. `began_ms`: when they were started."""
        once = functools.partial(
            pass_over_cluster,
            cluster_id=cluster_id,
            now=self.clock.now_ms(),
            sizes={"small": PRICED},
            policy=Policy(),
            ids=Ids(),
            silent=frozenset(),
            loads=Loads(),
            began_ms=began_ms,
        )
        await asyncio.gather(*(self.store.write(once) for _ in range(at_once)))
        return await self.row(cluster_id)

    async def get(self, cluster_id: str) -> V1Cluster:
        shown = await self.v1.reads.get(ADMIN, cluster_id)
        return msgspec.json.decode(shown, type=V1Cluster)

    async def is_due(self, cluster_id: str, *, in_ms: int) -> bool:
        return cluster_id in await self.store.read(lambda tx: tx.clusters.due(self.clock.now_ms() + in_ms, 10))

    async def endings(self, cluster_id: str) -> list[Any]:
        which = EventFilter(cluster_id=cluster_id, types=(EventType.TERMINATING,))
        return [each.details for _, each in await self.store.read(lambda tx: tx.events.page(which, descending=False, limit=10))]
