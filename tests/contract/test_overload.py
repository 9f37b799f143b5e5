"""A server that is far behind says so, and the SDK asks again until there is room."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from databricks.sdk.service.compute import State

from brickyard.api import app as edge
from brickyard.store.store import Store
from tests.support.patience import PATIENCE_S, until
from tests.support.server import TOKEN, Server

BODY: dict[str, Any] = {"cluster_name": "c", "spark_version": "17.3.x-scala2.13", "node_type_id": "i3.xlarge", "num_workers": 1}


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(edge, "MOST_LAG_S", 0.2)
    with Server.running(tmp_path / "data", provider="simulated") as made:
        yield made


class Stall:
    """One unit of work that does not end, and another one behind it: what the background has to do piles up."""

    def __init__(self, store: Store, threads: ThreadPoolExecutor) -> None:
        self.over, self._begun = threading.Event(), threading.Event()
        self._done = [threads.submit(store.write_sync, self._wait)]
        assert self._begun.wait(PATIENCE_S)  # else both might share one transaction, and nothing would be behind
        self._done.append(threads.submit(store.write_sync, lambda tx: None))
        until(lambda: store.lag_s > 0.2, "the lag")

    def _wait(self, _tx: object) -> None:
        self._begun.set()
        self.over.wait(PATIENCE_S)

    def end(self) -> None:
        self.over.set()
        for each in self._done:
            each.result(PATIENCE_S)


def test_overload_is_told_and_the_sdk_waits_for_room(server: Server) -> None:
    assert server.application is not None
    w = server.client()
    made = w.clusters.create(**BODY).result()
    with ThreadPoolExecutor(4) as threads:
        stall = Stall(server.application._store, threads)
        try:
            assert w.clusters.get(str(made.cluster_id)).state is State.RUNNING, "what is read is not refused"
            status, retry_after, error = create(server)
            assert (status, error["error_code"]) == (429, "REQUEST_LIMIT_EXCEEDED")
            assert "overloaded" in error["message"]
            assert int(retry_after) >= 1
            asked = threads.submit(lambda: w.clusters.create(**BODY))
            until(lambda: refused(server) >= 2, "the SDK's first attempt")
            assert not asked.done()
        finally:
            stall.end()
        assert asked.result(PATIENCE_S).cluster_id


def create(server: Server) -> tuple[int, str, dict[str, str]]:
    """Status, Retry-After and body of a call that must be refused."""
    request = urllib.request.Request(  # noqa: S310 - loopback
        f"{server.url}/api/2.1/clusters/create",
        data=json.dumps(BODY).encode(),
        headers={"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"},
    )
    with pytest.raises(urllib.error.HTTPError) as told:
        urllib.request.urlopen(request, timeout=PATIENCE_S)  # noqa: S310 - as above
    return told.value.code, told.value.headers["Retry-After"], json.loads(told.value.read())


def refused(server: Server) -> float:
    """How many creates were told to come back later."""
    name = 'brickyard_http_request_duration_seconds_count{operation="clusters.create",status="429"}'
    with urllib.request.urlopen(f"{server.url}/metrics", timeout=PATIENCE_S) as answer:  # noqa: S310 - loopback
        lines = answer.read().decode().splitlines()
    return next((float(line.split()[-1]) for line in lines if line.startswith(name)), 0.0)
