"""How large a node's JVM is."""

from __future__ import annotations

import pytest

from brickyard.agent.watching.memory import heap_mb, java_options, memory_mb
from brickyard.domain.node import Role
from tests.agent.world import assignment


@pytest.mark.parametrize(
    ("text", "mb"),
    [("4g", 4096), ("512m", 512), ("1024", 1024), ("1T", 1 << 20), ("2GB", 2048), ("2048k", 2), ("x", None), ("", None)],
)
def test_sizes_as_spark_writes_them(text: str, mb: int | None) -> None:
    assert memory_mb(text) == mb


def test_heaps() -> None:
    assert heap_mb(assignment(role=Role.WORKER, memory_mb=100_000)) == 512
    assert heap_mb(assignment(memory_mb=10_000), machine_mb=100_000) == 6000
    assert heap_mb(assignment(memory_mb=244_000), machine_mb=24_000) == 18_000, "not more than the machine has"
    assert heap_mb(assignment(memory_mb=100), machine_mb=24_000) == 384
    assert heap_mb(assignment(memory_mb=10_000, spark_conf={"spark.driver.memory": "3g"})) == 3072


def test_java_options() -> None:
    conf = {"spark.driver.defaultJavaOptions": "-Da=1", "spark.driver.extraJavaOptions": "-Db='x y' -XX:+UseG1GC"}
    assert java_options(assignment(spark_conf=conf)) == ["-Da=1", "-Db=x y", "-XX:+UseG1GC"]
    assert java_options(assignment(role=Role.WORKER, spark_conf=conf)) == []
    assert java_options(assignment(spark_conf={"spark.driver.extraJavaOptions": "'"})) is None
    assert java_options(assignment(spark_conf={"spark.jars.packages": "a:b:1"})) is None
