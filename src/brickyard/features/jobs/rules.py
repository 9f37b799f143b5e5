"""What a job may be, how a change changes it, and what one of its runs is made of. Pure.

Raises InvalidParameterValue, and for repairs InvalidState, too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from brickyard.domain.errors import InvalidParameterValue, InvalidState
from brickyard.domain.notifications import Notifying
from brickyard.domain.run import JobParameter, NewRun, Parent, Run, RunType, TriggerType
from brickyard.domain.tasks import JobCluster, RunSettings, SubmitTask
from brickyard.features.jobs import quartz, triggers
from brickyard.features.jobs.model import JobRow, JobSettings, Overrides, PauseStatus, PeriodicUnit, Queue, RepairRun, RunNow
from brickyard.plan import notices
from brickyard.plan.attempts import TASK_RETRIES
from brickyard.plan.childruns import OLDER, OVERRIDES
from brickyard.plan.repairs import check_repairable, selected
from brickyard.plan.submit import REFUSED_PARAMETERS, REFUSED_RUN, check_key, check_tasks, refuse, says_something, tasks_of

_Settings = TypeVar("_Settings", bound=JobSettings)
MAX_NAME_BYTES = 4096
MAX_DESCRIPTION_BYTES = 27_700
MAX_TAGS = 25
MAX_PARAMETERS = 100
MAX_CONCURRENT_RUNS = 1000
MAX_PARAMETER_BYTES = 10_000
UNTITLED = "Untitled"
MISSED_MS = 60_000  # a scheduled run that is later than this was missed: no server was there
MOST_OFTEN_MS = 10_000
_UNITS_MS = {PeriodicUnit.HOURS: 3_600_000, PeriodicUnit.DAYS: 86_400_000, PeriodicUnit.WEEKS: 7 * 86_400_000}
_SHOWN = 140
REFUSED_JOB = {
    "budget_policy_id": REFUSED_RUN["budget_policy_id"],
    "environments": REFUSED_RUN["environments"],
    "git_source": REFUSED_RUN["git_source"],
    "performance_target": REFUSED_RUN["performance_target"],
    "usage_policy_id": REFUSED_RUN["usage_policy_id"],
}
REFUSED_RUN_NOW = {"performance_target": REFUSED_RUN["performance_target"], **REFUSED_PARAMETERS}
_BY_KEY = {"tasks": "task_key", "job_clusters": "job_cluster_key", "parameters": "name"}
_OF_JOBS = ("timeout_seconds", *Notifying.__struct_fields__)  # fields of `RunSettings` that a job has too
_SINGLE = ("max_retries", "min_retry_interval_millis", "retry_on_timeout")
# What the older form has beside the job's name where a task has it.
_OF_SINGLE = (*(each for each in RunSettings.__struct_fields__ if each not in _OF_JOBS), *_SINGLE)
SINGLE_TASK, MULTI_TASK = "SINGLE_TASK", "MULTI_TASK"


def checked(settings: JobSettings, *, now_ms: int) -> JobSettings:
    """The settings as they are stored: in the form of several tasks, with their defaults. `format` says whether they came in the
    older form of one task, whatever the client sent there. Clusters are checked elsewhere."""
    refuse(settings, REFUSED_JOB, "")
    notices.check(settings, "", of_task=False)
    _fits("name", settings.name, MAX_NAME_BYTES)
    _fits("description", settings.description, MAX_DESCRIPTION_BYTES)
    if len(settings.tags or {}) > MAX_TAGS:
        raise InvalidParameterValue(f"tags has {len(settings.tags or {})} tags; at most {MAX_TAGS} are allowed.")
    concurrent = 1 if settings.max_concurrent_runs is None else settings.max_concurrent_runs
    if not 0 <= concurrent <= MAX_CONCURRENT_RUNS:
        raise InvalidParameterValue(f"max_concurrent_runs is {concurrent}; it must be between 0 and {MAX_CONCURRENT_RUNS}.")
    triggers.check(settings)
    names = [each.name for each in settings.parameters or ()]
    for name in names:
        check_key("parameters.name", name)
    if len(set(names)) < len(names) or len(names) > MAX_PARAMETERS:
        raise InvalidParameterValue(f"parameters must have different names, and be at most {MAX_PARAMETERS}.")
    tasks = [] if _has_no_task(settings) else tasks_of(settings, settings.tasks, settings.name)
    is_single = bool(tasks) and not settings.tasks
    if is_single:
        single = {name: getattr(settings, name) for name in _SINGLE}
        tasks = [msgspec.structs.replace(tasks[0], timeout_seconds=None, **single)]
    check_tasks(tasks, settings.job_clusters or (), names)
    kept = msgspec.structs.replace(
        settings,
        **dict.fromkeys(_OF_SINGLE),
        timeout_seconds=settings.timeout_seconds or 0,
        name=settings.name or UNTITLED,
        tasks=list(tasks) or None,
        max_concurrent_runs=concurrent,
        format=SINGLE_TASK if is_single else MULTI_TASK,
    )
    first = next_ms(kept, after_ms=now_ms)
    if first and settings.schedule is not None:
        second = next_ms(kept, after_ms=first)
        if second and second - first < MOST_OFTEN_MS:
            raise InvalidParameterValue(f"schedule comes more often than every {MOST_OFTEN_MS // 1000} seconds.")
    return kept


def queued(settings: _Settings) -> _Settings:
    """The settings of a job that API 2.2 creates or resets: its runs wait unless `queue` says otherwise. A continuous job has one
    active run anyway."""
    if settings.queue is not None or settings.continuous is not None:
        return settings
    return msgspec.structs.replace(settings, queue=Queue(enabled=True))


def multi(settings: JobSettings) -> JobSettings:
    """The settings as API 2.1 and later answer them: always in the form of several tasks."""
    return msgspec.structs.replace(settings, format=MULTI_TASK)


def older(settings: JobSettings) -> JobSettings:
    """The settings as API 2.0 answers them: those that came in the older form of one task have it again."""
    if settings.format != SINGLE_TASK or not settings.tasks:
        return settings
    return msgspec.structs.replace(settings, tasks=None, **{name: getattr(settings.tasks[0], name) for name in _OF_SINGLE})


def next_ms(settings: JobSettings, *, after_ms: int) -> int:
    """The next scheduled run after that time; 0 if there is none, or it is paused. A continuous job, and one that waits for files
    or tables, is looked at then."""
    if (schedule := settings.schedule) is not None:
        following = quartz.next_ms(schedule.quartz_cron_expression, schedule.timezone_id, after_ms=after_ms)
        return 0 if schedule.pause_status is PauseStatus.PAUSED else following
    if triggers.watches(settings) or settings.continuous is not None:
        return 0 if triggers.is_paused(settings) else after_ms
    if (trigger := settings.trigger) is not None and (periodic := trigger.periodic) is not None:
        if not 1 <= periodic.interval <= 1000:
            raise InvalidParameterValue(f"trigger.periodic.interval is {periodic.interval}; it must be between 1 and 1000.")
        paused = trigger.pause_status is PauseStatus.PAUSED
        return 0 if paused else after_ms + periodic.interval * _UNITS_MS[periodic.unit]
    return 0


def merged(settings: JobSettings, new: JobSettings | None, remove: Sequence[str]) -> JobSettings:
    """The settings after an update: what `remove` names goes first; then each field that `new` has takes its place. Tasks, job
    clusters and parameters are merged by their keys. A job in the older form of one task keeps it until it is given tasks."""
    if not (new is not None and new.tasks) and not any(path.partition("/")[0] == "tasks" for path in remove):
        settings = older(settings)
    fields = msgspec.structs.asdict(settings)
    for path in remove:
        name, _, key = path.replace(".", "/").partition("/")
        if name not in fields or (key and name not in _BY_KEY):
            raise InvalidParameterValue(f"fields_to_remove: {path[:_SHOWN]!r} is not a field of a job, or of its lists by key.")
        left = [each for each in fields[name] or () if getattr(each, _BY_KEY[name]) != key] if key else None
        fields[name] = left or None
    for name, value in (msgspec.structs.asdict(new) if new is not None else {}).items():
        if value is not None and name in ("tasks", "job_clusters"):
            by = _BY_KEY[name]
            fields[name] = list({getattr(each, by): each for each in (*(fields[name] or ()), *value)}.values())
        elif value is not None:
            fields[name] = value
    begins = [name for name in triggers.WAYS if new is not None and getattr(new, name) is not None]
    if begins:  # what begins runs from now on takes the place of what did
        fields |= {name: fields[name] if name in begins else None for name in triggers.WAYS}
    return type(settings)(**fields)


def bare(row: JobRow, trigger: TriggerType = TriggerType.PERIODIC) -> NewRun:
    """A run of the job that will not begin."""
    settings = row.settings
    tasks = tuple(settings.tasks or ())
    return NewRun(job_id=row.job_id, run_name=settings.name or "", tasks=tasks, trigger=trigger, notifying=notifying(settings))


def notifying(settings: Notifying) -> Notifying:
    """Who hears of the job's runs."""
    return Notifying(**{name: getattr(settings, name) for name in Notifying.__struct_fields__})


