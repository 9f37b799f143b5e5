"""Options of a node's JVM: what the user's settings make of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from brickyard.runtime.node.jvm import launch, layers

MANIFEST: Any = {
    "java_home": "/j",
    "spark_home": "/s",
    "python": "/p/bin/python",
    "java_version": "17.0.1",
    "scala_version": "2.13",
}


def assignment(**fields: Any) -> Any:
    return {"role": "driver", "cores": 2, "memory_mb": 4096, **fields}


@pytest.mark.parametrize(
    ("text", "mb"), [("4g", 4096), ("512m", 512), ("1024", 1024), (" 2 G ", 2048), ("2048k", 2), ("lots", None)]
)
def test_sizes(text: str, mb: int | None) -> None:
    assert launch.size_mb(text) == mb


def test_a_prepared_jvm_suits_an_assignment_without_wishes() -> None:
    prepared = launch.prepared_options(2457, [], {"A": "1"}, "driver")
    assert launch.wanted_options(assignment(spark_env_vars={"A": "1"}), prepared) == prepared


@pytest.mark.parametrize(
    "wishes",
    [
        {"spark_conf": {"spark.driver.memory": "1g"}},
        {"spark_conf": {"spark.driver.extraJavaOptions": "-Dx=y"}},
        {"spark_conf": {"spark.driver.extraClassPath": "/a.jar"}},
        {"spark_conf": {"spark.jars.packages": "g:a:1"}},
        {"spark_env_vars": {"A": "1"}},
    ],
)
def test_a_prepared_jvm_does_not_suit_an_assignment_with_other_options(wishes: dict[str, Any]) -> None:
    prepared = launch.prepared_options(2457, [], {}, "driver")
    assert launch.wanted_options(assignment(**wishes), prepared) != prepared


@pytest.mark.parametrize(
    ("wishes", "reason"),
    [
        ({"spark_conf": {"spark.driver.memory": "1g"}}, "2457 MiB, and spark.driver.memory asks for 1024 MiB"),
        ({"spark_conf": {"spark.driver.extraJavaOptions": "-Dx=y"}}, "spark.driver.extraJavaOptions"),
        ({"spark_conf": {"spark.driver.extraClassPath": "/a.jar"}}, "spark.driver.extraClassPath"),
        ({"spark_conf": {"spark.jars.packages": "g:a:1"}}, "spark.jars.packages"),
        ({"spark_env_vars": {"A": "1"}}, "(A)"),
        ({"role": "worker", "spark_env_vars": {"A": "1"}}, "(A)"),
    ],
)
def test_why_a_warm_jvm_does_not_suit_is_said_by_name(wishes: dict[str, Any], reason: str) -> None:
    prepared = launch.prepared_options(2457, [], {}, frugal=True)
    assert reason in launch.difference(prepared, launch.wanted_options(assignment(**wishes), prepared))


@pytest.mark.parametrize("role", ["driver", "single", "worker"])
def test_a_warm_jvm_suits_whoever_wishes_nothing(role: str) -> None:
    prepared = launch.prepared_options(2457, [], {}, frugal=True)
    wanted = launch.wanted_options(assignment(role=role, spark_conf={"spark.sql.shuffle.partitions": "4"}), prepared)
    assert wanted == prepared
    assert launch.difference(prepared, wanted) == ""


def test_a_warm_jvm_gives_memory_back() -> None:
    line = command(launch.prepared_options(1000, [], {}, frugal=True))
    assert [option for option in line if option.endswith("GC")] == ["-XX:+UseG1GC"]
    assert "-Xms32m" in line


def test_a_prepared_worker_stays_a_worker() -> None:
    prepared = launch.prepared_options(512, [], {}, "worker")
    assert launch.wanted_options(assignment(role="worker"), prepared) == prepared


def test_a_jvm_prepared_for_any_role_becomes_a_worker_too() -> None:
    prepared = launch.prepared_options(512, [], {})
    assert launch.wanted_options(assignment(role="worker"), prepared) == prepared


@pytest.mark.parametrize(
    ("conf", "name"),
    [
        ({"spark.driver.memory": "much"}, "spark.driver.memory"),
        ({"spark.driver.extraJavaOptions": "-Xmx2g"}, "spark.driver.extraJavaOptions"),
        ({"spark.driver.extraJavaOptions": "-Da='"}, "spark.driver.extraJavaOptions"),
    ],
)
def test_settings_that_make_no_jvm_are_named(conf: dict[str, str], name: str) -> None:
    with pytest.raises(launch.LaunchError, match=name):
        launch.wanted_options(assignment(spark_conf=conf), None)


def test_the_users_variables_reach_the_jvm_but_not_the_nodes_own() -> None:
    env = {"A": "1", "SPARK_HOME": "/theirs", "PYSPARK_PYTHON": "/databricks/python3/bin/python3"}
    options = launch.wanted_options(assignment(spark_env_vars=env), None)
    made = launch.environment(MANIFEST, options, {"PATH": "/bin", "PYTHONPATH": "/x"}, host="127.0.0.1", node_dir=Path("/n"))
    assert made["A"] == "1"
    assert made["SPARK_HOME"] == "/s"
    assert made["PYSPARK_PYTHON"] == "/p/bin/python", "an interpreter that is not there is not used"
    assert "PYTHONPATH" not in made


def command(options: Any, **more: Any) -> list[str]:
    made: list[str] = launch.command(MANIFEST, options, node_dir=Path("/n"), archive="/a.jsa", **more)
    return made


def test_the_class_path_is_the_same_for_every_node() -> None:
    line = command(launch.JvmOptions(heap_mb=1000))
    assert line[line.index("-cp") + 1] == "/s/jars/*"
    assert "-XX:SharedArchiveFile=/a.jsa" in line
    assert line[-1] == launch.GATEWAY


def test_the_users_collector_replaces_ours_and_his_options_come_last() -> None:
    line = command(launch.JvmOptions(heap_mb=1000, java_options=("-XX:+UseG1GC", "-XX:TieredStopAtLevel=1")))
    assert [option for option in line if option.endswith("GC")] == ["-XX:+UseG1GC"]
    assert line.index("-XX:TieredStopAtLevel=1") > line.index("-XX:-UsePerfData")


def test_jars_go_through_submit_with_a_properties_file() -> None:
    line = command(launch.JvmOptions(heap_mb=1000), properties="/n/conf/p")
    assert line[-4:] == [launch.SUBMIT, "--properties-file", "/n/conf/p", "pyspark-shell"]


@pytest.mark.parametrize(
    ("version", "flag"), [("17.0.15", False), ("21.0.8", False), ("25.0.2", True), ("1.8.0", False), ("", False)]
)
def test_new_java_is_told_what_spark_may_do(version: str, flag: bool) -> None:
    assert ("--sun-misc-unsafe-memory-access=allow" in launch.module_flags(version)) is flag


def test_properties_survive_what_users_write() -> None:
    text = launch.properties_text({"a key": " x=y\\z\nend", "tab": "\tof\f"})
    assert text == "a\\ key=\\ x=y\\\\z\\nend\ntab=\\tof\\f\n"


def test_the_log_of_java_is_set_up_in_ascii(tmp_path: Path) -> None:
    """Log4j reads its file as Latin-1, and its place as a URL."""
    node = tmp_path / "Grüße 😀"
    text = launch.log4j_text(node / "logs" / launch.LOG)
    assert text.isascii()
    assert "/Gr\\u00fc\\u00dfe \\ud83d\\ude00/logs/log4j-active.log\n" in text
    assert launch.log4j_file(node).as_uri().endswith("/Gr%C3%BC%C3%9Fe%20%F0%9F%98%80/conf/log4j2.properties")


LAYERS: Any = {
    **MANIFEST,
    "layers": {
        "delta": ["/l/delta-spark_4.0_2.13-4.4.0.jar", "/l/delta-storage-4.4.0.jar"],
        "kafka": ["/l/k.jar"],
        "iceberg": ["/l/i.jar"],
    },
}


@pytest.mark.parametrize(
    ("conf", "names", "lacking"),
    [
        ({}, ("delta",), ()),
        ({layers.SETTING: ""}, (), ()),
        ({layers.SETTING: "kafka, delta,kafka"}, ("kafka", "delta"), ()),
        ({layers.SETTING: "delta,comet"}, ("delta",), ("comet",)),
        ({"spark.jars.packages": "a:b:1,io.delta:delta-spark_2.13:4.0.0"}, (), ()),
        ({"spark.jars": "dbfs:/delta-core_2.12-2.4.0.jar"}, (), ()),
        ({"spark.driver.extraClassPath": "/jars/mine.jar"}, ("delta",), ()),
        ({layers.SETTING: "iceberg"}, ("iceberg",), ()),
        ({layers.SETTING: "iceberg", "spark.jars": "dbfs:/iceberg-spark-runtime-4.0_2.13-1.10.0.jar"}, (), ()),
    ],
)
def test_a_cluster_has_the_usual_layers_unless_its_conf_says_otherwise(
    conf: dict[str, str], names: tuple[str, ...], lacking: tuple[str, ...]
) -> None:
    assert layers.names(LAYERS, conf) == names
    assert layers.lacking(LAYERS, conf) == lacking
    assert layers.jars(LAYERS, conf) == tuple(jar for name in names for jar in LAYERS["layers"][name])
    assert layers.names(MANIFEST, conf) == ()


def test_a_runtime_with_iceberg_lacks_no_layer_of_it() -> None:
    older: Any = {**MANIFEST, "has_iceberg": True}
    assert layers.lacking(older, {layers.SETTING: "iceberg"}) == ()
    assert layers.lacking(MANIFEST, {layers.SETTING: "iceberg"}) == ("iceberg",)


def test_layers_are_last_on_the_class_path_of_drivers_and_warm_nodes_alone() -> None:
    jars = layers.jars(LAYERS, {})
    warm = launch.prepared_options(1000, [], {}, frugal=True, layers=jars)
    assert launch.class_path(LAYERS | {"classes": "/c.jar"}, warm, added=("/scripts/*",)).split(":") == [
        "/s/jars/*", "/c.jar", *jars, "/scripts/*"
    ]  # fmt: skip
    assert launch.wanted_options(assignment(), warm, layers=jars) == warm
    assert launch.wanted_options(assignment(role="worker"), warm) == warm
    assert launch.prepared_options(512, [], {}, "worker", layers=jars).layers == ()
    older = launch.prepared_options(1000, [], {}, frugal=True)
    assert "layers" in launch.difference(older, launch.wanted_options(assignment(), older, layers=jars))
