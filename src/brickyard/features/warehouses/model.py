"""Requests and answers of the SQL Warehouses API, with its field names.

Source: databricks-sdk `service/sql.py`.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from brickyard.domain.spec import Wire
from brickyard.domain.warehouses import ChannelName, SpotPolicy, WarehouseType


class WarehouseState(StrEnum):
    """A deleted warehouse does not exist for any call: DELETING and DELETED are never shown."""

    STARTING = "STARTING"
    RUNNING = "RUNNING"
    STOPPING = "STOPPING"
    STOPPED = "STOPPED"


class SecurityPolicy(StrEnum):
    NONE = "NONE"
    DATA_ACCESS_CONTROL = "DATA_ACCESS_CONTROL"
    PASSTHROUGH = "PASSTHROUGH"


class Channel(Wire, frozen=True, kw_only=True):
    name: ChannelName | None = None
    dbsql_version: str | None = None


class TagPair(Wire, frozen=True, kw_only=True):
    key: str = ""
    value: str = ""


class Tags(Wire, frozen=True, kw_only=True):
    custom_tags: list[TagPair] = []


class WarehouseFields(Wire, frozen=True, kw_only=True):
    """What create and edit may set. Absent in an edit: it stays. Source: `CreateWarehouseRequest`, `EditWarehouseRequest`."""

    name: str | None = None
    cluster_size: str | None = None
    auto_stop_mins: int | None = None
    min_num_clusters: int | None = None
    max_num_clusters: int | None = None
    channel: Channel | None = None
    tags: Tags | None = None
    spot_instance_policy: SpotPolicy | None = None
    enable_photon: bool | None = None
    enable_serverless_compute: bool | None = None
    warehouse_type: WarehouseType | None = None
    instance_profile_arn: str | None = None
    creator_name: str | None = None  # ignored: it is the caller
    customer_version_label: str | None = None
    max_dbu: int | None = None
    reyden_cluster_size_multiplier: float | None = None
    statement_timeout: int | None = None


class CreateWarehouse(WarehouseFields, frozen=True, kw_only=True):
    """`node_type_id` and `policy_id` are ours: the node type of all nodes, and a cluster policy to be created under."""

    node_type_id: str | None = None
    policy_id: str | None = None


class EditWarehouse(CreateWarehouse, frozen=True, kw_only=True):
    id: str


class WarehouseId(Wire, frozen=True, kw_only=True):
    id: str
    base_url: str = ""


class ListWarehouses(Wire, frozen=True, kw_only=True):
    """`run_as_user_id`: those that this user may use; only one's own id."""

    page_size: int | None = None
    page_token: str | None = None
    run_as_user_id: int | None = None
    base_url: str = ""


class CreatedWarehouse(msgspec.Struct, frozen=True, kw_only=True):
    id: str


class OdbcParams(msgspec.Struct, frozen=True, kw_only=True):
    hostname: str
    path: str
    port: int
    protocol: str


class FailureReason(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    code: str
    type: str
    parameters: dict[str, str] = {}


class Health(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`status`: HEALTHY, DEGRADED (fewer workers than wanted) or FAILED (the last start or run ended by a failure); absent while
    it is stopped."""

    status: str | None = None
    message: str = ""
    summary: str = ""
    details: str = ""
    failure_reason: FailureReason | None = None


class WarehouseView(msgspec.Struct, frozen=True, kw_only=True):
    """A warehouse as answers show it. `cluster_id`, ours: the cluster that it is, for events, logs, metrics and the Spark UI."""

    id: str
    name: str
    cluster_size: str
    min_num_clusters: int = 1
    max_num_clusters: int = 1
    num_clusters: int
    num_active_sessions: int
    auto_stop_mins: int
    creator_name: str
    state: WarehouseState
    channel: Channel
    tags: Tags
    spot_instance_policy: SpotPolicy
    enable_photon: bool
    enable_serverless_compute: bool = False
    warehouse_type: WarehouseType
    health: Health
    jdbc_url: str
    odbc_params: OdbcParams
    cluster_id: str
    node_type_id: str
    spark_version: str


class WarehouseList(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    warehouses: list[WarehouseView]
    next_page_token: str = ""


class DataSource(msgspec.Struct, frozen=True, kw_only=True):
    """A warehouse as clients from before the Warehouses API know it."""

    id: str
    name: str
    warehouse_id: str
    type: str = "databricks_internal"
    syntax: str = "sql"
    paused: int = 0
    pause_reason: str | None = None
    supports_auto_limit: bool = True
    view_only: bool = False


# --- the workspace's configuration ---


class ConfPair(Wire, frozen=True, kw_only=True):
    key: str = ""
    value: str = ""


class ConfPairs(Wire, frozen=True, kw_only=True):
    """Older clients call the list `config_pair`."""

    configuration_pairs: list[ConfPair] = []
    config_pair: list[ConfPair] = []


class TypePair(Wire, frozen=True, kw_only=True):
    warehouse_type: WarehouseType
    enabled: bool = False


class ChangeWarehouseConfig(Wire, frozen=True, kw_only=True):
    """The whole configuration: what is absent is reset."""

    security_policy: SecurityPolicy | None = None
    data_access_config: list[ConfPair] | None = None
    sql_configuration_parameters: ConfPairs | None = None
    global_param: ConfPairs | None = None
    config_param: ConfPairs | None = None
    enabled_warehouse_types: list[TypePair] | None = None
    channel: Channel | None = None
    enable_serverless_compute: bool | None = None
    instance_profile_arn: str | None = None
    google_service_account: str | None = None


class WarehouseConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What all warehouses of the workspace have, as stored and as answered."""

    security_policy: SecurityPolicy = SecurityPolicy.DATA_ACCESS_CONTROL
    data_access_config: list[ConfPair] = []
    sql_configuration_parameters: ConfPairs = ConfPairs()
    enabled_warehouse_types: tuple[TypePair, ...] = (
        TypePair(warehouse_type=WarehouseType.CLASSIC, enabled=True),
        TypePair(warehouse_type=WarehouseType.PRO, enabled=True),
    )
    channel: Channel = Channel(name=ChannelName.CURRENT)
    enable_serverless_compute: bool = False


class WarehouseConfigView(WarehouseConfig, frozen=True, kw_only=True):
    """The same as answers show it. `node_type_id`, ours: what a new warehouse gets unless it names one; "" if there is none."""

    node_type_id: str
