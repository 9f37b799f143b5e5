"""Converts a run's row to the API's objects. Pure."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import msgspec

from brickyard.domain.pagetokens import NumberCursor, encode
from brickyard.domain.paging import slices
from brickyard.domain.run import (
    Attempt,
    AttemptPhase,
    ForEach,
    Period,
    Run,
    RunLifeCycleState,
    RunLifecycleStateV2State,
    RunResultState,
    Task,
    TerminationCode,
    TerminationType,
)
from brickyard.domain.tasks import ConditionTask, ForEachTask, JobCluster
from brickyard.features.runs.model import (
    ClusterInstance,
    ForEachStats,
    IterationErrorStats,
    IterationStats,
    RepairHistoryItem,
    RepairType,
    RunClusterSpec,
    RunConditionTask,
    RunForEachTask,
    RunParameters,
    RunState,
    RunStatus,
    RunTask,
    RunView,
    TerminationDetails,
    TriggerInfo,
)
from brickyard.plan.assignments import spark_context_id
from brickyard.plan.iterations import counted

Life, Life2, Result, Code = RunLifeCycleState, RunLifecycleStateV2State, RunResultState, TerminationCode
_PHASES = {
    AttemptPhase.PENDING: Life.PENDING,
    AttemptPhase.STARTING: Life.RUNNING,
    AttemptPhase.RUNNING: Life.RUNNING,
    AttemptPhase.CLOSING: Life.TERMINATING,
    AttemptPhase.DONE: Life.TERMINATED,
}
_NEWER = {
    Life.BLOCKED: Life2.BLOCKED,
    Life.PENDING: Life2.PENDING,
    Life.QUEUED: Life2.QUEUED,
    Life.RUNNING: Life2.RUNNING,
    Life.TERMINATING: Life2.TERMINATING,
    Life.WAITING_FOR_RETRY: Life2.WAITING,
}
_SKIPPED = {
    Result.CANCELED: (Code.USER_CANCELED, "Run cancelled before the task began."),
    Result.DISABLED: (Code.DISABLED, "The task is disabled."),
    Result.EXCLUDED: (Code.SKIPPED, "The task's run_if condition was not met."),
    Result.UPSTREAM_CANCELED: (Code.SKIPPED, "An upstream task was canceled."),
    Result.UPSTREAM_FAILED: (Code.SKIPPED, "An upstream task failed."),
}
_RUN_CODES = {
    Result.MAXIMUM_CONCURRENT_RUNS_REACHED: Code.MAX_CONCURRENT_RUNS_EXCEEDED,
    Result.SUCCESS: Code.SUCCESS,
    Result.SUCCESS_WITH_FAILURES: Code.SUCCESS_WITH_FAILURES,
    Result.CANCELED: Code.USER_CANCELED,
    Result.TIMEDOUT: Code.CANCELED,
    Result.FAILED: Code.RUN_EXECUTION_ERROR,
}
MAX_ERRORS = 3  # of a for-each task that are shown, the most common ones
_WELL = (Code.SUCCESS, Code.SUCCESS_WITH_FAILURES, Code.DISABLED, Code.SKIPPED)
_BROKEN = (Code.CLUSTER_ERROR, Code.DRIVER_ERROR)


def run_view(run: Run, *, with_tasks: bool, with_history: bool = False) -> RunView:
    """A run as clients see it."""
    state, status = run_state(run)
    return RunView(
        run_id=run.run_id,
        job_id=run.job_id,
        job_run_id=run.run_id,
        number_in_job=run.run_id,
        original_attempt_run_id=run.run_id,
        state=state,
        status=status,
        run_name=run.run_name,
        run_type=run.type,
        trigger=run.trigger.value,
        format="MULTI_TASK",
        creator_user_name=run.creator_user_name,
        description=run.description or None,
        duration_warning_time=run.warned_ms or None,
        job_clusters=[JobCluster(job_cluster_key=each.key, new_cluster=each.requested) for each in run.shared] or None,
        job_parameters=list(run.parameters) or None,
        overriding_parameters=RunParameters(**run.overrides) if run.overrides else None,
        queue_duration=run.dequeued_ms - run.began_ms if run.dequeued_ms else None,
        start_time=run.created_ms,
        end_time=run.ended_ms or None,
        run_duration=sum(each.ended_ms - each.began_ms for each in (*run.history, run.period)) if run.ended_ms else None,
        repair_history=repair_history(run) if with_history else None,
        tasks=[view for task in run.tasks for view in task_views(task, run.iterations)] if with_tasks else None,
        trigger_info=TriggerInfo(run_id=run.parent.task_run_id) if run.parent is not None else None,
    )


def attempt_view(run: Run, task: Task, task_run_id: int) -> RunView:
    """One attempt at a task, shown as a run."""
    view = next(each for each in task_views(task, run.iterations) if each.run_id == task_run_id)
    return RunView(
        run_id=task_run_id,
        job_id=run.job_id,
        job_run_id=run.run_id,
        number_in_job=task_run_id,
        original_attempt_run_id=task.attempts[0].task_run_id if task.attempts else task.task_run_id,
        state=view.state,
        status=view.status,
        run_name=task.spec.task_key,
        run_type=run.type,
        trigger="RETRY" if view.attempt_number else run.trigger.value,
        format="SINGLE_TASK",
        creator_user_name=run.creator_user_name,
        start_time=view.start_time or run.created_ms,
        end_time=view.end_time,
        attempt_number=view.attempt_number,
        cluster_instance=view.cluster_instance,
        cluster_spec=RunClusterSpec(existing_cluster_id=view.existing_cluster_id, new_cluster=view.new_cluster),
        setup_duration=view.setup_duration,
        execution_duration=view.execution_duration,
        cleanup_duration=view.cleanup_duration,
        run_duration=view.run_duration,
        tasks=[view],
    )


def run_page(view: RunView, first: int = 0) -> tuple[RunView, int]:
    """The view with the page of its arrays that begins with that number, and where the next one begins; 0: there is none."""
    arrays = (view.tasks, view.job_clusters, view.job_parameters, view.repair_history)
    (tasks, clusters, parameters, history), following = slices(arrays, first)
    shown = msgspec.structs.replace(view, tasks=tasks, job_clusters=clusters, job_parameters=parameters, repair_history=history)
    return shown, following


def listed_run(run: Run, *, expanded: bool) -> RunView:
    """A run of a list, which has the first of its tasks if they are asked for."""
    view, following = run_page(run_view(run, with_tasks=expanded))
    return msgspec.structs.replace(view, has_more=True if following else None)


def iterations_page(view: RunView, run: Run, over: Sequence[Task], *, first: int, size: int) -> RunView:
    """The view of an attempt at a for-each task with the page of its iterations from that number on. `over`: those that are over,
    one more than the page takes."""
    numbered = {each.iteration.number: each for each in (*run.iterations, *over) if each.iteration and _is_of(each, view.run_id)}
    shown = [number for number in sorted(numbered) if number >= first]
    following = encode(NumberCursor(shown[size])) if len(shown) > size else None
    views = [each for number in shown[:size] for each in task_views(numbered[number])]
    return msgspec.structs.replace(view, iterations=views, next_page_token=following)


def task_views(task: Task, iterations: Sequence[Task] = ()) -> list[RunTask]:
    """The attempts at a task, oldest first; then the task itself if there are none since the latest repair. `iterations`: those
    of the run that are not over."""
    shown = [_task_view(task, attempt, iterations) for attempt in task.attempts]
    return shown if task.last is not None else [*shown, _task_view(task, None)]


def repair_history(run: Run) -> list[RepairHistoryItem]:
    """The run as it was made, and its repairs."""
    return [_repair(each) for each in run.history] + [_repair(run.period, *run_state(run))]


def _repair(period: Period, state: RunState | None = None, status: RunStatus | None = None) -> RepairHistoryItem:
    if (state is None or status is None) and period.result is not None:
        life = Life.INTERNAL_ERROR if period.result is Result.FAILED else Life.TERMINATED
        state, status = _states(life, period.result, _RUN_CODES[period.result], period.message)
    return RepairHistoryItem(
        type=RepairType.REPAIR if period.repair_id else RepairType.ORIGINAL,
        id=period.repair_id or None,
        start_time=period.began_ms,
        end_time=period.ended_ms or None,
        state=state,
        status=status,
        task_run_ids=list(period.task_run_ids),
    )


def run_state(run: Run) -> tuple[RunState, RunStatus]:
    """The state of a run, in the API's older and newer form."""
    if run.queued and not (run.result or run.cancelled_ms):
        return _states(Life.QUEUED, None, None, "Waiting for another run of the job to end.")
    if run.result is None:
        views = [_task_state(task, task.last)[0].life_cycle_state for task in run.tasks]
        waits = all(each in (Life.BLOCKED, Life.PENDING, Life.WAITING_FOR_RETRY) for each in views)
        life = Life.PENDING if waits and all(len(task.attempts) - task.repaired < 2 for task in run.tasks) else Life.RUNNING
        return _states(life, None, None, "")
    life = Life.TERMINATED if run.ended_ms else Life.TERMINATING
    if run.result is Result.MAXIMUM_CONCURRENT_RUNS_REACHED:
        life = Life.SKIPPED
    if run.ended_ms and run.result is Result.FAILED:
        life = Life.INTERNAL_ERROR  # as at Databricks: clients' waiters raise with the message
    return _states(life, run.result, _RUN_CODES[run.result], run.message)


