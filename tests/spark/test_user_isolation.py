"""A cluster that keeps its users apart, on real Spark through the official SDK."""

from __future__ import annotations

import io
import json
import secrets
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from databricks.sdk.service import jobs
from databricks.sdk.service.compute import DataSecurityMode, Library, LibraryInstallStatus, Results, ResultType, State
from databricks.sdk.service.jobs import RunResultState

from brickyard.sandbox import launcher
from tests.spark.live import User
from tests.support.packages import make_wheel
from tests.support.patience import SOON, until
from tests.support.ports import free_port
from tests.support.runtimes import SPARK_4, manifest_of
from tests.support.server import TOKEN, Server

pytestmark = [
    pytest.mark.spark, pytest.mark.timeout(900),
    pytest.mark.skipif(launcher.probe().kind != "namespaces", reason="users are kept apart in cells, which take namespaces"),
]  # fmt: skip
VIEW = "spark.range(7).createOrReplaceTempView('mine'); print(spark.table('mine').count(), type(spark).__module__)"
# Of another cluster, where anybody may make functions of classes. Here it would run in the JVM that all users share.
FUNCTION = {
    "identifier": ["case", {"funcName": "of_a_class", "database": ["some", "default"], "catalog": ["none", None],
                            "class": "org.apache.spark.sql.catalyst.FunctionIdentifier"}],
    "className": "org.example.Function",
    "resources": ["seq", []],
    "class": "org.apache.spark.sql.catalyst.catalog.CatalogFunction",
}  # fmt: skip
CALLED = """
import os
spark.sql("create function of_sql(x int) returns int return x + 1")
found = [spark.sql("select of_sql(1)").first()[0], os.path.exists("METASTORE")]
for call in ("select of_a_class(1)", "describe function of_a_class"):
    try:
        found += spark.sql(call).collect()
    except Exception as error:
        found.append("keeps its users apart" in str(error) or str(error))
print(found)
"""
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
# A user's work: a program that his code starts, and files wherever it may have some.
WORK = """
import os, subprocess, sys
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)", "MARK"], start_new_session=True)
for place in ("/tmp", "/var/tmp", "/dev/shm", os.environ["HOME"], os.getcwd()):
    open(f"{place}/MARK", "w").close()
print(len([name for name in os.listdir("/proc") if name.isdigit()]))
"""
# What another makes of it: what he finds, and what he can end.
HARM = """
import os
found = [name for name in os.listdir("/proc") if name.isdigit() and "MARK" in open(f"/proc/{name}/cmdline").read()]
places = ["/tmp", "/var/tmp", "/dev/shm", "/run", os.environ["HOME"], os.path.dirname(os.getcwd())]
found += [name for place in places for _, _, names in os.walk(place) for name in names if "MARK" in name]
for pid in (1, -1):
    try:
        os.kill(pid, 9)
    except ProcessLookupError:
        pass
print(found)
"""
SCOPED = """
def version(_):
    try:
        from scoped import inner
        return inner.VERSION
    except ImportError:
        return "none"
from pyspark.sql.functions import udf
print(version(0), {row[0] for row in spark.range(0, 2, 1, 2).select(udf(version)("id")).collect()})
"""

