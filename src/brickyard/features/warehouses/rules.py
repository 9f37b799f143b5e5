"""What a warehouse's fields mean for its cluster, which are refused, and how a cluster reads as a warehouse. Pure.

Raises only InvalidParameterValue. docs/sql-warehouses.md lists the same fields.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from brickyard.domain.cluster import Cluster, public_state
from brickyard.domain.errors import InvalidParameterValue
from brickyard.domain.nodetypes import NodeType
from brickyard.domain.runtimes import Runtime
from brickyard.domain.spec import (
    AwsAttributes,
    AwsAvailability,
    ClusterSpec,
    DataSecurityMode,
    RuntimeEngine,
)
from brickyard.domain.statements import SQL_SETTINGS
from brickyard.domain.states import State
from brickyard.domain.terminations import TerminationReasonCode, TerminationReasonType
from brickyard.domain.warehouses import ChannelName, SpotPolicy, Warehouse, WarehouseType
from brickyard.features.warehouses.model import (
    ChangeWarehouseConfig,
    Channel,
    ConfPair,
    ConfPairs,
    CreateWarehouse,
    FailureReason,
    Health,
    SecurityPolicy,
    TagPair,
    Tags,
    WarehouseConfig,
    WarehouseFields,
    WarehouseState,
)

SIZES: Mapping[str, int] = {  # workers [Databricks, "SQL warehouse sizing"]
    "2X-Small": 1,
    "X-Small": 2,
    "Small": 4,
    "Medium": 8,
    "Large": 16,
    "X-Large": 32,
    "2X-Large": 64,
    "3X-Large": 128,
    "4X-Large": 256,
}
MAX_NAME = 99  # "less than 100 characters"
DEFAULT_AUTO_STOP_MINUTES = 120
LEAST_AUTO_STOP_MINUTES = 10
DEFAULT_NODE_TYPE = "i3.xlarge"
SETTINGS: Mapping[str, str] = {**SQL_SETTINGS, "LEGACY_TIME_PARSER_POLICY": "spark.sql.legacy.timeParserPolicy"}
_STATES = {
    State.PENDING: WarehouseState.STARTING,
    State.RESTARTING: WarehouseState.STARTING,
    State.RUNNING: WarehouseState.RUNNING,
    State.RESIZING: WarehouseState.RUNNING,
    State.TERMINATING: WarehouseState.STOPPING,
    State.TERMINATED: WarehouseState.STOPPED,
}
_ENDED_WELL = (TerminationReasonCode.USER_REQUEST, TerminationReasonCode.INACTIVITY)
_NO = {
    "instance_profile_arn": "there are no instance profiles",
    "google_service_account": "there are no instance profiles",
    "enable_serverless_compute": "warehouses run on nodes of this workspace",
    "max_dbu": "sizes have names: use cluster_size",
    "reyden_cluster_size_multiplier": "sizes have names: use cluster_size",
    "statement_timeout": "clients limit each statement (in JDBC: setQueryTimeout)",
}
_SHOWN = 100


class Offered(NamedTuple):
    """What a warehouse can be made of. `photon`: whether Photon is accepted; `node_type`: the workspace's choice, or ""."""

    runtimes: Sequence[Runtime]
    node_types: Mapping[str, NodeType]
    node_type: str = ""
    photon: bool = False


class Wanted(NamedTuple):
    """A warehouse: its cluster's specification, and what it has beside it."""

    spec: ClusterSpec
    warehouse: Warehouse


