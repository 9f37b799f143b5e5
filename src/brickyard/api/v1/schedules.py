"""Schedules in the /v1/clusters API: create, list, get, change (also pause), delete."""

from __future__ import annotations

from brickyard.api.edge.group import CAN_ATTACH, CAN_MANAGE, Group
from brickyard.api.edge.registry import Operation
from brickyard.api.v1.dialect import V1
from brickyard.domain.caller import Caller
from brickyard.domain.v1.clusters import V1ClusterId
from brickyard.features.schedules import model
from brickyard.features.schedules.service import ScheduleService


async def _create(schedules: ScheduleService, caller: Caller, request: model.CreateSchedule) -> model.ScheduleAnswer:
    return model.ScheduleAnswer(data=await schedules.create(caller, request))


async def _list(schedules: ScheduleService, caller: Caller, request: V1ClusterId) -> model.ScheduleListAnswer:
    found = await schedules.list(caller, request.cluster_id)
    return model.ScheduleListAnswer(data=model.ScheduleList(schedules=list(found)))


async def _get(schedules: ScheduleService, caller: Caller, request: model.NamedSchedule) -> model.ScheduleAnswer:
    return model.ScheduleAnswer(data=await schedules.get(caller, request))


async def _update(schedules: ScheduleService, caller: Caller, request: model.UpdateSchedule) -> model.ScheduleAnswer:
    return model.ScheduleAnswer(data=await schedules.update(caller, request))


async def _delete(schedules: ScheduleService, caller: Caller, request: model.NamedSchedule) -> model.DeletedScheduleAnswer:
    await schedules.delete(caller, request)
    return model.DeletedScheduleAnswer(data=model.DeletedSchedule(id=request.schedule_id))


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
    _SCHEDULES("GET", _list, "A cluster's schedules, each with its next and last run", name="list", needs=CAN_ATTACH),
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
