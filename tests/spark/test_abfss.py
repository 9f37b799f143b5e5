"""The layer abfss on real Spark, with a store on loopback behind a proxy that breaks exchanges. A cluster of each line."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.spark.storecases import LINES, DeltaStoreCases, Here, Kind, with_layer
from tests.spark.storecode import ATTEMPT, BEGUN, COUNTED
from tests.support import datalake
from tests.support.datalake import ACCOUNT, FILESYSTEM, KEY, SAS, DataLake
from tests.support.faultyproxy import FaultyProxy, faulty

pytestmark = [pytest.mark.spark, pytest.mark.extended, pytest.mark.timeout(1800)]
HOST = f"{ACCOUNT}.dfs.core.windows.net"


def hadoop(address: str) -> dict[str, str]:
    return {
        "fs.azure.abfs.endpoint": address,  # of tests alone: Azure is reached by the account's name, and by TLS
        "fs.azure.always.use.https": "false",
        # Short waits after a broken exchange. The driver would slow down by itself, too.
        "fs.azure.io.retry.min.backoff.interval": "10",
        "fs.azure.io.retry.backoff.interval": "10",
        "fs.azure.io.retry.max.backoff.interval": "200",
        "fs.azure.enable.autothrottling": "false",
        f"fs.azure.account.key.{HOST}": "{{secrets/abfss/key}}",
    }


KIND = Kind(
    layer="abfss",
    top=f"abfss://{FILESYSTEM}@{HOST}",
    hadoop=hadoop,
    secrets={"key": KEY},
    refusal="AuthorizationPermissionMismatch",
    log_store="AzureLogStore",
)


@pytest.fixture(scope="module", params=LINES, autouse=True)
def line(request: pytest.FixtureRequest) -> str:
    return with_layer(KIND, request.param)


@pytest.fixture(scope="module")
def store(line: str) -> Iterator[DataLake]:
    """Of one line: the tests write the same names."""
    with datalake.serve() as found:
        yield found


@pytest.fixture(scope="module")
def flat(line: str) -> Iterator[DataLake]:
    """An account without a hierarchical namespace."""
    with datalake.serve(hierarchical=False) as found:
        yield found


@pytest.fixture(scope="module")
def proxy(store: DataLake) -> Iterator[FaultyProxy]:
    with faulty(f"http://{store.address}") as found:
        yield found


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


class TestAbfss(DeltaStoreCases):
    KIND = KIND

    @pytest.fixture(scope="class")
    @classmethod
    def reached(cls, proxy: FaultyProxy, flat: DataLake) -> str:
        return f"{proxy.address},{flat.address}"

    def test_every_request_of_the_file_system(self, here: Here) -> None:
        renamed, found, names, deleted, there, kind = here.answers(FILES)
        assert kind == "brickyard.DataLakeFiles"
        assert renamed == [False, True, False], "nothing is replaced"
        assert (found, names, deleted, there) == ([1, 0, 3 * (8 << 20)], 21, True, False)

    def test_what_would_lose_rows_and_wrong_credentials_are_refused(self, here: Here, store: DataLake, flat: DataLake) -> None:
        assert here.answers(BEGUN + COUNTED) == [700, 700]
        code = REFUSED.replace("FLAT", flat.address).replace("HOST", HOST).replace("SECRET", SAS)
        plain, delta, read, written, without, sas = here.answers(ATTEMPT + code)
        assert "has no hierarchical namespace" in plain and "has no hierarchical namespace" in delta
        assert "AccessDeniedException" in read and "AccessDeniedException" in written
        assert "none.dfs.core.windows.net" in without and "fs.azure.account.key" in without, without
        assert sas == "done"
        assert not store.names("wrong")
        assert not [name for name in flat.names("flat") if "/_delta_log/0" in name], "no commit"
