"""What holds on a driver alone, with local threads: one for all these tests, which leave it as it was."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from brickyard.runtime.node.spark.readiness import GROUP
from tests.node.node import HOST, Node
from tests.support.depth import ALL
from tests.support.patience import PATIENCE_S, until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory, manifest: dict[str, Any]) -> Iterator[Node]:
    made = Node(tmp_path_factory.mktemp("single") / "node", manifest)
    try:
        made.become("single", cores=2, spark_conf={"spark.locality.wait": "1s"})
        made.wait_phase("ready")
        yield made
    finally:
        made.close()


SEEN = f"""
import json
tracker, store = spark.sparkContext.statusTracker(), spark._jsparkSession.sharedState().statusStore()
jobs = len(tracker.getJobIdsForGroup("{GROUP}"))
print(json.dumps([jobs, store.executionsCount(), spark.conf.get("spark.sql.shuffle.partitions")]))
"""


def usual_queries(node: Node) -> int:
    """How many were run, once that is over. A machine that is too busy may allow none."""
    lines: list[str] = until(lambda: [line for line in node.lines if "while nobody used the cluster" in line])
    return int(lines[0].rpartition(" ")[2])


def test_first_queries_are_run_and_count_as_nothing(node: Node) -> None:
    """While nobody has asked for anything: the first of these tests."""
    count = usual_queries(node)
    assert len([status for status in node.history if status.get("busy")]) <= 1, "the job that proves an executor, if anything"
    jobs, queries, partitions = json.loads(node.run(SEEN))
    assert jobs >= count
    assert count or not jobs
    assert queries == 0, "its queries are in no history"
    assert partitions == "200", "its session's settings are its own"
    assert node.run("print(spark.range(10).count())") == "10"
    assert json.loads(node.run(SEEN))[0] == jobs, "it does not begin again"


COMPILED = "sc._jvm.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME().getCount()"
STAGES = "[spark.range(9).selectExpr(f'id * {{n}} + 1')._jdf.queryExecution().debug().codegenToSeq() for n in range({most})]"


@pytest.mark.extended  # a setting; tests/node/test_tuning.py has it set
def test_more_stages_stay_compiled_than_by_sparks_default(node: Node) -> None:
    assert node.run("spark.conf.get('spark.sql.shuffle.partitions')") == "'200'"
    assert node.run("sc.getConf().get('spark.locality.wait')") == "'1s'", "the user's value wins"
    node.run(f"_ = {STAGES.format(most=120)}")
    compiled = int(node.run(COMPILED))
    assert compiled >= 120
    node.run(f"_ = {STAGES.format(most=10)}")  # the oldest: Spark's default keeps a hundred
    assert int(node.run(COMPILED)) == compiled


INTERNAL = (
    "getattr(getattr(sc._jvm, 'org.apache.spark.sql.catalyst.analysis.FunctionRegistry$'), 'MODULE$').internal()"
    ".listFunction().mkString(' ')"
)
VECTORS = """
from pyspark.ml.functions import array_to_vector, vector_to_array
from pyspark.ml.linalg import Vectors
arrays = spark.createDataFrame([(Vectors.dense(1.0, 2.0),)], ["v"]).select(vector_to_array("v", "float32").alias("a"))
arrays.select("a", array_to_vector("a").alias("v")).first()
"""
VECTORS_SHOWN = "Row(a=[1.0, 2.0], v=DenseVector([1.0, 2.0]))"


@pytest.mark.extended  # of a class that changes with a line of Spark
def test_spark_has_all_functions_for_machine_learning(node: Node) -> None:
    """java/spark4/LateFunctions.java registers them in Spark's place."""
    if str(node.manifest["spark_version"]).startswith("3."):  # it has no such registry
        assert node.run(VECTORS) == VECTORS_SHOWN
        return
    before = set(node.run(INTERNAL).strip("'").split())
    assert {"vector_to_array", "array_to_vector", "aggregate_metrics"} <= before
    for _ in range(2):
        assert node.run(VECTORS) == VECTORS_SHOWN
    assert set(node.run(INTERNAL).strip("'").split()) == before, "Spark's own has no more than ours"


RACES = Path(__file__).with_name("java") / "Races.java"
ROUNDS = 1000 if ALL else 200

