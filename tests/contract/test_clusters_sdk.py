"""Every cluster call of the official SDK, with its waiters, mixins and pagers, against a server on the simulated provider."""

from __future__ import annotations

import time
from typing import Any

import pytest
from databricks.sdk import WorkspaceClient
from databricks.sdk.errors import (
    BadRequest,
    InvalidParameterValue,
    NotFound,
    PermissionDenied,
    ResourceDoesNotExist,
    Unauthenticated,
)
from databricks.sdk.errors.platform import InvalidState
from databricks.sdk.service import compute
from databricks.sdk.service.compute import State

from brickyard.providers.simulated import SimulatedProvider
from tests.support.golden import Golden
from tests.support.patience import SOON, until
from tests.support.server import Server

RUNTIME = "17.3.x-scala2.13"
SINGLE = {"spark.databricks.cluster.profile": "singleNode", "spark.master": "local[*]"}


def create(w: WorkspaceClient, name: str, workers: int = 1) -> compute.ClusterDetails:
    return w.clusters.create(
        cluster_name=name, spark_version=RUNTIME, node_type_id="i3.xlarge", num_workers=workers, autotermination_minutes=30
    ).result(timeout=SOON)


def test_a_whole_life(w: WorkspaceClient) -> None:
    cluster = create(w, "life", 2)
    name = cluster.cluster_id
    assert name
    assert cluster.state is State.RUNNING
    assert cluster.driver
    assert len(cluster.executors or []) == 2
    assert cluster.cluster_cores == 12
    assert cluster.default_tags == {
        "Vendor": "Databricks",
        "Creator": "admin@brickyard.local",
        "ClusterName": "life",
        "ClusterId": name,
    }
    assert cluster.spec
    assert cluster.spec.num_workers == 2
    assert w.clusters.resize(name, num_workers=4).result(timeout=SOON).num_workers == 4
    restarted = w.clusters.restart(name).result(timeout=SOON)
    assert restarted.spark_context_id != cluster.spark_context_id
    edited = w.clusters.edit(name, RUNTIME, node_type_id="i3.xlarge", num_workers=1, cluster_name="edited").result(timeout=SOON)
    assert edited.cluster_name == "edited"
    updated = w.clusters.update(
        name, "spark_conf", cluster=compute.UpdateClusterResource(spark_conf={"spark.speculation": "true"})
    ).result(timeout=SOON)
    assert updated.spark_conf == {"spark.speculation": "true"}
    ended = w.clusters.delete(name).result(timeout=SOON)
    assert ended.state is State.TERMINATED
    assert ended.termination_reason
    assert ended.termination_reason.parameters == {"username": "admin@brickyard.local"}
    assert w.clusters.start(name).result(timeout=SOON).state is State.RUNNING
    w.clusters.delete(name).result(timeout=SOON)
    w.clusters.ensure_cluster_is_running(name)
    w.clusters.permanent_delete(name)
    with pytest.raises(ResourceDoesNotExist):
        w.clusters.get(name)
    assert name not in [each.cluster_id for each in w.clusters.list()]


def test_a_name_a_tag_and_the_idle_time_change_without_a_restart(w: WorkspaceClient) -> None:
    """As Terraform sends them: the whole specification, and then it waits until the cluster runs."""
    spec: dict[str, Any] = {"spark_version": RUNTIME, "node_type_id": "i3.xlarge", "num_workers": 1}
    made = w.clusters.create(cluster_name="live", custom_tags={"cost": "before"}, **spec).result(timeout=SOON)
    name = str(made.cluster_id)
    edited = w.clusters.edit_and_wait(
        name, cluster_name="live-2", custom_tags={"cost": "after"}, autotermination_minutes=60, timeout=SOON, **spec
    )
    assert (edited.state, edited.spark_context_id) == (State.RUNNING, made.spark_context_id)
    assert (edited.cluster_name, edited.custom_tags, edited.autotermination_minutes) == ("live-2", {"cost": "after"}, 60)
    assert (edited.default_tags or {})["ClusterName"] == "live-2"
    kinds = [each.type for each in w.clusters.events(name)]
    assert compute.EventType.EDITED in kinds
    assert compute.EventType.RESTARTING not in kinds

    def spend() -> dict[str, float]:
        found: Any = w.api_client.do("GET", "/api/2.1/spend", query={"group_by": "tag:cost"})
        return {each["key"]: each["price_per_hour"] for each in found["groups"]}

    until(lambda: "after" in spend())
    now = spend()
    assert now["before"] == 0, "what ran under the old tag stays there"
    assert now["after"] > 0
    w.clusters.permanent_delete(name)


