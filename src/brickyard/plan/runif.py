"""What the results of tasks mean for the tasks that depend on them, and for the run. Pure.

Tasks that depend on an excluded (its condition did not hold) or disabled task treat it as successful, as in Databricks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from brickyard.domain.run import FAILED, Run, RunResultState, Task
from brickyard.domain.tasks import RunIf, SubmitTask

_IDLE = (RunResultState.EXCLUDED, RunResultState.DISABLED)
GOOD = (RunResultState.SUCCESS, *_IDLE)
_CANCELLED = (RunResultState.CANCELED, RunResultState.UPSTREAM_CANCELED)


def released(run_if: RunIf | None, results: Sequence[RunResultState]) -> RunResultState | None:
    """None if a task whose dependencies ended with `results` may run; otherwise the result for never running."""
    if not results:
        return None
    if all(result in _IDLE for result in results):
        return RunResultState.EXCLUDED
    condition = run_if or RunIf.ALL_SUCCESS
    good = [result in GOOD for result in results]
    holds = {
        RunIf.ALL_SUCCESS: all(good),
        RunIf.NONE_FAILED: all(good) and RunResultState.SUCCESS in results,
        RunIf.AT_LEAST_ONE_SUCCESS: RunResultState.SUCCESS in results,
        RunIf.ALL_DONE: True,
        RunIf.AT_LEAST_ONE_FAILED: not all(good),
        RunIf.ALL_FAILED: not any(good),
    }[condition]
    if holds:
        return None
    if condition in (RunIf.AT_LEAST_ONE_FAILED, RunIf.ALL_FAILED):
        return RunResultState.EXCLUDED  # it runs only after failures, and there were none
    if any(result in _CANCELLED for result in results):
        return RunResultState.UPSTREAM_CANCELED
    return RunResultState.UPSTREAM_FAILED


def leaves(tasks: Sequence[SubmitTask]) -> frozenset[str]:
    """Keys of the tasks that no other task depends on."""
    needed = {each.task_key for task in tasks for each in task.depends_on or ()}
    return frozenset(task.task_key for task in tasks if task.task_key not in needed)


def outcome(results: Mapping[str, RunResultState], leaf: frozenset[str]) -> RunResultState:
    """The result of a run whose tasks (by key) have these results: its leaves decide."""
    bad = [result for key, result in results.items() if key in leaf and result not in GOOD]
    if bad:
        timed_out = all(result is RunResultState.TIMEDOUT for result in bad)
        return RunResultState.TIMEDOUT if timed_out else RunResultState.FAILED
    if all(result in GOOD for result in results.values()):
        return RunResultState.SUCCESS
    return RunResultState.SUCCESS_WITH_FAILURES


def verdict(run: Run, tasks: Sequence[Task]) -> tuple[RunResultState, str]:
    """The result of the run, and a sentence about it."""
    results = {task.spec.task_key: task.result for task in tasks if task.result is not None}
    if RunResultState.CANCELED in results.values() and run.cancelled_ms:
        return RunResultState.CANCELED, "Run cancelled."
    if run.timed_out:
        return RunResultState.TIMEDOUT, f"Run timed out: its timeout of {run.timeout_seconds} s has expired."
    result = outcome(results, leaves([task.spec for task in tasks]))
    if result in (RunResultState.SUCCESS, RunResultState.SUCCESS_WITH_FAILURES):
        return result, ""
    failed = next((task for task in tasks if task.last is not None and task.result in FAILED), None)
    if failed is None or failed.last is None:
        stopped = next(task for task in tasks if task.result is not None and task.result not in GOOD)
        return result, f"Task {stopped.spec.task_key} did not succeed: it ended as {stopped.result}."
    message = f"Task {failed.spec.task_key} failed with message: {failed.last.message.rstrip('.')}."
    if any(each in (RunResultState.UPSTREAM_FAILED, RunResultState.UPSTREAM_CANCELED) for each in results.values()):
        message += " This caused all downstream tasks to get skipped."
    return result, message


def outcomes_hold(task: Task, keys: Mapping[str, Task]) -> bool:
    """Whether the conditions that the task depends on have the outcomes that it asks for."""
    wanted = [(each.outcome, keys[each.task_key].last) for each in task.spec.depends_on or () if each.outcome]
    return all(last is not None and last.outcome == outcome for outcome, last in wanted)
