"""Jobs: their rows, and the requests and answers of the Jobs API, with its field names.

Absent and default are the same on the wire. Times are epoch milliseconds. Source: databricks-sdk `service/jobs.py`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from brickyard.domain.access import AccessControlRequest
from brickyard.domain.spec import Wire
from brickyard.domain.tasks import JobCluster, RunSettings, SubmitTask


class PauseStatus(StrEnum):
    PAUSED = "PAUSED"
    UNPAUSED = "UNPAUSED"


class CronSchedule(Wire, frozen=True, kw_only=True):
    """When a job runs: a Quartz expression, in the time of a Java time zone id."""

    quartz_cron_expression: str
    timezone_id: str
    pause_status: PauseStatus | None = None


class PeriodicUnit(StrEnum):
    DAYS = "DAYS"
    HOURS = "HOURS"
    WEEKS = "WEEKS"


class PeriodicTrigger(Wire, frozen=True, kw_only=True):
    interval: int
    unit: PeriodicUnit


class FileArrival(Wire, frozen=True, kw_only=True):
    """Files that are new below a directory: `/Volumes/...` or `dbfs:/...`."""

    url: str
    min_time_between_triggers_seconds: int | None = None
    wait_after_last_change_seconds: int | None = None


class Condition(StrEnum):
    ALL_UPDATED = "ALL_UPDATED"
    ANY_UPDATED = "ANY_UPDATED"


class TableUpdate(Wire, frozen=True, kw_only=True):
    """New versions of Delta tables, `catalog.schema.table`."""

    table_names: list[str]
    condition: Condition | None = None
    min_time_between_triggers_seconds: int | None = None
    wait_after_last_change_seconds: int | None = None


class TriggerSettings(Wire, frozen=True, kw_only=True):
    """One of these. `rules` refuses the fields of type Any by name."""

    pause_status: PauseStatus | None = None
    periodic: PeriodicTrigger | None = None
    file_arrival: FileArrival | None = None
    table_update: TableUpdate | None = None
    model: dict[str, Any] | None = None
    table: dict[str, Any] | None = None


class TaskRetryMode(StrEnum):
    NEVER = "NEVER"
    ON_FAILURE = "ON_FAILURE"


class Continuous(Wire, frozen=True, kw_only=True):
    """One run is always active. `rules` refuses the field of type Any by name."""

    pause_status: PauseStatus | None = None
    task_retry_mode: TaskRetryMode | None = None
    maintenance_window: dict[str, Any] | None = None


class Queue(Wire, frozen=True, kw_only=True):
    enabled: bool | None = None


class JobParameterDefinition(Wire, frozen=True, kw_only=True):
    name: str
    default: str


class JobRunAs(Wire, frozen=True, kw_only=True):
    """Whose rights the runs have: one of these."""

    user_name: str | None = None
    service_principal_name: str | None = None
    group_name: str | None = None


class EditMode(StrEnum):
    EDITABLE = "EDITABLE"
    UI_LOCKED = "UI_LOCKED"


class JobDeployment(Wire, frozen=True, kw_only=True):
    """The tool that manages the job."""

    kind: str
    metadata_file_path: str | None = None
    deployment_id: str | None = None
    version_id: str | None = None


class JobSettings(RunSettings, frozen=True, kw_only=True):
    """What a job is made of. `rules` refuses the fields of type Any by name."""

    name: str | None = None
    description: str | None = None
    tasks: list[SubmitTask] | None = None
    job_clusters: list[JobCluster] | None = None
    parameters: list[JobParameterDefinition] | None = None
    schedule: CronSchedule | None = None
    trigger: TriggerSettings | None = None
    continuous: Continuous | None = None
    max_concurrent_runs: int | None = None
    max_retries: int | None = None  # these three belong to the older form of one task
    min_retry_interval_millis: int | None = None
    retry_on_timeout: bool | None = None
    queue: Queue | None = None
    run_as: JobRunAs | None = None
    tags: dict[str, str] | None = None
    format: str | None = None
    edit_mode: EditMode | None = None
    deployment: JobDeployment | None = None
    budget_policy_id: str | None = None
    environments: list[dict[str, Any]] | None = None
    git_source: dict[str, Any] | None = None
    performance_target: str | None = None
    usage_policy_id: str | None = None


class CreateJob(JobSettings, frozen=True, kw_only=True):
    access_control_list: list[AccessControlRequest] | None = None


class CreateJobResponse(Wire, frozen=True, kw_only=True):
    job_id: int


class JobId(Wire, frozen=True, kw_only=True):
    job_id: int


class GetJob(JobId, frozen=True, kw_only=True):
    """A job, and the page of its tasks, job clusters and parameters."""

    page_token: str | None = None
    include_trigger_state: bool | None = None


class ListJobs(Wire, frozen=True, kw_only=True):
    expand_tasks: bool | None = None
    limit: int | None = None
    name: str | None = None  # the whole name, in any case
    offset: int | None = None
    page_token: str | None = None


class ResetJob(JobId, frozen=True, kw_only=True):
    new_settings: JobSettings


class UpdateJob(JobId, frozen=True, kw_only=True):
    new_settings: JobSettings | None = None
    fields_to_remove: list[str] | None = None


class Overrides(Wire, frozen=True, kw_only=True):
    """The parameters of one run. `rules` refuses the fields for kinds of tasks that are not offered by name."""

    jar_params: list[str] | None = None
    job_parameters: dict[str, str] | None = None
    python_named_params: dict[str, str] | None = None
    python_params: list[str] | None = None
    dbt_commands: list[str] | None = None
    notebook_params: dict[str, str] | None = None
    performance_target: str | None = None
    pipeline_params: dict[str, Any] | None = None
    spark_submit_params: list[str] | None = None
    sql_params: dict[str, str] | None = None


class RunNow(Overrides, frozen=True, kw_only=True):
    job_id: int
    idempotency_token: str | None = None
    only: list[str] | None = None
    queue: Queue | None = None


class RepairRun(Overrides, frozen=True, kw_only=True):
    """Which tasks of a run to run again, and its latest repair, if there was one."""

    run_id: int
    latest_repair_id: int | None = None
    rerun_all_failed_tasks: bool | None = None
    rerun_dependent_tasks: bool | None = None
    rerun_tasks: list[str] | None = None


class RepairRunResponse(Wire, frozen=True, kw_only=True):
    repair_id: int


class RunNowResponse(Wire, frozen=True, kw_only=True):
    run_id: int
    number_in_job: int


class CancelAllRuns(Wire, frozen=True, kw_only=True):
    job_id: int | None = None
    all_queued_runs: bool | None = None


class FileArrivalState(Wire, frozen=True, kw_only=True):
    using_file_events: bool = False


class TableState(Wire, frozen=True, kw_only=True):
    table_name: str
    has_seen_updates: bool


class TableTriggerState(Wire, frozen=True, kw_only=True):
    last_seen_table_states: list[TableState] | None = None


class TriggerState(Wire, frozen=True, kw_only=True):
    """What a job's trigger has seen. `last_trigger_time` and `message`, which says why it cannot look, are additions."""

    file_arrival: FileArrivalState | None = None
    table: TableTriggerState | None = None
    last_trigger_time: int | None = None
    message: str | None = None


