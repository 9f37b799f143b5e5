"""Schedules on a database: they start and stop clusters once, with the rights of the moment, and record what came of it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from brickyard.access import Authorizer
from brickyard.domain.access import Grant, ObjectKind, Permission, Place
from brickyard.domain.clock import Ids
from brickyard.domain.cluster import RETENTION_MS, Target
from brickyard.domain.errors import ApiError, PermissionDenied, ResourceNotFound, SemanticError
from brickyard.domain.terminations import TerminationReason, TerminationReasonCode, TerminationReasonType
from brickyard.domain.v1.clusters import CreateV1Cluster, DeleteV1Cluster, StopV1Cluster, V1Cluster
from brickyard.features.schedules.loop import ScheduleLoop
from brickyard.features.schedules.model import (
    MOST_SCHEDULES,
    Action,
    CreateSchedule,
    Missed,
    NamedSchedule,
    Result,
    ScheduleView,
    UpdateSchedule,
)
from brickyard.features.schedules.rows import ScheduleRows
from brickyard.features.schedules.service import ScheduleService
from brickyard.providers.base import CapacityError
from brickyard.store.store import Store
from tests.clusters.v1.room import Room
from tests.support.databases import both_databases, empty_sqlite
from tests.support.desk import ADMIN, USER
from tests.support.golden import Golden
from tests.support.people import enter, lock_out

DAILY = "0 8 * * *"
DAY = 24 * 60


class Timetable(Room):
    """Schedules, and the loops of servers that run them."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.schedules = ScheduleService(store=store, clock=self.clock, ids=Ids(), authorizer=Authorizer(), clusters=self.v1)
        self.noted: list[dict[str, str]] = []
        self.short: CapacityError | None = None
        self.v1._shortage = lambda wanted, *, freed: self.short  # room as this test says

    async def enter(self) -> None:
        await self.store.write(lambda tx: enter(tx, ADMIN, USER))

    def loop(self) -> ScheduleLoop:
        def note(operation: str, caller: Any, **objects: str) -> None:
            self.noted.append({"operation": operation, "user": caller.user_name, **objects})

        return ScheduleLoop(store=self.store, clock=self.clock, clusters=self.desk.service, v1=self.v1, note=note)

    async def stopped(self) -> str:
        return (await self.v1.create(ADMIN, CreateV1Cluster(name="batch", auto_start=False))).id

    async def plan(self, cluster_id: str, action: Action = Action.START, **fields: Any) -> ScheduleView:
        asked = CreateSchedule(**{"cluster_id": cluster_id, "action": action, "cron": DAILY, **fields})
        return await self.schedules.create(ADMIN, asked)

    async def look(self, of: ScheduleView) -> ScheduleView:
        return await self.schedules.get(ADMIN, NamedSchedule(cluster_id=of.cluster_id, schedule_id=of.id))

    async def at_next(self, of: ScheduleView, *, late_ms: int = 0) -> None:
        """Moves the clock to the schedule's next run."""
        planned = (await self.look(of)).next_run_at
        assert planned is not None
        self.clock.advance(ms=ms(planned) - self.clock.now_ms() + late_ms)

    async def run(self, of: ScheduleView, servers: int = 1) -> tuple[Result, str]:
        """What the loops of so many servers do with the schedule now: the result and its reason."""
        await asyncio.gather(*(self.loop().work(of.id, timed=False) for _ in range(servers)))
        last = (await self.look(of)).last_run
        assert last is not None
        return last.result, last.reason


@pytest.fixture
def one_store(tmp_path: Path) -> Iterator[Store]:
    """A store, where the kind of the database does not matter."""
    opened = Store.open(empty_sqlite(tmp_path / "test.db"))
    yield opened
    opened.close()


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)


@pytest.fixture
async def table(store: Store) -> Timetable:
    table = Timetable(store)
    await table.enter()
    return table


