"""The layer abfss on real Spark, with a store on loopback behind a proxy that breaks exchanges. A cluster of each line."""

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
from tests.support import datalake
from tests.support.datalake import ACCOUNT, FILESYSTEM, KEY, SAS, DataLake
from tests.support.faultyproxy import FAULTS, FaultyProxy, faulty
from tests.support.patience import until
from tests.support.runtimes import SPARK_4

pytestmark = [pytest.mark.spark, pytest.mark.extended, pytest.mark.timeout(1800)]
LINES = (SPARK_4, "18.0.x-scala2.13")
EVERY = 9  # one exchange of so many is broken: of a request's retries, one comes through
HOST = f"{ACCOUNT}.dfs.core.windows.net"
TOP = f"abfss://{FILESYSTEM}@{HOST}"
SINGLE = {"spark.databricks.cluster.profile": "singleNode", "spark.master": "local[*]"}


@pytest.fixture(scope="module", params=LINES, autouse=True)
def line(request: pytest.FixtureRequest) -> str:
    key: str = request.param
    with_layers(key, ["delta", "abfss"])
    return key


@pytest.fixture(scope="module")
def lake(line: str) -> Iterator[DataLake]:
    """Of one line: the tests write the same names."""
    with datalake.serve() as found:
        yield found


@pytest.fixture(scope="module")
def flat(line: str) -> Iterator[DataLake]:
    """An account without a hierarchical namespace."""
    with datalake.serve(hierarchical=False) as found:
        yield found


@pytest.fixture(scope="module")
def proxy(lake: DataLake) -> Iterator[FaultyProxy]:
    with faulty(f"http://{lake.address}") as found:
        yield found


@pytest.fixture(scope="module")
def live(line: str, tmp_path_factory: pytest.TempPathFactory, proxy: FaultyProxy, flat: DataLake) -> Iterator[Live]:
    made = Live(tmp_path_factory.mktemp("live") / line)
    made.settings = msgspec.structs.replace(made.settings, network_allow=f"{proxy.address},{flat.address}")
    made.start()
    try:
        made.w.secrets.create_scope("lake")
        made.w.secrets.put_secret("lake", "key", string_value=KEY)
        made.w.secrets.put_secret("lake", "sas", string_value=SAS)
        yield made
    finally:
        made.close()


def conf(proxy: FaultyProxy, **more: str) -> dict[str, str]:
    hadoop = {
        "abfs.endpoint": proxy.address,  # of tests alone: Azure is reached by the account's name, and by TLS
        "always.use.https": "false",
        # Short waits after a broken exchange. The driver would slow down by itself, too.
        "io.retry.min.backoff.interval": "10",
        "io.retry.backoff.interval": "10",
        "io.retry.max.backoff.interval": "200",
        "enable.autothrottling": "false",
        f"account.key.{HOST}": "{{secrets/lake/key}}",
        **more,
    }
    return {
        "spark.brickyard.layers": "delta,abfss",
        "spark.sql.shuffle.partitions": "2",
        **{f"spark.hadoop.fs.azure.{key}": value for key, value in hadoop.items()},
    }


@pytest.fixture(scope="module")
def cluster(live: Live, line: str, proxy: FaultyProxy) -> Iterator[str]:
    made = live.create("abfss", line, num_workers=1, spark_conf=conf(proxy))
    live.wait(made, State.RUNNING, workers=1)
    yield made
    live.w.clusters.delete(made)


@pytest.fixture(autouse=True)
def without_faults(proxy: FaultyProxy, lake: DataLake) -> Iterator[None]:
    """Each test turns them on itself."""
    yield
    proxy.every, lake.refuse = 0, ""


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
    out.write(bytes([number]) * (8 << 20))  # more than one append: they have 8 MiB
out.close()
for number in range(20):  # more than one answer lists
    fs.create(path(f"small {number}%25")).close()
