"""Where data lives: what one node writes, all nodes read, and tables are there after a restart. Real Spark, two clusters."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from databricks.sdk.service.catalog import VolumeType
from databricks.sdk.service.compute import CommandStatus, Kind, ResultType, State
from databricks.sdk.service.workspace import ImportFormat

from tests.spark.live import EXECUTOR, Live
from tests.support.patience import until
from tests.support.runtimes import SPARK_3, SPARK_4

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

SINGLE: dict[str, Any] = {"is_single_node": True, "kind": Kind.CLASSIC_PREVIEW}


@pytest.fixture(scope="module")
def several(live: Live) -> str:
    """A cluster of a driver and two workers on Spark 4."""
    speculation = {"": "true", ".interval": "200ms", ".multiplier": "1.5", ".quantile": "0.5"}
    conf = {"spark.sql.shuffle.partitions": "4", **{f"spark.speculation{key}": value for key, value in speculation.items()}}
    return live.create("several", SPARK_4, num_workers=2, spark_conf=conf)


@pytest.fixture(scope="module")
def single(live: Live, several: str) -> str:
    """A cluster of one node on Spark 3."""
    return live.create("single", SPARK_3, spark_conf={"spark.sql.shuffle.partitions": "2"}, **SINGLE)


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


def test_every_row_of_a_table_is_there(live: Live, several: str, single: str) -> None:
    live.wait(several, State.RUNNING, workers=2)
    for cluster in (several, single):
        live.wait(cluster, State.RUNNING)
        live.run(cluster, TABLES)
        assert json.loads(live.run(cluster, COUNTS)) == COUNTED


def test_sparks_own_errors_come_through(live: Live, several: str, single: str) -> None:
    for cluster in (several, single):
        nonempty, there, itself, elsewhere = json.loads(live.run(cluster, REFUSED))
        assert (nonempty, there) == ("[SCHEMA_NOT_EMPTY", "[PARTITIONS_ALREADY_EXIST")
        assert itself.startswith("[UNSUPPORTED_OVERWRITE") and elsewhere == 20


def test_spark_programs_and_dbutils_see_the_same_files(live: Live, several: str, single: str) -> None:
    for cluster in (several, single):
        assert json.loads(live.run(cluster, SAME_FILES)) == [[1000] * 6, True, 6, []]
        found, groups, top = json.loads(live.run(cluster, STREAM))
        assert (found, groups, top) == (1000, 2, ["data"])
        live.w.dbfs.delete("/data", recursive=True)


def test_volumes_and_the_workspace_are_seen_by_all_that_runs_on_a_cluster(live: Live, several: str, single: str) -> None:
    files, workspace = live.w.files, live.w.workspace
    for cluster in (several, single):
        live.w.volumes.create("main", "default", "data", VolumeType.MANAGED)
        top = "/Volumes/main/default/data"
        files.upload(f"{top}/uploaded", io.BytesIO(b"uploaded"))
        workspace.upload("/Shared/from_the_workspace.py", b"TEXT = 'imported'", format=ImportFormat.AUTO, overwrite=True)
        found, texts, shown = json.loads(live.run(cluster, OTHER_TREES))
        assert (found, texts) == ([1000] * 6, ["imported", "uploaded"])
        names = ["one/", "six/", "three/", "two/", "uploaded", "written"]
        assert shown == [f"dbfs:{top}/{name}" for name in names]
        shell = live.run(cluster, f"%sh cat {top}/written /Workspace/Shared/from_the_workspace.py")
        assert shell.strip() == "by PythonTEXT = 'imported'"
        assert files.download(f"{top}/written").contents.read() == b"by Python"  # type: ignore[union-attr]
        live.w.volumes.delete("main.default.data")
        for name in ("four", "five"):
            workspace.delete(f"/Shared/{name}", recursive=True)


def test_what_others_would_not_see_is_refused(live: Live, several: str, single: str) -> None:
    refused, named, written = json.loads(live.run(several, ONE_NODE_ONLY))
    for name, said in refused.items():
        assert "is on one node only" in said and "Write to dbfs:/" in said, (name, said)
    for name, path in named.items():
        assert f"file:{path} is on" in refused[name] and f"Write to dbfs:{path} instead" in refused[name], (name, refused[name])
    assert len(refused) == 10 and not written
    alone = "spark.range(9).write.parquet('file:/tmp/p'); print(spark.read.parquet('file:/tmp/p').count())"
    assert live.run(single, alone) == "9"


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


def test_two_writers_of_one_table_keep_each_others_rows(live: Live, several: str, single: str) -> None:
    """With Hadoop's committer the first to end removes what the other has not committed."""
    for cluster in (several, single):
        live.run(cluster, "spark.sql('create table both (id bigint, k bigint) using parquet')")
        append = "slow_rows({0}, {1}, {2}, '{3}').write.insertInto('both')"
        long = slowly(live, cluster, f"long-{cluster}", append.format(0, 400, 4, f"long-{cluster}"))
        short = slowly(live, cluster, f"short-{cluster}", append.format(1000, 1040, 8, f"short-{cluster}"))
        for context, command in (short, long):
            assert live.finish(cluster, context, command).status is CommandStatus.FINISHED
        found = json.loads(live.run(cluster, SUMMED + "print(json.dumps(summed('both')))"))
        assert found == whole(range(400), range(1000, 1040))


