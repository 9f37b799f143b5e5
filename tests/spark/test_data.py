"""Where data lives: what a node writes, all read, and tables that a cluster makes, all have. Real Spark of two versions."""

from __future__ import annotations

import base64
import fcntl
import hashlib
import hmac
import io
import json
import re
import shutil
from typing import Any

import pytest
from databricks.sdk.service.catalog import VolumeType
from databricks.sdk.service.compute import CommandStatus, Kind, ResultType, State
from databricks.sdk.service.workspace import ImportFormat

from tests.spark.live import EXECUTOR, Live
from tests.support.depth import ALL
from tests.support.patience import until
from tests.support.runtimes import OTHER, SPARK_4

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

SINGLE: dict[str, Any] = {"is_single_node": True, "kind": Kind.CLASSIC_PREVIEW}


NO_LAYERS = {"spark.brickyard.layers": ""}  # the runtime by itself; Delta: test_delta.py


@pytest.fixture(scope="module")
def several(live: Live) -> str:
    """A cluster of a driver and two workers on Spark 4."""
    speculation = {"": "true", ".interval": "200ms", ".multiplier": "1.5", ".quantile": "0.5"}
    conf = {
        "spark.sql.shuffle.partitions": "4",
        **NO_LAYERS,
        **{f"spark.speculation{key}": value for key, value in speculation.items()},
    }
    return live.create("several", SPARK_4, num_workers=2, spark_conf=conf)


@pytest.fixture(scope="module")
def single(live: Live, several: str) -> str:
    """A cluster of one node, on another line of Spark if all are tested."""
    return live.create("single", OTHER, spark_conf={"spark.sql.shuffle.partitions": "2", **NO_LAYERS}, **SINGLE)


def lines(several: str, single: str) -> tuple[str, ...]:
    """A cluster of each line of Spark that is tested, for what it does alone."""
    return (several, single) if OTHER != SPARK_4 else (several,)


def both_ways(several: str, single: str) -> tuple[tuple[str, str], ...]:
    """One that makes something and one that sees it: the other way round, too, if they are on two lines of Spark."""
    return ((several, single), (single, several))[: len(lines(several, single))]


TABLES = """
import json
spark.range(0, 100, 1, 8).write.saveAsTable("t")
spark.sql("create table c as select id, id % 3 as k from t")
spark.sql("create database d")
spark.sql("create table d.p (v bigint, k bigint) using parquet partitioned by (k)")
spark.sql("insert into d.p select id, k from c")
spark.sql("insert overwrite d.p partition (k = 0) select id from t where id < 7")
spark.sql("create view even as select id from t where id % 2 = 0")
spark.range(3).write.saveAsTable("gone")
spark.sql("drop table gone")
"""
REFUSED = """
import json
from pyspark.errors import AnalysisException
said = []
for statement in ("drop database d", "alter table d.p add partition (k = 1)", "insert overwrite t select * from t"):
    try:
        spark.sql(statement)
    except AnalysisException as error:  # as Spark means it: programs catch it
        said.append(str(error).split("]")[0])
spark.sql("alter table d.p add partition (k = 7) location 'dbfs:/elsewhere'")
spark.sql("insert into d.p partition (k = 7) select id from range(20)")
said.append(spark.table("d.p").where("k = 7").count())
spark.sql("alter table d.p drop partition (k = 7)")
print(json.dumps(said))
"""
COUNTS = """
import json
counts = [spark.table(name).count() for name in ("t", "c", "d.p", "even")]
kind = spark.sql("describe extended c").where("col_name = 'Provider'").first()[1]
print(json.dumps([counts, kind, spark.catalog.tableExists("gone"), spark.sql("show partitions d.p").count()]))
"""
COUNTED = [[100, 100, 7 + 66, 50], "parquet", False, 3]

SAME_FILES = """
import json, os
rows = spark.range(0, 1000, 1, 6)
rows.write.mode("overwrite").parquet("dbfs:/data/one")
rows.write.mode("overwrite").parquet("dbfs:///data/one")
rows.write.parquet("/dbfs/data/two")
rows.write.parquet("file:/dbfs/data/three")
rows.write.option("header", True).csv("/data/four")
rows.rdd.map(lambda row: str(row.id)).saveAsTextFile("dbfs:/data/five")
spark.sql("create table located using json location 'dbfs:/data/six' as select * from range(1000)")
found = [
    spark.read.parquet("/dbfs/data/one").count(), spark.read.parquet("dbfs:/data/two").count(),
    spark.read.parquet("file:///dbfs/data/three").count(), spark.sql("select * from csv.`dbfs:/data/four`").count() - 6,
    sc.textFile("dbfs:///data/five").count(), spark.read.json("/data/six").count(),
]
spark.sql("drop table located")
shown = {entry.name for entry in dbutils.fs.ls("dbfs:/data")} == {name + "/" for name in os.listdir("/dbfs/data")}
sums = [name for _, _, names in os.walk("/dbfs/data") for name in names if name.endswith(".crc")]
print(json.dumps([found, shown, len(os.listdir("/dbfs/data")), sums]))
"""

OTHER_TREES = """
import importlib, json, os, sys
top = "/Volumes/main/default/data"
rows = spark.range(0, 1000, 1, 6)
rows.write.parquet(f"dbfs:{top}/one")
rows.write.parquet(f"{top}/two")
rows.write.parquet(f"file:{top}/three")
rows.write.parquet("/Workspace/Shared/four")
rows.write.parquet("file:/Workspace/Shared/five")
spark.sql(f"create table in_volume using json location 'dbfs:{top}/six' as select * from range(1000)")
found = [
    spark.read.parquet(f"file:{top}/one").count(), spark.read.parquet(f"dbfs:{top}/two").count(),
    spark.read.parquet(f"{top}/three").count(), spark.sql("select * from parquet.`file:/Workspace/Shared/four`").count(),
    spark.read.parquet("dbfs:/Workspace/Shared/five").count(), spark.table("in_volume").count(),
]
spark.sql("drop table in_volume")
sys.path.append("/Workspace/Shared")
import from_the_workspace
read = lambda _: open("/Volumes/main/default/data/uploaded").read()  # on the workers
texts = set(sc.parallelize(range(8), 8).map(read).collect()) | {from_the_workspace.TEXT, dbutils.fs.head(f"{top}/uploaded")}
with open(f"{top}/written", "w") as file:
    file.write("by Python")
print(json.dumps([found, sorted(texts), sorted(entry.path for entry in dbutils.fs.ls(top))]))
"""

