"""Execution contexts where users are kept apart: each has a Spark Connect session of its own, and nothing else of Spark."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contexts.host import Context, Host, host_of
from tests.contexts.kernel_host import WITH_SECRETS
from tests.node.namesakes import MOUNT
from tests.support.golden import Golden
from tests.support.patience import until
from tests.support.runtimes import SPARK_4

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    with host_of(SPARK_4, tmp_path_factory.mktemp("node"), "isolate") as made:
        yield made


@pytest.fixture(scope="module")
def python(host: Host) -> Context:
    return host.new()


def test_the_namespace(python: Context) -> None:
    assert python.text("type(spark).__module__, sql('select 1').first()[0]") == "('pyspark.sql.connect.session', 1)"
    assert python.text("from pyspark.sql import SparkSession\nSparkSession.builder.getOrCreate() is spark") == "True"
    assert python.text("from pyspark.sql.functions import col\nspark.range(5).where(col('id') > 2).count()") == "2"
    assert "ignored" in python.text("spark.stop(); spark.range(3).count()")
    squares = """
from pyspark.sql.functions import udf
square = udf(lambda value: value * value, "long")
sum(row[0] for row in spark.range(4).select(square("id")).collect())
"""
    assert python.text(squares) == "14"
    assert python.text("dbutils.secrets.get('scope', 'key')") == f"'{python.name}: scope/key'"


def test_tables_and_sql(python: Context) -> None:
    shown = python.run("display(spark.createDataFrame([(1, 'a')], 'n int, s string'))")
    assert (shown["resultType"], shown["data"]) == ("table", [[1, "a"]])
    python.run("CREATE OR REPLACE TEMPORARY VIEW numbers AS SELECT id FROM range(3)", "sql")
    assert python.run("SELECT count(*) AS n FROM numbers", "sql")["data"] == [[3]]
    assert "TABLE_OR_VIEW_NOT_FOUND" in python.failure("SELECT * FROM nowhere", "sql")


def test_notebooks_and_their_parameters(host: Host, python: Context) -> None:
    place = host.node_dir / "notebooks/Users/ada"
    place.mkdir(parents=True)
    (place / "child").write_text("# Databricks notebook source\ndbutils.notebook.exit(dbutils.widgets.get('n') + '!')\n")
    (place / "part").write_text("# Databricks notebook source\n# MAGIC %sql\n# MAGIC select :n as n\n")
    assert python.text("print(dbutils.notebook.run('/Users/ada/child', 60, {'n': 'x'}))") == "x!"
    assert python.run('%run /Users/ada/part $n="5"')["data"] == [["5"]]
    assert python.run("spark.range(1).display()")["data"] == [[0]]
    assert "no widget 'm'" in python.failure("%sql select '${m}'")
    assert python.run("dbutils.data.summarize(spark.range(3))")["data"][0][2] == 3
    assert "'sqlContext' is not defined" in python.failure("sqlContext")


def test_there_is_no_way_into_the_jvm(python: Context, golden: Golden) -> None:
    golden(python.failure("sc.parallelize([1]).count()"))
    assert "JVM_ATTRIBUTE_NOT_SUPPORTED" in python.failure("spark._jvm")
    assert "JVM_ATTRIBUTE_NOT_SUPPORTED" in python.failure("spark.sparkContext")
    assert python.text("import os; [name for name in os.environ if name.startswith('PYSPARK_GATEWAY')]") == "[]"
    task = '%%brickyard_task\n{"kind": "jar", "class": "Main", "jars": []}'
    golden(python.failure(task))


REFUSED = "This cluster keeps its users apart"
JAVA_CALL = "('java.lang.System', 'getProperty', 'user.home')"


@pytest.mark.parametrize("name", ["reflect", "java_method", "try_reflect"])
def test_sql_calls_no_methods_of_the_jvm(python: Context, name: str) -> None:
    for code in (f"SELECT {name}{JAVA_CALL}", f"CREATE TABLE t (c STRING DEFAULT {name}{JAVA_CALL}) USING parquet"):
        assert "RESOLVE" in python.failure(code, "sql")
    assert "RESOLVE" in python.failure(
        f'from pyspark.sql.functions import *\nspark.range(1).select(expr("{name}{JAVA_CALL}")).show()'
    )


@pytest.mark.parametrize(
    "statement",
    [
        "ADD JAR 'file:/tmp/x.jar'",
        "CREATE TEMPORARY FUNCTION f AS 'org.apache.spark.SparkEnv'",
        "CREATE FUNCTION f AS 'org.apache.spark.SparkEnv' USING JAR 'file:/tmp/x.jar'",
        "SELECT TRANSFORM(id) USING 'cat' AS (a STRING) FROM range(1)",
        "CREATE TEMPORARY VIEW v AS SELECT TRANSFORM(id) USING 'cat' AS (a STRING) FROM range(1)",
        "SELECT (SELECT max(a) FROM (SELECT TRANSFORM(id) USING 'cat' AS (a STRING) FROM range(1)))",
    ],
)
def test_sql_brings_no_classes_and_programs_in(python: Context, statement: str) -> None:
    assert REFUSED in python.failure(statement, "sql")


def test_clients_bring_no_classes_in(host: Host, python: Context) -> None:
    jar = host.node_dir / "work" / "x.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr("X.class", "")
    assert REFUSED in python.failure(f"spark.addArtifacts({str(jar)!r})")
    assert REFUSED in python.failure("spark.udf.registerJavaFunction('f', 'java.lang.String')")
    derby = "spark.read.format('jdbc').options(url='jdbc:derby:memory:x;create=true', dbtable='sys.systables').load()"
    assert "connection providers" in python.failure(derby)
    forged = """
