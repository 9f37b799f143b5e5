"""Defaults that make queries faster, by the size of a node."""

from __future__ import annotations

from typing import Any

import pytest

from brickyard.runtime.node.spark import tuning
from tests.node.test_sparkconf import assignment, conf_of

STAGES = "spark.sql.codegen.cache.maxEntries"
PARTITION = "spark.sql.adaptive.advisoryPartitionSizeInBytes"
HASHED = "spark.sql.adaptive.maxShuffledHashJoinLocalMapThreshold"


def workers(conf: dict[str, str] | None = None, *, cores: int = 1, memory_mb: int = 2_048) -> dict[str, Any]:
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
def test_joins_are_hashed_where_a_task_has_the_memory(assigned: dict[str, Any], hashed: str | None) -> None:
    found = tuning.defaults(assigned)
    assert (found.get(PARTITION), found.get(HASHED)) == (hashed, hashed)


def test_the_users_values_win() -> None:
    made = conf_of(workers(dict.fromkeys((STAGES, HASHED), "7")))
    assert (made.values[STAGES], made.values[HASHED]) == ("7", "7")
    made = conf_of(workers({PARTITION: "128m"}))
    assert made.values[PARTITION] == "128m"
    assert HASHED not in made.values
