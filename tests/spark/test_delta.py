"""Delta Lake on real Spark: each of its statements, in contexts, by paths and by the catalog's names. A cluster of each line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from databricks.sdk.service.compute import DataSecurityMode, Kind, State

from brickyard.sandbox import launcher
from tests.spark.layers import with_layers
from tests.spark.live import Live
from tests.support.runtimes import SPARK_3, SPARK_4

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]
# One runtime of every line that has the layer. The others are installed where they are not there yet.
OTHERS = (SPARK_3, "18.0.x-scala2.13", "18.1.x-scala2.13")
LINES = [SPARK_4, *(pytest.param(key, marks=pytest.mark.extended) for key in OTHERS)]
PREPARE = "spark.conf.set('spark.sql.shuffle.partitions', '2')\nimport json\n"


@pytest.fixture(scope="module", params=LINES)
def line(request: pytest.FixtureRequest) -> str:
    key: str = request.param
    with_layers(key)
    return key


@pytest.fixture(scope="module")
def live(line: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A workspace for each line: the tests make the same tables."""
    made = Live(tmp_path_factory.mktemp("live") / line)
    made.start()
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def cluster(live: Live, line: str) -> Iterator[str]:
    """A driver and a worker: executors need the layer, too."""
    made = live.create("delta", line, num_workers=1)
    live.wait(made, State.RUNNING, workers=1)
    yield made
    live.w.clusters.delete(made)


def answers(live: Live, cluster: str, code: str) -> Any:
    """What the code prints as JSON."""
    return json.loads(live.run_kept(cluster, PREPARE + code))


CHANGES = """
spark.sql("create table main.default.t (id bigint, v string) using delta")
spark.sql("insert into t values (1, 'a'), (2, 'b'), (3, 'c')")
spark.sql("merge into hive_metastore.default.t using (select 2 as id, 'x' as v union all select 9, 'n') s on t.id = s.id "
          "when matched then update set v = s.v when not matched then insert *")
spark.sql("update t set v = 'u' where id = 1")
spark.sql("delete from main.default.t where id = 3")
print(0)
"""
FOUND = """
rows = lambda name: [list(row) for row in spark.sql(f"select id, v from {name} order by id").collect()]
found = [rows("main.default.t"), rows("t version as of 1"), spark.table("hive_metastore.default.t").count()]
print(json.dumps(found))
"""


def test_changes_and_versions(live: Live, cluster: str) -> None:
    # In several commands: on one core that others use, too, a JVM that is new to Delta Lake takes minutes for all of it.
    _, (now, before, count) = (answers(live, cluster, code) for code in (CHANGES, FOUND))
    assert now == [[1, "u"], [2, "x"], [9, "n"]] and count == 3
    assert before == [[1, "a"], [2, "b"], [3, "c"]]


RESTORED = """
spark.sql("restore table t to version as of 1")
print(json.dumps([rows("t"), [row.operation for row in spark.sql("describe history t").collect()][::-1]]))
"""


@pytest.mark.extended  # Delta Lake's own work, in which we have no part
def test_an_earlier_version_comes_back(live: Live, cluster: str) -> None:
    """Of the table of the test before."""
    restored, history = answers(live, cluster, RESTORED)
    assert restored == [[1, "a"], [2, "b"], [3, "c"]]
    assert history == ["CREATE TABLE", "WRITE", "MERGE", "UPDATE", "DELETE", "RESTORE"]


PLACES = """
for path in ("dbfs:/places/one", "/Volumes/main/default/v/one"):
    spark.range(10).write.format("delta").save(path)
    spark.range(10, 15).write.format("delta").mode("append").save(path)
counts = [spark.read.format("delta").load(p).count() for p in ("/places/one", "/Volumes/main/default/v/one")]
counts.append(spark.sql("select count(*) from delta.`dbfs:/places/one`").first()[0])
spark.range(4).write.format("delta").saveAsTable("saved")
spark.range(3).write.format("delta").mode("overwrite").saveAsTable("main.default.saved")
counts.append(spark.table("saved").count())
spark.sql("create table plain using parquet as select 1 as a")
spark.range(2).write.mode("overwrite").saveAsTable("plain")
spark.sql("create view seen as select saved.id from plain join saved on plain.id = saved.id")
counts.append(spark.table("main.default.seen").count())
from delta.tables import DeltaTable
DeltaTable.forName(spark, "main.default.saved" if spark.version >= "4" else "default.saved").delete("id = 0")
DeltaTable.forPath(spark, "/places/one").update("id = 1", {"id": "100"})
hundred = spark.read.format("delta").load("/places/one").where("id = 100").count()
spark.sql("create table orders using delta as select 1 as id, 0 as total")
for _ in range(2):  # the second one is the same change, sent again
    spark.conf.set("spark.databricks.delta.write.txnAppId", "nightly-load")
    spark.conf.set("spark.databricks.delta.write.txnVersion", "17")
    spark.sql("UPDATE orders SET total = total + 1 WHERE id = 1")
    for name in ("txnAppId", "txnVersion"):
        spark.conf.unset(f"spark.databricks.delta.write.{name}")
print(json.dumps([counts, spark.table("saved").count(), hundred, spark.table("orders").first()["total"]]))
"""


