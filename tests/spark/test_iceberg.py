"""Iceberg tables in the workspace's metastore, on real Spark with Iceberg's own JAR."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest
from databricks.sdk.service.compute import CommandStatus, Kind, State

from tests.spark.live import Live
from tests.support.iceberg import cache_with_iceberg
from tests.support.patience import until
from tests.support.runtimes import SPARK_3

LARGE = pytest.mark.skipif(
    not os.environ.get("BRICKYARD_TEST_ICEBERG"), reason="set BRICKYARD_TEST_ICEBERG=1: it fetches a large package"
)
pytestmark = [pytest.mark.spark, pytest.mark.extended, pytest.mark.timeout(900), LARGE]

CONF = {"spark.sql.shuffle.partitions": "1"}
SINGLE: dict[str, Any] = {"is_single_node": True, "kind": Kind.CLASSIC_PREVIEW, "spark_conf": CONF}


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BRICKYARD_CACHE_DIR", str(cache_with_iceberg(tmp_path_factory.mktemp("iceberg"))))
        made = Live(tmp_path_factory.mktemp("live") / "workspace")
        made.start()
        try:
            yield made
        finally:
            made.close()


@pytest.fixture(scope="module")
def one(live: Live) -> str:
    return live.create("one", SPARK_3, **SINGLE)


@pytest.fixture(scope="module")
def other(live: Live, one: str) -> str:
    return live.create("other", SPARK_3, **SINGLE)


MADE = """
import glob, json
spark.sql("create table Events (id bigint, k string) using iceberg partitioned by (k)")
spark.sql("insert into events values (1, 'a'), (2, 'b')")
spark.sql("insert into events values (3, 'a')")
spark.sql("create table plain (id bigint)")
spark.sql("create view seen as select id from events")
spark.range(5).write.saveAsTable("rows")
spark.range(6).write.mode("overwrite").saveAsTable("rows")
kinds = [spark.sql(f"describe extended {name}").where("col_name = 'Provider'").first()[1] for name in ("plain", "events")]
print(json.dumps([kinds, spark.table("rows").count(), sorted(row.tableName for row in spark.sql("show tables").collect())]))
"""
CHANGED = """
import json
first = spark.sql("select snapshot_id from default.events.snapshots order by committed_at").first()[0]
found = [spark.table("seen").count(), spark.sql(f"select count(*) from events version as of {first}").first()[0]]
spark.sql("delete from events where id = 1")
spark.sql("merge into events using (select 9 as id, 'm' as k) s on events.id = s.id when not matched then insert *")
spark.sql("alter table events rename to renamed")
spark.sql("alter table renamed add column more int")
print(json.dumps(found))
"""
# What a cluster without Iceberg does with these tables; and what no cluster may do.
REFUSED = """
import glob, json
rows = sorted(row.id for row in spark.table("renamed").collect())
said = [rows, spark.table("renamed").columns, spark.catalog.tableExists("events")]
java, session = sc._jvm.org.apache.spark.sql, spark._jsparkSession
name, none = java.catalyst.TableIdentifier("renamed"), getattr(sc._jvm.scala, "None$").__getattr__("MODULE$")
attempts = {
    "truncated": lambda: java.execution.command.TruncateTableCommand(name, none).run(session),
    "private": lambda: spark.sql("create table x (id int) using iceberg location 'file:/cluster/x'"),
    "there": lambda: spark.sql("create table renamed (id int) using iceberg"),
    "plain": lambda: spark.sql("alter table renamed rename to plain"),
}
for key, attempt in attempts.items():
    try:
        attempt()
        said.append(f"{key}: it succeeded")
    except Exception as error:
        said.append(str(error))
spark.sql("create or replace table renamed using iceberg as select 7 as seven")
said.append([row.seven for row in spark.table("renamed").collect()])
for each in ("renamed", "plain", "rows"):
    spark.sql(f"drop table {each}")
