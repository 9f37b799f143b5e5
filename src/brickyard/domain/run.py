"""Runs, as stored and as the planner uses them.

    a run       has tasks, and each task has attempts (the first one and its retries)
    an attempt  PENDING -> STARTING -> RUNNING -> CLOSING -> DONE; any phase before CLOSING may go straight to CLOSING

An attempt has the same run id everywhere, including on the driver. Only the driver knows whether it has begun an attempt, so the
driver is asked, and nothing runs twice no matter which process is killed when. Times are epoch milliseconds; 0 and "" mean never
and none.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from brickyard.domain.spec import ClusterSpec
from brickyard.domain.tasks import SubmitTask


class RunLifeCycleState(StrEnum):
    """The progress of a run: the older of the API's two enums."""

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
    """The progress of a run: the newer enum."""

    BLOCKED = "BLOCKED"
    PENDING = "PENDING"
    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    TERMINATED = "TERMINATED"
    TERMINATING = "TERMINATING"
    WAITING = "WAITING"


class RunResultState(StrEnum):
    """The outcome of a run or a task."""

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
    LIBRARY_INSTALLATION_ERROR = "LIBRARY_INSTALLATION_ERROR"
    MAX_SPARK_CONTEXTS_EXCEEDED = "MAX_SPARK_CONTEXTS_EXCEEDED"
    RUN_EXECUTION_ERROR = "RUN_EXECUTION_ERROR"
    SKIPPED = "SKIPPED"
    STORAGE_ACCESS_ERROR = "STORAGE_ACCESS_ERROR"
    SUCCESS = "SUCCESS"
    SUCCESS_WITH_FAILURES = "SUCCESS_WITH_FAILURES"
    UNAUTHORIZED_ERROR = "UNAUTHORIZED_ERROR"  # its user may no longer run code there: no attempt can succeed
    USER_CANCELED = "USER_CANCELED"


class TerminationType(StrEnum):
    """Who was at fault."""

    CLIENT_ERROR = "CLIENT_ERROR"
    CLOUD_FAILURE = "CLOUD_FAILURE"
    INTERNAL_ERROR = "INTERNAL_ERROR"
    SUCCESS = "SUCCESS"


class AttemptPhase(StrEnum):
    """The progress of an attempt."""

    PENDING = "PENDING"  # its cluster is being prepared
    STARTING = "STARTING"  # its driver is chosen and recorded; the driver may not have heard of the attempt yet
    RUNNING = "RUNNING"  # the driver has accepted it
    CLOSING = "CLOSING"  # its result is known; its context or cluster is being ended
    DONE = "DONE"


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt at a task."""

    task_run_id: int
    number: int = 0
    phase: AttemptPhase = AttemptPhase.PENDING
    start_ms: int = 0
    cluster_id: str = ""
    awaited: int = 0  # the cluster incarnation that it waits for, once that is starting
    generation: int = 0  # the incarnation it runs on, from STARTING on
    driver_id: str = ""  # the instance of that incarnation's driver
    starting_ms: int = 0  # since when it is STARTING: its name on the driver begins with it
    begun_ms: int = 0  # when the driver accepted it
    decided_ms: int = 0  # when its result became known
    left: bool = False  # nothing of it is left on its driver
    ended_ms: int = 0
    result: RunResultState | None = None
    code: TerminationCode | None = None
    message: str = ""

    @property
    def decided(self) -> bool:
        """Its result is known."""
        return self.result is not None


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """A task and its progress. `task_run_id` is the id of its first attempt, even before there is one."""

    task_run_id: int
    spec: SubmitTask
    cluster: ClusterSpec | None = None  # the effective specification of `spec.new_cluster`
    pool_tags: dict[str, str] = {}  # what that cluster inherits from its pool
    attempts: tuple[Attempt, ...] = ()
    skipped: RunResultState | None = None  # it has not run and never will
    skipped_ms: int = 0
    retry_at_ms: int = 0  # when the next attempt starts

    @property
    def last(self) -> Attempt | None:
        """The newest attempt."""
        return self.attempts[-1] if self.attempts else None

    @property
    def result(self) -> RunResultState | None:
        """The task's result, or None until it is final."""
        if self.skipped is not None or self.retry_at_ms:
            return self.skipped
        return self.last.result if self.last is not None else None


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A run. Every run from `runs/submit` belongs to its own job, of which only the id exists."""

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

    def clusters_to_come(self, policy_id: str) -> int:
        """How many clusters its next pass will make under the policy. Tasks that wait for others do not count."""
        return sum(
            1
            for task in self.tasks
            if task.cluster is not None
            and task.cluster.policy_id == policy_id
            and not (task.attempts or task.skipped or task.spec.depends_on or self.cancelled_ms)
        )


class Conclusion(msgspec.Struct, frozen=True):
    """The result of an attempt, its code, and a sentence for people."""

    result: RunResultState
    code: TerminationCode
    message: str


class Output(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an attempt printed, and its error with the traceback."""

    logs: str = ""
    logs_truncated: bool = False
    error: str = ""
    error_trace: str = ""
