"""One-time runs of the Jobs API: submit, get, get-output, list, cancel, delete."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from brickyard.api.context import ApiContext
from brickyard.api.edge.registry import EVERY, Handler, Need, Operation
from brickyard.domain import runviews as view
from brickyard.domain.access import ObjectKind, Permission
from brickyard.domain.tasks import SubmitRun
from brickyard.services.caller import Caller

VERSIONS = ("2.2", "2.1", "2.0")


async def _submit(ctx: ApiContext, caller: Caller, request: SubmitRun) -> view.SubmitRunResponse:
    return view.SubmitRunResponse(run_id=await ctx.services.runs.submit(caller, request))


async def _get(ctx: ApiContext, caller: Caller, request: view.GetRun) -> view.RunView:
    run = await ctx.services.runs.get(caller, request)
    tasks = run.tasks and [replace(task, run_page_url=_page(request.base_url, task.run_id)) for task in run.tasks]
    return replace(run, run_page_url=_page(request.base_url, run.run_id), tasks=tasks)


def _page(base_url: str, run_id: int) -> str:
    """The URL of a run. Clients such as Airflow's operators require it and display it."""
    return f"{base_url}/api/2.2/jobs/runs/get?run_id={run_id}"


async def _output(ctx: ApiContext, caller: Caller, request: view.RunId) -> view.RunOutput:
    return await ctx.services.runs.output(caller, request)


async def _list(ctx: ApiContext, caller: Caller, request: view.ListRuns) -> view.ListRunsResponse:
    return await ctx.services.runs.list(caller, request)


async def _cancel(ctx: ApiContext, caller: Caller, request: view.RunId) -> None:
    await ctx.services.runs.cancel(caller, request)


async def _delete(ctx: ApiContext, caller: Caller, request: view.RunId) -> None:
    await ctx.services.runs.delete(caller, request)


def _run(permission: Permission, of: str = "run_id") -> tuple[Need]:
    return (Need(permission, ObjectKind.RUN, of),)


_NEEDS: dict[str, tuple[Need, ...]] = {
    "submit": (
        # For tasks with a `new_cluster`.
        Need(Permission.ALLOW_CLUSTER_CREATE, ObjectKind.WORKSPACE, unless="tasks.new_cluster.policy_id"),
        Need(Permission.CAN_ATTACH_TO, ObjectKind.INSTANCE_POOL, "tasks.new_cluster.instance_pool_id"),
        Need(Permission.CAN_ATTACH_TO, ObjectKind.INSTANCE_POOL, "tasks.new_cluster.driver_instance_pool_id"),
        Need(Permission.CAN_USE, ObjectKind.CLUSTER_POLICY, "tasks.new_cluster.policy_id"),
        Need(Permission.CAN_ATTACH_TO, ObjectKind.CLUSTER, "tasks.existing_cluster_id"),
        Need(Permission.CAN_RESTART, ObjectKind.CLUSTER, "tasks.existing_cluster_id"),
    ),
    "get": _run(Permission.CAN_VIEW),
    "get-output": _run(Permission.CAN_VIEW),
    "list": _run(Permission.CAN_VIEW, EVERY),
    "cancel": _run(Permission.CAN_MANAGE_RUN),
    "delete": _run(Permission.CAN_MANAGE),
}


def _operation(
    verb: str, method: str, handler: Handler, summary: str, *, request: type, response: type | None = None, **options: Any
) -> Operation:
    return Operation(
        name=f"jobs.runs_{verb.replace('-', '_')}",
        method=method,
        paths=tuple(f"/api/{version}/jobs/runs/{verb}" for version in VERSIONS),
        handler=handler,
        request=request,
        response=response,
        summary=summary,
        needs=_NEEDS[verb],
        makes_work=verb == "submit",
        **options,
    )


OPERATIONS: tuple[Operation, ...] = (
    _operation(
        "submit",
        "POST",
        _submit,
        "Run tasks once, on job clusters or existing ones; answers before they run",
        request=SubmitRun,
        response=view.SubmitRunResponse,
    ),
    _operation("get", "GET", _get, "A run and its tasks", request=view.GetRun, response=view.RunView, with_base_url=True),
    _operation("get-output", "GET", _output, "The output of a task", request=view.RunId, response=view.RunOutput),
    _operation("list", "GET", _list, "Runs, the newest first", request=view.ListRuns, response=view.ListRunsResponse),
    _operation("cancel", "POST", _cancel, "End a run", request=view.RunId),
    _operation("delete", "POST", _delete, "Delete a finished run", request=view.RunId),
)