class JobView(Wire, frozen=True, kw_only=True):
    """A job. `settings` has the first 100 tasks, job clusters and parameters; `next_page_token` leads to the others. A list shows
    it without tasks and job clusters, unless they are asked for; then `has_more` says that it has others."""

    job_id: int
    creator_user_name: str
    run_as_user_name: str
    created_time: int
    settings: JobSettings
    next_run_time: int | None = None  # an addition: when its schedule comes next
    trigger_state: TriggerState | None = None
    has_more: bool | None = None
    next_page_token: str | None = None


class ListJobsResponse(Wire, frozen=True, kw_only=True):
    jobs: list[JobView] | None = None
    has_more: bool | None = None
    next_page_token: str | None = None
    prev_page_token: str | None = None


class Continuity(msgspec.Struct, frozen=True, kw_only=True):
    """How a continuous job goes on. `run_id`: the run that was looked at last, `failures` in a row until then, and when the next
    one may begin."""

    run_id: int = 0
    failures: int = 0
    begin_ms: int = 0


class JobRow(msgspec.Struct, frozen=True, kw_only=True):
    """A job as it is stored. Its runs have the rights of `run_as`."""

    job_id: int
    creator_user_name: str
    run_as: str
    created_ms: int
    settings: JobSettings
    next_ms: int = 0  # the next scheduled run, or the next look of a continuous job or a trigger; 0: none
    continuity: Continuity = Continuity()
    owner: str = ""  # once it was given away
    version: int = 0

    @property
    def owned_by(self) -> str:
        """Who may do everything with the job."""
        return self.owner or self.creator_user_name
