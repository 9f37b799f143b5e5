"""Spark's master and worker, controlled through a Py4J gateway, each in a JVM started for it.

The classes used here are Spark's own and the same from 3.4 to 4.x; whatever differs is looked up by name.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from py4j.protocol import Py4JError

from ..jvm.scala import Scala

KILLED = 128 + 9  # the exit code of a process that SIGKILL has ended
ENDED = ("EXITED", "FAILED")  # and not LOST with their worker, or KILLED because nobody needed them
MASTER_SYSTEM, WORKER_SYSTEM = "sparkMaster", "sparkWorker"


class Master:
    """Spark's master, on a free port of `host`, without a web UI."""

    def __init__(self, scala: Scala, *, conf: Mapping[str, str], host: str) -> None:
        self._scala = scala
        java_conf = scala.spark_conf(conf)
        env, security = scala.rpc_env(MASTER_SYSTEM, host, java_conf)
        master = scala.java("org.apache.spark.deploy.master.Master")(env, env.address(), 0, security, java_conf)
        self._endpoint = env.setupEndpoint("Master", master)
        self._state = scala.object("org.apache.spark.deploy", "DeployMessages$RequestMasterState")
        self.url = env.address().toSparkURL()
        scala.ask(self._endpoint, self._state)  # answers once it has started
        close_web_ui(scala, master, "org$apache$spark$deploy$master$Master$$webUi")
        self._env = env
        self._master = master
        self._alive: Any = None

    def stop(self) -> None:
        """Stops it. Its port is closed when this returns."""
        self._env.shutdown()
        self._env.awaitTermination()

    def alive(self) -> int:
        """Returns how many workers the master counts as alive: one call, whatever their number. Raises Py4JError."""
        if self._alive is None:  # not while the cluster starts
            source = self._scala.java("org.apache.spark.deploy.master.MasterSource")(self._master)
            self._alive = source.metricRegistry().getGauges().get("aliveWorkers")
        return int(self._alive.getValue())

    def alive_workers(self) -> tuple[str, ...]:
        """Returns host:port of every worker that the master counts as alive, sorted."""
        workers = self._scala.ask(self._endpoint, self._state).workers()
        return tuple(sorted(f"{worker.host()}:{worker.port()}" for worker in workers if worker.state().toString() == "ALIVE"))

    def ended_executors(self) -> int:
        """Returns how many executors have ended by themselves. Raises Py4JError."""
        apps = self._scala.ask(self._endpoint, self._state).activeApps()
        removed = [each for app in apps for each in self._scala.items(app.removedExecutors())]
        return sum(1 for each in removed if str(each.state()) in ENDED)

    def homes(self) -> dict[str, str]:
        """Returns executor id -> host:port of its worker. A cluster's master has only one application."""
        found = {}
        for worker in self._scala.ask(self._endpoint, self._state).workers():
            # "app-20260101000000-0000/3,...": the keys of a Scala map, as one string
            for name in filter(None, worker.executors().keys().mkString(",").split(",")):
                found[name.rpartition("/")[2]] = f"{worker.host()}:{worker.port()}"
        return found


class Executor(NamedTuple):
    """An executor of a worker; its files are in `<work dir>/<app_id>/<number>/`."""

    app_id: str
    number: int


class Worker:
    """Spark's worker. Its RPC environment starts before the master is known."""

    def __init__(
        self,
        scala: Scala,
        *,
        conf: Mapping[str, str],
        host: str,
        cores: int,
        memory_mb: int,
        work_dir: str,
        resources_file: str = "",
    ) -> None:
        self._scala = scala
        self._resources = scala.jvm.scala.Option.apply(resources_file) if resources_file else scala.none
        self._conf = scala.spark_conf(conf)
        self._cores, self._memory_mb, self._work_dir = cores, memory_mb, work_dir
        self._env, self._security = scala.rpc_env(WORKER_SYSTEM, host, self._conf)
        self._state = scala.object("org.apache.spark.deploy", "DeployMessages$RequestWorkerState")
        self._endpoint: Any = None
        self._master: Any = None  # its address
        self.address = self._env.address().hostPort()

    @property
    def joined(self) -> bool:
        return self._endpoint is not None

    def join(self, master_url: str) -> None:
        """Begins to register with the master."""
        self._master = self._scala.object("org.apache.spark.rpc", "RpcAddress").fromSparkURL(master_url)
        masters = self._scala.array("org.apache.spark.rpc.RpcAddress", [self._master])
        worker = self._scala.java("org.apache.spark.deploy.worker.Worker")(
            self._env, 0, self._cores, self._memory_mb, masters, "Worker", self._work_dir, self._conf, self._security,
            self._resources, None,
        )  # fmt: skip
        self._endpoint = self._env.setupEndpoint("Worker", worker)
        self._scala.ask(self._endpoint, self._state)  # answers once it has started
        close_web_ui(self._scala, worker, "org$apache$spark$deploy$worker$Worker$$webUi")

    def registered(self) -> bool:
        """Whether the master has accepted it."""
        return bool(self._scala.ask(self._endpoint, self._state).masterUrl())

    def await_registration(self, patience_s: float, stop: threading.Event | None = None) -> bool:
        """Waits for the master to accept it, for `patience_s` at most. Returns False then, or when `stop` is set."""
        deadline, stop = time.monotonic() + patience_s, stop or threading.Event()
        while not self.registered():
            if time.monotonic() > deadline or stop.wait(0.03):
                return False
        return True

    def stop(self) -> None:
        """Stops it, with its executors. Its port is closed when this returns."""
        self._env.shutdown()
        self._env.awaitTermination()

    def executors(self) -> list[Executor]:
        """Returns the executors that run now."""
        found, rest = [], self._scala.ask(self._endpoint, self._state).executors()
        while not rest.isEmpty():
            runner, rest = rest.head(), rest.tail()
            found.append(Executor(runner.appId(), int(runner.execId())))
        return found

    def fail_executors(self, why: str) -> None:
        """Reports to the master that the executors have ended by their own fault, and returns once it knows. Their tasks then
        count as failed, with this reason; Spark runs those of an executor that is lost with its worker again without end."""
        scala, master = self._scala, self._env.setupEndpointRef(self._master, "Master")
        message, exited = scala.jvm.scala.Option.apply(why), scala.object("org.apache.spark.deploy", "ExecutorState").EXITED()
        changed = scala.java("org.apache.spark.deploy.DeployMessages$ExecutorStateChanged")
        for executor in self.executors():
            scala.ask(master, changed(executor.app_id, executor.number, exited, message, scala.jvm.scala.Option.apply(KILLED)))

    def decommission(self) -> None:
        """Begins to leave: the master gives it nothing new, its executors finish their tasks and move their blocks away."""
        self._endpoint.send(self._scala.object("org.apache.spark.deploy", "DeployMessages$WorkerDecommissionSigReceived"))


def close_web_ui(scala: Scala, owner: Any, field: str) -> None:
    """Closes the web UI of a master or worker. It listens on an address that every user of the machine can reach, Spark 3
    cannot guard it, and nothing here uses it."""
    for name in (field, "webUi"):
        with contextlib.suppress(Py4JError):
            scala.field(owner, name).stop()
            return
    raise RuntimeError("the web UI of this version of Spark was not found, so it cannot be closed to other users")