FILLED = """
rows = spark.range(0, 1000, 1, 6).selectExpr("id", "id % 4 as k")
rows.write.saveAsTable("plain")
rows.write.partitionBy("k").saveAsTable("parted")
"""


def test_an_overwrite_that_is_cancelled_or_fails_leaves_the_rows(live: Live, several: str) -> None:
    live.run(several, FILLED)
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
    for line in live.run(several, SLOW + SUMMED + SPECULATED).splitlines():
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


def test_workers_may_come_and_go_while_rows_are_written(live: Live, several: str) -> None:
    live.run(several, "spark.sql('create table resized (id bigint, k bigint) using parquet partitioned by (k)')")
    writing = slowly(live, several, "resized", "slow_rows(0, 2000, 16, 'resized').write.insertInto('resized')")
    live.w.clusters.resize(several, num_workers=1)
    live.wait(several, State.RUNNING, workers=1)
    assert live.finish(several, *writing).status is CommandStatus.FINISHED
    assert json.loads(live.run(several, SUMMED + "print(json.dumps(summed('resized')))")) == whole(range(2000))


PREPARED = """
rows = spark.range(0, 1000, 1, 6).selectExpr("id", "id % 4 as k")
for name in ("over", "more"):
    rows.write.saveAsTable(name)
for name in ("kept", "redone"):
    rows.write.partitionBy("k").saveAsTable(name)
"""
LEFT = """
import os
names = ("over", "more", "kept", "redone")
hidden = [name for _, each, _ in os.walk("/cluster/warehouse") for name in each if name.startswith("_")]
made = spark.catalog.tableExists("made")
spark.range(10).write.saveAsTable("made")
new = spark.table("redone").where("k = 9").count()
spark.sql("alter table redone drop partition (k = 9)")
print(json.dumps([[summed(name) for name in names], hidden, os.listdir("/cluster/writes"), made, summed("made")[0], new]))
"""
# As a driver leaves it that is killed after it has committed an overwrite, before the catalog knows of a partition that this has
# made, and in the middle of a DROP TABLE.
HALF = """
import json, os, shutil
new = "/cluster/warehouse/redone/_temporary-j"
spark.range(5000, 5100, 1, 1).write.parquet("file:/cluster/scratch/new")
os.makedirs(new)
part = next(name for name in os.listdir("/cluster/scratch/new") if name.startswith("part-"))
for name in (part, "9-" + part):
    shutil.copy("/cluster/scratch/new/" + part, new + "/" + name)
os.mkdir("/cluster/warehouse/redone/k=9")
old = [os.path.join(top, name) for top, _, names in os.walk("/cluster/warehouse/redone/k=1") for name in names]
record = {
    "stages": ["file:" + new], "remove": ["file:" + name for name in old],
    "move": [
        ["file:" + new + "/" + part, "file:/cluster/warehouse/redone/k=1/" + part],
        ["file:" + new + "/9-" + part, "file:/cluster/warehouse/redone/k=9/" + part],
    ],
    "path": "file:/cluster/warehouse/redone", "parted": ["file:/cluster/warehouse/redone/k=9"],
}
with open("/cluster/writes/j.json", "w") as file:
    json.dump(record, file)
moves = []
for name in ("kept", "unknown"):
    path = "/cluster/warehouse/" + name
    os.makedirs(path, exist_ok=True)
    os.rename(path, f"/cluster/warehouse/_dropped-{name}")
    moves.append(["file:" + path, f"file:/cluster/warehouse/_dropped-{name}"])
with open("/cluster/catalog/moves", "w") as file:
    json.dump(moves, file)
"""