def test_paths_tables_and_the_python_class_beside_other_formats(live: Live, cluster: str) -> None:
    live.w.api_client.do("POST", "/api/2.1/unity-catalog/volumes", body={
        "catalog_name": "main", "schema_name": "default", "name": "v", "volume_type": "MANAGED"
    })  # fmt: skip
    assert answers(live, cluster, PLACES) == [[15, 15, 15, 3, 2], 2, 1, 1]


CARE = """
spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
spark.sql("create table c (id bigint, k string) using delta cluster by (k)")
for number in range(3):
    spark.sql(f"insert into c values ({number}, 'a'), ({number}, 'b')")
spark.sql("optimize c")
spark.sql("create table z (id bigint, k string) using delta")
for number in range(3):
    spark.sql(f"insert into z values ({number}, 'a'), ({number}, 'b')")
spark.sql("optimize z zorder by (id)")
spark.sql("delete from z where id = 0")
before = len(spark.table("z").inputFiles())
spark.sql("vacuum z retain 0 hours")
import glob
place = spark.sql("describe detail z").first().location.replace("dbfs:", "/dbfs")
detail = spark.sql("describe detail c").first()
left = len(glob.glob(place + "/*.parquet"))
print(json.dumps([spark.table("c").count(), spark.table("z").count(), before, left, detail.clusteringColumns]))
"""


@pytest.mark.extended  # Delta Lake's own work, in which we have no part
def test_optimize_cluster_by_and_vacuum(live: Live, cluster: str) -> None:
    clustered, ordered, files, left, columns = answers(live, cluster, CARE)
    assert (clustered, ordered, columns) == (6, 4, ["k"])
    assert left == files, "VACUUM leaves what the last version needs"


IN_SQL = """
spark.sql("create table r (id bigint generated always as identity, n int not null, twice int generated always as (n * 2)) "
          "using delta")
"""
IN_PYTHON = """
from delta.tables import DeltaTable, IdentityGenerator
made = DeltaTable.create(spark).tableName("r").addColumn("id", "BIGINT", generatedAlwaysAs=IdentityGenerator())
made.addColumn("n", "INT", nullable=False).addColumn("twice", "INT", generatedAlwaysAs="n * 2").execute()
"""
RULES = """
spark.sql("alter table r add constraint small check (n < 100)")
spark.sql("insert into r (n) values (1), (2)")
refused = []
for statement in ("insert into r (n) values (null)", "insert into r (n) values (1000)", "insert into r (id, n) values (1, 1)"):
    try:
        spark.sql(statement)
        refused.append("done")
    except Exception as error:
        refused.append(type(error).__name__)
rows = [list(row) for row in spark.sql("select count(distinct id), sum(n), sum(twice) from r").collect()]
print(json.dumps([rows, "done" in refused, len(refused)]))
"""


@pytest.mark.extended  # Delta Lake's own work, in which we have no part
def test_constraints_identity_and_generated_columns(live: Live, cluster: str, line: str) -> None:
    made = IN_PYTHON if line == SPARK_3 else IN_SQL  # of such columns in SQL, Spark 3.5 knows nothing
    assert answers(live, cluster, made + RULES) == [[[2, 3, 6]], False, 3]


REPLACED = """
spark.sql("create table o using delta as select 1L as id")
spark.sql("create or replace table o using delta as select 2L as id")
spark.range(3).write.format("delta").mode("overwrite").saveAsTable("main.default.o")
before = [row.id for row in spark.sql("select id from o version as of 0").collect()]
print(json.dumps([before, spark.table("o").count(), spark.sql("describe history o").count()]))
"""


@pytest.mark.extended  # Delta Lake's own work, in which we have no part
def test_a_table_is_replaced_in_one_commit_and_keeps_its_history(live: Live, cluster: str) -> None:
    assert answers(live, cluster, REPLACED) == [[1], 3, 3]


