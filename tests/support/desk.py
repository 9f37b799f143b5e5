"""The cluster service with what is around it, for tests: a state in, one call, a state out."""

from __future__ import annotations

import json
from collections.abc import Coroutine
from typing import Any

import msgspec
import pytest

from brickyard.clusters import ClusterService
from brickyard.domain.caller import Caller
from brickyard.domain.errors import RETRY_PHRASES, ApiError
from brickyard.domain.requests import CreateCluster, ListClusters
from brickyard.testing.builders import SPARK_4, nodes, up
from tests.support.people import ENTITLED
from tests.support.world import World

ADMIN = Caller(user_name="admin@example.com", user_id="1", is_admin=True, token_id="t")
USER = Caller(user_name="user@example.com", user_id="2", is_admin=False, token_id="u", entitlements=ENTITLED)
RUNTIME = SPARK_4
ASK = CreateCluster(cluster_name="c", spark_version=RUNTIME.key, node_type_id="small", num_workers=2)


class Desk(World):
    """The service with what is around it."""

    @property
    def service(self) -> ClusterService:
        return self.clusters

    async def create(self, **changes: Any) -> str:
        self.clock.advance(ms=1)
        return await self.service.create(ADMIN, msgspec.structs.replace(ASK, **changes))

    async def get(self, name: str) -> dict[str, Any]:
        view: dict[str, Any] = json.loads(await self.service.get(ADMIN, name))
        return view

    async def list(self, *, paged: bool = True, **request: Any) -> dict[str, Any]:
        page: dict[str, Any] = json.loads(await self.service.list(ADMIN, ListClusters(**request), paged=paged))
        return page

    async def bring_up(self, name: str) -> None:
        """What the loops do."""

        def work(tx: Any) -> None:
            running = up(tx.clusters.get(name))
            tx.clusters.update(running)
            for old in tx.instances.of_cluster(name):
                tx.instances.delete(old)
            for node in nodes(running, running.num_workers):
                tx.instances.insert(msgspec.structs.replace(node, instance_id=f"{name}-{node.instance_id}"))

        await self.store.write(work)


async def refused(kind: type[ApiError], call: Coroutine[Any, Any, Any]) -> str:
    with pytest.raises(kind) as caught:
        await call
    assert not any(phrase in caught.value.message for phrase in RETRY_PHRASES)
    return caught.value.message
