"""Who is attached to a cluster, and the link to its Spark UI: the calls behind the Notebooks and Spark UI tabs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
import requests

from brickyard.domain.cluster import Cluster, Target
from brickyard.nodes.tokens import InstanceTokens
from brickyard.store.store import Store
from brickyard.testing.builders import cluster, up
from tests.support import world as shared
from tests.support.edge import edge
from tests.support.patience import PATIENCE_S
from tests.support.world import KEY

CONTEXT = {
    "context_id": "c1", "user": "me@example.com", "language": "python", "status": "Running", "created_ms": 1, "last_used_ms": 2,
    "commands": 1,
}  # fmt: skip
SESSION = {"session_id": "s1", "user": "me", "user_name": "", "client_type": "", "started_ms": 3, "last_used_ms": 4}
OWNER = "user@example.com"


class FakeAgent:
    """Says what it is told to say."""

    def __init__(self) -> None:
        self.answer: Any = {"contexts": [CONTEXT], "connect_sessions": [SESSION]}

    async def call(
        self, endpoint: str, server_token: str, method: str, path: str, body: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        assert (method, path) == ("GET", "/v1/attached")
        assert server_token == InstanceTokens(key=KEY).server_token("i-driver-0")
        answer: dict[str, Any] = self.answer
        return answer

    async def close(self) -> None:
        pass


class World(shared.World):
    def __init__(self, store: Store) -> None:
        self.agent = FakeAgent()
        super().__init__(store, agents=self.agent)
        made = up(cluster(creator_user_name=OWNER))
        self.id, self.url = made.cluster_id, ""
        self.put(made)

    def get(self, path: str, cluster_id: str = "") -> requests.Response:
        headers = {"Authorization": "Bearer secret"}
        query = {"cluster_id": cluster_id or self.id}
        return requests.get(f"{self.url}/api/2.1/clusters/{path}", params=query, headers=headers, timeout=PATIENCE_S)

    def change(self, wanted: Cluster) -> None:
        how = self.changed(wanted.cluster_id, lambda of: msgspec.structs.replace(wanted, version=of.version))
        self.store.write_sync(how)


@pytest.fixture
def world(store: Store) -> Iterator[World]:
    made = World(store)
    with edge(attach=made.attach, ui_links=made.links) as made.url:
        yield made


def test_contexts_and_sessions_are_listed(world: World) -> None:
    assert world.get("list-attached").json() == {"contexts": [CONTEXT], "connect_sessions": [SESSION]}


def test_nobody_is_attached_to_a_cluster_that_does_not_run(world: World) -> None:
    for state in (
        cluster(creator_user_name=OWNER),
        cluster(creator_user_name=OWNER, target=Target.TERMINATED, ended=True),
    ):
        world.change(state)
        assert world.get("list-attached").json() == {"contexts": [], "connect_sessions": []}


def test_an_answer_that_makes_no_sense_is_an_error_and_no_crash(world: World) -> None:
    world.agent.answer = {"contexts": [{"context_id": 7}]}
    answer = world.get("list-attached")
    assert (answer.status_code, answer.json()["error_code"]) == (400, "INVALID_STATE")


def test_who_may_not_attach_learns_nothing(world: World) -> None:
    mine = up(cluster(creator_user_name=OWNER))
    world.change(msgspec.structs.replace(mine, spec=msgspec.structs.replace(mine.spec, single_user_name="other@example.com")))
    for path in ("list-attached", "spark-ui-link"):
        assert world.get(path).status_code == 403
        assert world.get(path, "0101-000000-unknown0").status_code == 404


def test_the_link_leads_to_the_server_that_was_asked(world: World) -> None:
    found = world.get("spark-ui-link").json()
    assert found["url"].startswith(f"{world.url}/spark-ui/{world.id}/~")
    assert found["expiration_time"] > world.clock.now_ms()
