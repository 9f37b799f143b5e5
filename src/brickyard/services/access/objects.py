"""Converts clusters, pools and other resources to the objects that permissions apply to."""

from __future__ import annotations

from collections.abc import Sequence

from brickyard.domain.access import ObjectKind, SecurableObject
from brickyard.domain.cluster import Cluster
from brickyard.domain.policies import PolicyRow
from brickyard.domain.pools import Pool
from brickyard.domain.run import Run
from brickyard.domain.secrets import fold

WORKSPACE = SecurableObject(ObjectKind.WORKSPACE)
TOKENS = SecurableObject(ObjectKind.TOKENS)


def of_cluster(cluster: Cluster) -> SecurableObject:
    return SecurableObject(ObjectKind.CLUSTER, cluster.cluster_id, cluster.creator_user_name)


def of_pool(pool: Pool) -> SecurableObject:
    return SecurableObject(ObjectKind.INSTANCE_POOL, pool.instance_pool_id, pool.creator_user_name)


def of_policy(policy: PolicyRow) -> SecurableObject:
    return SecurableObject(ObjectKind.CLUSTER_POLICY, policy.policy_id, policy.creator_user_name)


def of_run(run: Run) -> SecurableObject:
    return SecurableObject(ObjectKind.RUN, str(run.run_id), run.creator_user_name)


def of_scope(scope: str) -> SecurableObject:
    """A secret scope by its name."""
    return SecurableObject(ObjectKind.SECRET_SCOPE, fold(scope))


def of_path(parts: Sequence[str], kind: ObjectKind = ObjectKind.DBFS_PATH) -> SecurableObject:
    """A file or directory of the workspace, by its names from the root down."""
    return SecurableObject(kind, "/" + "/".join(parts))