@pytest.mark.parametrize("servers", [1, 3])
async def test_a_cluster_starts_and_stops_at_its_times_once(table: Timetable, servers: int) -> None:
    made = await table.stopped()
    limits = {"max_runtime_minutes": 90}
    morning = await table.plan(
        made, timezone="Europe/Berlin", start={"environment_updates": {"DAY": "1"}, "auto_terminate_updates": limits}
    )
    assert morning.next_run_at is not None
    local = datetime.fromtimestamp(ms(morning.next_run_at) / 1000, UTC)
    assert (local.hour, local.minute) == (6, 0), "in summer"
    await table.loop().work(morning.id, timed=False)
    assert (await table.look(morning)).last_run is None, "it is not due"
    await table.at_next(morning)
    due = await table.store.read(lambda tx: tx.rows(ScheduleRows).due(table.clock.now_ms(), 10))
    assert due == [morning.id]
    assert await table.run(morning, servers) == (Result.STARTED, "")
    row = await table.desk.row(made)
    assert (row.target, row.incarnation) == (Target.RUNNING, 2)
    assert row.spec.spark_env_vars is not None and row.spec.spark_env_vars["DAY"] == "1"
    assert (row.workbench.auto_terminate.max_runtime_minutes, row.workbench.auto_terminate.by) == (90, ADMIN.user_name)
    assert [each["schedule_id"] for each in table.noted] == [morning.id]
    planned = (await table.look(morning)).next_run_at
    assert planned is not None and ms(planned) - ms(morning.next_run_at) == DAY * 60_000
    evening = await table.plan(made, Action.STOP, cron="0 18 * * *", timezone="Europe/Berlin")
    await table.passes(made)
    await table.up(made)
    await table.at_next(evening)
    assert await table.run(evening, servers) == (Result.STOPPED, "")
    (told,) = await table.endings(made)
    assert told.reason.parameters == {"username": ADMIN.user_name, "stop_reason": f"schedule {evening.id}"}


async def test_what_is_so_already_is_recorded_and_no_error(table: Timetable) -> None:
    made = await table.stopped()
    stop = await table.plan(made, Action.STOP)
    await table.at_next(stop)
    assert await table.run(stop) == (Result.ALREADY_STOPPED, "")
    running = await table.running()
    start = await table.plan(running)
    await table.at_next(start)
    assert await table.run(start) == (Result.ALREADY_RUNNING, "")
    assert (await table.desk.row(running)).incarnation == 1


async def test_a_start_waits_for_a_cluster_that_is_still_stopping(table: Timetable) -> None:
    made = await table.running()
    start = await table.plan(made)
    await table.at_next(start)
    await table.v1.stop(ADMIN, StopV1Cluster(cluster_id=made))
    await table.loop().work(start.id, timed=False)
    assert (await table.look(start)).last_run is None
    table.clock.advance(seconds=3)
    assert start.id in await table.store.read(lambda tx: tx.rows(ScheduleRows).due(table.clock.now_ms(), 10))
    await table.end(made)
    assert await table.run(start) == (Result.STARTED, "")


@both_databases
async def test_a_missed_run_is_done_once_or_skipped(table: Timetable) -> None:
    made = await table.stopped()
    late = await table.plan(made, Action.STOP)
    skipped = await table.plan(made, missed=Missed.SKIP)
    await table.at_next(skipped, late_ms=3 * DAY * 60_000 + 120_000)  # three days without a server
    result, reason = await table.run(skipped)
    assert (result, bool(reason)) == (Result.SKIPPED, True)
    assert (await table.desk.row(made)).target is Target.TERMINATED
    assert await table.run(late) == (Result.ALREADY_STOPPED, "")
    for each in (late, skipped):
        planned = (await table.look(each)).next_run_at
        assert planned is not None and ms(planned) > table.clock.now_ms()
    assert await table.store.read(lambda tx: tx.rows(ScheduleRows).due(table.clock.now_ms(), 10)) == []


