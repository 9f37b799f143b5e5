"""SQL warehouses through the official SDK, on the simulated provider: what clients ask, and what they read back."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from databricks.sdk import WorkspaceClient
from databricks.sdk.errors import BadRequest, InvalidParameterValue, NotFound, PermissionDenied, ResourceDoesNotExist
from databricks.sdk.service import sql
from databricks.sdk.service.iam import AccessControlRequest, PermissionLevel

from tests.support.patience import until
from tests.support.server import Server

RUNNING, STOPPED = sql.State.RUNNING, sql.State.STOPPED


@contextlib.contextmanager
def warehouse(w: WorkspaceClient, name: str, **fields: object) -> Iterator[str]:
    """A warehouse until the block is left."""
    asked = {"cluster_size": "2X-Small", "max_num_clusters": 1, **fields}
    made = w.warehouses.create(name=name, **asked)  # type: ignore[arg-type] # the SDK's own
    made_id = str(made.response.id)  # type: ignore[attr-defined] # the SDK leaves the type of the response open
    try:
        yield made_id
    finally:
        with contextlib.suppress(NotFound):
            w.warehouses.delete(made_id)


def state(w: WorkspaceClient, warehouse_id: str) -> sql.State | None:
    return w.warehouses.get(warehouse_id).state


def test_a_warehouse_reads_back_as_it_was_written(w: WorkspaceClient) -> None:
    """What Terraform does after every write: read, and compare each field that it sent."""
    sent: dict[str, object] = {
        "cluster_size": "Small",
        "auto_stop_mins": 15,
        "channel": sql.Channel(name=sql.ChannelName.CHANNEL_NAME_PREVIEW),
        "tags": sql.EndpointTags(custom_tags=[sql.EndpointTagPair(key="team", value="a")]),
        "spot_instance_policy": sql.SpotInstancePolicy.RELIABILITY_OPTIMIZED,
        "enable_photon": True,  # Terraform's default
        "enable_serverless_compute": False,
        "warehouse_type": sql.CreateWarehouseRequestWarehouseType.PRO,
        "min_num_clusters": 1,
    }
    with warehouse(w, "written", **sent) as made:
        found = w.warehouses.get(made)
        assert {name: _plain(getattr(found, name)) for name in sent} == {name: _plain(value) for name, value in sent.items()}
        assert (found.name, found.creator_name, found.max_num_clusters) == ("written", w.current_user.me().user_name, 1)
        assert found.odbc_params is not None and found.odbc_params.path == f"/sql/1.0/warehouses/{made}"
        assert found.odbc_params.path in (found.jdbc_url or "")
        cluster = w.clusters.get(made)
        assert (cluster.num_workers, str(cluster.cluster_source and cluster.cluster_source.value)) == (4, "SQL")
        assert w.warehouses.wait_get_warehouse_running(made).num_clusters == 1
        w.warehouses.edit(made, cluster_size="X-Small", auto_stop_mins=0)
        changed = w.warehouses.get(made)
        assert (changed.cluster_size, changed.auto_stop_mins, changed.warehouse_type and changed.warehouse_type.value) == (
            "X-Small",
            0,
            "PRO",
        )


def _plain(value: object) -> object:
    return value.as_dict() if hasattr(value, "as_dict") else getattr(value, "value", value)


def test_defaults_are_those_of_databricks(w: WorkspaceClient) -> None:
    with warehouse(w, "plain") as made:
        found = w.warehouses.get(made)
        assert (found.auto_stop_mins, found.spot_instance_policy, found.channel and found.channel.name) == (
            120,
            sql.SpotInstancePolicy.COST_OPTIMIZED,
            sql.ChannelName.CHANNEL_NAME_CURRENT,
        )


def test_stop_start_and_delete(w: WorkspaceClient) -> None:
    with warehouse(w, "cycle") as made:
        w.warehouses.wait_get_warehouse_running(made)
        w.warehouses.start(made)  # it runs: nothing happens
        w.warehouses.stop_and_wait(made)
        w.warehouses.stop(made)
        assert state(w, made) is STOPPED
        w.warehouses.start_and_wait(made)
        w.warehouses.delete(made)
        with pytest.raises(NotFound):
            w.warehouses.get(made)
        assert made not in {each.id for each in w.warehouses.list()}
        until(lambda: made not in {each.cluster_id for each in w.clusters.list()})


def test_names_are_unique_and_come_free(w: WorkspaceClient) -> None:
    with warehouse(w, "one") as made:
        with pytest.raises(InvalidParameterValue):
            w.warehouses.create(name="one", cluster_size="2X-Small")
        w.warehouses.delete(made)
        with warehouse(w, "one") as again:
            assert again != made


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("cluster_size", "Huge"),
        ("auto_stop_mins", 3),
        ("min_num_clusters", 2),
        ("max_num_clusters", 5),
        ("enable_serverless_compute", True),
        ("instance_profile_arn", "arn:x"),
        ("channel", sql.Channel(name=sql.ChannelName.CHANNEL_NAME_PREVIOUS)),
        ("channel", sql.Channel(dbsql_version="2024.1")),
        ("name", ""),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(w: WorkspaceClient, field: str, value: object) -> None:
    asked: dict[str, object] = {"name": "refused", "cluster_size": "2X-Small", field: value}
    with pytest.raises(BadRequest, match=field):
        w.warehouses.create(**asked)  # type: ignore[arg-type] # the SDK's own


def test_pages_and_data_sources(w: WorkspaceClient) -> None:
    with contextlib.ExitStack() as stack:
        made = [stack.enter_context(warehouse(w, f"page {number}")) for number in range(5)]
        listed = [str(each.id) for each in w.warehouses.list(page_size=2)]
        assert [each for each in listed if each in made] == made
        assert len(set(listed)) == len(listed)
        assert {each.warehouse_id for each in w.data_sources.list()} >= set(made)


def test_a_warehouse_is_changed_only_as_one(w: WorkspaceClient) -> None:
    """The Clusters API shows it and its events, and may start it."""
    with warehouse(w, "only as one") as made:
        w.warehouses.wait_get_warehouse_running(made)
        for change in (
            lambda: w.clusters.resize(made, num_workers=3),
            lambda: w.clusters.delete(made),
            lambda: w.clusters.permanent_delete(made),
            lambda: w.clusters.restart(made),
        ):
            with pytest.raises(BadRequest):
                change()
        assert list(w.clusters.events(made))
        with pytest.raises(NotFound):
            w.permissions.get("clusters", made)


def test_permissions(w: WorkspaceClient, server: Server) -> None:
    name = "warehouse-user@example.com"
    w.users.create(user_name=name)
    made_token: Any = w.api_client.do("POST", "/api/2.1/token-management/tokens", body={"user_name": name})
    other = server.client(made_token["token_value"])
    with warehouse(w, "shared") as made:
        levels = w.warehouses.get_permission_levels(made).permission_levels or []
        assert [each.permission_level and each.permission_level.value for each in levels] == [
            "CAN_VIEW",
            "CAN_USE",
            "CAN_MONITOR",
            "IS_OWNER",
            "CAN_MANAGE",
        ]
        found = w.permissions.set(
            "sql/warehouses",
            made,
            access_control_list=[AccessControlRequest(user_name=name, permission_level=PermissionLevel.CAN_USE)],
        )
        assert (found.object_id, found.object_type) == (f"/sql/warehouses/{made}", "warehouses")
        granted = next(each for each in found.access_control_list or [] if each.user_name == name)
        assert [each.permission_level for each in granted.all_permissions or []] == [PermissionLevel.CAN_USE]
        assert other.warehouses.get(made).id == made
        assert [each.id for each in other.warehouses.list()] == [made]
        w.warehouses.wait_get_warehouse_running(made)
        for refused in (other.warehouses.stop, other.warehouses.delete, other.warehouses.edit):
            with pytest.raises(PermissionDenied):
                refused(made)
        w.warehouses.stop_and_wait(made)
        other.warehouses.start_and_wait(made)  # a statement of theirs would do so too
        w.permissions.set("warehouses", made, access_control_list=[])
        with pytest.raises(PermissionDenied):
            other.warehouses.get(made)
        assert list(other.warehouses.list()) == []


def test_the_configuration_of_all_warehouses(w: WorkspaceClient) -> None:
    before = w.warehouses.get_workspace_warehouse_config()
    assert before.security_policy is sql.GetWorkspaceWarehouseConfigResponseSecurityPolicy.DATA_ACCESS_CONTROL
    with warehouse(w, "configured") as made:
        w.warehouses.wait_get_warehouse_running(made)
        w.warehouses.set_workspace_warehouse_config(
            sql_configuration_parameters=sql.RepeatedEndpointConfPairs(
                configuration_pairs=[sql.EndpointConfPair(key="ANSI_MODE", value="false")]
            ),
            data_access_config=[sql.EndpointConfPair(key="spark.sql.shuffle.partitions", value="7")],
        )
        try:
            found = w.warehouses.get_workspace_warehouse_config()
            assert found.data_access_config == [sql.EndpointConfPair(key="spark.sql.shuffle.partitions", value="7")]
            conf = w.clusters.get(made).spark_conf or {}
            assert (conf["spark.sql.shuffle.partitions"], conf["spark.sql.ansi.enabled"]) == ("7", "false")
            with pytest.raises(InvalidParameterValue):
                w.warehouses.set_workspace_warehouse_config(instance_profile_arn="arn:x")
            w.warehouses.wait_get_warehouse_running(made)
        finally:
            w.warehouses.set_workspace_warehouse_config()


def test_no_warehouse_has_that_id(w: WorkspaceClient) -> None:
    for call in (w.warehouses.get, w.warehouses.delete, w.warehouses.start, w.warehouses.stop):
        with pytest.raises((NotFound, ResourceDoesNotExist)):
            call("0123456789abcdef")
