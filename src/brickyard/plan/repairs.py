"""What a repair of a run runs again, and the run as it begins anew. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from brickyard.domain.errors import InvalidParameterValue, InvalidState
from brickyard.domain.run import NewRun, Run, SharedCluster
from brickyard.domain.tasks import SubmitTask
from brickyard.plan.runids import task_run_id
from brickyard.plan.runif import GOOD

MAX_REPAIRS = 100
_SHOWN = 140


def check_repairable(run: Run, latest_repair_id: int | None) -> None:
    """Raises unless the run is over and the request knows its latest repair: so of two requests only one begins a repair."""
    if not run.ended_ms:
        raise InvalidState(f"Run {run.run_id} is active. Wait until it has ended, or cancel it, before you repair it.")
    if (latest_repair_id or 0) != run.repair_id:
        given = f"is {latest_repair_id}" if latest_repair_id else "is missing"
        latest = f"{run.repair_id} is the latest repair of run {run.run_id}" if run.repair_id else "the run was never repaired"
        raise InvalidParameterValue(f"latest_repair_id {given}: {latest}.")
    if len(run.history) >= MAX_REPAIRS:
        raise InvalidState(f"Run {run.run_id} was repaired {MAX_REPAIRS} times, which is the maximum. Run the job again.")


def selected(
    run: Run, specs: Mapping[str, SubmitTask], *, tasks: Sequence[str], all_failed: bool, dependents: bool
) -> frozenset[str]:
    """The keys of the tasks to run again. `specs`: the tasks as they are now, by their keys."""
    keys = [task.spec.task_key for task in run.tasks]
    if bool(tasks) == all_failed:
        raise InvalidParameterValue("Give one of rerun_tasks and rerun_all_failed_tasks: they say what to run again.")
    if unknown := set(tasks) - set(keys):
        raise InvalidParameterValue(f"rerun_tasks: the run has no task {min(unknown)[:_SHOWN]!r}.")
    found = set(tasks) or {task.spec.task_key for task in run.tasks if task.result not in GOOD}
    if not found:
        raise InvalidParameterValue(f"rerun_all_failed_tasks: no task of run {run.run_id} failed.")
    more = set(found) if dependents else set()
    while more:  # each task joins once
        more = {
            key for key in keys if key in specs and any(each.task_key in more for each in specs[key].depends_on or ())
        } - found
        found |= more
    if gone := found - specs.keys():
        raise InvalidParameterValue(f"Task {min(gone)} is no longer a task of the job: it cannot run again.")
    return frozenset(found)


def repaired(run: Run, new: NewRun, *, repair_id: int, at_ms: int) -> Run:
    """The run with the tasks of `new`, which are some of its own, to run again. Others keep their results."""
    specs = {task.task_key: task for task in new.tasks}
    keys = {task.spec.task_key for task in run.tasks}

    def again(number: int) -> dict[str, object]:
        task = run.tasks[number]
        spec = specs[task.spec.task_key]
        needs = [each for each in spec.depends_on or () if each.task_key in keys]  # `only` may have left some out
        count = len(task.attempts)
        return {
            "spec": msgspec.structs.replace(spec, depends_on=needs or None),
            "task_run_id": task_run_id(repair_id, number, count),
            "repaired": count,
            "skipped": None,
            "skipped_ms": 0,
            "retry_at_ms": 0,
        }

    return msgspec.structs.replace(
        run,
        tasks=tuple(
            msgspec.structs.replace(task, **again(number)) if task.spec.task_key in specs else task
            for number, task in enumerate(run.tasks)
        ),
        parameters=new.parameters,
        overrides=new.overrides,
        notifying=new.notifying,
        warned_ms=0,
        max_concurrent=new.max_concurrent,
        timeout_seconds=new.timeout_seconds,
        task_retries=new.task_retries,
        abandoned_for="",
        history=(*run.history, run.period),
        repair_id=repair_id,
        repaired_ms=at_ms,
        queued=False,
        dequeued_ms=0,
        cancelled_ms=0,
        cancelled_by="",
        timed_out=False,
        ended_ms=0,
        result=None,
        message="",
    )


def with_clusters(run: Run, shared: Sequence[SharedCluster]) -> Run:
    """The run with these specifications of its shared clusters. Clusters that have ended are counted on."""
    old = {each.key: each for each in run.shared}
    new = {
        each.key: msgspec.structs.replace(each, cluster_id=old[each.key].cluster_id, made=old[each.key].made)
        if each.key in old
        else each
        for each in shared
    }
    return msgspec.structs.replace(run, shared=tuple((old | new).values()))
