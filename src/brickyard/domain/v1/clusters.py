"""Requests and answers of the /v1/clusters dialect, with its field names. Times are RFC 3339, in UTC.

Unknown fields are refused. Fields that are known and cannot be honoured are here as well, so that they are refused by name
(`plan/v1/translate.py`).
"""

from __future__ import annotations

from enum import StrEnum

import msgspec
from msgspec import UNSET, UnsetType

from brickyard.domain.ports import PortUpdate, PortView
from brickyard.domain.snapshots import ClusterConfiguration
from brickyard.domain.strict import Pagination, Strict
from brickyard.domain.usage import ClusterUsage, MetricsWindow
from brickyard.domain.v1.details import HealthCheck, LogTail


class V1ClusterState(StrEnum):
    """PENDING is never shown: a cluster that was asked to start is `starting`."""

    PENDING = "pending"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"
    ERROR = "error"


class SortBy(StrEnum):
    CREATED_AT = "created_at"
    NAME = "name"
    STATUS = "status"
    GPU_COUNT = "gpu_count"
    COST = "cost"


class SortOrder(StrEnum):
    ASC = "asc"
    DESC = "desc"


class PhaseStatus(StrEnum):
    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"


class OperationKind(StrEnum):
    START = "start"
    RESTART = "restart"
    STOP = "stop"


# -- requests --------------------------------------------------------------------------------------------------------


class AutoTerminate(Strict, frozen=True, kw_only=True):
    """When a cluster stops by itself: at the first limit that is reached. In an update, null removes a limit."""

    enabled: bool | UnsetType | None = UNSET
    idle_minutes: int | UnsetType | None = UNSET
    max_runtime_minutes: int | UnsetType | None = UNSET
    at: str | UnsetType | None = UNSET
    max_cost: float | UnsetType | None = UNSET


class UpdateConfiguration(Strict, frozen=True, kw_only=True):
    """Each node's size, and that of the workspace directory. What is left out stays as it is."""

    gpu_count: int | None = None
    cpu_cores: int | None = None
    memory_gb: float | None = None
    storage_gb: int | None = None
    docker_image: str | None = None


class CreateV1Cluster(Strict, frozen=True, kw_only=True):
    """A cluster of one node. `gpu_type` is part of a GPU's model; without GPUs it is left out. `idempotency_key` is a header."""

    name: str
    description: str | None = None
    gpu_type: str | None = None
    gpu_count: int | None = None
    cpu_cores: int | None = None
    memory_gb: float | None = None
    storage_gb: int | None = None
    region: str | None = None
    project_id: str | None = None
    template_id: str | None = None
    docker_image: str | None = None
    environment_variables: dict[str, str] | None = None
    ssh_enabled: bool | None = None
    ssh_public_keys: list[str] | None = None
    port_mappings: list[PortUpdate] | None = None
    auto_start: bool | None = None
    auto_terminate: AutoTerminate | None = None
    tags: dict[str, str] | None = None
    idempotency_key: str | None = None


class ListV1Clusters(Strict, frozen=True, kw_only=True):
    """`search`: part of the name, the description or the id. Times are RFC 3339."""

    page: int = 1
    limit: int = 20
    status: V1ClusterState | None = None
    gpu_type: str | None = None
    sort_by: SortBy = SortBy.CREATED_AT
    sort_order: SortOrder = SortOrder.DESC
    search: str | None = None
    min_gpu_count: int | None = None
    max_gpu_count: int | None = None
    created_after: str | None = None
    created_before: str | None = None


class GetV1Cluster(Strict, frozen=True, kw_only=True):
    cluster_id: str
    include_metrics: bool = True
    include_logs: bool = False
    include_cost_breakdown: bool = True
    metrics_window: MetricsWindow = MetricsWindow.HOUR

    @property
    def read_cluster_id(self) -> str | None:
        """The cluster, if its logs are to be read: that takes another permission."""
        return self.cluster_id if self.include_logs else None


class V1ClusterId(Strict, frozen=True, kw_only=True):
    cluster_id: str


class GetOperation(Strict, frozen=True, kw_only=True):
    cluster_id: str
    operation_id: str


class StartV1Cluster(Strict, frozen=True, kw_only=True):
    """Starts a stopped cluster, with changes. All of them are checked before anything happens.

    `timeout_minutes`: only with `wait_for_ready`. `idempotency_key` is a header: a repeated request with the same key finds the
    start that the first one made.
    """

    cluster_id: str
    wait_for_ready: bool | None = None
    timeout_minutes: int | None = None
    update_configuration: UpdateConfiguration | None = None
    restore_from_snapshot: str | None = None
    environment_updates: dict[str, str | None] | None = None
    port_mapping_updates: list[PortUpdate] | None = None
    auto_terminate_updates: AutoTerminate | None = None
    idempotency_key: str | None = None

    @property
    def storage_gb(self) -> int | None:
        """The new size of the workspace directory, if it is to change."""
        return self.update_configuration.storage_gb if self.update_configuration is not None else None

    @property
    def configured_cluster_id(self) -> str | None:
        """The cluster, if the request changes its configuration or its files: that takes another permission."""
        changes = (
            self.update_configuration,
            self.environment_updates,
            self.auto_terminate_updates,
            self.port_mapping_updates,
            self.restore_from_snapshot,
        )
        return self.cluster_id if any(changes) else None