async def test_it_runs_with_the_rights_that_its_owner_has_then(table: Timetable) -> None:
    made = await table.stopped()
    place = Place(ObjectKind.CLUSTER, made)
    with pytest.raises(PermissionDenied):
        await table.schedules.create(USER, CreateSchedule(cluster_id=made, action=Action.START, cron=DAILY))
    await table.store.write(lambda tx: tx.grants.put(place, [Grant(USER.user_id, Permission.CAN_MANAGE)]))
    own = await table.schedules.create(
        USER, CreateSchedule(cluster_id=made, action=Action.START, cron=DAILY, start={"environment_updates": {"A": "1"}})
    )
    await table.store.write(lambda tx: tx.grants.put(place, [Grant(USER.user_id, Permission.CAN_RESTART)]))
    await table.at_next(own)
    result, reason = await table.run(own)
    assert (result, "permission" in reason.lower()) == (Result.FAILED, True), reason
    assert (await table.desk.row(made)).spec.spark_env_vars is None, "nothing has changed"
    await table.store.write(lambda tx: tx.grants.put(place, [Grant(USER.user_id, Permission.CAN_MANAGE)]))
    await table.store.write(lambda tx: lock_out(tx, USER))
    await table.at_next(own)
    result, reason = await table.run(own)
    assert (result, "deactivated" in reason) == (Result.FAILED, True)
    taken = await table.schedules.update(ADMIN, UpdateSchedule(cluster_id=made, schedule_id=own.id, missed=Missed.SKIP))
    assert taken.owner == ADMIN.user_name
    await table.at_next(own)
    assert (await table.run(own))[0] is Result.STARTED


async def test_a_start_that_fails_says_why(table: Timetable) -> None:
    made = await table.stopped()
    start = await table.plan(made)
    await table.at_next(start)
    table.short = CapacityError("no room: 2 cores are asked for, 1 is left", asked="2", left="1")
    result, reason = await table.run(start)
    assert (result, "no room" in reason) == (Result.FAILED, True)
    table.short = None
    await table.at_next(start)
    assert (await table.run(start))[0] is Result.STARTED
    broken = TerminationReason(code=TerminationReasonCode.DRIVER_UNREACHABLE, type=TerminationReasonType.CLOUD_FAILURE)
    why = "The driver is gone"
    await table.desk.settle(made, target=Target.TERMINATED, termination_reason=broken, state_message=why)
    last = (await table.look(start)).last_run
    assert last is not None and (last.result, last.reason) == (Result.FAILED, why)


async def test_a_server_that_is_killed_in_a_run_leaves_it_to_another(table: Timetable) -> None:
    made = await table.stopped()
    start = await table.plan(made)
    await table.at_next(start)

    class Killed(Exception):
        pass

    def dies(*_: Any, **__: Any) -> Any:
        raise Killed

    begin, table.v1.begin = table.v1.begin, dies  # type: ignore[method-assign] # it dies in the transaction
    with pytest.raises(Killed):
        await table.loop().work(start.id, timed=False)
    table.v1.begin = begin  # type: ignore[method-assign] # as before
    assert (await table.look(start)).last_run is None
    assert (await table.desk.row(made)).incarnation == 1
    assert await table.run(start, 2) == (Result.STARTED, "")
    assert (await table.desk.row(made)).incarnation == 2