spark.sql("drop view seen")
print(json.dumps([*said, glob.glob("/dbfs/user/hive/warehouse/*")]))
"""


def test_a_table_is_every_clusters_and_other_formats_are_as_before(live: Live, one: str, other: str) -> None:
    live.wait(one, State.RUNNING)
    assert json.loads(live.run(one, MADE)) == [["parquet", "iceberg"], 6, ["events", "plain", "rows", "seen"]]
    live.wait(other, State.RUNNING)
    assert json.loads(live.run(other, CHANGED)) == [3, 2]
    rows, columns, older, truncated, private, there, plain, replaced, left = json.loads(live.run(one, REFUSED))
    assert (rows, columns, older) == ([2, 3, 9], ["id", "k", "more"], False)
    assert "external table" in truncated.lower(), "its metadata is among its files"
    assert "dbfs:/" in private
    assert all("[TABLE_OR_VIEW_ALREADY_EXISTS]" in each for each in (there, plain))
    assert (replaced, left) == ([7], [])


# Spark keeps the catalog's class in a view. A cluster without Iceberg has none: it must not get the one of the view's maker.
VIEW = """
key = "spark.sql.catalog.spark_catalog"
def kept():
    properties = spark._jsparkSession.sharedState().externalCatalog().getTable("default", "v").properties()
    return properties.contains("view.sqlConfig." + key)
conf = sc._jvm.org.apache.spark.SparkEnv.get().conf()
own = conf.get(key)
spark.sql("create view v as select 2 as two")
conf.remove(key)
elsewhere = kept()
conf.set(key, own)
spark.sql("alter view v as select 1 as one")  # else the driver keeps what it has read
print(kept(), elsewhere, spark.table("v").first().one)
_ = spark.sql("drop view v")
"""


def test_a_view_is_read_with_the_catalog_of_the_cluster_that_reads_it(live: Live, one: str) -> None:
    assert live.run(one, VIEW).splitlines() == ["True False 1"]


APPENDED = """
for number in range(FIRST, FIRST + 5):
    spark.range(number * 10, number * 10 + 10, 1, 1).write.insertInto("both")
"""


def test_clusters_that_append_at_once_lose_no_row(live: Live, one: str, other: str) -> None:
    live.run(one, "spark.sql('create table both (id bigint) using iceberg')")
    appending = [(each, context := live.context(each), live.begin(each, context, APPENDED.replace("FIRST", first)))
                 for each, first in ((one, "0"), (other, "5"))]  # fmt: skip
    for each, context, command in appending:
        answer = live.finish(each, context, command)
        assert answer.status is CommandStatus.FINISHED and answer.results and not answer.results.summary, answer
    counted = "print(*(each.count() for each in (rows, rows.distinct(), spark.table('default.both.snapshots'))))"
    assert live.run(one, f"rows = spark.table('both'); {counted}") == "100 100 10"


ACKNOWLEDGED = """
import itertools
for number in itertools.count(100):
    spark.range(number * 10, number * 10 + 10, 1, 1).write.insertInto("both")
    open(f"/dbfs/acknowledged-{number}", "w").close()
"""
AFTER = """
import glob, json
batches = spark.table("both").where("id >= 1000").selectExpr("id div 10 as batch").groupBy("batch").count()
whole = [row["count"] for row in batches.collect()]
acknowledged = len(glob.glob("/dbfs/acknowledged-*"))
spark.sql("insert into both values (-1)")
print(json.dumps([set(whole) == {10}, len(whole) - acknowledged, spark.table("both").where("id = -1").count()]))
"""


def test_a_driver_that_is_killed_while_it_appends_loses_nothing_that_it_acknowledged(live: Live, one: str, other: str) -> None:
    live.begin(other, live.context(other), ACKNOWLEDGED)
    until((live.data / "dbfs" / "acknowledged-102").exists, "nothing is appended")
    agent = live.driver_agent(other)
    live.kill(*agent.children(recursive=True), agent)
    whole, more, new = json.loads(live.run(one, AFTER))
    assert whole and more in (0, 1) and new == 1, (whole, more, new)
