"""Runs, as stored and as the planner uses them.

    a run       has tasks, and each task has attempts (the first one and its retries)
    an attempt  PENDING -> STARTING -> RUNNING -> CLOSING -> DONE; any phase before CLOSING may go straight to CLOSING

An attempt has the same run id everywhere, including on the driver. Only the driver knows whether it has begun an attempt, so the
driver is asked, and nothing runs twice no matter which process is killed when. Times are epoch milliseconds; 0 and "" mean never
and none.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

import msgspec

from brickyard.domain.notifications import Notifying
from brickyard.domain.spec import ClusterSpec
from brickyard.domain.sqltasks import SqlScript, SqlTable
from brickyard.domain.tasks import JobCluster, SubmitTask


class RunType(StrEnum):
    """How a run was created."""

    JOB_RUN = "JOB_RUN"
    SUBMIT_RUN = "SUBMIT_RUN"
    WORKFLOW_RUN = "WORKFLOW_RUN"  # by dbutils.notebook.run, which makes no runs here


class TriggerType(StrEnum):
    """What began a run."""

    CONTINUOUS = "CONTINUOUS"
    CONTINUOUS_RESTART = "CONTINUOUS_RESTART"
    FILE_ARRIVAL = "FILE_ARRIVAL"
    ONE_TIME = "ONE_TIME"
    PERIODIC = "PERIODIC"
    RETRY = "RETRY"
    RUN_JOB_TASK = "RUN_JOB_TASK"
    TABLE = "TABLE"


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


SUCCEEDED = (RunResultState.SUCCESS, RunResultState.SUCCESS_WITH_FAILURES)
FAILED = (RunResultState.FAILED, RunResultState.TIMEDOUT)


class TerminationCode(StrEnum):
    """Why a run or a task ended: those of the API's codes that occur here."""

    CANCELED = "CANCELED"
    CLUSTER_ERROR = "CLUSTER_ERROR"
    DISABLED = "DISABLED"
    DRIVER_ERROR = "DRIVER_ERROR"
    INVALID_CLUSTER_REQUEST = "INVALID_CLUSTER_REQUEST"
    INVALID_RUN_CONFIGURATION = "INVALID_RUN_CONFIGURATION"
    LIBRARY_INSTALLATION_ERROR = "LIBRARY_INSTALLATION_ERROR"
    MAX_CONCURRENT_RUNS_EXCEEDED = "MAX_CONCURRENT_RUNS_EXCEEDED"
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


class IterationError(msgspec.Struct, frozen=True, kw_only=True):
    """An error of iterations, and how many of them had it."""

    message: str
    code: TerminationCode
    count: int = 1


