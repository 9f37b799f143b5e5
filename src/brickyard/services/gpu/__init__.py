"""Clusters in the /v1/clusters dialect: the same rows, commands and permissions as in the Databricks one."""

from brickyard.services.gpu.details import GpuDetails
from brickyard.services.gpu.ports import PortPlanner, PortService
from brickyard.services.gpu.service import GpuClusterService
from brickyard.services.gpu.snapshots import SnapshotService

__all__ = ["GpuClusterService", "GpuDetails", "PortPlanner", "PortService", "SnapshotService"]
