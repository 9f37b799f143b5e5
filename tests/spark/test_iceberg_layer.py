"""Iceberg as a layer of the runtime, on real Spark, in the workspace's metastore and beside Delta Lake."""

from __future__ import annotations

import json
from typing import Any

import pytest
from databricks.sdk.service.compute import Kind, State

from tests.spark.layers import with_layers
from tests.spark.live import Live
from tests.support.runtimes import SPARK_4

pytestmark = [pytest.mark.spark, pytest.mark.extended, pytest.mark.timeout(900)]
LINES = (SPARK_4, "18.0.x-scala2.13")
LAYERS = ("delta", "iceberg")
CONF = {"spark.sql.shuffle.partitions": "1", "spark.brickyard.layers": ",".join(LAYERS)}
SINGLE: dict[str, Any] = {"is_single_node": True, "kind": Kind.CLASSIC_PREVIEW, "spark_conf": CONF}


@pytest.fixture(scope="module", params=LINES)
def line(request: pytest.FixtureRequest) -> str:
    with_layers(request.param, LAYERS)
    return str(request.param)


@pytest.fixture(scope="module")
def cluster(line: str, live: Live) -> str:
    made = live.create("iceberg", line, **SINGLE)
    live.wait(made, State.RUNNING)
    return made


ICEBERG = """
import json
spark.sql("create table main.default.Events (id bigint, k string) using iceberg partitioned by (k)")
spark.sql("insert into events values (1, 'a'), (2, 'b')")
first = spark.sql("select snapshot_id from default.events.snapshots").first()[0]
spark.sql("insert into events values (3, 'a')")
spark.sql("delete from events where id = 1")
spark.sql("update events set k = 'c' where id = 2")
merge = "merge into events e using (select explode(array(3, 9)) as id, 'm' as k) s on e.id = s.id"
spark.sql(merge + " when matched then update set k = s.k when not matched then insert *")
spark.sql("alter table events add column more int")
now = [[row.id, row.k, row.more] for row in spark.table("main.default.events").orderBy("id").collect()]
then = [row.id for row in spark.sql(f"select id from events version as of {first} order by id").collect()]
spark.sql("create or replace table other using iceberg as select id from events")
spark.sql("create view seen as select count(*) as n from events")
print(json.dumps([now, then, spark.table("other").count(), spark.table("seen").first().n]))
"""
# What Delta Lake's catalog has to get from Iceberg's as it is, and what is neither's.
BESIDE = """
import json
spark.sql("create table d (i bigint generated always as identity, n int, m int generated always as (n + 1), s string "
          "default 'x') using delta tblproperties ('delta.feature.allowColumnDefaults' = 'supported')")
spark.sql("insert into d (n) values (1)")
spark.sql("insert into d (n) values (2)")
spark.sql("merge into d using (select 2 as n) s on d.n = s.n when matched then update set s = 'y'")
d = [[row.n, row.m, row.s, row.i is not None] for row in spark.table("d").orderBy("n").collect()]
then = spark.sql("select count(*) from d version as of 1").first()[0]
spark.sql("create or replace table r using delta as select 1 as one")
spark.sql("create or replace table r using delta as select 2 as two")
r = [spark.table("r").first().two, spark.sql("describe history r").count()]
spark.sql("create table plain (id int, s string default 'p')")
spark.sql("insert into plain (id) values (7)")
spark.range(5).write.mode("overwrite").saveAsTable("rows")
spark.range(6).write.mode("overwrite").saveAsTable("rows")
kinds = [spark.sql(f"describe extended {each}").where("col_name = 'Provider'").first()[1] for each in ("d", "events", "plain")]
refused = []
for column in ("s string default 'x'", "n int generated always as (id + 1)", "i bigint generated always as identity"):
    try:
        spark.sql(f"create table never (id int, {column}) using iceberg")
    except Exception as error:
        refused.append("Iceberg" in str(error))
made = ("create table never (id int) using iceberg location 'file:/cluster/x'", "create table d (id int) using iceberg")
for statement in made:
    try:
        spark.sql(statement)
    except Exception as error:
        refused.append("dbfs:/" in str(error) or "[TABLE_OR_VIEW_ALREADY_EXISTS]" in str(error))
print(json.dumps([d, then, r, list(spark.table("plain").first()), spark.table("rows").count(), kinds, refused,
                  spark.catalog.tableExists("never")]))
"""
AFTER = """
import glob, json
found = [sorted(row.id for row in spark.table("events").collect()), spark.table("seen").first().n, spark.table("d").count()]
spark.sql("insert into events values (10, 'z', 1)")
found.append([spark.table("events").count(), sorted(row.tableName for row in spark.sql("show tables").collect())])
called = spark.sql("call main.system.expire_snapshots(table => 'default.events', retain_last => 1, older_than => now())").first()
found.append([called.deleted_manifest_lists_count > 0, spark.table("events").count()])
spark.sql("drop view seen")
for each in ("events", "other", "d", "r", "plain", "rows"):
    spark.sql(f"drop table {each}")
print(json.dumps([*found, glob.glob("/dbfs/user/hive/warehouse/*")]))
"""


def test_iceberg_and_delta_tables_are_side_by_side_and_outlive_a_restart(live: Live, cluster: str) -> None:
    now, then, other, seen = json.loads(live.run(cluster, ICEBERG))
    assert now == [[2, "c", None], [3, "m", None], [9, "m", None]]
    assert (then, other, seen) == ([1, 2], 3, 3)
    delta, older, replaced, plain, rows, kinds, refused, never = json.loads(live.run(cluster, BESIDE))
    assert delta == [[1, 2, "x", True], [2, 3, "y", True]]
    assert (older, replaced, plain, rows) == (1, [2, 2], [7, "p"], 6)
    assert kinds == ["delta", "iceberg", "parquet"]
    assert refused == [True] * 5 and not never
    live.w.clusters.restart(cluster)
    live.wait(cluster, State.RUNNING)
    ids, seen, delta, (count, names), called, left = json.loads(live.run(cluster, AFTER))
    assert (ids, seen, delta, count) == ([2, 3, 9], 3, 2, 4)
    assert names == ["d", "events", "other", "plain", "r", "rows", "seen"]
    assert called == [True, 4], "Spark 4 has CALL of its own"
    assert left == []
