"""The layer s3a on real Spark, with an S3 server on loopback behind a proxy that breaks exchanges. A cluster of each line."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.spark.storecases import LINES, Here, Kind, StoreCases, with_layer
from tests.spark.storecode import ATTEMPT, COUNTED, SLOW
from tests.support.faultyproxy import FaultyProxy, faulty
from tests.support.objectstore import ObjectStore, serve
from tests.support.patience import until
from tests.support.runtimes import SPARK_3

pytestmark = [pytest.mark.spark, pytest.mark.extended, pytest.mark.timeout(1800)]


def hadoop(address: str) -> dict[str, str]:
    return {
        "fs.s3a.endpoint": f"http://{address}",
        "fs.s3a.endpoint.region": "us-east-1",
        "fs.s3a.path.style.access": "true",
        "fs.s3a.access.key": "{{secrets/s3a/access}}",
        "fs.s3a.secret.key": "{{secrets/s3a/secret}}",
    }


KIND = Kind(layer="s3a", top="s3a://bucket", hadoop=hadoop, secrets={"access": "key", "secret": "secret"}, begun=".pendingset")


@pytest.fixture(scope="module", params=(SPARK_3, *LINES), autouse=True)
def line(request: pytest.FixtureRequest) -> str:
    return with_layer(KIND, request.param)


@pytest.fixture(scope="module")
def store(line: str) -> Iterator[ObjectStore]:
    """Of one line: the tests write the same names."""
    with serve() as found:
        yield found


@pytest.fixture(scope="module")
def proxy(store: ObjectStore) -> Iterator[FaultyProxy]:
    with faulty(store.endpoint) as found:
        yield found


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
REFUSED = """
attempt(lambda: spark.range(3).write.format("delta").save("s3a://bucket/delta"))
attempt(lambda: spark.range(3).write.option("fs.s3a.committer.name", "file").parquet("s3a://bucket/plain"))
hadoops = "org.apache.hadoop.fs.s3a.commit.S3ACommitterFactory"
with_hadoops = spark.range(3).write.option("mapreduce.outputcommitter.factory.scheme.s3a", hadoops)
attempt(lambda: with_hadoops.parquet("s3a://bucket/hadoops"))
print(json.dumps(refused))
"""


FIRST = "spark.range(1000, 1100).write.mode('overwrite').parquet(top + '/t')\n"
MORE = "spark.range(2000, 2100).write.mode('append').parquet(top + '/t')\n"
FAILED = """
from pyspark.sql.functions import expr
try:
    spark.range(1).select(expr("raise_error('no')").cast("bigint").alias("id")).write.mode("append").parquet(top + "/t")
except Exception as error:
    print(json.dumps(str(error)))
"""


class TestS3a(StoreCases):
    KIND = KIND

    def test_every_request_of_the_file_system(self, here: Here) -> None:
        renamed, found, names, deleted, there, kind = here.answers(FILES)
        assert kind == "S3AFileSystem"
        assert (renamed, found, names, deleted, there) == (True, [8, 0, 9 * (8 << 20)], ["local", "moved"], True, False)

    def test_jobs_that_write_to_one_directory_at_once_keep_all_rows(self, here: Here, store: ObjectStore) -> None:
        here.answers(FIRST + COUNTED)
        command = here.begin(SLOW.replace("overwrite", "append"))
        until(lambda: any(KIND.begun in name for name in store.names("t")), "no task has ended")
        assert here.answers(MORE + COUNTED) == [200, 200], "it ends while the first one writes"
        assert "no" in here.answers(FAILED)
        here.finished(command)
        assert here.answers(COUNTED) == [400, 400]
        assert not [name for name in store.names("t") if "__magic" in name]

    def test_what_would_lose_rows_is_refused_by_name(self, here: Here, line: str) -> None:
        delta, committer, hadoops = here.answers(ATTEMPT + REFUSED)
        assert "spark.delta.logStore.s3a.impl" in delta
        assert "spark.hadoop.fs.s3a.committer.name" in committer
        if line == SPARK_3:
            assert "outputcommitter.factory.scheme.s3a" in hadoops, "it removes what other jobs have not committed"
        else:
            assert hadoops == "done"
