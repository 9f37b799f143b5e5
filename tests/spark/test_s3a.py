"""The layer s3a on real Spark, with an S3 server on loopback behind a proxy that breaks exchanges. A cluster of each line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from databricks.sdk.service.compute import CommandStatus, State

from brickyard.runtime import catalogue
from brickyard.runtime.layers import layers_of, missing
from brickyard.runtime.layerwork import require_layers
from tests.spark.live import EXECUTOR, Live
from tests.support.faultyproxy import FAULTS, FaultyProxy, faulty
from tests.support.objectstore import ObjectStore, serve
from tests.support.patience import until
from tests.support.runtimes import SPARK_3, SPARK_4, cache_dir, manifest_of

pytestmark = [pytest.mark.spark, pytest.mark.extended, pytest.mark.timeout(1800)]
LINES = (SPARK_3, SPARK_4, "18.0.x-scala2.13")
EVERY = 9  # one exchange of so many is broken: of a request's retries, one comes through


@pytest.fixture(scope="module", params=LINES, autouse=True)
def line(request: pytest.FixtureRequest) -> str:
    """Installs the runtime with the layer. Skips the tests where no repository has it."""
    key: str = request.param
    manifest_of(key)
    runtime = catalogue.find(key)
    assert runtime is not None and layers_of(runtime.environment, ["s3a"])
    problems = require_layers(runtime.environment, cache_dir=cache_dir(), names=["s3a"])
    if missing(runtime.environment, cache_dir(), ["s3a"]):
        pytest.skip(f"no S3A: {problems}")
    return key


@pytest.fixture(scope="module")
def store(line: str) -> Iterator[ObjectStore]:
    """Of one line: the tests write the same names."""
    with serve() as found:
        yield found


@pytest.fixture(scope="module")
def proxy(store: ObjectStore) -> Iterator[FaultyProxy]:
    with faulty(store.endpoint) as found:
        yield found


@pytest.fixture(scope="module")
def live(line: str, tmp_path_factory: pytest.TempPathFactory, proxy: FaultyProxy) -> Iterator[Live]:
    made = Live(tmp_path_factory.mktemp("live") / line)
    made.settings = msgspec.structs.replace(made.settings, network_allow=proxy.address)
    made.start()
    try:
        yield made
    finally:
        made.close()


def conf(proxy: FaultyProxy) -> dict[str, str]:
    hadoop = {"endpoint": f"http://{proxy.address}", "endpoint.region": "us-east-1", "path.style.access": "true",
              "access.key": "{{secrets/s3/access}}", "secret.key": "{{secrets/s3/secret}}"}  # fmt: skip
    return {
        "spark.brickyard.layers": "delta,s3a",
        "spark.sql.shuffle.partitions": "2",
        **{f"spark.hadoop.fs.s3a.{key}": value for key, value in hadoop.items()},
    }


@pytest.fixture(scope="module")
def cluster(live: Live, line: str, proxy: FaultyProxy) -> Iterator[str]:
    live.w.secrets.create_scope("s3")
    live.w.secrets.put_secret("s3", "access", string_value="key")
    live.w.secrets.put_secret("s3", "secret", string_value="secret")
    made = live.create("s3a", line, num_workers=1, spark_conf=conf(proxy))
    live.wait(made, State.RUNNING, workers=1)
    yield made
    live.w.clusters.delete(made)


@pytest.fixture(autouse=True)
def without_faults(proxy: FaultyProxy) -> Iterator[None]:
    """Each test turns them on itself."""
    yield
    proxy.every = 0


def answers(live: Live, cluster: str, code: str) -> Any:
    """What the code prints as JSON."""
    return json.loads(live.run_kept(cluster, "import json\n" + code))


FILES = """
java = sc._jvm.org.apache.hadoop
top = java.fs.Path("s3a://bucket/files/")
fs = top.getFileSystem(sc._jsc.hadoopConfiguration())
path = lambda name: java.fs.Path(top, name)
out = fs.create(path("large"))
for number in range(9):
    out.write(bytes([number]) * (8 << 20))  # a multipart upload: parts have 64 MiB