def _task_view(task: Task, attempt: Attempt | None, iterations: Sequence[Task] = ()) -> RunTask:
    spec = task.spec
    state, status = _task_state(task, attempt)
    return RunTask(
        run_id=attempt.task_run_id if attempt else task.task_run_id,
        task_key=spec.task_key,
        attempt_number=attempt.number if attempt else len(task.attempts),
        state=state,
        status=status,
        existing_cluster_id=spec.existing_cluster_id,
        new_cluster=None if spec.job_cluster_key else spec.new_cluster,
        job_cluster_key=spec.job_cluster_key,
        condition_task=_condition(spec.condition_task, attempt),
        libraries=spec.libraries,
        depends_on=spec.depends_on,
        description=spec.description,
        disabled=spec.disabled,
        max_retries=spec.max_retries,
        min_retry_interval_millis=spec.min_retry_interval_millis,
        retry_on_timeout=spec.retry_on_timeout,
        run_if=spec.run_if,
        timeout_seconds=spec.timeout_seconds,
        notebook_task=spec.notebook_task,
        spark_python_task=spec.spark_python_task,
        python_wheel_task=spec.python_wheel_task,
        spark_jar_task=spec.spark_jar_task,
        run_job_task=spec.run_job_task,
        for_each_task=_for_each(spec.for_each_task, attempt, iterations),
        sql_task=spec.sql_task,
        dbt_task=spec.dbt_task,
        cluster_instance=_cluster(task, attempt),
        **(_times(attempt) if attempt else {"end_time": task.skipped_ms or None}),
    )


