"""One server in this process, without sockets: what the tests of services stand on.

Each service is made when it is first asked for, over one store, clock and authorizer. A feature of its own (a driver, a gateway,
an audit log) is a subclass beside its tests.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypedDict

import msgspec

from brickyard.access import Authorizer
from brickyard.access.users import new_user
from brickyard.api.edge.authentication import Authenticator
from brickyard.clusters import ClusterService
from brickyard.clusters.attach.service import AttachService
from brickyard.clusters.logs.service import ClusterLogs
from brickyard.clusters.v1 import PortPlanner, SnapshotTasks, V1ClusterService
from brickyard.domain.caller import Caller
from brickyard.domain.clock import Clock, Ids, SystemClock
from brickyard.domain.cluster import Cluster, Instance
from brickyard.domain.node import Role
from brickyard.domain.nodeops import AgentClient
from brickyard.domain.nodetypes import NodeType
from brickyard.domain.requests import StartCluster
from brickyard.features.credentials.oauth import OAuthService
from brickyard.features.credentials.sessions import SessionService
from brickyard.features.credentials.tokenmanagement import TokenManagement
from brickyard.features.credentials.tokens import TokenService
from brickyard.features.credentials.uilinks import UiLinks
from brickyard.features.files import FileTree, Uploads
from brickyard.features.metrics.service import ClusterMetrics
from brickyard.features.policies.service import PolicyService
from brickyard.features.pools.service import PoolService
from brickyard.nodes.calls import NodeCalls
from brickyard.nodes.loads import Loads
from brickyard.nodes.samples import Samples
from brickyard.nodes.sessions import AgentService
from brickyard.nodes.tokens import InstanceTokens
from brickyard.storage.logs import KeptLogs
from brickyard.store.store import Store
from brickyard.store.tx import Tx
from brickyard.testing.builders import SMALL, instance
from brickyard.testing.clock import ManualClock
from tests.support.services import cluster_service, snapshot_tasks

KEY = b"k" * 32


class Common(TypedDict):
    store: Store
    clock: Clock
    ids: Ids
    authorizer: Authorizer


class NoAgents:
    """Nobody calls an agent."""

    async def call(self, *_: object, **__: object) -> dict[str, Any]:
        raise AssertionError("no agent is called here")

    async def close(self) -> None:
        """Nothing is open."""


def enough(wanted: Sequence[NodeType], *, freed: Collection[str]) -> None:
    """There is room for everything."""


def agent_service(store: Store, **settings: Any) -> AgentService:
    """What agents report to."""
    given: dict[str, Any] = {"clock": SystemClock(), "tokens": InstanceTokens(key=KEY), "wake": lambda _: None, "silence_s": 30}
    return AgentService(store=store, **{**given, "loads": Loads(), **settings})


class World:
    """`agents`: what stands in for the agents of nodes. `place`: for files. Changed clusters are in `woken`."""

    def __init__(
        self,
        store: Store,
        *,
        clock: ManualClock | None = None,
        authorizer: Authorizer | None = None,
        node_types: Sequence[NodeType] = (SMALL,),
        agents: AgentClient | None = None,
        place: Path = Path("/nonexistent"),
    ) -> None:
        self.store, self.place = store, place
        self.clock, self.ids, self.authorizer = clock or ManualClock(), Ids(), authorizer or Authorizer()
        self.node_types = list(node_types)
        self.agent_client: AgentClient = agents or NoAgents()
        self.woken: list[str] = []

    @property
    def common(self) -> Common:
        return {"store": self.store, "clock": self.clock, "ids": self.ids, "authorizer": self.authorizer}

    # --- clusters ---

    @cached_property
    def clusters(self) -> ClusterService:
        return cluster_service(**self.common, node_types=self.node_types, wake=self.woken.append)

    @cached_property
    def pools(self) -> PoolService:
        return PoolService(**self.common, offers=self.clusters.offers, wake=self.woken.append)

    @cached_property
    def policies(self) -> PolicyService:
        return PolicyService(**self.common)

    @cached_property
    def snapshots(self) -> SnapshotTasks:
        return snapshot_tasks(self.clusters, clock=self.clock)

    @cached_property
    def ports(self) -> PortPlanner:
        return PortPlanner(ids=self.ids, server_url="http://127.0.0.1:8080")

    @cached_property
    def v1(self) -> V1ClusterService:
        return self.v1_service()

    def v1_service(self, *, clock: Clock | None = None, **settings: Any) -> V1ClusterService:
        """One more, with settings of its own."""
        return V1ClusterService(
            store=self.store,
            clock=clock or self.clock,
            authorizer=self.authorizer,
            clusters=self.clusters,
            currency="USD",
            shortage=enough,
            ports=self.ports,
            most_storage_gb=100,
            snapshots=self.snapshots,
            **settings,
        )

    # --- nodes ---

    @cached_property
    def instance_tokens(self) -> InstanceTokens:
        return InstanceTokens(key=KEY)

    @cached_property
    def calls(self) -> NodeCalls:
        return NodeCalls(client=self.agent_client, tokens=self.instance_tokens)

    @cached_property
    def attach(self) -> AttachService:
        return AttachService(
            store=self.store, authorizer=self.authorizer, nodes=self.calls, start=self.start_attached, pause_s=0.01
        )

    async def start_attached(self, caller: Caller, request: StartCluster) -> None:
        """What a start does that comes with an attachment."""
        await self.clusters.start(caller, request)

    @cached_property
    def logs(self) -> ClusterLogs:
        return ClusterLogs(attach=self.attach, store=self.store, nodes=self.calls, kept=KeptLogs(self.place / "logs"))

    @cached_property
    def samples(self) -> Samples:
        return Samples(store=self.store, clock=self.clock)

    def metrics(self, samples: Samples | None = None) -> ClusterMetrics:
        return ClusterMetrics(store=self.store, clock=self.clock, authorizer=self.authorizer, samples=samples or self.samples)

    # --- people ---

    @cached_property
    def tokens(self) -> TokenService:
        return TokenService(**self.common, key=KEY)

    @cached_property
    def management(self) -> TokenManagement:
        return TokenManagement(tokens=self.tokens, store=self.store, clock=self.clock, authorizer=self.authorizer)

    @cached_property
    def sessions(self) -> SessionService:
        return SessionService(store=self.store, clock=self.clock, ids=self.ids, tokens=self.tokens, key=KEY)

    @cached_property
    def oauth(self) -> OAuthService:
        return OAuthService(store=self.store, clock=self.clock, ids=self.ids, digests=self.tokens.digests)

    @cached_property
    def links(self) -> UiLinks:
        return UiLinks(key=KEY, store=self.store, clock=self.clock)

    @cached_property
    def authenticator(self) -> Authenticator:
        return Authenticator(tokens=self.tokens, links=self.links, sessions=self.sessions)

    async def token(self, user: str) -> str:
        """A new token of that user, who is made if need be."""
        fresh = new_user(user, ids=self.ids, now_ms=self.clock.now_ms())
        await self.store.write(lambda tx: tx.users.put(fresh) if tx.users.get(user) is None else None)
        return (await self.tokens.create(Caller(user_name=user, user_id=fresh.user_id, is_admin=False, token_id="")))[0]

    # --- files ---

    @cached_property
    def uploads(self) -> Uploads:
        return Uploads(place=self.place / "spool", clock=self.clock)

    def tree(self, name: str, **settings: Any) -> FileTree:
        return FileTree(root=self.place / name, uploads=self.uploads, store=self.store, **settings)

    # --- rows ---

    def put(self, of: Cluster, *, role: Role = Role.DRIVER, endpoint: str = "http://node.invalid", **fields: Any) -> Instance:
        """Inserts the cluster with a driver that has an agent, which it returns."""
        driver = msgspec.structs.replace(instance(of, role=role, **fields), endpoint=endpoint)

        def work(tx: Tx) -> None:
            tx.clusters.insert(of)
            tx.instances.insert(driver)

        self.store.write_sync(work)
        return driver

    def changed(self, cluster_id: str, how: Callable[[Cluster], Cluster]) -> Callable[[Tx], None]:
        """A transaction that changes a cluster."""

        def work(tx: Tx) -> None:
            found = tx.clusters.get(cluster_id)
            assert found is not None
            tx.clusters.update(how(found))

        return work

    async def settle(self, cluster_id: str, **fields: Any) -> None:
        """What loops do: the cluster has these values."""
        await self.store.write(self.changed(cluster_id, lambda of: msgspec.structs.replace(of, **fields)))

    async def row(self, cluster_id: str) -> Cluster:
        found = await self.store.read(lambda tx: tx.clusters.get(cluster_id))
        assert found is not None
        return found
