"""Runs on real Spark through the official SDK: tasks of every kind on job clusters of their own, and one on a cluster that runs;
two fail."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest
from databricks.sdk import WorkspaceClient
from databricks.sdk.errors.sdk import OperationFailed
from databricks.sdk.service import compute, jobs
from databricks.sdk.service.jobs import RunResultState
from databricks.sdk.service.workspace import ImportFormat, Language

from tests.spark.live import NODE
from tests.spark.shared import Lent
from tests.support.depth import ALL
from tests.support.packages import make_wheel
from tests.support.patience import SOON
from tests.support.runtimes import SPARK_4

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
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
from IPython.display import HTML, display as show

if __name__ == "__main__":
    spark = SparkSession.builder.getOrCreate()
    plus = neighbour.PLUS  # the workers know nothing of neighbours
    total = spark.range(int(sys.argv[1])).rdd.map(lambda row: plus + row[0]).sum()
    dbutils.fs.put("dbfs:/jobs/total", str(total))
    neighbour.build(spark._jvm)
    print("wrote", total, sys.argv[2])
    print("and this", file=sys.stderr)
    show(HTML("<b>shown</b>"))
    displayHTML("<b>shown</b>")
    display(spark.range(3))
    sys.exit(0)
"""
# A jar, made by the compiler among Spark's own: there may be no other on the machine.
NEIGHBOUR = """
import zipfile
from pathlib import Path

PLUS = 1

def build(jvm):
    here = Path(__file__).parent
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.cook((here / "Main.java").read_text())
    with zipfile.ZipFile(here / "main.jar", "w") as archive:
        archive.writestr("Main.class", bytes(compiler.getBytecodes()["Main"]))
"""
SECOND = """
def broken(text):
    raise ValueError(f"the first task wrote {text}")

print("about to fail")
broken(dbutils.fs.head("dbfs:/jobs/total"))
"""


# Its functions run on the workers, so those have to have it too.
PACKAGE = """
import sys
from pyspark.sql import SparkSession

def plus(row):
    import wheeled
    return wheeled.ONE + row[0]

ONE = 1

def main():
    total = SparkSession.builder.getOrCreate().range(10).rdd.map(plus).sum()
    print("wheel", total, sys.argv[1:])
"""
JAVA = """
import org.apache.spark.sql.SparkSession;

public class Main {
    public static void main(String[] args) throws Exception {
        SparkSession spark = SparkSession.builder().getOrCreate();
        System.out.println("counted " + spark.range(Long.parseLong(args[0])).count());
        if (args.length > 1) {
            throw new IllegalStateException(args[1]);
        }
    }
}
"""


def upload(w: WorkspaceClient, path: str, content: str | bytes) -> str:
    data = content.encode() if isinstance(content, str) else content
    w.dbfs.put(path, contents=base64.b64encode(data).decode(), overwrite=True)
    return f"dbfs:{path}"


def task(key: str, *needs: str, cluster_id: str | None = None, **what: object) -> jobs.SubmitTask:
    return jobs.SubmitTask(
        task_key=key,
        existing_cluster_id=cluster_id,
        new_cluster=None if cluster_id else NEW,
        depends_on=[jobs.TaskDependency(task_key=each) for each in needs],
        **what,  # type: ignore[arg-type] # keyword arguments of a dataclass
    )


