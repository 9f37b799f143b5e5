"""Every Python example of the Clusters API guide, verbatim: only host and token are set.

Those that misuse the SDK itself are run as well, to show how they fail, and then in the nearest form that works (docs/parity.md,
"Examples of the guide").
"""

from __future__ import annotations

import inspect
import io
from typing import Any, NamedTuple

import pytest
from databricks.sdk.errors import InvalidParameterValue
from databricks.sdk.errors.base import DatabricksError
from databricks.sdk.errors.platform import InvalidState
from databricks.sdk.service import compute
from databricks.sdk.service.compute import EventType, State

from brickyard.plan.refused import REFUSED
from tests.seeds.guide import CLUSTER_ID, EXAMPLES, NODE_TYPE, RUNTIME, Guide
from tests.support.patience import SOON

UP, DOWN = State.RUNNING, State.TERMINATED


class Example(NamedTuple):
    """An example, the state that the guide's cluster has before it, and words that it prints when it has worked."""

    name: str
    before: State
    prints: str


WORKS = [
    Example("06_create_cluster_python_requests_example.py", UP, "Cluster created: "),
    Example("09_get_cluster_example.py", UP, "Name: guide\nState: RUNNING\nWorkers: 2\n"),
    Example("10_get_cluster_sdk_example.py", UP, "State: State.RUNNING\nSpark Version: 13.3.x-scala2.12\nNode Type: i3.xlarge\n"),
    Example("12_list_clusters_example.py", UP, f"ID: {CLUSTER_ID}\nName: guide\nState: RUNNING\n"),
    Example("13_list_clusters_sdk_example.py", UP, f"Cluster: guide\n  ID: {CLUSTER_ID}\n  State: State.RUNNING\n  Workers: 2\n"),
    Example("16_start_cluster_example.py", DOWN, "Cluster starting..."),
    Example("17_start_cluster_sdk_example.py", DOWN, "Cluster is running!"),
    Example("19_restart_cluster_example.py", UP, "Cluster restarting..."),
    Example("20_restart_cluster_sdk_example.py", UP, "Cluster restarted successfully!"),
    Example("22_terminate_cluster_example.py", UP, "Cluster terminating..."),
    Example("23_terminate_cluster_sdk_example.py", UP, "Cluster terminated successfully!"),
    Example("25_edit_cluster_example.py", DOWN, "Cluster configuration updated!"),
    Example("26_edit_cluster_sdk_example.py", DOWN, "Cluster updated!"),
    Example("29_resize_cluster_example.py", UP, "Cluster resizing..."),
    Example("32_pin_cluster_example.py", UP, "Cluster pinned!"),
    Example("34_unpin_cluster_example.py", UP, "Cluster unpinned!"),
    Example("35_list_node_types_example.py", UP, "ID: i3.xlarge\nMemory: 31232 MB\nCores: 4.0\n"),
    Example("37_list_spark_versions_example.py", UP, "Key: 13.3.x-scala2.12\nName: 13.3 LTS"),
    Example("40_get_cluster_events_example.py", UP, "Type: RUNNING\n"),
    Example("44_monitor_cluster_health.py", UP, "State: State.RUNNING\nWorkers: 2\n"),
    Example("45_batch_operations.py", UP, "running clusters\nFound "),
]


class Misuse(NamedTuple):
    """An example that no server can make work: how it fails, and what to write instead."""

    name: str
    fails: type[Exception]
    replacements: tuple[tuple[str, str], ...]
    prints: str


MISUSES = [
    # `create` returns a waiter, which knows the new cluster's id only.
    Misuse(
        "05_create_cluster_python_sdk_example.py",
        KeyError,
        (('        "ResourceClass": "SingleNode"\n    }\n)', '        "ResourceClass": "SingleNode"\n    }\n).result()'),),
        "State: State.RUNNING",
    ),
    # The lists are in `.node_types` and `.versions`.
    Misuse(
        "36_list_node_types_sdk_example.py",
        TypeError,
        (("list_node_types()", "list_node_types().node_types"),),
        "Node Type: i3.xlarge\n  Memory: 31232 MB\n  Cores: 4.0\n  Category: Storage Optimized\n",
    ),
    Misuse(
        "38_list_spark_versions_sdk_example.py",
        TypeError,
        (("spark_versions()", "spark_versions().versions"),),
        "Version: 13.3.x-scala2.12\nName: 13.3 LTS",
    ),
    # The enum is EventType, and `events` is an iterator.
    Misuse(
        "41_get_cluster_events_sdk_example.py",
        ImportError,
        (("ClusterEventType", "EventType"), ("events.events", "events")),
        "Event: EventType.RUNNING at ",
    ),
    Misuse(
        "42_complete_cluster_lifecycle_management.py",
        AttributeError,
        (("len(events.events or [])", "len(list(events))"),),
        "Cluster terminated!\n",
    ),
]


@pytest.mark.parametrize("example", WORKS, ids=lambda example: example.name)
def test_an_example_works_as_it_stands(guide: Guide, example: Example) -> None:
    guide.bring_to(example.before)
    printed, _ = guide.run(example.name)
    assert example.prints in printed
    assert "Error" not in printed


@pytest.mark.parametrize("misuse", MISUSES, ids=lambda misuse: misuse.name)
def test_an_example_that_misuses_the_sdk(guide: Guide, misuse: Misuse) -> None:
    guide.bring_to(UP)
    with pytest.raises(misuse.fails):
        guide.run(misuse.name)
    printed, _ = guide.run(misuse.name, *misuse.replacements)
    assert misuse.prints in printed


