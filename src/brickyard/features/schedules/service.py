"""Schedules of clusters: create, list, get, change, delete. What they do is `features/schedules/loop.py`."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import UNSET

from brickyard.access import Authorizer
from brickyard.clusters.v1.problems import permitted, refuse
from brickyard.clusters.v1.service import V1ClusterService
from brickyard.domain.access import Permission
from brickyard.domain.caller import Caller
from brickyard.domain.clock import Clock, Ids, rfc3339
from brickyard.domain.cluster import Cluster
from brickyard.domain.decoding import converter
from brickyard.domain.errors import ResourceNotFound, SemanticError
from brickyard.domain.states import ClusterSource
from brickyard.domain.strict import Problem
from brickyard.domain.v1.clusters import StartV1Cluster
from brickyard.features.schedules.model import (
    MOST_SCHEDULES,
    Action,
    CreateSchedule,
    LastRunView,
    NamedSchedule,
    Result,
    Schedule,
    ScheduleRow,
    ScheduleView,
    UpdateSchedule,
)
from brickyard.features.schedules.rows import ScheduleRows
from brickyard.features.schedules.rules import ScheduleError, check, next_ms
from brickyard.plan.changes import with_schedules
from brickyard.plan.v1.progress import failed
from brickyard.store.store import Store
from brickyard.store.tx import Tx

_to_start = converter(StartV1Cluster)


MAX_START_BYTES = 64 * 1024
_NOT_IN_A_SCHEDULE = ("cluster_id", "wait_for_ready", "timeout_minutes", "idempotency_key")
_ABSOLUTE = "a time is for one start only; use max_runtime_minutes, or a schedule that stops the cluster"


class ScheduleService:
    """One per server. Methods raise ApiError."""

    def __init__(self, *, store: Store, clock: Clock, ids: Ids, authorizer: Authorizer, clusters: V1ClusterService) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        self._authorizer = authorizer
        self._clusters = clusters

    async def create(self, caller: Caller, request: CreateSchedule) -> ScheduleView:
        """Creates a schedule, which runs with the caller's rights."""
        now = self._clock.now_ms()
        fields = msgspec.structs.asdict(request)
        schedule = Schedule(**{name: fields[name] for name in Schedule.__struct_fields__})

        def work(tx: Tx) -> ScheduleView:
            cluster = self._managed(tx, caller, request.cluster_id)
            refuse(self._problems(tx, caller, cluster, schedule, request.start, now=now))
            count = tx.rows(ScheduleRows).count(cluster.cluster_id)
            if count >= MOST_SCHEDULES:
                raise SemanticError(
                    f"Cluster {cluster.cluster_id} has {count} schedules, which is the maximum. Delete one first.",
                    problems=[],
                    requested=count + 1,
                    available=MOST_SCHEDULES,
                )
            row = ScheduleRow(
                schedule_id=f"sched_{self._ids.hex(16)}",
                cluster_id=cluster.cluster_id,
                owner=caller.user_name,
                created_ms=now,
                schedule=schedule,
                start=request.start or {},
                next_ms=next_ms(schedule, after_ms=now),
            )
            tx.rows(ScheduleRows).insert(row)
            tx.clusters.update(with_schedules(cluster, count + 1, now))
            return shown(row, cluster)

        return await self._store.write(work)

    async def list(self, caller: Caller, cluster_id: str) -> Sequence[ScheduleView]:
        """The cluster's schedules, oldest first."""

        def work(tx: Tx) -> Sequence[ScheduleView]:
            cluster = self._seen(tx, caller, cluster_id)
            return [shown(row, cluster) for row in tx.rows(ScheduleRows).of_cluster(cluster_id)]

        return await self._store.read(work)

    async def get(self, caller: Caller, request: NamedSchedule) -> ScheduleView:
        """One schedule."""

        def work(tx: Tx) -> ScheduleView:
            cluster = self._seen(tx, caller, request.cluster_id)
            return shown(_found(tx, request.cluster_id, request.schedule_id), cluster)

        return await self._store.read(work)

    async def update(self, caller: Caller, request: UpdateSchedule) -> ScheduleView:
        """Changes a schedule. It runs with the caller's rights from then on: else a change could use those of somebody else."""
        now = self._clock.now_ms()

        def work(tx: Tx) -> ScheduleView:
            cluster = self._managed(tx, caller, request.cluster_id)
            row = _found(tx, request.cluster_id, request.schedule_id)
            given = {name: getattr(request, name) for name in Schedule.__struct_fields__}
            changes = {name: value for name, value in given.items() if value is not UNSET}
            schedule = msgspec.structs.replace(row.schedule, **changes)
            start = row.start if request.start is UNSET else request.start or {}
            refuse(self._problems(tx, caller, cluster, schedule, start, now=now))
            timed = ("cron", "timezone", "paused")  # else the next run stays, even if it is due this very moment
            same = all(getattr(schedule, name) == getattr(row.schedule, name) for name in timed)
            planned = row.next_ms if same else next_ms(schedule, after_ms=now)
            row = msgspec.structs.replace(row, schedule=schedule, start=start, owner=caller.user_name, next_ms=planned)
            tx.rows(ScheduleRows).update(row)
            return shown(row, cluster)

        return await self._store.write(work)

    async def delete(self, caller: Caller, request: NamedSchedule) -> None:
        """Removes a schedule."""

        def work(tx: Tx) -> None:
            cluster = self._managed(tx, caller, request.cluster_id)
            row = _found(tx, request.cluster_id, request.schedule_id)
            tx.rows(ScheduleRows).delete(row.schedule_id)
            left = tx.rows(ScheduleRows).count(cluster.cluster_id)
            tx.clusters.update(with_schedules(cluster, left, self._clock.now_ms()))
            tx.clusters.wake(cluster.cluster_id)  # its retention begins, if that was the last one

        await self._store.write(work)

    # -- inside ------------------------------------------------------------------------------------------------------

    def _problems(
        self, tx: Tx, caller: Caller, cluster: Cluster, schedule: Schedule, start: dict[str, object] | None, *, now: int
    ) -> Sequence[Problem]:
        """What is wrong with a schedule."""
        found: list[Problem] = []
        try:
            check(schedule, now_ms=now)
        except ScheduleError as error:
            found.append(Problem(field=error.field, reason=str(error)))
        if cluster.source is ClusterSource.JOB:
            found.append(Problem(field="cluster_id", reason="it is a job cluster, which ends with its run"))
        if schedule.action is Action.STOP:
            if start:
                found.append(Problem(field="start", reason="it has no effect with the action stop; leave it out"))
            return found
        asked, wrong = start_of(cluster.cluster_id, start or {})
        found += wrong
        if asked is not None:
            mistaken = self._clusters.problems(tx, caller, cluster, asked)
            found += [msgspec.structs.replace(each, field=f"start.{each.field}") for each in mistaken]
        return found

    def _managed(self, tx: Tx, caller: Caller, cluster_id: str) -> Cluster:
        return permitted(tx, self._authorizer, caller, cluster_id, Permission.CAN_MANAGE, to="schedule")

    def _seen(self, tx: Tx, caller: Caller, cluster_id: str) -> Cluster:
        return permitted(tx, self._authorizer, caller, cluster_id, Permission.CAN_ATTACH_TO, to="see the schedules of")


