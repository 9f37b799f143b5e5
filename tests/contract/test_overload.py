"""A server that is far behind says so, and the SDK asks again until there is room."""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from databricks.sdk.service.compute import State

from brickyard.plan import admission
from brickyard.store import store as store_module
from brickyard.store import writer
from brickyard.store.store import Store
from tests.support.patience import PATIENCE_S, SOON, until
from tests.support.server import TOKEN, Server

BODY: dict[str, Any] = {"cluster_name": "c", "spark_version": "17.3.x-scala2.13", "node_type_id": "i3.xlarge", "num_workers": 1}


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(admission, "SOON_S", 0.1)
    monkeypatch.setattr(admission, "LATE_S", 0.2)
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
        stall = Stall(server.application.store, threads)
        try:
            assert w.clusters.get(str(made.cluster_id)).state is State.RUNNING, "what is read is not refused"
            status, retry_after, error = answer(server, "POST", "clusters/create", BODY)
            assert (status, error["error_code"]) == (429, "REQUEST_LIMIT_EXCEEDED")
            assert int(retry_after) >= 1
            asked = threads.submit(lambda: w.clusters.create(**BODY))
            until(lambda: refused(server) >= 2, "the SDK's first attempt")
            assert not asked.done()
        finally:
            stall.end()
        assert asked.result(PATIENCE_S).cluster_id


def test_a_storm_on_a_slow_database_is_answered_and_what_is_accepted_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More is asked for than the store can do: every call has an answer before its client's patience ends, ends and health calls
    get through meanwhile, and every cluster that was accepted comes to run."""
    monkeypatch.setattr(admission, "SOON_S", 0.2)
    monkeypatch.setattr(admission, "LATE_S", 0.6)
    monkeypatch.setattr(store_module, "WAIT_S", 10.0)
    quick = writer._beside

    def slow(connection: Any, batch: Any, unit: Any) -> Any:
        time.sleep(0.02)
        return quick(connection, batch, unit)

    monkeypatch.setattr(writer, "_beside", slow)
    with Server.running(tmp_path, provider="simulated") as server, ThreadPoolExecutor(24) as clients:
        w = server.client()
        first = str(w.clusters.create(**BODY).result().cluster_id)
        asked = [clients.submit(answer, server, "POST", "clusters/create", BODY) for _ in range(200)]
        until(lambda: any(each.done() and each.result()[0] == 429 for each in asked), "the first refusal")
        assert answer(server, "GET", f"clusters/get?cluster_id={first}")[0] == 200
        assert answer(server, "POST", "clusters/delete", {"cluster_id": first})[0] == 200
        with urllib.request.urlopen(f"{server.url}/readyz", timeout=PATIENCE_S) as ready:  # noqa: S310 - loopback
            assert ready.status == 200
        answers = [each.result(PATIENCE_S) for each in asked]
        accepted = [body["cluster_id"] for status, _, body in answers if status == 200]
        refused = [(status, body["error_code"], int(retry) >= 1) for status, retry, body in answers if status != 200]
        assert set(refused) == {(429, "REQUEST_LIMIT_EXCEEDED", True)}
        assert len(accepted) >= 5, "what can be done is taken on"
        for cluster_id in accepted:
            w.clusters.wait_get_cluster_running(cluster_id, timeout=SOON)
        w.clusters.wait_get_cluster_terminated(first, timeout=SOON)


def answer(server: Server, method: str, call: str, body: dict[str, Any] | None = None) -> tuple[int, str, dict[str, Any]]:
    """Status, Retry-After and body of a call."""
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{server.url}/api/2.1/{call}", data=data, headers=headers, method=method)  # noqa: S310 - loopback
    try:
        with urllib.request.urlopen(request, timeout=60) as told:  # noqa: S310 - as above; what an SDK waits for one answer
            return told.status, "", json.loads(told.read())
    except urllib.error.HTTPError as error:
        return error.code, error.headers["Retry-After"], json.loads(error.read())


def refused(server: Server) -> float:
    """How many creates were told to come back later."""
    name = 'brickyard_http_request_duration_seconds_count{operation="clusters.create",status="429"}'
    with urllib.request.urlopen(f"{server.url}/metrics", timeout=PATIENCE_S) as answer:  # noqa: S310 - loopback
        lines = answer.read().decode().splitlines()
    return next((float(line.split()[-1]) for line in lines if line.startswith(name)), 0.0)
