"""A task that uses up its node fails with the reason, on real Spark. Spark would run it again without end, or only say that a
process is gone."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest
from databricks.sdk.service.compute import CommandStatus, CommandStatusResponse, Kind, ResultType, State

from tests.spark.live import Live
from tests.spark.neighbours import neighbour
from tests.support.patience import until
from tests.support.runtimes import SPARK_4

pytestmark = [pytest.mark.spark, pytest.mark.extended, pytest.mark.timeout(600)]

ATTEMPTS = 2  # spark.task.maxFailures
FILL = """
import time
def fill(rows):
    with open("/tmp/filled", "wb") as file:
        for _ in range(12):
            file.write(bytes(64 << 20))
    time.sleep(3600)
    yield from rows
spark.sparkContext.parallelize(range(1), 1).mapPartitions(fill).count()
"""
COUNT = "print(spark.range(1000, numPartitions=2).repartition(3).count())"
HOG = """
from pyspark.sql.functions import udf
@udf("long")
def hog(number):
    taken = []
    while True:
        taken.append(b"x" * (64 << 20))
spark.range(1, numPartitions=1).select(hog("id")).collect()
"""


@pytest.fixture
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    made = Live(tmp_path_factory.mktemp("live") / "workspace")
    made.settings = msgspec.structs.replace(made.settings, node_disk_gb=0.5)
    made.start()
    try:
        yield made
    finally:
        made.close()


def test_a_task_that_uses_up_its_node_fails_with_the_reason(live: Live) -> None:
    conf = {"spark.task.maxFailures": str(ATTEMPTS)}
    with neighbour(live):
        cluster_id = live.create("greedy", SPARK_4, num_workers=2, spark_conf=conf)
        alone = live.create("alone", SPARK_4, is_single_node=True, kind=Kind.CLASSIC_PREVIEW)
        live.wait(alone, State.RUNNING)
        error, after = failed(live, alone, HOG), live.get(alone)
        assert after.state is State.RUNNING and after.driver is not None
        assert names_node(error, str(after.driver.private_ip)), error
        live.w.clusters.delete(alone)

        live.wait(cluster_id, State.RUNNING, workers=2)
        error = disk(live, cluster_id)
        assert "node_disk_gb" in error
        assert live.events(cluster_id).count("NODES_LOST") == ATTEMPTS

        live.wait(cluster_id, State.RUNNING, workers=2)
        workers = [str(each.private_ip) for each in live.get(cluster_id).executors or []]
        error = failed(live, cluster_id, HOG)
        named = any(names_node(error, address) for address in workers)
        # Without control groups the agent ends the whole node when ending one process has not helped.
        assert named or live.events(cluster_id).count("NODES_LOST") > ATTEMPTS, error


def disk(live: Live, cluster_id: str) -> str:
    """The error of a task that fills disks, while another command of the cluster goes on."""
    context_id, beside = live.context(cluster_id), live.context(cluster_id)
    command_id = live.begin(cluster_id, context_id, FILL)

    def over() -> CommandStatusResponse | None:
        counted = live.finish(cluster_id, beside, live.begin(cluster_id, beside, COUNT))
        assert counted.results is not None and counted.results.data == "1000", counted
        now = live.w.command_execution.command_status(cluster_id, context_id, command_id)
        return now if now.status is not CommandStatus.RUNNING else None

    return error_of(until(over, "the task is run again without end"))


def failed(live: Live, cluster_id: str, code: str) -> str:
    context_id = live.context(cluster_id)
    return error_of(live.finish(cluster_id, context_id, live.begin(cluster_id, context_id, code)))


def error_of(answer: CommandStatusResponse) -> str:
    assert answer.results is not None and answer.results.result_type is ResultType.ERROR, answer
    return str(answer.results.summary)


def names_node(error: str, address: str) -> bool:
    """Whether the reason of a node comes first."""
    return error.partition("\n")[0].endswith(f"(node {address})")
