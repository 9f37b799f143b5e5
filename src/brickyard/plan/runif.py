"""What results of tasks mean for the tasks behind them, and for the run. Pure.

A task that was excluded (its condition did not hold) or is disabled counts as successful for those behind it, as in Databricks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from brickyard.domain.run import RunResultState
from brickyard.domain.tasks import RunIf, SubmitTask

_IDLE = (RunResultState.EXCLUDED, RunResultState.DISABLED)
_GOOD = (RunResultState.SUCCESS, *_IDLE)
_CANCELLED = (RunResultState.CANCELED, RunResultState.UPSTREAM_CANCELED)


def released(run_if: RunIf | None, results: Sequence[RunResultState]) -> RunResultState | None:
    """None when a task may run whose dependencies (all of them over) came to `results`; else why it never will."""
    if not results:
        return None
    if all(result in _IDLE for result in results):
        return RunResultState.EXCLUDED
    condition = run_if or RunIf.ALL_SUCCESS
    good = [result in _GOOD for result in results]
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
        return RunResultState.EXCLUDED  # they wait for failures, and there were none
    if any(result in _CANCELLED for result in results):
        return RunResultState.UPSTREAM_CANCELED
    return RunResultState.UPSTREAM_FAILED


def leaves(tasks: Sequence[SubmitTask]) -> frozenset[str]:
    """Keys of the tasks that no other depends on."""
    needed = {each.task_key for task in tasks for each in task.depends_on or ()}
    return frozenset(task.task_key for task in tasks if task.task_key not in needed)


def outcome(results: Mapping[str, RunResultState], leaf: frozenset[str]) -> RunResultState:
    """What a run came to whose tasks (by key) came to `results`: its leaves decide."""
    bad = [result for key, result in results.items() if key in leaf and result not in _GOOD]
    if bad:
        timed_out = all(result is RunResultState.TIMEDOUT for result in bad)
        return RunResultState.TIMEDOUT if timed_out else RunResultState.FAILED
    if all(result in _GOOD for result in results.values()):
        return RunResultState.SUCCESS
    return RunResultState.SUCCESS_WITH_FAILURES
