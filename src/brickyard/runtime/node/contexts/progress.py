"""The Spark jobs that commands run, for those who wait for their results.

Asking Spark takes milliseconds, or forever if its JVM hangs, while the status of a command is answered at once: so Spark is asked
in the background, when somebody looks, and a look shows what the one before has found.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

EVERY_S = 0.5  # how often Spark is asked about a command, at most
KEPT = 200  # commands
MAX_JOBS = 20  # of a command that are told

Jobs = list[dict[str, Any]]


class RunningJobs:
    """Of all commands of a node. `ask` returns the jobs of one command, and may block. Methods may be called from any thread."""

    def __init__(self, ask: Callable[[str], Jobs]) -> None:
        self._ask = ask
        self._lock = threading.Lock()
        self._known: OrderedDict[str, tuple[float, Jobs]] = OrderedDict()  # by command: when Spark was asked, and its answer
        self._asking: set[str] = set()
        self._closed = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="spark-jobs")  # one: a JVM that hangs holds no more

    def of(self, group: str) -> Jobs:
        """Returns the jobs as of the last look, and has the next one made if that is old. Never blocks."""
        with self._lock:
            asked, jobs = self._known.get(group, (0.0, []))
            if not self._closed and group not in self._asking and time.monotonic() - asked >= EVERY_S:
                self._asking.add(group)
                self._thread.submit(self._look, group)
            return jobs

    def close(self) -> None:
        with self._lock:
            self._closed = True
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _look(self, group: str) -> None:
        try:
            jobs = self._ask(group)[:MAX_JOBS]
        except Exception:  # no driver, or one that is ending: a command without progress is still a command
            jobs = []
        with self._lock:
            self._asking.discard(group)
            self._known[group] = (time.monotonic(), jobs)
            self._known.move_to_end(group)
            while len(self._known) > KEPT:
                self._known.popitem(last=False)


def ended_jobs(jobs: list[dict[str, Any]], group: str) -> Jobs:
    """Returns a command's jobs with their times, out of Spark's (its REST API's JobData). Pure."""
    return [
        {
            "job_id": each["jobId"],
            "began_ms": _epoch_ms(each.get("submissionTime")),
            "ended_ms": _epoch_ms(each.get("completionTime")),
            "status": str(each.get("status", "")),
            "tasks": max(0, each["numTasks"] - each.get("numSkippedTasks", 0)),
            "stages": max(0, len(each["stageIds"]) - each.get("numSkippedStages", 0)),
        }
        for each in _of_group(jobs, group)
    ]


def _epoch_ms(time_of_job: Any) -> int:
    """A java.util.Date as Jackson writes it; 0 if there is none."""
    return time_of_job if isinstance(time_of_job, int) else 0


def _of_group(jobs: list[dict[str, Any]], group: str) -> list[dict[str, Any]]:
    """The jobs of a command, oldest first. With Spark Connect, the command is a tag of the job:
    `SparkConnect_OperationTag_User_..._Session_..._Tag_<command>`."""
    return [
        each
        for each in sorted(jobs, key=lambda job: int(job["jobId"]))
        if each.get("jobGroup") == group or any(str(tag).endswith(f"_Tag_{group}") for tag in each.get("jobTags") or ())
    ]


def jobs_of(running: list[dict[str, Any]], group: str) -> Jobs:
    """Returns those of Spark's running jobs (its REST API's JobData) that belong to a command. Pure."""
    return [
        {
            "job_id": each["jobId"],
            "tasks": max(0, each["numTasks"] - each.get("numSkippedTasks", 0)),
            "completed_tasks": each["numCompletedTasks"],
            "active_tasks": each["numActiveTasks"],
            "failed_tasks": each["numFailedTasks"],
            "stages": max(0, len(each["stageIds"]) - each.get("numSkippedStages", 0)),
            "completed_stages": each["numCompletedStages"],
        }
        for each in _of_group(running, group)
    ]
