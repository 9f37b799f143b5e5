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
from tests.spark.storecode import (
    APPENDS,
    ATTEMPT,
    BEGUN,
    COUNTED,
    FAILING,
    RACE,
    RESULT,
    SLOW,
    TABLE,
    TOGETHER,
    UNFINISHED,
    WRITES,
)
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
    except Exception:  # the connector does not ask again
        pass
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
    assert 0 < len(done) < 12, "some came through, and some did not"
    assert answers(live, cluster, HUNDREDS) == [[number, 100] for number in done]


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


def test_writes_that_fail_add_no_row_and_remove_none(live: Live, cluster: str, store: CloudStorage) -> None:
    assert answers(live, cluster, BEGUN + COUNTED) == [700, 700]
    before = store.names("t")
    failed = answers(live, cluster, ATTEMPT + FAILING)
    assert all("AssertionError" in each for each in failed)
    store.refuse = "t/part-00003"  # the commit breaks in the middle
    failed = answers(live, cluster, ATTEMPT + UNFINISHED)
    assert all("Error moving 'gs://" in each for each in failed), failed
    assert answers(live, cluster, COUNTED) == [700, 700]
    assert store.names("t") == before, "nothing is left"
    store.refuse = "replaced/"  # the new files are there, and the older ones cannot be moved away
    assert "Error moving 'gs://" in answers(live, cluster, ATTEMPT + UNFINISHED)[1]
    store.refuse = ""
    assert answers(live, cluster, COUNTED) == [900, 700], "the append alone"


def test_jobs_that_write_to_one_directory_at_once_lose_nothing(live: Live, cluster: str, store: CloudStorage) -> None:
    assert answers(live, cluster, TOGETHER) == [1200, 1200]
    assert not [name for name in store.names("together") if "_temporary" in name]


def test_of_writers_of_one_version_of_a_delta_table_one_wins(live: Live, cluster: str, proxy: FaultyProxy) -> None:
    proxy.every = EVERY
    won, there = answers(live, cluster, RACE.replace("STORE", "GCSLogStore"))
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
