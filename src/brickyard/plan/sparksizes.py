"""Sizes in `spark_conf`: whether Spark can read them, and whether drivers and executors fit on their nodes. Pure.

Spark reads these settings when a cluster starts, or with the first query, and its own errors come late. Values that refer to
secrets are known only on the node, and are checked there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from brickyard.domain.cluster import is_single_node
from brickyard.domain.errors import InvalidParameterValue
from brickyard.domain.node import Role
from brickyard.domain.nodetypes import NodeType
from brickyard.domain.secrets import references
from brickyard.domain.spec import ClusterSpec
from brickyard.plan.launching import types_of

MINIMUM_MB = 450  # Spark starts with no smaller heap: one and a half times what it reserves (UnifiedMemoryManager)
DRIVER_MEMORY, EXECUTOR_MEMORY = "spark.driver.memory", "spark.executor.memory"
EXECUTOR_CORES, TASK_CPUS, MAX_CORES = "spark.executor.cores", "spark.task.cpus", "spark.cores.max"
OFF_HEAP, OFF_HEAP_SIZE = "spark.memory.offHeap.enabled", "spark.memory.offHeap.size"
RESERVED = ("spark.testing.memory", "spark.testing.reservedMemory")  # with these, Spark takes smaller heaps

# Settings that are a size -> the unit of a number without one, in bytes (org.apache.spark.internal.config, SQLConf).
_MIB = 1 << 20
SIZES: dict[str, int] = {
    DRIVER_MEMORY: _MIB,
    "spark.driver.memoryOverhead": _MIB,
    "spark.driver.maxResultSize": 1,
    EXECUTOR_MEMORY: _MIB,
    "spark.executor.memoryOverhead": _MIB,
    "spark.executor.pyspark.memory": _MIB,
    "spark.broadcast.blockSize": 1 << 10,
    "spark.io.compression.zstd.bufferSize": 1,
    "spark.kryoserializer.buffer": 1 << 10,
    "spark.kryoserializer.buffer.max": _MIB,
    OFF_HEAP_SIZE: 1,
    "spark.python.worker.memory": _MIB,
    "spark.reducer.maxSizeInFlight": _MIB,
    "spark.shuffle.file.buffer": 1 << 10,
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": 1,
    "spark.sql.adaptive.autoBroadcastJoinThreshold": 1,
    "spark.sql.adaptive.coalescePartitions.minPartitionSize": 1,
    "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes": 1,
    "spark.sql.autoBroadcastJoinThreshold": 1,
    "spark.sql.files.maxPartitionBytes": 1,
    "spark.sql.files.openCostInBytes": 1,
}
# Settings that count something, and must be at least 1.
COUNTS = (EXECUTOR_CORES, TASK_CPUS, MAX_CORES)
_NEGATIVE = "Threshold"  # names of settings that a negative number turns off have it
_SIZE = re.compile(r"(-?)([0-9]{1,18})([a-z]*)")
_UNITS = {
    "": 0, "b": 1, "k": 1 << 10, "kb": 1 << 10, "m": _MIB, "mb": _MIB, "g": 1 << 30, "gb": 1 << 30, "t": 1 << 40, "tb": 1 << 40,
    "p": 1 << 50, "pb": 1 << 50,
}  # fmt: skip
_SHOWN = 140


def size_bytes(text: str, unit: int) -> int | None:
    """Bytes of a size in Spark's notation (JavaUtils.byteStringAs); None if it is none. `unit`: bytes of a number alone."""
    match = _SIZE.fullmatch(text.strip().lower())
    if match is None or match[3] not in _UNITS:
        return None
    size = int(match[2]) * (_UNITS[match[3]] or unit)
    return -size if match[1] else size


