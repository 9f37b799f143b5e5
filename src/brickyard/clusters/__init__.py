"""The Clusters API: `commands` and `reads` work in a given transaction, which `ClusterService` opens."""

from brickyard.clusters.service import ClusterService

__all__ = ["ClusterService"]
