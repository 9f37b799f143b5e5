"""The error for a missing cluster."""

from __future__ import annotations

from brickyard.domain.errors import ApiError, InvalidParameterValue, InvalidState
from brickyard.store.tx import Tx

_SHOWN = 140  # characters of the client's value that a message repeats: more than any id has


def missing_cluster(tx: Tx, cluster_id: str) -> ApiError:
    """The error for a cluster that `tx` does not find, or that is permanently deleted. Clients match both messages to tell a
    missing cluster from a bad request."""
    cluster_id = cluster_id[:_SHOWN]
    if tx.clusters.was_purged(cluster_id):
        return InvalidState(f"Cannot access cluster {cluster_id} that was terminated or unpinned more than 30 days ago.")
    return InvalidParameterValue(f"Cluster {cluster_id} does not exist")