def _condition(asked: ConditionTask | None, attempt: Attempt | None) -> RunConditionTask | None:
    if asked is None:
        return None
    outcome = attempt.outcome if attempt is not None else ""
    return RunConditionTask(left=asked.left, op=asked.op, right=asked.right, outcome=outcome or None)


def _for_each(asked: ForEachTask | None, attempt: Attempt | None, iterations: Sequence[Task]) -> RunForEachTask | None:
    if asked is None:
        return None
    progress = attempt.for_each if attempt is not None else None
    stats = _stats(progress, [each for each in iterations if attempt and _is_of(each, attempt.task_run_id)]) if progress else None
    return RunForEachTask(inputs=asked.inputs, task=asked.task, concurrency=asked.concurrency, stats=stats)


def _is_of(task: Task, for_each_id: int) -> bool:
    return task.iteration is not None and task.iteration.of == for_each_id


def _stats(progress: ForEach, going: Sequence[Task]) -> ForEachStats:
    done = functools.reduce(counted, (each for each in going if each.result is not None), progress)
    errors = sorted(done.errors, key=lambda each: -each.count)[:MAX_ERRORS]
    completed = done.succeeded + done.failed
    return ForEachStats(
        error_message_stats=[
            IterationErrorStats(count=each.count, error_message=each.message, termination_category=each.code) for each in errors
        ]
        or None,
        task_run_stats=IterationStats(
            total_iterations=len(progress.inputs),
            scheduled_iterations=progress.before + progress.begun,
            active_iterations=progress.begun - completed,
            completed_iterations=progress.before + completed,
            succeeded_iterations=progress.before + done.succeeded,
            failed_iterations=done.failed,
        ),
    )


def _times(attempt: Attempt) -> dict[str, Any]:
    """An attempt's times, and the durations of its setup, execution and cleanup. Milliseconds."""
    begun, decided, ended = attempt.begun_ms, attempt.decided_ms, attempt.ended_ms
    setup_end = begun or decided
    return {
        "start_time": attempt.start_ms,
        "end_time": ended or None,
        "setup_duration": setup_end - attempt.start_ms if setup_end else None,
        "execution_duration": decided - begun if begun and decided else None,
        "cleanup_duration": ended - decided if ended else None,
        "run_duration": ended - attempt.start_ms if ended else None,
        "duration_warning_time": attempt.warned_ms or None,
    }


def _cluster(task: Task, attempt: Attempt | None) -> ClusterInstance | None:
    """The cluster of an attempt, unless it runs on a SQL warehouse."""
    if attempt is None or not attempt.cluster_id or task.spec.on_warehouse:
        return None
    context = str(spark_context_id(attempt.cluster_id, attempt.generation)) if attempt.generation else None
    return ClusterInstance(cluster_id=attempt.cluster_id, spark_context_id=context)


def _task_state(task: Task, attempt: Attempt | None) -> tuple[RunState, RunStatus]:
    if attempt is None:
        if task.skipped is None:
            return _states(Life.BLOCKED if task.spec.depends_on else Life.PENDING, None, None, "")
        code, message = _SKIPPED[task.skipped]
        life = Life.TERMINATED if task.skipped is Result.CANCELED else Life.SKIPPED
        return _states(life, task.skipped, code, message)
    life = _PHASES[attempt.phase]
    if life is Life.TERMINATED and attempt.code in _BROKEN:
        life = Life.INTERNAL_ERROR
    return _states(life, attempt.result, attempt.code, attempt.message)


def _states(
    life: RunLifeCycleState, result: RunResultState | None, code: TerminationCode | None, message: str
) -> tuple[RunState, RunStatus]:
    state = RunState(
        life_cycle_state=life,
        result_state=result,
        state_message=message,
        user_cancelled_or_timedout=result in (Result.CANCELED, Result.TIMEDOUT),
    )
    details = None
    if code is not None:
        kind = TerminationType.SUCCESS if code in _WELL else TerminationType.CLIENT_ERROR
        if code in _BROKEN:
            kind = TerminationType.INTERNAL_ERROR
        details = TerminationDetails(code=code, type=kind, message=message or None)
    return state, RunStatus(state=_NEWER.get(life, Life2.TERMINATED), termination_details=details)
