"""Builds the tasks of a run from a submit request: checks every rule and converts the older one-task form. Pure.

Unsupported fields are refused by name. Every function raises only InvalidParameterValue.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

import msgspec

from brickyard.domain.decoding import converter
from brickyard.domain.errors import InvalidParameterValue
from brickyard.domain.libraries import Library
from brickyard.domain.notifications import Notifying
from brickyard.domain.places import Kind, parse
from brickyard.domain.spec import ClusterSpec
from brickyard.domain.tasks import (
    ForEachTask,
    JobCluster,
    NotebookTask,
    PythonWheelTask,
    RunIf,
    RunSettings,
    Source,
    SparkPythonTask,
    SubmitRun,
    SubmitTask,
)
from brickyard.plan import notices
from brickyard.plan.childruns import passed_on
from brickyard.plan.dbttasks import check as check_dbt
from brickyard.plan.iterations import MAX_CONCURRENCY, check_inputs
from brickyard.plan.libraries import check as check_library
from brickyard.plan.references import check as check_references
from brickyard.plan.sqltasks import check as check_sql

_to_library = converter(Library)


MAX_TASKS = 1_000  # as at Databricks
MAX_JOB_CLUSTERS = 100
MAX_KEY = 100
MAX_NAME_BYTES = 4096
MAX_TOKEN = 64
MAX_PARAMETER_BYTES = 10_000
MAX_SECONDS = 10 * 365 * 24 * 3600
UNTITLED = "Untitled"  # a run without a name
TASKS = (
    "notebook_task",
    "spark_python_task",
    "python_wheel_task",
    "spark_jar_task",
    "sql_task",
    "dbt_task",
    "condition_task",
    "run_job_task",
    "for_each_task",
)
CLUSTERLESS = ("condition_task", "run_job_task", "for_each_task")
CLUSTERS = ("new_cluster", "existing_cluster_id", "job_cluster_key")
_KEY = re.compile(rf"[A-Za-z0-9_-]{{1,{MAX_KEY}}}")
_NOT_OF_KEYS = re.compile(r"[^A-Za-z0-9_-]")
_SHOWN = 140  # how many characters of a client's value a message repeats

_NO_SUCH_TASK = f"use {', '.join(TASKS[:-1])} or {TASKS[-1]}"
REFUSED_RUN: dict[str, str] = {
    "budget_policy_id": "there are no budgets",
    "environments": "there is no serverless compute; give new_cluster or existing_cluster_id",
    "environment_variables": "there is no serverless compute; give new_cluster with spark_env_vars",
    "git_source": "files are not fetched from repositories; copy them to dbfs:/",
    "performance_target": "there is no serverless compute",
    "run_as": "a run belongs to the user who submits it; use that user's token",
    "usage_policy_id": "there are no budgets",
}
REFUSED_TASK: dict[str, str] = {
    "ai_runtime_task": _NO_SUCH_TASK,
    "alert_task": _NO_SUCH_TASK,
    "clean_rooms_notebook_task": _NO_SUCH_TASK,
    "compute": "there is no serverless compute; give new_cluster or existing_cluster_id",
    "dashboard_task": _NO_SUCH_TASK,
    "dbt_cloud_task": _NO_SUCH_TASK,
    "dbt_platform_task": _NO_SUCH_TASK,
    "environment_key": "there is no serverless compute; give new_cluster or existing_cluster_id",
    "gen_ai_compute_task": _NO_SUCH_TASK,
    "pipeline_task": _NO_SUCH_TASK,
    "power_bi_task": _NO_SUCH_TASK,
    "python_operator_task": _NO_SUCH_TASK,
    "spark_submit_task": _NO_SUCH_TASK,
}
REFUSED_PARAMETERS: dict[str, str] = {
    "pipeline_params": "there are no pipelines",
    "spark_submit_params": "there are no spark-submit tasks",
}


class TaskFile(NamedTuple):
    """The location of a Python file: in the workspace's files ("dbfs", as Spark resolves paths of dbfs:/) or on the server's
    machine ("file"), and the path."""

    place: str
    path: str


def checked_tasks(request: SubmitRun) -> tuple[SubmitTask, ...]:
    """The run's tasks. Clusters are checked elsewhere."""
    refuse(request, REFUSED_RUN, "")
    notices.check(request, "", of_task=False)
    if len(request.idempotency_token or "") > MAX_TOKEN:
        raise InvalidParameterValue(f"idempotency_token is too long: at most {MAX_TOKEN} characters are allowed.")
    if len((request.run_name or "").encode()) > MAX_NAME_BYTES:
        raise InvalidParameterValue(f"run_name is too long: at most {MAX_NAME_BYTES} bytes in UTF-8 are allowed.")
    return check_tasks(tasks_of(request, request.tasks, request.run_name), request.job_clusters or ())