STREAM = """
import json
rows = spark.readStream.schema("id long").parquet("dbfs:/data/one")
for _ in range(2):  # the second finds in the checkpoint that there is nothing new
    query = rows.writeStream.format("parquet").option("checkpointLocation", "dbfs:/data/checkpoint").trigger(
        availableNow=True).start("dbfs:/data/streamed")
    query.awaitTermination()
grouped = rows.groupBy((rows.id % 2).alias("k")).count().writeStream.format("memory").queryName("grouped").outputMode(
    "complete").trigger(availableNow=True).start()
grouped.awaitTermination()
import os
streamed = spark.read.parquet("dbfs:/data/streamed").count()
print(json.dumps([streamed, spark.table("grouped").count(), sorted(os.listdir("/dbfs"))]))
"""

ONE_NODE_ONLY = """
import json, os, re
rows = spark.range(0, 10, 1, 4)
stream = spark.readStream.format("rate").load()
def checkpointed():
    stream.writeStream.format("memory").queryName("m").option("checkpointLocation", "file:/tmp/check").start().stop()
def set_checkpoint_dir():
    sc.setCheckpointDir("file:/tmp/checkpoints")
tries = {
    "parquet": lambda: rows.write.parquet("file:/tmp/p"), "csv": lambda: rows.write.csv("file:///tmp/c"),
    "json": lambda: rows.write.json("file:/var/tmp/j"), "orc": lambda: rows.write.mode("overwrite").orc("file:/tmp/o"),
    "text": lambda: rows.selectExpr("string(id)").write.text("file:/tmp/t"),
    "rdd": lambda: rows.rdd.saveAsTextFile("file:/tmp/r"),
    "table": lambda: rows.write.option("path", "file:/tmp/x").saveAsTable("x"),
    "around": lambda: rows.write.parquet("file:/cluster/../tmp/around"),
    "checkpoint": checkpointed, "set_checkpoint_dir": set_checkpoint_dir,
}
said = {}
for name, act in tries.items():
    try:
        act()
        said[name] = "it succeeded"
    except Exception as error:
        said[name] = (re.findall("file:[^ ]+ is on one node only.*", str(error)) or [str(error)])[0]
named = {  # what the program wrote to, not what Spark and Hadoop make below it
    "parquet": "/tmp/p", "csv": "/tmp/c", "json": "/var/tmp/j", "orc": "/tmp/o", "text": "/tmp/t", "rdd": "/tmp/r",
    "table": "/tmp/x", "around": "/tmp/around",
}
print(json.dumps([said, named, os.path.exists("/tmp/p")]))
"""


def test_every_row_of_a_table_is_there_on_every_cluster(live: Live, several: str, single: str) -> None:
    live.wait(several, State.RUNNING, workers=2)
    live.run_kept(several, TABLES)
    live.wait(single, State.RUNNING)
    for cluster in (several, single):
        assert json.loads(live.run_kept(cluster, COUNTS)) == COUNTED
    live.run_kept(single, "spark.sql('insert into t values (1000)')")
    assert live.run_kept(several, "print(spark.table('t').count())") == "101", "what it had read of it is not what there is"
    live.run_kept(single, "spark.sql('truncate table t'); spark.range(0, 100, 1, 8).write.insertInto('t')")


CHANGED = """
spark.sql("create table made (id bigint, v string) using orc comment 'first'")
spark.sql("insert into made values (1, 'a'), (2, 'b')")
spark.sql("analyze table made compute statistics for all columns")
spark.sql("alter table made rename to renamed")
spark.sql("alter table renamed set tblproperties ('k' = 'v')")
spark.sql("alter table d.p partition (k = 1) rename to partition (k = 11)")
spark.sql("create or replace view d.v as select v from renamed")
spark.sql("create database d2 comment 'second' location 'dbfs:/d2'")
spark.sql("create function d2.f as 'org.example.F'")
"""
SEEN = """
import json
table = spark._jsparkSession.sessionState().catalog().externalCatalog().getTable("default", "renamed")
stats = table.stats().get()
print(json.dumps([
    spark.catalog.tableExists("made"), spark.table("renamed").count(), str(stats.rowCount().get()), stats.colStats().size(),
    spark.sql("show tblproperties renamed ('k')").first()[1], [r.v for r in spark.table("d.v").orderBy("v").collect()],
    spark.sql("describe database d2").where("info_name = 'Location'").first()[1],
    [r.function for r in spark.sql("show user functions in d2").collect() if r.function not in ("session_user", "read_files")],
    spark.table("d.p").where("k = 11").count(),
    sorted(r.tableName for r in spark.sql("show tables in d").collect()),
    sorted(r.namespace for r in spark.sql("show databases").collect()),
]))
"""
CHANGED_BACK = """
import json
spark.sql("alter table d.p partition (k = 11) rename to partition (k = 1)")
spark.sql("drop table renamed")
spark.sql("create table renamed (other string) using csv")
spark.sql("insert into renamed values ('x')")
spark.sql("drop view d.v")
spark.sql("drop database d2 cascade")
"""


def test_what_one_cluster_changes_the_other_sees(live: Live, several: str, single: str) -> None:
    for maker, other in both_ways(several, single):
        live.run_kept(maker, CHANGED)
        assert json.loads(live.run_kept(other, SEEN)) == [
            False, 2, "2", 2, "v", ["a", "b"], "dbfs:/d2", ["spark_catalog.d2.f"], 33, ["p", "v"], ["d", "d2", "default"],
        ]  # fmt: skip
        live.run_kept(other, CHANGED_BACK)
        assert live.run_kept(maker, "print(spark.table('renamed').collect()[0].other, spark.table('renamed').count())") == "x 1"
        live.run_kept(maker, "spark.sql('drop table renamed')")