class ForEach(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of an attempt at a for-each task. Iterations that are over are counted here, and kept beside the run."""

    inputs: tuple[Any, ...]
    todo: tuple[int, ...] | None = None  # the numbers of the inputs that run; None: all
    begun: int = 0
    succeeded: int = 0
    failed: int = 0
    failures: tuple[int, ...] = ()  # their numbers
    errors: tuple[IterationError, ...] = ()

    @property
    def numbers(self) -> Sequence[int]:
        """The inputs that run, in their order."""
        return range(len(self.inputs)) if self.todo is None else self.todo

    @property
    def before(self) -> int:
        """How many iterations have succeeded before a repair."""
        return len(self.inputs) - len(self.numbers)


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
    outcome: str = ""  # of a condition: "true" or "false"
    warned_ms: int = 0  # when it was found to take longer than its health rule allows
    values: dict[str, Any] = {}  # that it has set for other tasks
    for_each: ForEach | None = None
    child_run_id: int = 0  # the run of another job that it has made and waits for
    rows: list[dict[str, str | None]] = []  # of a SQL task's result, as many as other tasks may refer to

    @property
    def decided(self) -> bool:
        """Its result is known."""
        return self.result is not None


class Iteration(msgspec.Struct, frozen=True, kw_only=True):
    """Which item of a for-each task's inputs a task runs for."""

    of: int  # the attempt at the for-each task
    number: int
    input: Any


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """A task and its progress. `task_run_id` is the id of its first attempt since the latest repair, even before there is one."""

    task_run_id: int
    spec: SubmitTask
    cluster: ClusterSpec | None = None  # the effective specification of its job cluster, its own or a shared one
    pool_tags: dict[str, str] = {}  # what that cluster inherits from its pool
    attempts: tuple[Attempt, ...] = ()
    repaired: int = 0  # how many attempts there were before the latest repair
    skipped: RunResultState | None = None  # it has not run and never will
    skipped_ms: int = 0
    retry_at_ms: int = 0  # when the next attempt starts
    iteration: Iteration | None = None

    @property
    def key(self) -> str:
        """Its name among the tasks and iterations of its run."""
        each = self.iteration
        return self.spec.task_key if each is None else f"{self.spec.task_key}/{each.of}/{each.number}"

    @property
    def last(self) -> Attempt | None:
        """The newest attempt, if there is one since the latest repair."""
        return self.attempts[-1] if len(self.attempts) > self.repaired else None

    @property
    def result(self) -> RunResultState | None:
        """The task's result, or None until it is final."""
        if self.skipped is not None or self.retry_at_ms:
            return self.skipped
        return self.last.result if self.last is not None else None


class SharedCluster(msgspec.Struct, frozen=True, kw_only=True):
    """A job cluster that tasks name by its key. One that has ended is replaced when another attempt needs it."""

    key: str
    requested: ClusterSpec
    cluster: ClusterSpec  # the effective specification
    pool_tags: dict[str, str] = {}
    cluster_id: str = ""  # the newest one
    made: int = 0  # how many there were


class JobParameter(msgspec.Struct, frozen=True, kw_only=True):
    """A parameter of the job, as it is for one run."""

    name: str
    default: str = ""
    value: str = ""


class Period(msgspec.Struct, frozen=True, kw_only=True):
    """A run as it was made (`repair_id` 0), or a repair of it."""

    repair_id: int
    began_ms: int
    ended_ms: int
    result: RunResultState | None
    message: str
    task_run_ids: tuple[int, ...]


class Parent(msgspec.Struct, frozen=True, kw_only=True):
    """What has made a run: an attempt at a task that runs a job. `jobs`: its job, and those above it, the uppermost first."""

    run_id: int
    task_run_id: int
    jobs: tuple[int, ...]


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A run of a job, or from `runs/submit`. The latter belongs to its own job, of which only the id exists.

    `creator_user_name` is whose rights it has. A queued run begins when fewer than `max_concurrent` of its job's runs are active.
    """

    run_id: int
    job_id: int
    run_name: str
    creator_user_name: str
    created_ms: int
    tasks: tuple[Task, ...]
    iterations: tuple[Task, ...] = ()  # of for-each tasks, until they are over
    parent: Parent | None = None
    type: RunType = RunType.SUBMIT_RUN
    trigger: TriggerType = TriggerType.ONE_TIME
    triggered_by: dict[str, str] = {}  # what {{job.trigger.NAME}} refers to, by NAME
    notifying: Notifying = Notifying()  # who hears of the run itself; tasks have their own
    told: tuple[str, ...] = ()  # the events of the run and its attempts for which there were notices
    warned_ms: int = 0  # when it was found to take longer than its health rule allows
    shared: tuple[SharedCluster, ...] = ()
    parameters: tuple[JobParameter, ...] = ()
    overrides: dict[str, Any] = {}  # the parameters in the older forms, by the names of run-now
    max_concurrent: int = 0  # 0: any number
    queued: bool = False
    dequeued_ms: int = 0  # when it left the queue
    description: str = ""
    timeout_seconds: int = 0
    idempotency_token: str = ""
    cancelled_ms: int = 0
    cancelled_by: str = ""
    timed_out: bool = False
    task_retries: int = 0  # how often each task that fails is tried again: of a continuous job
    abandoned_for: str = ""  # the task whose failure has ended such a run
    ended_ms: int = 0
    result: RunResultState | None = None
    message: str = ""
    history: tuple[Period, ...] = ()  # before the latest repair
    repair_id: int = 0  # the latest repair
    repaired_ms: int = 0
    version: int = 0

    @property
    def began_ms(self) -> int:
        """When it was made, or repaired for the last time. Whose turn it is among the runs of a job goes by this."""
        return self.repaired_ms or self.created_ms

    @property
    def period(self) -> Period:
        """The run since its latest repair, with the tasks that belong to that."""
        earlier = {each for period in self.history for each in period.task_run_ids}
        found = [name for task in self.tasks for name in (*(each.task_run_id for each in task.attempts), task.task_run_id)]
        return Period(
            repair_id=self.repair_id,
            began_ms=self.began_ms,
            ended_ms=self.ended_ms,
            result=self.result,
            message=self.message,
            task_run_ids=tuple(each for each in dict.fromkeys(found) if each not in earlier),
        )

    @property
    def all_tasks(self) -> tuple[Task, ...]:
        """Its tasks, and iterations of them that are not over."""
        return (*self.tasks, *self.iterations)

    def clusters_to_come(self, policy_id: str) -> int:
        """How many clusters its next pass will make under the policy. Tasks that wait for others do not count."""
        coming = {
            task.spec.job_cluster_key or task.task_run_id
            for task in self.tasks
            if task.cluster is not None
            and task.cluster.policy_id == policy_id
            and task.spec.for_each_task is None  # each iteration asks when its turn comes
            and not (task.last or task.skipped or task.spec.depends_on or self.cancelled_ms or self.queued)
        }
        return len(coming - {each.key for each in self.shared if each.made})


class NewRun(msgspec.Struct, frozen=True, kw_only=True):
    """What a run is made of. `job_id` 0: the run is submitted, and has a job of its own."""

    tasks: tuple[SubmitTask, ...]  # as `plan.submit` returns them
    job_clusters: tuple[JobCluster, ...] = ()
    run_name: str = ""
    job_id: int = 0
    parent: Parent | None = None
    trigger: TriggerType = TriggerType.ONE_TIME
    triggered_by: dict[str, str] = {}
    notifying: Notifying = Notifying()
    parameters: tuple[JobParameter, ...] = ()
    overrides: dict[str, Any] = {}
    max_concurrent: int = 0
    queue: bool = False
    timeout_seconds: int = 0
    task_retries: int = 0
    idempotency_token: str = ""
    description: str = ""
    tags: dict[str, str] = {}


class Conclusion(msgspec.Struct, frozen=True):
    """The result of an attempt, its code, and a sentence for people."""

    result: RunResultState
    code: TerminationCode
    message: str
    values: dict[str, Any] = {}  # that the attempt has set for other tasks
    rows: list[dict[str, str | None]] = []  # of a SQL task's result


class Output(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an attempt printed, and its error with the traceback. `result`: what a notebook has returned by
    `dbutils.notebook.exit`; None if it was not called. `sql` and `table`: what a SQL task runs, from its beginning on, and the
    result of its last statement."""

    result: str | None = None
    logs: str = ""
    logs_truncated: bool = False
    error: str = ""
    error_trace: str = ""
    sql: SqlScript | None = None
    table: SqlTable | None = None
