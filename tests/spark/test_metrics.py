"""What `/metrics` says of a real Spark."""

from __future__ import annotations

import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.spark.live import Live
from tests.spark.shared import Lent
from tests.support.patience import until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
SLOW = "import time; print(spark.sparkContext.parallelize(range(8), 8).map(lambda n: time.sleep(5) or n).count())"


def test_tasks_and_executors_of_a_cluster(lent_worker: Lent) -> None:
    live = lent_worker.user
    assert isinstance(live, Live)
    running = live.workspace.running()
    assert running is not None

    def values() -> dict[tuple[str, str], float]:
        with urllib.request.urlopen(f"{running.url}/metrics") as answer:  # noqa: S310 - the test's own server
            families = [*text_string_to_metric_families(answer.read().decode())]
        found = [
            sample
            for family in families
            for sample in family.samples
            if sample.labels.get("cluster_id") == lent_worker.cluster_id
        ]
        return {(each.name, each.labels.get("state", "")): each.value for each in found}

    context = live.context(lent_worker.cluster_id)
    command = live.begin(lent_worker.cluster_id, context, SLOW)
    seen = until(lambda: now if (now := values()).get(("brickyard_spark_tasks", "running"), 0) > 0 else None, "no running task")
    assert seen["brickyard_spark_executors", ""] == 1
    assert seen["brickyard_spark_driver_heap_bytes", ""] > 1e6
    live.finish(lent_worker.cluster_id, context, command)
    live.w.command_execution.destroy(lent_worker.cluster_id, context)
