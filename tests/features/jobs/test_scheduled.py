"""Scheduled runs on a database: each begins once, whatever the number of servers, and one that cannot begin is seen."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from brickyard.access import Authorizer
from brickyard.domain.clock import Ids
from brickyard.domain.errors import InvalidParameterValue
from brickyard.domain.queries import RunFilter
from brickyard.domain.run import Run, RunResultState, TriggerType
from brickyard.domain.spec import ClusterSpec
from brickyard.domain.tasks import SparkPythonTask, SubmitTask
from brickyard.features.jobs.loop import JobLoop
from brickyard.features.jobs.model import (
    CreateJob,
    CronSchedule,
    GetJob,
    JobSettings,
    PauseStatus,
    PeriodicTrigger,
    PeriodicUnit,
    Queue,
    RunNow,
    TriggerSettings,
    UpdateJob,
)
from brickyard.features.jobs.service import JobService
from brickyard.features.runs.making import RunMaker
from brickyard.features.runs.taskfiles import TaskFiles
from brickyard.store.store import Store
from brickyard.store.tx import Tx
from brickyard.testing.builders import SMALL
from tests.support.desk import ADMIN, USER, Desk
from tests.support.people import enter, lock_out

NOON = CronSchedule(quartz_cron_expression="0 0 12 * * ?", timezone_id="UTC")
DAY_MS = 86_400_000
TASK = SubmitTask(
    task_key="a",
    spark_python_task=SparkPythonTask(python_file="dbfs:/a.py"),
    new_cluster=ClusterSpec(spark_version="17.3.x-scala2.13", node_type_id=SMALL.node_type_id, num_workers=1),
)


class Jobs:
    """Jobs, and the loops of servers that run them."""

    def __init__(self, desk: Desk, store: Store) -> None:
        self.store, self.clock = store, desk.clock
        files = TaskFiles(dbfs=Path("dbfs"), machine=None)
        specify = desk.service.commands.specify
        self.maker = RunMaker(clock=desk.clock, ids=Ids(), authorizer=Authorizer(), specify=specify, files=files)
        self.service = JobService(
            store=store, clock=desk.clock, ids=Ids(), authorizer=Authorizer(), runs=self.maker, wake_run=lambda _: None
        )
        self.noted: list[str] = []

    async def create(self, **fields: object) -> int:
        asked = {"name": "nightly", "tasks": [TASK], "schedule": NOON, "max_concurrent_runs": 10, **fields}
        return await self.service.create(ADMIN, CreateJob(**asked))  # type: ignore[arg-type] # fields

    async def next_ms(self, job_id: int) -> int:
        return (await self.service.get(ADMIN, GetJob(job_id=job_id))).next_run_time or 0

    async def at_next(self, job_id: int, *, late_ms: int = 0) -> None:
        """Moves the clock to the job's next run."""
        self.clock.advance(ms=await self.next_ms(job_id) - self.clock.now_ms() + late_ms)

    async def run(self, job_id: int, servers: int = 1) -> list[Run]:
        """The job's runs after the loops of so many servers have looked at it."""
        loops = [
            JobLoop(
                store=self.store,
                clock=self.clock,
                runs=self.maker,
                wake_run=lambda _: None,
                note=lambda operation, caller, **objects: self.noted.append(operation),
            )
            for _ in range(servers)
        ]
        await asyncio.gather(*(loop.work(job_id, timed=False) for loop in loops))
        which = RunFilter(job_id=job_id)
        return await self.store.read(lambda tx: tx.runs.page(which, newest_first=False, limit=100, offset=0, after=None))


@pytest.fixture
async def jobs(desk: Desk, store: Store) -> Jobs:
    await store.write(lambda tx: enter(tx, ADMIN, USER))
    return Jobs(desk, store)


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
