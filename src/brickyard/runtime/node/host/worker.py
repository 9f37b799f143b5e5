"""The role of a worker."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ..jvm.launch import LaunchError
from ..jvm.process import Jvm
from ..jvm.scala import Scala
from ..spark import conf as sparkconf
from ..spark import resources
from ..spark.leaving import nudge_executors
from ..spark.place import Place
from ..spark.standalone import Executor, Worker
from .report import Report
from .role import Role
from .startwatch import EndedExecutors

if TYPE_CHECKING:
    from ..documents import AssignmentDocument

REGISTER_TIMEOUT_S = 120.0
FAST_S, SLOW_S = 0.3, 1.0
NUDGE_S = 4.0  # between reminders to executors that are still on a retiring worker


class WorkerRole(Role):
    """A worker: its JVM is up and warm before its master is known; READY once the master has accepted it."""

    def __init__(self, *, jvm: Jvm, assignment: AssignmentDocument, place: Place, report: Report) -> None:
        super().__init__(jvm=jvm, assignment=assignment, place=place, report=report)
        self._worker: Worker | None = None
        self._master_url = self._assignment.get("master_url") or ""
        self._master_known = threading.Event()
        self._retiring = threading.Event()
        if self._master_url:
            self._master_known.set()

    def join(self, master_url: str) -> None:
        """Sets the master. Joining the same one again does nothing."""
        if not self._master_known.is_set():
            self._master_url = master_url
            self._master_known.set()

    def retire(self) -> None:
        """Leaves gracefully; reports phase `retired` when nothing of value is left."""
        self._report.tell(phase="retiring", message="leaving the cluster: running tasks finish, blocks move to other workers")
        self._retiring.set()
        self._master_known.set()

    def fail_executors(self, why: str) -> None:
        """Reports that the node is ended for what its executors took. Returns once the master knows. Raises Py4JError."""
        if self._worker is not None and self._worker.joined:
            self._worker.fail_executors(why)

    def beat(self) -> object:
        return self._worker is not None and self._worker.registered()

    def _take(self) -> None:
        self._report.tell(phase="starting", message="waiting for the driver's master")
        self._scala = scala = Scala(self._jvm.gateway)
        assignment = self._assignment
        self._worker = worker = Worker(
            scala, conf=sparkconf.worker_conf(assignment, self._place), host=self._place.host, cores=assignment["cores"],
            memory_mb=assignment["memory_mb"], work_dir=self._place.node_dir + "/work/executors",
            resources_file=resources.write(assignment, self._place.node_dir, resources.WORKER),
        )  # fmt: skip
        self._master_known.wait()
        if self._retiring.is_set():
            self._report.tell(phase="retired", message="")
            return
        self._report.tell(worker_address=worker.address, message="registering with the master")
        worker.join(self._master_url)
        self._await_registration(worker)
        if not self._retiring.is_set():
            self._report.tell(phase="ready", message="")
        self._feel_pulse()
        self._watch(worker)

    def _await_registration(self, worker: Worker) -> None:
        if not worker.await_registration(REGISTER_TIMEOUT_S, self._stopping):
            raise LaunchError(
                f"the worker could not register with the master at {self._master_url} within {REGISTER_TIMEOUT_S:.0f} s."
            )

    def _watch(self, worker: Worker) -> None:
        """Keeps the executors' logs, and follows a retirement to its end."""
        asked, nudged = False, 0.0
        work, shared = Path(self._place.node_dir, "work", "executors"), Path(self._place.scratch_dir)
        ended = EndedExecutors(work=work, shared=shared, worker=worker.address) if self._place.cluster_dir else None
        while not self.stopping and self._jvm.alive:
            executors = self.sample(worker.executors, None)
            if executors is None:
                self._stopping.wait(SLOW_S)
                continue
            self._keep_logs(executors)
            if ended is not None:
                ended.note((executor.app_id, str(executor.number)) for executor in executors)
            if self._retiring.is_set() and not asked:
                worker.decommission()
                asked, nudged = True, time.monotonic()
            elif asked and not executors:
                self._report.tell(phase="retired", message="")
                return
            elif asked and time.monotonic() - nudged > NUDGE_S:
                nudge_executors(self._jvm.pid)
                nudged = time.monotonic()
            self._retiring.wait(SLOW_S) if not asked else self._stopping.wait(FAST_S)

    def _keep_logs(self, executors: list[Executor]) -> None:
        """Links the executors' output into the logs directory, since Spark removes it with the worker's directory: `stdout` and
        `stderr` in `executor/<application>/<number>/`, and what Spark has rolled of them."""
        for executor in executors:
            name = Path(executor.app_id, str(executor.number))
            source = Path(self._place.node_dir, "work", "executors", name)
            target = self._jvm.node_dir / "logs" / "executor" / name
            with contextlib.suppress(OSError):  # nothing is there yet: the next round links it
                found = [each for each in os.listdir(source) if each.startswith(("stdout", "stderr"))]  # noqa: PTH208 - names only
                target.mkdir(parents=True, exist_ok=True)
                for each in sorted(found, key=len, reverse=True):  # rolled ones first, so that no output is without a name
                    link_again(source / each, target / each)


def link_again(source: Path, target: Path) -> None:
    """Makes `target` a link to the file that `source` is now. Raises OSError."""
    if target.exists() and target.samefile(source):
        return
    fresh = target.with_name(f".{target.name}")
    with contextlib.suppress(FileNotFoundError):
        fresh.unlink()
    os.link(source, fresh)
    fresh.replace(target)
