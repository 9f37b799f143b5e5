"""A cluster that keeps its users apart, on real Spark through the official SDK."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from databricks.sdk.service import jobs
from databricks.sdk.service.compute import DataSecurityMode, Results, State
from databricks.sdk.service.jobs import RunResultState

from brickyard.agent import sandbox
from tests.spark.live import User
from tests.support.patience import SOON
from tests.support.runtimes import SPARK_4
from tests.support.server import Server

pytestmark = [
    pytest.mark.spark, pytest.mark.timeout(900),
    pytest.mark.skipif(sandbox.probe().kind == "none", reason="users are kept apart where nodes have walls"),
]  # fmt: skip
VIEW = "spark.range(7).createOrReplaceTempView('mine'); print(spark.table('mine').count(), type(spark).__module__)"
TASK = b"import sys; print(type(spark).__module__, spark.range(int(sys.argv[1])).count())"
# Every other process of the node, and whether its memory can be had: what runs there besides is the code of users.
LOOK = """
import os
for name in filter(str.isdigit, os.listdir("/proc")):
    if int(name) != os.getpid():
        command = open(f"/proc/{name}/cmdline").read().replace(chr(0), " ")
        for file in ("mem", "environ", "fd/0"):
            try:
                os.open(f"/proc/{name}/{file}", os.O_RDONLY)
                print("read", file, command)
            except OSError:
                pass
"""


def said(user: User, cluster: str, context: str, code: str) -> Results:
    results = user.finish(cluster, context, user.begin(cluster, context, code)).results
    assert results is not None
    return results


def test_every_context_is_a_session_of_its_own(tmp_path: Path) -> None:
    with Server.running(tmp_path / "workspace") as server:
        user = User(server.client())
        cluster = user.create("shared", SPARK_4, num_workers=1, data_security_mode=DataSecurityMode.USER_ISOLATION)
        assert user.wait(cluster, State.RUNNING).data_security_mode is DataSecurityMode.USER_ISOLATION
        one, other = user.context(cluster), user.context(cluster)
        assert said(user, cluster, one, VIEW).data == "7 pyspark.sql.connect.session"
        assert said(user, cluster, other, "print(spark.catalog.tableExists('mine'))").data == "False"
        assert said(user, cluster, other, LOOK).data == ""
        refused = said(user, cluster, other, "sc.parallelize([1]).count()")
        assert "this cluster keeps its users apart" in str(refused.summary)
        attached: Any = user.w.api_client.do("GET", "/api/2.1/clusters/list-attached", query={"cluster_id": cluster})
        assert {each["context_id"] for each in attached["contexts"]} == {one, other}
        assert attached["connect_sessions"] == [], "contexts are not listed twice"

        user.w.dbfs.upload("dbfs:/task.py", io.BytesIO(TASK))
        script = jobs.SparkPythonTask(python_file="dbfs:/task.py", parameters=["5"])
        task = jobs.SubmitTask(task_key="count", existing_cluster_id=cluster, spark_python_task=script)
        run = user.w.jobs.submit(run_name="count", tasks=[task]).result(timeout=SOON)
        assert run.state is not None and run.tasks
        assert run.state.result_state is RunResultState.SUCCESS
        assert user.w.jobs.get_run_output(int(run.tasks[0].run_id or 0)).logs == "pyspark.sql.connect.session 5"
