"""The Spark settings of a cluster with the native engine (DataFusion Comet). Pure.

Its memory is outside of the heap, and is taken from the heap's share of the node: a node takes no more than without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..jvm.launch import DRIVER_SHARE, MINIMUM_HEAP_MB, SINGLE, LaunchError, driver_share, size_mb
from .layers import EXTENSIONS, joined
from .sizes import MINIMUM_EXECUTOR_MB, cluster_cores, executor_memory_mb, worker_size

if TYPE_CHECKING:
    from ..documents import AssignmentDocument

PLUGIN = "org.apache.spark.CometPlugin"
SHUFFLE = "org.apache.spark.sql.comet.execution.shuffle.CometShuffleManager"
SCANS = "brickyard.NativeScans"  # before Comet's own extension, which its plugin adds at the end
EXPLAINED = "org.apache.comet.ExtendedExplainInfo"
OFF_HEAP, OFF_HEAP_SIZE = "spark.memory.offHeap.enabled", "spark.memory.offHeap.size"
HEAP_SHARE = 1 / 3  # of an executor's memory
MINIMUM_OFF_HEAP_MB = 256
_PLUGINS, _EXECUTOR, _DRIVER = "spark.plugins", "spark.executor.memory", "spark.driver.memory"
_EXPLAINERS = "spark.sql.extendedExplainProviders"
_LOGGED, _LOGGED_35 = "spark.comet.explain.fallback.log.enabled", "spark.comet.explainFallback.enabled"
_SCAN, _UNIONS, _PARTITIONS = "spark.comet.scan.impl", "spark.comet.exec.union.enabled", "spark.sql.shuffle.partitions"
FEWEST_PARTITIONS, MOST_PARTITIONS, PARTITIONS_PER_CORE = 32, 200, 8  # Spark's own number is 200


def settings(assignment: AssignmentDocument, values: Mapping[str, str], *, line: tuple[int, int] = (4, 1)) -> dict[str, str]:
    """Returns the settings for a driver. `values`: its other settings; `line`: of the runtime's Spark. Raises LaunchError if too
    little is left for it."""
    of_line = _explained(values) if line >= (4, 0) else _older(assignment, values)
    return {
        **_memory(assignment, values),
        _PLUGINS: joined(PLUGIN, values.get(_PLUGINS, "")),
        "spark.shuffle.manager": SHUFFLE,
        EXTENSIONS: joined(SCANS, values.get(EXTENSIONS, "")),
        **of_line,
    }


def _explained(values: Mapping[str, str]) -> dict[str, str]:
    """EXPLAIN and the Spark UI say what falls back, and so does the driver's log."""
    return {_EXPLAINERS: joined(EXPLAINED, values.get(_EXPLAINERS, "")), _LOGGED: values.get(_LOGGED, "true")}


def _older(assignment: AssignmentDocument, values: Mapping[str, str]) -> dict[str, str]:
    """Comet 0.12: of its scans, the one that newer releases have. A native part of a plan then has one at most, so Spark makes
    unions. And fewer partitions, because each costs its shuffle half a millisecond for each task: TPC-H's Q3 takes 2.0 s with 32,
    and 3.7 s with 200. Spark 3.5 asks nobody for what EXPLAIN says."""
    partitions = min(MOST_PARTITIONS, max(FEWEST_PARTITIONS, PARTITIONS_PER_CORE * cluster_cores(assignment)))
    usual = {_LOGGED_35: "true", _SCAN: "native_datafusion", _UNIONS: "false", _PARTITIONS: str(partitions)}
    return {key: values.get(key, value) for key, value in usual.items()}


def _memory(assignment: AssignmentDocument, values: Mapping[str, str]) -> dict[str, str]:
    asked = assignment.get("spark_conf") or {}
    if asked.get(OFF_HEAP_SIZE):
        return {OFF_HEAP: "true"}
    single = assignment["role"] == SINGLE
    _, memory_mb = worker_size(assignment)
    share = int(memory_mb * DRIVER_SHARE) if single else executor_memory_mb(memory_mb)
    name = _DRIVER if single else _EXECUTOR
    if named := size_mb(asked.get(name, "")):
        heap = named
    elif single:
        heap = max(MINIMUM_HEAP_MB, int(memory_mb * driver_share(photon=True, single=True)))
    else:
        heap = max(MINIMUM_EXECUTOR_MB, int(share * HEAP_SHARE))
    left = share - heap
    if left < MINIMUM_OFF_HEAP_MB:
        what = f"{name} is {asked[name]}" if name in asked else f"the node has {memory_mb} MiB"
        raise LaunchError(
            f"{what}, which leaves {max(0, left)} MiB for Photon, whose memory is outside of Java's heap: it needs "
            f"{MINIMUM_OFF_HEAP_MB}. Leave {name} out, or choose a larger node type."
        )
    return {OFF_HEAP: "true", OFF_HEAP_SIZE: f"{left}m"} | ({} if single else {_EXECUTOR: f"{heap}m"})