def test_tasks_of_every_kind(lent_single: Lent, tmp_path: Path) -> None:
    w, place = lent_single.user.w, lent_single.directory
    upload(w, f"{place}/neighbour.py", NEIGHBOUR)
    upload(w, f"{place}/Main.java", JAVA)
    programs = [upload(w, f"{place}/{number}.py", code.replace("/jobs", place)) for number, code in enumerate((FIRST, SECOND))]
    first = jobs.SparkPythonTask(python_file=programs[0], parameters=["1000", "zwei drei"])
    second = jobs.SparkPythonTask(python_file=programs[1])
    wheel = make_wheel(tmp_path, "wheeled", files={"wheeled/__init__.py": PACKAGE}, scripts={"run": "wheeled:main"})
    packed = [compute.Library(whl=upload(w, f"{place}/{wheel.name}", wheel.read_bytes()))]
    entry = jobs.PythonWheelTask(package_name="wheeled", entry_point="run", named_parameters={"a": "1"})
    program = [compute.Library(jar=f"dbfs:{place}/main.jar")]
    thrown = jobs.SparkJarTask(main_class_name="Main", parameters=["7", "on purpose"])
    waiter = w.jobs.submit(
        run_name="real",
        tasks=[
            task("first", spark_python_task=first),
            task("second", "first", cluster_id=lent_single.cluster_id, spark_python_task=second),
            task("wheel", "first", python_wheel_task=entry, libraries=packed),
            task("jar", "first", spark_jar_task=jobs.SparkJarTask(main_class_name="Main", parameters=["7"]), libraries=program),
            *[task("thrown", "jar", spark_jar_task=thrown, libraries=program) for _ in range(ALL)],  # a cluster more
        ],
    )
    with pytest.raises(OperationFailed, match="second"):
        waiter.result(timeout=SOON)
    run = w.jobs.get_run(waiter.run_id)
    tasks = {each.task_key: each for each in run.tasks or []}
    outputs = {key: w.jobs.get_run_output(each.run_id or 0) for key, each in tasks.items()}
    said = {key: (each.error, each.error_trace) for key, each in outputs.items()}
    results = {key: each.state and each.state.result_state for key, each in tasks.items()}
    good, bad = RunResultState.SUCCESS, RunResultState.FAILED
    assert results == {"first": good, "second": bad, "wheel": good, "jar": good} | ({"thrown": bad} if ALL else {}), said
    assert "wrote 500500 zwei drei" in (outputs["first"].logs or "")
    assert "and this" in (outputs["first"].logs or "")
    assert "<IPython.core.display.HTML object>" in (outputs["first"].logs or "") and "<b>" not in (outputs["first"].logs or "")
    assert "DataFrame[id: bigint]" in (outputs["first"].logs or "")
    assert outputs["second"].logs == "about to fail"
    assert outputs["second"].error == "ValueError: the first task wrote 500500"
    trace = outputs["second"].error_trace or ""
    assert f'broken(dbutils.fs.head("dbfs:{place}/total"))' in trace and "raise ValueError" in trace
    assert "runtime/node" not in trace and "brickyard_task" not in trace, "the traceback is the file's own"
    assert outputs["wheel"].logs == "wheel 55 ['--a=1']"
    assert outputs["jar"].logs == "counted 7"
    if ALL:
        assert outputs["thrown"].error == "java.lang.IllegalStateException: on purpose"
        assert "at Main.main(" in (outputs["thrown"].error_trace or "")
    used = {key: (each.cluster_instance and each.cluster_instance.cluster_id) or "" for key, each in tasks.items()}
    assert used.pop("second") == lent_single.cluster_id
    for each in used.values():
        cluster = w.clusters.get(each)
        assert cluster.cluster_source is compute.ClusterSource.JOB
        assert cluster.state is compute.State.TERMINATED
        assert cluster.termination_reason and cluster.termination_reason.code is compute.TerminationReasonCode.JOB_FINISHED


SETUP = """# Databricks notebook source
tables = ["numbers"]
"""
NOTEBOOK = """# Databricks notebook source
# MAGIC %run ./setup

# COMMAND ----------

dbutils.widgets.text("rows", "1")
spark.range(int(dbutils.widgets.get("rows"))).createOrReplaceTempView(tables[0])

# COMMAND ----------

# MAGIC %sql
# MAGIC select sum(id) as total from numbers

# COMMAND ----------

total = spark.table("numbers").groupBy().sum("id").first()[0]
print("summed", total)
dbutils.jobs.taskValues.set("total", total)
dbutils.notebook.exit(f"total {total}")
"""
AFTER = """
import sys
print("after", sys.argv[1], dbutils.jobs.taskValues.get("notebook", "total") + 1)
"""
# Its statements share a session.
STATEMENTS = """
CREATE TEMPORARY VIEW doubled AS SELECT 2 * id AS id FROM range(100);  -- not: one;
SELECT sum(id) AS total, ';' AS text FROM doubled WHERE id < :rows
"""


