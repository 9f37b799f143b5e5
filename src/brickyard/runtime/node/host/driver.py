"""The role of a driver, with or without workers."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from py4j.protocol import Py4JError, Py4JJavaError

from ..clock import Clock, now_ms
from ..jvm import layers
from ..jvm.errors import error_text
from ..jvm.process import Jvm, usable
from ..jvm.scala import Scala
from ..protocol import OpError
from ..spark import apart, resources, sizes, warm
from ..spark import conf as sparkconf
from ..spark.activity import ActivityMeter
from ..spark.driver import Driver, load_event_log
from ..spark.jars import AttachedJars
from ..spark.leaving import Leavers
from ..spark.metastore import MetastoreWay
from ..spark.place import Place
from ..spark.readiness import Readiness
from ..spark.standalone import Master
from . import failures, startwatch
from .access import DriverAccess
from .loadreports import LoadReports
from .report import Report
from .role import Role

if TYPE_CHECKING:
    from ..documents import AssignmentDocument

FASTEST_S, FAST_S, SLOW_S = 0.05, 0.3, 1.0
LOAD_S = 0.5  # between two samples of the cluster's load
SETTLED_S = 10.0  # without a change in the workers for this long, ask less often, and mostly only how many there are
NAMES_EVERY = 5  # looks; one worker may take another's place between two
KNOCK_EVERY = 5  # questions of the pulse
OPENED_LOOK_S = 0.5

_STOPPED = (
    "the cluster's SparkContext was stopped: by a command that called spark.stop() or sc.stop(), or by Spark because its "
    "executors failed again and again. The log's last lines tell which."
)


class Commands(Protocol):
    """The commands of this node's contexts, as the driver sees them."""

    def warm(self) -> None:
        """Kernels may start: the first one waits until sessions may be made."""
        ...

    def activity(self) -> tuple[bool, int]:
        """Returns whether one runs now, and the time of the last activity (epoch ms; 0: there was none)."""
        ...


