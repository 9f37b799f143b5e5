"""One-time runs of the Jobs API: submit, get, get-output, list, cancel, delete."""

from __future__ import annotations

from msgspec.structs import replace

from brickyard.api.edge.group import Group, on_cluster
from brickyard.api.edge.registry import EVERY, Need, Operation
from brickyard.domain.access import ObjectKind, Permission
from brickyard.domain.caller import Caller
from brickyard.domain.tasks import SubmitRun
from brickyard.features.runs import model as view
from brickyard.features.runs.service import RunService


async def _submit(runs: RunService, caller: Caller, request: SubmitRun) -> view.SubmitRunResponse:
    return view.SubmitRunResponse(run_id=await runs.submit(caller, request))


async def _get(runs: RunService, caller: Caller, request: view.GetRun) -> view.RunView:
    run = await runs.get(caller, request)
    page = _page(request.base_url, run.job_run_id)
    tasks = run.tasks and [replace(task, run_page_url=page) for task in run.tasks]
    return replace(run, run_page_url=page, tasks=tasks)


def _page(base_url: str, run_id: int) -> str:
    """The web page of a run, which shows all its tasks. Clients such as Airflow's operators require it and display it."""
    return f"{base_url}/jobs/runs/{run_id}"


def _run(permission: Permission, of: str = "run_id") -> Need:
    return Need(permission, ObjectKind.RUN, of)


_JOBS = Group("jobs", lambda ctx: ctx.services.runs, "/api/2.2/jobs", "/api/2.1/jobs", "/api/2.0/jobs")
OPERATIONS: tuple[Operation, ...] = (
    _JOBS(
        "POST /runs/submit",
        _submit,
        "Run tasks once, on job clusters or existing ones; answers before they run",
        needs=(
            Need(Permission.ALLOW_CLUSTER_CREATE, ObjectKind.WORKSPACE, unless="tasks.new_cluster.policy_id"),
            Need(Permission.CAN_ATTACH_TO, ObjectKind.INSTANCE_POOL, "tasks.new_cluster.instance_pool_id"),
            Need(Permission.CAN_ATTACH_TO, ObjectKind.INSTANCE_POOL, "tasks.new_cluster.driver_instance_pool_id"),
            Need(Permission.CAN_USE, ObjectKind.CLUSTER_POLICY, "tasks.new_cluster.policy_id"),
            on_cluster(Permission.CAN_ATTACH_TO, "tasks.existing_cluster_id"),
            on_cluster(Permission.CAN_RESTART, "tasks.existing_cluster_id"),
        ),
        makes_work=True,
    ),
    _JOBS("GET /runs/get", _get, "A run and its tasks", needs=_run(Permission.CAN_VIEW), with_base_url=True),
    _JOBS("GET /runs/get-output", RunService.output, "The output of a task", needs=_run(Permission.CAN_VIEW)),
    _JOBS("GET /runs/list", RunService.list, "Runs, the newest first", needs=_run(Permission.CAN_VIEW, EVERY)),
    _JOBS("POST /runs/cancel", RunService.cancel, "End a run", needs=_run(Permission.CAN_MANAGE_RUN)),
    _JOBS("POST /runs/delete", RunService.delete, "Delete a finished run", needs=_run(Permission.CAN_MANAGE)),
)
