"""The cluster specification, with the field names and enums of the Databricks Clusters API.

The domain uses the API's vocabulary, so these structs serve both the wire and the store: a second set of forty equal fields
would only drift.
Units are in the names (`_minutes`, `_mb`); disk sizes are GiB. Source: databricks-sdk `service/compute.py`.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Wire(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A JSON object of the API. Absent and default are the same."""


class AwsAvailability(StrEnum):
    ON_DEMAND = "ON_DEMAND"
    SPOT = "SPOT"
    SPOT_WITH_FALLBACK = "SPOT_WITH_FALLBACK"


class AzureAvailability(StrEnum):
    ON_DEMAND_AZURE = "ON_DEMAND_AZURE"
    SPOT_AZURE = "SPOT_AZURE"
    SPOT_WITH_FALLBACK_AZURE = "SPOT_WITH_FALLBACK_AZURE"


class ConfidentialComputeType(StrEnum):
    CONFIDENTIAL_COMPUTE_TYPE_NONE = "CONFIDENTIAL_COMPUTE_TYPE_NONE"
    SEV_SNP = "SEV_SNP"


class DataSecurityMode(StrEnum):
    DATA_SECURITY_MODE_AUTO = "DATA_SECURITY_MODE_AUTO"
    DATA_SECURITY_MODE_DEDICATED = "DATA_SECURITY_MODE_DEDICATED"
    DATA_SECURITY_MODE_STANDARD = "DATA_SECURITY_MODE_STANDARD"
    LEGACY_PASSTHROUGH = "LEGACY_PASSTHROUGH"
    LEGACY_SINGLE_USER = "LEGACY_SINGLE_USER"
    LEGACY_SINGLE_USER_STANDARD = "LEGACY_SINGLE_USER_STANDARD"
    LEGACY_TABLE_ACL = "LEGACY_TABLE_ACL"
    NONE = "NONE"
    SINGLE_USER = "SINGLE_USER"
    USER_ISOLATION = "USER_ISOLATION"


# The access mode "Standard", by both of its names: several users, isolated from one another.
ISOLATING_MODES = frozenset({DataSecurityMode.USER_ISOLATION, DataSecurityMode.DATA_SECURITY_MODE_STANDARD})


class DependencyMode(StrEnum):
    DEPENDENCY_MODE_AUTO = "DEPENDENCY_MODE_AUTO"
    DEPENDENCY_MODE_CLUSTER_LIBRARIES = "DEPENDENCY_MODE_CLUSTER_LIBRARIES"
    DEPENDENCY_MODE_ENVIRONMENTS = "DEPENDENCY_MODE_ENVIRONMENTS"


class EbsVolumeType(StrEnum):
    GENERAL_PURPOSE_SSD = "GENERAL_PURPOSE_SSD"
    THROUGHPUT_OPTIMIZED_HDD = "THROUGHPUT_OPTIMIZED_HDD"


class GcpAvailability(StrEnum):
    ON_DEMAND_GCP = "ON_DEMAND_GCP"
    PREEMPTIBLE_GCP = "PREEMPTIBLE_GCP"
    PREEMPTIBLE_WITH_FALLBACK_GCP = "PREEMPTIBLE_WITH_FALLBACK_GCP"


class Kind(StrEnum):
    CLASSIC_PREVIEW = "CLASSIC_PREVIEW"


class RuntimeEngine(StrEnum):
    NULL = "NULL"
    PHOTON = "PHOTON"
    STANDARD = "STANDARD"


class AutoScale(Wire, frozen=True, kw_only=True):
    max_workers: int | None = None
    min_workers: int | None = None


class AwsAttributes(Wire, frozen=True, kw_only=True):
    availability: AwsAvailability | None = None
    ebs_volume_count: int | None = None
    ebs_volume_iops: int | None = None
    ebs_volume_size: int | None = None
    ebs_volume_throughput: int | None = None
    ebs_volume_type: EbsVolumeType | None = None
    first_on_demand: int | None = None
    instance_profile_arn: str | None = None
    spot_bid_price_percent: int | None = None
    zone_id: str | None = None


class LogAnalyticsInfo(Wire, frozen=True, kw_only=True):
    log_analytics_primary_key: str | None = None
    log_analytics_workspace_id: str | None = None


class AzureAttributes(Wire, frozen=True, kw_only=True):
    availability: AzureAvailability | None = None
    capacity_reservation_group: str | None = None
    first_on_demand: int | None = None
    log_analytics_info: LogAnalyticsInfo | None = None
    spot_bid_max_price: float | None = None


