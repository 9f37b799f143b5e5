"""The tasks of runs and their dependencies, with the field names of the Databricks Jobs API.

Times are seconds or milliseconds, as the names say. Source: databricks-sdk `service/jobs.py`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from brickyard.domain.access import AccessControlRequest
from brickyard.domain.notifications import Notifying
from brickyard.domain.spec import ClusterSpec, Wire


class RunIf(StrEnum):
    """When a task runs, given the results of the tasks it depends on."""

    ALL_DONE = "ALL_DONE"
    ALL_FAILED = "ALL_FAILED"
    ALL_SUCCESS = "ALL_SUCCESS"
    AT_LEAST_ONE_FAILED = "AT_LEAST_ONE_FAILED"
    AT_LEAST_ONE_SUCCESS = "AT_LEAST_ONE_SUCCESS"
    NONE_FAILED = "NONE_FAILED"


class Source(StrEnum):
    """Where a task's file is."""

    GIT = "GIT"
    WORKSPACE = "WORKSPACE"


class TaskDependency(Wire, frozen=True, kw_only=True):
    """Another task of the run that must finish first. `outcome` is for condition tasks."""

    task_key: str
    outcome: str | None = None


class SparkPythonTask(Wire, frozen=True, kw_only=True):
    """A Python file and its command-line arguments."""

    python_file: str
    parameters: list[str] | None = None
    source: Source | None = None


class PythonWheelTask(Wire, frozen=True, kw_only=True):
    """An entry point of a package, or a function with that name in it, and its command-line arguments."""

    package_name: str
    entry_point: str
    named_parameters: dict[str, str] | None = None
    parameters: list[str] | None = None


class SparkJarTask(Wire, frozen=True, kw_only=True):
    """A class with a main method, and its arguments."""

    main_class_name: str | None = None
    parameters: list[str] | None = None
    jar_uri: str | None = None
    run_as_repl: bool | None = None


class NotebookTask(Wire, frozen=True, kw_only=True):
    """A notebook of the workspace, and the values of its widgets."""

    notebook_path: str
    base_parameters: dict[str, str] | None = None
    source: Source | None = None
    warehouse_id: str | None = None


class SqlTaskFile(Wire, frozen=True, kw_only=True):
    """A file of the workspace with SQL statements."""

    path: str
    source: Source | None = None


class SqlTaskQuery(Wire, frozen=True, kw_only=True):
    """A saved query."""

    query_id: str


class SqlTask(Wire, frozen=True, kw_only=True):
    """SQL on a warehouse: one of `file` and `query`. `plan.sqltasks` refuses the fields of type Any by name."""

    warehouse_id: str
    file: SqlTaskFile | None = None
    query: SqlTaskQuery | None = None
    parameters: dict[str, str] | None = None
    alert: dict[str, Any] | None = None
    dashboard: dict[str, Any] | None = None


class DbtTask(Wire, frozen=True, kw_only=True):
    """Commands of dbt on a project of the workspace. They run on the task's cluster, and their SQL on the warehouse, or where the
    project's own profiles.yml says. That is in `profiles_directory`, which is relative to the project."""

    commands: list[str]
    project_directory: str | None = None
    warehouse_id: str | None = None
    catalog: str | None = None
    schema: str | None = None
    profiles_directory: str | None = None
    source: Source | None = None


class JobCluster(Wire, frozen=True, kw_only=True):
    """A cluster that tasks share by its key. It is created for each run, and ends with the last of them."""

    job_cluster_key: str
    new_cluster: ClusterSpec


class ConditionOp(StrEnum):
    """How a condition compares its two sides. EQUAL_TO and NOT_EQUAL compare text, the others numbers."""

    EQUAL_TO = "EQUAL_TO"
    GREATER_THAN = "GREATER_THAN"
    GREATER_THAN_OR_EQUAL = "GREATER_THAN_OR_EQUAL"
    LESS_THAN = "LESS_THAN"
    LESS_THAN_OR_EQUAL = "LESS_THAN_OR_EQUAL"
    NOT_EQUAL = "NOT_EQUAL"


class ConditionTask(Wire, frozen=True, kw_only=True):
    """Compares two values, which may be dynamic references. Runs without a cluster; its outcome is "true" or "false"."""

    left: str
    op: ConditionOp
    right: str


