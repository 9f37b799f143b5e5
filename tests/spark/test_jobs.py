"""Runs on real Spark: two tasks in order on a job cluster each, the second of which fails, through the official SDK."""

from __future__ import annotations

import base64
from datetime import timedelta
from pathlib import Path

import pytest
from databricks.sdk import WorkspaceClient
from databricks.sdk.errors.sdk import OperationFailed
from databricks.sdk.service import compute, jobs
from databricks.sdk.service.jobs import RunResultState

from tests.support.runtimes import SPARK_4
from tests.support.server import Server

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
SOON = timedelta(minutes=5)
NEW = compute.ClusterSpec(
    spark_version=SPARK_4,
    node_type_id="brickyard.small",
    num_workers=0,
    spark_conf={"spark.databricks.cluster.profile": "singleNode", "spark.master": "local[*]"},
)
# As a script that knows nothing of notebooks: arguments, a module beside it, an exit that is a success.
FIRST = """
import sys
from pyspark.sql import SparkSession
import neighbour

if __name__ == "__main__":
    spark = SparkSession.builder.getOrCreate()
    total = spark.range(int(sys.argv[1])).rdd.map(lambda row: neighbour.PLUS + row[0]).sum()
    dbutils.fs.put("dbfs:/jobs/total", str(total))
    print("wrote", total, sys.argv[2])
    print("and this", file=sys.stderr)
    sys.exit(0)
"""
SECOND = """
def broken(text):
    raise ValueError(f"the first task wrote {text}")

print("about to fail")
broken(dbutils.fs.head("dbfs:/jobs/total"))
"""


def upload(w: WorkspaceClient, path: str, source: str) -> str:
    w.dbfs.put(path, contents=base64.b64encode(source.encode()).decode(), overwrite=True)
    return f"dbfs:{path}"


def test_two_tasks_in_order_the_second_of_which_fails(tmp_path: Path) -> None:
    with Server.running(tmp_path / "workspace") as server:
        w = server.client()
        upload(w, "/jobs/neighbour.py", "PLUS = 1\n")
        first = jobs.SparkPythonTask(python_file=upload(w, "/jobs/first.py", FIRST), parameters=["1000", "zwei drei"])
        second = jobs.SparkPythonTask(python_file=upload(w, "/jobs/second.py", SECOND))
        waiter = w.jobs.submit(
            run_name="real",
            tasks=[
                jobs.SubmitTask(task_key="first", spark_python_task=first, new_cluster=NEW),
                jobs.SubmitTask(
                    task_key="second",
                    spark_python_task=second,
                    new_cluster=NEW,
                    depends_on=[jobs.TaskDependency(task_key="first")],
                ),
            ],
        )
        with pytest.raises(OperationFailed, match="Task second failed with message: Workload failed"):
            waiter.result(timeout=SOON)
        run = w.jobs.get_run(waiter.run_id)
        assert [each.state and each.state.result_state for each in run.tasks or []] == [
            RunResultState.SUCCESS,
            RunResultState.FAILED,
        ]
        good, bad = (w.jobs.get_run_output(each.run_id or 0) for each in run.tasks or [])
        assert good.error is None, good.error_trace
        assert "wrote 500500 zwei drei" in (good.logs or "")
        assert "and this" in (good.logs or "")
        assert bad.logs == "about to fail"
        assert bad.error == "ValueError: the first task wrote 500500"
        trace = bad.error_trace or ""
        assert 'broken(dbutils.fs.head("dbfs:/jobs/total"))' in trace and "raise ValueError" in trace
        assert "kernel_task" not in trace and "brickyard_task" not in trace, "the traceback is the file's own"
        for each in run.tasks or []:
            cluster = w.clusters.get((each.cluster_instance and each.cluster_instance.cluster_id) or "")
            assert cluster.cluster_source is compute.ClusterSource.JOB
            assert cluster.state is compute.State.TERMINATED
            assert cluster.termination_reason and cluster.termination_reason.code is compute.TerminationReasonCode.JOB_FINISHED
