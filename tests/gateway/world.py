"""A gateway before a cluster whose driver is a fake: what Spark's clients see, without Spark."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import msgspec

from brickyard.api.edge.authentication import Authenticator
from brickyard.domain.access import Grant, ObjectKind, Permission, Place
from brickyard.domain.clock import Ids
from brickyard.domain.cluster import Cluster
from brickyard.domain.identity import USERS_ID
from brickyard.domain.node import Role
from brickyard.domain.nodeops import AgentRefused, AgentUnreachable
from brickyard.domain.requests import StartCluster
from brickyard.gateway.connect import ConnectGateway
from brickyard.nodes.calls import NodeCalls
from brickyard.nodes.tokens import InstanceTokens
from brickyard.services.access import Authorizer
from brickyard.services.attach import AttachService
from brickyard.services.caller import Caller
from brickyard.services.tokens import TokenService
from brickyard.services.uilinks import UiLinks
from brickyard.services.users import new_user
from brickyard.store.store import Store
from brickyard.testing.builders import cluster, instance, up
from brickyard.testing.clock import ManualClock
from tests.gateway.driver import SERVICE, UNLIMITED, FakeDriver
from tests.support.databases import empty_sqlite

CLUSTER_ID = "0101-000000-testtest"


class FakeAgent:
    """Answers `POST /v1/connect` with the driver's port, and takes note of whose sessions are whose."""

    def __init__(self) -> None:
        self.port = 0
        self.asked = 0
        self.way = ""
        self.told: list[tuple[str, str, str]] = []
        self.deaf: AgentRefused | AgentUnreachable | None = None  # what it says when it is told of sessions
        self.refusal: AgentRefused | AgentUnreachable | None = None

    async def call(
        self, endpoint: str, server_token: str, method: str, path: str, body: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        if self.refusal is not None:
            raise self.refusal
        assert method == "POST"
        if path == "/v1/connect/sessions":
            if self.deaf is not None:
                raise self.deaf
            assert body is not None
            self.told.append((body["user"], body["session_user"], body["session_id"]))
            return {}
        assert path == "/v1/connect"
        self.asked += 1
        return {"port": self.port, "way": self.way}

    async def close(self) -> None:
        pass


class World:
    """The gateway and everything behind it."""

    def __init__(self, store: Store, *, may_start: bool, patience_s: float) -> None:
        self.store = store
        self.agent = FakeAgent()
        self.started: list[str] = []
        self.driver = FakeDriver("c")
        self.now = 0.0
        clock, ids = ManualClock(), Ids()
        self.tokens = TokenService(store=store, clock=clock, ids=ids, authorizer=Authorizer(), key=b"k" * 32)
        self.authenticator = Authenticator(tokens=self.tokens, links=UiLinks(key=b"k" * 32, store=store, clock=clock))
        self.ids = ids
        self.attach = AttachService(
            store=store, authorizer=Authorizer(), nodes=NodeCalls(client=self.agent, tokens=InstanceTokens(key=b"k" * 32)),
            start=self._start, pause_s=0.01,
        )  # fmt: skip
        self.noted: list[tuple[str, str, dict[str, str]]] = []
        self.gateway = ConnectGateway(
            authenticator=self.authenticator,
            attach=self.attach,
            may_start=may_start,
            patience_s=patience_s,
            note=lambda operation, caller, *, address="", **objects: self.noted.append((operation, caller.user_name, objects)),
        )

    async def _start(self, caller: Caller, request: StartCluster) -> None:
        self.started.append(request.cluster_id)
        await self.set(up(cluster(cluster_id=request.cluster_id)))

    async def set(self, wanted: Cluster) -> None:
        """Make the cluster so, with a driver."""

        def work(tx: Any) -> None:
            known = tx.clusters.get(wanted.cluster_id)
            if known is None:
                tx.clusters.insert(wanted)
                node = instance(wanted, role=Role.DRIVER)
                tx.instances.insert(msgspec.structs.replace(node, endpoint="http://127.0.0.1:1"))
            else:
                tx.clusters.update(msgspec.structs.replace(wanted, version=known.version))
            tx.grants.put(Place(ObjectKind.CLUSTER, wanted.cluster_id), [Grant(USERS_ID, Permission.CAN_RESTART)])

        await self.store.write(work)

    async def token(self, user: str) -> str:
        """A new token of that user."""
        fresh = new_user(user, ids=self.ids, now_ms=0)
        await self.store.write(lambda tx: tx.users.put(fresh) if tx.users.get(user) is None else None)
        caller = Caller(user_name=user, user_id=fresh.user_id, is_admin=False, token_id="")
        return (await self.tokens.create(caller))[0]

    def channel(self) -> grpc.aio.Channel:
        """A client's connection."""
        return grpc.aio.insecure_channel(f"127.0.0.1:{self.gateway.port}", options=UNLIMITED)


@asynccontextmanager
async def world(tmp_path: Path, *, may_start: bool = False, patience_s: float = 0.0) -> AsyncIterator[World]:
    store = Store.open(empty_sqlite(tmp_path / "gateway.db"))
    made = World(store, may_start=may_start, patience_s=patience_s)
    await made.driver.start()
    made.agent.port = made.driver.port
    await made.gateway.start("127.0.0.1", 0)
    try:
        yield made
    finally:
        await made.gateway.stop()
        await made.driver.stop()
        store.close()


async def call(channel: grpc.aio.Channel, name: str, request: bytes = b"hello", /, **metadata: str) -> bytes:
    """One call with one answer. Raises AioRpcError."""
    sent = tuple((key.replace("_", "-"), value) for key, value in metadata.items())
    answer: bytes = await method(channel.unary_unary, name)(request, metadata=sent)
    return answer


def method(kind: Any, name: str) -> Any:
    """A method of Spark Connect's service, of that kind (`channel.unary_unary`, ...), that takes and gives bytes."""
    return kind(SERVICE + name)


def as_metadata(token: str) -> tuple[tuple[str, str], ...]:
    """What a client of the cluster sends with every call."""
    return tuple((key.replace("_", "-"), value) for key, value in credentials(token).items())


def credentials(token: str, cluster_id: str = CLUSTER_ID) -> dict[str, str]:
    return {"authorization": f"Bearer {token}", "x_databricks_cluster_id": cluster_id}
