"""Clusters in the /v1/clusters dialect: the same rows, commands and permissions as in the Databricks one."""

from brickyard.services.v1.details import V1Details
from brickyard.services.v1.ports import PortPlanner
from brickyard.services.v1.service import V1ClusterService
from brickyard.services.v1.snapshots import SnapshotService

__all__ = ["PortPlanner", "SnapshotService", "V1ClusterService", "V1Details"]
