"""Scheduled runs on a database: each begins once, whatever the number of servers, and one that cannot begin is seen."""

from __future__ import annotations

import pytest

from brickyard.domain.errors import InvalidParameterValue
from brickyard.domain.run import RunResultState, TriggerType
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
