"""Spark's parts, driven through a Py4J gateway: master, worker and driver, each in a JVM that was started for it.

The classes used here are Spark's own and the same from 3.4 to 4.x; what differs is looked up by name.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from py4j.protocol import Py4JError

from ..connect.apart import ApartConnectServer
from ..connect.older import OlderConnectServer
from ..connect.server import ConnectServer
from ..jvm.janino import DRIVER_JAVA
from . import conf as sparkconf
from .activity import Activity
from .leaving import Held
from .load import Stage

OUTPUTS_SOURCE = DRIVER_JAVA / "ShuffleOutputs.java"
REATTEMPT = "spark.storage.decommission.replicationReattemptInterval"
MASTER_SYSTEM, WORKER_SYSTEM = "sparkMaster", "sparkWorker"


class Scala:
    """The little of Scala that Py4J does not speak by itself."""

    def __init__(self, gateway: Any) -> None:
        self.gateway = gateway
        self.jvm = gateway.jvm
        self._any = self.object("scala.reflect", "ClassTag").Any()
        self.none = self.jvm.scala.Option.empty()

    def object(self, package: str, name: str) -> Any:
        """The object `package.name` (name: Outer$Inner for nested ones)."""
        holder = self.jvm
        for part in package.split("."):
            holder = getattr(holder, part)
        return getattr(getattr(holder, f"{name}$"), "MODULE$")

    def ask(self, endpoint: Any, message: Any) -> Any:
        """One question to an RPC endpoint. Raises Py4JError."""
        return endpoint.askSync(message, self._any)

    def items(self, sequence: Any) -> Iterator[Any]:
        """The items of a Seq, each fetched when it is its turn. Raises Py4JError."""
        return (sequence.apply(number) for number in range(int(sequence.size())))

    def field(self, owner: Any, name: str) -> Any:
        """What a field holds that has no method to read it. Raises Py4JError when there is none of that name."""
        declared = owner.getClass().getDeclaredField(name)
        declared.setAccessible(True)
        return declared.get(owner)

    def compiled(self, source: Path, parent: Any) -> Any:
        """A class loader with the class in a file of Java source, over the loader `parent`. Raises Py4JError."""
        compiler = self.jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(parent)
        compiler.cook(source.read_text())
        return compiler.getClassLoader()

    def spark_conf(self, values: Mapping[str, str]) -> Any:
        """A new SparkConf."""
        conf = self.jvm.org.apache.spark.SparkConf()
        for key, value in values.items():
            conf.set(key, value)
        return conf

    def rpc_env(self, system: str, host: str, conf: Any) -> tuple[Any, Any]:
        """An RPC environment on a free port of `host`, and its security manager."""
        companion = self.object("org.apache.spark", "SecurityManager")
        secret_file = getattr(companion, "$lessinit$greater$default$3")()
        security = self.jvm.org.apache.spark.SecurityManager(conf, self.none, secret_file)
        return self.object("org.apache.spark.rpc", "RpcEnv").create(system, host, 0, conf, security, False), security


class Master:
    """Spark's master, on a free port of `host`, without a web UI."""

    def __init__(self, scala: Scala, *, conf: Mapping[str, str], host: str) -> None:
        self._scala = scala
        spark = scala.jvm.org.apache.spark
        java_conf = scala.spark_conf(conf)
        env, security = scala.rpc_env(MASTER_SYSTEM, host, java_conf)
        master = spark.deploy.master.Master(env, env.address(), 0, security, java_conf)
        self._endpoint = env.setupEndpoint("Master", master)
        self._state = scala.object("org.apache.spark.deploy", "DeployMessages$RequestMasterState")
        self.url = env.address().toSparkURL()
        scala.ask(self._endpoint, self._state)  # answers once it has started
        close_web_ui(scala, master, "org$apache$spark$deploy$master$Master$$webUi")
        self._env = env

    def stop(self) -> None:
        """End it. Its port is closed when this returns."""
        self._env.shutdown()
        self._env.awaitTermination()

    def alive_workers(self) -> tuple[str, ...]:
        """host:port of every worker that the master counts as alive, sorted."""
        workers = self._scala.ask(self._endpoint, self._state).workers()
        return tuple(sorted(f"{worker.host()}:{worker.port()}" for worker in workers if worker.state().toString() == "ALIVE"))

    def homes(self) -> dict[str, str]:
        """host:port of the worker of every executor, by the executor's id. There is one application on a cluster's master."""
        found = {}
        for worker in self._scala.ask(self._endpoint, self._state).workers():
            # "app-20260101000000-0000/3,...": the keys of a Scala map, as one string
            for name in filter(None, worker.executors().keys().mkString(",").split(",")):
                found[name.rpartition("/")[2]] = f"{worker.host()}:{worker.port()}"
        return found


