"""How a driver alone starts, from a JVM that was prepared or from another one, and how it fails."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.node.node import Node
from tests.support.patience import PATIENCE_S

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

NewNode = Callable[[], Node]


def test_a_prepared_node_becomes_a_single_one_and_stops_in_order(new_node: NewNode) -> None:
    node = new_node()
    pid = node.prepare("single")["pid"]
    node.become("single", cores=2, spark_conf={"spark.master": "local[*]"})
    node.wait_phase("ready")
    assert node.jvm().pid == pid, "the prepared JVM is the one that is used"
    assert node.run("spark.range(10).count()") == "10"
    assert node.run("sc.master") == "'local[2]'"
    assert "3" in node.run("SELECT 1 + 2 AS three", "sql")
    for path in ("/Volumes/a", "file:/Volumes/b", "file:/dbfs/c", "file:/Workspace/d"):  # all of them elsewhere on this node
        there = f"(spark.range(3).write.parquet('{path}'), spark.read.parquet('{path}').count())[1]"
        assert node.run(there) == "3", path
    assert node.call("master", master_url="x")["error"]["code"] == "INVALID"
    assert node.call("become", role="single", assignment={"role": "single"})["error"]["code"] == "INVALID"
    assert node.call("nonsense")["error"]["code"] == "INVALID"
    assert node.call("command_status")["error"]["code"] == "INVALID"
    node.result("stop", grace_s=8)
    assert node.process.wait(PATIENCE_S) == 0
    assert "Successfully stopped SparkContext" in node.log()


@pytest.mark.any_runtime
def test_options_that_the_prepared_jvm_lacks_start_another(new_node: NewNode) -> None:
    node = new_node()
    pid = node.prepare("single")["pid"]
    node.become("single", spark_conf={"spark.driver.extraJavaOptions": "-Dtest.option=there", "spark.driver.memory": "700m"})
    node.wait_phase("ready")
    assert node.jvm().pid != pid
    assert node.run("sc._jvm.java.lang.System.getProperty('test.option')") == "'there'"
    assert "-Xmx700m" in node.jvm().cmdline()


@pytest.mark.any_runtime
@pytest.mark.parametrize(
    ("conf", "name"),
    [
        ({"spark.driver.extraJavaOptions": "-Xss1"}, "stack size"),
        # Those of the context, of the JVM and of the session: test_failures.py has what each of them says, and the test of a
        # cluster's life has one of the context.
        pytest.param({"spark.memory.fraction": "plenty"}, "spark.memory.fraction", marks=pytest.mark.extended),
        pytest.param({"spark.sql.shuffle.partitions": "abc"}, "spark.sql.shuffle.partitions", marks=pytest.mark.extended),
        pytest.param({"spark.serializer": "com.example.Missing"}, "spark.serializer", marks=pytest.mark.extended),
        pytest.param({"spark.driver.memory": "much"}, "spark.driver.memory", marks=pytest.mark.extended),
        pytest.param({"spark.sql.session.timeZone": "Nowhere/City"}, "spark.sql.session.timeZone", marks=pytest.mark.extended),
    ],
)
def test_a_setting_that_spark_refuses_is_named(new_node: NewNode, conf: dict[str, str], name: str) -> None:
    node = new_node()
    node.become("single", spark_conf=conf)
    node.wait_phase("failed")
    failure = node.status["failure"]
    assert failure["code"] == "SPARK_STARTUP_FAILURE"
    assert name in failure["message"]
    assert len(failure["log_tail"].splitlines()) <= 30
    assert "ready" not in [told.get("phase") for told in node.history]


@pytest.mark.any_runtime
def test_a_driver_that_runs_out_of_memory_says_so(new_node: NewNode) -> None:
    node = new_node()
    node.become("single", spark_conf={"spark.driver.memory": "512m"})
    node.wait_phase("ready")
    node.begin("sc._gateway.new_array(sc._jvm.double, 200 * 1024 * 1024)")
    node.wait_phase("failed")
    assert node.status["failure"]["code"] == "DRIVER_OUT_OF_MEMORY"
    assert "spark.driver.memory" in node.status["failure"]["message"]