ADDED = """
import threading
def add(first):
    for k in range(first, first + 10):
        spark.sql(f"alter table added add partition (k = {k})")
threads = [threading.Thread(target=add, args=(FIRST + at,)) for at in (0, 10)]
[each.start() for each in threads]
[each.join() for each in threads]
"""


def test_clusters_that_change_one_table_lose_no_change(live: Live, several: str, single: str) -> None:
    live.run_kept(single, "spark.sql('create table added (id bigint, k bigint) using parquet partitioned by (k)')")
    adding = [(each, context := live.context(each), live.begin(each, context, ADDED.replace("FIRST", first)))
              for each, first in ((several, "100"), (single, "200"))]  # fmt: skip
    for each, context, command in adding:
        assert live.finish(each, context, command).status is CommandStatus.FINISHED
    assert live.run_kept(several, "print(spark.sql('show partitions added').count())") == "40"


CONTESTED = """
import glob, json, os, time
from pyspark.errors import AnalysisException
os.makedirs("/dbfs/contested", exist_ok=True)
said = []
for number in range(8):
    open(f"/dbfs/contested/{number}-CLUSTER", "w").close()
    until = time.monotonic() + 120
    while len(glob.glob(f"/dbfs/contested/{number}-*")) < 2 and time.monotonic() < until:
        time.sleep(0.005)
    rows = "select 'CLUSTER' as made_by, id from range(100)"
    try:
        if number % 2:
            spark.sql(f"create table contested{number} using csv as {rows}")
        else:
            spark.sql(f"create table contested{number} (made_by string, id bigint) using csv")
            spark.sql(f"insert into contested{number} {rows}")
        said.append("won")
    except AnalysisException as error:
        said.append(str(error).split("]")[0])
print(json.dumps(said))
"""
MADE_BY = """
import json
names = [f"contested{number}" for number in range(8)]
print(json.dumps([[list(row) for row in spark.table(each).groupBy("made_by").count().collect()] for each in names]))
for each in names:
    spark.sql(f"drop table {each}")
"""


def test_of_two_clusters_that_create_one_table_one_does(live: Live, several: str, single: str) -> None:
    contexts = {each: live.context(each) for each in (several, single)}
    begun = {each: live.begin(each, contexts[each], CONTESTED.replace("CLUSTER", each)) for each in contexts}
    ended = {each: live.finish(each, contexts[each], begun[each]).results for each in contexts}
    said = {each: json.loads(str(results.data)) for each, results in ended.items() if results is not None}
    made = json.loads(live.run_kept(several, MADE_BY))
    for number, rows in enumerate(made):
        each = {cluster: said[cluster][number] for cluster in said}
        assert sorted(each.values()) == ["[TABLE_OR_VIEW_ALREADY_EXISTS", "won"], each
        assert rows == [[next(cluster for cluster in each if each[cluster] == "won"), 100]], "the other's rows are not in it"
    live.w.dbfs.delete("/contested", recursive=True)


ELSEWHERE = """
spark.range(0, 300, 1, 3).selectExpr("id", "id % 3 as k").write.partitionBy("k").parquet("dbfs:/elsewhere/parts")
spark.sql("create table parts (id bigint, k bigint) using parquet partitioned by (k) location 'dbfs:/elsewhere/parts'")
spark.range(3).createOrReplaceTempView("mine")
spark.range(3).createOrReplaceGlobalTempView("mine_too")
print(spark.table("parts").count())
"""
FOUND_PARTS = """
import json
spark.sql("msck repair table parts")
temporary = [row.name for name in ("default", "global_temp") for row in spark.catalog.listTables(name) if row.isTemporary]
print(json.dumps([spark.table("parts").count(), spark.sql("show partitions parts").count(), temporary]))
"""
DROPPED_PARTS = """
print(spark.table("parts").count())
spark.sql("drop table parts")
_ = spark.catalog.dropGlobalTempView("mine_too")
"""


def test_a_table_with_a_location_is_every_clusters_and_its_files_outlive_it(live: Live, several: str, single: str) -> None:
    for maker, other in both_ways(several, single):
        assert live.run(maker, ELSEWHERE) == "0", "nobody has told the catalog of its partitions"
        assert json.loads(live.run_kept(other, FOUND_PARTS)) == [300, 3, []], "temporary views are their session's"
        assert live.run_kept(maker, DROPPED_PARTS) == "300"
        assert live.run_kept(other, "print(spark.read.parquet('dbfs:/elsewhere/parts').count())") == "300"
        live.w.dbfs.delete("/elsewhere", recursive=True)


def test_sparks_own_errors_come_through(live: Live, several: str, single: str) -> None:
    for cluster in lines(several, single):
        nonempty, there, itself, elsewhere = json.loads(live.run_kept(cluster, REFUSED))
        assert (nonempty, there) == ("[SCHEMA_NOT_EMPTY", "[PARTITIONS_ALREADY_EXIST")
        assert itself.startswith("[UNSUPPORTED_OVERWRITE") and elsewhere == 20


MISSING = """
import json
from pyspark.errors import AnalysisException
another = spark.newSession()
another.sql("create table of_another as select 1 as id")
another.sql("create temporary view its_own as select 1 as id")
seen = [another.table("t").count(), spark.table("of_another").count(), spark.catalog.tableExists("its_own")]
spark.sql("drop table of_another")
said = []
for statement in (
    "select * from missing", "select * from missing_too.t", "insert into missing values (1)", "drop table missing",
    "select missing_function(1)", "alter table missing add partition (k = 1)", "refresh table missing", "use missing_too",
    "select * from of_another", "msck repair table missing", "alter view missing as select 1", "describe its_own",
):
    for session in (spark, another):
        try:
            session.sql(statement)
            said.append("")
        except AnalysisException as error:
            said.append(str(error).split("]")[0])
print(json.dumps([seen, said]))
"""


