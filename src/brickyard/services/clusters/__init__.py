"""The Clusters API: `commands` and `reads` work in a transaction that is given to them, `ClusterService` opens it."""

from brickyard.services.clusters.service import ClusterService

__all__ = ["ClusterService"]