class RestartV1Cluster(StartV1Cluster, frozen=True, kw_only=True):
    """Restarts a running cluster, with changes. What runs on it may finish first, and a snapshot be taken, as with a stop."""

    force: bool | None = None
    grace_period_minutes: int | None = None
    save_state: bool | None = None
    snapshot_name: str | None = None
    preserve_data: bool | None = None

    @property
    def configured_cluster_id(self) -> str | None:
        """The same, also if its files are to be discarded."""
        return self.cluster_id if self.preserve_data is False else super().configured_cluster_id


class StopV1Cluster(Strict, frozen=True, kw_only=True):
    """What runs may finish within `grace_period_minutes`, unless `force`. `timeout_minutes`: only with `wait_for_completion`."""

    cluster_id: str
    force: bool | None = None
    grace_period_minutes: int | None = None
    save_state: bool | None = None
    snapshot_name: str | None = None
    preserve_data: bool | None = None
    wait_for_completion: bool | None = None
    timeout_minutes: int | None = None
    stop_reason: str | None = None

    @property
    def discarded_cluster_id(self) -> str | None:
        """The cluster, if its files are to be discarded: that takes another permission."""
        return self.cluster_id if self.preserve_data is False else None


class DeleteV1Cluster(Strict, frozen=True, kw_only=True):
    """`confirm_deletion` must be DELETE. `force`: also if it runs."""

    cluster_id: str
    confirm_deletion: str = ""
    force: bool | None = None
    create_final_snapshot: bool | None = None
    snapshot_name: str | None = None
    preserve_snapshots: bool | None = None
    delete_snapshots: bool | None = None


# -- answers ---------------------------------------------------------------------------------------------------------


class OperationPhase(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    status: PhaseStatus
    started_at: str | None
    finished_at: str | None
    message: str = ""


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """The last start, restart or stop of a cluster. `estimated_seconds_left`: null if it is over, or nothing is known."""

    id: str
    kind: OperationKind
    status: PhaseStatus
    started_at: str
    finished_at: str | None
    phases: list[OperationPhase]
    progress_percent: int
    estimated_seconds_left: int | None


class AutoTerminateView(msgspec.Struct, frozen=True, kw_only=True):
    """`remaining_seconds`: until each limit, by its name, at the earliest; null in lists, and unless the cluster runs or starts.
    `cost_since_start` is shown with `max_cost`."""

    enabled: bool
    idle_minutes: int | None
    max_runtime_minutes: int | None
    at: str | None
    max_cost: float | None
    cost_since_start: float | None
    remaining_seconds: dict[str, int] | None


class V1ClusterCost(msgspec.Struct, frozen=True, kw_only=True):
    """`current_hourly_rate`: of the nodes that exist now. `total`: since the creation, if it was asked for."""

    current_hourly_rate: float
    total: float | None
    currency: str


class V1Network(msgspec.Struct, frozen=True, kw_only=True):
    """Of the driver's node: `mode` is isolated (the cluster's own network), shared (the machine's), or empty if none runs."""

    mode: str
    details: str
    driver_address: str


class V1Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster. `operation`: null if it was never started. `health_checks`: while it runs. `metrics` and `logs`: null where they
    were not asked for, and in lists."""

    id: str
    name: str
    description: str
    status: V1ClusterState
    status_details: str
    health_checks: list[HealthCheck]
    owner: str
    configuration: ClusterConfiguration
    environment: dict[str, str]
    auto_terminate: AutoTerminateView
    network: V1Network
    port_mappings: list[PortView]
    proxy_url: str
    tags: dict[str, str]
    created_at: str
    started_at: str | None
    stopped_at: str | None
    cost: V1ClusterCost
    operation: Operation | None
    metrics: ClusterUsage | None = None
    logs: list[LogTail] | None = None


class V1ClusterPage(msgspec.Struct, frozen=True, kw_only=True):
    clusters: list[V1Cluster]
    pagination: Pagination


class V1ClusterAnswer(msgspec.Struct, frozen=True, kw_only=True):
    success: bool = True
    data: V1Cluster


class V1ClusterPageAnswer(msgspec.Struct, frozen=True, kw_only=True):
    success: bool = True
    data: V1ClusterPage


class OperationAnswer(msgspec.Struct, frozen=True, kw_only=True):
    success: bool = True
    data: Operation


class DeletedV1Cluster(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    deleted: bool = True


class DeletedV1ClusterAnswer(msgspec.Struct, frozen=True, kw_only=True):
    success: bool = True
    data: DeletedV1Cluster