def test_what_is_not_there_is_named_as_spark_names_it_in_every_session(live: Live, several: str, single: str) -> None:
    for cluster in lines(several, single):
        seen, said = json.loads(live.run_kept(cluster, MISSING))
        assert seen == [100, 1, False]
        of_others, own = said[:-2], said[-2:]
        table, function, schema = "[TABLE_OR_VIEW_NOT_FOUND", "[UNRESOLVED_ROUTINE", "[SCHEMA_NOT_FOUND"
        expected = [table, table, table, table, function, table, table, schema, table, table, table]
        assert of_others == [each for each in expected for _ in range(2)]
        assert own == [table, ""], "a temporary view is its session's"


TURNS = """
import glob, os, time
os.makedirs("/dbfs/turns", exist_ok=True)
for number in range(4):
    open(f"/dbfs/turns/{number}-OWN", "w").close()
    until = time.monotonic() + 120
    while len(glob.glob(f"/dbfs/turns/{number}-*")) < 2 and time.monotonic() < until:
        time.sleep(0.005)
    spark.sql(f"insert overwrite turns partition (k = OWN) select id from range({100 + number})")
    spark.sql(f"insert into turns partition (k = 2) select id from range(10)")
    spark.sql(f"insert overwrite turns partition (k = 3) select OWN from range(50)")
"""
TAKEN = """
import json
found = {row.k: row["count"] for row in spark.table("turns").groupBy("k").count().collect()}
winners = [row.id for row in spark.table("turns").where("k = 3").distinct().collect()]
print(json.dumps([[found.get(k) for k in range(4)], len(winners), spark.sql("show partitions turns").count()]))
"""


def test_clusters_that_overwrite_partitions_of_one_table_keep_each_others_rows(live: Live, several: str, single: str) -> None:
    live.run_kept(single, "spark.sql('create table turns (id bigint, k bigint) using parquet partitioned by (k)')")
    contexts = {each: live.context(each) for each in (several, single)}
    begun = {each: live.begin(each, contexts[each], TURNS.replace("OWN", own)) for each, own in ((several, "0"), (single, "1"))}
    for each, context in contexts.items():
        ended = live.finish(each, context, begun[each])
        assert ended.results is not None and ended.results.result_type is ResultType.TEXT, ended
    for each in contexts:
        assert json.loads(live.run_kept(each, TAKEN)) == [[103, 103, 80, 50], 1, 4], "the last overwrite counts, and each append"
    live.w.dbfs.delete("/turns", recursive=True)


MISSING_FORMATS = """
tries = {
    "delta": lambda: spark.sql("create table x (id int) using delta"),
    "DELTA": lambda: spark.sql("create table x using DELTA as select 1 as id"),
    "iceberg": lambda: spark.range(3).write.format("iceberg").saveAsTable("x"),
    "Iceberg": lambda: spark.read.format("Iceberg").load("dbfs:/data"),
    "Delta": lambda: spark.readStream.format("Delta").load("dbfs:/data"),
    "delta ": lambda: spark.conf.set("spark.sql.sources.default", "delta") or spark.range(1).write.saveAsTable("x"),
}
try:
    sc._jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass("org.apache.iceberg.spark.SparkCatalog")
    tries = {name: act for name, act in tries.items() if name.lower() != "iceberg"}
except Exception:
    pass  # Spark 3.5 has it only if its JAR could be fetched
for name, act in tries.items():
    try:
        act()
        print("it succeeded")
    except Exception as error:
        wanted = f"The format {name.strip()} is not part of this cluster's runtime. Use USING PARQUET"
        print(wanted in str(error), type(error).__name__)
spark.conf.unset("spark.sql.sources.default")
try:
    spark.sql("select * from delta.`dbfs:/data`").show()
except Exception as error:
    print("UNSUPPORTED_DATASOURCE_FOR_DIRECT_QUERY" in str(error), "delta" in str(error))
print(spark.catalog.tableExists("x"))
"""


def test_formats_that_the_runtime_lacks_are_refused_with_what_to_do(live: Live, several: str, single: str) -> None:
    for cluster in lines(several, single):
        *said, there = live.run_kept(cluster, MISSING_FORMATS).splitlines()
        assert {each.split()[0] for each in said} == {"True"} and len(said) in ((7,) if cluster == several else (5, 7)), said
        assert there == "False"


def test_spark_programs_and_dbutils_see_the_same_files(live: Live, several: str, single: str) -> None:
    for cluster in lines(several, single):
        assert json.loads(live.run_kept(cluster, SAME_FILES)) == [[1000] * 6, True, 6, []]
        found, groups, top = json.loads(live.run(cluster, STREAM))
        assert (found, groups, top) == (1000, 2, ["data", "user"])
        live.w.dbfs.delete("/data", recursive=True)


def test_volumes_and_the_workspace_are_seen_by_all_that_runs_on_a_cluster(live: Live, several: str, single: str) -> None:
    files, workspace = live.w.files, live.w.workspace
    for cluster in lines(several, single):
        live.w.volumes.create("main", "default", "data", VolumeType.MANAGED)
        top = "/Volumes/main/default/data"
        files.upload(f"{top}/uploaded", io.BytesIO(b"uploaded"))
        workspace.upload("/Shared/from_the_workspace.py", b"TEXT = 'imported'", format=ImportFormat.AUTO, overwrite=True)
        found, texts, shown = json.loads(live.run_kept(cluster, OTHER_TREES))
        assert (found, texts) == ([1000] * 6, ["imported", "uploaded"])
        names = ["one/", "six/", "three/", "two/", "uploaded", "written"]
        assert shown == [f"dbfs:{top}/{name}" for name in names]
        shell = live.run_kept(cluster, f"%sh cat {top}/written /Workspace/Shared/from_the_workspace.py")
        assert shell.strip() == "by PythonTEXT = 'imported'"
        assert files.download(f"{top}/written").contents.read() == b"by Python"  # type: ignore[union-attr]
        live.w.volumes.delete("main.default.data")
        for name in ("four", "five"):
            workspace.delete(f"/Shared/{name}", recursive=True)


