"""A pool on real Spark: a warm instance starts a cluster and comes back clean; the next cluster finds nothing of the last."""

from __future__ import annotations

import io
from pathlib import Path

import psutil
import pytest
from databricks.sdk import WorkspaceClient
from databricks.sdk.service import compute, jobs

from tests.spark.live import User
from tests.support.depth import ALL
from tests.support.golden import Golden
from tests.support.patience import until
from tests.support.server import Server

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
RUNTIME = "17.3.x-scala2.13"
MARK = "left-by-the-first-cluster"

# A tenant leaves what it can: files wherever it may write, a variable, a process that outlives its parents, data in Spark.
LEAVE = f"""
import os, pathlib, subprocess, tempfile
home = pathlib.Path.home()
places = {{home, home.parent / "work", pathlib.Path(tempfile.gettempdir()), pathlib.Path("/dev/shm")}}
written = []
for place in places:
    try:
        (place / "{MARK}").write_text("{MARK}")
        written.append(str(place))
    except OSError:
        pass
os.environ["LEFT"] = "{MARK}"
subprocess.Popen(["sleep", "98765"], start_new_session=True, env={{**os.environ, "NAME": "{MARK}"}})
spark.range(10).createOrReplaceGlobalTempView("left_behind")
spark.range(1000).write.mode("overwrite").parquet(str(pathlib.Path.home() / "{MARK}.parquet"))
spark.range(0, 40, 1, 4).write.mode("overwrite").saveAsTable("left_table")
pathlib.Path("/cluster/left").touch()
pathlib.Path("/workspace/left").touch()
print(len(written) > 1, spark.table("left_table").count(), os.listdir("/cluster/scratch"))
"""

# The second one looks everywhere: names and contents of files, environments and command lines of processes, Spark's catalogue.
LOOK = f"""
import os, pathlib, tempfile
found = []
roots = [pathlib.Path.home().parent, pathlib.Path(tempfile.gettempdir()), pathlib.Path("/dev/shm")]
for root in roots:
    for path in root.rglob("*"):
        if "{MARK}" in path.name:
            found.append(str(path))
        elif path.is_file() and path.stat().st_size < 1_000_000:
            try:
                if b"FIRST_TENANTS_" + b"SECRET" in path.read_bytes():
                    found.append(f"content of {{path}}")
            except OSError:
                pass
for process in pathlib.Path("/proc").glob("[0-9]*"):
    for name in ("environ", "cmdline"):
        try:
            data = (process / name).read_bytes()
        except OSError:
            continue
        if b"98765" in data or b"{MARK}" in data or b"SECRET_OF_THE_FIRST" in data:
            found.append(f"{{name}} of {{process.name}}")
found += ["its directory"] if os.path.exists("/cluster/left") or os.path.exists("/workspace/left") else []
found += [] if spark.table("left_table").count() == 40 else ["no table"]  # those are the workspace's
found += [each.name for each in spark.catalog.listTables("global_temp") if each.name == "left_behind"]
print(found, os.environ.get("LEFT"), os.environ.get("SECRET_OF_THE_FIRST"), spark.range(7).count())
"""


def start(w: WorkspaceClient, name: str, pool_id: str, **fields: object) -> compute.ClusterDetails:
    made = w.clusters.create(
        cluster_name=name,
        spark_version=RUNTIME,
        instance_pool_id=pool_id,
        kind=compute.Kind.CLASSIC_PREVIEW,
        is_single_node=True,
        **fields,  # type: ignore[arg-type] # the SDK's own
    )
    return User(w).wait(str(made.cluster_id), compute.State.RUNNING)


def remark(w: WorkspaceClient, cluster_id: str) -> str:
    """What the cluster's RUNNING event says of its start."""
    found = next(event for event in w.clusters.events(cluster_id) if event.type is compute.EventType.RUNNING)
    return (found.details.driver_state_message if found.details else None) or ""


