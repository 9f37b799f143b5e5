"""Response bodies of the Clusters API, with its field names.

Absent and default are the same on the wire. Times are epoch milliseconds, memory is MiB, disks are GiB.
Source: databricks-sdk `service/compute.py`.
"""

from __future__ import annotations

from enum import StrEnum

from brickyard.domain.events import ClusterEvent
from brickyard.domain.requests import GetEvents
from brickyard.domain.spec import ClusterSpec, Wire
from brickyard.domain.states import ClusterSource, State
from brickyard.domain.terminations import TerminationReason


class LogSyncStatus(Wire, frozen=True, kw_only=True):
    """The status of log delivery."""

    last_attempted: int | None = None
    last_exception: str | None = None


class SparkNodeAwsAttributes(Wire, frozen=True, kw_only=True):
    is_spot: bool | None = None


class SparkNode(Wire, frozen=True, kw_only=True):
    """One node of a running cluster."""

    host_private_ip: str | None = None
    instance_id: str | None = None
    node_aws_attributes: SparkNodeAwsAttributes | None = None
    node_id: str | None = None
    private_ip: str | None = None
    public_dns: str | None = None
    start_timestamp: int | None = None


class ClusterDetails(ClusterSpec, frozen=True, kw_only=True):
    """A cluster: its effective specification and its state.

    Two fields need care. `apply_policy_default_values` (inherited) is never set here: clients find it only under `spec`. `spec`,
    the specification as it was sent, is in `get` but not in `list`. `num_workers` is the requested size.
    """

    cluster_cores: float | None = None
    cluster_id: str | None = None
    cluster_log_status: LogSyncStatus | None = None
    cluster_memory_mb: int | None = None
    cluster_source: ClusterSource | None = None
    creator_user_name: str | None = None
    default_tags: dict[str, str] | None = None
    driver: SparkNode | None = None
    executors: list[SparkNode] | None = None
    jdbc_port: int | None = None
    last_activity_time: int | None = None
    last_restarted_time: int | None = None
    last_state_loss_time: int | None = None
    spark_context_id: int | None = None
    spec: ClusterSpec | None = None
    start_time: int | None = None
    state: State | None = None
    state_message: str | None = None
    terminated_time: int | None = None
    termination_reason: TerminationReason | None = None


class CreateClusterResponse(Wire, frozen=True, kw_only=True):
    cluster_id: str


class ListClustersResponse(Wire, frozen=True, kw_only=True):
    """One page. Clients continue while `next_page_token` is present and not empty."""

    clusters: list[ClusterDetails] | None = None
    next_page_token: str | None = None
    prev_page_token: str | None = None


class GetEventsResponse(Wire, frozen=True, kw_only=True):
    """One page of events. Clients send `next_page` back unchanged, and stop when it is absent."""

    events: list[ClusterEvent] | None = None
    next_page: GetEvents | None = None
    next_page_token: str | None = None
    prev_page_token: str | None = None
    total_count: int | None = None


class CloudProviderNodeStatus(StrEnum):
    NOT_AVAILABLE_IN_REGION = "NotAvailableInRegion"
    NOT_ENABLED_ON_SUBSCRIPTION = "NotEnabledOnSubscription"


class CloudProviderNodeInfo(Wire, frozen=True, kw_only=True):
    """Why a node type is unavailable; empty if it is available."""

    status: list[CloudProviderNodeStatus] | None = None


class NodeInstanceType(Wire, frozen=True, kw_only=True, omit_defaults=False):
    """The disks of a node type. All fields are always written: clients compare the numbers and cannot compare an absent one."""

    instance_type_id: str
    local_disk_size_gb: int = 0
    local_disks: int = 0
    local_nvme_disk_size_gb: int = 0
    local_nvme_disks: int = 0


class NodeTypeView(Wire, frozen=True, kw_only=True, omit_defaults=False):
    """A node type as the API shows it. All fields are always written: clients sort by them and cannot sort an absent one."""

    node_type_id: str
    memory_mb: int
    num_cores: float
    description: str
    instance_type_id: str
    category: str
    node_instance_type: NodeInstanceType
    node_info: CloudProviderNodeInfo = CloudProviderNodeInfo()
    display_order: int = 0
    is_deprecated: bool = False
    is_encrypted_in_transit: bool = False
    is_graviton: bool = False
    is_hidden: bool = False
    is_io_cache_enabled: bool = False
    num_gpus: int = 0
    photon_driver_capable: bool = False
    photon_worker_capable: bool = False
    support_cluster_tags: bool = True
    support_ebs_volumes: bool = False
    support_port_forwarding: bool = True
    provider: str = ""  # specific to Brickyard: where its instances come from


class ListNodeTypesResponse(Wire, frozen=True, kw_only=True):
    node_types: list[NodeTypeView] | None = None


class ListAvailableZonesResponse(Wire, frozen=True, kw_only=True):
    default_zone: str | None = None
    zones: list[str] | None = None


class SparkVersion(Wire, frozen=True, kw_only=True):
    """`name` gives clients the Spark version, LTS and Beta."""

    key: str
    name: str


class GetSparkVersionsResponse(Wire, frozen=True, kw_only=True):
    versions: list[SparkVersion] | None = None