def start_of(cluster_id: str, start: dict[str, object]) -> tuple[StartV1Cluster | None, list[Problem]]:
    """The start call with these parameters, or what is wrong with them."""
    wrong = [
        Problem(field=f"start.{name}", reason="it has no place in a schedule; leave it out")
        for name in _NOT_IN_A_SCHEDULE
        if name in start
    ]
    if len(msgspec.json.encode(start)) > MAX_START_BYTES:
        wrong.append(Problem(field="start", reason=f"it must have at most {MAX_START_BYTES} bytes"))
    if wrong:
        return None, wrong
    try:
        asked = _to_start({**start, "cluster_id": cluster_id})
    except msgspec.ValidationError as error:
        return None, [Problem(field="start", reason=str(error).replace("`$", "`start").replace("$.", "start."))]
    if asked.auto_terminate_updates is not None and asked.auto_terminate_updates.at not in (UNSET, None):
        return None, [Problem(field="start.auto_terminate_updates.at", reason=_ABSOLUTE)]
    return asked, []


def shown(row: ScheduleRow, cluster: Cluster) -> ScheduleView:
    """The schedule as answers show it. A run whose start has failed since is shown as failed until the cluster starts again."""
    schedule, last = row.schedule, None
    if row.last is not None:
        result, reason = row.last.result, row.last.reason
        same = row.last.incarnation == cluster.incarnation
        if result is Result.STARTED and same and cluster.ready_incarnation != cluster.incarnation and failed(cluster):
            result, reason = Result.FAILED, cluster.state_message
        last = LastRunView(scheduled_for=rfc3339(row.last.planned_ms), at=rfc3339(row.last.at_ms), result=result, reason=reason)
    return ScheduleView(
        id=row.schedule_id,
        cluster_id=row.cluster_id,
        action=schedule.action,
        cron=schedule.cron,
        timezone=schedule.timezone,
        start=row.start or None,
        missed=schedule.missed,
        paused=schedule.paused,
        owner=row.owner,
        created_at=rfc3339(row.created_ms),
        next_run_at=rfc3339(row.next_ms) if row.next_ms else None,
        last_run=last,
    )


def _found(tx: Tx, cluster_id: str, schedule_id: str) -> ScheduleRow:
    row = tx.rows(ScheduleRows).get(schedule_id)
    if row is None or row.cluster_id != cluster_id:
        raise ResourceNotFound(
            f"Cluster {cluster_id} has no schedule {schedule_id[:140]}.", resource="schedule", id=schedule_id[:140]
        )
    return row
