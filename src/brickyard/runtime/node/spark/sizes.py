"""How large executors are, and whether they fit into their workers. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..jvm.launch import LaunchError, size_mb

if TYPE_CHECKING:
    from ..documents import AssignmentDocument

EXECUTOR_SHARE = 0.75  # of a worker's memory; the rest is for Python workers and the JVM's memory outside the heap
MINIMUM_EXECUTOR_MB = 384


def executor_memory_mb(worker_memory_mb: int) -> int:
    """Returns the heap of the single executor that fills a worker."""
    return max(MINIMUM_EXECUTOR_MB, int(worker_memory_mb * EXECUTOR_SHARE))


def worker_size(assignment: AssignmentDocument) -> tuple[int, int]:
    """Returns cores and MiB of the cluster's workers: as the assignment says, otherwise as this node has."""
    cores = assignment.get("worker_cores") or assignment["cores"]
    return cores, assignment.get("worker_memory_mb") or assignment["memory_mb"]


def cluster_cores(assignment: AssignmentDocument) -> int:
    """Returns the cores of all workers that the cluster may have, or of its only node."""
    return max(1, worker_size(assignment)[0]) * max(1, assignment.get("most_workers") or 0)


_REACH_EXECUTORS = ("spark.executor", "spark.plugins", "spark.jars", "spark.memory.", "spark.extraListeners", "spark.archives")


def executors_differ(assignment: AssignmentDocument) -> bool:
    """Whether something of the user's, or a GPU, reaches executors in ways that can keep them from starting."""
    conf = assignment.get("spark_conf") or {}
    others = bool(assignment.get("spark_env_vars") or assignment.get("init_scripts") or assignment.get("gpus"))
    return others or any(key.startswith(_REACH_EXECUTORS) for key in conf)


def session_differs(assignment: AssignmentDocument) -> bool:
    """Whether the user has settings that Spark reads only when it makes a session."""
    return any(key.startswith(("spark.sql.", "spark.hadoop.")) for key in assignment.get("spark_conf") or {})


def check_size(assignment: AssignmentDocument, values: Mapping[str, str], master_url: str) -> None:
    """Raises LaunchError if an executor is larger than its worker: it would never start, and every job would wait forever."""
    if master_url.startswith("local[") or not assignment.get("worker_memory_mb"):
        return
    cores, memory_mb = worker_size(assignment)
    wanted_mb, wanted_cores = size_mb(values["spark.executor.memory"]), values["spark.executor.cores"]
    if wanted_mb is not None and wanted_mb > memory_mb:
        raise LaunchError(
            f"spark.executor.memory is {values['spark.executor.memory']}, and a worker has {memory_mb} MiB: no executor could "
            "start. Lower it, or choose a larger node type."
        )
    if wanted_cores.isdigit() and int(wanted_cores) > cores:
        raise LaunchError(
            f"spark.executor.cores is {wanted_cores}, and a worker has {cores} cores: no executor could start. Lower it, or "
            "choose a larger node type."
        )
