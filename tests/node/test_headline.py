"""The line of a driver's output that says why it ended. The logs are Spark's and Java's own, cut."""

from __future__ import annotations

import pytest

from brickyard.runtime.node.host import failures
from brickyard.runtime.node.host.headline import headline

ENDING = """2026-11-27 18:37:00.149 WARN Utils: Your hostname, vm, resolves to a loopback address: 127.0.0.1
2026-11-27 18:37:00.171 WARN Utils: Set SPARK_LOCAL_IP if you need to bind to another address
2026-11-27 18:37:02.294 INFO ShutdownHookManager: Shutdown hook called
2026-11-27 18:37:02.321 INFO ShutdownHookManager: Deleting directory /tmp/spark-4e8c77ee-8450-4662-a5cd-85d6643ef556
"""
STACK = "\n".join(f"\tat org.apache.spark.deploy.SparkSubmit.step{number}(SparkSubmit.scala:{number})" for number in range(40))
MISSING = f"""{ENDING}Exception in thread "main" java.io.FileNotFoundException: File dbfs:/jars/missing.jar does not exist
{STACK}"""
REFUSED = f"""{ENDING}Exception in thread "main" java.net.ConnectException: Connection refused
\tat java.base/sun.nio.ch.Net.pollConnect(Native Method)
{STACK}"""
PACKAGES = f"""{ENDING}Exception in thread "main" java.lang.IllegalArgumentException: requirement failed: Provided Maven \
Coordinates must be in the form 'groupId:artifactId:version'. The coordinate provided is: a:b
\tat scala.Predef$.require(Predef.scala:337)
{STACK}"""
WRAPPED = """2026-01-01 10:00:00.000 ERROR SparkContext: Error initializing SparkContext.
java.lang.reflect.InvocationTargetException
\tat java.base/jdk.internal.reflect.NativeConstructorAccessorImpl.newInstance0(Native Method)
\t... 14 more
Caused by: java.lang.IllegalArgumentException: Error while instantiating 'org.apache.spark.X':
\tat org.apache.spark.Y
Caused by: java.lang.ClassNotFoundException: com.example.Nope
\t... 14 common frames omitted
2026-01-01 10:00:00.100 WARN MetricsSystem: Stopping a MetricsSystem that is not running
java.lang.IllegalStateException: a consequence
2026-01-01 10:00:00.200 INFO SparkContext: Successfully stopped SparkContext
"""


@pytest.mark.parametrize(
    ("log", "says"),
    [
        (MISSING, "File dbfs:/jars/missing.jar does not exist"),
        (REFUSED, "Connection refused"),
        (PACKAGES, "requirement failed: Provided Maven Coordinates must be in the form"),
        (WRAPPED, "ClassNotFoundException: com.example.Nope"),
        (
            "Error occurred during initialization of VM\nMultiple garbage collectors selected",
            "Multiple garbage collectors selected",
        ),
        (
            "Error occurred during initialization of VM\nInitial heap size set to a larger value than the maximum heap size",
            "Error occurred during initialization of VM: Initial heap size set to a larger value",
        ),
        (
            "Error occurred during initialization of VM\nagent library failed to init: instrument\n"
            "Error opening zip file or JAR manifest missing : /nowhere.jar",
            "Error opening zip file or JAR manifest missing : /nowhere.jar",
        ),
        (
            "Unrecognized VM option 'Nope'\nError: Could not create the Java Virtual Machine.\n"
            "Error: A fatal exception has occurred. Program will exit.",
            "Unrecognized VM option 'Nope'",
        ),
        (f"{ENDING}2026-01-01 10:00:00.100 ERROR Executor: no space left on device\n", "no space left on device"),
        (
            "2026-01-01 10:00:00.1 WARN DependencyUtils: Local jar /nowhere.jar does not exist, skipping.\n" + ENDING,
            "Local jar /nowhere.jar does not exist, skipping.",
        ),
        ('Exception in thread "main" java.nio.file.NoSuchFileException: /a/b.jar\n', "NoSuchFileException: /a/b.jar"),
        ('Exception in thread "main" java.lang.StackOverflowError\n' + STACK, "java.lang.StackOverflowError"),
        (ENDING, ""),
        ("", ""),
    ],
)
def test_headline(log: str, says: str) -> None:
    found = headline(log.splitlines())
    assert found.startswith(says) if says else not found


def test_a_jar_that_is_missing_is_the_reason_with_its_setting() -> None:
    found = failures.jvm_death(1, STACK, role="single", ready=False, said=MISSING, resolving=["spark.jars"])
    assert found["code"] == "SPARK_STARTUP_FAILURE"
    assert "spark.jars" in found["message"] and "dbfs:/jars/missing.jar" in found["message"]
    assert "ShutdownHookManager" not in found["message"]
