"""The iterations of for-each tasks: what they run for, how they are counted, and what they come to. Pure.

At most `concurrency` iterations are part of the run at any time. One that is over is counted in the attempt at the for-each task
and leaves the run, so a pass costs the same whatever the number of inputs.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import msgspec

from brickyard.domain.errors import InvalidParameterValue
from brickyard.domain.run import (
    Attempt,
    AttemptPhase,
    Conclusion,
    ForEach,
    Iteration,
    IterationError,
    Run,
    RunResultState,
    Task,
    TerminationCode,
)
from brickyard.domain.tasks import ForEachTask
from brickyard.plan.references import resolved
from brickyard.plan.runids import task_run_id

MAX_INPUTS = 5_000
MAX_CONCURRENCY = 100
MAX_INPUTS_BYTES = 256 * 1024
MAX_ERRORS = 20  # different ones that are counted
MAX_MESSAGE = 500  # characters of an error that is counted
_SHOWN = 140


def opened(task: ForEachTask, run: Run, of: Task, attempt: Attempt) -> ForEach | Conclusion:
    """The inputs of an attempt at a for-each task; how it ends if they are no array. A repair runs those that have not succeeded,
    unless the inputs have changed."""
    try:
        inputs = check_inputs(resolved(task.inputs, run, of, attempt), "")
        return ForEach(inputs=inputs, todo=_unfinished(of, attempt, inputs))
    except InvalidParameterValue as error:
        return Conclusion(RunResultState.FAILED, TerminationCode.INVALID_RUN_CONFIGURATION, error.message)


def _unfinished(of: Task, attempt: Attempt, inputs: tuple[Any, ...]) -> tuple[int, ...] | None:
    """The numbers of the iterations that are left for an attempt of a repair; None: all. A retry runs what its repair ran."""
    last = of.attempts[attempt.number - 1] if of.repaired else None
    done = last.for_each if last is not None and last.result is not RunResultState.SUCCESS else None
    if done is None or done.inputs != inputs or len(done.failures) != done.failed:
        return None  # earlier versions have counted failures only
    if attempt.number > of.repaired:
        return done.todo
    return tuple(sorted((*done.failures, *done.numbers[done.begun :])))


def check_inputs(text: str, where: str) -> tuple[Any, ...]:
    """The items of a JSON array. Raises InvalidParameterValue."""
    try:
        inputs = msgspec.json.decode(text) if len(text) <= MAX_INPUTS_BYTES else None
    except (ValueError, msgspec.DecodeError, RecursionError):
        inputs = None
    if not isinstance(inputs, list):
        raise InvalidParameterValue(
            f"{where}inputs must be a JSON array of at most {MAX_INPUTS_BYTES} bytes, and is {text[:_SHOWN]!r}."
        )
    if len(inputs) > MAX_INPUTS:
        raise InvalidParameterValue(f"{where}inputs has {len(inputs)} items; at most {MAX_INPUTS} are allowed.")
    return tuple(inputs)


def iteration(of: Task, attempt: Attempt, for_each: ForEach) -> Task:
    """The next iteration, which has no attempt yet."""
    number = for_each.numbers[for_each.begun]
    return Task(
        task_run_id=task_run_id(attempt.task_run_id, number, 0),
        spec=of.spec.work,
        cluster=of.cluster,
        pool_tags=of.pool_tags,
        iteration=Iteration(of=attempt.task_run_id, number=number, input=for_each.inputs[number]),
    )


def is_over(task: Task) -> bool:
    """Whether nothing of an iteration is left to do."""
    return task.result is not None and all(each.phase is AttemptPhase.DONE for each in task.attempts)


def counted(for_each: ForEach, task: Task) -> ForEach:
    """With an iteration that is over."""
    if task.result is RunResultState.SUCCESS:
        return msgspec.structs.replace(for_each, succeeded=for_each.succeeded + 1)
    last = task.last
    message = (last.message if last is not None else "")[:MAX_MESSAGE]
    code = (last.code if last is not None else None) or TerminationCode.CANCELED
    errors = {(each.message, each.code): each for each in for_each.errors}
    if (found := errors.get((message, code))) is not None:
        errors[message, code] = msgspec.structs.replace(found, count=found.count + 1)
    elif len(errors) < MAX_ERRORS:
        errors[message, code] = IterationError(message=message, code=code)
    failures = for_each.failures if task.iteration is None else (*for_each.failures, task.iteration.number)
    return msgspec.structs.replace(for_each, failed=for_each.failed + 1, failures=failures, errors=tuple(errors.values()))


def left_over(tasks: Sequence[Task]) -> tuple[list[Task], list[Task]]:
    """The tasks of a run without the iterations that are over, which are counted in their attempts; and those iterations."""
    over = [task for task in tasks if task.iteration is not None and is_over(task)]
    if not over:
        return list(tasks), over
    by_attempt: dict[int, list[Task]] = {}
    for task in over:
        by_attempt.setdefault(task.iteration.of if task.iteration is not None else 0, []).append(task)

    def counting(attempt: Attempt) -> Attempt:
        found = by_attempt.get(attempt.task_run_id)
        if found is None or attempt.for_each is None:
            return attempt
        return msgspec.structs.replace(attempt, for_each=functools.reduce(counted, found, attempt.for_each))

    gone = {task.task_run_id for task in over}
    left = [task for task in tasks if task.iteration is None or task.task_run_id not in gone]
    return [msgspec.structs.replace(task, attempts=tuple(map(counting, task.attempts))) for task in left], over


def orphans(tasks: Sequence[Task]) -> list[int]:
    """The positions of iterations that go on, or are to be tried again, although the attempt they belong to has been decided."""
    going = {each.task_run_id for task in tasks if task.iteration is None for each in task.attempts if not each.decided}
    return [
        number
        for number, task in enumerate(tasks)
        if task.iteration is not None and task.iteration.of not in going and (task.result is None or task.retry_at_ms)
    ]


def conclusion(for_each: ForEach) -> Conclusion:
    """How the attempt ends once all iterations are over: one that failed does not stop the others."""
    if not for_each.failed:
        return Conclusion(RunResultState.SUCCESS, TerminationCode.SUCCESS, "")
    why = f": {for_each.errors[0].message}" if for_each.errors and for_each.errors[0].message else "."
    message = f"{for_each.failed} of {len(for_each.inputs)} iterations failed{why}"
    return Conclusion(RunResultState.FAILED, TerminationCode.RUN_EXECUTION_ERROR, message)
