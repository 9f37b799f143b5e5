"""The workspace's `default_table_format` on real Spark: tables that name no format."""

from __future__ import annotations

import json
from collections.abc import Iterator

import msgspec
import pytest
from databricks.sdk.service.compute import Kind, State

from tests.spark.layers import with_layers
from tests.spark.live import Live
from tests.support.runtimes import SPARK_4

pytestmark = [pytest.mark.spark, pytest.mark.extended, pytest.mark.timeout(600)]

MADE = """
import json
spark.sql("create table plain (id bigint)")
spark.sql("create table selected as select 1L as id")
spark.sql("create table named (id bigint) using parquet")
spark.range(3).write.saveAsTable("saved")
spark.range(3).write.format("parquet").saveAsTable("saved_named")
spark.range(3).write.save("dbfs:/saved")
tables = ("plain", "selected", "saved", "named", "saved_named")
for table in tables:
    spark.sql(f"insert into {table} values (7)")
spark.sql("update saved set id = 8 where id = 7")
kinds = [spark.sql(f"describe extended {table}").where("col_name = 'Provider'").first()[1].lower() for table in tables]
rows = [spark.table(table).count() for table in tables] + [spark.read.load("dbfs:/saved").count()]
print(json.dumps([kinds, rows, spark.sql("describe detail delta.`dbfs:/saved`").first().format]))
"""
BARE = """
import json
spark.sql("create table without (id bigint)")
kind = spark.sql("describe extended without").where("col_name = 'Provider'").first()[1]
print(json.dumps([kind, spark.table("named").count()]))
"""


@pytest.fixture
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    made = Live(tmp_path_factory.mktemp("live") / "workspace")
    made.settings = msgspec.structs.replace(made.settings, default_table_format="delta")
    made.start()
    try:
        yield made
    finally:
        made.close()


def test_tables_that_name_no_format_are_delta_where_the_cluster_has_it(live: Live) -> None:
    with_layers(SPARK_4)
    cluster = live.create("delta", SPARK_4, is_single_node=True, kind=Kind.CLASSIC_PREVIEW)
    live.wait(cluster, State.RUNNING)
    kinds, rows, of_path = json.loads(live.run(cluster, MADE))
    assert kinds == ["delta", "delta", "delta", "parquet", "parquet"]
    assert rows == [1, 2, 4, 1, 4, 3]
    assert of_path == "delta"
    live.w.clusters.delete(cluster)
    bare = live.create("bare", SPARK_4, is_single_node=True, kind=Kind.CLASSIC_PREVIEW, spark_conf={"spark.brickyard.layers": ""})
    live.wait(bare, State.RUNNING)
    assert json.loads(live.run(bare, BARE)) == ["parquet", 1]