out.close()
open("/tmp/local", "w").write("local")
fs.copyFromLocalFile(java.fs.Path("file:/tmp/local"), path("local"))
renamed = fs.rename(path("large"), path("moved"))
stream = fs.open(path("moved"))
stream.seek(70 << 20)
found = [stream.read()]
stream.seek(0)
found += [stream.read(), fs.getFileStatus(path("moved")).getLen()]
stream.close()
names = sorted(each.getPath().getName() for each in fs.listStatus(top))
print(json.dumps([renamed, found, names, fs.delete(top, True), fs.exists(path("moved")), fs.getClass().getSimpleName()]))
"""


def test_every_request_of_the_file_system(live: Live, cluster: str) -> None:
    renamed, found, names, deleted, there, kind = answers(live, cluster, FILES)
    assert kind == "S3AFileSystem"
    assert (renamed, found, names, deleted, there) == (True, [8, 0, 9 * (8 << 20)], ["local", "moved"], True, False)


WRITES = """
spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
place = "s3a://bucket/t"
rows = lambda start, end: spark.range(start, end, 1, 4)
parted = lambda frame: frame.selectExpr("id", "id % 4 as k")
count = lambda where: [spark.read.parquet(where).count(), spark.read.parquet(where).distinct().count()]
rows(0, 1000).write.parquet(place)
rows(1000, 1500).write.mode("append").parquet(place)
found = [count(place)]
rows(0, 700).write.mode("overwrite").option("partitionOverwriteMode", "static").parquet(place)
found.append(count(place))
parted(rows(0, 400)).write.partitionBy("k").parquet(place + "p")
parted(rows(0, 40)).where("k < 2").write.mode("overwrite").partitionBy("k").parquet(place + "p")
found.append(count(place + "p"))
spark.sql(f"create table outside (id bigint, k bigint) using parquet partitioned by (k) location '{place}q'")
spark.sql("insert into outside select id, id % 2 from range(100)")
spark.sql("insert overwrite outside partition (k = 1) select id from range(7)")
spark.sql("insert into outside select id, 5 from range(3)")
found.append([spark.table("outside").count(), spark.table("main.default.outside").where("k = 1").count()])
java = sc._jvm.org.apache.hadoop
fs = java.fs.Path("s3a://bucket/").getFileSystem(sc._jsc.hadoopConfiguration())
names = [each.getPath().getName() for name in ("t", "tp", "tq") for each in fs.listStatus(java.fs.Path("s3a://bucket/" + name))]
print(json.dumps([*found, sorted(name for name in names if name.startswith("_"))]))
"""


def test_writes_have_each_row_once_whatever_breaks(live: Live, cluster: str, proxy: FaultyProxy) -> None:
    proxy.every = EVERY
    appended, overwritten, dynamic, table, hidden = answers(live, cluster, WRITES)
    assert appended == [1500, 1500] and overwritten == [700, 700]
    assert dynamic == [220, 220], "two partitions of 100 rows are replaced by 10 each"
    assert table == [50 + 7 + 3, 7]
    assert hidden == ["_SUCCESS"] * 3
    assert set(proxy.made) == set(FAULTS)


SLOW = """
import time
from pyspark.sql.functions import udf
@udf("bigint")
def slow(value):
    time.sleep(0.2)
    return value
spark.range(0, 200, 1, 8).select(slow("id").alias("id")).write.mode("MODE").parquet("s3a://bucket/t")
"""
COUNTED = """
rows = spark.read.parquet("s3a://bucket/t")
print(json.dumps([rows.count(), rows.distinct().count()]))
"""


def paths(store: ObjectStore) -> list[str]:
    """Of all objects of the table."""
    return [each["path"] for batch in store.store.list("t/") for each in batch]


def begin_slow(live: Live, cluster: str, store: ObjectStore, mode: str) -> tuple[str, str]:
    """Begins a job that writes 200 rows, and returns its context and command when one of its tasks has ended."""
    context = live.context(cluster)
    command = live.begin(cluster, context, SLOW.replace("MODE", mode))
    until(lambda: any(path.endswith(".pendingset") for path in paths(store)), "no task has ended")
    return context, command


def test_an_executor_that_is_killed_doubles_and_loses_nothing(live: Live, cluster: str, store: ObjectStore) -> None:
    answers(live, cluster, "spark.range(0, 700).write.mode('overwrite').parquet('s3a://bucket/t')\n" + COUNTED)
    context, command = begin_slow(live, cluster, store, "overwrite")
    assert answers(live, cluster, COUNTED) == [700, 700], "nothing is replaced before the job is committed"
    live.kill(live.below(live.worker_agents(cluster)[0], EXECUTOR))
    answer = live.finish(cluster, context, command)
    assert answer.status is CommandStatus.FINISHED and answer.results and not answer.results.summary, answer
    assert answers(live, cluster, COUNTED) == [200, 200]


def test_jobs_that_write_to_one_directory_at_once_keep_all_rows(live: Live, cluster: str, store: ObjectStore) -> None:
    answers(live, cluster, "spark.range(1000, 1100).write.mode('overwrite').parquet('s3a://bucket/t')\n" + COUNTED)
    context, command = begin_slow(live, cluster, store, "append")
    both = "spark.range(2000, 2100).write.mode('append').parquet('s3a://bucket/t')\n" + COUNTED
    assert answers(live, cluster, both) == [200, 200], "it ends while the first one writes"
    failed = """
from pyspark.sql.functions import expr
try:
    spark.range(1).select(expr("raise_error('no')").cast("bigint").alias("id")).write.mode("append").parquet("s3a://bucket/t")
except Exception as error:
    print(json.dumps(str(error)))
"""
    assert "no" in answers(live, cluster, failed)
    answer = live.finish(cluster, context, command)
    assert answer.status is CommandStatus.FINISHED and answer.results and not answer.results.summary, answer
    assert answers(live, cluster, COUNTED) == [400, 400]
    assert not [path for path in paths(store) if "__magic" in path]


REFUSED = """
refused = []
def attempt(work):
    try:
        work()
        refused.append("done")
    except Exception as error:
        refused.append(str(error))
attempt(lambda: spark.range(3).write.format("delta").save("s3a://bucket/delta"))
attempt(lambda: spark.range(3).write.option("fs.s3a.committer.name", "file").parquet("s3a://bucket/plain"))
hadoops = "org.apache.hadoop.fs.s3a.commit.S3ACommitterFactory"
with_hadoops = spark.range(3).write.option("mapreduce.outputcommitter.factory.scheme.s3a", hadoops)
attempt(lambda: with_hadoops.parquet("s3a://bucket/hadoops"))
print(json.dumps(refused))
"""


def test_what_would_lose_rows_is_refused_by_name(live: Live, cluster: str, line: str) -> None:
    delta, committer, hadoops = answers(live, cluster, REFUSED)
    assert "spark.delta.logStore.s3a.impl" in delta
    assert "spark.hadoop.fs.s3a.committer.name" in committer
    if line == SPARK_3:
        assert "outputcommitter.factory.scheme.s3a" in hadoops, "it removes what other jobs have not committed"
    else:
        assert hadoops == "done"
