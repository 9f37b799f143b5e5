"""Clusters in the /v1/clusters dialect: the same rows, commands and permissions as in the Databricks one."""

from brickyard.clusters.v1.details import V1Details
from brickyard.clusters.v1.ports import PortPlanner
from brickyard.clusters.v1.service import V1ClusterService
from brickyard.clusters.v1.snapshots import SnapshotTasks

__all__ = ["PortPlanner", "SnapshotTasks", "V1ClusterService", "V1Details"]
