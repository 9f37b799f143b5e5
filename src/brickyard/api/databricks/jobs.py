"""The Jobs API: jobs, and their runs or submitted ones."""

from __future__ import annotations

from msgspec.structs import replace

from brickyard.api.edge.group import IN_WORKSPACE, Group, on_cluster
from brickyard.api.edge.registry import EVERY, Need, Operation
from brickyard.domain.access import ObjectKind, Permission
from brickyard.domain.caller import Caller
from brickyard.domain.tasks import SubmitRun
from brickyard.features.jobs import model as job
from brickyard.features.jobs.rules import queued
from brickyard.features.jobs.service import JobService
from brickyard.features.runs import model as view
from brickyard.features.runs.service import RunService


async def _submit(runs: RunService, caller: Caller, request: SubmitRun) -> view.SubmitRunResponse:
    return view.SubmitRunResponse(run_id=await runs.submit(caller, request))


async def _get(runs: RunService, caller: Caller, request: view.GetRun) -> view.RunView:
    run = await runs.get(caller, request)
    page = _page(request.base_url, run.job_id, run.job_run_id)
    tasks, iterations = (each and [replace(task, run_page_url=page) for task in each] for each in (run.tasks, run.iterations))
    return replace(run, run_page_url=page, tasks=tasks, iterations=iterations)


def _page(base_url: str, job_id: int, run_id: int) -> str:
    """The web page of a run, which shows all its tasks. Clients such as Airflow's operators require it and display it."""
    return f"{base_url}/jobs/{job_id}/runs/{run_id}"


def _run(permission: Permission, of: str = "run_id") -> Need:
    return Need(permission, ObjectKind.RUN, of)


async def _create(jobs: JobService, caller: Caller, request: job.CreateJob) -> job.CreateJobResponse:
    return job.CreateJobResponse(job_id=await jobs.create(caller, request))


async def _create_queued(jobs: JobService, caller: Caller, request: job.CreateJob) -> job.CreateJobResponse:
    return await _create(jobs, caller, queued(request))


async def _reset_queued(jobs: JobService, caller: Caller, request: job.ResetJob) -> None:
    await jobs.reset(caller, replace(request, new_settings=queued(request.new_settings)))


async def _run_now(jobs: JobService, caller: Caller, request: job.RunNow) -> job.RunNowResponse:
    run_id = await jobs.run_now(caller, request)
    return job.RunNowResponse(run_id=run_id, number_in_job=run_id)


def _job(permission: Permission, of: str = "job_id") -> Need:
    return Need(permission, ObjectKind.JOB, of)


# What the clusters that tasks are to have take. A job that is changed or run has the rights of its `run_as` for that.
_ON_CLUSTERS = (
    Need(Permission.ALLOW_CLUSTER_CREATE, ObjectKind.WORKSPACE, unless="tasks.new_cluster.policy_id"),
    Need(Permission.CAN_ATTACH_TO, ObjectKind.INSTANCE_POOL, "tasks.new_cluster.instance_pool_id"),
    Need(Permission.CAN_ATTACH_TO, ObjectKind.INSTANCE_POOL, "tasks.new_cluster.driver_instance_pool_id"),
    Need(Permission.CAN_USE, ObjectKind.CLUSTER_POLICY, "tasks.new_cluster.policy_id"),
)