def test_what_the_examples_do_is_done(guide: Guide) -> None:
    get, pinned = guide.w.clusters.get, compute.ListClustersFilterBy(is_pinned=True)
    guide.bring_to(UP)
    guide.run("32_pin_cluster_example.py")
    assert CLUSTER_ID in [each.cluster_id for each in guide.w.clusters.list(filter_by=pinned)]
    guide.run("34_unpin_cluster_example.py")
    assert CLUSTER_ID not in [each.cluster_id for each in guide.w.clusters.list(filter_by=pinned)]
    guide.run("29_resize_cluster_example.py")
    assert guide.w.clusters.wait_get_cluster_running(CLUSTER_ID, timeout=SOON).num_workers == 8
    before = get(CLUSTER_ID).spark_context_id
    guide.run("20_restart_cluster_sdk_example.py")
    assert get(CLUSTER_ID).spark_context_id != before
    guide.run("23_terminate_cluster_sdk_example.py")
    guide.run("26_edit_cluster_sdk_example.py")
    edited = get(CLUSTER_ID)
    assert (edited.cluster_name, edited.node_type_id, edited.num_workers) == ("updated-cluster", "i3.2xlarge", 4)
    assert (edited.autotermination_minutes, edited.state) == (60, DOWN)
    guide.run("17_start_cluster_sdk_example.py")
    assert [each for each in guide.w.clusters.events(CLUSTER_ID) if each.type is EventType.STARTING]
    guide.reset()


RESIZE_TWICE = "30_resize_cluster_sdk_example.py"


def test_the_two_ways_to_resize(guide: Guide) -> None:
    """The example shows both in a row. A cluster that resizes takes no second resize, so the nearest form waits in between."""
    wait = ("    num_workers=8\n)", "    num_workers=8\n).result()")
    guide.bring_to(UP)
    guide.machines.knobs.register_s = 0.5
    try:
        with pytest.raises(InvalidParameterValue if "autoscale" in REFUSED else InvalidState):
            guide.run(RESIZE_TWICE)
    finally:
        guide.machines.knobs.register_s = 0.0
    guide.bring_to(UP)
    if "autoscale" in REFUSED:
        with pytest.raises(InvalidParameterValue, match="autoscale"):
            guide.run(RESIZE_TWICE, wait)
    else:
        printed, _ = guide.run(RESIZE_TWICE, wait)
        assert "Cluster resized!" in printed
        asked = guide.w.clusters.get(CLUSTER_ID).autoscale
        assert asked is not None
        assert (asked.min_workers, asked.max_workers) == (4, 16)
    guide.reset()


PRODUCTION = "43_cluster_with_custom_configuration.py"


def test_the_production_cluster(guide: Guide) -> None:
    """It needs an init script at a place of the reader's, so there is one here."""
    refused = [field for field in ("autoscale", "init_scripts") if field in REFUSED]
    if refused:
        with pytest.raises(InvalidParameterValue, match=refused[0]):
            guide.run(PRODUCTION)
        return
    guide.w.dbfs.upload("/init-scripts/setup.sh", io.BytesIO(b"#!/bin/sh\n"), overwrite=True)
    printed, names = guide.run(PRODUCTION)
    assert "Production cluster created: " in printed
    assert names["prod_cluster"].result(timeout=SOON).driver_node_type_id == "i3.4xlarge"


# Fragments: arguments of `create`, as they stand in the guide; with the fields of each that name something of the reader's own.
FRAGMENTS = {
    "46_cost_optimization.py": (),
    "47_performance_optimization.py": (),
    "48_security.py": ("policy_id", "instance_pool_id"),
    "49_out_of_memory_errors.py": ("num_workers",),  # it shows two sizes, of which a cluster can have one
}


@pytest.mark.parametrize("name", FRAGMENTS)
def test_a_fragment_configures_a_cluster(guide: Guide, name: str) -> None:
    _, namespace = guide.run(name)
    fields = set(inspect.signature(guide.w.clusters.create).parameters)
    arguments = {key: value for key, value in namespace.items() if key in fields and key not in FRAGMENTS[name]}
    assert arguments
    base: dict[str, Any] = {"spark_version": RUNTIME, "cluster_name": name, "node_type_id": NODE_TYPE} | arguments
    if "autoscale" not in arguments:
        base["num_workers"] = 1
    refused = sorted(arguments.keys() & set(REFUSED))
    if refused:
        with pytest.raises(InvalidParameterValue, match=refused[0]):
            guide.w.clusters.create(**base)
        return
    made = guide.w.clusters.create(**base).result(timeout=SOON)
    assert made.state is UP
    shown = made.as_dict()
    for key, value in arguments.items():
        assert shown[key] == (value.as_dict() if hasattr(value, "as_dict") else value)


def test_names_of_the_readers_own_are_asked_for(guide: Guide) -> None:
    """The guide's policy and pool do not exist here, and the answer says which it is."""
    _, namespace = guide.run("48_security.py")
    for field in FRAGMENTS["48_security.py"]:
        with pytest.raises(DatabricksError, match=field if field in REFUSED else namespace[field]):
            guide.w.clusters.create(RUNTIME, node_type_id=NODE_TYPE, num_workers=1, **{field: namespace[field]})


def test_every_example_is_tried() -> None:
    tried = {example.name for example in WORKS} | {misuse.name for misuse in MISUSES} | set(FRAGMENTS)
    assert tried | {"01_authentication.py", RESIZE_TWICE, PRODUCTION} == {path.name for path in EXAMPLES.glob("*.py")}
