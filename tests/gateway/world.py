"""A gateway before a cluster whose driver is a fake: what Spark's clients see, without Spark."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import msgspec

from brickyard.domain.access import Grant, ObjectKind, Permission, Place
from brickyard.domain.caller import Caller
from brickyard.domain.cluster import Cluster
from brickyard.domain.identity import USERS_ID
from brickyard.domain.nodeops import AgentRefused, AgentUnreachable
from brickyard.domain.requests import StartCluster
from brickyard.domain.tracing import Tracing
from brickyard.gateway.connect import ConnectGateway
from brickyard.store.store import Store
from brickyard.testing.builders import cluster, up
from tests.gateway.driver import SERVICE, UNLIMITED, FakeDriver
from tests.support import world as shared
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


class World(shared.World):
    """The gateway and everything behind it."""

    def __init__(self, store: Store, *, may_start: bool, patience_s: float, tracing: Tracing | None = None) -> None:
        self.agent, self.tracing = FakeAgent(), tracing
        super().__init__(store, agents=self.agent)
        self.started: list[str] = []
        self.driver = FakeDriver("c")
        self.noted: list[tuple[str, str, dict[str, str]]] = []
        self.gateway = ConnectGateway(
            authenticator=self.authenticator,
            attach=self.attach,
            may_start=may_start,
            patience_s=patience_s,
            note=lambda operation, caller, *, address="", **objects: self.noted.append((operation, caller.user_name, objects)),
            tracing=tracing,
        )

    async def start_attached(self, caller: Caller, request: StartCluster) -> None:
        self.started.append(request.cluster_id)
        await self.set(up(cluster(cluster_id=request.cluster_id)))

    async def set(self, wanted: Cluster) -> None:
        """Make the cluster so, with a driver."""
        known = await self.store.read(lambda tx: tx.clusters.get(wanted.cluster_id))
        if known is None:
            self.put(wanted)
        else:
            await self.store.write(
                self.changed(wanted.cluster_id, lambda of: msgspec.structs.replace(wanted, version=of.version))
            )
        grant = [Grant(USERS_ID, Permission.CAN_RESTART)]
        await self.store.write(lambda tx: tx.grants.put(Place(ObjectKind.CLUSTER, wanted.cluster_id), grant))

    def channel(self) -> grpc.aio.Channel:
        """A client's connection."""
        return grpc.aio.insecure_channel(f"127.0.0.1:{self.gateway.port}", options=UNLIMITED)


@asynccontextmanager
async def world(
    tmp_path: Path, *, may_start: bool = False, patience_s: float = 0.0, tracing: Tracing | None = None
) -> AsyncIterator[World]:
    store = Store.open(empty_sqlite(tmp_path / "gateway.db"))
    made = World(store, may_start=may_start, patience_s=patience_s, tracing=tracing)
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
