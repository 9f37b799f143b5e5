"""Scheduled runs on a database: each begins once, whatever the number of servers, and one that cannot begin is seen."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from brickyard.domain.errors import DatabaseFull, InvalidParameterValue
from brickyard.domain.run import RunResultState, TriggerType
from brickyard.features.jobs.loop import JobLoop
from brickyard.features.jobs.model import (
    CronSchedule,
    JobSettings,
    PauseStatus,
    PeriodicTrigger,
    PeriodicUnit,
    Queue,
    RunNow,
    TriggerSettings,
    UpdateJob,
)
from brickyard.store.tx import Tx
from tests.features.jobs.world import DAY_MS, NOON, Jobs
from tests.reconcile.crashes import FULL_FOR, Crash, FullStore, Fuse, FusedStore
from tests.support.desk import ADMIN
from tests.support.people import lock_out


@pytest.mark.parametrize("servers", [1, 3])
async def test_each_scheduled_run_begins_once(jobs: Jobs, servers: int) -> None:
    job_id = await jobs.create()
    assert await jobs.run(job_id, servers) == [], "it is not due"
    for number in (1, 2):
        await jobs.at_next(job_id)
        runs = await jobs.run(job_id, servers)
        assert len(runs) == number
        assert await jobs.run(job_id, servers) == runs
        assert {each.trigger for each in runs} == {TriggerType.PERIODIC}
    assert jobs.noted == ["jobs.run_scheduled"] * 2


async def test_runs_that_were_missed_count_as_one(jobs: Jobs) -> None:
    job_id = await jobs.create()
    await jobs.at_next(job_id, late_ms=3 * DAY_MS + 1)
    assert len(await jobs.run(job_id)) == 1
    assert jobs.clock.now_ms() < await jobs.next_ms(job_id) <= jobs.clock.now_ms() + DAY_MS


async def test_a_periodic_trigger_keeps_its_rhythm(jobs: Jobs) -> None:
    trigger = TriggerSettings(periodic=PeriodicTrigger(interval=2, unit=PeriodicUnit.HOURS))
    job_id = await jobs.create(schedule=None, trigger=trigger)
    first = await jobs.next_ms(job_id)
    await jobs.at_next(job_id, late_ms=5 * 3_600_000)
    assert len(await jobs.run(job_id)) == 1
    assert (await jobs.next_ms(job_id) - first) == 6 * 3_600_000


async def test_a_clock_that_is_set_back_repeats_nothing(jobs: Jobs) -> None:
    job_id = await jobs.create()
    await jobs.at_next(job_id)
    assert len(await jobs.run(job_id)) == 1
    jobs.clock.advance(ms=-3_600_000)
    assert len(await jobs.run(job_id)) == 1
    jobs.clock.advance(ms=3_600_000)
    assert len(await jobs.run(job_id)) == 1


async def test_a_pause_ends_the_schedule_and_a_change_plans_anew(jobs: Jobs) -> None:
    job_id = await jobs.create()
    paused = CronSchedule(quartz_cron_expression="0 0 12 * * ?", timezone_id="UTC", pause_status=PauseStatus.PAUSED)
    await jobs.service.update(ADMIN, UpdateJob(job_id=job_id, new_settings=JobSettings(schedule=paused)))
    assert await jobs.next_ms(job_id) == 0
    jobs.clock.advance(ms=2 * DAY_MS)
    assert await jobs.run(job_id) == []
    await jobs.service.update(ADMIN, UpdateJob(job_id=job_id, new_settings=JobSettings(schedule=NOON)))
    assert jobs.clock.now_ms() < await jobs.next_ms(job_id) <= jobs.clock.now_ms() + DAY_MS


@pytest.mark.parametrize("step_ms", [0, -1_000, 1_000])
async def test_whose_turn_it_is_does_not_depend_on_the_clock(jobs: Jobs, step_ms: int) -> None:
    job_id = await jobs.create(max_concurrent_runs=2, schedule=None, queue=Queue(enabled=True))
    made = []
    for _ in range(6):
        made.append(await jobs.service.run_now(ADMIN, RunNow(job_id=job_id)))
        jobs.clock.advance(ms=step_ms)
    runs = await jobs.run(job_id)
    assert [each.run_id for each in runs] == made
    assert [each.queued for each in runs] == [False, False, True, True, True, True]
    before = await jobs.store.read(lambda tx: [tx.runs.active_before(each) for each in runs])
    assert before == [0, 1, 2, 3, 4, 5]
    following = await jobs.store.read(lambda tx: tx.runs.first_waiting(runs[0]))
    assert following == made[2]


async def test_a_job_of_no_runs_skips_them(jobs: Jobs) -> None:
    job_id = await jobs.create(max_concurrent_runs=0, schedule=None, queue=Queue(enabled=True))
    await jobs.service.run_now(ADMIN, RunNow(job_id=job_id))
    assert [each.result for each in await jobs.run(job_id)] == [RunResultState.MAXIMUM_CONCURRENT_RUNS_REACHED]


async def test_a_token_makes_one_run_until_it_is_deleted(jobs: Jobs) -> None:
    job_id = await jobs.create(schedule=None)
    asked = RunNow(job_id=job_id, idempotency_token="once")
    first = await jobs.service.run_now(ADMIN, asked)
    assert await jobs.service.run_now(ADMIN, asked) == first

    def end(tx: Tx) -> None:
        run = tx.runs.get(first)
        assert run is not None
        tx.runs.spend(run, 1)
        tx.runs.delete(first)

    await jobs.store.write(end)
    with pytest.raises(InvalidParameterValue):
        await jobs.service.run_now(ADMIN, asked)
    other = await jobs.create(schedule=None)
    assert await jobs.service.run_now(ADMIN, RunNow(job_id=other, idempotency_token="once")) != first, "each job has its own"


async def test_a_run_that_cannot_begin_is_a_failed_run(jobs: Jobs) -> None:
    job_id = await jobs.create()
    await jobs.store.write(lambda tx: lock_out(tx, ADMIN))
    await jobs.at_next(job_id)
    runs = await jobs.run(job_id)
    assert [(each.result, bool(each.ended_ms)) for each in runs] == [(RunResultState.FAILED, True)]
    assert ADMIN.user_name in runs[0].message
    assert await jobs.next_ms(job_id) > jobs.clock.now_ms(), "the next one is planned"


BERLIN = ZoneInfo("Europe/Berlin")
HALF_PAST_TWO = CronSchedule(quartz_cron_expression="0 30 2 * * ?", timezone_id="Europe/Berlin")


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("month", [3, 10])
async def test_each_day_of_a_change_of_the_clock_has_one_run_whichever_server_is_killed(
    jobs: Jobs, month: int, before: bool
) -> None:
    """Half past two does not come on one day of March, and comes twice on one of October. Of two servers at each moment, one is
    killed as it begins a run, before that is recorded or after; and their clocks are set back by an hour now and then."""
    first = datetime(2027, month, 27 if month == 3 else 30, 12, tzinfo=BERLIN)
    jobs.clock.advance(ms=int(first.timestamp() * 1000) - jobs.clock.now_ms())
    job_id = await jobs.create(schedule=HALF_PAST_TWO)
    crashes = 0
    for number in range(3 * 24 * 2):
        set_back = -3_600_000 if number % 5 == 4 else 0
        jobs.clock.advance(ms=30 * 60_000 + set_back)
        crashes += await _two_servers(jobs, job_id, before=before)
        jobs.clock.advance(ms=-set_back)
    runs = await jobs.run(job_id)
    days = [datetime.fromtimestamp(each.created_ms / 1000, BERLIN).date() for each in runs]
    assert len(days) == len(set(days)) == 3
    assert all(each.trigger is TriggerType.PERIODIC for each in runs)
    assert crashes


async def _two_servers(jobs: Jobs, job_id: int, *, before: bool) -> bool:
    """Has both look, first the one that is killed if it writes; returns whether it was."""
    stores: list[Any] = [FusedStore(jobs.store, Fuse(0), before=before), jobs.store]
    loops = [
        JobLoop(store=each, clock=jobs.clock, runs=jobs.maker, watches=jobs.watches, wake_run=lambda _: None) for each in stores
    ]
    ends = await asyncio.gather(*(loop.work(job_id, timed=False) for loop in loops), return_exceptions=True)
    assert ends[1] is None
    return isinstance(ends[0], Crash)


async def test_a_schedule_that_meets_a_full_disk_begins_its_run_once(jobs: Jobs) -> None:
    job_id = await jobs.create()
    await jobs.at_next(job_id)
    store = jobs.store
    jobs.store = FullStore(store, 0)  # type: ignore[assignment] # it stands for one
    for _ in range(FULL_FOR):
        with pytest.raises(DatabaseFull):
            await jobs.run(job_id)
    assert len(await jobs.run(job_id, servers=3)) == 1
    jobs.store = store
    assert len(await jobs.run(job_id)) == 1
