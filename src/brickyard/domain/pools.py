"""Instance pools, in the API and in the store.

A pool owns its instances for good: a cluster takes one and gives it back, and the next cluster takes it again.
`Instance.pool_id` names the pool, `Instance.cluster_id` the cluster that is using it (empty: it is idle). Field names are those
of the Instance Pools API.
Units are in the names (`_minutes`, `_ms`); disk sizes are GiB. Source: databricks-sdk `service/compute.py`.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum

import msgspec

from brickyard.domain.cluster import Instance
from brickyard.domain.instances import InstanceState
from brickyard.domain.node import Phase
from brickyard.domain.spec import (
    AwsAvailability,
    AzureAvailability,
    DockerImage,
    EbsVolumeType,
    GcpAvailability,
    NodeTypeFlexibility,
    Wire,
)


class InstancePoolState(StrEnum):
    ACTIVE = "ACTIVE"
    STOPPED = "STOPPED"
    DELETED = "DELETED"


class AzureDiskVolumeType(StrEnum):
    PREMIUM_LRS = "PREMIUM_LRS"
    STANDARD_LRS = "STANDARD_LRS"


class DiskType(Wire, frozen=True, kw_only=True):
    azure_disk_volume_type: AzureDiskVolumeType | None = None
    ebs_volume_type: EbsVolumeType | None = None


class DiskSpec(Wire, frozen=True, kw_only=True):
    """The disks to attach to every instance."""

    disk_count: int | None = None
    disk_iops: int | None = None
    disk_size: int | None = None
    disk_throughput: int | None = None
    disk_type: DiskType | None = None


class InstancePoolAwsAttributes(Wire, frozen=True, kw_only=True):
    availability: AwsAvailability | None = None
    instance_profile_arn: str | None = None
    spot_bid_price_percent: int | None = None
    zone_id: str | None = None


class InstancePoolAzureAttributes(Wire, frozen=True, kw_only=True):
    availability: AzureAvailability | None = None
    capacity_reservation_group: str | None = None
    spot_bid_max_price: float | None = None


class InstancePoolGcpAttributes(Wire, frozen=True, kw_only=True):
    gcp_availability: GcpAvailability | None = None
    local_ssd_count: int | None = None
    zone_id: str | None = None


class ClusterTag(Wire, frozen=True, kw_only=True):
    """One tag, in the format that older clients send."""

    key: str
    value: str = ""


class PoolAttributes(Wire, frozen=True, kw_only=True):
    """Everything about a pool except its name, node type and tags."""

    aws_attributes: InstancePoolAwsAttributes | None = None
    azure_attributes: InstancePoolAzureAttributes | None = None
    disk_spec: DiskSpec | None = None
    enable_elastic_disk: bool | None = None
    gcp_attributes: InstancePoolGcpAttributes | None = None
    idle_instance_autotermination_minutes: int | None = None
    max_capacity: int | None = None
    min_idle_instances: int | None = None
    node_type_flexibility: NodeTypeFlexibility | None = None
    preloaded_docker_images: list[DockerImage] | None = None
    preloaded_spark_versions: list[str] | None = None
    remote_disk_throughput: int | None = None
    total_initial_remote_disk_size: int | None = None


class PoolSpec(PoolAttributes, frozen=True, kw_only=True):
    """A pool's effective specification."""

    instance_pool_name: str
    node_type_id: str
    custom_tags: dict[str, str] | None = None


class CreateInstancePool(PoolAttributes, frozen=True, kw_only=True):
    """A new pool. Tags are an object or, from older clients, a list of keys and values."""

    instance_pool_name: str
    node_type_id: str
    custom_tags: dict[str, str] | list[ClusterTag] | None = None


class EditInstancePool(CreateInstancePool, frozen=True, kw_only=True):
    """A change to a pool. Fields that cannot be edited may be present if they have their current value."""

    instance_pool_id: str


class InstancePoolId(Wire, frozen=True, kw_only=True):
    """The only argument of get and delete."""

    instance_pool_id: str


class CreateInstancePoolResponse(Wire, frozen=True, kw_only=True):
    instance_pool_id: str


class PendingInstanceError(Wire, frozen=True, kw_only=True):
    """Why an instance is missing or not prepared."""

    instance_id: str
    message: str


class InstancePoolStatus(Wire, frozen=True, kw_only=True):
    pending_instance_errors: list[PendingInstanceError] | None = None


class InstancePoolStats(Wire, frozen=True, kw_only=True, omit_defaults=False):
    """Instance counts. `used` and `idle` instances are ready for work; the pending ones are being launched or prepared."""

    used_count: int = 0
    idle_count: int = 0
    pending_used_count: int = 0
    pending_idle_count: int = 0


