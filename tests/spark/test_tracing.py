"""A trace from a client through server and agent to the Spark jobs of a command, on real Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import requests
from databricks.sdk.service.compute import CommandStatus, Kind, State

from tests.spark.live import Live
from tests.support.collector import Collector, collecting
from tests.support.patience import PATIENCE_S
from tests.support.runtimes import SPARK_4

pytestmark = [pytest.mark.spark, pytest.mark.extended, pytest.mark.timeout(4 * PATIENCE_S)]
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
CODE = "secret = 'marker'; print(spark.range(100).repartition(2).count())"


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as made:
        yield made


@pytest.fixture
def live(collector: Collector, tmp_path: Path) -> Iterator[Live]:
    made = Live(tmp_path / "data")
    made.settings = msgspec.structs.replace(made.settings, tracing_endpoint=collector.url)
    made.start()
    try:
        yield made
    finally:
        made.close()


def test_a_command_is_traced_down_to_its_jobs(live: Live, collector: Collector) -> None:
    cluster_id = live.create("traced", SPARK_4, is_single_node=True, kind=Kind.CLASSIC_PREVIEW)
    live.wait(cluster_id, State.RUNNING)
    context_id = live.context(cluster_id)
    body = {"clusterId": cluster_id, "contextId": context_id, "language": "python", "command": CODE}
    answer = requests.post(
        f"{live.w.config.host}/api/1.2/commands/execute",
        json=body,
        headers={**live.w.config.authenticate(), "traceparent": f"00-{TRACE}-{SPAN}-01"},
        timeout=PATIENCE_S,
    )
    command_id = answer.json()["id"]
    assert live.finish(cluster_id, context_id, command_id).status is CommandStatus.FINISHED
    call = collector.one("POST /api/1.2/commands/execute")
    node = collector.one("node command_execute", brickyard_command_id=command_id)
    command = collector.one("command", brickyard_command_id=command_id)
    job = collector.one("spark job", spark_job_group=command_id)
    assert {each.trace_id for each in (call, node, command, job)} == {TRACE}
    assert (call.parent_id, node.parent_id, command.parent_id, job.parent_id) == (
        SPAN, call.span_id, node.span_id, command.span_id,
    )  # fmt: skip
    assert command.attributes["brickyard.command.status"] == "Finished"
    assert job.attributes["spark.job.status"] == "SUCCEEDED"
    assert command.began_ns <= job.began_ns <= job.ended_ns <= command.ended_ns
    live.run(cluster_id, "print(spark.range(5).count())")
    assert not any(b"marker" in body for body in collector.raw)