# What a user tries on Spark's own files and processes; prints what he reached.
ATTACKS = r"""
import os
from pyspark.sql.functions import udf
node, line = os.path.dirname(os.environ["HOME"]), "dbfs:/attacks/line"
raw = "org.apache.hadoop.fs.LocalFileSystem"
os.makedirs("/dbfs/attacks", exist_ok=True)
open("/dbfs/attacks/line", "w").write("a line")
os.symlink(f"{node}/logs", "/dbfs/attacks/logs")
text = lambda path, **options: spark.read.options(**options).text(path).collect()
tries = {
    "event log": lambda: spark.read.format("binaryFile").load(f"file:{node}/logs/eventlog").collect(),
    "log": lambda: text(f"file:{node}/logs/log4j-active.log"),
    "log by a link": lambda: text("dbfs:/attacks/logs/log4j-active.log"),
    "logs": lambda: spark.range(1).write.csv(f"file:{node}/logs/x"),
    "Java's files": lambda: spark.range(1).write.mode("overwrite").csv(f"file:{node}/tmp"),
    "processes": lambda: text("file:/proc/self/task"),
    "dots": lambda: text("dbfs:/../proc/self/environ"),
    "another class": lambda: text("file:/proc/self/environ", **{"fs.file.impl": raw, "fs.file.impl.disable.cache": "true"}),
    "another root": lambda: text("dbfs:/proc/self/environ", **{"fs.brickyard.dbfs.root": "/"}),
    "a setting": lambda: spark.conf.set("spark.hadoop.fs.file.impl", raw),
    "SET": lambda: spark.sql(f"SET fs.file.impl={raw}"),
    "OPTIONS": lambda: spark.sql(f"CREATE TEMPORARY VIEW v USING text OPTIONS (path '{line}', 'fs.x.impl' '{raw}')"),
    "WITH": lambda: spark.range(1).selectExpr(f"(SELECT max(value) FROM text.`{line}` WITH (`fs.x.impl` = '{raw}'))").collect(),
    "shared artifacts": lambda: spark.conf.set("spark.sql.artifact.isolation.enabled", "false"),
    "a view": lambda: spark.range(1).createGlobalTempView("everybodys"),
    "a view in SQL": lambda: spark.sql("CREATE OR REPLACE GLOBAL TEMPORARY VIEW everybodys AS SELECT 1"),
    "a view of files": lambda: spark.sql(f"CREATE GLOBAL TEMPORARY VIEW everybodys USING text OPTIONS (path '{line}')"),
    "ADD FILE file:": lambda: spark.sql("ADD FILE 'file:/proc/self/environ'"),
    "ADD FILE local:": lambda: spark.sql("ADD FILE 'local:/proc/self/environ'"),
    "ADD ARCHIVE": lambda: spark.sql("ADD ARCHIVE '/proc/self/environ'"),
}
reached = []
for name, attack in tries.items():
    try:
        attack()
        reached.append(name)
    except Exception:
        pass
try:  # the codec's name has the value of a variable that only an executor has
    text(line, **{"io.compression.codecs": "${env._SPARK_AUTH_SECRET:-org.apache.hadoop.io.compress.GzipCodec}"})
except Exception as error:
    reached += [] if "${env._SPARK_AUTH_SECRET" in str(error) else [str(error)]
query = spark.readStream.format("rate").load().writeStream.format("memory").queryName("rates").start()
query.processAllAvailable()  # its checkpoint is a temporary file of Spark's own
query.stop()
print("reached", reached)
"""
# The same by code that Spark runs for a user, on the driver and on an executor; then, what that code must reach.
FUNCTIONS = r"""
from pyspark import SparkFiles
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.functions import udf
def attack(_=0):
    import glob, os
    node = os.path.dirname(os.environ["HOME"])
    reached = [each for top in ("/tmp", "/var/tmp", node) for each in glob.glob(top + "/**", recursive=True)
               if any(part in each for part in (".so", ".jar", "log4j", "eventlog", "hsperfdata", "blockmgr", "OTHER"))]
    reached += [name for name in os.environ if name.startswith("_SPARK") or "GATEWAY" in name]
    programs = [open(f"/proc/{pid}/cmdline").read().split(chr(0))[0] for pid in filter(str.isdigit, os.listdir("/proc"))]
    reached += [program for program in programs if program.endswith("java")]
    try:
        os.kill(-1, 0)
    except ProcessLookupError:
        pass
    for place in ("/tmp", "/dev/shm", os.environ["HOME"]):
        open(place + "/OWN", "w").close()
    return repr(reached)
class Reader(DataSourceReader):
    def partitions(self):
        return [InputPartition(attack())]
    def read(self, partition):
        yield (partition.value,)
class Source(DataSource):
    @classmethod
    def name(cls):
        return "attack"
    def schema(self):
        return "reached string"
    def reader(self, schema):
        return Reader()
spark.dataSource.register(Source)
found = {row[0] for row in spark.read.format("attack").load().collect()}
found |= {row[0] for row in spark.range(0, 4, 1, 4).select(udf(attack)("id")).collect()}
spark.sql("ADD FILE 'dbfs:/attacks/line'")
open("/tmp/artifact", "w").write("an artifact")
spark.addArtifacts("/tmp/artifact", file=True)
def read(_):
    return open(SparkFiles.get("line")).read() + open("artifact").read()
print("reached", found, {row[0] for row in spark.range(0, 4, 1, 4).select(udf(read)("id")).collect()})
"""