VARIANTS = """
spark.sql("create table vs (id int, v variant) using delta")
spark.sql("insert into vs select 1, parse_json('{\\"a\\": [1, 2]}')")
print(json.dumps(spark.sql("select variant_get(v, '$.a[1]', 'int') from vs").first()[0]))
"""


@pytest.mark.extended  # Delta Lake's own work, in which we have no part
def test_variants(live: Live, cluster: str, line: str) -> None:
    if line == SPARK_3:
        pytest.skip("Spark 3.5 has no such type")
    assert answers(live, cluster, VARIANTS) == 2


FEEDS = """
spark.sql("create table f (id bigint, v string) using delta tblproperties "
          "(delta.enableChangeDataFeed = true, delta.enableDeletionVectors = true)")
spark.range(100).selectExpr("id", "'a' as v").coalesce(1).write.format("delta").mode("append").saveAsTable("f")
spark.sql("delete from f where id < 3")
spark.sql("update f set v = 'b' where id = 50")
counted = spark.sql("select _change_type, count(*) from table_changes('f', 2) group by 1").collect()
changes = {row._change_type: row[1] for row in counted}
import glob
place = spark.sql("describe detail f").first().location.replace("dbfs:", "/dbfs")
spark.sql("create table copied shallow clone f")
spark.sql("delete from copied where id >= 10")
vectors = len(glob.glob(place + "/deletion_vector*")) > 0
print(json.dumps([changes, vectors, spark.table("copied").count(), spark.table("f").count()]))
"""


@pytest.mark.extended  # Delta Lake's own work, in which we have no part
def test_change_feed_deletion_vectors_and_clones(live: Live, cluster: str) -> None:
    changes, vectors, copied, rows = answers(live, cluster, FEEDS)
    assert changes == {"delete": 3, "update_preimage": 1, "update_postimage": 1}
    assert (vectors, copied, rows) == (True, 7, 97)


STREAMS = """
spark.range(20).write.format("delta").saveAsTable("source")
def step():
    stream = spark.readStream.table("source").writeStream.format("delta").option("checkpointLocation", "dbfs:/checkpoints/delta")
    stream.trigger(availableNow=True).toTable("sink").awaitTermination()
step()
spark.range(20, 25).write.format("delta").mode("append").saveAsTable("source")
step()
step()
print(json.dumps([spark.table("sink").count(), spark.table("sink").distinct().count()]))
"""


@pytest.mark.extended  # Delta Lake's own work, in which we have no part
def test_streams_read_and_write_each_row_once(live: Live, cluster: str) -> None:
    assert answers(live, cluster, STREAMS) == [25, 25]


def test_the_catalogs_api_knows_the_format_and_the_columns(live: Live, cluster: str) -> None:
    answers(live, cluster, "spark.sql('create table listed (id bigint not null, v string) using delta')\nprint(1)")
    table = live.w.tables.get("main.default.listed")
    assert table.data_source_format is not None and table.data_source_format.value == "DELTA"
    assert [(each.name, each.type_text) for each in table.columns or []] == [("id", "bigint"), ("v", "string")]


REFUSED = """
try:
    spark.sql("create table no (id int) using delta")
except Exception as error:
    print(error)
"""


@pytest.mark.extended  # another cluster; test_data.py has such a cluster refuse the format
def test_a_cluster_can_do_without_the_layer(live: Live, line: str) -> None:
    bare = live.create("bare", line, is_single_node=True, kind=Kind.CLASSIC_PREVIEW, spark_conf={"spark.brickyard.layers": ""})
    live.wait(bare, State.RUNNING)
    refused = live.run_kept(bare, REFUSED)
    live.w.clusters.delete(bare)
    assert "brickyard runtime list" in refused


@pytest.mark.extended  # one more JVM learns Delta Lake; test_user_isolation.py has tables
@pytest.mark.skipif(launcher.probe().kind != "namespaces", reason="users are kept apart in cells, which take namespaces")
def test_where_users_are_kept_apart_sql_and_data_frames_have_it(live: Live, line: str) -> None:
    if line == SPARK_3:
        pytest.skip("clusters that keep their users apart need Spark 4")
    apart = live.create(
        "apart", line, is_single_node=True, kind=Kind.CLASSIC_PREVIEW, data_security_mode=DataSecurityMode.USER_ISOLATION
    )
    live.wait(apart, State.RUNNING)
    _, found = (answers(live, apart, re.sub(r"\bt\b(?!')", "u", code)) for code in (CHANGES, FOUND))
    live.w.clusters.delete(apart)
    assert found == [[[1, "u"], [2, "x"], [9, "n"]], [[1, "a"], [2, "b"], [3, "c"]], 3]
