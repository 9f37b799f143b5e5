"""Request and response bodies of the run calls of the Jobs API, with its field names.

Absent and default are the same on the wire. Times are epoch milliseconds. Source: databricks-sdk `service/jobs.py`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from brickyard.domain.notebookcells import NotebookCell
from brickyard.domain.run import (
    JobParameter,
    RunLifeCycleState,
    RunLifecycleStateV2State,
    RunResultState,
    RunType,
    TerminationCode,
    TerminationType,
)
from brickyard.domain.spec import ClusterSpec, Wire
from brickyard.domain.tasks import (
    ConditionTask,
    DbtTask,
    ForEachTask,
    JobCluster,
    NotebookTask,
    PythonWheelTask,
    RunIf,
    RunJobTask,
    SparkJarTask,
    SparkPythonTask,
    SqlTask,
    TaskDependency,
)


class RunId(Wire, frozen=True, kw_only=True):
    """The only argument of cancel and delete: the id of a run."""

    run_id: int


class GetRun(RunId, frozen=True, kw_only=True):
    """A run, or an attempt at a task by its run id, and the page of its tasks or iterations. The edge sets `base_url`."""

    base_url: str = ""
    include_history: bool | None = None
    include_resolved_values: bool | None = None
    page_token: str | None = None


class ListRuns(Wire, frozen=True, kw_only=True):
    """Which runs to list, and the page."""

    active_only: bool | None = None
    completed_only: bool | None = None
    expand_tasks: bool | None = None
    job_id: int | None = None
    limit: int | None = None
    offset: int | None = None
    page_token: str | None = None
    run_type: RunType | None = None
    start_time_from: int | None = None
    start_time_to: int | None = None


class GetRunCells(RunId, frozen=True, kw_only=True):
    """An attempt at a notebook task. `after`: only cells with a newer version; 0: all."""

    after: int | None = None


class RunCells(Wire, frozen=True, kw_only=True):
    """Cells of a notebook, those that changed first come first. `has_more`: ask again, after the last version. `over`: none of
    them changes any more."""

    cells: list[NotebookCell]
    has_more: bool
    over: bool


class ViewsToExport(StrEnum):
    """Which views of a notebook to export. There are no dashboards."""

    CODE = "CODE"
    DASHBOARDS = "DASHBOARDS"
    ALL = "ALL"


class ExportRun(RunId, frozen=True, kw_only=True):
    views_to_export: ViewsToExport | None = None


class ViewItem(Wire, frozen=True, kw_only=True):
    """A view as HTML."""

    name: str
    type: str
    content: str


class ExportedRun(Wire, frozen=True, kw_only=True):
    views: list[ViewItem]


class SubmitRunResponse(Wire, frozen=True, kw_only=True):
    run_id: int


class RunState(Wire, frozen=True, kw_only=True):
    """The progress of a run, in the older enums."""

    life_cycle_state: RunLifeCycleState
    result_state: RunResultState | None = None
    state_message: str | None = None
    user_cancelled_or_timedout: bool | None = None


class TerminationDetails(Wire, frozen=True, kw_only=True):
    code: TerminationCode
    type: TerminationType
    message: str | None = None


class RunStatus(Wire, frozen=True, kw_only=True):
    """The progress of a run, in the newer enums."""

    state: RunLifecycleStateV2State
    termination_details: TerminationDetails | None = None


class ClusterInstance(Wire, frozen=True, kw_only=True):
    """Where a task is running or ran."""

    cluster_id: str
    spark_context_id: str | None = None


class RunClusterSpec(Wire, frozen=True, kw_only=True):
    """The requested cluster."""

    existing_cluster_id: str | None = None
    job_cluster_key: str | None = None
    libraries: list[dict[str, Any]] | None = None
    new_cluster: ClusterSpec | None = None


class RunConditionTask(ConditionTask, frozen=True, kw_only=True):
    """A condition, and its outcome once it is known."""

    outcome: str | None = None


class RunParameters(Wire, frozen=True, kw_only=True):
    """The parameters in the older forms that a run was given in place of its job's."""

    dbt_commands: list[str] | None = None
    jar_params: list[str] | None = None
    notebook_params: dict[str, str] | None = None
    python_named_params: dict[str, str] | None = None
    python_params: list[str] | None = None
    sql_params: dict[str, str] | None = None


class RepairType(StrEnum):
    ORIGINAL = "ORIGINAL"
    REPAIR = "REPAIR"


class RepairHistoryItem(Wire, frozen=True, kw_only=True):
    """A run as it was made, or a repair of it, and the task runs that belong to that."""

    type: RepairType
    id: int | None = None
    start_time: int
    end_time: int | None = None
    state: RunState | None = None
    status: RunStatus | None = None
    task_run_ids: list[int]


class IterationStats(Wire, frozen=True, kw_only=True):
    """How many iterations of a for-each task there are in each state."""

    total_iterations: int
    scheduled_iterations: int
    active_iterations: int
    completed_iterations: int
    succeeded_iterations: int
    failed_iterations: int