# A stock client from outside: another user's name and session are what it says, and neither is believed.
CLIENT = """
import sys
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf
spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
print([row[0] for row in spark.range(3).select(udf(lambda n: n + 1, "long")("id")).collect()])
print(spark.conf.get("spark.authenticate.secret", "nothing"))
for statement in ("SELECT reflect('java.lang.System', 'getenv', 'PATH')", "ADD JAR 'file:/tmp/x.jar'"):
    try:
        print("done", spark.sql(statement).collect())
    except Exception as error:
        print("UNRESOLVED_ROUTINE" in str(error) or "keeps its users apart" in str(error))
try:
    spark.table("mine").count()
except Exception as error:
    print("TABLE_OR_VIEW_NOT_FOUND" in str(error))
print(spark.sql("SELECT 1").first()[0])
"""


def attack(server: Server, cluster: str, session: str) -> str:
    """What the client says that poses as a context and names a context's session."""
    assert server.application is not None
    assert server.application.connect is not None
    url = f"sc://localhost:{server.application.connect.port}/;token={TOKEN};x-databricks-cluster-id={cluster}"
    url += f";user_id=context;session_id={session};x-brickyard-user=context"
    argv = [manifest_of(SPARK_4)["python"], "-c", CLIENT, url]
    return subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True, timeout=200).stdout


def said(user: User, cluster: str, context: str, code: str) -> Results:
    results = user.finish(cluster, context, user.begin(cluster, context, code)).results
    assert results is not None
    return results


def check_walls_between(user: User, cluster: str, one: str, other: str) -> None:
    mark = secrets.token_hex(8)
    third = user.context(cluster)
    assert said(user, cluster, third, WORK.replace("MARK", mark)).data == "3", "itself, its program, and the first of its cell"
    assert said(user, cluster, other, HARM.replace("MARK", mark)).data == "[]"
    for context in (one, third):
        assert said(user, cluster, context, "print('alive')").data == "alive"
    assert len(programs(mark)) == 1
    user.w.command_execution.destroy(cluster, third)
    until(lambda: not programs(mark), "the end of what it had started")


def check_packages(user: User, cluster: str, one: str, other: str, top: Path) -> None:
    """What %pip installs is one context's, on the workers as well, and stays when its Python is restarted."""
    wheel = make_wheel(top, "scoped", files={"scoped/__init__.py": "", "scoped/inner.py": "VERSION = '1.0'\n"})
    user.w.dbfs.upload(f"/wheels/{wheel.name}", io.BytesIO(wheel.read_bytes()))
    done = said(user, cluster, one, f"%pip install --no-index /dbfs/wheels/{wheel.name}")
    assert "Successfully installed scoped-1.0" in str(done.data), done
    for _ in range(2):
        assert said(user, cluster, one, SCOPED).data == "1.0 {'1.0'}"
        assert said(user, cluster, other, SCOPED).data == "none {'none'}"
        assert said(user, cluster, one, "dbutils.library.restartPython()").result_type is ResultType.TEXT
    user.w.libraries.install(cluster, [Library(jar="dbfs:/a.jar")])
    until(lambda: next(iter(user.w.libraries.cluster_status(cluster))).status is LibraryInstallStatus.FAILED, "it never fails")
    (status,) = user.w.libraries.cluster_status(cluster)
    assert "USER_ISOLATION" in str(status.messages), "a jar would run in the JVM that all users share"