def tasks_of(settings: RunSettings, tasks: Sequence[SubmitTask] | None, name: str | None) -> Sequence[SubmitTask]:
    """The tasks of a run or job with these settings, also in the older form of one task."""
    _seconds("timeout_seconds", settings.timeout_seconds)
    if not tasks:
        return [_single(settings, name)]
    if any(getattr(settings, each, None) for each in (*TASKS, *CLUSTERS, "libraries")):
        raise InvalidParameterValue("tasks is given together with a top-level task or cluster: put those into tasks.")
    refuse(settings, {each: REFUSED_TASK[each] for each in REFUSED_TASK if hasattr(settings, each)}, "")
    return tasks


def check_tasks(
    tasks: Sequence[SubmitTask], shared: Sequence[JobCluster], parameters: Sequence[str] = ()
) -> tuple[SubmitTask, ...]:
    """The tasks as they run. `shared`: the clusters that they name by key; `parameters`: the names of the job's."""
    if len(tasks) > MAX_TASKS:
        raise InvalidParameterValue(f"tasks has {len(tasks)} tasks; at most {MAX_TASKS} are allowed.")
    clusters = {each.job_cluster_key: each.new_cluster for each in shared}
    for each in shared:
        check_key("job_cluster_key", each.job_cluster_key)
    if len(clusters) < len(shared) or len(shared) > MAX_JOB_CLUSTERS:
        raise InvalidParameterValue(f"job_clusters must have different keys, and at most {MAX_JOB_CLUSTERS} clusters.")
    for task in tasks:
        _check_task(task, clusters)
    upstream = _check_order(tasks)
    sql = [each.task_key for each in tasks if each.sql_task is not None]
    for task in tasks:
        for one in [task] if task.for_each_task is None else [task, task.work]:
            check_references(
                _texts(one),
                f"Task {one.task_key}: ",
                tasks=upstream[task.task_key],
                parameters=parameters,
                sql=sql,
                nested=one is not task,
            )
    return tuple(_with_own_jvm(task, tasks, clusters) for task in tasks)


def task_file(python_file: str) -> TaskFile:
    """The location of a task's Python file. Raises InvalidParameterValue for locations that do not exist here."""
    scheme, colon, rest = python_file.partition(":")
    path = "/" + rest.lstrip("/") if colon else python_file
    if "\0" in python_file or ".." in path.split("/"):
        raise InvalidParameterValue(f"python_file must not contain '..' or NUL: {python_file[:_SHOWN]!r}.")
    below = scheme in ("", "dbfs", "file") or not colon
    if below and path.startswith("/dbfs/"):
        return TaskFile("dbfs", path.removeprefix("/dbfs"))
    if below and path.startswith(("/Volumes/", "/Workspace/")):
        return TaskFile("dbfs", path)
    if colon and scheme in ("dbfs", "file") and path != "/":
        return TaskFile(scheme, path)
    if not colon and path.startswith("/") and path != "/":  # as everywhere in the workspace, /Workspace may be left out
        return TaskFile("dbfs", f"/Workspace{path}")
    why = f"{scheme[:_SHOWN]}: files are not supported" if colon else "it must be an absolute path of a file"
    raise InvalidParameterValue(
        f"python_file {python_file[:_SHOWN]!r} cannot be run: {why}. Upload it with dbfs/put and give dbfs:/path/to/file.py."
    )


