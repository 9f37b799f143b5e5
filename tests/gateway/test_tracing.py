"""Calls of Spark Connect and SQL clients, as a collector of traces gets them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import grpc
import grpc.aio
import pytest

from brickyard.gateway.tracing import SERVICE
from brickyard.server.tracing import OtlpTracing
from brickyard.testing.builders import cluster, up
from tests.gateway.sqlworld import Refused, sql_world
from tests.gateway.test_sql import finished
from tests.gateway.world import CLUSTER_ID, call, credentials, world
from tests.support.collector import Collector, Sent, collecting

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
MARKER = "marker-of-what-a-user-sends"


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as made:
        yield made


@pytest.fixture
def tracing(collector: Collector) -> Iterator[OtlpTracing]:
    made = OtlpTracing(collector.url, ratio=1.0, server_url="http://server", workspace_id="1")
    try:
        yield made
    finally:
        made.close()


async def one(collector: Collector, name: str, **attributes: object) -> Sent:
    return await asyncio.to_thread(collector.one, name, **attributes)


async def test_a_call_of_spark_connect_continues_its_clients_trace(
    tmp_path: Path, collector: Collector, tracing: OtlpTracing
) -> None:
    async with world(tmp_path, tracing=tracing) as w, w.channel() as channel:
        await w.set(up(cluster()))
        token = await w.token("me@example.com")
        sent = f"00-{TRACE}-{SPAN}-01"
        await call(channel, "Config", MARKER.encode(), **credentials(token), traceparent=sent)
        span = await one(collector, f"{SERVICE}/Config")
        assert (span.trace_id, span.parent_id, span.kind, span.failed) == (TRACE, SPAN, 2, False)
        assert span.attributes["brickyard.cluster.id"] == CLUSTER_ID
        assert (span.attributes["rpc.method"], span.attributes["rpc.grpc.status_code"]) == ("Config", 0)
        assert span.attributes["user.id"]


async def test_a_refused_call_has_its_status_and_nothing_of_what_was_sent(
    tmp_path: Path, collector: Collector, tracing: OtlpTracing
) -> None:
    async with world(tmp_path, tracing=tracing) as w, w.channel() as channel:
        token = await w.token("me@example.com")
        for name, given in (("Config", "wrong"), (MARKER, token)):
            with pytest.raises(grpc.aio.AioRpcError):
                await call(channel, name, **credentials(given, MARKER))
        refused = await one(collector, f"{SERVICE}/Config")
        assert refused.attributes["rpc.grpc.status_code"] == grpc.StatusCode.UNAUTHENTICATED.value[0]
        assert not refused.failed and "brickyard.cluster.id" not in refused.attributes
        other = await one(collector, f"{SERVICE}/other")
        assert other.attributes["rpc.grpc.status_code"] == grpc.StatusCode.NOT_FOUND.value[0]
        assert not any(MARKER.encode() in body for body in collector.raw)


async def test_a_statement_of_a_sql_client_has_the_calls_to_the_driver_below_it(
    tmp_path: Path, collector: Collector, tracing: OtlpTracing
) -> None:
    async with sql_world(tmp_path, tracing=tracing) as w:
        token = await w.world.token("me@example.com")
        session = await w.session(token)
        begun = await w.begin(token, session, f"SELECT '{MARKER}'")
        await finished(w, token, begun.operationHandle)
        with pytest.raises(Refused):
            await w.call(token, "CloseSession", session, path=f"/sql/{MARKER}")
        route = "POST /sql/protocolv1/o/{workspace_id}/{cluster_id}"
        span = await one(collector, route, rpc_method="ExecuteStatement")
        assert span.attributes["brickyard.cluster.id"] == CLUSTER_ID
        assert (span.attributes["http.response.status_code"], span.kind, span.failed) == (200, 2, False)
        executed = await one(collector, f"{SERVICE}/ExecutePlan")
        assert (executed.trace_id, executed.parent_id, executed.kind) == (span.trace_id, span.span_id, 3)
        refused = await one(collector, "POST /sql")
        assert refused.attributes["http.response.status_code"] == 404 and not refused.failed
        assert not any(MARKER.encode() in body for body in collector.raw)
