"""Cluster events, in the API's vocabulary."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from brickyard.domain.scripts import InitScriptEventDetails
from brickyard.domain.spec import AutoScale, ClusterSpec, Wire
from brickyard.domain.terminations import TerminationReason


class EventType(StrEnum):
    ADD_NODES_FAILED = "ADD_NODES_FAILED"
    AUTOMATIC_CLUSTER_UPDATE = "AUTOMATIC_CLUSTER_UPDATE"
    AUTOSCALING_BACKOFF = "AUTOSCALING_BACKOFF"
    AUTOSCALING_FAILED = "AUTOSCALING_FAILED"
    AUTOSCALING_STATS_REPORT = "AUTOSCALING_STATS_REPORT"
    CLUSTER_MIGRATED = "CLUSTER_MIGRATED"
    CREATING = "CREATING"
    DBFS_DOWN = "DBFS_DOWN"
    DECOMMISSION_ENDED = "DECOMMISSION_ENDED"
    DECOMMISSION_STARTED = "DECOMMISSION_STARTED"
    DEFERRED_POLICY_ENFORCEMENT_FAILED = "DEFERRED_POLICY_ENFORCEMENT_FAILED"
    DEFERRED_POLICY_ENFORCEMENT_SCHEDULED = "DEFERRED_POLICY_ENFORCEMENT_SCHEDULED"
    DID_NOT_EXPAND_DISK = "DID_NOT_EXPAND_DISK"
    DRIVER_HEALTHY = "DRIVER_HEALTHY"
    DRIVER_NOT_RESPONDING = "DRIVER_NOT_RESPONDING"
    DRIVER_UNAVAILABLE = "DRIVER_UNAVAILABLE"
    EDITED = "EDITED"
    EXPANDED_DISK = "EXPANDED_DISK"
    FAILED_TO_EXPAND_DISK = "FAILED_TO_EXPAND_DISK"
    INIT_SCRIPTS_FINISHED = "INIT_SCRIPTS_FINISHED"
    INIT_SCRIPTS_STARTED = "INIT_SCRIPTS_STARTED"
    METASTORE_DOWN = "METASTORE_DOWN"
    NODES_LOST = "NODES_LOST"
    NODE_BLACKLISTED = "NODE_BLACKLISTED"
    NODE_EXCLUDED_DECOMMISSIONED = "NODE_EXCLUDED_DECOMMISSIONED"
    PINNED = "PINNED"
    RESIZING = "RESIZING"
    RESTARTING = "RESTARTING"
    RUNNING = "RUNNING"
    SPARK_EXCEPTION = "SPARK_EXCEPTION"
    STARTING = "STARTING"
    TERMINATING = "TERMINATING"
    UC_VOLUME_MISCONFIGURED = "UC_VOLUME_MISCONFIGURED"
    UNPINNED = "UNPINNED"
    UPSIZE_COMPLETED = "UPSIZE_COMPLETED"


class EventDetailsCause(StrEnum):
    AUTORECOVERY = "AUTORECOVERY"
    AUTOSCALE = "AUTOSCALE"
    AUTOSCALE_V2 = "AUTOSCALE_V2"
    DBR_AUTOSCALE = "DBR_AUTOSCALE"
    REPLACE_BAD_NODES = "REPLACE_BAD_NODES"
    USER_REQUEST = "USER_REQUEST"


class DataPlaneEventDetailsEventType(StrEnum):
    NODE_BLACKLISTED = "NODE_BLACKLISTED"
    NODE_EXCLUDED_DECOMMISSIONED = "NODE_EXCLUDED_DECOMMISSIONED"


class ClusterSize(Wire, frozen=True, kw_only=True):
    """The requested size: fixed, or a range."""

    num_workers: int | None = None
    autoscale: AutoScale | None = None


class EventDetails(Wire, frozen=True, kw_only=True):
    """The details of an event; which fields are set depends on the event type.

    `attributes` holds a whole specification here; the API's ClusterAttributes is the same without the size.
    """

    attributes: ClusterSpec | None = None
    cause: EventDetailsCause | None = None
    cluster_size: ClusterSize | None = None
    current_num_vcpus: int | None = None
    current_num_workers: int | None = None
    did_not_expand_reason: str | None = None
    disk_size: int | None = None
    driver_state_message: str | None = None
    enable_termination_for_node_blocklisted: bool | None = None
    free_space: int | None = None
    init_scripts: InitScriptEventDetails | None = None
    instance_id: str | None = None
    job_run_name: str | None = None
    previous_attributes: ClusterSpec | None = None
    previous_cluster_size: ClusterSize | None = None
    previous_disk_size: int | None = None
    reason: TerminationReason | None = None
    target_num_vcpus: int | None = None
    target_num_workers: int | None = None
    user: str | None = None


class ClusterEvent(Wire, frozen=True, kw_only=True):
    """One event; `timestamp` in epoch milliseconds."""

    cluster_id: str
    timestamp: int
    type: EventType
    details: EventDetails = msgspec.field(default_factory=EventDetails)
