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


def ended(driver: Node) -> int:
    """How many queries were run, once that is over. A machine that is too busy may allow none."""
    lines: list[str] = until(lambda: [line for line in driver.lines if "while nobody used the cluster" in line])
    return int(lines[0].rpartition(" ")[2])


def test_first_queries_are_run_and_count_as_nothing(new_node: Callable[[], Node]) -> None:
    driver = new_node()
    driver.become("single")
    driver.wait_phase("ready")
    count = ended(driver)
    assert len([status for status in driver.history if status.get("busy")]) <= 1, "the job that proves an executor, if anything"
    jobs, queries, partitions = json.loads(driver.run(SEEN))
    assert jobs >= count
    assert count or not jobs
    assert queries == 0, "its queries are in no history"
    assert partitions == "200", "its session's settings are its own"
    assert driver.run("print(spark.range(10).count())") == "10"
    assert json.loads(driver.run(SEEN))[0] == jobs, "it does not begin again"