def wanted(request: CreateWarehouse, config: WarehouseConfig, offered: Offered, *, before: Cluster | None = None) -> Wanted:
    """The warehouse after a create, or after an edit of `before`, of which everything stays that is absent."""
    _check_refused(request)
    old, was = (before.request, before.warehouse) if before is not None else (ClusterSpec(), None)
    warehouse = Warehouse(
        cluster_size=_size(request.cluster_size or (was.cluster_size if was else "")),
        channel=_channel(request.channel, was.channel if was else config.channel.name or ChannelName.CURRENT),
        warehouse_type=_type(request.warehouse_type, was, config),
        spot_instance_policy=_spot(request.spot_instance_policy, was),
        enable_photon=(was is not None and was.enable_photon) if request.enable_photon is None else request.enable_photon,
    )
    tags = old.custom_tags if request.tags is None else {each.key: each.value for each in request.tags.custom_tags}
    minutes = old.autotermination_minutes if request.auto_stop_mins is None else request.auto_stop_mins
    spec = ClusterSpec(
        cluster_name=_name(old.cluster_name if request.name is None else request.name),
        num_workers=SIZES[warehouse.cluster_size],
        spark_version=_runtime(warehouse.channel, offered.runtimes),
        node_type_id=request.node_type_id or old.node_type_id or _node_type(offered),
        policy_id=request.policy_id or old.policy_id,
        autotermination_minutes=_auto_stop(DEFAULT_AUTO_STOP_MINUTES if minutes is None else minutes),
        custom_tags=tags or None,
        runtime_engine=RuntimeEngine.PHOTON if warehouse.enable_photon and offered.photon else None,
        data_security_mode=DataSecurityMode.USER_ISOLATION,
        aws_attributes=AwsAttributes(availability=AwsAvailability.SPOT_WITH_FALLBACK, first_on_demand=1)
        if warehouse.spot_instance_policy is SpotPolicy.COST_OPTIMIZED
        else None,
        spark_conf=conf_of(config) or None,
    )
    return Wanted(spec, warehouse)


def conf_of(config: WarehouseConfig) -> dict[str, str]:
    """Spark's settings that every warehouse has."""
    parameters = {SETTINGS[pair.key.upper()]: pair.value for pair in config.sql_configuration_parameters.configuration_pairs}
    return {**{pair.key: pair.value for pair in config.data_access_config}, **parameters}


def configured(request: ChangeWarehouseConfig) -> WarehouseConfig:
    """The configuration that a request asks for."""
    for field in ("instance_profile_arn", "google_service_account", "enable_serverless_compute"):
        if getattr(request, field):
            raise InvalidParameterValue(f"{field} is not supported: {_NO[field]}. Leave it out.")
    if request.security_policy is SecurityPolicy.PASSTHROUGH:
        raise InvalidParameterValue("security_policy PASSTHROUGH is not supported: there are no credentials to pass through.")
    pairs: list[ConfPair] = []
    for given in (request.sql_configuration_parameters, request.global_param, request.config_param):
        pairs += [*given.configuration_pairs, *given.config_pair] if given is not None else []
    for pair in pairs:
        if pair.key.upper() not in SETTINGS:
            raise InvalidParameterValue(
                f"sql_configuration_parameters: {pair.key[:_SHOWN]} is not supported. Use one of: {', '.join(SETTINGS)}."
            )
    for pair in request.data_access_config or ():
        if not pair.key.startswith("spark."):
            raise InvalidParameterValue(f"data_access_config: {pair.key[:_SHOWN]!r} is no setting of Spark (spark.*).")
    default = WarehouseConfig()
    given_types = request.enabled_warehouse_types
    types = default.enabled_warehouse_types if given_types is None else tuple(given_types)
    for each in types:
        if each.enabled and each.warehouse_type not in (WarehouseType.CLASSIC, WarehouseType.PRO):
            raise InvalidParameterValue(f"enabled_warehouse_types: {each.warehouse_type.value} is not supported.")
    return WarehouseConfig(
        security_policy=request.security_policy or default.security_policy,
        data_access_config=request.data_access_config or [],
        sql_configuration_parameters=ConfPairs(configuration_pairs=pairs),
        enabled_warehouse_types=types,
        channel=Channel(name=_channel(request.channel, ChannelName.CURRENT)),
    )


# --- how a cluster reads as a warehouse ---


def state_of(cluster: Cluster) -> WarehouseState:
    """The state that clients see."""
    return _STATES.get(public_state(cluster), WarehouseState.STOPPING)


def health_of(cluster: Cluster) -> Health:
    """Whether it serves as it should."""
    state = state_of(cluster)
    reason = cluster.termination_reason
    if state is WarehouseState.RUNNING:
        if public_state(cluster) is State.RUNNING:
            return Health(status="HEALTHY")
        return Health(status="DEGRADED", summary="Fewer workers than wanted", details=cluster.state_message)
    failed = reason is not None and reason.type is not TerminationReasonType.SUCCESS and reason.code not in _ENDED_WELL
    if state is WarehouseState.STARTING or reason is None or not failed:
        return Health()
    return Health(
        status="FAILED",
        message=cluster.state_message,
        summary="The warehouse has stopped by a failure",
        details=cluster.state_message,
        failure_reason=FailureReason(code=reason.code.value, type=reason.type.value, parameters=reason.parameters or {}),
    )


def tags_of(cluster: Cluster) -> Tags:
    return Tags(custom_tags=[TagPair(key=key, value=value) for key, value in (cluster.spec.custom_tags or {}).items()])


