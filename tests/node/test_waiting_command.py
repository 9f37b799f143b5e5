"""Which commands a waiting executor's JVM can take."""

from __future__ import annotations

import pytest

from brickyard.runtime.node.waiting import command
from brickyard.runtime.node.waiting.command import EXECUTOR, Command
from tests.support.golden import Golden

JAVA, CLASSES = "/java/bin/java", "/spark/conf/:/spark/jars/*:/classes.jar"
ENV = {"PATH": "/bin", "SPARK_USER": "spark", "JAVA_HOME": "/java"}
OWN = {"SPARK_EXECUTOR_DIRS": "/work/a", "SPARK_LOG_URL_STDERR": "http://a", "_SPARK_AUTH_SECRET": "first"}


def parsed(
    *,
    heap: str = "768M",
    class_path: str = CLASSES,
    options: tuple[str, ...] = ("-XX:+UseParallelGC",),
    port: int = 1,
    **env: str,
) -> Command:
    argv = [JAVA, "-cp", class_path, f"-Xmx{heap}", f"-Dspark.driver.port={port}", *options, EXECUTOR, "--executor-id", str(port)]
    found = command.parse(argv, {**ENV, **OWN, **env})
    assert found is not None
    return found


def test_a_command_has_parts_that_count_at_the_start_and_others() -> None:
    found = parsed(port=7)
    assert found.java == JAVA
    assert found.options == ("-cp", CLASSES, "-Xmx768M", "-XX:+UseParallelGC")
    assert found.settings == (("spark.driver.port", "7"),)
    assert found.arguments == ("--executor-id", "7")
    assert found.kept == ENV
    assert found.given == OWN


def test_what_starts_no_executor_is_no_command(golden: Golden) -> None:
    assert command.parse([JAVA, "-version"], ENV) is None
    golden(command.misfit(parsed(), None))


def test_another_driver_secret_and_directory_are_handed_over() -> None:
    wanted = parsed(port=2, _SPARK_AUTH_SECRET="second", SPARK_EXECUTOR_DIRS="/work/b", SPARK_LOG_URL_STDOUT="http://b")
    assert command.misfit(parsed(port=1), wanted) == ""


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        (parsed(heap="512M"), "spark.executor.memory asks for a heap of 512M, and the waiting JVM has 768M"),
        (parsed(class_path="/mine.jar:" + CLASSES), "its class path is another one, and a running JVM keeps its own"),
        (
            parsed(options=("-XX:+UseParallelGC", "-Dmine=1")),
            "Java's options count only when a JVM starts (-Dmine=1)",
        ),
        (parsed(options=()), "Java's options count only when a JVM starts (-XX:+UseParallelGC)"),
        (parsed(MINE="1", PATH="/mine"), "a running JVM does not see new environment variables (MINE, PATH)"),
        (parsed(LD_LIBRARY_PATH="/mine"), "a running JVM does not see new environment variables (LD_LIBRARY_PATH)"),
    ],
)  # fmt: skip
def test_what_counts_only_at_the_start_takes_the_cold_way(wanted: Command, why: str) -> None:
    assert command.misfit(parsed(), wanted) == why


def test_the_order_of_javas_options_counts(golden: Golden) -> None:
    first, second = parsed(options=("-Da=1", "-Da=2")), parsed(options=("-Da=2", "-Da=1"))
    golden(command.misfit(first, second))


def test_a_missing_variable_counts_as_well(golden: Golden) -> None:
    waiting = parsed()
    wanted = waiting._replace(kept={key: value for key, value in waiting.kept.items() if key != "PATH"})
    golden(command.misfit(waiting, wanted), "(PATH)")


def test_the_waiting_jvm_is_started_without_settings_and_secrets_of_one_executor() -> None:
    waiting = parsed(port=5)
    argv = command.start(waiting, "some.Main")
    assert argv[-2:] == ["some.Main", EXECUTOR]
    assert not [each for each in argv if each.startswith("-Dspark.") or "executor-id" in each]
    assert argv[0] == JAVA
    assert " ".join(waiting.options) in " ".join(argv), "the command's own options, in their order"
