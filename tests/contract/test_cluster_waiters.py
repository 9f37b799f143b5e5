"""Every waiter, mixin and pager of the SDK's clusters, in every state that a cluster can be found in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from databricks.sdk import WorkspaceClient
from databricks.sdk.errors import OperationFailed
from databricks.sdk.service.compute import ClusterDetails, ClustersAPI, State, TerminationReasonType, UpdateClusterResource

from brickyard.providers.simulated import Knobs, SimulatedProvider
from tests.support.golden import Golden
from tests.support.patience import SOON
from tests.support.server import Server

RUNTIME, NODE_TYPE = "17.3.x-scala2.13", "i3.xlarge"
SPEC: dict[str, Any] = {"spark_version": RUNTIME, "node_type_id": NODE_TYPE, "autotermination_minutes": 0}
SLOW = Knobs(register_s=0.4, start_s=0.1, stop_s=0.4)


@pytest.fixture
def slow(machines: SimulatedProvider) -> Iterator[Callable[[], None]]:
    """Makes machines slow from then on, so that states last."""

    def begin() -> None:
        machines.knobs = SLOW

    yield begin
    machines.knobs = Knobs()


def made(w: WorkspaceClient) -> str:
    found = w.clusters.create_and_wait(**SPEC, num_workers=1, timeout=SOON)
    assert found.state is State.RUNNING
    assert found.cluster_id is not None
    return found.cluster_id


WAITERS: dict[str, Callable[[WorkspaceClient, str], ClusterDetails]] = {
    "resize_and_wait": lambda w, name: w.clusters.resize_and_wait(name, num_workers=3, timeout=SOON),
    "edit_and_wait": lambda w, name: w.clusters.edit_and_wait(name, **SPEC, num_workers=2, timeout=SOON),
    "update_and_wait": lambda w, name: w.clusters.update_and_wait(
        name, "num_workers", cluster=UpdateClusterResource(num_workers=1), timeout=SOON
    ),
    "restart_and_wait": lambda w, name: w.clusters.restart_and_wait(name, timeout=SOON),
    "wait_get_cluster_running": lambda w, name: w.clusters.wait_get_cluster_running(name, timeout=SOON),
    "delete_and_wait": lambda w, name: w.clusters.delete_and_wait(name, timeout=SOON),
    "wait_get_cluster_terminated": lambda w, name: w.clusters.wait_get_cluster_terminated(name, timeout=SOON),
    "start_and_wait": lambda w, name: w.clusters.start_and_wait(name, timeout=SOON),
}


def test_every_waiter_of_the_sdk(w: WorkspaceClient) -> None:
    of_the_sdk = {name for name in dir(ClustersAPI) if name.endswith("_and_wait") or name.startswith("wait_get")}
    assert of_the_sdk == {*WAITERS, "create_and_wait"}
    name = made(w)
    for waiter, call in WAITERS.items():
        ended = waiter in ("delete_and_wait", "wait_get_cluster_terminated")
        found = call(w, name)
        assert found.state is (State.TERMINATED if ended else State.RUNNING), waiter
        assert ended or len(found.executors or []) == found.num_workers, waiter


def test_a_waiter_tells_why_a_start_failed(w: WorkspaceClient, machines: SimulatedProvider, golden: Golden) -> None:
    machines.knobs = Knobs(node_failure=1.0)
    try:
        with golden.refused(OperationFailed, "TERMINATED"):
            w.clusters.create_and_wait(**SPEC, num_workers=1, timeout=SOON)
    finally:
        machines.knobs = Knobs()


WAYS: dict[State, Callable[[WorkspaceClient, str], object]] = {
    State.RUNNING: lambda w, name: None,
    State.RESIZING: lambda w, name: w.clusters.resize(name, num_workers=3),
    State.RESTARTING: lambda w, name: w.clusters.edit(name, **SPEC, num_workers=4),
    State.TERMINATING: lambda w, name: w.clusters.delete(name),
    State.TERMINATED: lambda w, name: w.clusters.delete_and_wait(name, timeout=SOON),
    State.PENDING: lambda w, name: w.clusters.start(w.clusters.delete_and_wait(name, timeout=SOON).cluster_id or ""),
}


@pytest.mark.parametrize("state", WAYS)
def test_a_cluster_is_made_sure_of_in_every_state(w: WorkspaceClient, slow: Callable[[], None], state: State) -> None:
    name = made(w)
    slow()
    WAYS[state](w, name)
    assert w.clusters.get(name).state is state
    w.clusters.ensure_cluster_is_running(name)
    assert w.clusters.get(name).state is State.RUNNING


def test_many_make_sure_of_one_cluster_at_once(server: Server, slow: Callable[[], None]) -> None:
    """One of them starts it; the others are told INVALID_STATE, which the SDK takes for what it is."""
    w = server.client()
    name = made(w)
    w.clusters.delete_and_wait(name, timeout=SOON)
    slow()
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda client: client.clusters.ensure_cluster_is_running(name), [server.client() for _ in range(6)]))
    starts = [event for event in w.clusters.events(name) if event.type is not None and event.type.value == "STARTING"]
    assert len(starts) == 1
    assert w.clusters.get(name).state is State.RUNNING


@pytest.mark.parametrize("size", [1, 3, 100])
def test_pagers_show_everything_once(w: WorkspaceClient, size: int) -> None:
    names = [w.clusters.create(**SPEC, num_workers=1, cluster_name="p").cluster_id for _ in range(5)]
    shown = [each.cluster_id for each in w.clusters.list(page_size=size)]
    assert len(shown) == len(set(shown))
    assert shown[: len(names)] == names[::-1]
    name = names[0] or ""
    for _ in range(4):
        w.clusters.pin(name)
        w.clusters.unpin(name)
    w.clusters.wait_get_cluster_running(name, timeout=SOON)
    kinds = [event.type for event in w.clusters.events(name, page_size=size)]
    assert kinds == [event.type for event in w.clusters.events(name, limit=500)]
    assert len(kinds) >= 11


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({}, ("", "")),
        ({"long_term_support": True}, ("LTS", "-scala2.12")),
        ({"long_term_support": True, "scala": "2.13"}, ("LTS", "-scala2.13")),
        ({"spark_version": "3.5"}, ("Apache Spark 3.5", "-scala2.12")),
        ({"spark_version": "4.0", "scala": "2.13"}, ("Apache Spark 4.0", "-scala2.13")),
    ],
)
def test_selected_runtimes_are_offered_and_start(w: WorkspaceClient, wanted: dict[str, Any], expected: tuple[str, str]) -> None:
    key = w.clusters.select_spark_version(**{"latest": True, **wanted})
    name = next(version.name for version in w.clusters.spark_versions().versions or [] if version.key == key)
    assert name is not None
    assert expected[0] in name
    assert key.endswith(expected[1])
    cluster = w.clusters.create_and_wait(**SPEC | {"spark_version": key}, num_workers=1, timeout=SOON)
    assert cluster.spark_version == key


@pytest.mark.parametrize("wanted", [{"ml": True}, {"genomics": True}, {"spark_version": "2.4"}])
def test_runtimes_that_are_not_offered_are_not_found(w: WorkspaceClient, wanted: dict[str, Any], golden: Golden) -> None:
    with golden.refused(ValueError):
        w.clusters.select_spark_version(**wanted)


@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"local_disk": True},
        {"local_disk": True, "min_memory_gb": 16},
        {"min_cores": 4},
        {"min_memory_gb": 64, "min_cores": 8},
        {"category": "Memory Optimized"},
        {"graviton": True},
        {"is_io_cache_enabled": False},
    ],
)
def test_selected_node_types_are_the_smallest_that_suit(w: WorkspaceClient, wanted: dict[str, Any]) -> None:
    name = w.clusters.select_node_type(**wanted)
    found = next(each for each in w.clusters.list_node_types().node_types or [] if each.node_type_id == name)
    assert found.num_cores >= wanted.get("min_cores", 0)
    assert found.memory_mb >= wanted.get("min_memory_gb", 0) * 1024
    assert found.category == wanted.get("category", found.category)
    ended = w.clusters.create_and_wait(**SPEC | {"node_type_id": name}, num_workers=1, timeout=SOON)
    assert ended.node_type_id == name
    w.clusters.delete(ended.cluster_id or "")


def test_what_a_termination_says(w: WorkspaceClient) -> None:
    reason = w.clusters.delete_and_wait(made(w), timeout=SOON).termination_reason
    assert reason is not None
    assert reason.type is TerminationReasonType.SUCCESS
    assert reason.parameters == {"username": w.current_user.me().user_name}