def check_spark_is_no_way_out(user: User, cluster: str, contexts: Sequence[str]) -> None:
    """What Spark does for a user reaches nothing that the user's own context does not see."""
    assert last_line(said(user, cluster, contexts[0], ATTACKS)) == "reached []"
    marks = [secrets.token_hex(8) for _ in contexts]
    for context, own, other in zip(contexts, marks, reversed(marks), strict=True):
        found = last_line(said(user, cluster, context, FUNCTIONS.replace("OWN", own).replace("OTHER", other)))
        assert found == "reached {'[]'} {'a linean artifact'}", "one sees nothing of the other's, nor of Spark's"


def last_line(results: Results) -> str:
    """Other lines are the client's log."""
    return str(results.data or results.summary).splitlines()[-1]


def programs(mark: str) -> list[Path]:
    """Processes of the whole machine that were started with that argument."""
    return [path for path in Path("/proc").glob("[0-9]*/cmdline") if mark in _read(path)]


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def test_every_context_is_a_session_of_its_own(tmp_path: Path) -> None:
    with Server.running(tmp_path / "workspace", connect_port=free_port()) as server:
        user = User(server.client())
        cluster = user.create("shared", SPARK_4, num_workers=1, data_security_mode=DataSecurityMode.USER_ISOLATION)
        assert user.wait(cluster, State.RUNNING).data_security_mode is DataSecurityMode.USER_ISOLATION
        one, other = user.context(cluster), user.context(cluster)
        assert said(user, cluster, one, VIEW).data == "7 pyspark.sql.connect.session"
        assert said(user, cluster, other, "print(spark.catalog.tableExists('mine'))").data == "False"
        assert said(user, cluster, other, LOOK).data == ""
        assert said(user, cluster, one, "spark.range(0, 90, 1, 5).write.saveAsTable('everybodys')").result_type is ResultType.TEXT
        assert said(user, cluster, other, "print(spark.table('everybodys').count())").data == "90"
        metastore = tmp_path / "workspace" / "metastore"
        function = metastore / "databases" / "default" / "function" / "of_a_class.json"
        function.parent.mkdir(parents=True)
        function.write_text("1\n" + json.dumps({"function": ["case", FUNCTION]}))
        called = said(user, cluster, other, CALLED.replace("METASTORE", str(metastore))).data
        assert "[2, False, True, True]" in str(called).splitlines(), "other lines are the client's log"
        refused = said(user, cluster, other, "sc.parallelize([1]).count()")
        assert "USER_ISOLATION" in str(refused.summary)
        attached: Any = user.w.api_client.do("GET", "/api/2.1/clusters/list-attached", query={"cluster_id": cluster})
        assert {each["context_id"] for each in attached["contexts"]} == {one, other}
        assert attached["connect_sessions"] == [], "contexts are not listed twice"

        check_walls_between(user, cluster, one, other)
        check_spark_is_no_way_out(user, cluster, (one, other))
        check_packages(user, cluster, one, other, tmp_path)
        session = str(said(user, cluster, one, "print(spark.session_id)").data)
        found = attack(server, cluster, session).splitlines()
        assert found == ["[1, 2, 3]", found[1], "True", "True", "True", "1"]
        assert found[1] == "nothing", "Spark's secret is in no session's settings"
        attached = user.w.api_client.do("GET", "/api/2.1/clusters/list-attached", query={"cluster_id": cluster})
        assert {each["user"] for each in attached["connect_sessions"]} <= {"admin@brickyard.local"}

        user.w.dbfs.upload("dbfs:/task.py", io.BytesIO(TASK))
        script = jobs.SparkPythonTask(python_file="dbfs:/task.py", parameters=["5"])
        task = jobs.SubmitTask(task_key="count", existing_cluster_id=cluster, spark_python_task=script)
        run = user.w.jobs.submit(run_name="count", tasks=[task]).result(timeout=SOON)
        assert run.state is not None and run.tasks
        assert run.state.result_state is RunResultState.SUCCESS
        assert user.w.jobs.get_run_output(int(run.tasks[0].run_id or 0)).logs == "pyspark.sql.connect.session 5"