class DriverRole(Role):
    """Master and driver in one JVM, or a driver with local threads. READY once Spark has answered a job.

    That job needs no executor, unless the user's settings are such that executors may not start. A job on an executor follows
    immediately, and if it fails, the start has failed.
    """

    def __init__(
        self,
        *,
        jvm: Jvm,
        assignment: AssignmentDocument,
        place: Place,
        report: Report,
        commands: Commands,
        jars: Sequence[str] = (),
        monotonic: Clock = time.monotonic,
    ) -> None:
        """`jars`: paths of the cluster's jars."""
        super().__init__(jvm=jvm, assignment=assignment, place=place, report=report)
        self._jars = list(jars)
        self._jars_lock = threading.Lock()
        self._attached: AttachedJars | None = None
        self._commands = commands
        self._driver: Driver | None = None
        self._meter = ActivityMeter()
        self._master: Master | None = None
        self._loads = LoadReports(self, report, monotonic=monotonic)
        self.access = DriverAccess(jvm=jvm, assignment=assignment, place=self._place, report=report)
        self._warm = self._jvm.options.frugal
        self._keeps_writes = False
        self._keeps_catalog = False
        self._metastore: MetastoreWay | None = None
        self._proven = False  # an executor has answered, and the catalog is loaded
        self.seen = (0, False)  # how often Spark has been asked what runs, and whether something did then
        self._gets_ready = False
        self._asked = 0  # since the JVM has last accepted a connection

    def add_jars(self, paths: Sequence[str]) -> None:
        """Attaches jars to the driver, for all its sessions, and to the executors, from their next task on. Raises OpError."""
        with self._jars_lock:
            if self._driver is None or self._attached is None:
                self._jars.extend(paths)  # `_take` attaches them
                return
            try:
                self._attached.add(paths)
                self._driver.send_jars(paths)
            except (Py4JError, OSError) as error:
                raise OpError("INVALID", f"Spark did not take the jar: {failures.plain_message(error_text(error))}") from error

    def metastore_answer(self, number: int, answer: Mapping[str, Any]) -> None:
        """Takes an answer of the workspace's metastore."""
        if self._metastore is not None:
            with contextlib.suppress(Py4JError, OSError):  # the JVM has ended
                self._metastore.answer(number, answer)

    def cancel_group(self, group: str) -> None:
        """Cancels what a command runs in Spark. Does nothing if the driver is gone."""
        driver = self._driver
        if driver is not None:
            with contextlib.suppress(Py4JError, OSError):
                driver.cancel_group(group)

    def stop(self, grace_s: float) -> None:
        self._stopping.set()
        if self._driver is not None and self._jvm.alive:
            ender = threading.Thread(target=self._end_context, daemon=True)
            ender.start()
            began = time.monotonic()
            ender.join(grace_s * 0.7)
            grace_s -= time.monotonic() - began
        self._jvm.stop(max(0.2, grace_s))

    def _end_context(self) -> None:
        with contextlib.suppress(Py4JError, OSError):
            if self._driver is not None:
                self._driver.stop()

    @property
    def _started(self) -> bool:
        return self._proven and super()._started

    def _take(self) -> None:
        master_url = self._start_master()
        self._report.tell(phase="starting", message="starting the Spark driver")
        driver = self._start_driver(master_url)
        self._report.log("the SparkContext is made")
        with self._jars_lock:
            self._driver = driver
            driver.send_jars(self._jars)
        self.access.begin(driver)
        self._report.tell(message="running a first job")
        wary = not self._warm and (sizes.executors_differ(self._assignment) or bool(self._jars))
        asks_session = sizes.session_differs(self._assignment)
        if (master := self._master) is not None:
            self._run(lambda: self._watch_start(driver, master))
        if self._warm:  # it has loaded all that this takes, so neither the first answer nor the first kernel waits for the other
            self._run(lambda: self._open_spark(driver))
        with ThreadPoolExecutor(1) as questions:
            ports = questions.submit(driver.ports)  # while Spark works: RUNNING waits for both
            if wary:
                driver.first_job()
            else:
                driver.first_answer()
            if asks_session and not self._try_session(driver):
                return
        self._meter.touch(now_ms())
        self._report.tell(phase="ready", message="", spark_ports=ports.result(), last_activity_ms=now_ms(), busy=False)
        self._report.log("Spark has answered")
        if self.isolates_users:
            self._commands.warm()  # only now: a kernel gets its session from the driver, which gives none before it is ready
        if not self._warm and not asks_session:
            self._open_spark(driver)
        self._proven = wary
        self._run(self._watch_activity)
        self._feel_pulse()
        if self._master is not None:
            self._run(self._watch_leaving)
        if not self._opened():
            return
        with contextlib.suppress(Py4JError, OSError):  # it only saves time, so its failure must not end a cluster
            driver.warm_up()
        if not self._proven:
            driver.first_job()
            self._proven = True
        if self._warm:
            self._size_heap(driver)
        else:
            self._get_ready(driver)

    def beat(self) -> None:
        """At times it takes what a new context takes: a thread of the JVM, and a connection to it. Once that fails, nothing else
        counts as an answer until it succeeds."""
        driver = self._driver
        assert driver is not None  # noqa: S101 - `_take` has set it before the pulse is felt
        driver.pulse()
        self._asked += 1
        if self._asked >= KNOCK_EVERY:
            try:
                driver.make_thread()  # first: without one, the thread that accepts connections would end
            except Py4JJavaError as error:
                raise OSError("the JVM can make no thread") from error
            self._jvm.knock()
            self._asked = 0

    def measure(self) -> None:
        if self._driver is not None:
            self.numbers.update(self._driver.jvm_numbers())

    def _try_session(self, driver: Driver) -> bool:
        """Makes the first session before the start counts as done, because the user's settings may keep it from being made.
        Returns False if the start has failed. Raises Py4JError."""
        self._report.tell(message="making the first SQL session")
        if not self._warm:
            self._open_spark(driver)
        if not self._opened():
            return False
        driver.answer_sql()
        return True

    def _watch_start(self, driver: Driver, master: Master) -> None:
        """Ends a start whose executors end one after the other, or never come: Spark would try for ever."""
        watch = startwatch.StartWatch(startwatch.SparkStart(self._report, driver, master))
        while not self._proven and not self._stopping.wait(startwatch.LOOK_S) and self._jvm.alive:
            why = self.sample(watch.look, "")
            if why and not self._proven:
                self._report.fail(startwatch.failure(why, self._executor_lines(), self._jvm.log_file))
                return

    def _executor_lines(self) -> str:
        return startwatch.last_lines(Path(self._place.scratch_dir)) if self._place.cluster_dir else ""

    def _size_heap(self, driver: Driver) -> None:
        try:
            warm.size_heap_as_usual(driver.scala)
        except (Py4JError, OSError) as error:  # it only saves time, so its failure must not end a cluster
            self._report.log(f"the collector goes on saving memory: {error_text(error).splitlines()[0]}")

    def _get_ready(self, driver: Driver) -> None:
        """Has Spark do what first commands do, until somebody comes."""
        readiness = Readiness(driver, self, cut=self._stopping)
        self._gets_ready = True
        try:
            done = readiness.run()
            self._meter.overlook(driver.activity())
            self._report.log(f"usual queries that were run while nobody used the cluster: {done}")
        except Exception as error:  # it only saves time, so its failure must not end a cluster
            if not self.stopping:
                why = error_text(error).splitlines()[0]
                self._report.log(f"first commands will take longer, since a usual query failed: {why}")
        finally:
            self._gets_ready = False

    def unused(self) -> bool:
        """Whether nobody has asked for anything since the start."""
        return self._commands.activity()[1] == 0 and self.access.connects == 0

    def _open_spark(self, driver: Driver) -> None:
        """Has a kernel get ready, and makes the first session, for which it waits."""
        if not self.isolates_users:
            self._commands.warm()
        self._keep_catalog(driver)

    def _opened(self) -> bool:
        """Waits until sessions may be made. Returns False if that has failed, or the driver ends."""
        while not self.access.open_within(OPENED_LOOK_S):
            if self.stopping or self._report.failed or not self._jvm.alive:
                return False
        return True

    def _start_master(self) -> str:
        """Starts Spark's master if there are workers; returns the driver's master URL."""
        self._scala = scala = Scala(self._jvm.gateway)
        threading.Thread(target=load_event_log, args=(scala,), daemon=True).start()  # in parallel with what follows
        single = self._assignment["role"] == "single"
        master_url = f"local[{self._assignment['cores']}]"
        if not single:
            self._report.tell(phase="starting", message="starting the Spark master")
            self._master = master = Master(
                scala, conf=sparkconf.master_conf(self._assignment, self._place), host=self._place.host
            )
            master_url = master.url
            self._report.tell(master_url=master_url)
            self._run(lambda: self._watch_workers(master))
        return master_url

    def _start_driver(self, master_url: str) -> Driver:
        manifest = self._jvm.manifest
        conf = sparkconf.driver_conf(
            self._assignment,
            manifest,
            self._place,
            master_url=master_url,
            executor_archive=usable(manifest.get("executor_archive", "")),
        )
        resources.write(self._assignment, self._place.node_dir, resources.DRIVER)
        for note in conf.notes:
            self._report.log(note)
        values = sparkconf.without_submitted(conf.values) if self._jvm.options.submit_conf else conf.values
        assert self._scala is not None  # noqa: S101 - `_start_master` has set it
        self._keeps_writes = sparkconf.keeps_writes(manifest, self._place)
        self._keeps_catalog = sparkconf.keeps_catalog(manifest, self._place, conf.values)
        token = self._assignment.get("connect_token", "") if sparkconf.has_connect(self._assignment, manifest) else ""
        attached = AttachedJars(self._scala)
        attached.add(self._jars)  # before Spark starts: its conf may name their classes
        driver = Driver(
            self._scala, conf=values, connect_token=token, apart=self.isolates_users, places=apart.places(self._place)
        )
        if layers.has_photon(manifest):
            self._report.log(f"Photon is DataFusion Comet {driver.native_engine()}")
        driver.bound_ports()
        driver.keep_files_apart()
        driver.hide_secret()
        self._attached = attached
        return driver

    def _keep_catalog(self, driver: Driver) -> None:
        """Makes the first session, with the workspace's catalog, and opens Spark to others. If the JVM was not warm, after READY:
        its two seconds of CPU time are the starting executor's until then, and the first kernel takes longer."""
        driver.keep_sessions(self._jvm.manifest.get("classes", ""))
        if self._place.metastore and self._keeps_writes:
            self._metastore = MetastoreWay(driver.scala.jvm, self._report)
            self._run(self._serve_metastore)
        way = self._metastore
        if self._keeps_writes:
            for note in driver.finish_writes(way and way.channel, self._place.older_writes_dir):
                self._report.log(f"A write that was cut off cannot be finished or undone: {note}")
        if self._keeps_catalog and way is not None:
            older, cluster_id = self._place.older_catalog_dir, self._assignment["cluster_id"]
            for note in driver.share_catalog(way.channel, older, cluster_id, apart=self.isolates_users):
                self._report.log(f"A table of this cluster cannot be moved to the workspace's metastore: {note}")
        self.access.let_in()
        self._report.log("sessions may be made")

    def _serve_metastore(self) -> None:
        assert self._metastore is not None  # noqa: S101 - `_keep_catalog` has set it
        self._metastore.run(lambda: self.stopping or not self._jvm.alive)

    def _watch_workers(self, master: Master) -> None:
        changed = time.monotonic()
        last: tuple[str, ...] = ()
        for look in itertools.count():
            if self.stopping or not self._jvm.alive:
                return
            settled = self._report.ready and time.monotonic() - changed > SETTLED_S
            same = settled and look % NAMES_EVERY and self.sample(master.alive, -1) == len(last)
            alive = last if same else self.sample(master.alive_workers, last)
            if alive != last:
                last, changed = alive, time.monotonic()
                self._report.tell(alive_workers=alive)
            unchanged_s = time.monotonic() - changed
            pace_s = FASTEST_S if unchanged_s < 2.0 and not last else FAST_S  # the cluster waits for them
            self._stopping.wait(2 * SLOW_S if self._report.ready and unchanged_s > SETTLED_S else pace_s)

    def _watch_activity(self) -> None:
        driver = self._driver
        assert driver is not None  # noqa: S101 - `_take` has set it before starting this
        looked = 0.0
        self._loads.begin()
        while not self._stopping.wait(LOAD_S) and self._jvm.alive:
            gets_ready = self._gets_ready  # it may be over when Spark has answered
            activity = self.sample(driver.activity, None)
            nobodys = gets_ready and self.unused()
            if activity is not None and nobodys:
                self._meter.overlook(activity)
                activity = activity._replace(busy=False)
            if activity is not None:
                self.seen = (self.seen[0] + 1, activity.busy)
            if activity is not None and not nobodys:  # what is nobody's is no load to add workers for
                if self._master is not None:
                    self._loads.tell(driver, self._master, activity)
                else:
                    self._loads.count_tasks(driver, activity)
            if time.monotonic() < looked + SLOW_S:
                continue
            looked = time.monotonic()
            if self.sample(driver.stopped, False):
                if not self._proven:
                    return  # the first job fails with it, and knows why
                self._report.fail(failures.failure("SPARK_ERROR", _STOPPED, failures.tail([self._jvm.log_file])))
                return
            if activity is None:
                continue
            used = (*activity.connect, self.access.connects)
            told = self._meter.sample(activity._replace(connect=used), self._commands.activity(), now_ms())
            if told is not None:
                self._report.tell(**told)

    def _watch_leaving(self) -> None:
        driver = self._driver
        assert driver is not None  # noqa: S101 - `_take` has set it before starting this
        leavers = Leavers(driver, self._report)
        while not self._stopping.wait(SLOW_S) and self._jvm.alive:
            try:
                self.sample(leavers.look, None)
            except Exception as error:  # it only shortens a wait that ends anyway, so its failure must not end a cluster
                self._report.log(f"workers that leave are not watched any more: {error}")
                return
