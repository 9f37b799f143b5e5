"""A node's role in its cluster: what drivers and workers have in common.

Each role runs on its own threads and reports its progress through `Report`; it never raises into its caller.
"""

from __future__ import annotations

import base64
import secrets
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from py4j.protocol import Py4JError, Py4JJavaError

from ..jvm.errors import error_text
from ..jvm.launch import LaunchError
from ..jvm.process import Jvm
from ..jvm.scala import Scala
from ..spark.place import Place
from . import failures
from .killed import KilledProcesses
from .pulse import Pulse
from .report import Report

if TYPE_CHECKING:
    from ..documents import AssignmentDocument, FailureDocument

T = TypeVar("T")

DYING_S = 5.0  # a dying JVM closes its connections before it is gone; it takes at most this long


class Role:
    """A JVM, an assignment, and threads whose errors end in a status."""

    def __init__(self, *, jvm: Jvm, assignment: AssignmentDocument, place: Place, report: Report) -> None:
        self._jvm = jvm
        self._assignment = assignment
        self._report = report
        self._place = place._replace(ui_key=base64.urlsafe_b64encode(secrets.token_bytes(32)).decode())
        self._stopping = threading.Event()
        self._scala: Scala | None = None
        self._pulse: Pulse | None = None
        self.numbers: dict[str, float] = {}  # what Spark says of itself, for the node's samples; replaced value by value

    def start(self) -> None:
        """Begins to take the role; returns immediately."""
        self._jvm.on_end(self._jvm_ended)
        self._run(self._take)

    def stop(self, grace_s: float) -> None:
        """Ends the role within about `grace_s`. Reports nothing any more."""
        self._stopping.set()
        self._jvm.stop(grace_s)

    @property
    def silent_s(self) -> float:
        """Returns for how long Spark has not answered; 0 while it starts."""
        return self._pulse.silent_s if self._pulse is not None else 0.0

    @property
    def killed(self) -> KilledProcesses:
        """What is known of processes of the cluster that were killed."""
        return KilledProcesses(Path(self._place.scratch_dir if self._place.cluster_dir else f"{self._place.node_dir}/work"))

    def note_killed(self, why: str) -> None:
        """Notes why a process of this node was killed."""
        self.killed.note(self._place.host, why)

    @property
    def isolates_users(self) -> bool:
        """Whether contexts get only a Spark Connect session and no other access to Spark."""
        return bool(self._assignment.get("user_isolation"))

    @property
    def stopping(self) -> bool:
        return self._stopping.is_set()

    @property
    def _started(self) -> bool:
        """Whether a failure happens in use rather than during the start."""
        return self._report.ready

    def _take(self) -> None:
        raise NotImplementedError

    def beat(self) -> object:
        raise NotImplementedError

    def measure(self) -> None:
        """A worker has no numbers."""

    def _feel_pulse(self) -> None:
        """Begins to check whether Spark answers; `silent_s` gives the result."""
        self._pulse = Pulse(self, stop=self._stopping)
        self._pulse.start()

    def _run(self, work: Callable[[], None]) -> None:
        threading.Thread(target=self._guarded, args=(work,), name=work.__name__.strip("_"), daemon=True).start()

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:
            if not self.stopping and not self._is_its_death(error):
                self._report.fail(self._failure(error))

    def _is_its_death(self, error: Exception) -> bool:
        """Whether an error is only the first sign that the JVM is ending, which is reported where its exit code is known.

        Only an answer shows that the JVM is alive. Any other error may come from a connection that broke just before the end.
        """
        answered = isinstance(error, (Py4JJavaError, LaunchError))
        return self._jvm.ended(0 if answered else DYING_S)

    def sample(self, question: Callable[[], T], otherwise: T) -> T:
        """Returns the JVM's answer, or `otherwise` if there is none now: one lost sample must not end a cluster, and a dead
        JVM is reported elsewhere."""
        try:
            return question()
        except (Py4JError, OSError) as error:
            if not self.stopping and self._jvm.alive:
                self._report.log(f"Spark did not answer: {error_text(error).splitlines()[0]}")
            return otherwise

    def _failure(self, error: Exception) -> FailureDocument:
        log = failures.tail([self._jvm.log_file, self._jvm.stderr_file])
        worker = self._assignment["role"] == "worker"
        if self._started:
            code = "INSTANCE_UNREACHABLE" if worker else "DRIVER_UNEXPECTED_FAILURE"
            return failures.failure(code, f"Spark failed: {failures.plain_message(error_text(error))}", log)
        code = "WORKER_SETUP_FAILURE" if worker else "SPARK_STARTUP_FAILURE"
        if isinstance(error, LaunchError):
            return failures.failure(code, str(error))
        conf = self._assignment.get("spark_conf") or {}
        lost = failures.lost_executor(failures.read_end(self._jvm.log_file))
        text, lines = error_text(error), self._executor_lines() if lost else ""
        if lines and "SparkContext" in text:  # Spark has given up, because of its executors
            lost, log = failures.plain_message(lines), lines
        return failures.failure(code, failures.refused_conf(text, conf, executor=lost), log)

    def _executor_lines(self) -> str:
        """Returns the last lines of an executor that has ended; "" if there are none."""
        return ""

    def _jvm_ended(self, code: int) -> None:
        if not self.stopping:
            log = failures.tail([self._jvm.stderr_file, self._jvm.stdout_file, self._jvm.log_file])
            said = "" if self._started else failures.output(self._jvm.outputs)
            self._report.fail(failures.jvm_death(code, log, role=self._assignment["role"], ready=self._started, said=said))
