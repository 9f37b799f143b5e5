"""A full quota of the workspace's files stops who writes there, and nobody else."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from databricks.sdk.errors.base import DatabricksError
from databricks.sdk.service.compute import DbfsStorageInfo, InitScriptInfo, Kind, ResultType, State

from tests.spark.live import Live
from tests.spark.neighbours import neighbour
from tests.support.patience import PATIENCE_S, until
from tests.support.runtimes import SPARK_4

pytestmark = [pytest.mark.spark, pytest.mark.extended, pytest.mark.timeout(6 * PATIENCE_S)]

# Each must fail by an error that names the setting; what it is about remains as it was.
WRITES = r"""
import errno, shutil
def refused(write, number=0):
    try:
        write()
    except Exception as error:
        assert "dbfs_gb" in str(error), error
        assert not number or error.errno == number, error
    else:
        raise AssertionError("it was written")
with open("/tmp/here", "w") as file:
    file.write("x" * 1000)
refused(lambda: open("/dbfs/new", "w"), errno.EDQUOT)
refused(lambda: open("/dbfs/kept", "w"), errno.EDQUOT)
refused(lambda: dbutils.fs.put("dbfs:/kept", "y", overwrite=True), errno.EDQUOT)
refused(lambda: shutil.copy("/tmp/here", "/Volumes/new"), errno.EDQUOT)
refused(lambda: spark.range(1000).write.parquet("dbfs:/frame"))
refused(lambda: spark.range(1000).write.json("file:/dbfs/json"))
refused(lambda: spark.range(10).write.saveAsTable("refused"))
path, conf = spark._jvm.org.apache.hadoop.fs.Path, spark._jsc.hadoopConfiguration()
files = path("dbfs:/kept").getFileSystem(conf)
refused(lambda: files.create(path("dbfs:/kept"), True))
refused(lambda: files.copyFromLocalFile(path("file:/tmp/here"), path("dbfs:/copied")))
refused(lambda: files.append(path("dbfs:/kept")))
print(open("/dbfs/kept").read())
"""
# All that takes nothing goes on: reading, naming, and giving room back.
REST = r"""
import os
assert open("/dbfs/kept").read() == "kept" == dbutils.fs.head("dbfs:/kept")
assert spark.read.text("dbfs:/kept").collect()[0].value == "kept"
assert spark.table("before").count() == 10
assert [each.name for each in dbutils.fs.ls("dbfs:/some")] == ["one", "two"]
dbutils.fs.mkdirs("dbfs:/made")
dbutils.fs.mv("dbfs:/some/one", "dbfs:/made/one")
os.rename("/dbfs/some/two", "/dbfs/made/two")
os.truncate("/dbfs/made/two", 0)
dbutils.fs.rm("dbfs:/made/one")
spark.sql("DROP TABLE before")
print(os.listdir("/dbfs/made"))
"""
PREPARE = r"""
import os
for name in ("kept", "some/one", "some/two"):
    dbutils.fs.put(f"dbfs:/{name}", os.path.basename(name))
spark.range(10).write.saveAsTable("before")
dbutils.fs.put("dbfs:/init.sh", "cp /dbfs/kept /tmp/from-init")
print("ready")
"""
GROWS = r"""
import subprocess
code = "i=0; while true; do head -c 65536 /dev/zero; sleep 0.1; done > /dbfs/grown"
print(subprocess.run(["sh", "-c", code]).returncode)
"""
OPEN = r"""
import time
held = open("/dbfs/held", "wb", buffering=0)
print("open")
"""
GOES_ON = r"""
while True:
    held.write(bytes(65536))
    time.sleep(0.1)
"""
AGAIN = r"""
open("/dbfs/kept", "w").write("new")
spark.range(1000).write.mode("overwrite").parquet("dbfs:/frame")
print(spark.read.parquet("dbfs:/frame").count())
"""


@pytest.fixture
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    made = Live(tmp_path_factory.mktemp("quota") / "data")
    made.settings = msgspec.structs.replace(made.settings, dbfs_gb=0.2)
    made.start()
    try:
        yield made
    finally:
        made.close()


def test_full_quota(live: Live) -> None:
    alone: dict[str, Any] = {"is_single_node": True, "kind": Kind.CLASSIC_PREVIEW, "autotermination_minutes": 0}
    mark = live.data / "notices" / "dbfs.full"
    with neighbour(live):
        one = live.create("one", SPARK_4, **alone)
        live.wait(one, State.RUNNING)
        assert live.run(one, PREPARE) == "ready"
        holding = live.context(one)
        assert "open" in str(live.finish(one, holding, live.begin(one, holding, OPEN)).results)
        (live.data / "dbfs" / "outside").write_bytes(bytes(300 << 20))
        until(mark.exists, "the mark")
        script = InitScriptInfo(dbfs=DbfsStorageInfo("dbfs:/init.sh"))
        two = live.create("two", SPARK_4, init_scripts=[script], **alone)
        with pytest.raises(DatabricksError, match="dbfs_gb"):
            live.w.dbfs.upload("/more", io.BytesIO(b"more"))
        assert live.run(one, WRITES) == "kept"
        assert live.run(one, REST) == "['two']"
        assert live.run(one, GROWS) == "-9"
        died = live.finish(one, holding, live.begin(one, holding, GOES_ON)).results
        assert died is not None and died.result_type is ResultType.ERROR and "dbfs_gb" in str(died.cause), died
        live.wait(two, State.RUNNING)
        assert live.run(two, "print(open('/tmp/from-init').read(), spark.range(10).count())") == "kept 10"
        live.w.dbfs.delete("/outside")
        until(lambda: not mark.exists(), "the end of it")
        assert live.run(one, AGAIN) == "1000"
        assert [live.get(each).state for each in (one, two)] == [State.RUNNING] * 2