def check_spark_sizes(spec: ClusterSpec, node_types: Mapping[str, NodeType]) -> None:
    """Raises InvalidParameterValue for a size that Spark cannot read, or that does not fit on the cluster's nodes."""
    conf = {key: value for key, value in (spec.spark_conf or {}).items() if value.strip() and not references(value)}
    sizes = {key: _read_size(key, conf[key], unit) for key, unit in SIZES.items() if key in conf}
    counts = {key: _read_count(key, conf[key]) for key in COUNTS if key in conf}
    if not any(key in conf for key in RESERVED):
        for key in (DRIVER_MEMORY, EXECUTOR_MEMORY):
            if key in sizes and sizes[key] < MINIMUM_MB * _MIB:
                raise _wrong(key, conf[key], f"Spark needs at least {MINIMUM_MB}m. Raise it, or leave it out.")
    drivers = [node_types[name] for name in types_of(spec, Role.DRIVER) if name in node_types]
    if drivers:
        smallest = min(drivers, key=lambda each: each.memory_mb)
        overhead = "spark.driver.memoryOverhead"
        _check_memory(conf, sizes, smallest, parts=(DRIVER_MEMORY, overhead), field="driver_node_type_id")
    worker = node_types.get(spec.node_type_id or "")
    if worker is None or is_single_node(spec):
        return  # the driver runs the tasks, and no executor has a size
    parts = [EXECUTOR_MEMORY, "spark.executor.memoryOverhead", "spark.executor.pyspark.memory"]
    if conf.get(OFF_HEAP, "").strip().lower() == "true":
        parts.append(OFF_HEAP_SIZE)
    _check_memory(conf, sizes, worker, parts=parts, field="node_type_id")
    _check_cores(counts, worker)


def _read_size(key: str, value: str, unit: int) -> int:
    size = size_bytes(value, unit)
    if size is None or (size < 0 and _NEGATIVE not in key):
        raise _wrong(key, value, "it must be a whole number with a unit, such as 512m or 4g.")
    return size


def _read_count(key: str, value: str) -> int:
    text = value.strip()
    if not re.fullmatch("0*[1-9][0-9]{0,8}", text):
        raise _wrong(key, value, "it must be a whole number, at least 1.")
    return int(text)


def _check_memory(
    conf: Mapping[str, str], sizes: Mapping[str, int], node_type: NodeType, *, parts: tuple[str, ...] | list[str], field: str
) -> None:
    """Checks what one JVM asks for: its parts together must fit into the node's memory."""
    given = [key for key in parts if key in sizes]
    total = sum(sizes[key] for key in given)
    if total <= node_type.memory_mb * _MIB:
        return
    first, *others = given
    also = "".join(f" and {key} is {conf[key][:_SHOWN]}" for key in others)
    raise InvalidParameterValue(
        f"spark_conf.{first} is {conf[first][:_SHOWN]}{also}, and node type {node_type.node_type_id} ({field}) has "
        f"{node_type.memory_mb} MiB: at most {node_type.memory_mb}m fit. Lower it, or choose a larger node type."
    )


def _check_cores(counts: Mapping[str, int], worker: NodeType) -> None:
    has, cores = max(1, int(worker.num_cores)), counts.get(EXECUTOR_CORES)
    if cores is not None and cores > has:
        raise InvalidParameterValue(
            f"spark_conf.{EXECUTOR_CORES} is {cores}, and node type {worker.node_type_id} (node_type_id) has {has} cores: no "
            f"executor could start. Use at most {has}, or choose a larger node type."
        )
    each = cores or has
    if (most := counts.get(MAX_CORES)) is not None and most < each:
        raise InvalidParameterValue(
            f"spark_conf.{MAX_CORES} is {most}, and an executor has {each} cores ({EXECUTOR_CORES}): no executor could start. "
            f"Use at least {each}, or leave it out."
        )
    if (cpus := counts.get(TASK_CPUS)) is not None and cpus > each:
        raise InvalidParameterValue(
            f"spark_conf.{TASK_CPUS} is {cpus}, and an executor has {each} cores ({EXECUTOR_CORES}): no task could run. Use at "
            f"most {each}."
        )


def _wrong(key: str, value: str, why: str) -> InvalidParameterValue:
    return InvalidParameterValue(f"spark_conf.{key} is {value[:_SHOWN]!r}: {why}")
