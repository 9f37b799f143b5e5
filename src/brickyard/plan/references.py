"""Dynamic references in the parameters of tasks, such as {{job.id}} and {{tasks.first.values.rows}}. Pure.

Source: "What is a dynamic value reference?" in Databricks' documentation, with the older names that it lists. Times are UTC.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from brickyard.domain.errors import InvalidParameterValue
from brickyard.domain.run import Attempt, Run, Task

_REFERENCE = re.compile(r"\{\{\s*([^{}]*?)\s*\}\}")
_SHOWN = 140
_TRIGGER = "job.trigger."
_OF_TRIGGER = re.compile(  # what a run has that such a trigger has begun; else nothing
    r"job\.trigger\.(file_arrival\.location|table_update\.(updated_tables|.+\.(version|commit_timestamp)))"
)
_TIMES: Mapping[str, Callable[[datetime], str]] = {
    "iso_date": lambda at: at.date().isoformat(),
    "iso_datetime": lambda at: at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
    "iso_weekday": lambda at: str(at.isoweekday()),
    "is_weekday": lambda at: str(at.isoweekday() < 6).lower(),
    "year": lambda at: str(at.year),
    "month": lambda at: str(at.month),
    "day": lambda at: str(at.day),
    "hour": lambda at: str(at.hour),
    "minute": lambda at: str(at.minute),
    "second": lambda at: str(at.second),
    "timestamp_ms": lambda at: str(round(at.timestamp() * 1000)),
}
_JOB: Mapping[str, Callable[[Run], str]] = (
    {
        "job.id": lambda run: str(run.job_id),
        "job.name": lambda run: run.run_name,
        "job.repair_count": lambda run: str(len(run.history)),
        "job.run_id": lambda run: str(run.run_id),
        "job.trigger.type": lambda run: run.trigger.value.lower(),
        "job_id": lambda run: str(run.job_id),
        "parent_run_id": lambda run: str(run.run_id),
        "start_date": lambda run: _TIMES["iso_date"](_at(run)),
        "start_time": lambda run: str(run.created_ms),
    }
    | {f"job.trigger.time.{name}": (lambda run, show=show: show(_at(run))) for name, show in _TIMES.items()}
    | {f"job.start_time.{name}": (lambda run, show=show: show(_at(run))) for name, show in _TIMES.items()}
)
_TASK: Mapping[str, Callable[[Task, Attempt], str]] = {
    "task.name": lambda task, _: task.spec.task_key,
    "task.run_id": lambda _, attempt: str(attempt.task_run_id),
    "task.execution_count": lambda _, attempt: str(attempt.number + 1),
    "task_key": lambda task, _: task.spec.task_key,
    "run_id": lambda _, attempt: str(attempt.task_run_id),
    "task_retry_count": lambda _, attempt: str(attempt.number),
}
_OTHER: Mapping[str, Callable[[Task], str]] = {
    "run_id": lambda task: str(task.last.task_run_id if task.last else task.task_run_id),
    "result_state": lambda task: task.result.value.lower() if task.result else "",
    "execution_count": lambda task: str(len(task.attempts)),
    "outcome": lambda task: task.last.outcome if task.last else "",
}


def check(
    texts: Iterable[str],
    where: str,
    *,
    tasks: Iterable[str],
    parameters: Iterable[str],
    sql: Iterable[str] = (),
    nested: bool = False,
) -> None:
    """Raises InvalidParameterValue for a reference to what does not exist. `tasks`: those that the task depends on. `sql`: those
    of SQL. `nested`: it is the nested task of a for-each task."""
    keys, names, with_rows = set(tasks), set(parameters), set(sql)
    for text in texts:
        for match in _REFERENCE.finditer(text):
            if nested and _is_input(match[1]):
                continue
            if why := _unknown(match[1], keys, names, with_rows):
                raise InvalidParameterValue(f"{where}{match[0][:_SHOWN]} refers to nothing: {why}.")


def resolved(text: str, run: Run, task: Task, attempt: Attempt) -> str:
    """The text with the values of its references for an attempt. What is unknown stays as it is."""

    def value(match: re.Match[str]) -> str:
        name = match[1]
        if name in _JOB or name.startswith(_TRIGGER):
            return _of_job(match, run)
        if name in _TASK:
            return _TASK[name](task, attempt)
        if task.iteration is not None and _is_input(name):
            found = _part(task.iteration.input, name.split(".")[1:])
        elif name.startswith("job.parameters."):
            found = parameter_values(run).get(name.removeprefix("job.parameters."))
        else:
            found = _of_other(name, run)
        return match[0] if found is None else found

    return _REFERENCE.sub(value, text)


def parameter_values(run: Run) -> dict[str, str]:
    """The job's parameters for this run. A value may refer to the job itself, as a default of {{job.id}} does."""
    return {each.name: _REFERENCE.sub(lambda match: _of_job(match, run), each.value) for each in run.parameters}


