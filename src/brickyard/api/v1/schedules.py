"""Schedules in the /v1/clusters API: create, list, get, change (also pause), delete."""

from __future__ import annotations

from brickyard.api.edge.group import CAN_ATTACH, CAN_MANAGE, Group
from brickyard.api.edge.registry import Operation
from brickyard.api.v1.dialect import V1
from brickyard.domain import schedules as v1
from brickyard.domain.v1.clusters import V1ClusterId
from brickyard.services.caller import Caller
from brickyard.services.v1.schedules import ScheduleService


async def _create(schedules: ScheduleService, caller: Caller, request: v1.CreateSchedule) -> v1.ScheduleAnswer:
    return v1.ScheduleAnswer(data=await schedules.create(caller, request))


async def _list(schedules: ScheduleService, caller: Caller, request: V1ClusterId) -> v1.ScheduleListAnswer:
    found = await schedules.list(caller, request.cluster_id)
    return v1.ScheduleListAnswer(data=v1.ScheduleList(schedules=list(found)))


async def _get(schedules: ScheduleService, caller: Caller, request: v1.NamedSchedule) -> v1.ScheduleAnswer:
    return v1.ScheduleAnswer(data=await schedules.get(caller, request))


async def _update(schedules: ScheduleService, caller: Caller, request: v1.UpdateSchedule) -> v1.ScheduleAnswer:
    return v1.ScheduleAnswer(data=await schedules.update(caller, request))


async def _delete(schedules: ScheduleService, caller: Caller, request: v1.NamedSchedule) -> v1.DeletedScheduleAnswer:
    await schedules.delete(caller, request)
    return v1.DeletedScheduleAnswer(data=v1.DeletedSchedule(id=request.schedule_id))


_SCHEDULES = Group(
    "gpu_schedules",
    lambda ctx: ctx.services.v1_schedules,
    "/v1/clusters/{cluster_id}/schedules",
    needs=CAN_MANAGE,
    dialect=V1,
    errors=(404,),
)
OPERATIONS: tuple[Operation, ...] = (
    _SCHEDULES("POST", _create, "Start or stop a cluster at certain times", name="create", errors=(404, 422)),
    _SCHEDULES(
        "GET",
        _list,
        "A cluster's schedules, each with its next and last run",
        name="list",
        needs=CAN_ATTACH,
    ),
    _SCHEDULES("GET /{schedule_id}", _get, "One schedule", name="get", needs=CAN_ATTACH),
    _SCHEDULES(
        "PATCH /{schedule_id}",
        _update,
        "Change or pause a schedule, which then runs with the caller's rights",
        name="update",
        errors=(404, 422),
    ),
    _SCHEDULES("DELETE /{schedule_id}", _delete, "Remove a schedule", name="delete"),
)
