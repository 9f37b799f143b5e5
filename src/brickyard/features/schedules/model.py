"""Schedules that start and stop a cluster: their rows, and the requests and answers of the /v1/clusters dialect."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from brickyard.domain.strict import Strict

MOST_SCHEDULES = 20  # of one cluster


class Action(StrEnum):
    START = "start"
    STOP = "stop"


class Missed(StrEnum):
    """What happens to a run for which no server was there."""

    RUN = "run"  # it is done late, once, whatever the number of missed runs
    SKIP = "skip"


class Result(StrEnum):
    """What a run did."""

    STARTED = "started"
    STOPPED = "stopped"
    ALREADY_RUNNING = "already_running"
    ALREADY_STOPPED = "already_stopped"
    SKIPPED = "skipped"  # it was missed, and the schedule says so
    FAILED = "failed"


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """`cron` has five fields: minute, hour, day of month, month, day of week. `timezone` is an IANA name."""

    action: Action
    cron: str
    timezone: str = "UTC"
    missed: Missed = Missed.RUN
    paused: bool = False


class LastRun(msgspec.Struct, frozen=True, kw_only=True):
    """`incarnation`: that which a start began."""

    planned_ms: int
    at_ms: int
    result: Result
    reason: str = ""
    incarnation: int = 0


class ScheduleRow(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule as it is stored. It runs with the rights of `owner`, who created it or last changed it. `start`: the parameters
    of the start call."""

    schedule_id: str
    cluster_id: str
    owner: str
    created_ms: int
    schedule: Schedule
    start: dict[str, Any] = {}
    next_ms: int = 0  # the planned run; 0: none
    last: LastRun | None = None


# -- requests --------------------------------------------------------------------------------------------------------


class CreateSchedule(Strict, frozen=True, kw_only=True):
    """`start`: the parameters of the start call, for the action start. `missed`: run (late, once) or skip."""

    cluster_id: str
    action: Action
    cron: str
    timezone: str = "UTC"
    start: dict[str, Any] | None = None
    missed: Missed = Missed.RUN
    paused: bool = False


class UpdateSchedule(Strict, frozen=True, kw_only=True):
    """What is left out stays. The schedule runs with the rights of the caller from then on."""

    cluster_id: str
    schedule_id: str
    action: Action | UnsetType = UNSET
    cron: str | UnsetType = UNSET
    timezone: str | UnsetType = UNSET
    start: dict[str, Any] | UnsetType | None = UNSET
    missed: Missed | UnsetType = UNSET
    paused: bool | UnsetType = UNSET


class NamedSchedule(Strict, frozen=True, kw_only=True):
    cluster_id: str
    schedule_id: str


# -- answers ---------------------------------------------------------------------------------------------------------


class LastRunView(msgspec.Struct, frozen=True, kw_only=True):
    """`scheduled_for` is when it was due, `at` when it was done."""

    scheduled_for: str
    at: str
    result: Result
    reason: str


class ScheduleView(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    cluster_id: str
    action: Action
    cron: str
    timezone: str
    start: dict[str, Any] | None
    missed: Missed
    paused: bool
    owner: str
    created_at: str
    next_run_at: str | None
    last_run: LastRunView | None


class ScheduleList(msgspec.Struct, frozen=True, kw_only=True):
    schedules: list[ScheduleView]


class ScheduleAnswer(msgspec.Struct, frozen=True, kw_only=True):
    success: bool = True
    data: ScheduleView


class ScheduleListAnswer(msgspec.Struct, frozen=True, kw_only=True):
    success: bool = True
    data: ScheduleList


class DeletedSchedule(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    deleted: bool = True


class DeletedScheduleAnswer(msgspec.Struct, frozen=True, kw_only=True):
    success: bool = True
    data: DeletedSchedule