def test_what_others_would_not_see_is_refused(live: Live, several: str, single: str) -> None:
    refused, named, written = json.loads(live.run_kept(several, ONE_NODE_ONLY))
    for name, said in refused.items():
        assert "file:" in said and "dbfs:/" in said, (name, said)
    for name, path in named.items():
        assert f"file:{path} " in refused[name] and f"dbfs:{path} " in refused[name], (name, refused[name])
    assert len(refused) == 10 and not written
    alone = "spark.range(9).write.parquet('file:/tmp/p'); print(spark.read.parquet('file:/tmp/p').count())"
    assert live.run_kept(single, alone) == "9"


SLOW = """
import os, time
from pyspark import TaskContext
def slow_rows(first, last, parts, mark):
    def task(rows):
        for number in rows:
            open("/dbfs/" + mark, "a").close()
            time.sleep(0.02)
            yield (number, number % 4)
    return spark.createDataFrame(sc.parallelize(range(first, last), parts).mapPartitions(task), "id long, k long")
"""
SUMMED = """
import json
def summed(name):
    return list(spark.sql(f"select count(*), count(distinct id), coalesce(sum(id), 0) from {name}").first())
"""


def whole(*numbers: range) -> list[int]:
    """What `summed` gives for a table of these rows, each of them once."""
    count = sum(len(each) for each in numbers)
    return [count, count, sum(sum(each) for each in numbers)]


def slowly(live: Live, cluster: str, mark: str, code: str) -> tuple[str, str]:
    """Begin a command that writes `slow_rows`; returns when the first row is written."""
    context = live.context(cluster)
    command = live.begin(cluster, context, SLOW + code)
    until((live.data / "dbfs" / mark).exists, f"no task of {mark} has begun")
    return context, command


def test_two_clusters_that_write_to_one_table_keep_each_others_rows(live: Live, several: str, single: str) -> None:
    """With Hadoop's committer the first to end removes what the other has not committed."""
    live.run_kept(several, "spark.sql('create table both (id bigint, k bigint) using parquet')")
    append = "slow_rows({0}, {1}, {2}, '{3}').write.insertInto('both')"
    for cluster, other in ((several, single), (single, several))[: 2 if ALL else 1]:
        long = slowly(live, cluster, f"long-{cluster}", append.format(0, 400, 4, f"long-{cluster}"))
        short = slowly(live, other, f"short-{cluster}", append.format(1000, 1040, 8, f"short-{cluster}"))
        for each, (context, command) in ((other, short), (cluster, long)):
            assert live.finish(each, context, command).status is CommandStatus.FINISHED
        found = json.loads(live.run_kept(cluster, SUMMED + "print(json.dumps(summed('both')))"))
        assert found == whole(range(400), range(1000, 1040))
        live.run_kept(other, "spark.sql('truncate table both')")


FILLED = """
rows = spark.range(0, 1000, 1, 6).selectExpr("id", "id % 4 as k")
rows.write.saveAsTable("plain")
rows.write.partitionBy("k").saveAsTable("parted")
"""


def test_an_overwrite_that_is_cancelled_or_fails_leaves_the_rows(live: Live, several: str) -> None:
    live.run_kept(several, FILLED)
    for table in ("plain", "parted"):
        code = f"slow_rows(0, 4000, 4, 'over-{table}').write.insertInto('{table}', overwrite=True)"
        context, command = slowly(live, several, f"over-{table}", code)
        live.w.command_execution.cancel(cluster_id=several, context_id=context, command_id=command)
        assert live.finish(several, context, command).status is CommandStatus.CANCELLED
    failed = """
for mode in ("static", "dynamic"):
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", mode)
    try:
        rows = sc.parallelize(range(40), 4).map(lambda n: (n, 1 // (39 - n))).toDF("id long, k long")
        rows.write.insertInto("parted", overwrite=True)
        print("it succeeded")
    except Exception:
        pass
print(json.dumps([summed("plain"), summed("parted")]))
"""
    assert json.loads(live.run(several, SUMMED + failed)) == [whole(range(1000))] * 2


def test_dropping_a_table_removes_no_files_that_only_this_cluster_sees(live: Live, several: str) -> None:
    live.run_kept(several, "spark.range(9).write.saveAsTable('planted')")
    entry = live.data / "metastore" / "databases" / "default" / "table" / "planted.json"
    version, _, text = entry.read_text().partition("\n")
    place = re.findall(r'"(dbfs:/[^"]*/planted)"', text)[0]
    private = live.data / "clusters" / several / "private" / "planted"
    private.mkdir(parents=True)
    entry.write_text(f"0{version[1:]}\n" + text.replace(place, "file:/cluster/private/planted"))  # as another cluster may ask for
    live.run_kept(several, "_ = spark.sql('drop table planted')")
    assert not entry.exists() and private.exists()


REPLACED = """
import glob, os
rows = sc.parallelize(range(40), 4).map(lambda n: (n, 1 // (39 - n))).toDF("id long, k long")
def attempt(mode, rows):
    try:
        rows.write.mode(mode).saveAsTable("replaced")
        return "done"
    except Exception as error:
        return str(error).split("]")[0]
def found():
    places = {os.path.dirname(name) for name in glob.glob("/dbfs/user/hive/warehouse/*/replaced/part-*")}
    return [summed("replaced"), len(spark.table("replaced").columns), len(places)]
spark.range(1000).write.saveAsTable("replaced")
said = [attempt("overwrite", rows) != "done", found()]
try:
    spark.sql("create table replaced using parquet as select 1 as id")
    said += ["done", found()]
except Exception as error:
    said += [str(error).split("]")[0], found()]
said += [attempt("overwrite", spark.range(0, 100, 1, 2).selectExpr("id", "id as k")), found(), attempt("ignore", rows), found()]
spark.sql("drop table replaced")
said += [attempt("overwrite", spark.range(9).selectExpr("id", "id as k")), found()]
spark.sql("drop table replaced")
print(json.dumps(said))
"""