class InstancePoolView(PoolSpec, frozen=True, kw_only=True):
    """A pool as `get` and `list` return it."""

    instance_pool_id: str
    default_tags: dict[str, str]
    state: InstancePoolState
    stats: InstancePoolStats
    status: InstancePoolStatus


class ListInstancePoolsResponse(Wire, frozen=True, kw_only=True):
    instance_pools: list[InstancePoolView] | None = None


class PoolInstanceState(StrEnum):
    """Where an instance of a pool stands: `Standing`, for clients."""

    USED = "USED"
    PENDING_USED = "PENDING_USED"
    WARM = "WARM"
    IDLE = "IDLE"
    PREPARING = "PREPARING"
    LAUNCHING = "LAUNCHING"


class PoolInstance(Wire, frozen=True, kw_only=True):
    """`cluster_id`: who has it, if the caller may see that cluster. `message`: why it is not as it should be."""

    instance_id: str
    state: PoolInstanceState
    created_at: int
    cluster_id: str | None = None
    message: str | None = None


class PoolDetails(Wire, frozen=True, kw_only=True):
    """Ours: what the Instance Pools API does not tell. `instances` only of the pool that the request names. `without_effect`: the
    fields that are stored only, in sentences."""

    instance_pool_id: str
    creator_user_name: str
    created_at: int
    warm_count: int
    without_effect: list[str] = []
    instances: list[PoolInstance] | None = None


class ListPoolDetails(Wire, frozen=True, kw_only=True):
    """Of all pools, or of the one that is named."""

    instance_pool_id: str | None = None


class ListPoolDetailsResponse(Wire, frozen=True, kw_only=True, omit_defaults=False):
    pools: list[PoolDetails]


class Pool(msgspec.Struct, frozen=True, kw_only=True):
    """One pool's row. Times are epoch milliseconds; 0 means never."""

    instance_pool_id: str
    creator_user_name: str
    creator_user_id: str
    created_ms: int
    spec: PoolSpec
    deleted_ms: int = 0  # it accepts no more clusters; the row stays until none of its instances are left
    failures: int = 0  # consecutive failed attempts to fill it
    failed_ms: int = 0
    fill_after_ms: int = 0  # launch no instances before this time
    errors: tuple[PendingInstanceError, ...] = ()

    @property
    def active(self) -> bool:
        """Clusters may take instances from it."""
        return not self.deleted_ms

    @property
    def min_idle(self) -> int:
        return self.spec.min_idle_instances or 0

    @property
    def preloaded(self) -> str:
        """The runtime that its idle instances prepare; "" if none."""
        return next(iter(self.spec.preloaded_spark_versions or ()), "")


def is_pool_id(key: str) -> bool:
    """Whether an id names a pool. Cluster ids never contain that part."""
    return "-pool-" in key


def pool_default_tags(pool: Pool) -> dict[str, str]:
    """The tags that every pool has."""
    return {
        "Vendor": "Databricks",
        "DatabricksInstancePoolCreatorId": pool.creator_user_id,
        "DatabricksInstancePoolId": pool.instance_pool_id,
    }


def inherited_tags(pool: Pool) -> dict[str, str]:
    """The tags that a cluster inherits from the pool: a custom tag never hides a default one."""
    return {**(pool.spec.custom_tags or {}), **pool_default_tags(pool)}


class Standing(IntEnum):
    """An instance's status in its pool. Clusters take idle instances in this order."""

    NONE = 0  # not in a pool, or being ended
    USED = 1
    PENDING_USED = 2
    WARM = 3  # idle, with the preloaded runtime's JVM waiting
    IDLE = 4
    PREPARING = 5
    LAUNCHING = 6


def standing(instance: Instance) -> Standing:
    """Covers every state that an instance can be in."""
    if not instance.pool_id or not instance.live:
        return Standing.NONE
    registered = instance.state is InstanceState.REGISTERED
    if instance.cluster_id:
        return Standing.USED if registered else Standing.PENDING_USED
    if not registered:
        return Standing.LAUNCHING
    if not instance.clean:
        return Standing.PREPARING
    status, wanted = instance.current_status, instance.assignment
    if status.warm:
        return Standing.WARM
    # An instance with nothing to prepare, or whose preparation failed, can still be used for a cold start.
    nothing = wanted is None or not wanted.runtime
    return Standing.IDLE if nothing or unprepared(instance) else Standing.PREPARING


def unprepared(instance: Instance) -> str:
    """Why an idle instance could not be prepared; "" if unknown."""
    status = instance.current_status
    if status.phase is Phase.FAILED:
        return status.failure.message if status.failure is not None else status.message or "its agent does not say why"
    return status.warm_error