COMPILE = """
compiler = sc._jvm.org.codehaus.janino.SimpleCompiler()
compiler.setParentClassLoader(sc._jvm.java.lang.Thread.currentThread().getContextClassLoader())
compiler.cook(r'''{source}''')
array, conf, made = sc._gateway.new_array, sc._jsc.hadoopConfiguration(), []
def outcome(top, way, rounds):
    types, values = array(sc._jvm.java.lang.Class, 4), array(sc._jvm.java.lang.Object, 4)
    named = ["java.lang.Object", "java.lang.String", "java.lang.String", "java.lang.Integer"]
    for index, (name, value) in enumerate(zip(named, [conf, top, way, rounds])):
        types[index] = sc._jvm.java.lang.Class.forName(name)
        values[index] = value
    types[0] = conf.getClass()
    return compiler.getClassLoader().loadClass("tests.Races").getConstructor(types).newInstance(values).outcome()
"""
MOVES = """
hadoop = sc._jvm.org.apache.hadoop.fs
fs = hadoop.Path("dbfs:/m").getFileSystem(conf)
context = hadoop.FileContext.getFileContext(hadoop.Path("dbfs:/m").toUri(), conf)
options = array(sc._jvm.org.apache.hadoop.fs.Options.Rename, 1)
options[0] = sc._jvm.org.apache.hadoop.fs.Options.Rename.OVERWRITE
def file(name, text):
    dbutils.fs.put(f"dbfs:/m/{name}", text, True)
    return hadoop.Path(f"dbfs:/m/{name}")
def there(name):
    return dbutils.fs.head(f"dbfs:/m/{name}")
def fails(act):
    try:
        act()
    except Exception as error:
        return next((kind for kind in ("FileAlreadyExists", "FileNotFound") if kind in str(error)), str(error))
"""
# What is done -> what is seen then.
EXPECTED = {
    "fs.rename(file('a', '1'), file('b', '2')), there('a'), there('b')": "(False, '1', '2')",
    "fs.rename(file('a', '1'), hadoop.Path('dbfs:/m/new/c')), there('new/c')": "(True, '1')",
    "fs.rename(file('a', '1'), hadoop.Path('dbfs:/m/new')), there('new/a')": "(True, '1')",
    "fs.rename(hadoop.Path('dbfs:/m/new'), hadoop.Path('dbfs:/m/moved')), there('moved/c')": "(True, '1')",
    "fs.rename(hadoop.Path('dbfs:/m/moved'), hadoop.Path('dbfs:/m/moved/in')), there('moved/c')": "(False, '1')",
    "fails(lambda: fs.rename(hadoop.Path('dbfs:/m/none'), hadoop.Path('dbfs:/m/x')))": "'FileNotFound'",
    "fails(lambda: context.rename(file('a', '1'), file('b', '2'), array(hadoop.Options.Rename, 0))), there('b')":
        "('FileAlreadyExists', '2')",
    "context.rename(file('a', '1'), file('b', '2'), options), there('b'), fs.exists(hadoop.Path('dbfs:/m/a'))":
        "(None, '1', False)",
    # A process that was killed between the two names of a file is finished by the next one.
    "os.link('/dbfs/m/b', '/dbfs/m/d'), fs.rename(hadoop.Path('dbfs:/m/b'), hadoop.Path('dbfs:/m/d')), "
    "fs.exists(hadoop.Path('dbfs:/m/b'))": "(None, True, False)",
}  # fmt: skip


@pytest.mark.any_runtime
def test_a_new_name_has_one_owner(node: Node) -> None:
    """A name that must be new is given to one writer, and an overwrite is one step."""
    node.run(COMPILE.format(source=RACES.read_text()))
    for scheme in ("dbfs:", f"file:{node.directory}/work"):
        for way in ("context", "rename", "create"):
            found = node.run(f"print(outcome('{scheme}/races-{way}', '{way}', {ROUNDS}))")
            assert found.strip() == f"0 0 0 {ROUNDS}", (scheme, way)
    node.run(f"import os\n{MOVES}".replace("/dbfs/", f"{node.directory}/dbfs/"))
    for act, seen in EXPECTED.items():
        assert node.run(act.replace("'/dbfs/", f"'{node.directory}/dbfs/")) == seen, act


FLOOD = 16 << 20
IDLE = 100  # at each port: more than are let wait
ACCUMULATE = "total = sc.accumulator(0); sc.parallelize(range(9), 2).foreach(lambda n: total.add(n)); total.value"
SERVED = "list(sc._jvm.PythonRDD.collectAndServe(sc.parallelize([1])._jrdd.rdd()))[0]"


