"""Schedules in the /v1/clusters API: create, list, get, change (also pause), delete."""

from __future__ import annotations

from brickyard.api.context import ApiContext
from brickyard.api.edge.registry import Operation
from brickyard.api.v1.operations import MANAGE, SEE, declared
from brickyard.domain import schedules
from brickyard.domain.v1.clusters import V1ClusterId
from brickyard.services.caller import Caller

_SCHEDULES = "/v1/clusters/{cluster_id}/schedules"
_SCHEDULE = f"{_SCHEDULES}/{{schedule_id}}"


async def _create(ctx: ApiContext, caller: Caller, request: schedules.CreateSchedule) -> schedules.ScheduleAnswer:
    return schedules.ScheduleAnswer(data=await ctx.services.v1_schedules.create(caller, request))


async def _list(ctx: ApiContext, caller: Caller, request: V1ClusterId) -> schedules.ScheduleListAnswer:
    found = await ctx.services.v1_schedules.list(caller, request.cluster_id)
    return schedules.ScheduleListAnswer(data=schedules.ScheduleList(schedules=list(found)))


async def _get(ctx: ApiContext, caller: Caller, request: schedules.NamedSchedule) -> schedules.ScheduleAnswer:
    return schedules.ScheduleAnswer(data=await ctx.services.v1_schedules.get(caller, request))


async def _update(ctx: ApiContext, caller: Caller, request: schedules.UpdateSchedule) -> schedules.ScheduleAnswer:
    return schedules.ScheduleAnswer(data=await ctx.services.v1_schedules.update(caller, request))


async def _delete(ctx: ApiContext, caller: Caller, request: schedules.NamedSchedule) -> schedules.DeletedScheduleAnswer:
    await ctx.services.v1_schedules.delete(caller, request)
    return schedules.DeletedScheduleAnswer(data=schedules.DeletedSchedule(id=request.schedule_id))


OPERATIONS: tuple[Operation, ...] = (
    declared(
        "gpu_schedules.create",
        "POST",
        _SCHEDULES,
        _create,
        "Start or stop a cluster at certain times",
        request=schedules.CreateSchedule,
        errors=(404, 422),
        response=schedules.ScheduleAnswer,
        needs=MANAGE,
    ),
    declared(
        "gpu_schedules.list",
        "GET",
        _SCHEDULES,
        _list,
        "A cluster's schedules, each with its next and last run",
        request=V1ClusterId,
        response=schedules.ScheduleListAnswer,
        needs=SEE,
    ),
    declared(
        "gpu_schedules.get",
        "GET",
        _SCHEDULE,
        _get,
        "One schedule",
        request=schedules.NamedSchedule,
        needs=SEE,
        response=schedules.ScheduleAnswer,
    ),
    declared(
        "gpu_schedules.update",
        "PATCH",
        _SCHEDULE,
        _update,
        "Change or pause a schedule, which then runs with the caller's rights",
        request=schedules.UpdateSchedule,
        errors=(404, 422),
        response=schedules.ScheduleAnswer,
        needs=MANAGE,
    ),
    declared(
        "gpu_schedules.delete",
        "DELETE",
        _SCHEDULE,
        _delete,
        "Remove a schedule",
        request=schedules.NamedSchedule,
        response=schedules.DeletedScheduleAnswer,
        needs=MANAGE,
    ),
)
