"""What a node does in its cluster, as far as drivers and workers have it in common.

Each role runs on threads of its own and tells how far it is through `Report`; it never raises into its caller.
"""

from __future__ import annotations

import base64
import secrets
import threading
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from py4j.protocol import Py4JError, Py4JJavaError

from ..jvm.errors import error_text
from ..jvm.launch import LaunchError
from ..jvm.process import Jvm
from ..jvm.scala import Scala
from ..spark.conf import Place
from . import failures
from .pulse import Pulse
from .report import Report

T = TypeVar("T")

DYING_S = 5.0  # a JVM that dies closes its connections before it is gone; it takes no longer than that


class Role:
    """A JVM, an assignment, and threads whose errors end in a status."""

    def __init__(self, *, jvm: Jvm, assignment: Mapping[str, Any], place: Place, report: Report) -> None:
        self._jvm = jvm
        self._assignment = assignment
        self._report = report
        self._place = place._replace(ui_key=base64.urlsafe_b64encode(secrets.token_bytes(32)).decode())
        self._stopping = threading.Event()
        self._scala: Scala | None = None
        self._pulse: Pulse | None = None

    def start(self) -> None:
        """Begin to take the role; returns at once."""
        self._jvm.on_end(self._jvm_ended)
        self._run(self._take)

    def stop(self, grace_s: float) -> None:
        """End it within about `grace_s`. Nothing is reported any more."""
        self._stopping.set()
        self._jvm.stop(grace_s)

    @property
    def silent_s(self) -> float:
        """For how long Spark has answered nothing; 0 while it starts."""
        return self._pulse.silent_s if self._pulse is not None else 0.0

    @property
    def isolates_users(self) -> bool:
        """Whether contexts get a session of Spark Connect, and nothing else of Spark."""
        return bool(self._assignment.get("user_isolation"))

    @property
    def stopping(self) -> bool:
        return self._stopping.is_set()

    @property
    def _started(self) -> bool:
        """Whether what fails now fails while it is in use; before, it is the start that fails."""
        return self._report.ready

    def _take(self) -> None:
        raise NotImplementedError

    def _feel_pulse(self, question: Callable[[], object]) -> None:
        """From now on Spark is to answer, and `silent_s` tells whether it does."""
        self._pulse = Pulse(question, stop=self._stopping)
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
        """Whether an error is but the first sign that the JVM is ending: that is reported where its exit code is known.

        Only an answer shows that it lives. Anything else may come from a connection that broke a moment before the end.
        """
        answered = isinstance(error, (Py4JJavaError, LaunchError))
        return self._jvm.ended(0 if answered else DYING_S)

    def _sample(self, question: Callable[[], T], otherwise: T) -> T:
        """An answer of the JVM, or `otherwise` when there is none now: one lost sample is no reason to end a cluster, and a
        dead JVM is reported elsewhere."""
        try:
            return question()
        except (Py4JError, OSError) as error:
            if not self.stopping and self._jvm.alive:
                self._report.log(f"Spark did not answer: {error_text(error).splitlines()[0]}")
            return otherwise

    def _failure(self, error: Exception) -> dict[str, Any]:
        log = failures.tail([self._jvm.log_file, self._jvm.stderr_file])
        worker = self._assignment["role"] == "worker"
        if self._started:
            code = "INSTANCE_UNREACHABLE" if worker else "DRIVER_UNEXPECTED_FAILURE"
            return failures.failure(code, f"Spark failed: {failures.plain_message(error_text(error))}", log)
        code = "WORKER_SETUP_FAILURE" if worker else "SPARK_STARTUP_FAILURE"
        if isinstance(error, LaunchError):
            return failures.failure(code, str(error))
        conf = self._assignment.get("spark_conf") or {}
        log_lines = failures.read_end(self._jvm.log_file)
        return failures.failure(
            code, failures.refused_conf(error_text(error), conf, executor=failures.lost_executor(log_lines)), log
        )

    def _jvm_ended(self, code: int) -> None:
        if not self.stopping:
            log = failures.tail([self._jvm.stderr_file, self._jvm.log_file])
            self._report.fail(failures.jvm_death(code, log, role=self._assignment["role"], ready=self._started))
