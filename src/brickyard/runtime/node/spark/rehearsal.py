"""Has a warm node's executor run once, on a master, a worker and a driver of its own, so that its JVM waits afterwards."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ..jvm.process import usable
from ..jvm.scala import Scala
from . import conf as sparkconf
from . import usual
from .driver import Driver
from .pauses import Pauses
from .place import Place
from .practice import forget_events
from .standalone import Master, Worker

if TYPE_CHECKING:
    from ..documents import AssignmentDocument, ManifestDocument

PATIENCE_S = 120.0


class Executors(Protocol):
    """The node's waiting executor (waiting/executor.py)."""

    def open(self) -> None:
        """Has Spark's worker start the next executor in a JVM that waits afterwards. Raises OSError."""
        ...

    def settle(self) -> None:
        """No executor of a rehearsal is started any more: the next one is a cluster's."""
        ...


class Rehearsal:
    """One rehearsal. `run` is for one thread, `cut` for any other."""

    def __init__(
        self,
        scala: Scala,
        assignment: AssignmentDocument,
        manifest: ManifestDocument,
        place: Place,
        *,
        executors: Executors,
        pauses: Pauses,
    ) -> None:
        """`assignment` has the node's cores and memory: executors of clusters on such nodes are as large by default."""
        self._scala, self._assignment, self._manifest, self._place = scala, assignment, manifest, place
        self._executors, self._pauses = executors, pauses
        self._work_dir = Path(place.node_dir, "work", "executors")
        self._cut = threading.Event()
        self._driver: Driver | None = None

    def run(self) -> None:
        """Raises Py4JError, OSError."""
        place, assignment = self._place, self._assignment
        master = Master(self._scala, conf=sparkconf.master_conf(assignment, place), host=place.host)
        try:
            worker = Worker(
                self._scala, conf=sparkconf.worker_conf(assignment, place), host=place.host, cores=assignment["cores"],
                memory_mb=assignment["memory_mb"], work_dir=str(self._work_dir),
            )  # fmt: skip
            try:
                worker.join(master.url)
                if worker.await_registration(PATIENCE_S, self._cut):
                    self._executors.open()
                    self._drive(master.url)
            finally:
                worker.stop()
        finally:
            master.stop()
            self._executors.settle()
            forget_events(Path(place.node_dir))
            for left in (self._work_dir, *Path(place.node_dir, "work", "local").glob("*/executor-*")):
                shutil.rmtree(str(left), ignore_errors=True)

    def cut(self) -> None:
        """Has it end soon: what the executor has seen until then has to do."""
        self._cut.set()
        driver = self._driver
        if driver is not None:
            driver.cancel_all()

    def _drive(self, master_url: str) -> None:
        archive = usable(self._manifest.get("executor_archive", ""))
        conf = sparkconf.driver_conf(
            self._assignment, self._manifest, self._place, master_url=master_url, executor_archive=archive
        ).values
        # An executor that can leave gracefully handles a signal for its JVM's whole life; the next one needs its own handler.
        conf["spark.decommission.enabled"] = "false"
        self._driver = driver = Driver(self._scala, conf=conf)
        patience = threading.Timer(PATIENCE_S, self.cut)
        patience.start()
        try:
            for piece in self._pauses.between(self._pieces(driver), self._cut):
                piece()
        finally:
            self._driver = None
            patience.cancel()
            driver.stop()

    def _pieces(self, driver: Driver) -> Iterator[Callable[[], Any]]:
        """The most common work of a first command. The first time loads classes, the second has methods compiled."""
        yield driver.first_job
        session = self._scala.session()
        yield session.sql(usual.aggregation(7)).collectAsList
        yield session.sql(usual.aggregation(7)).collectAsList
        yield session.sql(usual.join(5)).collectAsList