@pytest.fixture
def warehouse(lent_single: Lent) -> Iterator[str]:
    w = lent_single.user.w
    asked = {"name": "jobs", "cluster_size": "2X-Small", "node_type_id": NODE}
    made = str(w.api_client.do("POST", "/api/2.0/sql/warehouses", body=asked)["id"])
    yield made
    w.warehouses.delete(made)


def test_a_job_of_a_notebook_sql_and_a_file(lent_single: Lent, warehouse: str) -> None:
    w = lent_single.user.w
    me = w.current_user.me().user_name
    w.workspace.mkdirs(f"/Users/{me}/job")
    for name, source in (("setup", SETUP), ("notebook", NOTEBOOK)):
        w.workspace.upload(f"/Users/{me}/job/{name}", source.encode(), format=ImportFormat.SOURCE, language=Language.PYTHON)
    for name, source in (("after.py", AFTER), ("statements.sql", STATEMENTS)):
        w.workspace.upload(f"/Users/{me}/job/{name}", source.encode(), format=ImportFormat.RAW, overwrite=True)
    on = lent_single.cluster_id
    created = w.jobs.create(
        name="sums",
        parameters=[jobs.JobParameterDefinition(name="rows", default="3")],
        tasks=[
            jobs.Task(
                task_key="notebook",
                existing_cluster_id=on,
                notebook_task=jobs.NotebookTask(notebook_path=f"/Users/{me}/job/notebook"),
            ),
            jobs.Task(
                task_key="sql",
                sql_task=jobs.SqlTask(warehouse_id=warehouse, file=jobs.SqlTaskFile(path=f"/Users/{me}/job/statements.sql")),
            ),
            jobs.Task(
                task_key="after",
                existing_cluster_id=on,
                depends_on=[jobs.TaskDependency(task_key="notebook"), jobs.TaskDependency(task_key="sql")],
                spark_python_task=jobs.SparkPythonTask(
                    python_file=f"/Users/{me}/job/after.py",
                    parameters=["{{tasks.notebook.values.total}} {{tasks.sql.output.first_row.total}}"],
                ),
            ),
        ],
    )
    assert created.job_id
    run = w.jobs.run_now(created.job_id, job_parameters={"rows": "10"}).result(timeout=SOON)
    assert run.state and run.state.result_state is RunResultState.SUCCESS
    (view,) = w.jobs.export_run(int((run.tasks or [])[0].run_id or 0)).views or [jobs.ViewItem()]
    assert view.content and "<td>45</td>" in view.content and "summed 45" in view.content
    told = w.api_client.do("GET", "/api/2.2/jobs/runs/cells", query={"run_id": (run.tasks or [])[0].run_id})
    assert isinstance(told, dict) and [each["state"] for each in told["cells"]] == ["FINISHED"] * 4
    assert told["cells"][1]["widgets"] == {"rows": "10"}
    assert [each["data"] for each in told["cells"][2]["results"]] == [[[45]]]
    assert [each.get("exited", False) for each in told["cells"][3]["results"]] == [False, True]
    first, statements, second = (w.jobs.get_run_output(int(each.run_id or 0)) for each in run.tasks or ())
    assert first.notebook_output and first.notebook_output.result == "total 45"
    assert "summed 45" in (first.logs or "")
    assert statements.sql_output and statements.sql_output.query_output and statements.sql_output.query_output.sql_statements
    last = str(statements.sql_output.query_output.sql_statements[-1].lookup_key)
    answer = w.statement_execution.get_statement_result_chunk_n(last, 0)
    assert answer.external_links
    assert second.logs == "after 45 20 46"