class DbfsStorageInfo(Wire, frozen=True, kw_only=True):
    destination: str | None = None


class S3StorageInfo(Wire, frozen=True, kw_only=True):
    destination: str | None = None
    canned_acl: str | None = None
    enable_encryption: bool | None = None
    encryption_type: str | None = None
    endpoint: str | None = None
    kms_key: str | None = None
    region: str | None = None


class VolumesStorageInfo(Wire, frozen=True, kw_only=True):
    destination: str | None = None


class LocalFileInfo(Wire, frozen=True, kw_only=True):
    destination: str | None = None


class ClusterLogConf(Wire, frozen=True, kw_only=True):
    dbfs: DbfsStorageInfo | None = None
    file: LocalFileInfo | None = None  # not in Databricks' API, but written by analogy with init_scripts
    s3: S3StorageInfo | None = None
    volumes: VolumesStorageInfo | None = None


class DockerBasicAuth(Wire, frozen=True, kw_only=True):
    password: str | None = None
    username: str | None = None


class DockerImage(Wire, frozen=True, kw_only=True):
    basic_auth: DockerBasicAuth | None = None
    url: str | None = None


class NodeTypeFlexibility(Wire, frozen=True, kw_only=True):
    alternate_node_type_ids: list[str] | None = None
    aws_context_id: str | None = None


class GcpAttributes(Wire, frozen=True, kw_only=True):
    availability: GcpAvailability | None = None
    boot_disk_size: int | None = None
    confidential_compute_type: ConfidentialComputeType | None = None
    first_on_demand: int | None = None
    google_service_account: str | None = None
    local_ssd_count: int | None = None
    use_preemptible_executors: bool | None = None
    zone_id: str | None = None


class Adlsgen2Info(Wire, frozen=True, kw_only=True):
    destination: str | None = None


class GcsStorageInfo(Wire, frozen=True, kw_only=True):
    destination: str | None = None


class WorkspaceStorageInfo(Wire, frozen=True, kw_only=True):
    destination: str | None = None


class InitScriptInfo(Wire, frozen=True, kw_only=True):
    abfss: Adlsgen2Info | None = None
    dbfs: DbfsStorageInfo | None = None
    file: LocalFileInfo | None = None
    gcs: GcsStorageInfo | None = None
    s3: S3StorageInfo | None = None
    volumes: VolumesStorageInfo | None = None
    workspace: WorkspaceStorageInfo | None = None


class ClientsTypes(Wire, frozen=True, kw_only=True):
    jobs: bool | None = None
    notebooks: bool | None = None


class WorkloadType(Wire, frozen=True, kw_only=True):
    clients: ClientsTypes | None = None


class ClusterSpec(Wire, frozen=True, kw_only=True):
    apply_policy_default_values: bool | None = None
    autoscale: AutoScale | None = None
    autotermination_minutes: int | None = None
    aws_attributes: AwsAttributes | None = None
    azure_attributes: AzureAttributes | None = None
    cluster_log_conf: ClusterLogConf | None = None
    cluster_name: str | None = None
    custom_tags: dict[str, str] | None = None
    data_security_mode: DataSecurityMode | None = None
    dependency_mode: DependencyMode | None = None
    docker_image: DockerImage | None = None
    driver_instance_pool_id: str | None = None
    driver_node_type_flexibility: NodeTypeFlexibility | None = None
    driver_node_type_id: str | None = None
    enable_elastic_disk: bool | None = None
    enable_local_disk_encryption: bool | None = None
    gcp_attributes: GcpAttributes | None = None
    init_scripts: list[InitScriptInfo] | None = None
    instance_pool_id: str | None = None
    is_single_node: bool | None = None
    kind: Kind | None = None
    node_type_id: str | None = None
    num_workers: int | None = None
    policy_id: str | None = None
    remote_disk_throughput: int | None = None
    runtime_engine: RuntimeEngine | None = None
    single_user_name: str | None = None
    spark_conf: dict[str, str] | None = None
    spark_env_vars: dict[str, str] | None = None
    spark_version: str | None = None
    ssh_public_keys: list[str] | None = None
    total_initial_remote_disk_size: int | None = None
    use_ml_runtime: bool | None = None
    worker_node_type_flexibility: NodeTypeFlexibility | None = None
    workload_type: WorkloadType | None = None
