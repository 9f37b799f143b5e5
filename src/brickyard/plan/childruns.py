"""The runs that tasks make of other jobs. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

from brickyard.domain.errors import ApiError, InvalidParameterValue, PermissionDenied, QuotaExceeded
from brickyard.domain.run import SUCCEEDED, Attempt, AttemptPhase, Conclusion, Parent, Run, RunResultState, Task, TerminationCode
from brickyard.domain.tasks import RunJobTask
from brickyard.plan.references import resolved

MAX_DEPTH = 3  # tasks that run jobs, one within the other
OLDER = ("dbt_commands", "jar_params", "notebook_params", "python_named_params", "python_params", "sql_params")
OVERRIDES = ("job_parameters", *OLDER)


def parent_of(run: Run, attempt: Attempt, job_id: int) -> Parent:
    """What the new run of the job has above it. Raises InvalidParameterValue for a circle of jobs, or too many of them."""
    jobs = (*(run.parent.jobs if run.parent is not None else ()), run.job_id)
    if job_id in jobs:
        circle = " -> ".join(map(str, (*jobs[jobs.index(job_id) :], job_id)))
        raise InvalidParameterValue(f"Job {job_id} would run itself ({circle}): jobs must not run each other in a circle.")
    if len(jobs) > MAX_DEPTH:
        raise InvalidParameterValue(f"Job {job_id} would be nested in more than {MAX_DEPTH} tasks that run jobs.")
    return Parent(run_id=run.run_id, task_run_id=attempt.task_run_id, jobs=jobs)


def passed_on(asked: RunJobTask | None) -> list[str]:
    """The values of the parameters of the new run."""
    given = [getattr(asked, name) or () for name in OVERRIDES] if asked is not None else []
    return [text for each in given for text in (each.values() if isinstance(each, dict) else each)]


def overrides(asked: RunJobTask, run: Run, task: Task, attempt: Attempt) -> dict[str, Any]:
    """The parameters of the new run, with the values of dynamic references."""

    def value(text: str) -> str:
        return resolved(text, run, task, attempt)

    found: dict[str, Any] = {}
    for name in OVERRIDES:
        given = getattr(asked, name)
        if isinstance(given, dict):
            found[name] = {key: value(each) for key, each in given.items()}
        elif given is not None:
            found[name] = [value(each) for each in given]
    return found


def attempt_to_begin(run: Run, attempt_id: int) -> tuple[Task, Attempt] | None:
    """The attempt that is about to make a run, unless it has been decided, or has made it."""
    for task in run.all_tasks:
        last = task.last
        if last is not None and last.task_run_id == attempt_id and last.phase is AttemptPhase.STARTING:
            return task, last
    return None


def conclusion_of(child: Run) -> Conclusion:
    """How an attempt ends whose run has ended."""
    if child.result in SUCCEEDED:
        return Conclusion(RunResultState.SUCCESS, TerminationCode.SUCCESS, "")
    said = f": {child.message}" if child.message else "."
    if child.result is RunResultState.CANCELED:
        message = f"Run {child.run_id} of job {child.job_id} was cancelled."
        return Conclusion(RunResultState.CANCELED, TerminationCode.CANCELED, message)
    result = RunResultState.TIMEDOUT if child.result is RunResultState.TIMEDOUT else RunResultState.FAILED
    message = f"Run {child.run_id} of job {child.job_id} did not succeed{said}"
    return Conclusion(result, TerminationCode.RUN_EXECUTION_ERROR, message)


def refused(error: ApiError) -> Conclusion:
    """How an attempt ends whose run cannot be made."""
    code = TerminationCode.INVALID_RUN_CONFIGURATION
    if isinstance(error, PermissionDenied):
        code = TerminationCode.UNAUTHORIZED_ERROR
    elif isinstance(error, QuotaExceeded):
        code = TerminationCode.INVALID_CLUSTER_REQUEST
    return Conclusion(RunResultState.FAILED, code, error.message)


def deleted(child_run_id: int) -> Conclusion:
    """How an attempt ends whose run is gone."""
    message = f"Run {child_run_id}, which the task has made, was deleted."
    return Conclusion(RunResultState.FAILED, TerminationCode.RUN_EXECUTION_ERROR, message)


def with_child(attempt: Attempt, child_run_id: int, now: int) -> Attempt:
    return msgspec.structs.replace(attempt, phase=AttemptPhase.RUNNING, child_run_id=child_run_id, begun_ms=now)