class RunJobTask(Wire, frozen=True, kw_only=True):
    """Another job to run, and the parameters of its run. `plan.submit` refuses the fields of type Any by name."""

    job_id: int
    job_parameters: dict[str, str] | None = None
    jar_params: list[str] | None = None
    notebook_params: dict[str, str] | None = None
    python_named_params: dict[str, str] | None = None
    python_params: list[str] | None = None
    dbt_commands: list[str] | None = None
    pipeline_params: dict[str, Any] | None = None
    spark_submit_params: list[Any] | None = None
    sql_params: dict[str, str] | None = None


class ForEachTask(Wire, frozen=True, kw_only=True):
    """A nested task, which runs once for each item of `inputs`: an array as JSON, or a dynamic reference to one."""

    inputs: str
    task: SubmitTask
    concurrency: int | None = None  # how many of them run at once; 1 if absent


class RunSettings(Notifying, frozen=True, kw_only=True):
    """The fields that a task shares with a run of one task in the older form of `runs/submit`: what to run, and on which cluster.

    `plan.submit` refuses the fields of type Any by name.
    """

    existing_cluster_id: str | None = None
    new_cluster: ClusterSpec | None = None
    spark_python_task: SparkPythonTask | None = None
    python_wheel_task: PythonWheelTask | None = None
    spark_jar_task: SparkJarTask | None = None
    notebook_task: NotebookTask | None = None
    sql_task: SqlTask | None = None
    dbt_task: DbtTask | None = None
    timeout_seconds: int | None = None
    libraries: list[dict[str, Any]] | None = None
    pipeline_task: dict[str, Any] | None = None
    run_job_task: RunJobTask | None = None
    spark_submit_task: dict[str, Any] | None = None


class SubmitTask(RunSettings, frozen=True, kw_only=True):
    """One task of a run."""

    task_key: str
    depends_on: list[TaskDependency] | None = None
    description: str | None = None
    disabled: bool | None = None
    max_retries: int | None = None  # -1: until it succeeds
    min_retry_interval_millis: int | None = None  # between the starts of two attempts
    retry_on_timeout: bool | None = None
    run_if: RunIf | None = None
    job_cluster_key: str | None = None
    environment_key: str | None = None
    ai_runtime_task: dict[str, Any] | None = None
    alert_task: dict[str, Any] | None = None
    clean_rooms_notebook_task: dict[str, Any] | None = None
    compute: dict[str, Any] | None = None
    condition_task: ConditionTask | None = None
    dashboard_task: dict[str, Any] | None = None
    dbt_cloud_task: dict[str, Any] | None = None
    dbt_platform_task: dict[str, Any] | None = None
    for_each_task: ForEachTask | None = None
    gen_ai_compute_task: dict[str, Any] | None = None
    power_bi_task: dict[str, Any] | None = None
    python_operator_task: dict[str, Any] | None = None

    @property
    def work(self) -> SubmitTask:
        """The task that needs a cluster: the nested one of a for-each task, else this one."""
        return self.for_each_task.task if self.for_each_task is not None else self

    @property
    def on_warehouse(self) -> str:
        """The id of the SQL warehouse on which the task runs; "" if it runs on a cluster, or on none."""
        notebook = self.notebook_task.warehouse_id if self.notebook_task is not None else None
        return self.sql_task.warehouse_id if self.sql_task is not None else notebook or ""

    @property
    def existing_id(self) -> str:
        """The id of the existing cluster or SQL warehouse on which the task runs; "" if it is given a cluster."""
        return self.on_warehouse or self.existing_cluster_id or ""


class SubmitRun(RunSettings, frozen=True, kw_only=True):
    """`jobs/runs/submit`: a run of several tasks or, in the older form, a single task described by the run itself."""

    run_name: str | None = None
    tasks: list[SubmitTask] | None = None
    idempotency_token: str | None = None
    queue: dict[str, Any] | None = None  # ignored: runs start at once
    access_control_list: list[AccessControlRequest] | None = None
    budget_policy_id: str | None = None
    environments: list[dict[str, Any]] | None = None
    environment_variables: list[dict[str, Any]] | None = None
    git_source: dict[str, Any] | None = None
    job_clusters: list[JobCluster] | None = None
    performance_target: str | None = None
    run_as: dict[str, Any] | None = None
    usage_policy_id: str | None = None