def _is_input(name: str) -> bool:
    return name == "input" or name.startswith("input.")


def _part(value: Any, keys: Sequence[str]) -> str | None:
    """The part of an input with these keys; None if there is none."""
    for key in keys:
        if not isinstance(value, dict) or key not in value:
            return None
        value = value[key]
    return _text(value)


def _of_other(name: str, run: Run) -> str | None:
    """What a reference to another task stands for; None if there is no such thing."""
    key, _, what = name.removeprefix("tasks.").partition(".")
    other = next((each for each in run.tasks if each.spec.task_key == key), None)
    if not name.startswith("tasks.") or other is None:
        return None
    if what.startswith("values.") and other.last is not None:
        value = other.last.values.get(what.removeprefix("values."))
        return None if value is None else _text(value)
    if what.startswith("output.") and other.last is not None:
        return _of_rows(what.removeprefix("output."), other.last.rows)
    return _OTHER[what](other) if what in _OTHER else None


def _of_rows(what: str, rows: Sequence[Mapping[str, str | None]]) -> str:
    """A result of a SQL task as JSON, or the value of one column of its first row; "" if it has none."""
    if what == "rows":
        return json.dumps(rows)
    first = rows[0] if rows else {}
    return json.dumps(first) if what == "first_row" else first.get(what.removeprefix("first_row.")) or ""


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _of_job(match: re.Match[str], run: Run) -> str:
    if match[1] in _JOB:
        return _JOB[match[1]](run)
    return run.triggered_by.get(match[1].removeprefix(_TRIGGER), "") if match[1].startswith(_TRIGGER) else match[0]


def _unknown(name: str, keys: set[str], names: set[str], with_rows: set[str]) -> str:
    if name in _JOB or name in _TASK or _OF_TRIGGER.fullmatch(name):
        return ""
    if name.startswith("job.parameters."):
        return "" if name.removeprefix("job.parameters.") in names else "the job has no parameter of that name"
    if _is_input(name):
        return "only the nested task of a for-each task has an input"
    if name.startswith("tasks."):
        key, _, what = name.removeprefix("tasks.").partition(".")
        return _unknown_of_other(key, what, keys, with_rows)
    return f"use one of {', '.join((*_JOB, *_TASK))}, job.parameters.NAME, tasks.KEY.result_state or tasks.KEY.values.NAME"


def _unknown_of_other(key: str, what: str, keys: set[str], with_rows: set[str]) -> str:
    if key not in keys:
        return "the task does not depend on a task with that key"
    if what.startswith("output."):
        known = what in ("output.rows", "output.first_row") or what.startswith("output.first_row.")
        return "" if known and key in with_rows else "use output.rows or output.first_row.COLUMN of a SQL task"
    return "" if what in _OTHER or what.startswith("values.") else f"use one of {', '.join(_OTHER)} or values.KEY"


def _at(run: Run) -> datetime:
    return datetime.fromtimestamp(run.created_ms / 1000, UTC)