def test_the_first_poll_never_sees_the_state_before_the_call(w: WorkspaceClient) -> None:
    name = create(w, "polls").cluster_id
    assert name
    w.clusters.restart(name)
    assert w.clusters.get(name).state is not State.TERMINATED
    w.clusters.wait_get_cluster_running(name, timeout=SOON)
    w.clusters.delete(name).result(timeout=SOON)
    w.clusters.start(name)
    assert w.clusters.get(name).state is not State.TERMINATED
    with pytest.raises(InvalidState):
        w.clusters.start(name)
    w.clusters.delete(name)


def test_selection_mixins(w: WorkspaceClient) -> None:
    assert w.clusters.select_spark_version(long_term_support=True) == "16.4.x-scala2.12"
    chosen = w.clusters.select_node_type(local_disk=True)
    assert chosen in [each.node_type_id for each in w.clusters.list_node_types().node_types or []]
    zones = w.clusters.list_zones()
    assert zones.default_zone in (zones.zones or [])


def test_events_page_through_whole_requests(w: WorkspaceClient) -> None:
    name = create(w, "events").cluster_id
    assert name
    for _ in range(5):
        w.clusters.pin(name)
        w.clusters.unpin(name)
    seen = [event.type for event in w.clusters.events(name, limit=3)]
    assert len(seen) == 13
    assert seen[-1] is compute.EventType.CREATING
    ascending = list(w.clusters.events(name, order=compute.GetEventsOrder.ASC, limit=2))
    assert [event.type for event in ascending] == seen[::-1]
    only = list(w.clusters.events(name, event_types=[compute.EventType.RUNNING], end_time=int(time.time() * 1000)))
    assert len(only) == 1
    w.clusters.delete(name)


def test_lists_filter_with_pythons_own_booleans(w: WorkspaceClient) -> None:
    names = [create(w, f"list-{number}").cluster_id for number in range(3)]
    pinned = names[0]
    assert pinned
    w.clusters.pin(pinned)
    by = compute.ListClustersFilterBy(is_pinned=True)
    assert [each.cluster_id for each in w.clusters.list(filter_by=by)] == [pinned]
    w.clusters.unpin(pinned)
    listed = [each.cluster_id for each in w.clusters.list(page_size=1)]
    assert set(names) <= set(listed)
    assert len(listed) == len(set(listed))
    sort = compute.ListClustersSortBy(field=compute.ListClustersSortByField.CLUSTER_NAME)
    order = [each.cluster_name for each in w.clusters.list(sort_by=sort)]
    assert order == sorted(order, key=str)
    for name in names:
        assert name
        w.clusters.permanent_delete(name)


def test_refusals_have_the_sdks_classes(w: WorkspaceClient, golden: Golden) -> None:
    with pytest.raises(ResourceDoesNotExist):
        w.clusters.get("0000-000000-nonsense")
    with golden.refused(InvalidParameterValue):
        w.clusters.delete("0000-000000-nonsense")
    with golden.refused(InvalidParameterValue):
        w.clusters.create(spark_version="1.0", node_type_id="i3.xlarge", num_workers=1)
    with golden.refused(InvalidParameterValue, "size"):
        w.clusters.create(spark_version=RUNTIME, node_type_id="i3.xlarge")
    with golden.refused(InvalidParameterValue, "autoscale.max_workers", "2"):
        w.clusters.create(
            spark_version=RUNTIME, node_type_id="i3.xlarge", autoscale=compute.AutoScale(min_workers=2, max_workers=2)
        )
    with golden.refused(NotFound):
        w.api_client.do("GET", "/api/2.0/nonsense")
    with pytest.raises(BadRequest):
        w.api_client.do("POST", "/api/2.1/clusters/create", body={"num_workers": "many"})


def test_an_autoscaling_cluster(machines: SimulatedProvider, w: WorkspaceClient) -> None:
    scale = compute.AutoScale(min_workers=1, max_workers=5)
    cluster = w.clusters.create(spark_version=RUNTIME, node_type_id="i3.xlarge", autoscale=scale).result(timeout=SOON)
    name = cluster.cluster_id or ""
    assert (cluster.autoscale, cluster.num_workers, len(cluster.executors or [])) == (scale, None, 1)
    machines.set_tasks(name, 100)
    until(lambda: len(w.clusters.get(name).executors or []) == 5, "five executors")
    cluster = w.clusters.wait_get_cluster_running(name, timeout=SOON)
    seen = {(event.type, event.details.cause) for event in w.clusters.events(name) if event.details}
    assert (compute.EventType.RESIZING, compute.EventDetailsCause.AUTOSCALE) in seen
    assert (compute.EventType.UPSIZE_COMPLETED, compute.EventDetailsCause.AUTOSCALE) in seen
    cluster = w.clusters.resize_and_wait(name, num_workers=2, timeout=SOON)
    assert (cluster.autoscale, cluster.num_workers) == (None, 2)
    w.clusters.permanent_delete(name)