def ports(process: psutil.Process) -> set[int]:
    """Those that it listens on."""
    return {each.laddr.port for each in process.net_connections("tcp") if each.status == psutil.CONN_LISTEN}


def sent(port: int) -> int:
    """How many bytes of a message without an end the port takes in."""
    count, chunk = 0, b"x" * (1 << 16)
    with socket.create_connection((HOST, port), timeout=PATIENCE_S) as stranger, contextlib.suppress(ConnectionError):
        while count < FLOOD:
            count += stranger.send(chunk)
    return count


@contextlib.contextmanager
def idle(found: list[int]) -> Iterator[list[socket.socket]]:
    """Connections that say nothing."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(socket.create_connection((HOST, port))) for port in found for _ in range(IDLE)]


def sent_away(stranger: socket.socket) -> bool:
    stranger.setblocking(False)
    try:
        return stranger.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


@pytest.mark.any_runtime
def test_strangers_neither_fill_the_memory_nor_delay_what_runs(node: Node) -> None:
    """Processes of other clusters, which reach a node's ports on loopback on the machine's own network (network = shared)."""
    accumulators = int(node.run("sc._accumulatorServer.server_address[1]"))
    first = ports(node.jvm())
    assert len(first) >= 4, "Spark's own two, the node host's, the kernel's"
    assert {port: count for port in {*first, accumulators} if (count := sent(port)) >= FLOOD} == {}

    with idle([*first, accumulators]) as strangers:  # a job that had to wait for them would wait for ever
        assert node.run(ACCUMULATE) == "36"
        assert node.run("spark.range(7).count()", context="another") == "7", "which has a port of its own"
        until(lambda: all(map(sent_away, strangers[-IDLE:])), "who says nothing is not sent away")

    port = int(node.run(SERVED))
    with socket.create_connection((HOST, port)) as stranger:
        stranger.sendall(b"\x7f\xff\xff\xff")  # the length of the secret that follows
        until(lambda: sent_away(stranger), "the stranger is not sent away")
    assert node.run("spark.range(5).count()") == "5"


NAMES = """
spark.sql("CREATE SCHEMA main.sales")
spark.sql("CREATE TABLE hive_metastore.sales.orders (id INT) USING parquet")
spark.sql("INSERT INTO main.sales.orders VALUES (1), (2)")
spark.sql("CREATE VIEW main.sales.two AS SELECT id FROM sales.orders WHERE id = 2")
print(spark.sql("SELECT main.sales.orders.id FROM main.sales.orders JOIN hive_metastore.sales.two USING (id)").collect())
spark.range(3).write.saveAsTable("hive_metastore.sales.more")
spark.sql("ANALYZE TABLE main.sales.more COMPUTE STATISTICS")
print(spark.table("sales.more").count(), spark.catalog.tableExists("main.sales.orders"))
print([row[0] for row in spark.sql("SHOW CATALOGS").collect()])
for choice in ("/* as on Databricks */ USE CATALOG main;", "USE hive_metastore.sales", "use catalog `main`"):
    spark.sql(choice)
    print(*spark.sql("SELECT current_catalog(), current_database()").first())
