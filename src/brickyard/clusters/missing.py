"""Looks a cluster or a pool up, and the errors for missing ones."""

from __future__ import annotations

from brickyard.domain.cluster import Cluster
from brickyard.domain.errors import ApiError, InvalidParameterValue, InvalidState, ResourceDoesNotExist
from brickyard.domain.pools import Pool
from brickyard.store.tx import Tx

_SHOWN = 140  # characters of the client's value that a message repeats: more than any id has


def existing_cluster(tx: Tx, cluster_id: str) -> Cluster:
    """The cluster. Raises `missing_cluster` if there is none, or if it is permanently deleted."""
    cluster = tx.clusters.get(cluster_id)
    if cluster is None or cluster.deleted_ms:
        raise missing_cluster(tx, cluster_id)
    return cluster


def known_cluster(tx: Tx, cluster_id: str) -> Cluster:
    """The same where clients take only "does not exist" for gone: also of a cluster that was removed after its retention."""
    try:
        return existing_cluster(tx, cluster_id)
    except InvalidState as error:
        raise _never(cluster_id[:_SHOWN]) from error


def missing_cluster(tx: Tx, cluster_id: str) -> ApiError:
    """The error for a cluster that `tx` does not find, or that is permanently deleted. Clients match both messages to tell a
    missing cluster from a bad request."""
    cluster_id = cluster_id[:_SHOWN]
    if tx.clusters.was_purged(cluster_id):
        return InvalidState(f"Cannot access cluster {cluster_id} that was terminated or unpinned more than 30 days ago.")
    return _never(cluster_id)


def _never(cluster_id: str) -> InvalidParameterValue:
    return InvalidParameterValue(f"Cluster {cluster_id} does not exist")


def existing_pool(tx: Tx, pool_id: str) -> Pool:
    """The pool with that id. Raises ResourceDoesNotExist."""
    pool = tx.pools.get(pool_id)
    if pool is None or not pool.active:
        raise ResourceDoesNotExist(f"Can't find an instance pool with id: {pool_id[:_SHOWN]}.")
    return pool