class IterationErrorStats(Wire, frozen=True, kw_only=True):
    """An error of iterations, and how many of them had it."""

    count: int
    error_message: str
    termination_category: TerminationCode


class ForEachStats(Wire, frozen=True, kw_only=True):
    error_message_stats: list[IterationErrorStats] | None = None
    task_run_stats: IterationStats | None = None


class RunForEachTask(ForEachTask, frozen=True, kw_only=True):
    """A for-each task, and what its iterations came to so far."""

    stats: ForEachStats | None = None


class RunTask(RunClusterSpec, frozen=True, kw_only=True):
    """One attempt at a task, or a task without attempts."""

    run_id: int
    task_key: str
    attempt_number: int
    state: RunState
    status: RunStatus
    cleanup_duration: int | None = None
    cluster_instance: ClusterInstance | None = None
    condition_task: RunConditionTask | None = None
    dbt_task: DbtTask | None = None
    depends_on: list[TaskDependency] | None = None
    description: str | None = None
    disabled: bool | None = None
    duration_warning_time: int | None = None  # an addition: when it was found to take longer than its health rule allows
    end_time: int | None = None
    execution_duration: int | None = None
    for_each_task: RunForEachTask | None = None
    max_retries: int | None = None
    notebook_task: NotebookTask | None = None
    min_retry_interval_millis: int | None = None
    python_wheel_task: PythonWheelTask | None = None
    retry_on_timeout: bool | None = None
    run_duration: int | None = None
    run_if: RunIf | None = None
    run_job_task: RunJobTask | None = None
    run_page_url: str | None = None
    setup_duration: int | None = None
    spark_jar_task: SparkJarTask | None = None
    spark_python_task: SparkPythonTask | None = None
    sql_task: SqlTask | None = None
    start_time: int | None = None
    timeout_seconds: int | None = None


class TriggerInfo(Wire, frozen=True, kw_only=True):
    """The task run that has made a run of another job."""

    run_id: int


class RunView(Wire, frozen=True, kw_only=True):
    """A run, or an attempt at a task if the request gave the attempt's id."""

    run_id: int
    job_id: int
    job_run_id: int
    number_in_job: int
    original_attempt_run_id: int
    state: RunState
    status: RunStatus
    run_name: str
    run_type: RunType
    trigger: str
    format: str
    creator_user_name: str
    start_time: int
    run_page_url: str | None = None
    attempt_number: int | None = None
    cleanup_duration: int | None = None
    cluster_instance: ClusterInstance | None = None
    cluster_spec: RunClusterSpec | None = None
    description: str | None = None
    duration_warning_time: int | None = None  # an addition: when it was found to take longer than its health rule allows
    job_clusters: list[JobCluster] | None = None
    job_parameters: list[JobParameter] | None = None
    overriding_parameters: RunParameters | None = None
    queue_duration: int | None = None
    end_time: int | None = None
    execution_duration: int | None = None
    run_duration: int | None = None
    setup_duration: int | None = None
    repair_history: list[RepairHistoryItem] | None = None
    tasks: list[RunTask] | None = None
    iterations: list[RunTask] | None = None
    has_more: bool | None = None  # in a list: `runs/get` has more tasks than these
    next_page_token: str | None = None
    trigger_info: TriggerInfo | None = None


class ListRunsResponse(Wire, frozen=True, kw_only=True):
    has_more: bool | None = None
    next_page_token: str | None = None
    prev_page_token: str | None = None
    runs: list[RunView] | None = None


class NotebookOutput(Wire, frozen=True, kw_only=True):
    """What a notebook has returned by `dbutils.notebook.exit`."""

    result: str | None = None
    truncated: bool | None = None


class RunJobOutput(Wire, frozen=True, kw_only=True):
    """The run of another job that a task has made."""

    run_id: int


class SqlColumn(Wire, frozen=True, kw_only=True):
    name: str
    type_text: str


class SqlStatementOutput(Wire, frozen=True, kw_only=True):
    """A statement that has begun: its id in the query history and in the Statement Execution API."""

    lookup_key: str


class SqlResult(Wire, frozen=True, kw_only=True):
    """The first rows of the last statement's result, as text."""

    columns: list[SqlColumn]
    data_array: list[list[str | None]]
    truncated: bool


class SqlQueryOutput(Wire, frozen=True, kw_only=True):
    """`result` is ours: what is at `output_link`, which is the run's page."""

    warehouse_id: str
    endpoint_id: str
    query_text: str
    sql_statements: list[SqlStatementOutput]
    output_link: str
    result: SqlResult | None = None


class SqlOutput(Wire, frozen=True, kw_only=True):
    query_output: SqlQueryOutput


class GetOutput(RunId, frozen=True, kw_only=True):
    """An attempt at a task. The edge sets `base_url`."""

    base_url: str = ""


class RunOutput(Wire, frozen=True, kw_only=True):
    """The output of an attempt at a task."""

    metadata: RunView
    error: str | None = None
    error_trace: str | None = None
    logs: str | None = None
    logs_truncated: bool | None = None
    notebook_output: NotebookOutput | None = None
    run_job_output: RunJobOutput | None = None
    sql_output: SqlOutput | None = None