def wanted(
    row: JobRow,
    request: RunNow | None = None,
    *,
    trigger: TriggerType = TriggerType.ONE_TIME,
    parent: Parent | None = None,
    triggered_by: Mapping[str, str] | None = None,
) -> NewRun:
    """What a run of the job is made of now, with what a request overrides. `triggered_by`: of the trigger, by name."""
    settings, request = row.settings, request or RunNow(job_id=row.job_id)
    check_overrides(request)
    given = dict(request.job_parameters or {})
    parameters = tuple(
        JobParameter(name=each.name, default=each.default, value=given.pop(each.name, each.default))
        for each in settings.parameters or ()
    )
    if given and (parameters or any(says_something(getattr(request, name)) for name in ("jar_params", "python_params"))):
        raise InvalidParameterValue(f"job_parameters: the job has no parameter {next(iter(given))[:_SHOWN]!r}.")
    parameters += tuple(JobParameter(name=name, value=value) for name, value in given.items())
    if not settings.tasks:
        raise InvalidParameterValue(f"Job {row.job_id} has no tasks.")
    tasks = [overridden(task, request, parameters) for task in _selected(settings.tasks, request.only)]
    queue = request.queue or settings.queue
    return NewRun(
        job_id=row.job_id,
        run_name=settings.name or "",
        job_clusters=tuple(settings.job_clusters or ()),
        description=settings.description or "",
        max_concurrent=settings.max_concurrent_runs or 0,
        timeout_seconds=settings.timeout_seconds or 0,
        task_retries=TASK_RETRIES if triggers.retries_tasks(settings) else 0,
        tags=settings.tags or {},
        tasks=check_tasks(tasks, settings.job_clusters or (), [each.name for each in parameters]),
        parameters=parameters,
        overrides=_older(request),
        trigger=trigger,
        parent=parent,
        triggered_by=dict(triggered_by or {}),
        notifying=notifying(settings),
        queue=bool(queue and queue.enabled) or trigger is TriggerType.CONTINUOUS_RESTART,
        idempotency_token=request.idempotency_token or "",
    )