renamed = [fs.rename(path("large"), path(name)) for name in ("small 1%25", "moved", "again")]
stream = fs.open(path("moved"))
stream.seek(10 << 20)
found = [stream.read()]
stream.seek(0)
found += [stream.read(), fs.getFileStatus(path("moved")).getLen()]
stream.close()
names = len(fs.listStatus(place))
print(json.dumps([renamed, found, names, fs.delete(place, True), fs.exists(path("moved")), fs.getClass().getName()]))
"""


def test_every_request_of_the_file_system(live: Live, cluster: str) -> None:
    renamed, found, names, deleted, there, kind = answers(live, cluster, FILES)
    assert kind == "brickyard.DataLakeFiles"
    assert renamed == [False, True, False], "nothing is replaced"
    assert (found, names, deleted, there) == ([1, 0, 3 * (8 << 20)], 21, True, False)


def test_writes_have_each_row_once_whatever_breaks(live: Live, cluster: str, proxy: FaultyProxy) -> None:
    proxy.every = EVERY
    appended, overwritten, dynamic, table, hidden = answers(live, cluster, WRITES)
    assert appended == [1500, 1500] and overwritten == [700, 700]
    assert dynamic == [220, 220], "two partitions of 100 rows are replaced by 10 each"
    assert table == [50 + 7 + 3, 7]
    assert hidden == ["_SUCCESS"] * 3
    assert set(proxy.made) == set(FAULTS)


def test_an_executor_that_is_killed_doubles_and_loses_nothing(live: Live, cluster: str, lake: DataLake) -> None:
    answers(live, cluster, BEGUN + COUNTED)
    context = live.context(cluster)
    command = live.begin(cluster, context, f"top = '{TOP}'\n{SLOW}")
    until(lambda: any("_temporary-" in name for name in lake.names("t")), "no task writes")
    assert answers(live, cluster, COUNTED) == [700, 700], "nothing is replaced before the job is committed"
    live.kill(live.below(live.worker_agents(cluster)[0], EXECUTOR))
    answer = live.finish(cluster, context, command)
    assert answer.status is CommandStatus.FINISHED and answer.results and not answer.results.summary, answer
    assert answers(live, cluster, COUNTED) == [200, 200]


def test_writes_that_fail_add_no_row_and_remove_none(live: Live, cluster: str, lake: DataLake) -> None:
    assert answers(live, cluster, BEGUN + COUNTED) == [700, 700]
    before = lake.names("t")
    failed = answers(live, cluster, ATTEMPT + FAILING)
    assert all("AssertionError" in each for each in failed)
    lake.refuse = "t/part-00003"  # the commit breaks in the middle
    failed = answers(live, cluster, ATTEMPT + UNFINISHED)
    assert all("AuthorizationPermissionMismatch" in each for each in failed), failed
    assert answers(live, cluster, COUNTED) == [700, 700]
    assert lake.names("t") == before, "nothing is left"
    lake.refuse = "replaced/"  # the new files are there, and the older ones cannot be moved away
    assert "AuthorizationPermissionMismatch" in answers(live, cluster, ATTEMPT + UNFINISHED)[1]
    lake.refuse = ""
    assert answers(live, cluster, COUNTED) == [900, 700], "the append alone"


def test_jobs_that_write_to_one_directory_at_once_lose_nothing(live: Live, cluster: str, lake: DataLake) -> None:
    assert answers(live, cluster, TOGETHER) == [1200, 1200]
    assert not [name for name in lake.names("together") if "_temporary" in name]


def test_of_writers_of_one_version_of_a_delta_table_one_wins(live: Live, cluster: str, proxy: FaultyProxy) -> None:
    proxy.every = EVERY
    won, there = answers(live, cluster, RACE.replace("STORE", "AzureLogStore"))
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
flat = lambda writer: writer.option("fs.azure.abfs.endpoint", "FLAT").option("fs.abfss.impl.disable.cache", "true")
rows = spark.range(3)
attempt(lambda: flat(rows.write).parquet(top + "/flat"))
attempt(lambda: flat(rows.write.format("delta")).save(top + "/flat"))
wrong = lambda reader: reader.option("fs.azure.account.key.HOST", "d3Jvbmc=").option("fs.abfss.impl.disable.cache", "true")
attempt(lambda: wrong(spark.read).parquet(top + "/t").count())
attempt(lambda: wrong(rows.write).parquet(top + "/wrong"))
attempt(lambda: spark.read.parquet("abfss://none@none.dfs.core.windows.net/t").count())
sas = {"fs.azure.account.auth.type": "SAS", "fs.azure.sas.fixed.token": "SECRET", "fs.azure.account.key.HOST": "d3Jvbmc="}
attempt(lambda: spark.read.options(**sas, **{"fs.abfss.impl.disable.cache": "true"}).parquet(top + "/t").count())
print(json.dumps(refused))
"""


def test_what_would_lose_rows_and_wrong_credentials_are_refused(live: Live, cluster: str, lake: DataLake, flat: DataLake) -> None:
    assert answers(live, cluster, BEGUN + COUNTED) == [700, 700]
    code = REFUSED.replace("FLAT", flat.address).replace("HOST", HOST).replace("SECRET", SAS)
    plain, delta, read, written, without, sas = answers(live, cluster, ATTEMPT + code)
    assert "has no hierarchical namespace" in plain and "has no hierarchical namespace" in delta
    assert "AccessDeniedException" in read and "AccessDeniedException" in written
    assert "none.dfs.core.windows.net" in without and "fs.azure.account.key" in without, without
    assert sas == "done"
    assert not lake.names("wrong")
    assert not [name for name in flat.names("flat") if "/_delta_log/0" in name], "no commit"
