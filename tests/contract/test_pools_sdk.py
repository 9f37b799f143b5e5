"""Instance pools through the official SDK, on the simulated provider: what clients ask, and what they read back."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from databricks.sdk import WorkspaceClient
from databricks.sdk.errors import InvalidParameterValue, NotFound
from databricks.sdk.service.compute import (
    EventType,
    GetInstancePool,
    InstancePoolAwsAttributes,
    InstancePoolAwsAttributesAvailability,
    InstancePoolState,
    State,
)

from tests.support.golden import Golden
from tests.support.patience import until
from tests.support.server import Server

RUNTIME = "17.3.x-scala2.13"
TYPE = "i3.xlarge"


@contextlib.contextmanager
def pool(w: WorkspaceClient, name: str, **fields: object) -> Iterator[str]:
    """A pool until the block is left."""
    made = w.instance_pools.create(instance_pool_name=name, node_type_id=TYPE, **fields)  # type: ignore[arg-type] # the SDK's own
    try:
        yield made.instance_pool_id or ""
    finally:
        with contextlib.suppress(NotFound):
            w.instance_pools.delete(made.instance_pool_id or "")


def counts(w: WorkspaceClient, pool_id: str) -> tuple[int, int, int, int]:
    stats = w.instance_pools.get(pool_id).stats
    assert stats is not None
    found = (stats.used_count, stats.idle_count, stats.pending_used_count, stats.pending_idle_count)
    assert None not in found, "every count is written, also a zero"
    return found  # type: ignore[return-value] # just checked


def settled(w: WorkspaceClient, pool_id: str, used: int, idle: int) -> None:
    until(lambda: counts(w, pool_id) == (used, idle, 0, 0))


def cluster(w: WorkspaceClient, name: str, pool_id: str, *, workers: int = 1) -> str:
    made = w.clusters.create(cluster_name=name, spark_version=RUNTIME, instance_pool_id=pool_id, num_workers=workers)
    return str(made.response.cluster_id)  # type: ignore[attr-defined] # the SDK leaves the type of the response open


def test_a_pool_reads_back_as_it_was_written(w: WorkspaceClient) -> None:
    """What Terraform does after every write: read, and compare each field that it sent."""
    sent: dict[str, object] = {
        "min_idle_instances": 1,
        "max_capacity": 7,
        "idle_instance_autotermination_minutes": 15,
        "custom_tags": {"team": "a"},
        "enable_elastic_disk": False,
        "preloaded_spark_versions": [RUNTIME],
        "aws_attributes": InstancePoolAwsAttributes(
            availability=InstancePoolAwsAttributesAvailability.ON_DEMAND, zone_id="us-west-2a", spot_bid_price_percent=100
        ),
    }
    with pool(w, "written", **sent) as pool_id:
        found = w.instance_pools.get(pool_id)
        assert {name: getattr(found, name) for name in sent} == sent
        assert (found.instance_pool_name, found.node_type_id, found.state) == ("written", TYPE, InstancePoolState.ACTIVE)
        assert found.default_tags is not None
        assert found.default_tags.pop("DatabricksInstancePoolCreatorId")
        assert found.default_tags == {"Vendor": "Databricks", "DatabricksInstancePoolId": pool_id}
        assert found.status is not None
        settled(w, pool_id, used=0, idle=1)
        edit: dict[str, object] = {"min_idle_instances": 2, "max_capacity": 5, "idle_instance_autotermination_minutes": 20}
        w.instance_pools.edit(pool_id, "renamed", TYPE, custom_tags={"team": "b"}, **edit)  # type: ignore[arg-type] # the SDK's own
        changed = w.instance_pools.get(pool_id)
        assert {name: getattr(changed, name) for name in edit} == edit
        assert (changed.instance_pool_name, changed.custom_tags) == ("renamed", {"team": "b"})
        kept = [name for name in sent if name not in {*edit, "custom_tags"}]
        assert {name: getattr(changed, name) for name in kept} == {name: sent[name] for name in kept}
        settled(w, pool_id, used=0, idle=2)
        listed = {each.instance_pool_id: each for each in w.instance_pools.list()}
        shown = listed[pool_id].as_dict()
        assert shown == changed.as_dict() | {"stats": shown["stats"], "status": shown["status"]}


def test_defaults(w: WorkspaceClient) -> None:
    with pool(w, "defaults") as pool_id:
        found = w.instance_pools.get(pool_id)
        assert (found.enable_elastic_disk, found.idle_instance_autotermination_minutes) == (True, 60)
        assert found.max_capacity is None
        assert counts(w, pool_id) == (0, 0, 0, 0)


def test_what_is_refused_names_the_field(w: WorkspaceClient, golden: Golden) -> None:
    with pool(w, "first") as pool_id:
        for wrong, *fields in (
            ({"instance_pool_name": "first"}, "first"),
            ({"instance_pool_name": ""}, "instance_pool_name"),
            ({"instance_pool_name": "n" * 100}, "instance_pool_name", "100"),
            ({"node_type_id": "no-such-type"}, "node_type_id", "no-such-type"),
            ({"min_idle_instances": -1}, "min_idle_instances", "-1"),
            ({"min_idle_instances": 3, "max_capacity": 2}, "max_capacity", "2"),
            ({"idle_instance_autotermination_minutes": 10_001}, "idle_instance_autotermination_minutes", "10000"),
            ({"custom_tags": {f"k{n}": "v" for n in range(46)}}, "custom_tags", "45"),
            ({"preloaded_spark_versions": [RUNTIME, RUNTIME]}, "preloaded_spark_versions"),
            ({"preloaded_spark_versions": ["1.0.x"]}, "1.0.x"),
            ({"disk_spec": {"disk_count": -2, "disk_size": 80}}, "disk_spec.disk_count", "-2"),
            ({"preloaded_docker_images": [{"url": "x"}]}, "preloaded_docker_images"),
            ({"aws_attributes": {"availability": "CHEAP"}}, "CHEAP"),
            ({"aws_attributes": {"zone_id": "nowhere"}}, "nowhere"),
        ):
            body = {"instance_pool_name": "second", "node_type_id": TYPE, **wrong}
            with golden.refused(InvalidParameterValue, *fields):
                w.api_client.do("POST", "/api/2.0/instance-pools/create", body=body)
        with golden.refused(InvalidParameterValue, "node_type_id"):
            w.instance_pools.edit(pool_id, "first", "i3.2xlarge")
        with golden.refused(InvalidParameterValue, "node_type_id"):
            w.api_client.do(
                "POST", "/api/2.0/instance-pools/edit", body={"instance_pool_id": pool_id, "instance_pool_name": "first"}
            )


def test_the_example_of_terraforms_documentation(w: WorkspaceClient) -> None:
    """And its defaults for `aws_attributes {}`. What has no effect is said."""
    disk = {"disk_type": {"ebs_volume_type": "GENERAL_PURPOSE_SSD"}, "disk_size": 80, "disk_count": 1}
    aws = {"availability": "SPOT", "zone_id": "us-east-1a", "spot_bid_price_percent": 100}
    body = {
        "instance_pool_name": "Smallest Nodes",
        "min_idle_instances": 0,
        "max_capacity": 300,
        "node_type_id": TYPE,
        "aws_attributes": aws,
        "idle_instance_autotermination_minutes": 10,
        "disk_spec": disk,
        "enable_elastic_disk": True,
    }
    made = w.api_client.do("POST", "/api/2.0/instance-pools/create", body=body)
    assert isinstance(made, dict)
    pool_id = made["instance_pool_id"]
    found = w.instance_pools.get(pool_id).as_dict()
    assert {key: found[key] for key in body} == body
    w.api_client.do("POST", "/api/2.0/instance-pools/edit", body={**body, "instance_pool_id": pool_id, "max_capacity": 200})
    told = w.api_client.do("GET", "/api/2.1/instance-pools/details", query={"instance_pool_id": pool_id})
    assert isinstance(told, dict)
    assert told["pools"][0]["without_effect"] == [
        "disk_spec is stored only: instances use the disks of their machine.",
        "aws_attributes.availability SPOT is stored only: every instance is on demand.",
    ]
    w.instance_pools.delete(pool_id)


def test_tags_in_the_older_form(w: WorkspaceClient) -> None:
    body = {"instance_pool_name": "tags", "node_type_id": TYPE, "custom_tags": [{"key": "team", "value": "a"}]}
    made = w.api_client.do("POST", "/api/2.0/instance-pools/create", body=body)
    assert isinstance(made, dict)
    assert w.instance_pools.get(made["instance_pool_id"]).custom_tags == {"team": "a"}
    w.instance_pools.delete(made["instance_pool_id"])


def test_an_unknown_pool(w: WorkspaceClient, golden: Golden) -> None:
    for call in (w.instance_pools.get, w.instance_pools.delete):
        with golden.refused(NotFound, "nope"):
            call("nope")
    with golden.refused(InvalidParameterValue, "nope"):
        cluster(w, "c", "nope")


def test_a_cluster_takes_idle_instances_and_gives_them_back(w: WorkspaceClient, golden: Golden) -> None:
    with pool(w, "round", min_idle_instances=2, custom_tags={"team": "a", "cost": "1"}) as pool_id:
        settled(w, pool_id, used=0, idle=2)
        made = w.clusters.create(
            cluster_name="on a pool",
            spark_version=RUNTIME,
            instance_pool_id=pool_id,
            num_workers=1,
            custom_tags={"cost": "2"},
        )
        found = made.result()
        assert (found.node_type_id, found.driver_node_type_id, found.driver_instance_pool_id) == (TYPE, TYPE, pool_id)
        assert found.custom_tags == {"cost": "2"}
        assert found.default_tags is not None
        assert found.default_tags["team"] == "a"
        assert found.default_tags["DatabricksInstancePoolId"] == pool_id
        assert "cost" not in found.default_tags, "the cluster's own tag replaces the pool's"
        settled(w, pool_id, used=2, idle=2)
        cluster_id = str(found.cluster_id)
        w.clusters.delete(cluster_id).result()
        settled(w, pool_id, used=0, idle=4)
        # What `get` shows can be sent back, with pool and node type.
        w.clusters.edit(
            cluster_id,
            RUNTIME,
            instance_pool_id=pool_id,
            driver_instance_pool_id=pool_id,
            node_type_id=TYPE,
            driver_node_type_id=TYPE,
            num_workers=1,
        )
        with golden.refused(InvalidParameterValue, "node_type_id", "i3.2xlarge"):
            w.clusters.edit(cluster_id, RUNTIME, instance_pool_id=pool_id, node_type_id="i3.2xlarge", num_workers=1)
        with golden.refused(InvalidParameterValue, "driver_instance_pool_id", "instance_pool_id"):
            w.clusters.edit(cluster_id, RUNTIME, driver_instance_pool_id=pool_id, node_type_id=TYPE, num_workers=1)
        w.clusters.permanent_delete(cluster_id)


def test_driver_and_workers_from_two_pools(w: WorkspaceClient) -> None:
    with pool(w, "workers") as workers:
        made = w.instance_pools.create(instance_pool_name="drivers", node_type_id="i3.2xlarge")
        drivers = str(made.instance_pool_id)
        found = w.clusters.create(
            cluster_name="two", spark_version=RUNTIME, instance_pool_id=workers, driver_instance_pool_id=drivers, num_workers=2
        ).result()
        assert (found.node_type_id, found.driver_node_type_id) == (TYPE, "i3.2xlarge")
        assert (counts(w, drivers)[0], counts(w, workers)[0]) == (1, 2)
        w.clusters.permanent_delete(str(found.cluster_id))
        w.instance_pools.delete(drivers)


def test_a_cluster_that_comes_after_another_waits_for_its_instances(w: WorkspaceClient) -> None:
    with pool(w, "taken", max_capacity=2) as pool_id:
        for name in ("first", "second", "third"):
            cluster_id = cluster(w, name, pool_id, workers=1)
            w.clusters.wait_get_cluster_running(cluster_id)
            w.clusters.delete(cluster_id)


def test_max_capacity(w: WorkspaceClient, golden: Golden) -> None:
    with pool(w, "small", max_capacity=3) as pool_id:
        cluster_id = cluster(w, "fits", pool_id, workers=2)
        w.clusters.wait_get_cluster_running(cluster_id)
        late = cluster(w, "does not fit", pool_id, workers=1)
        ended = w.clusters.wait_get_cluster_terminated(late)
        assert ended.termination_reason is not None
        assert ended.termination_reason.code is not None
        assert ended.termination_reason.code.value == "INSTANCE_POOL_MAX_CAPACITY_REACHED"
        assert ended.termination_reason.parameters is not None
        assert ended.termination_reason.parameters["instance_pool_id"] == pool_id
        golden(ended.state_message, "max_capacity", pool_id=pool_id)
        # A cluster that runs goes on with what it has, and says why it does not grow.
        w.clusters.resize(cluster_id, num_workers=4)
        until(lambda: any(each.type is EventType.ADD_NODES_FAILED for each in w.clusters.events(cluster_id)))
        failed = next(each for each in w.clusters.events(cluster_id) if each.type is EventType.ADD_NODES_FAILED)
        assert failed.details is not None
        golden(failed.details.did_not_expand_reason, "max_capacity", pool_id=pool_id)
        assert w.clusters.get(cluster_id).state is State.RUNNING
        w.clusters.permanent_delete(cluster_id)
        w.clusters.permanent_delete(late)


def test_a_deleted_pool(w: WorkspaceClient, golden: Golden) -> None:
    with pool(w, "short-lived", min_idle_instances=1) as pool_id:
        running, ended = (cluster(w, name, pool_id) for name in ("running", "ended"))
        for each in (running, ended):
            w.clusters.wait_get_cluster_running(each)
        w.clusters.delete(ended).result()
    with pytest.raises(NotFound):
        w.instance_pools.get(pool_id)
    assert pool_id not in [each.instance_pool_id for each in w.instance_pools.list()]
    assert w.clusters.get(running).state is State.RUNNING
    with golden.refused(InvalidParameterValue):
        cluster(w, "new", pool_id)
    with pool(w, "short-lived") as successor:  # the name is free again
        assert successor != pool_id
    w.clusters.resize(running, num_workers=2)
    until(lambda: any(each.type is EventType.ADD_NODES_FAILED for each in w.clusters.events(running)))
    w.clusters.start(ended)
    found = w.clusters.wait_get_cluster_terminated(ended)
    assert found.termination_reason is not None
    assert found.termination_reason.code is not None
    assert found.termination_reason.code.value == "INSTANCE_POOL_NOT_FOUND"
    golden(found.state_message, pool_id)
    w.clusters.edit(ended, RUNTIME, node_type_id=TYPE, num_workers=1)
    w.clusters.start(ended).result()
    for each in (running, ended):
        w.clusters.permanent_delete(each)


def test_an_edit_moves_a_running_cluster_to_another_pool(w: WorkspaceClient) -> None:
    with pool(w, "from") as first, pool(w, "to") as second:
        cluster_id = cluster(w, "moves", first)
        w.clusters.wait_get_cluster_running(cluster_id)
        w.clusters.edit_and_wait(cluster_id, RUNTIME, instance_pool_id=second, num_workers=1)
        settled(w, first, used=0, idle=2)
        settled(w, second, used=2, idle=0)
        w.clusters.permanent_delete(cluster_id)


def test_idle_instances_beyond_the_minimum_leave_at_once_with_0(w: WorkspaceClient) -> None:
    with pool(w, "lean", min_idle_instances=1, idle_instance_autotermination_minutes=0) as pool_id:
        cluster_id = cluster(w, "c", pool_id, workers=2)
        w.clusters.wait_get_cluster_running(cluster_id)
        settled(w, pool_id, used=3, idle=1)
        w.clusters.permanent_delete(cluster_id)
        settled(w, pool_id, used=0, idle=1)


def test_every_field_of_the_answer_is_the_sdks(w: WorkspaceClient) -> None:
    with pool(w, "fields", min_idle_instances=1) as pool_id:
        raw = w.api_client.do("GET", "/api/2.0/instance-pools/get", query={"instance_pool_id": pool_id})
        assert isinstance(raw, dict)
        assert GetInstancePool.from_dict(raw).as_dict() == raw


def test_a_pool_is_filled_again_by_the_next_server_without_an_error(tmp_path: Path) -> None:
    with Server.running(tmp_path, provider="simulated") as first:
        w = first.client()
        pool_id = str(w.instance_pools.create("stays", TYPE, min_idle_instances=2).instance_pool_id)
        settled(w, pool_id, used=0, idle=2)
    with Server.running(tmp_path, provider="simulated") as second:
        w = second.client()
        settled(w, pool_id, used=0, idle=2)
        assert w.instance_pools.get(pool_id).as_dict()["status"] == {}, "nothing was lost: it was sent away"