def test_saving_over_a_table_replaces_it_when_the_rows_are_written(live: Live, several: str, single: str) -> None:
    for cluster in lines(several, single):
        kept, changed = [whole(range(1000)), 1], [whole(range(100)), 2, 1]
        failed, left, there, still, done, after, ignored, same, again, new = json.loads(live.run_kept(cluster, SUMMED + REPLACED))
        assert (failed, there, done, ignored, again) == (True, "[TABLE_OR_VIEW_ALREADY_EXISTS", "done", "done", "done")
        assert [left[:2], still[:2], after, same, new] == [kept, kept, changed, changed, [whole(range(9)), 2, 1]]


SPECULATED = """
def held(mode):
    def slowest(rows):
        task, second = TaskContext.get(), f"/dbfs/{mode}-0-1"
        open(f"/dbfs/{mode}-{task.partitionId()}-{task.attemptNumber()}", "a").close()
        if task.partitionId() == 0 and task.attemptNumber() == 0:
            until = time.monotonic() + 240
            while not os.path.exists(second) and time.monotonic() < until:
                time.sleep(0.05)
            time.sleep(2)
        for number in rows:
            yield (number, number % 4)
    return slowest
for mode in ("append", "overwrite"):
    rows = spark.createDataFrame(sc.parallelize(range(2000), 4).mapPartitions(held(mode)), "id long, k long")
    rows.write.mode(mode).partitionBy("k").saveAsTable("speculated")
    print(json.dumps([summed("speculated"), os.path.exists(f"/dbfs/{mode}-0-1")]))
"""


def test_a_task_that_runs_twice_adds_its_rows_once(live: Live, several: str) -> None:
    for line in live.run_kept(several, SLOW + SUMMED + SPECULATED).splitlines():
        assert json.loads(line) == [whole(range(2000)), True]


KILLED = """
import time
def slow(number):
    open("/dbfs/started", "a").close()
    time.sleep(0.3)
    return number
rows = spark.sparkContext.parallelize(range(40), 40).map(slow).map(lambda number: (number,)).toDF("id long")
rows.write.saveAsTable("survived")
print(spark.table("survived").count(), spark.table("survived").distinct().count())
"""


def test_an_executor_that_dies_while_it_writes_loses_no_row_and_adds_none(live: Live, several: str) -> None:
    context = live.context(several)
    command = live.begin(several, context, KILLED)
    until((live.data / "dbfs" / "started").exists, "no task has begun")
    live.kill(live.below(live.worker_agents(several)[0], EXECUTOR))
    answer = live.finish(several, context, command)
    assert answer.status is CommandStatus.FINISHED and answer.results is not None
    assert answer.results.result_type is ResultType.TEXT, answer
    assert str(answer.results.data).split() == ["40", "40"]


@pytest.mark.extended  # over a minute; test_cluster.py lets workers come and go under a job
def test_workers_may_come_and_go_while_rows_are_written(live: Live, several: str) -> None:
    live.run_kept(several, "spark.sql('create table resized (id bigint, k bigint) using parquet partitioned by (k)')")
    writing = slowly(live, several, "resized", "slow_rows(0, 2000, 16, 'resized').write.insertInto('resized')")
    live.w.clusters.resize(several, num_workers=1)
    live.wait(several, State.RUNNING, workers=1)
    assert live.finish(several, *writing).status is CommandStatus.FINISHED
    assert json.loads(live.run_kept(several, SUMMED + "print(json.dumps(summed('resized')))")) == whole(range(2000))


# A task of a job that is over, where nobody ends it in an orderly way: its executor is killed, or its writer never came to be.
LATE = """
import os, uuid
def late(place):
    path = spark._jvm.org.apache.hadoop.fs.Path(f"{place}/_temporary-{uuid.uuid4()}/attempt_0/k=1/part-0")
    try:
        path.getFileSystem(spark._jsc.hadoopConfiguration()).create(path).close()
        return "written"
    except Exception as error:
        return error.java_exception.getClass().getSimpleName()
print(late("dbfs:/late"), late("file:/dbfs/late"), os.listdir("/dbfs/late"))
"""


def test_a_task_that_outlives_its_job_leaves_nothing(live: Live, several: str) -> None:
    assert live.run_kept(several, LATE) == "IOException IOException []"


PREPARED = """
spark.range(100).write.parquet("dbfs:/user/churn")
rows = spark.range(0, 1000, 1, 6).selectExpr("id", "id % 4 as k")
for name in ("over", "more", "again"):
    rows.write.saveAsTable(name)
for name in ("kept", "redone"):
    rows.write.partitionBy("k").saveAsTable(name)
"""
# Killed in the middle of it, somewhere else each time. No jobs: others have all the cores.
CHURN = """
import itertools
for number in itertools.count():
    spark.sql(f"create table churn{number} (id bigint) using parquet location 'dbfs:/user/churn'")
    spark.sql(f"alter table churn{number} rename to churned{number}")
    spark.sql(f"alter table churned{number} set tblproperties ('number' = '{number}')")
    spark.sql(f"drop table churned{number - 1}") if number % 2 else None
    open(f"/dbfs/user/churned-{number}", "w").close()
"""
CHURNED = """
names = [row.tableName for row in spark.sql("show tables like 'churn*'").collect()]
print(json.dumps([len(names) > 1, {spark.table(name).count() for name in names} == {100}]))
for name in names:
    spark.sql(f"drop table {name}")
"""
LEFT = """
import os
names = ("over", "more", "again", "kept", "redone")
made = spark.catalog.tableExists("made")  # the first use of a table finishes what is left
hidden = [name for top, each, _ in os.walk("/dbfs/user/hive/warehouse") for name in each if name.startswith("_")]
spark.range(10).write.saveAsTable("made")
new = spark.table("redone").where("k = 9").count()
spark.sql("alter table redone drop partition (k = 9)")
print(json.dumps([[summed(name) for name in names], hidden, made, summed("made")[0], new]))
"""
# As a driver leaves it that is killed after it has committed an overwrite, before the catalog knows of a partition that this has
# made.
HALF = """
import json, os, shutil
def place(name):
    return spark._jsparkSession.sessionState().catalog().externalCatalog().getTable("default", name).location().toString()
uri = place("redone").rstrip("/")
top = uri.replace("dbfs:", "/dbfs")
spark.range(5000, 5100, 1, 1).write.parquet("file:/cluster/scratch/new")
os.makedirs(top + "/_temporary-j")
part = next(name for name in os.listdir("/cluster/scratch/new") if name.startswith("part-"))
for name in (part, "9-" + part):
    shutil.copy("/cluster/scratch/new/" + part, top + "/_temporary-j/" + name)
os.mkdir(top + "/k=9")
old = [os.path.join(each, name) for each, _, names in os.walk(top + "/k=1") for name in names]
record = {
    "stages": [uri + "/_temporary-j"], "remove": [name.replace("/dbfs/", "dbfs:/") for name in old],
    "move": [
        [uri + "/_temporary-j/" + part, uri + "/k=1/" + part],
        [uri + "/_temporary-j/9-" + part, uri + "/k=9/" + part],
    ],
    "path": uri, "parted": [uri + "/k=9"],
}
with open("/dbfs/user/hive/.writes/CLUSTER/j.json", "w") as file:
    json.dump(record, file)
"""