def parameters(task: SubmitTask) -> list[str]:
    """The command-line arguments of a task."""
    if task.spark_python_task is not None:
        return task.spark_python_task.parameters or []
    if task.python_wheel_task is not None:
        named = task.python_wheel_task.named_parameters or {}
        return task.python_wheel_task.parameters or [f"--{key}={value}" for key, value in named.items()]
    return (task.spark_jar_task.parameters if task.spark_jar_task is not None else None) or []


def libraries(task: SubmitTask) -> tuple[Library, ...]:
    """The libraries that the task's cluster must have."""
    return tuple(each for each in _libraries(task) if not _own_wheel(task, each))


def wheels(task: SubmitTask) -> list[str]:
    """Wheels that the task brings to a shared cluster for itself, as paths in the workspace's files: with their current content,
    and for no other task."""
    return [parse(str(each.whl)).node_path.removeprefix("/dbfs") for each in _libraries(task) if _own_wheel(task, each)]


def _own_wheel(task: SubmitTask, library: Library) -> bool:
    return library.whl is not None and task.work.new_cluster is None and parse(library.whl).kind is Kind.DBFS


def _libraries(task: SubmitTask) -> tuple[Library, ...]:
    found = []
    task = task.work
    for number, each in enumerate(task.libraries or ()):
        said = {kind: value for kind, value in each.items() if says_something(value)}
        if not said:
            continue
        where = f"Task {task.task_key}: libraries[{number}]"
        if unknown := next((kind for kind in said if kind not in Library.__struct_fields__), ""):
            raise InvalidParameterValue(f"{where}.{unknown[:_SHOWN]} is not a kind of library.")
        try:
            library = _to_library(said)
        except msgspec.ValidationError as error:
            raise InvalidParameterValue(f"{where} makes no sense: {error}.") from error
        check_library(library, where)
        found.append(library)
    return tuple(found)


def _single(settings: RunSettings, name: str | None) -> SubmitTask:
    """The single task of a run in the older form. Its key is the run's name, with "_" for what no key can have: Airflow looks it
    up."""
    of_run = ("timeout_seconds", *Notifying.__struct_fields__)
    shared = {each: getattr(settings, each) for each in RunSettings.__struct_fields__ if each not in of_run}
    return SubmitTask(task_key=_NOT_OF_KEYS.sub("_", name or UNTITLED)[:MAX_KEY], **shared)


def _texts(task: SubmitTask) -> list[str]:
    """The values of a task that may have dynamic references."""
    condition = [task.condition_task.left, task.condition_task.right] if task.condition_task is not None else []
    given = list((task.notebook_task.base_parameters or {}).values()) if task.notebook_task is not None else []
    loop = [task.for_each_task.inputs] if task.for_each_task is not None else []
    bound = list((task.sql_task.parameters or {}).values()) if task.sql_task is not None else []
    commands = task.dbt_task.commands if task.dbt_task is not None else []
    return [*parameters(task), *condition, *given, *loop, *bound, *commands, *passed_on(task.run_job_task)]


def _with_own_jvm(task: SubmitTask, tasks: Sequence[SubmitTask], clusters: Mapping[str, ClusterSpec]) -> SubmitTask:
    """A main method runs in the driver's JVM, whose output it must have to itself: its cluster is its own."""
    if task.for_each_task is not None:
        nested = _with_own_jvm(task.work, tasks, clusters)
        return msgspec.structs.replace(task, for_each_task=msgspec.structs.replace(task.for_each_task, task=nested))
    if task.spark_jar_task is None or not task.job_cluster_key:
        return task
    if sum(each.work.job_cluster_key == task.job_cluster_key for each in tasks) > 1:
        raise InvalidParameterValue(
            f"Task {task.task_key}: spark_jar_task is not supported with a job_cluster_key that other tasks have: it runs in the"
            " driver's JVM, whose standard output all tasks share. Give it a job cluster of its own."
        )
    return msgspec.structs.replace(task, new_cluster=clusters[task.job_cluster_key])


def check_key(name: str, key: str) -> None:
    if not _KEY.fullmatch(key):
        raise InvalidParameterValue(f"{name} {key[:_SHOWN]!r} is not valid: it has 1 to {MAX_KEY} letters, digits, '-' and '_'.")