def check_overrides(given: Overrides) -> None:
    refuse(given, REFUSED_RUN_NOW, "")
    for name in OVERRIDES:
        size = len(json.dumps(getattr(given, name) or ""))
        if size > MAX_PARAMETER_BYTES:
            raise InvalidParameterValue(f"{name} has {size} bytes as JSON; at most {MAX_PARAMETER_BYTES} are allowed.")


def to_repair(row: JobRow | None, run: Run, request: RepairRun) -> NewRun:
    """What a repair of the run runs again. `row`: the run's job, unless it is gone or the run was submitted."""
    check_repairable(run, request.latest_repair_id)
    if row is None and run.type is RunType.JOB_RUN:
        raise InvalidParameterValue(f"Job {run.job_id} does not exist.")
    if row is not None and row.run_as != run.creator_user_name:
        raise InvalidState(
            f"Run {run.run_id} has the rights of {run.creator_user_name}, and its job now runs as {row.run_as}. Run the job"
            " again."
        )
    new = _repaired(row, run, request)
    keys = selected(
        run,
        {task.task_key: task for task in new.tasks},
        tasks=request.rerun_tasks or (),
        all_failed=bool(request.rerun_all_failed_tasks),
        dependents=bool(request.rerun_dependent_tasks),
    )
    return msgspec.structs.replace(new, tasks=tuple(task for task in new.tasks if task.task_key in keys))