from pyspark.sql.connect import proto
plan = proto.Plan(root=proto.Relation(project=proto.Project(expressions=[proto.Expression(
    common_inline_user_defined_function=proto.CommonInlineUserDefinedFunction(
        scalar_scala_udf=proto.ScalarScalaUDF(payload=b"gadget")))])))
request = spark.client._execute_plan_request_with_metadata()
request.plan.CopyFrom(plan)
list(spark.client._stub.ExecutePlan(request, metadata=spark.client._builder.metadata()))
"""
    assert REFUSED in python.failure(forged)
    assert python.text("spark.range(3).count()") == "3"


def test_settings_hold_no_secrets(python: Context) -> None:
    for name in ("spark.authenticate.secret", "spark.connect.authenticate.token", "spark.brickyard.connect.token"):
        assert python.text(f"spark.conf.get({name!r}, 'nothing')") == "'nothing'"
    for statement in ("SET", "SET -v", "SET spark.authenticate.secret", "SELECT '${spark.redaction.regex}'"):
        shown = str(python.run(statement, "sql"))
        assert "the-secret" not in shown
        assert "cluster-" not in shown, statement
    for key in (*WITH_SECRETS, "spark.redaction.string.regex"):
        assert python.text(f"spark.conf.get({key!r}, 'nothing')") == "'nothing'"
        assert "cluster-" not in str(python.run(f"SELECT '${{{key}}}', '${{spark:{key}}}'", "sql"))


SHARED = "spark.sql.artifact.isolation.enabled"


def test_no_session_shares_its_artifacts(python: Context) -> None:
    for key in (SHARED, SHARED.upper(), f" {SHARED}"):
        assert REFUSED in python.failure(f"spark.conf.set({key!r}, 'false')")
    for statement in (
        f"SET {SHARED}=false",
        f"SET `{SHARED}` = false",
        f"SET {SHARED.upper()}=false",
        f"EXECUTE IMMEDIATE 'SET {SHARED}=false'",
        f"SET spark.x={SHARED}",
        "SET ${spark.x}=false",
    ):
        python.run(statement, "sql")
        assert python.text(f"spark.conf.get({SHARED!r})") == "'true'", statement
    for reset in (f"spark.conf.unset({SHARED!r})", f"spark.sql('RESET {SHARED}')", "spark.sql('RESET')"):
        python.run(reset)
        assert python.text(f"spark.conf.get({SHARED!r})") == "'true'", reset


def test_the_token_of_a_context_is_good_for_its_session_only(host: Host, python: Context) -> None:
    other = host.new()
    theirs = other.text("spark.session_id").strip("'")
    other.run("spark.range(3).createOrReplaceTempView('theirs')")
    peek = f"""
import os, re
from pyspark.sql.connect.session import SparkSession
url = re.sub("session_id=[^;]*", "session_id={theirs}", os.environ["SPARK_REMOTE"])
SparkSession.builder.remote(url).create().table("theirs").count()
"""
    assert "another session" in python.failure(peek)
    posing = """