def _check_clusters(where: str, task: SubmitTask, clusters: Mapping[str, ClusterSpec]) -> None:
    given = [name for name in CLUSTERS if getattr(task, name)]
    kind = next((name for name in CLUSTERLESS if getattr(task, name) is not None), "")
    if kind or task.on_warehouse:
        if given or task.libraries:
            runs = f"{kind} runs without a cluster" if kind else "it runs on its warehouse"
            raise InvalidParameterValue(f"{where}{runs}: leave out {(*given, 'libraries')[0]}.")
    elif len(given) != 1:
        raise InvalidParameterValue(f"{where}give one of {', '.join(CLUSTERS)} (there is no serverless compute).")
    elif task.job_cluster_key and task.job_cluster_key not in clusters:
        raise InvalidParameterValue(f"{where}job_cluster_key {task.job_cluster_key[:_SHOWN]!r} is not one of job_clusters.")


def _check_task(task: SubmitTask, clusters: Mapping[str, ClusterSpec]) -> None:
    where = f"Task {task.task_key[:_SHOWN]}: "
    check_key("task_key", task.task_key)
    refuse(task, REFUSED_TASK, where)
    notices.check(task, where, of_task=True)
    given = [name for name in TASKS if getattr(task, name) is not None]
    if len(given) != 1:
        said = "nothing" if not given else " and ".join(given)
        raise InvalidParameterValue(f"{where}it says {said} to run. Give one of {', '.join(TASKS)}.")
    _check_clusters(where, task, clusters)
    _libraries(task)
    if task.spark_python_task is not None:
        _check_python(where, task.spark_python_task)
    elif task.python_wheel_task is not None:
        _check_wheel(where, task.python_wheel_task)
    elif task.spark_jar_task is not None:
        _check_jar(where, task)
    elif task.notebook_task is not None:
        _check_notebook(where, task.notebook_task)
    elif task.run_job_task is not None:
        refuse(task.run_job_task, REFUSED_PARAMETERS, f"{where}run_job_task.")
        _check_parameters(where, passed_on(task.run_job_task))
    elif task.for_each_task is not None:
        _check_for_each(where, task, task.for_each_task, clusters)
    elif task.sql_task is not None:
        check_sql(where, task.sql_task)
        _check_parameters(where, list((task.sql_task.parameters or {}).values()))
    elif task.dbt_task is not None:
        check_dbt(where, task.dbt_task)
    _check_parameters(where, parameters(task))
    _seconds(f"{where}timeout_seconds", task.timeout_seconds)
    _seconds(f"{where}min_retry_interval_millis", (task.min_retry_interval_millis or 0) // 1000)
    if (task.max_retries or 0) < -1:
        raise InvalidParameterValue(f"{where}max_retries is {task.max_retries}; it must be -1 (for ever), 0 or more.")


def _check_for_each(where: str, task: SubmitTask, asked: ForEachTask, clusters: Mapping[str, ClusterSpec]) -> None:
    if not 1 <= (1 if asked.concurrency is None else asked.concurrency) <= MAX_CONCURRENCY:
        raise InvalidParameterValue(f"{where}concurrency is {asked.concurrency}; it must be between 1 and {MAX_CONCURRENCY}.")
    _check_parameters(where, [asked.inputs])
    if "{{" not in asked.inputs:
        check_inputs(asked.inputs, where)
    nested = asked.task
    if nested.for_each_task is not None:
        raise InvalidParameterValue(f"{where}the nested task must not be a for_each_task.")
    if nested.task_key == task.task_key:
        raise InvalidParameterValue(f"{where}the nested task must have a task_key of its own.")
    refuse(nested, dict.fromkeys(("depends_on", "disabled"), "give it to the for-each task"), f"{where}task.")
    if nested.run_if not in (None, RunIf.ALL_SUCCESS):
        raise InvalidParameterValue(f"{where}task.run_if is not supported: give it to the for-each task.")
    _check_task(nested, clusters)


def _check_python(where: str, task: SparkPythonTask) -> None:
    if task.source is Source.GIT:
        raise InvalidParameterValue(f"{where}source GIT is not supported: {REFUSED_RUN['git_source']}.")
    task_file(task.python_file)


def _check_wheel(where: str, task: PythonWheelTask) -> None:
    if not task.package_name or not task.entry_point:
        raise InvalidParameterValue(f"{where}python_wheel_task needs both package_name and entry_point.")
    if task.parameters and task.named_parameters:
        raise InvalidParameterValue(f"{where}parameters and named_parameters are both given. Leave one out.")


def _check_notebook(where: str, task: NotebookTask) -> None:
    if task.source is Source.GIT:
        raise InvalidParameterValue(f"{where}source GIT is not supported: {REFUSED_RUN['git_source']}.")
    if not task.notebook_path.startswith("/") or ".." in task.notebook_path.split("/") or "\0" in task.notebook_path:
        raise InvalidParameterValue(
            f"{where}notebook_path {task.notebook_path[:_SHOWN]!r} must be an absolute path in the workspace, without '..'."
        )
    _check_parameters(where, list((task.base_parameters or {}).values()))


def _check_jar(where: str, task: SubmitTask) -> None:
    jar = task.spark_jar_task
    if jar is None or not jar.main_class_name:
        raise InvalidParameterValue(f"{where}spark_jar_task needs main_class_name.")
    if jar.jar_uri:
        raise InvalidParameterValue(f"{where}jar_uri is not supported: give the jar in libraries.")
    if jar.run_as_repl is False:
        raise InvalidParameterValue(f"{where}run_as_repl false is not supported: a main method runs in the cluster's driver.")
    if task.existing_cluster_id:
        raise InvalidParameterValue(
            f"{where}spark_jar_task is not supported with existing_cluster_id: it runs in the driver's JVM, whose standard"
            " output all tasks share. Give new_cluster."
        )


def _check_parameters(where: str, given: Sequence[str]) -> None:
    size = len(msgspec.json.encode(given))
    if size > MAX_PARAMETER_BYTES:
        raise InvalidParameterValue(
            f"{where}parameters have {size} bytes as JSON; at most {MAX_PARAMETER_BYTES} are allowed. Put them into a file."
        )


def _check_order(tasks: Sequence[SubmitTask]) -> Mapping[str, frozenset[str]]:
    """Raises unless the tasks can run one after the other. Returns the keys of all tasks that each one waits for."""
    graph: dict[str, list[str]] = {}
    for task in tasks:
        if task.task_key in graph:
            raise InvalidParameterValue(f"Task key {task.task_key} is given twice: each must be unique within its run.")
        graph[task.task_key] = [each.task_key for each in task.depends_on or ()]
    conditions = {task.task_key for task in tasks if task.condition_task is not None}
    for task in tasks:
        for each in task.depends_on or ():
            if each.outcome is not None and (each.outcome not in ("true", "false") or each.task_key not in conditions):
                raise InvalidParameterValue(
                    f"Task {task.task_key}: depends_on.outcome is true or false, and for condition tasks only."
                )
    for key, needed in graph.items():
        if unknown := [each for each in needed if each not in graph]:
            raise InvalidParameterValue(f"Task {key} depends on {unknown[0][:_SHOWN]!r}, which is not a task of this run.")
    try:
        order = tuple(TopologicalSorter(graph).static_order())
    except CycleError as error:
        raise InvalidParameterValue(f"The tasks depend on each other in a circle: {' <- '.join(error.args[1])}.") from error
    upstream: dict[str, frozenset[str]] = {}
    for key in order:
        upstream[key] = frozenset(graph[key]).union(*(upstream[each] for each in graph[key]))
    return upstream


def _seconds(name: str, value: int | None) -> None:
    if not 0 <= (value or 0) <= MAX_SECONDS:
        raise InvalidParameterValue(f"{name} is {value}; it must be 0 (none) or more, and at most ten years.")


def refuse(settings: msgspec.Struct, reasons: Mapping[str, str], where: str) -> None:
    """Refuses unsupported fields; an empty value counts as absent."""
    for name, why in reasons.items():
        if says_something(getattr(settings, name)):
            raise InvalidParameterValue(f"{where}{name} is not supported: {why}.")


def says_something(value: object) -> bool:
    """Whether anything in the value is non-empty: clients send empty lists of people to notify."""
    if isinstance(value, dict):
        return any(says_something(each) for each in value.values())
    if isinstance(value, list):
        return any(says_something(each) for each in value)
    return bool(value)
