"""Every runtime on offer, as a cluster of two workers that computes, keeps tables and runs a job. To run it:

    BRICKYARD_TEST_RUNTIMES=all ./dev test tests/spark/test_every_runtime.py

Not part of the usual run: environments of more than a gigabyte each are installed where they are not there yet. A list of keys
tests those only, and BRICKYARD_CACHE_DIR chooses where they are installed.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator
from datetime import timedelta

import pytest
from databricks.sdk.service import jobs
from databricks.sdk.service.compute import State

from brickyard.runtime import catalogue
from tests.spark.live import Live

CHOSEN = os.environ.get("BRICKYARD_TEST_RUNTIMES", "")
KEYS = [row.key for row in catalogue.rows() if CHOSEN == "all" or row.key in CHOSEN.split(",")]

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    made = Live(tmp_path_factory.mktemp("live") / "workspace", patience_s=1500)  # installations take their time
    made.start()
    try:
        yield made
    finally:
        made.close()


CODE = """
import json
import pandas as pd
from pyspark.sql import functions as f
frame = spark.range(1000).withColumn("key", f.col("id") % 7)
grouped = sorted(tuple(row) for row in frame.groupBy("key").sum("id").collect())
doubled = sc.parallelize(range(100), 4).map(lambda n: n * 2).sum()
plus = f.pandas_udf(lambda s: s + 1, "long")
arrow = frame.select(plus("id").alias("id")).agg(f.sum("id")).first()[0]
table = sql("select count(*) as c from range(10)").toPandas()["c"][0]
print(json.dumps([spark.version, grouped, doubled, arrow, int(table), sc.parallelize([0]).map(lambda _: 1).count()]))
"""

TABLES = """
spark.range(0, 1000, 1, 8).write.saveAsTable("t")
spark.sql("create table c as select id, id % 3 as k from t")
spark.sql("create table p using parquet partitioned by (k) as select id, id % 3 as k from t")
spark.sql("insert overwrite p partition (k = 0) select id from range(7)")
spark.sql("create table l using json location 'dbfs:/l-KEY' as select id from t")
spark.range(1000, 2000, 1, 8).write.insertInto("t")
spark.range(0, 10, 1, 8).write.parquet("/p-KEY")
spark.range(0, 500, 1, 8).write.mode("overwrite").parquet("/p-KEY")
spark.range(500, 1000, 1, 8).write.mode("append").parquet("dbfs:/p-KEY")
"""
COUNTS = """
import json
rows = [spark.table(name) for name in ("t", "c", "p", "l")] + [spark.read.parquet("dbfs:/p-KEY")]
print(json.dumps([[each.count(), each.distinct().count()] for each in rows]))
"""
JOB = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
print(spark.read.parquet(f"dbfs:/p-{sys.argv[1]}").count(), spark.table("t").count())
"""
COUNTED = [[2000, 2000], [1000, 1000], [666 + 7, 666 + 7], [1000, 1000], [1000, 1000]]


@pytest.mark.skipif(not KEYS, reason="set BRICKYARD_TEST_RUNTIMES to all, or to keys of runtimes: they are large")
@pytest.mark.parametrize("key", KEYS)
def test_a_runtime_starts_and_computes(live: Live, key: str) -> None:
    row = catalogue.find(key)
    assert row is not None
    cluster = live.create(key, key, num_workers=2)
    live.wait(cluster, State.RUNNING, workers=2)
    said = json.loads(live.run(cluster, CODE))
    grouped = [[key, sum(range(key, 1000, 7))] for key in range(7)]
    assert said == [row.spark_version, grouped, 9900, sum(range(1001)), 10, 1]
    live.run(cluster, TABLES.replace("KEY", key))
    assert json.loads(live.run(cluster, COUNTS.replace("KEY", key))) == COUNTED
    live.w.dbfs.upload(f"/job-{key}.py", io.BytesIO(JOB.encode()), overwrite=True)
    file = jobs.SparkPythonTask(python_file=f"dbfs:/job-{key}.py", parameters=[key])
    submitted = live.w.jobs.submit(tasks=[jobs.SubmitTask("t", existing_cluster_id=cluster, spark_python_task=file)])
    done = submitted.result(timedelta(seconds=live.patience_s))
    assert (live.w.jobs.get_run_output((done.tasks or [])[0].run_id or 0).logs or "").strip() == "1000 2000"
    live.w.clusters.restart(cluster)
    live.wait(cluster, State.RUNNING, workers=2)
    assert json.loads(live.run(cluster, COUNTS.replace("KEY", key))) == COUNTED, "after a restart"
    live.run(
        cluster, "for name in ('t', 'c', 'p', 'l'): spark.sql(f'drop table {name}')"
    )  # the next runtime sees the same tables
    live.w.clusters.permanent_delete(cluster)
