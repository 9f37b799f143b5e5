"""Sources of data on real Spark with JARs from Maven (Avro, Kafka, JDBC), and XML, which Spark 4 has."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest
from databricks.sdk.service.compute import Kind, Library, LibraryFullStatus, LibraryInstallStatus, MavenLibrary, State

from tests.spark.live import Live
from tests.support.patience import until
from tests.support.ports import free_port
from tests.support.postgres import Postgres
from tests.support.runtimes import SPARK_4

pytestmark = [pytest.mark.spark, pytest.mark.extended, pytest.mark.timeout(1800)]
AVRO, KAFKA = "org.apache.spark:spark-avro_2.13:4.0.2", "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0"
SQLITE, POSTGRES = "org.xerial:sqlite-jdbc:3.54.1.0", "org.postgresql:postgresql:42.7.14"
OVER = (LibraryInstallStatus.INSTALLED, LibraryInstallStatus.FAILED, LibraryInstallStatus.SKIPPED)


def address(postgres: Postgres) -> str:
    return urlsplit(postgres.url("postgres")).netloc.rpartition("@")[2]


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory, postgres: Postgres) -> Iterator[Live]:
    made = Live(tmp_path_factory.mktemp("live") / "workspace")
    made.settings = msgspec.structs.replace(made.settings, network_allow=address(postgres))
    made.start()
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def cluster(live: Live) -> Iterator[str]:
    """With all libraries. Skips the tests where no repository has them."""
    made = live.create("sources", SPARK_4, is_single_node=True, kind=Kind.CLASSIC_PREVIEW)
    wanted = [Library(maven=MavenLibrary(coordinates=each)) for each in (AVRO, KAFKA, SQLITE, POSTGRES)]
    live.w.libraries.install(made, wanted)
    live.wait(made, State.RUNNING)

    def statuses() -> list[LibraryFullStatus]:
        return list(live.w.libraries.cluster_status(made))

    until(lambda: all(each.status in OVER for each in statuses()), lambda: f"never installed: {statuses()}", patience_s=600)
    if failed := [each for each in statuses() if each.status is not LibraryInstallStatus.INSTALLED]:
        pytest.skip(f"libraries from Maven: {failed[0].library} {failed[0].messages}")
    yield made
    live.w.clusters.delete(made)


def answers(live: Live, cluster: str, code: str) -> Any:
    """What the code prints as JSON."""
    return json.loads(live.run_kept(cluster, "import json\n" + code))


AVRO_CODE = """
from pyspark.sql.avro.functions import from_avro, to_avro
rows = spark.range(100).selectExpr("id", "concat('n', id) name", "cast(id / 3 as decimal(10, 2)) d", "array(id) a")
rows.write.mode("overwrite").format("avro").save("dbfs:/sources/avro")
back = spark.read.format("avro").load("dbfs:/sources/avro")
schema = '{"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]}'
there = rows.selectExpr("struct(id) s").select(to_avro("s").alias("b")).select(from_avro("b", schema).alias("s"))
print(json.dumps([back.exceptAll(rows).count(), back.count(), there.selectExpr("sum(s.id)").first()[0]]))
"""


def test_avro(live: Live, cluster: str) -> None:
    assert answers(live, cluster, AVRO_CODE) == [0, 100, 4950]


XML_CODE = """
rows = spark.range(10).selectExpr("id", "named_struct('a', id, 'b', 'x') pair")
rows.write.mode("overwrite").format("xml").option("rowTag", "row").save("dbfs:/sources/xml")
back = spark.read.option("rowTag", "row").xml("dbfs:/sources/xml")
parsed = spark.sql("select from_xml('<r><n>7</n></r>', 'n int').n, schema_of_xml('<r><n>7</n></r>')").first()
print(json.dumps([back.selectExpr("sum(id)", "sum(pair.a)").first(), list(parsed)]))
"""


def test_xml(live: Live, cluster: str) -> None:
    assert answers(live, cluster, XML_CODE) == [[45, 45], [7, "STRUCT<n: BIGINT>"]]


JDBC_CODE = """
rows = spark.range(50).selectExpr("cast(id as int) id", "concat('it''s ', id) name", "cast(id / 4 as decimal(10, 2)) d")
found = []
for url, driver, more in URLS:
    options = {"url": url, "dbtable": "kept", "driver": driver, **more}
    rows.write.format("jdbc").mode("overwrite").options(**options).save()
    parts = {"partitionColumn": "id", "lowerBound": 0, "upperBound": 50, "numPartitions": 2}
    back = spark.read.format("jdbc").options(**options, **parts).load()
    some = back.where("id >= 48 and name like 'it%'").selectExpr("sum(id)", "cast(sum(d) as double)")
    found.append([back.count(), some.first()])
print(json.dumps(found))
"""


def test_jdbc(live: Live, cluster: str, postgres: Postgres) -> None:
    """SQLite in a file of the only node, and PostgreSQL over the network."""
    urls = [
        ["jdbc:sqlite:/tmp/kept.db", "org.sqlite.JDBC", {}],
        [f"jdbc:postgresql://{address(postgres)}/postgres", "org.postgresql.Driver", {"user": "postgres"}],
    ]
    found = answers(live, cluster, f"URLS = json.loads({json.dumps(urls)!r})\n{JDBC_CODE}")
    assert found == [[50, [97, 24.25]], [50, [97, 24.25]]]


KAFKA_CODE = """
options = {"kafka.bootstrap.servers": "127.0.0.1:PORT", "subscribe": "t", "kafka.default.api.timeout.ms": "3000",
           "kafka.request.timeout.ms": "2000", "fetchOffset.numRetries": "1"}
try:
    spark.read.format("kafka").options(**options).load().count()
    found = "nothing"
except Exception as error:
    found = str(error)
print(json.dumps(found))
"""


def test_kafka_s_source_says_that_no_broker_answers(live: Live, cluster: str) -> None:
    found = answers(live, cluster, KAFKA_CODE.replace("PORT", str(free_port())))
    assert "Timeout" in found or "timed out" in found, found
