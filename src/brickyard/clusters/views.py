"""Converts a cluster's row and its nodes to the API's object. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from brickyard.domain.cluster import Cluster, Instance, custom_tags, default_tags, public_state
from brickyard.domain.node import Role
from brickyard.domain.nodetypes import NodeType
from brickyard.domain.spec import AwsAttributes, AwsAvailability
from brickyard.domain.states import State
from brickyard.domain.views import (
    ClusterDetails,
    LogSyncStatus,
    NodeInstanceType,
    NodeTypeView,
    SparkNode,
    SparkNodeAwsAttributes,
)
from brickyard.plan.zones import DEFAULT_ZONE

JDBC_PORT = 10_000
_ENDED = (State.TERMINATING, State.TERMINATED)


def cluster_details(
    cluster: Cluster, instances: Sequence[Instance], *, sizes: Mapping[str, NodeType], with_spec: bool
) -> ClusterDetails:
    """A cluster for `get`, or, without `spec`, for `list`."""
    state = public_state(cluster)
    fields: dict[str, Any] = msgspec.structs.asdict(cluster.spec)
    fields |= {
        # These fields exist for every cluster, as the Clusters API guide shows.
        "custom_tags": custom_tags(cluster) if cluster.spec.custom_tags else {},
        "spark_conf": cluster.spec.spark_conf or {},
        "aws_attributes": cluster.spec.aws_attributes or _aws_attributes(cluster, sizes),
        "apply_policy_default_values": None,
        "cluster_id": cluster.cluster_id,
        "cluster_source": cluster.source,
        "creator_user_name": cluster.creator_user_name,
        "default_tags": default_tags(cluster),
        "spec": cluster.request if with_spec else None,
        "state": state,
        "state_message": cluster.state_message or _progress(cluster, instances, state),
        "start_time": cluster.start_ms or None,
        "last_restarted_time": cluster.last_restarted_ms or None,
        "last_state_loss_time": cluster.last_state_loss_ms,
        "terminated_time": (cluster.terminated_ms or None) if state is State.TERMINATED else None,
        "termination_reason": cluster.termination_reason if state in _ENDED else None,
        "cluster_log_status": _log_status(cluster, instances),
    }
    if cluster.up:
        fields |= _serving(cluster, instances, sizes)
    return ClusterDetails(**fields)


def _aws_attributes(cluster: Cluster, sizes: Mapping[str, NodeType]) -> AwsAttributes | None:
    """The defaults that AWS clients see: on-demand nodes in any zone. For pools, the pool's attributes apply."""
    node_type = sizes.get(cluster.spec.node_type_id or "")
    if node_type is None or node_type.cloud != "AWS" or cluster.spec.instance_pool_id:
        return None
    return AwsAttributes(availability=AwsAvailability.ON_DEMAND, zone_id=DEFAULT_ZONE)


def _log_status(cluster: Cluster, instances: Sequence[Instance]) -> LogSyncStatus | None:
    """The delivery of the logs of the present nodes: the last failure, if there is one, otherwise the last success."""
    found = [each.current_status.log_delivery for each in instances if each.generation == cluster.incarnation]
    last = max((each for each in found if each is not None), key=lambda each: (bool(each.error), each.attempted_ms), default=None)
    if last is None:
        return None
    return LogSyncStatus(last_attempted=last.attempted_ms, last_exception=last.error or None)


def _progress(cluster: Cluster, instances: Sequence[Instance], state: State) -> str:
    """The progress message if the row has none. A cluster that simply runs has no message, as at Databricks."""
    if state is not State.RESIZING:
        return ""
    workers = [node for node in instances if node.role is Role.WORKER and node.generation == cluster.incarnation and node.live]
    ready = sum(node.ready and not node.retiring for node in workers)
    leaving = sum(node.retiring for node in workers)
    text = f"Resizing: {ready} of {cluster.num_workers} workers are ready"
    return f"{text}; {leaving} more are finishing their work before they leave" if leaving else text


def _serving(cluster: Cluster, instances: Sequence[Instance], sizes: Mapping[str, NodeType]) -> dict[str, Any]:
    """The working nodes, including those that work while others join or leave."""
    nodes = [node for node in instances if node.live and node.ready and node.generation == cluster.incarnation]
    driver = next((node for node in nodes if node.role is not Role.WORKER), None)
    shapes = [_size(node, sizes) for node in nodes]
    return {
        "driver": _node(driver) if driver is not None else None,
        "executors": [_node(node) for node in nodes if node.role is Role.WORKER] or None,
        "last_activity_time": (driver.current_status.last_activity_ms or None) if driver is not None else None,
        "spark_context_id": cluster.spark_context_id,
        "jdbc_port": JDBC_PORT,
        "cluster_cores": sum((cores for cores, _ in shapes), 0.0),
        "cluster_memory_mb": sum(memory_mb for _, memory_mb in shapes),
    }


def _size(node: Instance, sizes: Mapping[str, NodeType]) -> tuple[float, int]:
    """Cores and MiB. If the type is no longer offered, as assigned to the node when it was created."""
    if (node_type := sizes.get(node.node_type_id)) is not None:
        return node_type.num_cores, node_type.memory_mb
    return (float(node.assignment.cores), node.assignment.memory_mb) if node.assignment is not None else (0.0, 0)


def _node(node: Instance) -> SparkNode:
    host = node.status.host or "127.0.0.1"
    return SparkNode(
        host_private_ip=host,
        private_ip=host,
        public_dns=host,
        instance_id=node.instance_id,
        node_id=node.node_id,
        start_timestamp=node.registered_ms or node.created_ms,
        node_aws_attributes=SparkNodeAwsAttributes(is_spot=node.spot),
    )


SMALLEST_PHOTON_MB = 1_280  # of memory: less leaves a single node too little beside Java's heap


def node_type_view(node_type: NodeType, *, photon: bool = False) -> NodeTypeView:
    """A node type with every field that clients sort or filter by. `photon`: whether a runtime on offer has it."""
    capable = photon and node_type.memory_mb >= SMALLEST_PHOTON_MB
    return NodeTypeView(
        node_type_id=node_type.node_type_id,
        memory_mb=node_type.memory_mb,
        num_cores=node_type.num_cores,
        description=node_type.description or node_type.node_type_id,
        instance_type_id=node_type.node_type_id,
        category=node_type.category,
        num_gpus=node_type.num_gpus,
        is_graviton=node_type.is_graviton,
        is_deprecated=node_type.is_deprecated,
        display_order=node_type.display_order,
        provider=node_type.provider,
        photon_driver_capable=capable,
        photon_worker_capable=capable,
        node_instance_type=NodeInstanceType(
            instance_type_id=node_type.node_type_id,
            local_disks=node_type.local_disks,
            local_disk_size_gb=node_type.local_disk_size_gb,
            local_nvme_disks=node_type.local_nvme_disks,
            local_nvme_disk_size_gb=node_type.local_nvme_disk_size_gb,
        ),
    )