def load_event_log(scala: Scala) -> None:
    """Load what the event log needs (Hadoop's local file system, Zstandard), and a starting driver would otherwise wait for. The
    file system itself is not kept: another conf may ask for another one."""
    with contextlib.suppress(Py4JError, OSError, TypeError):  # it saves time; that it does not work is no reason for anything
        hadoop = scala.jvm.org.apache.hadoop
        hadoop.fs.FileSystem.newInstanceLocal(hadoop.conf.Configuration(False)).close()
        scala.jvm.com.github.luben.zstd.util.Native.load()


class Executor(NamedTuple):
    """An executor of a worker; its files are in `<work dir>/<app_id>/<number>/`."""

    app_id: str
    number: int


class Worker:
    """Spark's worker. Its RPC environment is up before the master is known."""

    def __init__(self, scala: Scala, *, conf: Mapping[str, str], host: str, cores: int, memory_mb: int, work_dir: str) -> None:
        self._scala = scala
        self._conf = scala.spark_conf(conf)
        self._cores, self._memory_mb, self._work_dir = cores, memory_mb, work_dir
        self._env, self._security = scala.rpc_env(WORKER_SYSTEM, host, self._conf)
        self._state = scala.object("org.apache.spark.deploy", "DeployMessages$RequestWorkerState")
        self._endpoint: Any = None
        self.address = self._env.address().hostPort()

    @property
    def joined(self) -> bool:
        return self._endpoint is not None

    def join(self, master_url: str) -> None:
        """Begin to register with the master."""
        spark = self._scala.jvm.org.apache.spark
        masters = self._scala.gateway.new_array(spark.rpc.RpcAddress, 1)
        masters[0] = self._scala.object("org.apache.spark.rpc", "RpcAddress").fromSparkURL(master_url)
        worker = spark.deploy.worker.Worker(
            self._env, 0, self._cores, self._memory_mb, masters, "Worker", self._work_dir, self._conf, self._security,
            self._scala.none, None,
        )  # fmt: skip
        self._endpoint = self._env.setupEndpoint("Worker", worker)
        self._scala.ask(self._endpoint, self._state)  # answers once it has started
        close_web_ui(self._scala, worker, "org$apache$spark$deploy$worker$Worker$$webUi")

    def registered(self) -> bool:
        """Whether the master has accepted it."""
        return bool(self._scala.ask(self._endpoint, self._state).masterUrl())

    def await_registration(self, patience_s: float, stop: threading.Event | None = None) -> bool:
        """Whether the master accepts it within `patience_s`; False also when `stop` is set."""
        deadline, stop = time.monotonic() + patience_s, stop or threading.Event()
        while not self.registered():
            if time.monotonic() > deadline or stop.wait(0.03):
                return False
        return True

    def stop(self) -> None:
        """End it, with its executors. Its port is closed when this returns."""
        self._env.shutdown()
        self._env.awaitTermination()

    def executors(self) -> list[Executor]:
        """The executors that run now."""
        found, rest = [], self._scala.ask(self._endpoint, self._state).executors()
        while not rest.isEmpty():
            runner, rest = rest.head(), rest.tail()
            found.append(Executor(runner.appId(), int(runner.execId())))
        return found

    def decommission(self) -> None:
        """Begin to leave: the master gives it nothing new, its executors finish their tasks and move their blocks away."""
        self._endpoint.send(self._scala.object("org.apache.spark.deploy", "DeployMessages$WorkerDecommissionSigReceived"))


