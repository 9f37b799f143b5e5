"""Where data lives: what one node writes, all nodes read, and tables are there after a restart. Real Spark, two clusters."""

from __future__ import annotations

import json
from typing import Any

import pytest
from databricks.sdk.service.compute import CommandStatus, Kind, ResultType, State

from tests.spark.live import EXECUTOR, Live
from tests.support.patience import until
from tests.support.runtimes import SPARK_3, SPARK_4

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

SINGLE: dict[str, Any] = {"is_single_node": True, "kind": Kind.CLASSIC_PREVIEW}


@pytest.fixture(scope="module")
def several(live: Live) -> str:
    """A cluster of a driver and two workers on Spark 4."""
    return live.create("several", SPARK_4, num_workers=2, spark_conf={"spark.sql.shuffle.partitions": "4"})


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


def test_spark_programs_and_dbutils_see_the_same_files(live: Live, several: str, single: str) -> None:
    for cluster in (several, single):
        assert json.loads(live.run(cluster, SAME_FILES)) == [[1000] * 6, True, 6, []]
        found, groups, top = json.loads(live.run(cluster, STREAM))
        assert (found, groups, top) == (1000, 2, ["data"])
        live.w.dbfs.delete("/data", recursive=True)


def test_what_others_would_not_see_is_refused(live: Live, several: str, single: str) -> None:
    refused, named, written = json.loads(live.run(several, ONE_NODE_ONLY))
    for name, said in refused.items():
        assert "is on one node only" in said and "Write to dbfs:/" in said, (name, said)
    for name, path in named.items():
        assert f"file:{path} is on" in refused[name] and f"Write to dbfs:{path} instead" in refused[name], (name, refused[name])
    assert len(refused) == 10 and not written
    alone = "spark.range(9).write.parquet('file:/tmp/p'); print(spark.read.parquet('file:/tmp/p').count())"
    assert live.run(single, alone) == "9"


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
