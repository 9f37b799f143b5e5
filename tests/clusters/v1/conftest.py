"""A server on the simulated provider, and callers of its /v1/clusters API."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
import requests
from databricks.sdk import WorkspaceClient

from brickyard.providers.nodetypes import cloud_types
from brickyard.providers.simulated import Knobs, SimulatedProvider
from tests.support.patience import PATIENCE_S, until
from tests.support.server import TOKEN, Server

NUMBERS = itertools.count(1)


class Api:
    """Calls as one user; answers are (status, body)."""

    def __init__(self, url: str, token: str = TOKEN) -> None:
        self.url = url
        self._session = requests.Session()
        self.headers = {"Authorization": f"Bearer {token}"}
        self._session.headers.update(self.headers)

    def call(self, method: str, path: str = "", body: Any = None, *, key: str = "", **query: Any) -> requests.Response:
        headers = {"Idempotency-Key": key} if key else {}
        url = f"{self.url}/v1/clusters{path}"
        return self._session.request(method, url, json=body, params=query, headers=headers, timeout=PATIENCE_S)

    def data(self, method: str, path: str = "", body: Any = None, *, expect: int = 200, key: str = "", **query: Any) -> Any:
        answer = self.call(method, path, body, key=key, **query)
        assert answer.status_code == expect, answer.text
        assert answer.json()["success"] is True
        return answer.json()["data"]

    def error(self, method: str, path: str = "", body: Any = None, *, key: str = "", **query: Any) -> tuple[int, str, Any]:
        answer = self.call(method, path, body, key=key, **query)
        said = answer.json()
        assert set(said) == {"error", "message", "code", "details", "request_id", "timestamp"}, said
        assert said["code"] == answer.status_code
        assert said["request_id"] == answer.headers["x-request-id"]
        return answer.status_code, said["error"], said["details"]

    def create(self, **fields: Any) -> str:
        body = {"name": f"made-{next(NUMBERS)}", "cpu_cores": 4, **fields}
        return str(self.data("POST", "", body, expect=201)["id"])

    def until(self, cluster_id: str, status: str) -> Any:
        """The cluster once it has that status."""

        def there() -> bool:
            return bool(self.data("GET", f"/{cluster_id}")["status"] == status)

        until(there, f"{cluster_id} {status}")
        return self.data("GET", f"/{cluster_id}")

    def running(self, **fields: Any) -> str:
        cluster_id = self.create(**fields)
        self.until(cluster_id, "running")
        return cluster_id

    def stopped(self, **fields: Any) -> str:
        return self.create(auto_start=False, **fields)


@pytest.fixture(scope="module")
def machines() -> SimulatedProvider:
    """The simulated world, for its knobs."""
    return SimulatedProvider(node_types=cloud_types())


@pytest.fixture
def knobs(machines: SimulatedProvider) -> Iterator[Knobs]:
    """Its knobs, which are as they were afterwards."""
    yield machines.knobs
    machines.turn(Knobs())


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, machines: SimulatedProvider) -> Iterator[Server]:
    with Server.running(tmp_path_factory.mktemp("gpu"), provider="simulated", instances=machines, snapshot_gb=1.0) as running:
        yield running


@pytest.fixture(scope="module")
def api(server: Server) -> Api:
    return Api(server.url)


@pytest.fixture(scope="module")
def w(server: Server) -> WorkspaceClient:
    """The official SDK, for the other dialect."""
    return server.client()
