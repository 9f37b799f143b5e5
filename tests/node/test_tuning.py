"""Defaults that make queries faster, by the size of a node."""

from __future__ import annotations

import pytest

from brickyard.runtime.node.spark import tuning
from tests.node.test_sparkconf import assignment, conf_of

STAGES = "spark.sql.codegen.cache.maxEntries"


@pytest.mark.parametrize(("memory_mb", "stages"), [(256, 122), (128, 100), (2_048, 983), (4_096, 1_966), (65_536, 4_000)])
def test_more_memory_keeps_more_compiled_stages(memory_mb: int, stages: int) -> None:
    assert tuning.compiled_stages(memory_mb) == stages


def test_executors_decide_how_much_is_kept() -> None:
    made = conf_of(assignment(worker_cores=1, worker_memory_mb=2_048))
    assert made.values[STAGES] == str(tuning.compiled_stages(2_048))


def test_the_users_value_wins() -> None:
    made = conf_of(assignment(dict.fromkeys(tuning.defaults(8_192), "7")))
    assert {made.values[key] for key in tuning.defaults(8_192)} == {"7"}
