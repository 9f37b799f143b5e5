"""Assignments: derives from a cluster what its nodes should be. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TypedDict

from brickyard.domain.cluster import Cluster, custom_tags, default_tags
from brickyard.domain.libraries import Library
from brickyard.domain.node import PARQUET, Assignment, Role
from brickyard.domain.nodetypes import NodeType
from brickyard.domain.runtimes import photon_key
from brickyard.domain.spec import ISOLATING_MODES, ClusterSpec, RuntimeEngine
from brickyard.domain.states import ClusterSource
from brickyard.plan.logconf import log_destination
from brickyard.plan.scripts import scripts_of


def spark_context_id(cluster_id: str, incarnation: int) -> int:
    """A positive 62-bit number that is new for every driver start."""
    digest = hashlib.blake2b(f"{cluster_id}/{incarnation}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 2) | (1 << 61)


def assignment_for(
    cluster: Cluster,
    *,
    role: Role,
    node_type_id: str,
    sizes: Mapping[str, NodeType],
    after: Assignment | None = None,
    encrypted: bool = False,
    photon: bool = True,
    table_format: str = PARQUET,
) -> Assignment:
    """The assignment of a node in the cluster's current incarnation, before its master is known. `after` is the last one."""
    spec, own = cluster.spec, sizes[node_type_id]
    worker = sizes.get(spec.node_type_id or "") if role is not Role.SINGLE else None
    return Assignment(
        version=after.version + 1 if after else 1,
        generation=max(cluster.incarnation, after.generation + 1 if after else 1),
        cluster_id=cluster.cluster_id,
        cluster_name=spec.cluster_name or "",
        role=role,
        runtime=runtime_of(spec, photon=photon),
        node_type_id=own.node_type_id,
        cores=_cores(own),
        memory_mb=own.memory_mb,
        gpus=own.num_gpus,
        worker_cores=_cores(worker) if worker else 0,
        worker_memory_mb=worker.memory_mb if worker else 0,
        worker_gpus=worker.num_gpus if worker else 0,
        most_workers=cluster.most_workers if role is Role.DRIVER else 0,
        table_format=table_format if role is not Role.WORKER else PARQUET,
        spark_conf=spec.spark_conf or {},
        spark_env_vars=spec.spark_env_vars or {},
        secret=cluster.secret,
        encrypted=encrypted,
        connect_token=cluster.connect_token,
        spark_context_id=spark_context_id(cluster.cluster_id, cluster.incarnation),
        workspace_bytes=0 if role is Role.WORKER else cluster.workbench.storage_gb << 30,
        job_cluster=cluster.source is ClusterSource.JOB,
        init_scripts=scripts_of(cluster),
        user=cluster.creator_user_name,
        user_isolation=spec.data_security_mode in ISOLATING_MODES,
        default_tags=default_tags(cluster),
        custom_tags=custom_tags(cluster),
        logs=log_destination(spec.cluster_log_conf),
        **libraries_of(cluster),
    )


def runtime_of(spec: ClusterSpec, *, photon: bool) -> str:
    """The key of the runtime that a cluster's nodes have. `photon`: of the planner's settings."""
    key = spec.spark_version or ""
    native = photon and spec.runtime_engine is RuntimeEngine.PHOTON and spec.data_security_mode not in ISOLATING_MODES
    return photon_key(key) if native else key


class LibraryFields(TypedDict):
    """The fields of an assignment about libraries."""

    libraries: tuple[Library, ...]
    library_revisions: tuple[int, ...]
    leaving: tuple[Library, ...]


def libraries_of(cluster: Cluster) -> LibraryFields:
    """The libraries of every node of the current incarnation: those that leave stay until the cluster starts again."""
    revisions = tuple(each.revision for each in cluster.libraries)
    return LibraryFields(
        libraries=tuple(each.library for each in cluster.libraries),
        library_revisions=revisions if any(revisions) else (),
        leaving=tuple(each.library for each in cluster.libraries if each.leaving),
    )


def idle_assignment(*, node_type: NodeType, runtime: str, after: Assignment | None = None) -> Assignment:
    """The assignment of an idle pool instance: no cluster, with `runtime` prepared ("" for none). It has a new generation, so
    the agent first ends and cleans everything of the previous one."""
    return Assignment(
        version=after.version + 1 if after else 1,
        generation=after.generation + 1 if after else 1,
        cluster_id="",
        role=Role.WARM,
        runtime=runtime,
        node_type_id=node_type.node_type_id,
        cores=_cores(node_type),
        memory_mb=node_type.memory_mb,
        gpus=node_type.num_gpus,
        secret="",
    )


def _cores(node_type: NodeType) -> int:
    return max(1, int(node_type.num_cores))