# --- fields ---


def _check_refused(request: WarehouseFields) -> None:
    for field, why in _NO.items():
        if getattr(request, field, None):
            raise InvalidParameterValue(f"{field} is not supported: {why}. Leave it out.")
    least = 1 if request.min_num_clusters is None else request.min_num_clusters
    most = least if request.max_num_clusters is None else request.max_num_clusters
    if least != 1 or most != 1:
        field = "min_num_clusters" if least != 1 else "max_num_clusters"
        raise InvalidParameterValue(
            f"{field} is {getattr(request, field)}; a warehouse is one cluster here. Use 1, and a larger cluster_size."
        )


def _name(name: str | None) -> str:
    name = (name or "").strip()
    if not 1 <= len(name) <= MAX_NAME:
        raise InvalidParameterValue(f"name has {len(name)} characters; it must have 1 to {MAX_NAME}.")
    return name


def _size(size: str) -> str:
    if not size:
        raise InvalidParameterValue("Missing required field: cluster_size")
    if size not in SIZES:
        raise InvalidParameterValue(f"cluster_size {size[:_SHOWN]!r} is not offered. Use one of: {', '.join(SIZES)}.")
    return size


def _auto_stop(minutes: int) -> int:
    if minutes and minutes < LEAST_AUTO_STOP_MINUTES:
        raise InvalidParameterValue(f"auto_stop_mins is {minutes}; it must be 0 (never), or at least {LEAST_AUTO_STOP_MINUTES}.")
    return minutes


def _channel(given: Channel | None, default: ChannelName) -> ChannelName:
    name = (given.name if given is not None else None) or default
    if given is not None and given.dbsql_version:
        raise InvalidParameterValue("channel.dbsql_version is not supported: a channel is a runtime of this workspace.")
    if name is ChannelName.UNSPECIFIED:
        return ChannelName.CURRENT
    if name not in (ChannelName.CURRENT, ChannelName.PREVIEW):
        raise InvalidParameterValue(
            f"channel.name {name.value} is not offered. Use {ChannelName.CURRENT.value} or {ChannelName.PREVIEW.value}."
        )
    return name


def _type(given: WarehouseType | None, was: Warehouse | None, config: WarehouseConfig) -> WarehouseType:
    kind = given or (was.warehouse_type if was else WarehouseType.CLASSIC)
    kind = WarehouseType.CLASSIC if kind is WarehouseType.UNSPECIFIED else kind
    enabled = [each.warehouse_type.value for each in config.enabled_warehouse_types if each.enabled]
    if kind.value not in enabled:
        raise InvalidParameterValue(f"warehouse_type {kind.value} is not enabled. Use one of: {', '.join(enabled) or 'none'}.")
    return kind


def _spot(given: SpotPolicy | None, was: Warehouse | None) -> SpotPolicy:
    policy = given or (was.spot_instance_policy if was else SpotPolicy.COST_OPTIMIZED)
    return SpotPolicy.COST_OPTIMIZED if policy is SpotPolicy.UNSPECIFIED else policy


def _runtime(channel: ChannelName, runtimes: Sequence[Runtime]) -> str:
    """Current is the newest LTS that can keep users apart, preview the newest one."""
    usable = [each for each in runtimes if each.isolates_users]
    if channel is ChannelName.CURRENT:
        usable = [each for each in usable if each.lts] or usable
    if not usable:
        raise InvalidParameterValue(f"channel.name {channel.value} has no runtime here: it takes one on Spark 4.")
    return usable[-1].key


def usual_node_type(offered: Offered) -> str:
    """The workspace's choice, or the one that Databricks' guides begin with, or the smallest that there is; "" without any."""
    for name in (offered.node_type, DEFAULT_NODE_TYPE):
        if name in offered.node_types or (name and name == offered.node_type):
            return name
    smallest = sorted(offered.node_types.values(), key=lambda each: (each.num_cores, each.memory_mb, each.node_type_id))
    return smallest[0].node_type_id if smallest else ""


def _node_type(offered: Offered) -> str:
    if name := usual_node_type(offered):
        return name
    raise InvalidParameterValue("There is no node type for a warehouse. Name one in node_type_id.")


def with_config(cluster: Cluster, config: WarehouseConfig) -> ClusterSpec:
    """The specification of a warehouse under another configuration of the workspace."""
    return msgspec.structs.replace(cluster.request, spark_conf=conf_of(config) or None)
