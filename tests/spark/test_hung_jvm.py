"""JVMs that hang, as a stopped process does: told of, replaced, given up."""

from __future__ import annotations

import time
from collections.abc import Iterator

import msgspec
import pytest
from databricks.sdk.errors.base import DatabricksError
from databricks.sdk.service.compute import State

from tests.spark.live import JVM, Live
from tests.support.patience import PATIENCE_S, until

pytestmark = [pytest.mark.spark, pytest.mark.extended, pytest.mark.timeout(6 * PATIENCE_S)]


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    made = Live(tmp_path_factory.mktemp("hung") / "data")
    made.settings = msgspec.structs.replace(made.settings, spark_silence_s=15.0, driver_give_up_s=30.0)
    made.start()
    try:
        yield made
    finally:
        made.close()


def test_hung_jvms(live: Live) -> None:
    cluster_id = live.create("hangs", "17.3.x-scala2.13", num_workers=1, autotermination_minutes=0)
    live.wait(cluster_id, State.RUNNING, workers=1)
    (worker,) = live.worker_agents(cluster_id)
    live.below(worker, JVM).suspend()
    until(lambda: "NODES_LOST" in live.events(cluster_id), "the loss of the worker")
    until(lambda: [each.pid for each in live.worker_agents(cluster_id)] not in ([], [worker.pid]), "another worker")
    driver = live.below(live.driver_agent(cluster_id), JVM)
    driver.suspend()
    until(lambda: "DRIVER_NOT_RESPONDING" in live.events(cluster_id), "the event")
    assert "not responsive" in str(live.get(cluster_id).state_message)
    driver.resume()
    until(lambda: live.events(cluster_id).count("DRIVER_HEALTHY") == 2, "its recovery")
    live.wait(cluster_id, State.RUNNING, workers=1)
    assert live.run(cluster_id, "print(spark.range(100).count())") == "100"
    context_id = live.context(cluster_id)
    until(lambda: str(live.w.command_execution.context_status(cluster_id, context_id).status).endswith("RUNNING"))
    command_id = live.begin(cluster_id, context_id, "print(spark.range(10).count())\nimport time\ntime.sleep(600)")
    driver.suspend()
    began = time.monotonic()
    code, parameters, message = live.ended(cluster_id)
    assert code == "DRIVER_UNRESPONSIVE"
    assert "30 s" in message
    assert 30 <= time.monotonic() - began < 60 + PATIENCE_S / 4
    assert parameters["instance_id"]
    with pytest.raises(DatabricksError, match="30 s"):
        live.finish(cluster_id, context_id, command_id)
