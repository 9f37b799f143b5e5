"""Defaults that make queries faster, by the size of a node."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brickyard.runtime.node.spark import tuning
from tests.node.test_sparkconf import SPARK_4, assignment, conf_of

STAGES = "spark.sql.codegen.cache.maxEntries"
PARTITION = "spark.sql.adaptive.advisoryPartitionSizeInBytes"
PAGE = "spark.buffer.pageSize"
FILES = "spark.shuffle.sort.bypassMergeThreshold"
HASHED = "spark.sql.adaptive.maxShuffledHashJoinLocalMapThreshold"


def workers(conf: dict[str, str] | None = None, *, cores: int = 1, memory_mb: int = 2_048) -> Any:
    return assignment(conf, worker_cores=cores, worker_memory_mb=memory_mb)


@pytest.mark.parametrize(("memory_mb", "stages"), [(128, 100), (2_048, 983), (4_096, 1_966), (65_536, 4_000)])
def test_more_memory_keeps_more_compiled_stages(memory_mb: int, stages: int) -> None:
    assert tuning.defaults(workers(memory_mb=memory_mb))[STAGES] == str(stages)


@pytest.mark.parametrize(
    ("assigned", "hashed"),
    [
        (workers(), "32m"),
        (workers(cores=2, memory_mb=4_096), "32m"),
        (workers(cores=4, memory_mb=32_768), "64m"),
        (workers(cores=4, memory_mb=4_096), None),
        (workers({"spark.executor.memory": "512m"}), None),
        (workers({"spark.executor.memory": "3g"}), "64m"),
        (workers({"spark.executor.memory": "3g", "spark.executor.cores": "4"}), None),
        (workers({"spark.executor.memory": "much"}), None),
        (workers({"spark.executor.cores": "0"}), None),
        (assignment(role="single", cores=2, memory_mb=4_096), "32m"),
        (assignment({"spark.driver.memory": "8g"}, role="single", cores=2, memory_mb=4_096), "64m"),
        (assignment({"spark.driver.memory": "1g"}, role="single", cores=2, memory_mb=4_096), None),
    ],
)
def test_joins_are_hashed_where_a_task_has_the_memory(assigned: Any, hashed: str | None) -> None:
    found = tuning.defaults(assigned)
    assert (found.get(PARTITION), found.get(HASHED)) == (hashed, hashed)


def test_joins_of_shuffled_tables_can_spill_with_photon_unless_the_cluster_says_otherwise() -> None:
    native = {**SPARK_4, "layers": {"comet": ["/l/comet.jar"]}}
    assert conf_of(workers()).values[HASHED] == "32m", "the default of clusters without Photon"
    assert conf_of(workers(), native).values[HASHED] == "0"
    assert conf_of(workers({HASHED: "7"}), native).values[HASHED] == "7"


@pytest.mark.parametrize(
    ("assigned", "page"),
    [
        (workers(), "4m"),
        (workers(cores=4, memory_mb=2_048), None),
        (workers(cores=1, memory_mb=8_192), "8m"),
        (workers({"spark.executor.memory": "much"}), None),
        (workers({"spark.memory.offHeap.enabled": "true", "spark.memory.offHeap.size": "64g"}), None),
    ],
)
def test_a_short_task_takes_no_large_pages(assigned: Any, page: str | None) -> None:
    assert tuning.defaults(assigned).get(PAGE) == page


@given(heap_mb=st.integers(0, 1 << 20))
def test_a_task_can_use_its_whole_heap_in_the_pages_that_spark_can_count(heap_mb: int) -> None:
    page = tuning.page_mb(heap_mb)
    assert page == 0 or (page * 8_192 >= min(heap_mb, 64 * 8_192) and page & (page - 1) == 0)
    assert page <= 64, "Spark's own largest"
    assert page * 16 <= max(heap_mb, 0), "a task with several operators has a page for each"
    assert tuning.page_mb(heap_mb + 1) >= page


@given(cores=st.integers(1, 64), memory_mb=st.integers(512, 1 << 19), role=st.sampled_from(["driver", "single"]))
def test_whatever_the_size_hashed_tables_fit_and_users_win(cores: int, memory_mb: int, role: str) -> None:
    assigned = workers(cores=cores, memory_mb=memory_mb) | {"role": role}
    found = tuning.defaults(assigned)
    hashed = int(found.get(HASHED, "0m").removesuffix("m"))
    assert hashed * 30 <= tuning.heap_per_task_mb(assigned), "ten times as large once it is decompressed, and it cannot spill"
    assert int(found[STAGES]) * tuning.STAGE_KB <= max(100 * tuning.STAGE_KB, memory_mb * 1024 * tuning.STAGES_SHARE)
    made = conf_of(workers(dict.fromkeys(found, "7"), cores=cores, memory_mb=memory_mb))
    assert {key: made.values[key] for key in found if key in made.values} == dict.fromkeys(found, "7")


def test_the_users_values_win() -> None:
    made = conf_of(workers(dict.fromkeys((STAGES, HASHED, PAGE, FILES), "7")))
    assert [made.values[key] for key in (STAGES, HASHED, PAGE, FILES)] == ["7"] * 4
    made = conf_of(workers({PARTITION: "128m"}))
    assert made.values[PARTITION] == "128m"
    assert HASHED not in made.values
