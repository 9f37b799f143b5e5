"""Autoscale on real Spark: a burst of tasks grows a cluster, idleness shrinks it, and no stage fails."""

from __future__ import annotations

from pathlib import Path

import pytest
from databricks.sdk.service import compute

from tests.spark.live import User
from tests.support.runtimes import SPARK_4
from tests.support.server import Server

# Workers come and leave twice. tests/plan/test_autoscale.py decides; tests/node/test_cluster_spark.py has the load that a driver
# tells, and test_cluster.py a cluster that is resized while a job runs.
pytestmark = [pytest.mark.spark, pytest.mark.extended, pytest.mark.timeout(900)]

# Shuffles and keeps data while the cluster grows, and uses both again once it has shrunk.
BURST = """
import time
pairs = sc.parallelize(range(24), 24).map(lambda n: (time.sleep(4), (n % 4, n))[1])
sums = pairs.reduceByKey(lambda a, b: a + b, 4).cache()
print(sorted(sums.collect()))
"""
AGAIN = "print(sorted(sums.mapValues(lambda value: value + 1).groupByKey(2).mapValues(sum).collect()))"
FAILED = """
jobs = sc._jsc.sc().statusStore().jobsList(None)
print(jobs.size() >= 2, sum(jobs.apply(n).numFailedStages() for n in range(jobs.size())))
"""


def test_a_burst_grows_a_cluster_and_idleness_shrinks_it(tmp_path: Path) -> None:
    with Server.running(tmp_path / "workspace", autoscale_down_after_s=8.0) as server:
        w = server.client()
        user = User(w)
        name = user.create("elastic", SPARK_4, autoscale=compute.AutoScale(min_workers=1, max_workers=3))
        user.wait(name, compute.State.RUNNING, workers=1)
        context = user.context(name)

        def run(command: str) -> str:
            done = user.finish(name, context, user.begin(name, context, command))
            assert done.results is not None
            assert done.results.result_type is compute.ResultType.TEXT, done.results.cause
            return str(done.results.data).strip()

        assert run(BURST) == "[(0, 60), (1, 66), (2, 72), (3, 78)]"
        seen = [(event.type, event.details) for event in w.clusters.events(name, order=compute.GetEventsOrder.ASC)]
        resizes = [details for kind, details in seen if kind is compute.EventType.RESIZING and details]
        assert resizes[0].cause is compute.EventDetailsCause.AUTOSCALE
        assert max(details.target_num_workers or 0 for details in resizes) == 3
        assert any(kind is compute.EventType.UPSIZE_COMPLETED for kind, _ in seen)

        user.wait(name, compute.State.RUNNING, workers=1)  # idle workers leave
        assert run(AGAIN) == "[(0, 61), (1, 67), (2, 73), (3, 79)]", "what the workers held was moved before they left"
        assert run(FAILED) == "True 0"
        kinds = {event.type for event in w.clusters.events(name)}
        assert compute.EventType.DECOMMISSION_ENDED in kinds
        assert compute.EventType.NODES_LOST not in kinds
