"""A cold driver on real Spark, until its first command: what it does meanwhile is nobody's, and shows nowhere as somebody's."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from brickyard.runtime.node.spark.readiness import GROUP
from tests.node.node import Node
from tests.support.patience import until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

SEEN = f"""
import json
tracker, store = spark.sparkContext.statusTracker(), spark._jsparkSession.sharedState().statusStore()
jobs = len(tracker.getJobIdsForGroup("{GROUP}"))
print(json.dumps([jobs, store.executionsCount(), spark.conf.get("spark.sql.shuffle.partitions")]))
"""


def test_first_queries_are_run_and_count_as_nothing(new_node: Callable[[], Node]) -> None:
    driver = new_node()
    driver.become("single")
    driver.wait_phase("ready")
    until(lambda: [line for line in driver.lines if "ready for first commands" in line])
    assert "3 of them" in next(line for line in driver.lines if "ready for first commands" in line)
    assert not [status for status in driver.history if status.get("busy")], "nobody has used it"
    jobs, queries, partitions = json.loads(driver.run(SEEN))
    assert jobs >= 3
    assert queries == 0, "its queries are in no history"
    assert partitions == "200", "its session's settings are its own"


def test_whoever_comes_at_once_has_the_driver_for_himself(new_node: Callable[[], Node]) -> None:
    driver = new_node()
    driver.become("single")
    driver.wait_phase("ready")
    assert driver.run("print(spark.range(10).count())") == "10"
    assert json.loads(driver.run(SEEN))[0] == 0
