"""Traces of calls, as a collector gets them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from brickyard.domain.nodeops import CommandTrace, SparkJobTrace
from brickyard.server.tracing import CLOSE_S, OtlpTracing
from tests.support.collector import Collector, collecting
from tests.support.patience import PATIENCE_S
from tests.support.ports import free_port
from tests.support.server import TOKEN, Server

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
MARKER = "marker-of-what-a-user-sends"
CLUSTER: dict[str, Any] = {
    "cluster_name": MARKER,
    "spark_version": "17.3.x-scala2.13",
    "node_type_id": "i3.xlarge",
    "num_workers": 1,
    "spark_conf": {"spark.my.key": MARKER},
}


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as made:
        yield made


def call(server: Server, method: str, path: str, body: dict[str, Any] | None = None, **headers: str) -> requests.Response:
    authorized = {"Authorization": f"Bearer {TOKEN}", **headers}
    return requests.request(method, server.url + path, json=body, headers=authorized, timeout=PATIENCE_S)


def create(server: Server, flags: str = "01") -> requests.Response:
    return call(server, "POST", "/api/2.1/clusters/create", CLUSTER, traceparent=f"00-{TRACE}-{SPAN}-{flags}")


def test_a_call_continues_its_clients_trace_into_the_commit_and_the_loops(collector: Collector, tmp_path: Path) -> None:
    with Server.running(tmp_path / "data", provider="simulated", tracing_endpoint=collector.url) as server:
        created = create(server)
        cluster_id = created.json()["cluster_id"]
        span = collector.one("POST /api/2.1/clusters/create")
        assert (span.trace_id, span.parent_id, span.kind) == (TRACE, SPAN, 2)
        me = call(server, "GET", "/api/2.0/preview/scim/v2/Me").json()["id"]
        assert span.attributes == {
            "http.request.method": "POST",
            "http.route": "/api/2.1/clusters/create",
            "http.response.status_code": 200,
            "url.scheme": "http",
            "user.id": me,
            "brickyard.operation": "clusters.create",
        }
        assert span.resource["service.name"] == "brickyard"
        assert span.resource["service.instance.id"] == server.url
        commit = collector.one("commit", db_system_name="sqlite")
        assert (commit.trace_id, commit.parent_id) == (TRACE, span.span_id)
        done = collector.one("pass of clusters", brickyard_key=cluster_id)
        assert done.trace_id == TRACE
        assert not any(secret.encode() in body for body in collector.raw for secret in (MARKER, TOKEN))


def test_errors_have_their_code_and_only_those_of_the_server_fail(collector: Collector, tmp_path: Path) -> None:
    with Server.running(tmp_path / "data", provider="simulated", tracing_endpoint=collector.url + "/v1/traces") as server:
        call(server, "GET", f"/api/2.1/clusters/get?cluster_id={MARKER}")
        span = collector.one("GET /api/2.1/clusters/get")
        assert span.attributes["http.response.status_code"] == 400
        assert span.attributes["brickyard.error_code"] == "INVALID_PARAMETER_VALUE"
        assert not span.failed
        assert span.parent_id == "" and span.trace_id != TRACE
        call(server, "GET", "/api/2.1/clusters/list", Authorization="Bearer wrong")
        refused = collector.one("GET /api/2.1/clusters/list", http_response_status_code=401)
        assert "user.id" not in refused.attributes
        call(server, "GET", "/healthz")
        call(server, "GET", f"/api/2.0/dbfs/get-status?path=/{MARKER}")
        collector.one("GET /api/2.0/dbfs/get-status")
        assert not any("healthz" in each.name for each in collector.spans)
        assert not any(MARKER.encode() in body for body in collector.raw)


def test_a_collector_that_hangs_delays_no_call_and_no_stop(collector: Collector, tmp_path: Path) -> None:
    collector.open.clear()
    with Server.running(tmp_path / "data", provider="simulated", tracing_endpoint=collector.url) as server:
        call(server, "GET", "/api/2.1/clusters/list")
        assert collector.held.wait(PATIENCE_S)
        assert create(server).status_code == 200, "while the collector holds what it was sent"
        assert not collector.spans
    assert not collector.open.is_set(), "the server has stopped all the same"


def test_a_collector_that_is_away_costs_spans_alone(tmp_path: Path) -> None:
    endpoint = f"http://127.0.0.1:{free_port()}"
    with Server.running(tmp_path / "data", provider="simulated", tracing_endpoint=endpoint) as server:
        assert create(server).status_code == 200
        began_s = time.monotonic()
        assert server.application is not None and server.store.tracing is not None
        server.store.tracing.close()  # type: ignore[attr-defined] # of the implementation
        assert time.monotonic() - began_s < CLOSE_S + PATIENCE_S / 4


def test_a_share_of_calls_and_clients_that_decide(collector: Collector, tmp_path: Path) -> None:
    with Server.running(tmp_path / "data", provider="simulated", tracing_endpoint=collector.url, tracing_ratio=0.0) as server:
        call(server, "GET", "/api/2.1/clusters/list")
        create(server, flags="00")
        create(server)
        collector.one("POST /api/2.1/clusters/create")
    assert [each.name for each in collector.spans].count("POST /api/2.1/clusters/create") == 1
    assert {each.trace_id for each in collector.spans} == {TRACE}


def test_a_command_and_its_jobs(collector: Collector) -> None:
    """Users' code may have shaped what a node says: times outside of the command are left out."""
    tracing = OtlpTracing(collector.url, ratio=1.0, server_url="http://server", workspace_id="1")
    now_ms, parent = int(time.time() * 1000), f"00-{TRACE}-{SPAN}-01"
    jobs = [
        SparkJobTrace(job_id=3, began_ms=now_ms - 900, ended_ms=now_ms - 500, status="SUCCEEDED", tasks=8, stages=2),
        SparkJobTrace(job_id=4, began_ms=now_ms - 400, ended_ms=now_ms - 300, status="FAILED"),
        SparkJobTrace(job_id=5, began_ms=1, ended_ms=2),
        SparkJobTrace(job_id=6, began_ms=now_ms - 100, ended_ms=now_ms + 10**9),
    ]
    about: dict[str, str | int] = {"brickyard.command.id": "c1"}
    ran = CommandTrace(traceparent=parent, status="Error", began_ms=now_ms - 1000, ended_ms=now_ms, jobs=jobs)
    tracing.command(ran, about)
    for began_ms, ended_ms in ((0, now_ms), (now_ms, now_ms - 1), (now_ms, now_ms + 10**9)):
        tracing.command(CommandTrace(traceparent=parent, status="x", began_ms=began_ms, ended_ms=ended_ms), about)
    tracing.close()
    command = collector.one("command")
    assert (command.trace_id, command.parent_id, command.failed) == (TRACE, SPAN, True)
    assert (command.ended_ns - command.began_ns) == 1_000_000_000
    spans = [each for each in collector.spans if each.name == "spark job"]
    assert {each.attributes["spark.job.id"]: each.failed for each in spans} == {3: False, 4: True}
    assert {each.parent_id for each in spans} == {command.span_id}
    assert spans[0].attributes["spark.job.group"] == "c1"
    assert len(collector.spans) == 3


def test_a_pass_that_asks_for_another_does_not_make_the_trace_last(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    tracing = OtlpTracing(collector.url, ratio=1.0, server_url="http://server", workspace_id="1")
    now_s = time.monotonic()
    with tracing.request("first", [], {}):
        tracing.remember(["a"])
    for _ in range(3):
        now_s += 400
        monkeypatch.setattr("brickyard.server.tracing.time.monotonic", lambda: now_s)  # noqa: B023 - called in this turn
        with tracing.caused("a", "pass", {}):
            tracing.remember(["a"])
    monkeypatch.undo()
    tracing.close()
    assert [each.name for each in collector.spans].count("pass") == 2
