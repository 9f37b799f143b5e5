"""The heap size of a node's JVM, which is fixed at its start, before Spark reads any configuration."""

from __future__ import annotations

import os
import re
import shlex

from brickyard.domain.node import Assignment, Role
from brickyard.domain.runtimes import is_photon
from brickyard.runtime.node.jvm.launch import DRIVER_SHARE, driver_share

WORKER_HEAP_MB = 512  # a worker only hands out work; its executors have their own JVMs
MACHINE_SHARE = 0.75  # for any node type: a heap must not exceed the machine
MINIMUM_MB = 384

_COLD = (
    "spark.jars",
    "spark.files",
    "spark.archives",
    "spark.submit.pyFiles",
    "spark.driver.extraClassPath",
    "spark.brickyard.layers",
)
_UNITS_MB = {"k": 1 / 1024, "m": 1, "g": 1024, "t": 1024 * 1024, "p": 1024**3, "": 1}


def heap_mb(assignment: Assignment, *, machine_mb: int | None = None) -> int:
    """Returns the heap in MiB: `spark.driver.memory` if set, otherwise a share of the node's memory."""
    if assignment.role is Role.WORKER:
        return WORKER_HEAP_MB
    if asked := memory_mb(assignment.spark_conf.get("spark.driver.memory", "")):
        return asked
    share = driver_share(photon=is_photon(assignment.runtime), single=assignment.role is Role.SINGLE)
    return driver_heap_mb(assignment.memory_mb, machine_mb=machine_mb, share=share)


def driver_heap_mb(node_mb: int, *, machine_mb: int | None = None, share: float = DRIVER_SHARE) -> int:
    """Returns the heap of a driver whose conf does not set one, on a node with `node_mb` MiB."""
    machine = _machine_mb() if machine_mb is None else machine_mb
    return max(MINIMUM_MB, int(min(node_mb * share, machine * MACHINE_SHARE)))


def memory_mb(text: str) -> int | None:
    """Parses a size in Spark's notation ("4g", "512m", "1024": MiB) and returns MiB, or None if it is invalid."""
    match = re.fullmatch(r"\s*(\d+)\s*([kmgtp]?)b?\s*", text, re.IGNORECASE)
    return max(1, int(int(match[1]) * _UNITS_MB[match[2].lower()])) if match else None


def java_options(assignment: Assignment) -> list[str] | None:
    """Returns a driver's JVM options from the cluster's conf. Returns None if only the node host can start the JVM, when it
    takes its role: because the conf fetches jars or changes the class path, or because the node host will refuse it."""
    conf = assignment.spark_conf
    if assignment.role is Role.WORKER:
        return []
    if any(conf.get(key) for key in conf if key.startswith(_COLD)):
        return None
    names = ("spark.driver.defaultJavaOptions", "spark.driver.extraJavaOptions")
    try:
        return [option for name in names for option in shlex.split(conf.get(name, ""))]
    except ValueError:
        return None


def _machine_mb() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
