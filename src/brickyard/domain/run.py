"""Runs as the store keeps them and the planner reasons with them.

    a run       of tasks, each of which has attempts (the first one, and its retries)
    an attempt  PENDING -> STARTING -> RUNNING -> CLOSING -> DONE, and from anywhere before CLOSING straight to it

An attempt is known by its own run id everywhere, on the driver too: whether the driver began it is asked of the driver, so that
nothing runs twice whoever is killed when. Times are epoch milliseconds; 0 and "" mean never and none.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from brickyard.domain.spec import ClusterSpec
from brickyard.domain.tasks import SubmitTask


class RunLifeCycleState(StrEnum):
    """The older of the API's two words for how far a run has come."""

    BLOCKED = "BLOCKED"
    INTERNAL_ERROR = "INTERNAL_ERROR"
    PENDING = "PENDING"
    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    SKIPPED = "SKIPPED"
    TERMINATED = "TERMINATED"
    TERMINATING = "TERMINATING"
    WAITING_FOR_RETRY = "WAITING_FOR_RETRY"


class RunLifecycleStateV2State(StrEnum):
    """The newer one."""

    BLOCKED = "BLOCKED"
    PENDING = "PENDING"
    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    TERMINATED = "TERMINATED"
    TERMINATING = "TERMINATING"
    WAITING = "WAITING"


class RunResultState(StrEnum):
    """What became of a run or a task."""

    CANCELED = "CANCELED"
    DISABLED = "DISABLED"
    EXCLUDED = "EXCLUDED"
    FAILED = "FAILED"
    MAXIMUM_CONCURRENT_RUNS_REACHED = "MAXIMUM_CONCURRENT_RUNS_REACHED"
    SUCCESS = "SUCCESS"
    SUCCESS_WITH_FAILURES = "SUCCESS_WITH_FAILURES"
    TIMEDOUT = "TIMEDOUT"
    UPSTREAM_CANCELED = "UPSTREAM_CANCELED"
    UPSTREAM_FAILED = "UPSTREAM_FAILED"


class TerminationCode(StrEnum):
    """Why a run or a task ended: those of the API's codes that occur here."""

    CANCELED = "CANCELED"
    CLUSTER_ERROR = "CLUSTER_ERROR"
    DISABLED = "DISABLED"
    DRIVER_ERROR = "DRIVER_ERROR"
    INVALID_CLUSTER_REQUEST = "INVALID_CLUSTER_REQUEST"
    MAX_SPARK_CONTEXTS_EXCEEDED = "MAX_SPARK_CONTEXTS_EXCEEDED"
    RUN_EXECUTION_ERROR = "RUN_EXECUTION_ERROR"
    SKIPPED = "SKIPPED"
    STORAGE_ACCESS_ERROR = "STORAGE_ACCESS_ERROR"
    SUCCESS = "SUCCESS"
    SUCCESS_WITH_FAILURES = "SUCCESS_WITH_FAILURES"
    USER_CANCELED = "USER_CANCELED"


class TerminationType(StrEnum):
    """Whose fault it was."""

    CLIENT_ERROR = "CLIENT_ERROR"
    CLOUD_FAILURE = "CLOUD_FAILURE"
    INTERNAL_ERROR = "INTERNAL_ERROR"
    SUCCESS = "SUCCESS"


class Phase(StrEnum):
    """How far an attempt has come."""

    PENDING = "PENDING"  # its cluster is being prepared
    STARTING = "STARTING"  # its driver is chosen and on record; it may or may not have heard of the attempt
    RUNNING = "RUNNING"  # the driver has taken it
    CLOSING = "CLOSING"  # its result is known; what it ran in is being ended
    DONE = "DONE"


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt at a task."""

    task_run_id: int
    number: int = 0
    phase: Phase = Phase.PENDING
    start_ms: int = 0
    cluster_id: str = ""
    awaited: int = 0  # the incarnation of the cluster that is to come up for it, once one is on its way
    generation: int = 0  # the incarnation that it runs on, from STARTING on
    driver_id: str = ""  # the instance of that incarnation's driver
    begun_ms: int = 0  # when the driver took it
    decided_ms: int = 0  # when its result was known
    left: bool = False  # nothing of it is on its driver any more
    ended_ms: int = 0
    result: RunResultState | None = None
    code: TerminationCode | None = None
    message: str = ""

    @property
    def decided(self) -> bool:
        """Its result is known."""
        return self.result is not None


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """A task and what has become of it. `task_run_id` is that of its first attempt, whether or not there has been one."""

    task_run_id: int
    spec: SubmitTask
    cluster: ClusterSpec | None = None  # the effective specification of `spec.new_cluster`
    pool_tags: dict[str, str] = {}  # what that cluster inherits from its pool
    attempts: tuple[Attempt, ...] = ()
    skipped: RunResultState | None = None  # it never ran, and never will
    skipped_ms: int = 0
    retry_at_ms: int = 0  # another attempt follows then

    @property
    def last(self) -> Attempt | None:
        """The newest attempt."""
        return self.attempts[-1] if self.attempts else None

    @property
    def result(self) -> RunResultState | None:
        """What became of it; None as long as anything may still come."""
        if self.skipped is not None or self.retry_at_ms:
            return self.skipped
        return self.last.result if self.last is not None else None


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A run. Every run of `runs/submit` is of a job of its own, which nothing else is known of but its id."""

    run_id: int
    job_id: int
    run_name: str
    creator_user_name: str
    created_ms: int
    tasks: tuple[Task, ...]
    timeout_seconds: int = 0
    idempotency_token: str = ""
    cancelled_ms: int = 0
    cancelled_by: str = ""
    timed_out: bool = False
    ended_ms: int = 0
    result: RunResultState | None = None
    message: str = ""
    version: int = 0


class Conclusion(msgspec.Struct, frozen=True):
    """What became of an attempt, why, and in a sentence for people."""

    result: RunResultState
    code: TerminationCode
    message: str


class Output(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an attempt left behind: what it printed, and its error with the traceback."""

    logs: str = ""
    logs_truncated: bool = False
    error: str = ""
    error_trace: str = ""
