"""Runs that begin by files, tables, and one after the other: each once, whatever servers and clocks do."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brickyard.access import Authorizer
from brickyard.domain.access import Permission
from brickyard.domain.errors import InvalidParameterValue, PermissionDenied
from brickyard.domain.run import Run, RunResultState, TriggerType
from brickyard.features.jobs import arrivals
from brickyard.features.jobs.arrivals import LOOK_MS, Waits, Watched, looked
from brickyard.features.jobs.continuous import MOST_OFTEN_MS, PAUSES_MS, following, pause_ms
from brickyard.features.jobs.model import (
    Condition,
    Continuous,
    FileArrival,
    GetJob,
    JobRow,
    JobSettings,
    PauseStatus,
    RunNow,
    TableUpdate,
    TaskRetryMode,
    TriggerSettings,
    UpdateJob,
)
from brickyard.features.jobs.watches import MAX_FILES
from tests.features.jobs.world import NOON, TASK, Jobs
from tests.support.desk import ADMIN

R = RunResultState
BOTH = pytest.mark.parametrize("database", ["sqlite", "postgresql"])
ON = Continuous(pause_status=PauseStatus.UNPAUSED)
INBOX = TriggerSettings(file_arrival=FileArrival(url="dbfs:/inbox/"))


async def end(jobs: Jobs, run: Run, result: RunResultState) -> None:
    """Has a run end now, as its pass does."""

    def work(tx: object) -> None:
        found = tx.runs.get(run.run_id)  # type: ignore[attr-defined] # it is a transaction
        tx.runs.update(msgspec.structs.replace(found, result=result, ended_ms=jobs.clock.now_ms()))  # type: ignore[attr-defined]
        tx.runs.wake_job(run.job_id)  # type: ignore[attr-defined]

    await jobs.store.write(work)


def put(jobs: Jobs, name: str, *, at_ms: int | None = None) -> None:
    """A file in the inbox, as new as the clock says."""
    path = jobs.trees["dbfs"] / "inbox" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x")
    at = (jobs.clock.now_ms() if at_ms is None else at_ms) / 1000
    os.utime(path, (at, at))


# --- continuous ---


@BOTH
@pytest.mark.parametrize("servers", [1, 3])
async def test_one_run_of_a_continuous_job_is_active(jobs: Jobs, servers: int) -> None:
    job_id = await jobs.create(schedule=None, continuous=ON, max_concurrent_runs=None)
    for number in (1, 2, 3):
        runs = await jobs.run(job_id, servers)
        assert len(runs) == number
        assert await jobs.run(job_id, servers) == runs, "one is active"
        assert runs[-1].trigger is TriggerType.CONTINUOUS
        await end(jobs, runs[-1], R.SUCCESS)
        jobs.clock.advance(ms=MOST_OFTEN_MS)


async def test_a_continuous_job_that_fails_pauses_longer_and_longer(jobs: Jobs) -> None:
    job_id = await jobs.create(schedule=None, continuous=ON, max_concurrent_runs=None)
    for failures in (1, 2, 3):
        runs = await jobs.run(job_id)
        await end(jobs, runs[-1], R.FAILED)
        jobs.clock.advance(ms=pause_ms(failures) - 1)
        assert len(await jobs.run(job_id)) == failures
        jobs.clock.advance(ms=1)
        assert len(await jobs.run(job_id)) == failures + 1
    assert [pause_ms(each) for each in (0, 1, 2, 3, 99)] == [0, 30_000, 60_000, 120_000, PAUSES_MS[1]]


async def test_a_continuous_job_retries_its_tasks_if_it_says_so(jobs: Jobs) -> None:
    for mode, retries in ((None, 0), (TaskRetryMode.NEVER, 0), (TaskRetryMode.ON_FAILURE, 3)):
        always = Continuous(pause_status=PauseStatus.UNPAUSED, task_retry_mode=mode)
        job_id = await jobs.create(schedule=None, continuous=always, max_concurrent_runs=None)
        [run] = await jobs.run(job_id)
        assert run.task_retries == retries


async def test_a_continuous_job_is_paused_resumed_and_begun_again(jobs: Jobs) -> None:
    job_id = await jobs.create(schedule=None, continuous=Continuous(pause_status=PauseStatus.PAUSED), max_concurrent_runs=1)
    assert await jobs.run(job_id) == []
    await jobs.service.update(ADMIN, UpdateJob(job_id=job_id, new_settings=JobSettings(continuous=ON)))
    [first] = await jobs.run(job_id)
    restarted = await jobs.service.run_now(ADMIN, RunNow(job_id=job_id))
    first, second = await jobs.run(job_id)
    assert first.cancelled_ms
    assert (second.run_id, second.queued, second.trigger) == (restarted, True, TriggerType.CONTINUOUS_RESTART)
    await end(jobs, first, R.CANCELED)
    assert len(await jobs.run(job_id)) == 2
    await jobs.service.update(ADMIN, UpdateJob(job_id=job_id, new_settings=JobSettings(schedule=NOON)))
    await end(jobs, second, R.SUCCESS)
    assert len(await jobs.run(job_id)) == 2, "it is no continuous job any more"


@settings(max_examples=100, deadline=None)
@given(steps=st.lists(st.tuples(st.sampled_from(["look", "end", "fail"]), st.integers(-3_600_000, 3_600_000)), max_size=30))
def test_no_two_runs_are_active_and_no_pause_is_longer_than_the_longest(steps: list[tuple[str, int]]) -> None:
    row = JobRow(
        job_id=1, creator_user_name="u", run_as="u", created_ms=0, settings=JobSettings(continuous=ON, tasks=[TASK]), next_ms=1
    )
    now, active, last, number = 10**12, None, None, 0
    for what, step in steps:
        now += step
        if what != "look" and active is not None:
            last = msgspec.structs.replace(active, ended_ms=now, result=R.FAILED if what == "fail" else R.SUCCESS)
            active = None
        row, begins = following(row, active=active is not None, last=last, now=now)
        assert not (begins and active)
        if begins:
            number += 1
            active = Run(run_id=number, job_id=1, run_name="", creator_user_name="u", created_ms=now, tasks=())
        assert now < row.next_ms
    if active is None and last is not None:
        _, begins = following(row, active=False, last=last, now=row.next_ms)
        assert begins


# --- files ---


@BOTH
async def test_new_files_begin_one_run_over_several_servers(jobs: Jobs) -> None:
    put(jobs, "old", at_ms=jobs.clock.now_ms() - 1)
    job_id = await jobs.create(schedule=None, trigger=INBOX)
    put(jobs, "at once")
    [run] = await jobs.run(job_id, 3)
    assert (run.trigger, run.triggered_by) == (TriggerType.FILE_ARRIVAL, {"file_arrival.location": "dbfs:/inbox/"})
    for _ in range(2):
        jobs.clock.advance(ms=LOOK_MS)
        assert len(await jobs.run(job_id, 3)) == 1
    put(jobs, "deep/down/new")
    put(jobs, "_SUCCESS")
    jobs.clock.advance(ms=LOOK_MS)
    assert len(await jobs.run(job_id, 3)) == 2
    (jobs.trees["dbfs"] / "inbox" / "old").unlink()
    jobs.clock.advance(ms=-3_600_000)  # the clock is set back
    assert len(await jobs.run(job_id)) == 2
    jobs.clock.advance(ms=3_600_000 + LOOK_MS)
    assert len(await jobs.run(job_id)) == 2


async def test_what_comes_during_a_pause_does_not_count(jobs: Jobs) -> None:
    put(jobs, "old", at_ms=1)
    job_id = await jobs.create(schedule=None, trigger=msgspec.structs.replace(INBOX, pause_status=PauseStatus.PAUSED))
    put(jobs, "meanwhile")
    jobs.clock.advance(ms=LOOK_MS)
    assert await jobs.run(job_id) == []
    await jobs.service.update(ADMIN, UpdateJob(job_id=job_id, new_settings=JobSettings(trigger=INBOX)))
    assert await jobs.run(job_id) == []
    put(jobs, "new")
    jobs.clock.advance(ms=LOOK_MS)
    assert len(await jobs.run(job_id)) == 1


async def test_a_directory_that_cannot_be_looked_at_is_told(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    job_id = await jobs.create(schedule=None, trigger=INBOX)

    async def why() -> str:
        await jobs.run(job_id)
        jobs.clock.advance(ms=arrivals.SLOWEST_MS)
        found = (await jobs.service.get(ADMIN, GetJob(job_id=job_id))).trigger_state
        return (found.message or "") if found else ""

    assert "does not exist" in await why()
    put(jobs, "a", at_ms=1)
    assert await why() == ""
    monkeypatch.setattr("brickyard.features.jobs.watches.MAX_FILES", 1)
    put(jobs, "b")
    assert "more than 1 files" in await why()
    assert MAX_FILES == 10_000
    assert await jobs.run(job_id) == []


@pytest.mark.parametrize(
    ("trigger", "permission"),
    [
        (TriggerSettings(file_arrival=FileArrival(url="/Volumes/main/default/inbox/")), Permission.READ_VOLUME),
        (INBOX, Permission.CAN_READ),
        (TriggerSettings(table_update=TableUpdate(table_names=["default.t"])), Permission.USE_SCHEMA),
    ],
)
async def test_what_is_waited_for_must_be_readable(
    jobs: Jobs, trigger: TriggerSettings, permission: Permission, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def create() -> int:
        return await jobs.create(schedule=None, trigger=trigger)

    await create()
    plain = Authorizer.require

    def refuse(self: Authorizer, tx: Any, principal: Any, asked: Permission, *on: Any, **to: Any) -> None:
        if asked is permission:
            raise PermissionDenied("no")
        plain(self, tx, principal, asked, *on, **to)

    monkeypatch.setattr(Authorizer, "require", refuse)
    with pytest.raises(PermissionDenied):
        await create()


WAIT = st.integers(0, 100)
TOKENS = st.dictionaries(st.sampled_from("abcde"), st.integers(0, 20), max_size=5)


@settings(max_examples=100, deadline=None)
@given(
    looks=st.lists(st.tuples(st.integers(-50, 200), TOKENS), max_size=12), between=st.integers(0, 100), quiet=st.integers(0, 100)
)
def test_a_trigger_fires_once_for_what_is_new_and_never_for_what_was_there(
    looks: list[tuple[int, dict[str, int]]], between: int, quiet: int
) -> None:
    state, now, told, gone = Watched(since_ms=10), 1_000, set[str](), set[str]()
    for number, (step, seen) in enumerate(looks):
        now += step
        if number == 0:
            told = {token for token, at in seen.items() if at < 10}
        gone, told = gone | (told - seen.keys()), told & seen.keys()
        look = looked(state, seen, Waits(between, quiet), now=now)
        assert not told & set(look.fires), "it was there, or a run has begun for it"
        assert set(look.fires) in (set(), seen.keys() - told)
        if not (between or quiet):
            assert set(look.fires) == seen.keys() - told
        told |= set(look.fires)
        assert look.next_ms <= now + LOOK_MS
        state = look.state


def test_the_two_waits() -> None:
    waits, state, fired = Waits(between_ms=100_000, quiet_ms=60_000), Watched(since_ms=1), []
    for now in range(0, 400_000, 5_000):
        files = {"a": 2} | ({"b": 2} if now >= 30_000 else {}) | ({"c": 2} if now >= 95_000 else {})
        look = looked(state, files, waits, now=1_000_000 + now)
        state = look.state
        if look.fires:
            fired.append((now, look.fires))
    assert fired == [(90_000, ("a", "b")), (190_000, ("c",))]


# --- tables ---


def commit(jobs: Jobs, table: str, version: int) -> None:
    path: Path = jobs.trees["dbfs"] / "user" / "hive" / "warehouse" / table / "_delta_log" / f"{version:020d}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{}")
    os.utime(path, (jobs.clock.now_ms() / 1000,) * 2)
    jobs.tables.known[f"main.default.{table}"] = ("DELTA", f"dbfs:/user/hive/warehouse/{table}")


@pytest.mark.parametrize("condition", [Condition.ANY_UPDATED, Condition.ALL_UPDATED])
async def test_new_versions_of_tables_begin_a_run(jobs: Jobs, condition: Condition) -> None:
    commit(jobs, "a", 0)
    commit(jobs, "b", 7)
    jobs.clock.advance(ms=1)
    update = TableUpdate(table_names=["main.default.a", "default.b"], condition=condition)
    jobs.tables.known["main.default.b"] = ("DELTA", "dbfs:/user/hive/warehouse/b")
    job_id = await jobs.create(schedule=None, trigger=TriggerSettings(table_update=update))
    assert await jobs.run(job_id) == []
    commit(jobs, "a", 1)
    jobs.clock.advance(ms=LOOK_MS)
    runs = await jobs.run(job_id, 3)
    assert len(runs) == (condition is Condition.ANY_UPDATED)
    commit(jobs, "b", 8)
    jobs.clock.advance(ms=LOOK_MS)
    run = (await jobs.run(job_id, 3))[-1]
    assert run.trigger is TriggerType.TABLE
    assert run.triggered_by["table_update.default.b.version"] == "8"
    both = ["default.b", "main.default.a"] if condition is Condition.ALL_UPDATED else ["default.b"]
    assert json.loads(run.triggered_by["table_update.updated_tables"]) == both


@pytest.mark.parametrize(
    ("facts", "why"),
    [(None, "does not exist"), (("PARQUET", "dbfs:/t"), "not a Delta table"), (("DELTA", "s3://b/t"), "not in the workspace's")],
)
async def test_other_tables_are_told(jobs: Jobs, facts: tuple[str, str] | None, why: str) -> None:
    if facts is not None:
        jobs.tables.known["main.default.t"] = facts
    trigger = TriggerSettings(table_update=TableUpdate(table_names=["main.default.t"]))
    job_id = await jobs.create(schedule=None, trigger=trigger)
    await jobs.run(job_id)
    found = (await jobs.service.get(ADMIN, GetJob(job_id=job_id))).trigger_state
    assert found and why in (found.message or "")


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"schedule": NOON, "continuous": ON}, "both given"),
        ({"continuous": ON, "max_concurrent_runs": 2}, "max_concurrent_runs"),
        ({"continuous": Continuous(maintenance_window={"start_hour": 1})}, "maintenance_window"),
        ({"continuous": ON, "tasks": [msgspec.structs.replace(TASK, max_retries=1)]}, "max_retries"),
        ({"trigger": TriggerSettings(file_arrival=FileArrival(url="s3://bucket/"))}, "file_arrival.url"),
        ({"trigger": TriggerSettings(file_arrival=FileArrival(url="/Volumes/a/b"))}, "file_arrival.url"),
        ({"trigger": TriggerSettings(file_arrival=FileArrival(url="dbfs:/a/../b"))}, "file_arrival.url"),
        (
            {"trigger": TriggerSettings(file_arrival=FileArrival(url="dbfs:/a", wait_after_last_change_seconds=59))},
            "wait_after_last_change_seconds",
        ),
        ({"trigger": TriggerSettings(table_update=TableUpdate(table_names=[]))}, "table_names"),
        ({"trigger": TriggerSettings(table_update=TableUpdate(table_names=["t"]))}, "catalog.schema.table"),
        ({"trigger": TriggerSettings(model={"x": 1})}, "trigger.model"),
    ],
)
async def test_refused_triggers(jobs: Jobs, fields: dict[str, object], why: str) -> None:
    with pytest.raises(InvalidParameterValue, match=why):
        await jobs.create(**({"schedule": None, "max_concurrent_runs": None} | fields))
