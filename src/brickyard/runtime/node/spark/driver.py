"""Spark's driver, controlled through a Py4J gateway in a JVM started for it.

The classes used here are Spark's own and the same from 3.4 to 4.x; whatever differs is looked up by name.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from py4j.protocol import Py4JError

from ..connect.apart import ApartConnectServer
from ..connect.older import OlderConnectServer
from ..connect.server import ConnectServer
from ..jvm.janino import DRIVER_JAVA
from ..jvm.scala import Scala
from . import apart as keptapart
from . import conf as sparkconf
from .activity import Activity, JobsLook
from .leaving import Held
from .load import Stage
from .webui import open_web_ui

OUTPUTS_SOURCE = DRIVER_JAVA / "ShuffleOutputs.java"
REATTEMPT = "spark.storage.decommission.replicationReattemptInterval"


def load_event_log(scala: Scala) -> None:
    """Loads what the event log needs (Hadoop's local file system, Zstandard), so that a starting driver does not wait for it.
    The file system itself is not cached: another conf may ask for a different one."""
    with contextlib.suppress(Py4JError, OSError, TypeError):  # it only saves time, so its failure does not matter
        hadoop = scala.jvm.org.apache.hadoop
        hadoop.fs.FileSystem.newInstanceLocal(hadoop.conf.Configuration(False)).close()
        scala.jvm.com.github.luben.zstd.util.Native.load()


def keep_python_apart(scala: Scala) -> None:
    """Has Spark start Python workers in cells, also in a JVM that was made before it was known whose it is. Raises Py4JError."""
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        scala.java("brickyard.Surroundings").variable(name, keptapart.WORKER_PYTHON)
    scala.java("brickyard.Apart").python(keptapart.WORKER_PYTHON)


class Driver:
    """A SparkContext, with Spark Connect and the web UI once they are requested."""

    def __init__(
        self, scala: Scala, *, conf: Mapping[str, str], connect_token: str = "", apart: bool = False, places: str = ""
    ) -> None:
        """`connect_token`: what calls of Spark Connect must show, if that can be served; Spark 3 has it in the conf, too.
        `apart`: for clusters that isolate users; `places`: the directories whose files these reach through Spark, ":" between
        them."""
        if apart:
            keep_python_apart(scala)
        self._scala = scala
        self._context = scala.java("org.apache.spark.api.java.JavaSparkContext")(scala.spark_conf(conf))
        self._sc = self._context.sc()
        self._jobs = self._sc.dagScheduler()
        self._tasks = self._sc.taskScheduler()
        self._look = JobsLook()
        self.connect = self._make_connect(conf, connect_token, places if apart else None)
        self._ui: Any = None
        self._ui_lock = threading.Lock()
        self._mapper: Any = None
        self._outputs: Any = None
        self._beans: Any = None
        self._streams: Any = None  # all streaming queries that run, of all sessions
        self.migration_round_s = float(self._sc.conf().getTimeAsMs(REATTEMPT, "30s")) / 1000

    def native_engine(self) -> str:
        """Returns the native engine's version. Raises Py4JError if its library is not there: queries would run without it."""
        self._scala.java("org.apache.comet.NativeBase").isLoaded()
        return str(self._sc.conf().get("spark.comet.version", ""))

    def _make_connect(self, conf: Mapping[str, str], token: str, places: str | None) -> ConnectServer:
        if places is not None:
            return ApartConnectServer(self._scala, self._sc, token=token, places=places)
        if sparkconf.GUARD_CLASS in conf.get(sparkconf.INTERCEPTORS, ""):
            return OlderConnectServer(self._scala, self._sc, preshared=token)
        return ConnectServer(self._scala, self._sc, preshared=token)

    @property
    def scala(self) -> Scala:
        return self._scala

    def first_answer(self) -> None:
        """Runs an empty job, which needs no executor. Raises Py4JError."""
        self._context.emptyRDD().count()

    def first_job(self) -> None:
        """Runs a job of one task; returns once an executor has answered. Raises Py4JError."""
        self._context.parallelize([1], 1).count()

    def registered(self) -> int:
        """Returns how many executors the driver knows. Raises Py4JError."""
        return int(self._sc.getExecutorMemoryStatus().size()) - 1  # the driver is there, too

    def answer_sql(self) -> None:
        """Has a session with the cluster's settings answer a statement that needs no job. Raises Py4JError."""
        self._scala.session().sql("VALUES (1)").queryExecution().executedPlan().executeCollect()

    def warm_up(self) -> None:
        """Makes the session from which clients' sessions derive and has it plan a query, which saves the first user several
        seconds."""
        session = self._scala.session()
        session.sql("SELECT count(*), max(id) FROM VALUES (1), (2) AS t(id) WHERE id > 1").queryExecution().executedPlan()

    def ports(self) -> list[int]:
        """Returns the ports that Spark has opened here: for Python, RPC, blocks, and the web UI. Raises Py4JError."""
        conf, own = self._sc.conf(), self._sc.ui()
        host, ui = str(conf.get("spark.driver.host")).strip("[]"), own.get() if own.isDefined() else self._ui
        found = {int(self._scala.gateway.gateway_parameters.port), int(conf.get("spark.driver.port", "0"))}
        found |= {int(ui.boundPort())} if ui is not None else set()
        for name in str(self._sc.getExecutorMemoryStatus().keySet().mkString(" ")).split():  # blocks, of executors as well
            place, _, port = name.rpartition(":")
            found |= {int(port)} if place.strip("[]") == host else set()
        return sorted(found - {0})

    def setting(self, key: str) -> str:
        """Returns the value of one of the context's settings; "" if there is none."""
        return str(self._sc.conf().get(key, ""))

    def slots(self) -> int:
        """Returns how many tasks the executors can run at once, or what the user says (spark.default.parallelism)."""
        return int(self._sc.defaultParallelism())

    @contextlib.contextmanager
    def group(self, name: str, description: str) -> Iterator[None]:
        """Puts the jobs of this thread into a group. Raises Py4JError."""
        self._sc.setJobGroup(name, description, False)
        try:
            yield
        finally:
            self._sc.clearJobGroup()

    def queries(self, partitions: int) -> Callable[[str], int]:
        """Returns a function that runs a statement in a session of its own, outside the history of queries, and returns how many
        rows it has. It raises Py4JError. `partitions`: of shuffles."""
        session = self._scala.session().newSession()
        session.conf().set("spark.sql.shuffle.partitions", str(partitions))
        return lambda statement: int(session.sql(statement).queryExecution().toRdd().count())

    def share_catalog(self, channel: Any, older: str, cluster_id: str, *, apart: bool) -> list[str]:
        """Puts the workspace's catalog in the place of Spark's own, and moves into it what drivers of older versions kept in
        `older`; returns what could not be moved. `apart`: functions that are made of classes are refused. Every session must
        share the state of the one made here, so none may exist before. Raises Py4JError."""
        session = self._scala.session()
        conf = self._sc.hadoopConfiguration()
        catalog = self._scala.java("brickyard.SharedCatalog").keep(session.sharedState().externalCatalog(), channel, conf, apart)
        return [str(each) for each in catalog.moveIn(older, cluster_id)]

    def keep_sessions(self, classes: str) -> None:
        """Has sessions know whose they are, give their jobs pools of their own, and know the workspace's names of their catalog
        (java/SessionRules.java). No session may have planned anything before. `classes`: our JAR; "": there is none, and sessions
        stay as they are. Raises Py4JError."""
        session = self._scala.session()
        if classes:
            self._scala.java("brickyard.SessionRules").keep(session)
        self._streams = session.sharedState().activeStreamingQueries()

    def stop_streams(self, pool: str) -> None:
        """Begins to stop the streams of a context whose process is gone. Raises Py4JError."""
        if self._streams is not None:
            self._scala.java("brickyard.SessionOwner").stopStreams(self._streams, pool)

    def finish_writes(self, channel: Any | None, older: str) -> list[str]:
        """Finishes or undoes the writes that the cluster's previous driver left unfinished, in `older` if it was of an older
        version. `channel`: to the agent, which holds the locks; None if there is no metastore. Returns those that failed. Raises
        Py4JError."""
        records, conf = self._scala.java("brickyard.CommitRecords"), self._sc.hadoopConfiguration()
        return [str(each) for notes in (records.takeOver(conf, channel), records.recover(conf, older)) for each in notes]

    def send_jars(self, paths: Sequence[str]) -> None:
        """Has executors fetch these jars before their next task. Raises Py4JError."""
        for path in paths:
            self._context.addJar(path)

    def bound_ports(self) -> None:
        """Limits what is read from peers before they have shown the secret (java/BoundedPorts.java). Raises Py4JError."""
        self._scala.java("brickyard.BoundedPorts").serveResults(self._sc.conf())

    def hide_secret(self) -> None:
        """Takes the secret of the cluster's connections out of the context's settings, which every session copies and shows. From
        then on only Spark's security manager has it. No session may exist before. Raises Py4JError."""
        security = self._scala.security_manager(self._sc)
        field = security.getClass().getDeclaredField("secretKey")
        field.setAccessible(True)
        field.set(security, security.getSecretKey())
        self._sc.conf().remove(sparkconf.SECRET)

    def keep_files_apart(self) -> None:
        """Keeps what clients of Spark Connect add to their sessions out of all other jobs (SessionFiles.java). Spark 3.4 has no
        such artifacts. Raises Py4JError."""
        if not str(self._sc.version()).startswith("3.4."):
            self._scala.java("brickyard.SessionFiles").keepApart(self._sc)

    def activity(self) -> Activity:
        connected, ended = self.connect.activity()
        jobs, active = int(self._jobs.numTotalJobs()), False
        if self._look.due(jobs):
            active = self._jobs.activeJobs().size() > 0
            self._look.saw(active)
        streams = self._streams is not None and int(self._streams.size()) > 0
        return Activity(busy=connected or active, jobs=jobs, connect=(ended,), streams=streams)

    def pulse(self) -> None:
        """Asks something that only a running JVM with an unblocked task scheduler can answer. It may never return."""
        self._tasks.isExecutorBusy("")

    def make_thread(self) -> None:
        """Starts a thread, which ends at once. Raises Py4JError."""
        self._scala.jvm.java.lang.Thread().start()

    def jvm_numbers(self) -> dict[str, float]:
        """Returns milliseconds spent on garbage collection since the start, and bytes of used heap. Raises Py4JError."""
        if self._beans is None:
            management = self._scala.jvm.java.lang.management.ManagementFactory
            self._beans = (list(management.getGarbageCollectorMXBeans()), management.getMemoryMXBean())
        collectors, memory = self._beans
        return {
            "gc_ms": sum(max(0, int(each.getCollectionTime())) for each in collectors),
            "heap_bytes": int(memory.getHeapMemoryUsage().getUsed()),
        }

    def stages(self) -> list[Stage]:
        """Returns the stages that have tasks to run now."""
        tracker, found = self._sc.statusTracker(), []
        for number in tracker.getActiveStageIds():
            info = tracker.getStageInfo(number)
            if info.isDefined():
                stage = info.get()
                found.append(Stage(int(stage.numTasks()), int(stage.numActiveTasks()), int(stage.numCompletedTasks())))
        return found

    def executors(self) -> list[dict[str, Any]]:
        """Returns summaries (ExecutorSummary) of the live executors, without the driver, in one call for any number of them."""
        return [each for each in self._json(self._sc.statusStore().executorList(True)) if each["id"] != "driver"]

    def _json(self, value: Any) -> Any:
        """Fetches a value of Spark's API in one call, whatever its size."""
        if self._mapper is None:
            self._mapper = self._scala.jvm.com.fasterxml.jackson.databind.ObjectMapper()
            self._mapper.registerModule(self._scala.object("com.fasterxml.jackson.module.scala", "DefaultScalaModule"))
        return json.loads(self._mapper.writeValueAsString(value))

    def leaving(self) -> dict[str, Held]:
        """Returns the leaving executors, by id, and what each still holds. Raises Py4JError."""
        scheduler = self._tasks
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
        """Removes an executor from Spark and ends it. Raises Py4JError."""
        scheduler = self._scala.jvm.org.apache.spark.scheduler
        reason = scheduler.ExecutorDecommission(self._scala.none, "nothing more of it can be moved")
        remove = getattr(scheduler.cluster, "CoarseGrainedClusterMessages$RemoveExecutor")
        self._sc.schedulerBackend().driverEndpoint().send(remove(executor, reason))

    def stopped(self) -> bool:
        return bool(self._sc.isStopped())

    def open_web_ui(self, key: str) -> int:
        """Makes the web UI unless it exists; returns its port. Raises Py4JError."""
        with self._ui_lock:
            if self._ui is None:
                self._ui = open_web_ui(self._scala, self._sc, key)
            return int(self._ui.boundPort())

    def cancel_group(self, group: str) -> None:
        """Cancels what a command runs: its jobs, or the operations of its session if it has one."""
        self._sc.cancelJobGroup(group)
        self.connect.interrupt(group)

    def jobs(self, *, running: bool) -> list[dict[str, Any]]:
        """Returns all jobs that Spark remembers, or those that run, as its REST API shows them. Raises Py4JError."""
        states = self._scala.jvm.java.util.ArrayList()
        if running:
            states.add(self._scala.jvm.org.apache.spark.JobExecutionStatus.RUNNING)
        found: list[dict[str, Any]] = self._json(self._sc.statusStore().jobsList(states))
        return found

    def cancel_all(self) -> None:
        """Cancels every job. Raises Py4JError."""
        self._sc.cancelAllJobs()

    def stop(self) -> None:
        self.connect.stop()
        if self._ui is not None:
            with contextlib.suppress(Py4JError):
                self._ui.stop()
        self._context.stop()