def _repaired(row: JobRow | None, run: Run, request: RepairRun) -> NewRun:
    """What a repair of the run is made of: the job's tasks as they are now, or those of a submitted run. Parameters that the run
    was given hold on, unless the request replaces them."""
    check_overrides(request)
    kept = {each.name: each.value for each in run.parameters if each.value != each.default}
    older = run.overrides | _older(request)
    if row is None:
        if request.job_parameters:
            raise InvalidParameterValue("job_parameters: the run was submitted, and has no job with parameters.")
        given = RunNow(job_id=0, **_older(request))
        return NewRun(
            tasks=tuple(overridden(task.spec, given, ()) for task in run.tasks),
            job_clusters=tuple(JobCluster(job_cluster_key=each.key, new_cluster=each.requested) for each in run.shared),
            timeout_seconds=run.timeout_seconds,
            notifying=run.notifying,
            overrides=older,
        )
    names = {each.name for each in row.settings.parameters or ()}
    kept = {name: value for name, value in kept.items() if name in names or not names}
    return wanted(row, RunNow(job_id=row.job_id, job_parameters=kept | (request.job_parameters or {}), **older))


def _older(request: Overrides) -> dict[str, Any]:
    return {name: value for name in OLDER if (value := getattr(request, name)) is not None}


def _selected(tasks: Sequence[SubmitTask], only: Sequence[str] | None) -> list[SubmitTask]:
    """The tasks with these keys. They do not wait for the others."""
    if not only:
        return list(tasks)
    keys = set(only)
    if unknown := keys - {task.task_key for task in tasks}:
        raise InvalidParameterValue(f"only: the job has no task {min(unknown)[:_SHOWN]!r}.")
    return [
        msgspec.structs.replace(task, depends_on=[each for each in task.depends_on or () if each.task_key in keys] or None)
        for task in tasks
        if task.task_key in keys
    ]


def overridden(task: SubmitTask, request: RunNow, parameters: Sequence[JobParameter]) -> SubmitTask:
    """The task, or the nested one of a for-each task, with the parameters of a request."""
    if (loop := task.for_each_task) is None:
        return _overridden(task, request, parameters)
    nested = msgspec.structs.replace(loop, task=_overridden(loop.task, request, parameters))
    return msgspec.structs.replace(task, for_each_task=nested)


def _overridden(task: SubmitTask, request: RunNow, parameters: Sequence[JobParameter]) -> SubmitTask:
    """The task with the parameters. A wheel that takes named parameters gets the job's too."""
    replace, task = msgspec.structs.replace, _with_named(task, request)
    if task.spark_python_task is not None and request.python_params is not None:
        return replace(task, spark_python_task=replace(task.spark_python_task, parameters=request.python_params))
    if task.spark_jar_task is not None and request.jar_params is not None:
        return replace(task, spark_jar_task=replace(task.spark_jar_task, parameters=request.jar_params))
    if (wheel := task.python_wheel_task) is not None:
        if request.python_params is not None:
            return replace(task, python_wheel_task=replace(wheel, parameters=request.python_params, named_parameters=None))
        named = {each.name: each.value for each in parameters} | (wheel.named_parameters or {})
        if request.python_named_params is not None:
            named, wheel = named | request.python_named_params, replace(wheel, parameters=None)
        if named and not wheel.parameters:
            return replace(task, python_wheel_task=replace(wheel, named_parameters=named))
    return task


def _with_named(task: SubmitTask, request: RunNow) -> SubmitTask:
    """The task with the values that a request has for parameters by name, or with its commands."""
    replace = msgspec.structs.replace
    if (notebook := task.notebook_task) is not None:
        given = (notebook.base_parameters or {}) | (request.notebook_params or {})
        return replace(task, notebook_task=replace(notebook, base_parameters=given or None))
    if (sql := task.sql_task) is not None:
        values = (sql.parameters or {}) | (request.sql_params or {})
        return replace(task, sql_task=replace(sql, parameters=values or None))
    if task.dbt_task is not None and request.dbt_commands is not None:
        return replace(task, dbt_task=replace(task.dbt_task, commands=request.dbt_commands))
    return task


def _has_no_task(settings: JobSettings) -> bool:
    return not settings.tasks and not any(
        says_something(getattr(settings, name)) for name in RunSettings.__struct_fields__ if name.endswith("_task")
    )


def _fits(name: str, value: str | None, most: int) -> None:
    if len((value or "").encode()) > most:
        raise InvalidParameterValue(f"{name} is too long: at most {most} bytes in UTF-8 are allowed.")