_PREFIXES = ("/api/2.2/jobs", "/api/2.1/jobs", "/api/2.0/jobs")
_RUNS = Group("jobs", lambda ctx: ctx.services.runs, *_PREFIXES)
_JOBS = Group("jobs", lambda ctx: ctx.services.jobs, *_PREFIXES)
_NEWEST = Group("jobs", lambda ctx: ctx.services.jobs, _PREFIXES[0])
_BEFORE = Group("jobs", lambda ctx: ctx.services.jobs, *_PREFIXES[1:])
_NEWER = Group("jobs", lambda ctx: ctx.services.jobs, *_PREFIXES[:-1])
_OLDER = Group("jobs", lambda ctx: ctx.services.jobs, _PREFIXES[-1])
OPERATIONS: tuple[Operation, ...] = (
    _NEWEST("POST /create", _create_queued, "Create a job", name="create", needs=(IN_WORKSPACE, *_ON_CLUSTERS)),
    _BEFORE(
        "POST /create",
        _create,
        "Create a job whose runs do not wait by default",
        name="create_older",
        audited_as="jobs.create",
        needs=(IN_WORKSPACE, *_ON_CLUSTERS),
    ),
    _NEWER("GET /get", JobService.get, "A job and its settings", needs=_job(Permission.CAN_VIEW)),
    _OLDER(
        "GET /get",
        JobService.get_older,
        "A job and its settings, in the older form of one task if it was made so",
        name="get_older",
        needs=_job(Permission.CAN_VIEW),
    ),
    _NEWER("GET /list", JobService.list, "Jobs, the newest first", needs=_job(Permission.CAN_VIEW, EVERY)),
    _OLDER(
        "GET /list",
        JobService.list_older,
        "Jobs, the newest first, in the older form of one task if they were made so",
        name="list_older",
        needs=_job(Permission.CAN_VIEW, EVERY),
    ),
    _NEWEST("POST /reset", _reset_queued, "Replace all settings of a job", name="reset", needs=_job(Permission.CAN_MANAGE)),
    _BEFORE(
        "POST /reset",
        JobService.reset,
        "Replace all settings of a job, whose runs do not wait by default",
        name="reset_older",
        audited_as="jobs.reset",
        needs=_job(Permission.CAN_MANAGE),
    ),
    _JOBS("POST /update", JobService.update, "Change some settings of a job", needs=_job(Permission.CAN_MANAGE)),
    _JOBS("POST /delete", JobService.delete, "Delete a job and cancel its active runs", needs=_job(Permission.CAN_MANAGE)),
    _JOBS(
        "POST /run-now",
        _run_now,
        "Run a job now; answers before it runs",
        needs=_job(Permission.CAN_MANAGE_RUN),
        makes_work=True,
    ),
    _JOBS(
        "POST /runs/cancel-all",
        JobService.cancel_all,
        "Cancel the active runs of a job",
        needs=_job(Permission.CAN_MANAGE_RUN),
    ),
    _RUNS(
        "POST /runs/submit",
        _submit,
        "Run tasks once, on job clusters or existing ones; answers before they run",
        needs=(
            *_ON_CLUSTERS,
            on_cluster(Permission.CAN_ATTACH_TO, "tasks.existing_cluster_id"),
            on_cluster(Permission.CAN_RESTART, "tasks.existing_cluster_id"),
            Need(Permission.CAN_USE, ObjectKind.WAREHOUSE, "tasks.sql_task.warehouse_id"),
            Need(Permission.CAN_USE, ObjectKind.WAREHOUSE, "tasks.dbt_task.warehouse_id"),
        ),
        makes_work=True,
    ),
    _RUNS("GET /runs/get", _get, "A run and its tasks", needs=_run(Permission.CAN_VIEW), with_base_url=True),
    _RUNS(
        "GET /runs/get-output",
        RunService.output,
        "The output of a task",
        needs=_run(Permission.CAN_VIEW),
        with_base_url=True,
    ),
    _RUNS(
        "GET /runs/cells",
        RunService.cells,
        "The cells of a notebook task with their output, as far as they have changed; ours",
        needs=_run(Permission.CAN_VIEW),
    ),
    _RUNS("GET /runs/export", RunService.export, "A notebook task with its output, as HTML", needs=_run(Permission.CAN_VIEW)),
    _RUNS("GET /runs/list", RunService.list, "Runs, the newest first", needs=_run(Permission.CAN_VIEW, EVERY)),
    _JOBS(
        "POST /runs/repair",
        JobService.repair,
        "Run tasks of a run that is over again; answers before they run",
        needs=_run(Permission.CAN_MANAGE_RUN),
        makes_work=True,
    ),
    _RUNS("POST /runs/cancel", RunService.cancel, "End a run", needs=_run(Permission.CAN_MANAGE_RUN)),
    _RUNS("POST /runs/delete", RunService.delete, "Delete a finished run", needs=_run(Permission.CAN_MANAGE)),
)
