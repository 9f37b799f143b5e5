"""The layer gs on real Spark, with a store on loopback behind a proxy that breaks exchanges. A cluster of each line."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.spark.storecases import EVERY, LINES, DeltaStoreCases, Here, Kind, with_layer
from tests.spark.storecode import ATTEMPT, BEGUN, COUNTED
from tests.support import cloudstorage
from tests.support.cloudstorage import BUCKET, EMAIL, KEY, KEY_ID, REFRESH, CloudStorage
from tests.support.faultyproxy import FaultyProxy, faulty

pytestmark = [pytest.mark.spark, pytest.mark.extended, pytest.mark.timeout(1800)]
MEDIA = "application/octet-stream"  # the connector does not ask again for other answers that break off


def hadoop(address: str) -> dict[str, str]:
    return {
        "fs.gs.storage.root.url": f"http://{address}/",  # of tests alone: Google is reached by TLS
        "fs.gs.token.server.url": f"http://{address}/token",
        "fs.gs.auth.service.account.email": EMAIL,
        "fs.gs.auth.service.account.private.key.id": KEY_ID,
        "fs.gs.auth.service.account.private.key": "{{secrets/gs/key}}",
        "fs.gs.outputstream.upload.chunk.size": "1048576",
    }


KIND = Kind(
    layer="gs",
    top=f"gs://{BUCKET}",
    hadoop=hadoop,
    secrets={"key": KEY.replace("\n", "\\n")},  # as a key's JSON file has it
    refusal="Error moving 'gs://",
    log_store="GCSLogStore",
)


@pytest.fixture(scope="module", params=LINES, autouse=True)
def line(request: pytest.FixtureRequest) -> str:
    return with_layer(KIND, request.param)


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


class TestGs(DeltaStoreCases):
    KIND = KIND

    def test_every_request_of_the_file_system(self, here: Here) -> None:
        renamed, found, names, deleted, there, kind = here.answers(FILES)
        assert kind == "brickyard.CloudStorageFiles"
        assert renamed == [False, True, False], "nothing is replaced"
        assert (found, names, deleted, there) == ([1, 0, 3 * (1 << 20)], 21, True, False)

    def test_writes_that_end_because_an_answer_breaks_off_leave_no_row(self, here: Here, proxy: FaultyProxy) -> None:
        proxy.every, proxy.cuttable = 4 * EVERY, ""
        done = here.answers(BROKEN_OFF)
        proxy.every = 0
        assert 0 < len(done) < 12, "some came through, and some did not"
        assert here.answers(HUNDREDS) == [[number, 100] for number in done]

    def test_wrong_credentials_are_refused(self, here: Here, store: CloudStorage) -> None:
        assert here.answers(BEGUN + COUNTED) == [700, 700]
        read, written, unnamed, without, user, nobody = here.answers(ATTEMPT + REFUSED.replace("REFRESH", REFRESH))
        assert "invalid_grant" in read and "invalid_grant" in written, (read, written)
        assert "There is no fs.gs.auth.service.account.email" in unnamed
        assert "gs://none" in without, without
        assert user == "done"
        assert "401 Unauthorized" in nobody, nobody
        assert not store.names("wrong")