def test_a_write_that_a_killed_driver_leaves_is_whole_or_nothing_on_other_clusters(live: Live, several: str, single: str) -> None:
    live.run_kept(single, PREPARED)
    live.run_kept(single, HALF.replace("CLUSTER", single))
    save = "saveAsTable('made')"
    for write in ("insertInto('over', overwrite=True)", "insertInto('more')", save, "mode('overwrite').saveAsTable('again')"):
        live.begin(single, live.context(single), SLOW + f"slow_rows(1000, 5000, 4, 'cut').write.{write}")
    records = live.data / "dbfs" / "user" / "hive" / ".writes" / single
    until(lambda: len(list(records.glob("*-*.json"))) == 4, "not all of them have begun")
    live.begin(single, live.context(single), CHURN)
    until((live.data / "dbfs" / "user" / "churned-3").exists, "the tables do not change")
    live.kill(live.driver_agent(single), *live.driver_agent(single).children(recursive=True))
    tables, hidden, made, rows, new = json.loads(live.run_kept(several, SUMMED + LEFT))
    redone = [len(range(1000)) - 250 + 100] * 2 + [sum(range(1000)) - sum(range(1, 1000, 4)) + sum(range(5000, 5100))]
    assert tables == [whole(range(1000))] * 4 + [redone]
    assert (hidden, made, rows, new) == ([], False, 10, 100)
    assert not list(records.glob("*.json"))
    assert json.loads(live.run_kept(several, "import json" + CHURNED)) == [True, True], (
        "each is there with all its rows, or is not"
    )
    live.wait(single, State.TERMINATED)


# Records as another cluster's driver leaves them, one of which would move a file that only this cluster sees.
PLANTED = """
import json, os, shutil, time
os.makedirs("/dbfs/planted/plain")
os.makedirs("/dbfs/user/hive/.writes/stranger")
os.symlink("/cluster/scratch", "/dbfs/planted/link")
for name, place in (("stolen", "link"), ("taken", "plain")):
    open(f"/dbfs/planted/{place}/private", "w").close()
    record = {"stages": [], "path": "dbfs:/planted", "move": [[f"dbfs:/planted/{place}/private", f"dbfs:/planted/new/{name}"]]}
    with open(f"/dbfs/user/hive/.writes/stranger/{name}.json", "w") as file:
        json.dump(record, file)
until = time.monotonic() + 60
while not os.path.exists("/dbfs/planted/new/taken") and time.monotonic() < until:
    spark.catalog.tableExists("t")
    time.sleep(0.1)
print(os.listdir("/dbfs/planted/new"), os.path.exists("/cluster/scratch/private"))
shutil.rmtree("/dbfs/planted")
shutil.rmtree("/dbfs/user/hive/.writes/stranger")
"""


def test_what_a_stranger_leaves_leads_to_no_file_of_this_cluster(live: Live, several: str) -> None:
    assert live.run_kept(several, PLANTED) == "['taken'] True"


# Files that programs can lock, as older versions had them, are nobody's business. What the agents of other drivers hold is.
HELD = """
import fcntl, os
spark.sql("create table held (id bigint) using parquet")
top = "/dbfs/user/hive/.writes"
files = [open(f"{top}/commit-{number}.lock", "a+") for number in range(64)]
files += [open(f"{top}/{name}/lock", "a+") for name in os.listdir(top) if os.path.isdir(f"{top}/{name}")]
for file in files:
    fcntl.lockf(file, fcntl.LOCK_EX)
spark.sql("insert into held select id from range(50)")
for file in files:
    file.close()
    os.remove(file.name)
print(spark._jsparkSession.sessionState().catalog().externalCatalog().getTable("default", "held").location())
"""
WAITED = """
spark.conf.set("fs.brickyard.commit.patience", "1s")
try:
    spark.sql("insert into held select id from range(100)")
    print("it succeeded")
except Exception as error:
    print("Nothing was written to dbfs:" in str(error) and "the driver of cluster other" in str(error))
print(spark.table("held").count())
"""
GIVEN_BACK = """
spark.sql("insert into held select id from range(50)")
print(spark.table("held").count())
_ = spark.sql("drop table held")
"""


def test_a_commit_waits_for_another_driver_and_for_no_program(live: Live, several: str) -> None:
    place = live.run_kept(several, HELD)
    path = live.data / "metastore" / "writing" / "place" / hashlib.sha256(place.encode()).hexdigest()
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write("other")
        file.flush()
        assert live.run(several, WAITED).splitlines() == ["True", "50"]
    assert live.run_kept(several, GIVEN_BACK) == "100"
    assert not list(path.parent.iterdir())


