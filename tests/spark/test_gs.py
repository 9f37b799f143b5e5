"""The layer gs on real Spark, with a store on loopback behind a proxy that breaks exchanges. A cluster of each line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from databricks.sdk.service.compute import CommandStatus, State

from tests.spark.layers import with_layers
from tests.spark.live import EXECUTOR, Live
from tests.support import cloudstorage
from tests.support.cloudstorage import BUCKET, EMAIL, KEY, KEY_ID, REFRESH, CloudStorage
from tests.support.faultyproxy import FAULTS, FaultyProxy, faulty
from tests.support.patience import until
from tests.support.runtimes import SPARK_4

pytestmark = [pytest.mark.spark, pytest.mark.extended, pytest.mark.timeout(1800)]
LINES = (SPARK_4, "18.0.x-scala2.13")
EVERY = 9  # one exchange of so many is broken: of a request's retries, one comes through
MEDIA = "application/octet-stream"  # the connector does not ask again for other answers that break off
TOP = f"gs://{BUCKET}"
SINGLE = {"spark.databricks.cluster.profile": "singleNode", "spark.master": "local[*]"}


@pytest.fixture(scope="module", params=LINES, autouse=True)
def line(request: pytest.FixtureRequest) -> str:
    key: str = request.param
    with_layers(key, ["delta", "gs"])
    return key


@pytest.fixture(scope="module")
def store(line: str) -> Iterator[CloudStorage]:
    """Of one line: the tests write the same names."""
    with cloudstorage.serve() as found:
        yield found


@pytest.fixture(scope="module")
def proxy(store: CloudStorage) -> Iterator[FaultyProxy]:
    with faulty(f"http://{store.address}") as found:
        found.repeated, found.cuttable = True, MEDIA
        yield found


@pytest.fixture(scope="module")
def live(line: str, tmp_path_factory: pytest.TempPathFactory, proxy: FaultyProxy) -> Iterator[Live]:
    made = Live(tmp_path_factory.mktemp("live") / line)
    made.settings = msgspec.structs.replace(made.settings, network_allow=proxy.address)
    made.start()
    try:
        made.w.secrets.create_scope("gs")
        made.w.secrets.put_secret("gs", "key", string_value=KEY.replace("\n", "\\n"))  # as a key's JSON file has it
        yield made
    finally:
        made.close()


def conf(proxy: FaultyProxy, **more: str) -> dict[str, str]:
    hadoop = {
        "storage.root.url": f"http://{proxy.address}/",  # of tests alone: Google is reached by TLS
        "token.server.url": f"http://{proxy.address}/token",
        "auth.service.account.email": EMAIL,
        "auth.service.account.private.key.id": KEY_ID,
        "auth.service.account.private.key": "{{secrets/gs/key}}",
        "outputstream.upload.chunk.size": "1048576",
        **more,
    }
    return {
        "spark.brickyard.layers": "delta,gs",
        "spark.sql.shuffle.partitions": "2",
        **{f"spark.hadoop.fs.gs.{key}": value for key, value in hadoop.items()},
    }


@pytest.fixture(scope="module")
def cluster(live: Live, line: str, proxy: FaultyProxy) -> Iterator[str]:
    made = live.create("gs", line, num_workers=1, spark_conf=conf(proxy))
    live.wait(made, State.RUNNING, workers=1)
    yield made
    live.w.clusters.delete(made)


@pytest.fixture(autouse=True)
def without_faults(proxy: FaultyProxy, store: CloudStorage) -> Iterator[None]:
    """Each test turns them on itself."""
    yield
    proxy.every, proxy.cuttable, store.refuse = 0, MEDIA, ""


def answers(live: Live, cluster: str, code: str) -> Any:
    """What the code prints as JSON."""
    return json.loads(live.run_kept(cluster, f"import json\ntop = '{TOP}'\n{code}"))


FILES = """
java = sc._jvm.org.apache.hadoop
place = java.fs.Path(top + "/files and more/")
fs = place.getFileSystem(sc._jsc.hadoopConfiguration())
path = lambda name: java.fs.Path(place, name)
out = fs.create(path("large"))
for number in range(3):
    out.write(bytes([number]) * (1 << 20))  # more than one request uploads
out.close()
for number in range(20):  # more than one answer lists
    fs.create(path(f"small {number}%25")).close()