class Driver:
    """A SparkContext, with Spark Connect and the web UI once somebody has asked for them."""

    def __init__(self, scala: Scala, *, conf: Mapping[str, str], connect_token: str = "") -> None:
        """`connect_token`: of a cluster that keeps its users apart; others have it in their conf."""
        self._scala = scala
        self._context = scala.jvm.org.apache.spark.api.java.JavaSparkContext(scala.spark_conf(conf))
        self._sc = self._context.sc()
        self._jobs = self._sc.dagScheduler()
        self.connect = self._make_connect(conf, connect_token)
        self._ui: Any = None
        self._ui_lock = threading.Lock()
        self._mapper: Any = None
        self._outputs: Any = None
        self.migration_round_s = float(self._sc.conf().getTimeAsMs(REATTEMPT, "30s")) / 1000

    def _make_connect(self, conf: Mapping[str, str], token: str) -> ConnectServer:
        if token:
            return ApartConnectServer(self._scala, self._sc, token=token)
        older = sparkconf.GUARD_TOKEN in conf
        return (OlderConnectServer if older else ConnectServer)(self._scala, self._sc)

    @property
    def scala(self) -> Scala:
        return self._scala

    def first_answer(self) -> None:
        """Run a job that has nothing to do, and so needs no executor. Raises Py4JError."""
        self._context.emptyRDD().count()

    def first_job(self) -> None:
        """Run a job of one task; returns when an executor has answered. Raises Py4JError."""
        self._context.parallelize([1], 1).count()

    def warm_up(self) -> None:
        """Make the session that every client's session springs from, and let it plan a query: seconds that the first user
        would wait for otherwise."""
        session = self._scala.jvm.org.apache.spark.sql.SparkSession.builder().getOrCreate()
        session.sql("SELECT count(*), max(id) FROM VALUES (1), (2) AS t(id) WHERE id > 1").queryExecution().executedPlan()

    def keep_catalog(self, directory: str, writes: str) -> list[str]:
        """Fill the catalog of tables from `directory`, and keep it there from now on; take in partitions that `writes` knows.
        Returns what could not be read, and is set aside. Every session must share the state of the one that this makes, so none
        may be made before. Raises Py4JError."""
        jvm = self._scala.jvm
        session = jvm.org.apache.spark.sql.SparkSession.builder().getOrCreate()
        catalog, conf = session.sharedState().externalCatalog(), self._sc.hadoopConfiguration()
        unreadable = jvm.brickyard.KeptCatalog.keep(catalog, directory, writes, conf)
        return [str(each) for each in unreadable]

    def finish_writes(self, directory: str) -> list[str]:
        """Finish or undo the writes that the driver before this one did not end. Returns what could not be. Raises Py4JError."""
        notes = self._scala.jvm.brickyard.KeptCommit.recover(self._sc.hadoopConfiguration(), directory)
        return [str(each) for each in notes]

    def bound_ports(self) -> None:
        """Read little of what peers say before they have shown the secret (java/BoundedPorts.java). Raises Py4JError."""
        self._scala.jvm.brickyard.BoundedPorts.serveResults(self._sc.conf())

    def activity(self) -> Activity:
        connected, connect_ms = self.connect.activity()
        busy = connected or self._jobs.activeJobs().size() > 0
        return Activity(busy=busy, jobs=int(self._jobs.numTotalJobs()), connect_ms=connect_ms)

    def pulse(self) -> None:
        """Ask what only a JVM that runs and a task scheduler that nobody holds can answer. It may never return."""
        self._sc.taskScheduler().isExecutorBusy("")

    def stages(self) -> list[Stage]:
        """The stages that have tasks to run now."""
        tracker, found = self._sc.statusTracker(), []
        for number in tracker.getActiveStageIds():
            info = tracker.getStageInfo(number)
            if info.isDefined():
                stage = info.get()
                found.append(Stage(int(stage.numTasks()), int(stage.numActiveTasks()), int(stage.numCompletedTasks())))
        return found

    def executors(self) -> list[dict[str, Any]]:
        """Summaries (ExecutorSummary) of the executors that live, without the driver, in one call however many there are."""
        return [each for each in self._json(self._sc.statusStore().executorList(True)) if each["id"] != "driver"]

    def _json(self, value: Any) -> Any:
        """A value of Spark's API in one call, however much is in it."""
        if self._mapper is None:
            self._mapper = self._scala.jvm.com.fasterxml.jackson.databind.ObjectMapper()
            self._mapper.registerModule(self._scala.object("com.fasterxml.jackson.module.scala", "DefaultScalaModule"))
        return json.loads(self._mapper.writeValueAsString(value))

    def leaving(self) -> dict[str, Held]:
        """The executors that leave, by id, and what each still holds. Raises Py4JError."""
        scheduler = self._sc.taskScheduler()
        if scheduler.executorsPendingDecommission().isEmpty():
            return {}  # nearly always
        if self._outputs is None:
            loader = self._scala.compiled(OUTPUTS_SOURCE, self._sc.getClass().getClassLoader())
            self._outputs = loader.loadClass("brickyard.ShuffleOutputs").getDeclaredConstructor(None).newInstance(None)
        tracker = self._sc.env().mapOutputTracker()
        return {
            name: Held(bool(scheduler.isExecutorBusy(name)), int(each["rddBlocks"]), int(self._outputs.on(tracker, name)))
            for each in self.executors()
            if scheduler.isExecutorDecommissioned(name := str(each["id"]))
        }

    def uploads(self, executor: str) -> bool:
        """Whether the executor is sending a shuffle file to another one now. Raises Py4JError."""
        dump = self._sc.getExecutorThreadDump(executor)
        threads = self._json(dump.get()) if dump.isDefined() else []
        return any(each["threadName"].startswith("migrate-shuffles") and "uploadBlockSync" in str(each) for each in threads)

    def let_go(self, executor: str) -> None:
        """Have Spark do without an executor, and end it. Raises Py4JError."""
        scheduler = self._scala.jvm.org.apache.spark.scheduler
        reason = scheduler.ExecutorDecommission(self._scala.none, "nothing more of it can be moved")
        remove = getattr(scheduler.cluster, "CoarseGrainedClusterMessages$RemoveExecutor")
        self._sc.schedulerBackend().driverEndpoint().send(remove(executor, reason))

    def stopped(self) -> bool:
        return bool(self._sc.isStopped())

    def open_web_ui(self, key: str) -> int:
        """Make the web UI unless it is there; returns its port. Raises Py4JError."""
        from .webui import open_web_ui

        with self._ui_lock:
            if self._ui is None:
                self._ui = open_web_ui(self._scala, self._sc, key)
            return int(self._ui.boundPort())

    def cancel_group(self, group: str) -> None:
        """Cancel what a command runs: its jobs, or where it has a session its operations."""
        self._sc.cancelJobGroup(group)
        self.connect.interrupt(group)

    def stop(self) -> None:
        self.connect.stop()
        if self._ui is not None:
            with contextlib.suppress(Py4JError):
                self._ui.stop()
        self._context.stop()


def close_web_ui(scala: Scala, owner: Any, field: str) -> None:
    """Close the web UI of a master or worker. It listens on an address that every user of the machine can reach, Spark 3 has
    no guard for it, and nothing here uses it."""
    for name in (field, "webUi"):
        with contextlib.suppress(Py4JError):
            scala.field(owner, name).stop()
            return
    raise RuntimeError("this version of Spark keeps its web UI where it is not known; the node would be open to strangers")
