"""Converts clusters, pools and other resources to the objects that permissions apply to."""

from __future__ import annotations

from collections.abc import Sequence

from brickyard.domain.access import ObjectKind, Place, SecurableObject
from brickyard.domain.cluster import Cluster
from brickyard.domain.policies import PolicyRow
from brickyard.domain.pools import Pool
from brickyard.domain.run import Run
from brickyard.domain.secrets import fold

WORKSPACE = SecurableObject(ObjectKind.WORKSPACE)
HOMES = "Users"
MAX_GRANTED_PATH = 1_000  # bytes of a path on which something can be granted: what an index can hold
TOKENS = SecurableObject(ObjectKind.TOKENS)
PASSWORDS = SecurableObject(ObjectKind.PASSWORDS)


def of_cluster(cluster: Cluster) -> SecurableObject:
    kind = ObjectKind.CLUSTER if cluster.warehouse is None else ObjectKind.WAREHOUSE
    return SecurableObject(kind, cluster.cluster_id, cluster.creator_user_name)


def of_pool(pool: Pool) -> SecurableObject:
    return SecurableObject(ObjectKind.INSTANCE_POOL, pool.instance_pool_id, pool.creator_user_name)


def of_policy(policy: PolicyRow) -> SecurableObject:
    return SecurableObject(ObjectKind.CLUSTER_POLICY, policy.policy_id, policy.creator_user_name)


def of_run(run: Run) -> SecurableObject:
    within = (Place(ObjectKind.JOB, str(run.job_id)),)
    return SecurableObject(ObjectKind.RUN, str(run.run_id), run.creator_user_name, within)


def of_job(job_id: int, owner: str) -> SecurableObject:
    """A job. A submitted run has one of its own, by which the permissions API knows the run."""
    return SecurableObject(ObjectKind.JOB, str(job_id), owner)


def of_query(query_id: str, owner: str) -> SecurableObject:
    """A saved query."""
    return SecurableObject(ObjectKind.QUERY, query_id, owner)


def of_scope(scope: str) -> SecurableObject:
    """A secret scope by its name."""
    return SecurableObject(ObjectKind.SECRET_SCOPE, fold(scope))


def of_path(parts: Sequence[str], kind: ObjectKind = ObjectKind.DBFS_PATH) -> SecurableObject:
    """A file or directory of DBFS or of a volume, by its names from the root down."""
    return SecurableObject(kind, path_of(parts))


def of_workspace_path(parts: Sequence[str]) -> SecurableObject:
    """A notebook, file or directory. Everything below a user's home is the user's; every directory's permissions count for what
    is in it."""
    owner = parts[1] if len(parts) > 1 and parts[0] == HOMES else ""
    above, size = [Place(ObjectKind.WORKSPACE_PATH, "/")] if parts else [], 0
    for depth in range(1, len(parts)):
        if (size := size + 1 + len(parts[depth - 1].encode())) > MAX_GRANTED_PATH:
            break
        above.append(Place(ObjectKind.WORKSPACE_PATH, path_of(parts[:depth])))
    return SecurableObject(ObjectKind.WORKSPACE_PATH, path_of(parts), owner, tuple(above))


def path_of(parts: Sequence[str]) -> str:
    """The path with these names from the root down."""
    return "/" + "/".join(parts)
