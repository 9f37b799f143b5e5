"""Words for failures."""

from __future__ import annotations

from pathlib import Path

from brickyard.runtime.node.host import failures
from tests.support.golden import Golden

TRACE = """java.lang.IllegalArgumentException: spark.executor.memory should be a size, but was lots
Caused by: java.lang.NumberFormatException: Size must be specified as bytes (b)"""


def test_a_refused_setting_is_named_with_its_value(golden: Golden) -> None:
    said = failures.refused_conf(TRACE, {"spark.executor.memory": "lots", "spark.x": "y"})
    golden(said, 'spark.executor.memory = "lots"')


def test_a_setting_that_keeps_a_session_from_being_made_is_explained(golden: Golden) -> None:
    text = (
        "java.lang.IllegalArgumentException: Error while instantiating 'org.apache.spark.sql.internal.SessionStateBuilder':\n"
        "Caused by: java.lang.IllegalArgumentException: spark.sql.shuffle.partitions should be int, but was abc"
    )
    said = failures.refused_conf(text, {"spark.sql.shuffle.partitions": "abc"})
    golden(said, 'spark.sql.shuffle.partitions = "abc"')


def test_a_setting_is_found_by_its_value_where_spark_does_not_name_it(golden: Golden) -> None:
    said = failures.refused_conf("java.lang.ClassNotFoundException: com.example.Nope", {"spark.plugins": "com.example.Nope"})
    golden(said, 'spark.plugins = "com.example.Nope"')


def test_other_errors_are_quoted(golden: Golden) -> None:
    golden(failures.refused_conf("java.io.IOException: no space left", {}), "no space left")
    golden(failures.refused_conf("", {}))


def test_executors_that_fail_are_the_reason() -> None:
    exited = "Command exited with code 1"
    reason = failures.lost_executor([f"x Executor updated: app-1/9 is now EXITED ({exited})", "y"])
    assert reason == exited
    assert reason in failures.refused_conf("Cannot call methods on a stopped SparkContext.", {}, executor=reason)


def test_a_driver_without_memory() -> None:
    found = failures.jvm_death(3, "Terminating due to java.lang.OutOfMemoryError: Java heap space", role="driver", ready=True)
    assert found["code"] == "DRIVER_OUT_OF_MEMORY"
    assert "Java heap space" in found["message"]


def test_a_jvm_without_threads_did_not_run_out_of_memory() -> None:
    log = "java.lang.OutOfMemoryError: unable to create native thread: possibly out of memory or process/resource limits reached"
    found = failures.jvm_death(3, log, role="driver", ready=True)
    assert found["code"] == "DRIVER_UNREACHABLE"
    assert "processes and threads" in found["message"]


def test_deaths_by_role_and_time() -> None:
    def code(role: str, ready: bool) -> str:
        return str(failures.jvm_death(-9, "", role=role, ready=ready)["code"])

    assert code("single", True) == "DRIVER_UNREACHABLE"
    assert code("driver", False) == "SPARK_STARTUP_FAILURE"
    assert code("worker", False) == "WORKER_SETUP_FAILURE"
    assert code("worker", True) == "INSTANCE_UNREACHABLE"
    assert "SIGKILL" in failures.jvm_death(-9, "", role="driver", ready=True)["message"]


def test_the_tail_is_of_bounded_length(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    first.write_text("\n".join(f"a{number}" for number in range(20)))
    second.write_text("\n".join(f"b{number}" for number in range(50)))
    tail = failures.tail([first, second]).splitlines()
    assert len(tail) == 30
    assert tail[-1] == "a19"
    assert tail[0] == "b40"
    assert failures.tail([tmp_path / "none"]) == ""