renamed = [fs.rename(path("large"), path(name)) for name in ("small 1%25", "moved", "again")]
stream = fs.open(path("moved"))
stream.seek(5 << 18)
found = [stream.read()]
stream.seek(0)
found += [stream.read(), fs.getFileStatus(path("moved")).getLen()]
stream.close()
names = len(fs.listStatus(place))
print(json.dumps([renamed, found, names, fs.delete(place, True), fs.exists(path("moved")), fs.getClass().getName()]))
"""


def test_every_request_of_the_file_system(live: Live, cluster: str) -> None:
    renamed, found, names, deleted, there, kind = answers(live, cluster, FILES)
    assert kind == "brickyard.CloudStorageFiles"
    assert renamed == [False, True, False], "nothing is replaced"
    assert (found, names, deleted, there) == ([1, 0, 3 * (1 << 20)], 21, True, False)


WRITES = """
spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
place = top + "/t"
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
fs = java.fs.Path(top).getFileSystem(sc._jsc.hadoopConfiguration())
names = [each.getPath().getName() for name in ("t", "tp", "tq") for each in fs.listStatus(java.fs.Path(f"{top}/{name}"))]
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


BROKEN_OFF = """
done = []
for number in range(12):
    try:
        spark.range(number * 100, number * 100 + 100, 1, 2).write.mode("append").parquet(top + "/cut")
        done.append(number)
    except Exception as error:
        assert "Connection closed prematurely" in str(error), error
print(json.dumps(done))
"""
HUNDREDS = """
rows = spark.read.parquet(top + "/cut").selectExpr("id div 100 as number").groupBy("number").count().collect()
print(json.dumps(sorted([row["number"], row["count"]] for row in rows)))
"""


def test_writes_that_end_because_an_answer_breaks_off_leave_no_row(live: Live, cluster: str, proxy: FaultyProxy) -> None:
    proxy.every, proxy.cuttable = 4 * EVERY, ""
    done = answers(live, cluster, BROKEN_OFF)
    proxy.every = 0
    assert done, "some came through"
    assert answers(live, cluster, HUNDREDS) == [[number, 100] for number in done]


SLOW = """
import time
from pyspark.sql.functions import udf
@udf("bigint")
def slow(value):
    time.sleep(0.2)
    return value
spark.range(0, 200, 1, 8).select(slow("id").alias("id")).write.mode("overwrite").parquet(top + "/t")
"""
COUNTED = """
rows = spark.read.parquet(top + "/t")
print(json.dumps([rows.count(), rows.distinct().count()]))
"""
BEGUN = "spark.range(0, 700).write.mode('overwrite').parquet(top + '/t')\n"


def test_an_executor_that_is_killed_doubles_and_loses_nothing(live: Live, cluster: str, store: CloudStorage) -> None:
    answers(live, cluster, BEGUN + COUNTED)
    context = live.context(cluster)
    command = live.begin(cluster, context, f"top = '{TOP}'\n{SLOW}")
    until(lambda: any("_temporary-" in name for name in store.names("t")), "no task writes")
    assert answers(live, cluster, COUNTED) == [700, 700], "nothing is replaced before the job is committed"
    live.kill(live.below(live.worker_agents(cluster)[0], EXECUTOR))
    answer = live.finish(cluster, context, command)
    assert answer.status is CommandStatus.FINISHED and answer.results and not answer.results.summary, answer
    assert answers(live, cluster, COUNTED) == [200, 200]


ATTEMPT = """
refused = []
def attempt(work):
    try:
        work()
        refused.append("done")
    except Exception as error:
        refused.append(str(error))
"""
FAILING = """
from pyspark.sql.functions import udf
@udf("bigint")
def breaking(value):
    assert value != 150
    return value
broken = spark.range(0, 200, 1, 4).select(breaking("id").alias("id")).write
attempt(lambda: broken.mode("append").parquet(top + "/t"))
attempt(lambda: broken.mode("overwrite").parquet(top + "/t"))
print(json.dumps(refused))
"""
UNFINISHED = """
many = spark.range(0, 200, 1, 8).write
attempt(lambda: many.mode("append").parquet(top + "/t"))
attempt(lambda: many.mode("overwrite").parquet(top + "/t"))
print(json.dumps(refused))
"""


def test_writes_that_fail_add_no_row_and_remove_none(live: Live, cluster: str, store: CloudStorage) -> None:
    assert answers(live, cluster, BEGUN + COUNTED) == [700, 700]
    before = store.names("t")
    failed = answers(live, cluster, ATTEMPT + FAILING)
    assert all("AssertionError" in each for each in failed)
    store.refuse = "t/part-00003"  # the commit breaks in the middle
    failed = answers(live, cluster, ATTEMPT + UNFINISHED)
    assert all("403 Forbidden" in each for each in failed), failed
    assert answers(live, cluster, COUNTED) == [700, 700]
    assert store.names("t") == before, "nothing is left"
    store.refuse = "replaced/"  # the new files are there, and the older ones cannot be moved away
    assert "403 Forbidden" in answers(live, cluster, ATTEMPT + UNFINISHED)[1]
    store.refuse = ""
    assert answers(live, cluster, COUNTED) == [900, 700], "the append alone"


TOGETHER = """
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(4) as pool:
    list(pool.map(lambda n: spark.range(n * 100, n * 100 + 100, 1, 2).write.mode("append").parquet(top + "/together"), range(12)))
rows = spark.read.parquet(top + "/together")
print(json.dumps([rows.count(), rows.distinct().count()]))
"""