# A command that is cancelled while its driver waits for the agent's answer: the agent gives the place to whoever has gone.
INTERRUPTED = """
import os, threading, time
jvm, conf = spark._jvm, spark._jsc.hadoopConfiguration()
records = jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass("brickyard.CommitRecords")
committing = next(each for each in records.getDeclaredMethods() if each.getName() == "committing")
committing.setAccessible(True)
given = spark._sc._gateway.new_array(jvm.java.lang.Object, 2)
given[0], given[1] = conf, "dbfs:/nobodys"
thread = jvm.java.lang.Thread.currentThread()
def cancel():
    time.sleep(1)
    thread.interrupt()
    open("/dbfs/cancelled", "w").close()
open("/dbfs/asks", "w").close()
while not os.path.exists("/dbfs/agent_stopped"):
    time.sleep(0.05)
threading.Thread(target=cancel).start()
try:
    committing.invoke(None, given)
    print("it was not interrupted")
except Exception as error:
    print("InterruptedException" in str(error))
spark.range(50).write.mode("overwrite").parquet("dbfs:/data/after")
print(spark.read.parquet("dbfs:/data/after").count())
"""


def test_a_commit_that_is_cancelled_while_it_waits_keeps_no_right(live: Live, several: str) -> None:
    context, agent = live.context(several), live.driver_agent(several)
    command = live.begin(several, context, INTERRUPTED)
    until((live.data / "dbfs" / "asks").exists, "the command has not begun")
    agent.suspend()
    try:
        live.touch("/agent_stopped")
        until((live.data / "dbfs" / "cancelled").exists, "the command is not interrupted")
    finally:
        agent.resume()
    answer = live.finish(several, context, command)
    assert answer.results is not None and str(answer.results.data).splitlines() == ["True", "50"]
    assert not list((live.data / "metastore" / "writing" / "place").iterdir())


# Nothing can be put where a directory is, so the commit stops after its record is written, as it does when storage goes down.
STUCK = """
import json, os, shutil, time
spark.sql("create table stuck (id bigint, k bigint) using parquet partitioned by (k)")
spark.sql("insert into stuck select id, 1 from range(100)")
place = spark._jsparkSession.sessionState().catalog().externalCatalog().getTable("default", "stuck").location().toString()
top = place.replace("dbfs:", "/dbfs")
os.remove(top + "/_SUCCESS")
os.makedirs(top + "/_SUCCESS/_SUCCESS/x")
try:
    spark.sql("insert overwrite stuck select id, id % 2 from range(1000, 2000)")
    print("it succeeded")
except Exception as error:
    print("are committed" in str(error) and "Do not write the rows once more" in str(error))
shutil.rmtree(top + "/_SUCCESS")
until = time.monotonic() + 60
while spark.table("stuck").count() != 1000 and time.monotonic() < until:
    time.sleep(0.2)
print(summed("stuck"), spark.sql("show partitions stuck").count(), [n for n in os.listdir(top) if n.startswith("_temporary")])
_ = spark.sql("drop table stuck")
"""


def test_a_commit_that_storage_interrupts_is_finished_when_storage_is_back(live: Live, several: str) -> None:
    assert live.run_kept(several, SUMMED + STUCK).splitlines() == ["True", f"{whole(range(1000, 2000))} 2 []"]


def plant_record(live: Live, cluster: str, name: str, *, sealed: bool) -> None:
    """Leaves a record that moves a file which only this cluster sees, as its killed driver does, or as a stranger would."""
    directory = live.data / "clusters" / cluster
    (directory / name).write_text(name)
    record: dict[str, Any] = {"move": [[f"file:/cluster/{name}", f"dbfs:/moved/{name}"]], "path": "dbfs:/moved", "stages": []}
    text = json.dumps(record, separators=(",", ":"), sort_keys=True)
    if sealed:
        record["seal"] = base64.b64encode(hmac.digest((directory / "writes.key").read_bytes(), text.encode(), "sha256")).decode()
    records = live.data / "dbfs" / "user" / "hive" / ".writes" / cluster
    records.mkdir(parents=True, exist_ok=True)
    (records / f"{name}.json").write_text(json.dumps(record))
    (live.data / "dbfs" / "moved").mkdir(exist_ok=True)


def plant_older_tables(live: Live, cluster: str) -> None:
    """Gives a cluster a catalog of its own, as Brickyard made them before there was a metastore."""
    kept = live.data / "metastore" / "databases" / "default" / "table"
    _, _, text = (kept / "redone.json").read_text().partition("\n")
    described = json.loads(text)
    place = re.findall(r'"(dbfs:/[^"]*/redone)"', text)[0]
    directory = live.data / "clusters" / cluster
    shutil.copytree(live.data / "dbfs" / place.removeprefix("dbfs:/"), directory / "warehouse" / "redone")
    older = json.loads(json.dumps(described).replace(place, "file:/cluster/warehouse/redone"))
    fields = {"name": "default", "description": "", "locationUri": ["uri", "file:/cluster/warehouse"], "properties": ["map", {}]}
    database = ["case", {**fields, "class": "org.apache.spark.sql.catalyst.catalog.CatalogDatabase"}]
    (directory / "catalog").mkdir(exist_ok=True)
    whole = {"database": database, "tables": [older], "functions": []}
    (directory / "catalog" / "default.json").write_text(json.dumps(whole))


def test_tables_outlive_a_restart_and_the_cluster_that_made_them(live: Live, several: str, single: str) -> None:
    plant_older_tables(live, single)
    plant_record(live, single, "own", sealed=True)
    plant_record(live, single, "stolen", sealed=False)
    live.w.clusters.permanent_delete(several)
    live.w.clusters.start(single)
    live.wait(single, State.RUNNING)
    assert json.loads(live.run_kept(single, COUNTS)) == COUNTED
    assert [path.name for path in (live.data / "dbfs" / "moved").iterdir()] == ["own"], "others can write where records are"
    live.run_kept(single, "spark.sql('insert into t select id + 100 from t')")
    moved = f"redone_{single.replace('-', '_')}"
    counted = f"print(spark.table('t').count(), *[spark.table(each).where('k = 1').count() for each in ('redone', '{moved}')])"
    assert live.run_kept(single, counted) == "200 100 100"
    until(lambda: {path.name for path in (live.data / "clusters").iterdir()} == {single}, "the other's directory is still there")
    assert (live.data / "clusters" / single / "warehouse" / "redone").exists(), "what was copied is removed with the cluster"