async def test_a_paused_schedule_does_not_run_and_an_update_plans_anew(table: Timetable) -> None:
    made = await table.stopped()
    start = await table.plan(made)
    which: dict[str, Any] = {"cluster_id": made, "schedule_id": start.id}
    paused = await table.schedules.update(ADMIN, UpdateSchedule(**which, paused=True))
    assert (paused.paused, paused.next_run_at) == (True, None)
    table.clock.advance(minutes=2 * DAY)
    await table.loop().work(start.id, timed=False)
    assert await table.store.read(lambda tx: tx.rows(ScheduleRows).due(table.clock.now_ms(), 10)) == []
    again = await table.schedules.update(ADMIN, UpdateSchedule(**which, paused=False, cron="30 9 * * *"))
    assert again.next_run_at is not None and ms(again.next_run_at) > table.clock.now_ms(), "what was missed is not done"
    assert again.last_run is None and again.cron == "30 9 * * *"
    with pytest.raises(SemanticError, match="timezone"):
        await table.schedules.update(ADMIN, UpdateSchedule(**which, timezone="Mars/Olympus"))


@both_databases
async def test_schedules_go_with_their_cluster_which_stays_for_them(table: Timetable) -> None:
    made = await table.stopped()
    start = await table.plan(made)
    table.clock.advance(ms=RETENTION_MS + 1)
    await table.passes(made)
    await table.schedules.delete(ADMIN, NamedSchedule(cluster_id=made, schedule_id=start.id))
    with pytest.raises(ResourceNotFound):
        await table.look(start)
    await table.passes(made)
    assert (await table.desk.row(made)).forget_ms == table.clock.now_ms() + RETENTION_MS, "it is kept as after an unpin"
    other = await table.plan(made)
    await table.v1.delete(ADMIN, DeleteV1Cluster(cluster_id=made, confirm_deletion="DELETE"))
    table.clock.advance(minutes=DAY)
    await table.loop().work(other.id, timed=False)
    assert await table.store.read(lambda tx: tx.rows(ScheduleRows).get(other.id)) is None


async def test_a_purged_cluster_leaves_no_schedule(table: Timetable) -> None:
    made = await table.stopped()
    other = await table.plan(made)
    await table.v1.delete(ADMIN, DeleteV1Cluster(cluster_id=made, confirm_deletion="DELETE"))
    await table.store.write(lambda tx: tx.clusters.delete(made))
    assert await table.store.read(lambda tx: tx.rows(ScheduleRows).get(other.id)) is None


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"cron": "* * * * *"}, "cron"),
        ({"cron": "0 8 * *"}, "cron"),
        ({"cron": "0 0 31 2 *"}, "cron"),
        ({"timezone": "Mars/Olympus"}, "timezone"),
        ({"action": Action.STOP, "start": {"environment_updates": {}}}, "start"),
        ({"start": {"wait_for_ready": True}}, "start.wait_for_ready"),
        ({"start": {"cluster_id": "other"}}, "start.cluster_id"),
        ({"start": {"no_such": 1}}, "start"),
        ({"start": {"update_configuration": {"cpu_cores": "many"}}}, "start"),
        ({"start": {"update_configuration": {"cpu_cores": 10_000}}}, "start.update_configuration.cpu_cores"),
        ({"start": {"auto_terminate_updates": {"at": "2099-01-01T00:00:00Z"}}}, "start.auto_terminate_updates.at"),
        ({"start": {"environment_updates": {"A": "x" * 70_000}}}, "start"),
    ],
    ids=str,
)
async def test_what_cannot_be_scheduled_is_refused_with_field_and_rule(
    table: Timetable, fields: dict[str, Any], field: str, golden: Golden
) -> None:
    made = await table.stopped()
    with pytest.raises(SemanticError) as caught:
        await table.plan(made, **fields)
    (problem,) = caught.value.details["problems"]
    assert problem["field"] == field
    golden(problem["reason"])
    assert await table.schedules.list(ADMIN, made) == []


async def test_a_cluster_has_so_many_schedules_at_most(table: Timetable) -> None:
    made = await table.stopped()
    for _ in range(MOST_SCHEDULES):
        await table.plan(made)
    with pytest.raises(ApiError, match="maximum"):
        await table.plan(made)
    assert len(await table.schedules.list(ADMIN, made)) == MOST_SCHEDULES
    assert isinstance(await table.get(made), V1Cluster)
