"""Photon on real Spark: TPC-H's queries with and without the native engine, on a driver and a worker, and what falls back."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from databricks.sdk.service.compute import RuntimeEngine, State

from bench import _tpch
from brickyard.runtime import catalogue
from brickyard.runtime.layerwork import require_layers
from tests.spark.live import Live
from tests.support.runtimes import cache_dir, manifest_of

pytestmark = [pytest.mark.spark, pytest.mark.extended, pytest.mark.timeout(1800)]
RUNTIME, SCALE = "18.0.x-scala2.13", 0.1
PHOTON = "18.0.x-photon-scala2.13"
PREPARE = f"""
import json
spark.conf.set("spark.sql.shuffle.partitions", "4")
for name in {_tpch.TABLES}:
    spark.read.parquet(f"dbfs:/tpch/{{name}}.parquet").createOrReplaceTempView(name)
def explained(frame):
    mode = spark._jvm.org.apache.spark.sql.execution.ExplainMode.fromString("formatted")
    return frame._jdf.queryExecution().explainString(mode)
"""


@pytest.fixture(scope="module")
def cluster(live: Live) -> Iterator[str]:
    manifest_of(PHOTON)
    runtime = catalogue.find(PHOTON)
    assert runtime is not None
    if problems := require_layers(PHOTON, runtime.environment, cache_dir=cache_dir(), progress=lambda _: None):
        pytest.skip(f"no native engine: {problems}")
    made = live.create("photon", RUNTIME, num_workers=1, runtime_engine=RuntimeEngine.PHOTON)
    live.wait(made, State.RUNNING, workers=1)
    yield made
    live.w.clusters.delete(made)


def answers(live: Live, cluster: str, code: str) -> Any:
    """What the code prints as JSON."""
    return json.loads(live.run_kept(cluster, code).strip().splitlines()[-1])


BOTH = """
found = []
for native in ("true", "false"):
    spark.conf.set("spark.comet.enabled", native)
    frame = spark.sql({text!r})
    found.append([[str(cell) if not isinstance(cell, float) else f"{{cell:.6g}}" for cell in row] for row in frame.collect()])
spark.conf.set("spark.comet.enabled", "true")
print(json.dumps(found))
"""


def test_every_query_of_tpch_answers_as_without(live: Live, cluster: str) -> None:
    place = live.data / "dbfs" / "tpch"
    shutil.copytree(_tpch.make(SCALE), place, dirs_exist_ok=True)
    live.run_kept(cluster, PREPARE)
    for number in sorted(_tpch.QUERIES):
        native, own = answers(live, cluster, BOTH.format(text=_tpch.query(number, SCALE)))
        assert native == own, number
        assert native, number


FALLS = """
spark.range(1000).selectExpr("id", "id % 7 k").write.mode("overwrite").parquet("/Volumes/main/default/photon/t 1%x")
frame = spark.read.parquet("/Volumes/main/default/photon/t 1%x")
whole, named = frame.groupBy("k").count(), frame.selectExpr("input_file_name() f").distinct()
place = frame.selectExpr("_metadata.file_path f").distinct()
print(json.dumps([
    len(whole.collect()), explained(whole), [row.f for row in named.collect()], explained(named), frame.inputFiles(),
    [row.f for row in place.collect()], spark.conf.get("spark.comet.version"),
    spark.conf.get("spark.memory.offHeap.size"), spark.conf.get("spark.executor.memory")]))
"""


def test_volumes_are_scanned_natively_and_names_of_files_stay(live: Live, cluster: str) -> None:
    (live.data / "Volumes" / "main" / "default" / "photon").mkdir(parents=True, exist_ok=True)
    live.run_kept(cluster, PREPARE.partition("for name")[0] + PREPARE[PREPARE.index("def explained") :])
    count, plan, names, fallen, files, places, version, beside, heap = answers(live, cluster, FALLS)
    assert count == 7 and "CometNativeScan" in plan and "COMET:" not in plan
    assert sorted(names) == sorted(files) == sorted(places)
    assert all(each.startswith("dbfs:/Volumes/main/default/photon/t%201%25x/") for each in names)
    assert "[COMET: " in fallen and "CometNativeScan" not in fallen
    assert version == "1.2.0"
    assert (beside, heap) == ("1024m", "512m"), "of 1,536 MiB without"


SPILLS = """
frame = spark.range(0, 12_000_000, 1, 2).selectExpr("id", "hash(id) h", "repeat(cast(id as string), 8) s")
frame.write.mode("overwrite").parquet("dbfs:/wide")
wide = spark.read.parquet("dbfs:/wide")
ordered = wide.orderBy("h", "s").selectExpr("id", "s")
grouped = wide.groupBy("s").agg({"id": "max", "h": "min"})
print(json.dumps([ordered.selectExpr("count(s)", "sum(id)").first()[0], grouped.selectExpr("count(*)").first()[0]]))
"""


def test_what_does_not_fit_into_memory_is_spilled(live: Live, cluster: str) -> None:
    assert answers(live, cluster, SPILLS) == [12_000_000, 12_000_000]
