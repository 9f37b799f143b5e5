"""What a warehouse's fields mean for its cluster, for any request."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brickyard.domain.cluster import public_state
from brickyard.domain.errors import InvalidParameterValue
from brickyard.domain.spec import ClusterSpec
from brickyard.domain.states import State
from brickyard.domain.warehouses import ChannelName, SpotPolicy, Warehouse, WarehouseType
from brickyard.features.warehouses.model import (
    ChangeWarehouseConfig,
    Channel,
    ConfPair,
    ConfPairs,
    CreateWarehouse,
    TagPair,
    Tags,
    WarehouseConfig,
    WarehouseState,
)
from brickyard.features.warehouses.rules import SETTINGS, SIZES, Offered, conf_of, configured, health_of, state_of, wanted
from brickyard.runtime.catalogue import rows as runtimes
from brickyard.testing.builders import SMALL, cluster, up

OFFERED = Offered(runtimes(), {SMALL.node_type_id: SMALL})
requests = st.builds(
    CreateWarehouse,
    name=st.text("abc", min_size=1, max_size=99),
    cluster_size=st.sampled_from(sorted(SIZES)),
    auto_stop_mins=st.one_of(st.none(), st.just(0), st.integers(10, 10_000)),
    channel=st.one_of(
        st.none(),
        st.builds(Channel, name=st.sampled_from([None, ChannelName.CURRENT, ChannelName.PREVIEW, ChannelName.UNSPECIFIED])),
    ),
    tags=st.one_of(st.none(), st.builds(Tags, custom_tags=st.lists(st.builds(TagPair, key=st.text("k", min_size=1))))),
    spot_instance_policy=st.sampled_from([None, *SpotPolicy]),
    warehouse_type=st.sampled_from([None, WarehouseType.CLASSIC, WarehouseType.PRO, WarehouseType.UNSPECIFIED]),
    enable_photon=st.sampled_from([None, False, True]),
    enable_serverless_compute=st.sampled_from([None, False]),
    min_num_clusters=st.sampled_from([None, 1]),
    max_num_clusters=st.sampled_from([None, 1]),
)


def existing(spec: ClusterSpec, warehouse: Warehouse) -> Any:
    return cluster(spec=spec, request=spec, warehouse=warehouse)


@given(requests)
def test_what_is_honoured_is_in_the_cluster(request: CreateWarehouse) -> None:
    spec, warehouse = wanted(request, WarehouseConfig(), OFFERED)
    assert spec.num_workers == SIZES[warehouse.cluster_size]
    assert spec.autotermination_minutes == (120 if request.auto_stop_mins is None else request.auto_stop_mins)
    runtime = next(each for each in runtimes() if each.key == spec.spark_version)
    assert runtime.isolates_users
    assert runtime.lts or warehouse.channel is ChannelName.PREVIEW
    assert (spec.aws_attributes is not None) == (warehouse.spot_instance_policy is SpotPolicy.COST_OPTIMIZED)
    assert warehouse.spot_instance_policy is not SpotPolicy.UNSPECIFIED


@given(requests)
def test_an_edit_keeps_what_it_does_not_name(request: CreateWarehouse) -> None:
    spec, warehouse = wanted(request, WarehouseConfig(), OFFERED)
    assert wanted(CreateWarehouse(), WarehouseConfig(), OFFERED, before=existing(spec, warehouse)) == (spec, warehouse)


@given(requests, requests)
def test_an_edit_that_names_everything_is_a_new_warehouse(first: CreateWarehouse, second: CreateWarehouse) -> None:
    """What an edit names is as if the warehouse had been created so."""
    before = existing(*wanted(first, WarehouseConfig(), OFFERED))
    edited, created = (wanted(second, WarehouseConfig(), OFFERED, before=each) for each in (before, None))
    assert edited.warehouse.cluster_size == created.warehouse.cluster_size
    for name, kept in (("auto_stop_mins", "autotermination_minutes"), ("tags", "custom_tags"), ("name", "cluster_name")):
        if getattr(second, name) is not None:
            assert getattr(edited.spec, kept) == getattr(created.spec, kept)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", " "),
        ("name", "x" * 100),
        ("cluster_size", "5X-Large"),
        ("auto_stop_mins", 9),
        ("auto_stop_mins", -1),
        ("min_num_clusters", 0),
        ("max_num_clusters", 2),
        ("enable_serverless_compute", True),
        ("instance_profile_arn", "arn"),
        ("max_dbu", 3),
        ("statement_timeout", 5),
        ("channel", Channel(name=ChannelName.CUSTOM)),
        ("warehouse_type", WarehouseType.REALTIME),
    ],
)
def test_the_rest_is_refused_by_name(field: str, value: object) -> None:
    asked: dict[str, Any] = {"name": "w", "cluster_size": "Small", field: value}
    with pytest.raises(InvalidParameterValue, match=field.replace("_", "[_ ]")):
        wanted(CreateWarehouse(**asked), WarehouseConfig(), OFFERED)


@pytest.mark.parametrize(("photon", "engine"), [(True, "PHOTON"), (False, None)])
def test_photon_is_kept_as_it_was_sent_and_the_cluster_has_what_the_server_has(photon: bool, engine: str | None) -> None:
    asked = CreateWarehouse(name="w", cluster_size="Small", enable_photon=True)
    spec, warehouse = wanted(asked, WarehouseConfig(), OFFERED._replace(photon=photon))
    assert (spec.runtime_engine, warehouse.enable_photon) == (engine, True)


def test_the_node_type_of_the_workspace() -> None:
    asked = CreateWarehouse(name="w", cluster_size="Small")
    assert wanted(asked, WarehouseConfig(), OFFERED).spec.node_type_id == SMALL.node_type_id
    assert wanted(asked, WarehouseConfig(), OFFERED._replace(node_type="big")).spec.node_type_id == "big"


@given(st.dictionaries(st.sampled_from(sorted(SETTINGS)), st.text("01"), max_size=4), st.booleans())
def test_settings_of_all_warehouses_are_spark_settings(parameters: dict[str, str], older: bool) -> None:
    pairs = [ConfPair(key=key.lower(), value=value) for key, value in parameters.items()]
    given = ConfPairs(config_pair=pairs) if older else ConfPairs(configuration_pairs=pairs)
    made = configured(ChangeWarehouseConfig(sql_configuration_parameters=given))
    assert conf_of(made) == {SETTINGS[key]: value for key, value in parameters.items()}


def test_a_running_warehouse_is_healthy_and_one_that_lacks_workers_degraded() -> None:
    running = up(cluster(warehouse=Warehouse(cluster_size="Small")))
    assert (state_of(running), health_of(running).status) == (WarehouseState.RUNNING, "HEALTHY")
    short = msgspec.structs.replace(running, sized=False, state_message="1 worker is missing")
    assert public_state(short) is State.RESIZING
    assert (state_of(short), health_of(short).status) == (WarehouseState.RUNNING, "DEGRADED")