def test_a_write_that_a_killed_driver_leaves_is_whole_or_nothing(live: Live, single: str) -> None:
    live.run(single, PREPARED)
    live.run(single, HALF)
    for write in ("insertInto('over', overwrite=True)", "insertInto('more')", "saveAsTable('made')"):
        live.begin(single, live.context(single), SLOW + f"slow_rows(1000, 5000, 4, 'cut').write.{write}")
    records = live.data / "clusters" / single / "writes"
    until(lambda: len(list(records.glob("*-*.json"))) == 3, "not all of them have begun")
    live.kill(live.driver_agent(single), *live.driver_agent(single).children(recursive=True))
    live.wait(single, State.TERMINATED)
    live.w.clusters.start(single)
    live.wait(single, State.RUNNING)
    tables, hidden, records, made, rows, new = json.loads(live.run(single, SUMMED + LEFT))
    redone = [len(range(1000)) - 250 + 100] * 2 + [sum(range(1000)) - sum(range(1, 1000, 4)) + sum(range(5000, 5100))]
    assert tables == [whole(range(1000))] * 3 + [redone]
    assert (hidden, records, made, rows, new) == ([], [], False, 10, 100)


NO_ROOM = """
import json, os
os.mkdir("/cluster/catalog/draft")  # what is written cannot be written, as on a full disk
said = []
for statement in ("create table full (id bigint) using parquet", "alter table t rename to full"):
    try:
        spark.sql(statement)
        said.append("it succeeded")
    except Exception as error:
        said.append("Nothing was changed" in str(error))
os.rmdir("/cluster/catalog/draft")
print(json.dumps([said, spark.catalog.tableExists("full"), spark.table("t").count()]))
"""


def test_a_change_that_cannot_be_kept_is_not_made(live: Live, single: str) -> None:
    assert json.loads(live.run(single, NO_ROOM)) == [[True, True], False, 100]


def test_tables_outlive_a_restart_and_a_killed_driver(live: Live, several: str, single: str) -> None:
    live.kill(live.driver_agent(single), *live.driver_agent(single).children(recursive=True))
    live.wait(single, State.TERMINATED)
    live.w.clusters.start(single)
    live.w.clusters.restart(several)
    for cluster in (single, several):
        live.wait(cluster, State.RUNNING)
        assert json.loads(live.run(cluster, COUNTS)) == COUNTED
    live.run(several, "spark.sql('insert into t select id + 100 from t')")
    assert live.run(several, "print(spark.table('t').count())") == "200"
    assert live.run(single, "print(spark.table('t').count(), spark.catalog.tableExists('survived'))") == "100 False", "theirs"


def test_a_cluster_that_is_deleted_takes_its_tables_along(live: Live, several: str, single: str) -> None:
    directories = live.data / "clusters"
    assert {path.name for path in directories.iterdir()} == {several, single}
    live.w.clusters.permanent_delete(several)
    until(lambda: {path.name for path in directories.iterdir()} == {single}, "its directory is still there")