import os
from pyspark.sql.connect.session import SparkSession
url = os.environ["SPARK_REMOTE"].replace("user_id=context", "user_id=somebody")
SparkSession.builder.remote(url).create().range(1).count()
"""
    assert python.text(posing) == "1", "the name that a client gives itself is not used"
    assert host.connected() == []
    host.destroy(other.name)


def test_contexts_see_nothing_of_one_another(host: Host, python: Context) -> None:
    other = host.new()
    python.run("spark.range(1).createOrReplaceTempView('mine'); spark.conf.set('spark.sql.shuffle.partitions', '3')")
    assert "TABLE_OR_VIEW_NOT_FOUND" in other.failure("spark.table('mine').count()")
    assert other.text("spark.conf.get('spark.sql.shuffle.partitions')") != "'3'"
    pid, session = python.text("os.getpid()"), python.text("spark.session_id")
    assert session != other.text("spark.session_id")
    if os.getuid() != 0:  # who may read everything reads this too; nodes have no such user
        assert "PermissionError" in other.failure(f"open('/proc/{pid}/environ').read()")
    # Neither the key that kernels sign with nor a socket at which somebody could listen is left to be found.
    kernels = [path for path in (host.node_dir / "tmp").iterdir() if path.name.startswith("kernel-")]
    assert len(kernels) >= 2
    for path in kernels:
        until(lambda path=path: not _found(path), "a kernel that is shut in")  # type: ignore[misc] # the path of this turn
    host.destroy(other.name)


def _found(kernel: Path) -> list[Path]:
    return [*kernel.glob("connection.json"), *kernel.glob("k-*")]


SLOW = """
import time
from threading import Thread
from pyspark.sql.functions import udf
def work(): spark.range(2).select(udf(lambda _: time.sleep(600))("id")).collect()
"""


@pytest.mark.parametrize("how", ["work()", "Thread(target=work).start(); time.sleep(600)"])
def test_a_cancelled_command_ends_what_it_runs(host: Host, python: Context, how: str) -> None:
    assert python.cancel_once(SLOW + how, running="job")["status"] == "Cancelled"
    until(lambda: host.active_jobs() == [], "the end of its jobs")
    assert python.text("spark.range(3).count(), spark.getTags()").endswith("(3, set())"), "after what the thread may have said"


def test_a_context_that_ends_takes_its_session_along(host: Host) -> None:
    one = host.new()
    session = one.text("spark.session_id").strip("'")
    assert session in host.sessions()
    assert host.time_limits()[session] == -1, "it may be idle for as long as its context"
    assert host.connected() == [], "they are contexts, and not clients from outside"
    one.start("import time; spark.range(1).createOrReplaceTempView('mine'); time.sleep(600)")
    host.destroy(one.name)
    until(lambda: session not in host.sessions(), "the end of the session")


def test_a_wheel_reaches_the_workers(host: Host, python: Context) -> None:
    wheel = host.node_dir / "work" / "shapes-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("shapes.py", "def corners(n): return n + 2\n")
        archive.writestr("shapes-1.0.dist-info/WHEEL", "Root-Is-Purelib: true\n")
        archive.writestr("shapes-1.0.dist-info/METADATA", "Name: shapes\nVersion: 1.0\n")
    add = f"""
{MOUNT}
from _brickyard_node.kernel.wheels import add_wheel
from pathlib import Path
add_wheel(Path({str(wheel)!r}), spark, Path(os.environ["JUPYTER_RUNTIME_DIR"]))
"""
    python.run("import os")
    assert python.run(add)["resultType"] == "text"
    call = """
from pyspark.sql.functions import udf
def corners(n):
    import shapes
    return shapes.corners(n)
[row[0] for row in spark.range(2).select(udf(corners, "long")("id")).collect()]
"""
    assert python.text(call) == "[2, 3]"


def test_tags_are_the_users_own(python: Context) -> None:
    python.run("spark.addTag('own')")
    assert python.text("spark.range(2).count(), spark.getTags()") == "(2, {'own'})"
    python.run("spark.clearTags()")
    assert python.text("spark.range(2).count(), spark.getTags()") == "(2, set())"
