"""What becomes of a run when something is known of an attempt at one of its tasks. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from brickyard.domain.run import FAILED, Attempt, AttemptPhase, Conclusion, Run, RunResultState, Task, TerminationCode
from brickyard.plan.childruns import with_child

TASK_RETRIES = 3  # of each task of a continuous job with task_retry_mode ON_FAILURE
RETRY_MS = 10_000  # before the first of them; twice as long before each following one
NO_CLUSTER_MS = 30_000  # before another attempt when there was no cluster to begin on: the reason will hold for a while
AT_ONCE = 3  # retries that follow as the task asks
AGAIN_MS = 30_000  # between the starts of further ones: a run keeps each attempt, and what fails at once may be retried for ever


def begun(run: Run, attempt_id: int, *, now: int) -> Run:
    """Records that the driver has accepted the attempt."""

    def change(attempt: Attempt) -> Attempt:
        if attempt.phase is not AttemptPhase.STARTING:
            return attempt  # it has been decided in the meantime
        return msgspec.structs.replace(attempt, phase=AttemptPhase.RUNNING, begun_ms=now)

    return _with_attempt(run, attempt_id, change)


def concluded(run: Run, attempt_id: int, conclusion: Conclusion, *, now: int) -> Run:
    """Records the driver's result of the attempt. Does nothing if the result is already known. Only the newest attempt at a task
    can lack one."""

    def changed(task: Task) -> Task:
        found = _attempt(task, attempt_id)
        return decided(run, task, conclusion, now) if found is not None and not found.decided else task

    return _with_tasks(run, changed)


def run_made(run: Run, attempt_id: int, child_run_id: int, *, now: int) -> Run:
    """Records the run of another job that the attempt waits for from now on."""
    return _with_attempt(run, attempt_id, lambda attempt: with_child(attempt, child_run_id, now))


def closed(run: Run, attempt_id: int) -> Run:
    """Records that nothing of the attempt is left on its driver."""

    def change(attempt: Attempt) -> Attempt:
        return msgspec.structs.replace(attempt, left=True) if attempt.phase is AttemptPhase.CLOSING else attempt

    return _with_attempt(run, attempt_id, change)


def is_stopped(run: Run) -> bool:
    """Whether nothing new of the run may begin."""
    return bool(run.cancelled_ms or run.timed_out or run.abandoned_for)


def why_stopped(run: Run) -> Conclusion:
    """How an attempt ends when its run is stopped."""
    if run.cancelled_ms:
        by = f" by {run.cancelled_by}" if run.cancelled_by else ""
        return Conclusion(RunResultState.CANCELED, TerminationCode.USER_CANCELED, f"Run cancelled{by}.")
    if run.timed_out:
        message = f"The run's timeout of {run.timeout_seconds} s has expired."
        return Conclusion(RunResultState.TIMEDOUT, TerminationCode.CANCELED, message)
    message = f"Task {run.abandoned_for} has failed and is not tried again, so the run ends."
    return Conclusion(RunResultState.CANCELED, TerminationCode.CANCELED, message)


def abandoned(run: Run, tasks: Sequence[Task]) -> Run:
    """The run of a continuous job that retries its tasks: it ends when one of them has failed and is not tried again."""
    if not run.task_retries or is_stopped(run):
        return run
    failed = next((each for each in tasks if each.result in FAILED and each.iteration is None), None)
    return run if failed is None else msgspec.structs.replace(run, abandoned_for=failed.spec.task_key)


def _may_retry(run: Run, task: Task) -> bool:
    """Whether `task_retry_mode` ON_FAILURE lets a task be tried again: while another is at its first attempt, or if there is no
    other."""
    if task.iteration is not None or task.attempts[-1].number - task.repaired >= run.task_retries:
        return False
    others = [each for each in run.tasks if each.key != task.key]
    lasts = [(each.last, each.repaired) for each in others]
    return not others or any(last is not None and not last.decided and last.number == first for last, first in lasts)


def decided(run: Run, task: Task, conclusion: Conclusion, now: int) -> Task:
    """The task with the result of its newest attempt, and with a retry if there is to be one."""
    result, attempt = conclusion.result, task.attempts[-1]
    known = msgspec.structs.replace(
        attempt,
        phase=AttemptPhase.CLOSING,
        result=result,
        code=conclusion.code,
        message=conclusion.message,
        values=conclusion.values,
        rows=conclusion.rows,
        decided_ms=now,
    )
    left = task.spec.max_retries == -1 or attempt.number - task.repaired < (task.spec.max_retries or 0)
    wanted = result in FAILED and (result is not RunResultState.TIMEDOUT or bool(task.spec.retry_on_timeout))
    retry_at = 0
    left = left or _may_retry(run, task)
    if left and wanted and not is_stopped(run) and conclusion.code is not TerminationCode.UNAUTHORIZED_ERROR:
        pause = NO_CLUSTER_MS if conclusion.code is TerminationCode.INVALID_CLUSTER_REQUEST else 0
        if run.task_retries:
            pause = max(pause, RETRY_MS * 2 ** (attempt.number - task.repaired))
        between = AGAIN_MS if attempt.number - task.repaired >= AT_ONCE else 0
        retry_at = max(now + pause, attempt.start_ms + max(between, task.spec.min_retry_interval_millis or 0))
    return msgspec.structs.replace(task, attempts=(*task.attempts[:-1], known), retry_at_ms=retry_at)


def _attempt(task: Task, attempt_id: int) -> Attempt | None:
    return next((each for each in task.attempts if each.task_run_id == attempt_id), None)


def _with_attempt(run: Run, attempt_id: int, change: Callable[[Attempt], Attempt]) -> Run:
    def changed(task: Task) -> Task:
        attempts = tuple(change(each) if each.task_run_id == attempt_id else each for each in task.attempts)
        return msgspec.structs.replace(task, attempts=attempts)

    return _with_tasks(run, changed)


def _with_tasks(run: Run, change: Callable[[Task], Task]) -> Run:
    return msgspec.structs.replace(run, tasks=tuple(map(change, run.tasks)), iterations=tuple(map(change, run.iterations)))