def settled(w: WorkspaceClient, pool_id: str) -> bool:
    stats = w.instance_pools.get(pool_id).stats
    return stats is not None and (stats.used_count, stats.idle_count, stats.pending_idle_count) == (0, 1, 0)


def with_mark(text: str) -> list[psutil.Process]:
    """Processes of this machine that carry the word in their environment or command line."""
    found = []
    for process in psutil.process_iter():
        try:
            if text in " ".join(process.cmdline()) or text in " ".join(process.environ().values()):
                found.append(process)
        except psutil.Error:
            continue
    return found


def leave(w: WorkspaceClient, tenant: compute.ClusterDetails, pool_id: str) -> None:
    """Have it leave what it can, and wait until its instance has come back."""
    cluster_id = str(tenant.cluster_id)
    wrote, rows, tables = User(w).run(cluster_id, LEAVE).split(maxsplit=2)
    assert (wrote, rows, tables) == ("True", "40", "[]"), "its own directory came into sight as it was taken over"
    assert with_mark(MARK), "the process that shall not survive is there"
    w.clusters.delete(cluster_id)
    User(w).wait(cluster_id, compute.State.TERMINATED)
    assert not with_mark(MARK), "a cluster is TERMINATED when nothing of it runs any more"
    until(lambda: settled(w, pool_id), "the instance did not come back")


def test_two_tenants_of_one_warm_instance(tmp_path: Path, golden: Golden) -> None:
    with Server.running(tmp_path / "workspace") as server:
        w = server.client()
        pool_id = w.instance_pools.create(
            instance_pool_name="warm",
            node_type_id="brickyard.small",
            min_idle_instances=1,
            max_capacity=1,
            preloaded_spark_versions=[RUNTIME],
        ).instance_pool_id
        assert pool_id is not None
        until(lambda: settled(w, pool_id), "the pool did not become warm")
        assert w.instance_pools.get(pool_id).as_dict()["status"] == {}

        env = {"SECRET_OF_THE_FIRST": "FIRST_TENANTS_SECRET"}
        before = start(w, "first", pool_id, spark_env_vars=env)
        shown = User(w).run(str(before.cluster_id), "import os; print(os.environ['SECRET_OF_THE_FIRST'])")
        assert shown == "FIRST_TENANTS_SECRET"
        assert "cold" in remark(w, str(before.cluster_id)).lower(), "variables of one's own need a JVM of one's own"
        leave(w, before, pool_id)

        if ALL:  # one whose JVM was warm leaves the same; each round warms the instance again
            before = start(w, "between", pool_id)
            leave(w, before, pool_id)

        w.dbfs.upload("/setup.sh", io.BytesIO(b"echo from the last >/tmp/script; mkdir -p ~/.config"))
        setup = compute.InitScriptInfo(dbfs=compute.DbfsStorageInfo("dbfs:/setup.sh"))
        last = start(w, "last", pool_id, init_scripts=[setup])
        assert User(w).run(str(last.cluster_id), "print(open('/tmp/script').read())").strip() == "from the last"
        golden(remark(w, str(last.cluster_id)), "1 of 1")
        assert before.driver is not None
        assert last.driver is not None
        assert last.driver.instance_id == before.driver.instance_id, "a pool of one instance"
        assert User(w).run(str(last.cluster_id), LOOK) == "[] None None 7"
        w.dbfs.upload("/task.py", io.BytesIO(b"print(spark.range(10).count())"))
        file = jobs.SparkPythonTask(python_file="dbfs:/task.py")
        run = w.jobs.submit(tasks=[jobs.SubmitTask(task_key="a", existing_cluster_id=last.cluster_id, spark_python_task=file)])
        assert w.jobs.get_run_output(int((run.result().tasks or [])[0].run_id or 0)).logs == "10"
        w.instance_pools.delete(pool_id)
        w.clusters.permanent_delete(str(last.cluster_id))
