"""Warms up a JVM: runs Spark in it once, without any user's data, so that the next start finds its classes loaded and its
methods compiled. Nothing of this run remains: contexts and endpoints are stopped, and its secrets are discarded.

`rounds` does what a start does, no more: after it, a cluster may take the JVM. What the cluster's first commands will do is
practised after that (practice.py), until a cluster comes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..jvm.management import set_flag
from ..jvm.process import Jvm
from ..jvm.scala import Scala
from ..protocol import Log
from . import conf as sparkconf
from .driver import Driver
from .jars import AttachedJars
from .pauses import Pauses
from .place import Place, tree_dirs
from .practice import Practice, forget_events
from .rehearsal import Executors, Rehearsal
from .standalone import Master, Worker

if TYPE_CHECKING:
    from ..documents import AssignmentDocument, ManifestDocument

CORES = 2
MEMORY_MB = 1024


def rounds(
    jvm: Jvm,
    manifest: ManifestDocument,
    *,
    cores: int,
    log: Log,
    memory_mb: int = 0,
    executors: Executors | None = None,
) -> Practice:
    """Runs everything that a driver or a worker runs at its start, and stops it. Returns what is worth doing as long as nobody
    needs the JVM; with `executors` an executor is part of that. Raises Py4JError if Spark does not work."""
    scala = Scala(jvm.gateway)
    AttachedJars(scala)  # its loader reaches every thread by many calls, and stays
    assignment: AssignmentDocument = {
        "cluster_id": "none", "role": "driver", "cores": cores, "memory_mb": memory_mb or MEMORY_MB,
        "secret": os.urandom(16).hex(), "connect_token": os.urandom(16).hex(), "spark_conf": {}, "spark_env_vars": {},
    }  # fmt: skip
    place = Place(host=jvm.host, node_dir=str(jvm.node_dir), ui_key="", **tree_dirs(os.environ))
    master = Master(scala, conf=sparkconf.master_conf(assignment, place), host=jvm.host)
    try:
        conf = sparkconf.driver_conf(assignment, manifest, place, master_url=master.url, executor_archive="").values
        _drive(scala, conf)
        _work(scala, assignment, place, master)
    finally:
        master.stop()
    forget_events(jvm.node_dir)
    conf = sparkconf.driver_conf(assignment, manifest, place, master_url=f"local[{CORES}]", executor_archive="").values
    connects = not sparkconf.without_connect(assignment, manifest)
    pauses = Pauses()
    rehearsal = None
    if executors is not None:
        rehearsal = Rehearsal(scala, assignment, manifest, place, executors=executors, pauses=pauses)
    return Practice(
        scala, conf, manifest=manifest, node_dir=jvm.node_dir, connects=connects, log=log, pauses=pauses, before=rehearsal
    )


def _drive(scala: Scala, conf: Mapping[str, str]) -> None:
    """Starts a driver and runs work that needs no executor."""
    driver = Driver(scala, conf=conf)
    try:
        driver.first_answer()
        driver.activity()
    finally:
        driver.stop()


def _work(scala: Scala, assignment: AssignmentDocument, place: Place, master: Master) -> None:
    """Starts a worker, up to its registration."""
    worker = Worker(
        scala, conf=sparkconf.worker_conf(assignment, place), host=place.host, cores=CORES, memory_mb=MEMORY_MB,
        work_dir=f"{place.node_dir}/work/executors",
    )  # fmt: skip
    try:
        worker.join(master.url)
        worker.await_registration(30.0)
        master.alive_workers()
        worker.executors()
    finally:
        worker.stop()


def size_heap_as_usual(scala: Scala) -> None:
    """The JVM has its role, so the collector need not save memory any more. The values are Java's defaults. Raises Py4JError."""
    set_flag(scala, "MaxHeapFreeRatio", "70")
    set_flag(scala, "MinHeapFreeRatio", "40")
