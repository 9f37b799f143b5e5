"""The Spark settings of the native engine: its memory is the heap's, and a cluster's own settings are kept."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brickyard.agent.watching.memory import driver_heap_mb
from brickyard.runtime.node.jvm import launch
from brickyard.runtime.node.jvm.launch import DRIVER_SHARE, LaunchError, size_mb
from brickyard.runtime.node.spark import photon
from brickyard.runtime.node.spark.layers import EXTENSIONS
from brickyard.runtime.node.spark.sizes import executor_memory_mb


def assignment(memory_mb: int, role: str = "driver") -> Any:
    return {"role": role, "cores": 2, "memory_mb": memory_mb, "spark_conf": {}}


def mb(values: dict[str, str], key: str) -> int:
    found = size_mb(values[key])
    assert found is not None
    return found


@given(memory_mb=st.integers(min_value=1_024, max_value=1_000_000))
def test_a_worker_takes_no_more_than_without(memory_mb: int) -> None:
    found = photon.settings(assignment(memory_mb), {})
    heap, beside = mb(found, "spark.executor.memory"), mb(found, photon.OFF_HEAP_SIZE)
    assert heap + beside == executor_memory_mb(memory_mb)
    assert beside >= photon.MINIMUM_OFF_HEAP_MB


@given(memory_mb=st.integers(min_value=1_280, max_value=1_000_000))
def test_a_single_node_takes_no_more_than_without(memory_mb: int) -> None:
    single = assignment(memory_mb, "single")
    heap = launch.wanted_options(single, None, photon=True).heap_mb
    found = photon.settings(single, {})
    assert heap + mb(found, photon.OFF_HEAP_SIZE) <= max(int(memory_mb * DRIVER_SHARE), heap + photon.MINIMUM_OFF_HEAP_MB)
    share = launch.driver_share(photon=True, single=True)
    assert heap == driver_heap_mb(memory_mb, machine_mb=10 * memory_mb, share=share), "agents start the JVM, and hosts judge it"
    assert (
        launch.wanted_options(assignment(memory_mb), None, photon=True).heap_mb
        == launch.wanted_options(assignment(memory_mb), None).heap_mb
    ), "a driver with workers runs no tasks"


def test_what_a_cluster_says_of_its_heap_counts() -> None:
    asked = assignment(4_096)
    asked["spark_conf"]["spark.executor.memory"] = "1g"
    assert mb(photon.settings(asked, {}), photon.OFF_HEAP_SIZE) == executor_memory_mb(4_096) - 1_024
    asked["spark_conf"]["spark.executor.memory"] = "3g"
    with pytest.raises(LaunchError, match=r"spark\.executor\.memory"):
        photon.settings(asked, {})
    asked["spark_conf"][photon.OFF_HEAP_SIZE] = "2g"
    assert photon.OFF_HEAP_SIZE not in photon.settings(asked, {})


def test_a_node_that_is_too_small_is_named() -> None:
    with pytest.raises(LaunchError, match="512 MiB"):
        photon.settings(assignment(512), {})


def test_extensions_and_plugins_of_others_stay() -> None:
    found = photon.settings(assignment(4_096), {EXTENSIONS: "a.B", "spark.plugins": "c.D"})
    assert found[EXTENSIONS] == f"{photon.SCANS},a.B"
    assert found["spark.plugins"] == f"{photon.PLUGIN},c.D"


def test_the_older_engine_gets_fewer_partitions_on_small_clusters_unless_the_cluster_says_how_many() -> None:
    def partitions(workers: int, **values: str) -> str:
        asked = assignment(4_096) | {"most_workers": workers}
        return photon.settings(asked, {key.replace("_", "."): value for key, value in values.items()}, line=(3, 5))[
            "spark.sql.shuffle.partitions"
        ]

    assert [partitions(workers) for workers in (1, 4, 10, 100)] == ["32", "64", "160", "200"]
    assert partitions(1, spark_sql_shuffle_partitions="7") == "7"
    assert "spark.sql.shuffle.partitions" not in photon.settings(assignment(4_096), {})
