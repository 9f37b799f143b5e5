"""Warms up a JVM: runs Spark in it once, without any user's data, so that the next start finds its classes loaded and its
methods compiled. Nothing of this run remains: contexts and endpoints are stopped, and its secrets are discarded."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from typing import Any

from py4j.protocol import Py4JError

from ..jvm.process import Jvm
from ..jvm.scala import Scala
from . import conf as sparkconf
from .driver import Driver
from .standalone import Master, Worker

CORES = 2
MEMORY_MB = 1024
# The most common work of a first command: a scan, an aggregation over a shuffle, a sort; rows that go back to the client.
QUERY = "SELECT id % 7 AS k, count(*) AS n, sum(id) AS s FROM range(0, 1000, 1, 2) WHERE id > 3 GROUP BY id % 7 ORDER BY k"


def rounds(jvm: Jvm, manifest: Mapping[str, Any], *, cores: int = CORES) -> None:
    """Runs everything that a driver or a worker runs at its start, and stops it. Raises Py4JError if Spark does not work."""
    scala = Scala(jvm.gateway)
    assignment = {
        "cluster_id": "none", "role": "driver", "cores": cores, "memory_mb": MEMORY_MB, "secret": os.urandom(16).hex(),
        "connect_token": os.urandom(16).hex(), "spark_conf": {}, "spark_env_vars": {},
    }  # fmt: skip
    place = sparkconf.Place(host=jvm.host, node_dir=str(jvm.node_dir), ui_key="", **sparkconf.tree_dirs(os.environ))
    _drive(scala, manifest, assignment, place, master_url=f"local[{CORES}]", alone=True)
    master = Master(scala, conf=sparkconf.master_conf(assignment, place), host=jvm.host)
    try:
        _drive(scala, manifest, assignment, place, master_url=master.url, alone=False)
        _work(scala, assignment, place, master)
    finally:
        master.stop()
    for events in (jvm.node_dir / "logs" / "eventlog").iterdir():  # otherwise they would appear as runs of the next cluster
        events.unlink()
    _forget(scala)


def _drive(
    scala: Scala,
    manifest: Mapping[str, Any],
    assignment: Mapping[str, Any],
    place: sparkconf.Place,
    *,
    master_url: str,
    alone: bool,
) -> None:
    """Starts a driver and runs work that needs no executor in another process; with `alone`, also work that needs an executor."""
    conf = sparkconf.driver_conf(assignment, manifest, place, master_url=master_url, executor_archive="").values
    if alone:
        # With local[...], Spark makes its own secret, keeps it for as long as the JVM lives, and prefers it to any secret in a
        # conf: workers would be rejected.
        conf["spark.authenticate"] = "false"
    driver = Driver(scala, conf=conf)
    try:
        driver.first_answer()
        driver.warm_up()
        driver.activity()
        if alone:
            if not sparkconf.without_connect(assignment, manifest):
                driver.connect.open()
            driver.first_job()
            scala.jvm.org.apache.spark.sql.SparkSession.builder().getOrCreate().sql(QUERY).collectAsList()
    finally:
        driver.stop()


def _work(scala: Scala, assignment: Mapping[str, Any], place: sparkconf.Place, master: Master) -> None:
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


def _forget(scala: Scala) -> None:
    """Returns memory that the rounds took: what they left is garbage, and the heap may shrink while nothing happens."""
    jvm = scala.jvm
    jvm.org.apache.hadoop.fs.FileSystem.closeAll()  # they keep the rounds' conf; the next user has another
    jvm.org.apache.spark.sql.SparkSession.clearActiveSession()
    jvm.org.apache.spark.sql.SparkSession.clearDefaultSession()
    jvm.System.gc()
    jvm.System.runFinalization()  # buffers outside the heap are freed with their owners
    jvm.System.gc()
    with contextlib.suppress(Py4JError):  # older Javas cannot do this
        _manage(scala, "DiagnosticCommand", "systemTrimNativeHeap")


def work(scala: Scala) -> None:
    """The JVM has its role, so the collector need not save memory any more. The values are Java's defaults."""
    with contextlib.suppress(Py4JError):
        _manage(scala, "HotSpotDiagnostic", "setVMOption", "MaxHeapFreeRatio", "70")
        _manage(scala, "HotSpotDiagnostic", "setVMOption", "MinHeapFreeRatio", "40")


def _manage(scala: Scala, bean: str, operation: str, *arguments: str) -> None:
    """Calls an operation of one of the JVM's management beans. Raises Py4JError."""
    jvm, gateway = scala.jvm, scala.gateway
    given, types = gateway.new_array(jvm.Object, len(arguments)), gateway.new_array(jvm.String, len(arguments))
    for index, argument in enumerate(arguments):
        given[index], types[index] = argument, "java.lang.String"
    beans = jvm.java.lang.management.ManagementFactory.getPlatformMBeanServer()
    beans.invoke(jvm.javax.management.ObjectName(f"com.sun.management:type={bean}"), operation, given, types)