def test_jobs_that_write_to_one_directory_at_once_lose_nothing(live: Live, cluster: str, store: CloudStorage) -> None:
    assert answers(live, cluster, TOGETHER) == [1200, 1200]
    assert not [name for name in store.names("together") if "_temporary" in name]


RACE = """
from concurrent.futures import ThreadPoolExecutor
jvm = sc._jvm
conf = sc._jsc.hadoopConfiguration()
store = jvm.io.delta.storage.GCSLogStore(conf)
path = lambda version: jvm.org.apache.hadoop.fs.Path(f"{top}/race/_delta_log/{version:020}.json")
path(0).getFileSystem(conf).mkdirs(path(0).getParent())
def commit(writer, version):
    lines = jvm.java.util.ArrayList()
    lines.add(str(writer))
    try:
        store.write(path(version), lines.iterator(), False, conf)
        return [str(writer)]
    except Exception as error:
        assert "FileAlreadyExistsException" in str(error), error
        return []
with ThreadPoolExecutor(8) as pool:
    won = [sum(pool.map(lambda writer: commit(writer, version), range(8)), []) for version in range(25)]
print(json.dumps([won, [[store.read(path(version), conf).next()] for version in range(25)]]))
"""
APPENDS = """
for number in range(3):
    spark.range(FIRST + number * 10, FIRST + number * 10 + 10, 1, 1).write.format("delta").mode("append").save(top + "/delta")
"""
TABLE = """
spark.range(0, 1, 1, 1).write.format("delta").save(top + "/delta")
print("1")
"""
RESULT = """
rows = spark.read.format("delta").load(top + "/delta")
versions = [each.version for each in spark.sql(f"describe history delta.`{top}/delta`").collect()]
print(json.dumps([rows.count(), rows.distinct().count(), sorted(versions)]))
"""


def test_of_writers_of_one_version_of_a_delta_table_one_wins(live: Live, cluster: str, proxy: FaultyProxy) -> None:
    proxy.every = EVERY
    won, there = answers(live, cluster, RACE)
    assert won == there, "one writer is told so, and it is the one whose commit is there"


def test_two_clusters_that_write_to_one_delta_table_lose_and_double_nothing(
    live: Live, line: str, cluster: str, proxy: FaultyProxy
) -> None:
    other = live.create(
        "other", line, num_workers=0, spark_conf=SINGLE | conf(proxy), custom_tags={"ResourceClass": "SingleNode"}
    )
    try:
        answers(live, cluster, TABLE)
        live.wait(other, State.RUNNING)
        proxy.every = EVERY
        begun = []
        for first, each in ((1, cluster), (101, other)):
            context = live.context(each)
            begun.append((each, context, live.begin(each, context, f"top = '{TOP}'\n" + APPENDS.replace("FIRST", str(first)))))
        for command in begun:
            answer = live.finish(*command)
            assert answer.status is CommandStatus.FINISHED and answer.results and not answer.results.summary, answer
        assert answers(live, cluster, RESULT) == [61, 61, list(range(7))]
    finally:
        live.w.clusters.delete(other)


REFUSED = """
fresh = {"fs.gs.impl.disable.cache": "true"}
other = {**fresh, "fs.gs.auth.service.account.private.key.id": "other"}
attempt(lambda: spark.read.options(**other).parquet(top + "/t").count())
attempt(lambda: spark.range(3).write.options(**other).parquet(top + "/wrong"))
attempt(lambda: spark.read.options(**fresh, **{"fs.gs.auth.service.account.email": ""}).parquet(top + "/t").count())
attempt(lambda: spark.read.parquet("gs://none/t").count())
user = {"fs.gs.auth.type": "USER_CREDENTIALS", "fs.gs.auth.client.id": "a", "fs.gs.auth.client.secret": "b"}
attempt(lambda: spark.read.options(**fresh, **user, **{"fs.gs.auth.refresh.token": "REFRESH"}).parquet(top + "/t").count())
attempt(lambda: spark.read.options(**fresh, **{"fs.gs.auth.type": "UNAUTHENTICATED"}).parquet(top + "/t").count())
print(json.dumps(refused))
"""


def test_wrong_credentials_are_refused(live: Live, cluster: str, store: CloudStorage) -> None:
    assert answers(live, cluster, BEGUN + COUNTED) == [700, 700]
    read, written, unnamed, without, user, nobody = answers(live, cluster, ATTEMPT + REFUSED.replace("REFRESH", REFRESH))
    assert "invalid_grant" in read and "invalid_grant" in written, (read, written)
    assert "There is no fs.gs.auth.service.account.email" in unnamed
    assert "gs://none" in without, without
    assert user == "done"
    assert "401 Unauthorized" in nobody, nobody
    assert not store.names("wrong")
