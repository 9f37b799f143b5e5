"""Schedules in the /v1/clusters API: create, list, get, change (also pause), delete."""

from __future__ import annotations

from brickyard.api.context import ApiContext
from brickyard.api.edge.registry import Operation
from brickyard.api.gpu.operations import MANAGE, SEE, declared
from brickyard.domain import gpuschedules as gpu
from brickyard.domain.gpuclusters import GpuClusterId
from brickyard.services.caller import Caller

_SCHEDULES = "/v1/clusters/{cluster_id}/schedules"
_SCHEDULE = f"{_SCHEDULES}/{{schedule_id}}"


async def _create(ctx: ApiContext, caller: Caller, request: gpu.CreateSchedule) -> gpu.ScheduleAnswer:
    return gpu.ScheduleAnswer(data=await ctx.services.gpu_schedules.create(caller, request))


async def _list(ctx: ApiContext, caller: Caller, request: GpuClusterId) -> gpu.ScheduleListAnswer:
    found = await ctx.services.gpu_schedules.list(caller, request.cluster_id)
    return gpu.ScheduleListAnswer(data=gpu.ScheduleList(schedules=list(found)))


async def _get(ctx: ApiContext, caller: Caller, request: gpu.NamedSchedule) -> gpu.ScheduleAnswer:
    return gpu.ScheduleAnswer(data=await ctx.services.gpu_schedules.get(caller, request))


async def _update(ctx: ApiContext, caller: Caller, request: gpu.UpdateSchedule) -> gpu.ScheduleAnswer:
    return gpu.ScheduleAnswer(data=await ctx.services.gpu_schedules.update(caller, request))


async def _delete(ctx: ApiContext, caller: Caller, request: gpu.NamedSchedule) -> gpu.DeletedScheduleAnswer:
    await ctx.services.gpu_schedules.delete(caller, request)
    return gpu.DeletedScheduleAnswer(data=gpu.DeletedSchedule(id=request.schedule_id))


OPERATIONS: tuple[Operation, ...] = (
    declared(
        "gpu_schedules.create",
        "POST",
        _SCHEDULES,
        _create,
        "Start or stop a cluster at certain times",
        request=gpu.CreateSchedule,
        errors=(404, 422),
        response=gpu.ScheduleAnswer,
        needs=MANAGE,
    ),
    declared(
        "gpu_schedules.list",
        "GET",
        _SCHEDULES,
        _list,
        "A cluster's schedules, each with its next and last run",
        request=GpuClusterId,
        response=gpu.ScheduleListAnswer,
        needs=SEE,
    ),
    declared(
        "gpu_schedules.get",
        "GET",
        _SCHEDULE,
        _get,
        "One schedule",
        request=gpu.NamedSchedule,
        needs=SEE,
        response=gpu.ScheduleAnswer,
    ),
    declared(
        "gpu_schedules.update",
        "PATCH",
        _SCHEDULE,
        _update,
        "Change or pause a schedule, which then runs with the caller's rights",
        request=gpu.UpdateSchedule,
        errors=(404, 422),
        response=gpu.ScheduleAnswer,
        needs=MANAGE,
    ),
    declared(
        "gpu_schedules.delete",
        "DELETE",
        _SCHEDULE,
        _delete,
        "Remove a schedule",
        request=gpu.NamedSchedule,
        response=gpu.DeletedScheduleAnswer,
        needs=MANAGE,
    ),
)
