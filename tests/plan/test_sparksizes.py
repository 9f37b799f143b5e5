"""Sizes in spark_conf: what Spark cannot read, or no node can hold, is refused with the setting's name."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brickyard.domain.errors import InvalidParameterValue
from brickyard.domain.spec import ClusterSpec, NodeTypeFlexibility
from brickyard.plan.sparksizes import SIZES, check_spark_sizes, size_bytes
from brickyard.plan.spec import Offered
from brickyard.plan.specifying import mistakes
from brickyard.testing.builders import RUNTIMES, SMALL

TYPES = {
    "small": SMALL,  # 1 core, 2048 MiB
    "tiny": msgspec.structs.replace(SMALL, node_type_id="tiny", memory_mb=1_024),
    "large": msgspec.structs.replace(SMALL, node_type_id="large", num_cores=8.0, memory_mb=16_384),
}
SINGLE = {"spark.databricks.cluster.profile": "singleNode", "spark.master": "local[*]"}


def check(conf: dict[str, str], **fields: Any) -> None:
    spec = ClusterSpec(
        **{"node_type_id": "small", "driver_node_type_id": "small", "num_workers": 1, "spark_conf": conf, **fields}
    )
    check_spark_sizes(spec, TYPES)


def wrong(conf: dict[str, str], key: str, **fields: Any) -> None:
    with pytest.raises(InvalidParameterValue, match=r"spark_conf\." + key.replace(".", r"\.") + " is "):
        check(conf, **fields)


@pytest.mark.parametrize(
    ("conf", "key"),
    [
        ({"spark.driver.memory": "much"}, "spark.driver.memory"),
        ({"spark.driver.memory": "1.5g"}, "spark.driver.memory"),
        ({"spark.driver.memory": "-1g"}, "spark.driver.memory"),
        ({"spark.driver.memory": "9" * 5_000}, "spark.driver.memory"),
        ({"spark.driver.memory": "0"}, "spark.driver.memory"),
        ({"spark.driver.memory": "2049m"}, "spark.driver.memory"),
        ({"spark.driver.memory": "1g", "spark.driver.memoryOverhead": "1025"}, "spark.driver.memory"),
        ({"spark.executor.memory": "0"}, "spark.executor.memory"),
        ({"spark.executor.memory": "449m"}, "spark.executor.memory"),
        ({"spark.executor.memory": "3g"}, "spark.executor.memory"),
        ({"spark.executor.memory": "1g", "spark.executor.memoryOverhead": "2g"}, "spark.executor.memory"),
        (
            {"spark.executor.memory": "1g", "spark.memory.offHeap.enabled": "true", "spark.memory.offHeap.size": "2g"},
            "spark.executor.memory",
        ),
        ({"spark.memory.offHeap.enabled": "true", "spark.memory.offHeap.size": "3g"}, "spark.memory.offHeap.size"),
        ({"spark.executor.cores": "2"}, "spark.executor.cores"),
        ({"spark.executor.cores": "0"}, "spark.executor.cores"),
        ({"spark.executor.cores": "two"}, "spark.executor.cores"),
        ({"spark.task.cpus": "2"}, "spark.task.cpus"),
        ({"spark.driver.maxResultSize": "4 gigs"}, "spark.driver.maxResultSize"),
        ({"spark.sql.files.maxPartitionBytes": "-1"}, "spark.sql.files.maxPartitionBytes"),
    ],
)
def test_refused(conf: dict[str, str], key: str) -> None:
    wrong(conf, key)


def test_cores_of_larger_nodes() -> None:
    check({"spark.executor.cores": "8", "spark.task.cpus": "8", "spark.cores.max": "8"}, node_type_id="large")
    wrong({"spark.executor.cores": "9"}, "spark.executor.cores", node_type_id="large")
    wrong({"spark.executor.cores": "2", "spark.task.cpus": "3"}, "spark.task.cpus", node_type_id="large")
    wrong({"spark.cores.max": "7"}, "spark.cores.max", node_type_id="large")


@pytest.mark.parametrize(
    "conf",
    [
        {"spark.driver.memory": "2048", "spark.executor.memory": "2G"},
        {"spark.driver.memory": " 512MB ", "spark.executor.memory": "450m"},
        {"spark.driver.memory": "", "spark.executor.memory": ""},
        {"spark.driver.memory": "{{secrets/a/b}}"},
        {"spark.executor.memory": "300m", "spark.testing.reservedMemory": "0"},
        {"spark.sql.autoBroadcastJoinThreshold": "-1", "spark.sql.adaptive.autoBroadcastJoinThreshold": "-1"},
        {"spark.memory.offHeap.size": "100g"},  # it is off
        {"spark.driver.maxResultSize": "0"},
        {"spark.unknown.memory": "much"},
    ],
)
def test_accepted(conf: dict[str, str]) -> None:
    check(conf)


def test_the_smallest_type_that_a_driver_may_have_counts() -> None:
    alternates = NodeTypeFlexibility(alternate_node_type_ids=["tiny"])
    wrong({"spark.driver.memory": "2g"}, "spark.driver.memory", driver_node_type_flexibility=alternates)
    check({"spark.driver.memory": "1g"}, driver_node_type_flexibility=alternates)
    check({"spark.driver.memory": "12g"}, driver_node_type_id="large")


def test_a_cluster_without_executors_has_no_size_of_theirs() -> None:
    check({**SINGLE, "spark.executor.memory": "8g", "spark.executor.cores": "4"}, num_workers=0)
    wrong({**SINGLE, "spark.executor.memory": "0"}, "spark.executor.memory", num_workers=0)
    wrong({**SINGLE, "spark.driver.memory": "3g"}, "spark.driver.memory", num_workers=0)


def test_validation_names_the_field() -> None:
    spec = ClusterSpec(
        spark_version="17.3.x-scala2.13", node_type_id="small", num_workers=1, spark_conf={"spark.executor.memory": "0"}
    )
    found = mistakes(spec, Offered(node_types=TYPES, runtimes=RUNTIMES), user="u@example.com")
    assert [each.field for each in found] == ["spark_conf.spark.executor.memory"]


@given(st.sampled_from(sorted(SIZES)), st.integers(0, 10**17), st.sampled_from(["", "k", "kb", "m", "G", "tb", "b"]))
def test_what_is_a_size_has_bytes(key: str, number: int, unit: str) -> None:
    size = size_bytes(f"{number}{unit}", SIZES[key])
    assert size is not None and size >= number


@given(st.text(max_size=20))
def test_any_text_is_read_or_refused(text: str) -> None:
    size_bytes(text, 1)