def test_spot_nodes_and_alternate_types(machines: SimulatedProvider, w: WorkspaceClient) -> None:
    machines.knobs.max_spot = 1
    machines.knobs.full_types = frozenset({"i3.xlarge"})
    flexible = compute.NodeTypeFlexibility(alternate_node_type_ids=["i3.2xlarge"])
    try:
        cluster = w.clusters.create(
            spark_version=RUNTIME,
            node_type_id="i3.xlarge",
            driver_node_type_id="i3.4xlarge",
            num_workers=2,
            worker_node_type_flexibility=flexible,
            aws_attributes=compute.AwsAttributes(
                availability=compute.AwsAvailability.SPOT_WITH_FALLBACK, first_on_demand=1, zone_id="us-west-2a"
            ),
        ).result(timeout=SOON)
    finally:
        machines.knobs.max_spot, machines.knobs.full_types = 1_000_000, frozenset()
    nodes = [cluster.driver, *(cluster.executors or [])]
    spot = [bool(node.node_aws_attributes.is_spot) for node in nodes if node and node.node_aws_attributes]
    assert spot[0] is False
    assert sorted(spot[1:]) == [False, True], "one spot instance was to be had, the other worker is on demand"
    assert cluster.cluster_cores == 16 + 2 * 8, "a larger driver, and workers of the alternate type"
    assert cluster.worker_node_type_flexibility == flexible
    w.clusters.permanent_delete(cluster.cluster_id or "")


def test_a_single_node(w: WorkspaceClient) -> None:
    waiting = w.clusters.create(
        cluster_name="single",
        spark_version=RUNTIME,
        node_type_id="i3.xlarge",
        num_workers=0,
        spark_conf=SINGLE,
        custom_tags={"ResourceClass": "SingleNode"},
    )
    cluster = waiting.result(timeout=SOON)
    assert not cluster.executors
    assert cluster.num_workers == 0
    assert cluster.cluster_id
    w.clusters.permanent_delete(cluster.cluster_id)


def test_older_clients_get_everything_in_one_list(w: WorkspaceClient) -> None:
    names = [create(w, f"all-{number}").cluster_id for number in range(22)]
    answer = w.api_client.do("GET", "/api/2.0/clusters/list")
    assert isinstance(answer, dict)
    assert set(names) <= {each["cluster_id"] for each in answer["clusters"]}
    assert "next_page_token" not in answer
    for name in names:
        w.clusters.permanent_delete(name or "")


def test_one_cluster_for_one_idempotency_token(w: WorkspaceClient) -> None:
    body = {"spark_version": RUNTIME, "node_type_id": "i3.xlarge", "num_workers": 1, "idempotency_token": "same"}
    answers = [w.api_client.do("POST", "/api/2.0/clusters/create", body=body) for _ in range(3)]
    names = {answer["cluster_id"] for answer in answers if isinstance(answer, dict)}
    assert len(names) == 1
    w.clusters.permanent_delete(names.pop())


def test_tokens_open_and_close(server: Server, w: WorkspaceClient) -> None:
    made = w.tokens.create(comment="mine", lifetime_seconds=60)
    assert made.token_value
    assert made.token_info
    other = server.client(made.token_value)
    assert other.current_user.me().user_name == "admin@brickyard.local"
    assert made.token_info.token_id in [each.token_id for each in w.tokens.list()]
    w.tokens.delete(made.token_info.token_id or "")
    with pytest.raises((Unauthenticated, PermissionDenied)):
        other.clusters.get("x")
    with pytest.raises((Unauthenticated, PermissionDenied)):
        server.client("dapi-wrong").current_user.me()


def test_who_and_where(w: WorkspaceClient) -> None:
    me = w.current_user.me()
    assert me.user_name == "admin@brickyard.local"
    assert "admins" in [group.display for group in me.groups or []]
    assert w.get_workspace_id() > 0


def test_change_owner_needs_a_terminated_cluster(w: WorkspaceClient) -> None:
    name = create(w, "owner").cluster_id
    assert name
    with pytest.raises(InvalidState):
        w.clusters.change_owner(name, "admin@brickyard.local")
    w.clusters.delete(name).result(timeout=SOON)
    w.clusters.change_owner(name, "admin@brickyard.local")
    w.clusters.permanent_delete(name)