spark.newSession().sql("DROP SCHEMA main.sales CASCADE")
_ = spark.sql("USE spark_catalog.default")
"""


def test_the_catalog_has_its_names_of_databricks(node: Node) -> None:
    assert node.run(NAMES, context="names").splitlines() == [
        "[Row(id=2)]", "3 True", "['hive_metastore', 'main', 'spark_catalog', 'system']",
        "main default", "main sales", "main default",
    ]  # fmt: skip


def test_scripts_run_where_spark_has_them(node: Node) -> None:
    if not str(node.manifest["spark_version"]).startswith("3."):
        assert node.run("BEGIN DECLARE n INT DEFAULT 2; SELECT n + 1 AS n; END", "sql") == "[[3]]"
        choice = """-- not this: BEGIN USE CATALOG spark_catalog;
            BEGIN
              IF 'USE CATALOG x;' <> r'\\' THEN USE CATALOG `main`; END IF;
              SELECT current_catalog() AS c, 'BEGIN USE CATALOG y;' AS text;
            END"""
        assert node.run(choice, "sql") == "[['main', 'BEGIN USE CATALOG y;']]"
        assert node.run("BEGIN USE CATALOG hive_metastore; SELECT current_catalog() AS c; END", "sql") == "[['hive_metastore']]"
        with pytest.raises(AssertionError, match="PARSE_SYNTAX_ERROR"):
            node.run("BEGIN USE CATALOG main x; END", "sql")


CACHED = """
import glob, shutil
spark.sql("CREATE TABLE lines (line STRING) USING {format}")
spark.sql("INSERT INTO lines VALUES ('1'), ('2')")
spark.catalog.cacheTable("lines")
kept = lambda: len(sc._jsc.sc().getRDDStorageInfo())
print(spark.table("lines").count(), spark.catalog.isCached("lines"), kept(), end=" ")
place = spark.sql("DESCRIBE EXTENDED lines").where("col_name = 'Location'").first().data_type.partition(":")[2]
file = min(glob.glob(place + "/part-*"))
shutil.copy(file, file.replace("/part-", "/part-x"))  # as another cluster writes: Spark does not know of it
print(spark.table("lines").count(), spark.sql("SELECT count(*) FROM lines").first()[0], end=" ")
print(spark.catalog.isCached("lines"), kept(), end=" ")
spark.sql("INSERT INTO lines VALUES ('3')")
print(spark.table("lines").count(), spark.catalog.isCached("lines"))
_ = spark.sql("DROP TABLE lines")
"""


@pytest.mark.parametrize("form", [*(pytest.param(each, marks=pytest.mark.extended) for each in ("text", "csv")), "parquet"])
def test_a_cached_table_is_cached_and_has_what_others_write(node: Node, form: str) -> None:
    assert node.run(CACHED.format(format=form)) == "2 True 1 3 3 True 1 4 True"


POOLS = """
import threading
def pool():
    return sc.getLocalProperty("spark.scheduler.pool")
def look():
    spark.range(3).count()
    print(pool())
look()
thread = threading.Thread(target=look)
thread.start()
thread.join()
sc.setLocalProperty("spark.scheduler.pool", "mine")
look()
"""
MANY = """
for number in range(120):
    sc.setLocalProperty("spark.scheduler.pool", f"session-{number}")
    sc._jsc.parallelize([1], 1).count()
"""
SWEPT = """
sc._jvm.brickyard.SessionOwner.own(spark.newSession()._jsparkSession, "", "session-last", True)
print(sc._jsc.sc().getAllPools().size() < 20)
"""


def test_each_context_has_a_pool_and_pools_do_not_pile_up(node: Node) -> None:
    assert node.run(POOLS, context="one").split() == ["context-one", "context-one", "mine"]
    assert node.run("print(sc.getLocalProperty('spark.scheduler.pool'))", context="one") == "mine", "the choice stays"
    assert node.run("print(sc.getLocalProperty('spark.scheduler.pool'))", context="two") == "context-two"
    node.run(MANY, context="two")
    assert node.run(SWEPT, context="two") == "True"


LONG = "sc.parallelize(range(400), 400).foreach(lambda _: __import__('time').sleep(0.2))"  # 40 s with two cores


def test_a_short_job_does_not_wait_for_all_of_another_contexts_long_one(node: Node) -> None:
    node.run("print(1)", context="short")
    command = node.begin(LONG, context="long")
    begun = f"print(len(sc.statusTracker().getJobIdsForGroup('{command}')))"
    until(lambda: node.run(begun, context="short") != "0")
    assert node.run("print(spark.range(10).count())", context="short") == "10"
    state = node.result("command_status", context_id="long", command_id=command)
    assert state["status"] == "Running"
    node.result("context_destroy", context_id="long")


STREAM = """
query = spark.readStream.format("rate").load().writeStream.format("noop").trigger(processingTime="1 hour").start()
print(query.isActive)
"""


def test_a_stream_is_activity_until_it_ends_with_its_context(node: Node) -> None:
    until(lambda: node.status.get("busy") is False)
    assert node.run(STREAM, context="streaming") == "True"
    until(lambda: node.status.get("busy"))
    before = node.status["last_activity_ms"]
    until(lambda: node.status["last_activity_ms"] > before + 5_000, "activity between two batches")
    node.result("context_destroy", context_id="streaming")
    until(lambda: node.status.get("busy") is False)
