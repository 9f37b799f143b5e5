"""Rows of runs: found by what they are known by, listed in order, and removed whole."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest
from sqlalchemy.exc import IntegrityError

from brickyard.domain.queries import RunFilter, RunPosition
from brickyard.domain.run import Output, Run, Task
from brickyard.domain.tasks import SubmitTask
from brickyard.reconcile.retention import DAY_MS, Retention
from brickyard.storage.directory import Storage
from brickyard.store.store import Store
from brickyard.testing.builders import NOW
from brickyard.testing.clock import ManualClock


def run(run_id: int, **fields: object) -> Run:
    tasks = (Task(task_run_id=run_id * 100, spec=SubmitTask(task_key="a")),)
    values = {"job_id": run_id, "run_name": "r", "creator_user_name": "u", "created_ms": NOW, "tasks": tasks, **fields}
    return Run(run_id=run_id, **values)  # type: ignore[arg-type] # keyword arguments of a struct


def test_a_run_is_found_by_its_attempts_and_goes_with_them(store: Store) -> None:
    store.write_sync(lambda tx: tx.runs.insert(run(1, idempotency_token="t")))
    store.write_sync(lambda tx: tx.runs.insert_attempts(1, [101]))
    store.write_sync(lambda tx: tx.runs.set_output(101, Output(logs="x")))
    assert store.read_sync(lambda tx: [tx.runs.run_of(100), tx.runs.run_of(101), tx.runs.run_of(1)]) == [1, 1, None]
    assert store.read_sync(lambda tx: (tx.runs.output(100), tx.runs.output(101))) == (None, Output(logs="x"))
    assert store.read_sync(lambda tx: tx.runs.by_idempotency_token("t", run(1).creator_user_name, 0)) == 1
    with pytest.raises(IntegrityError):
        store.write_sync(lambda tx: tx.runs.insert_attempts(2, [101]))
    store.write_sync(lambda tx: tx.runs.delete(1))
    assert store.read_sync(lambda tx: (tx.runs.get(1), tx.runs.run_of(100), tx.runs.output(101))) == (None, None, None)


def test_a_wake_never_postpones(store: Store) -> None:
    store.write_sync(lambda tx: tx.runs.insert(run(1)))
    store.write_sync(lambda tx: tx.runs.schedule(1, 50))
    store.write_sync(lambda tx: tx.runs.wake(1, 70))
    assert store.read_sync(lambda tx: tx.runs.due(60, 9)) == [1]
    store.write_sync(lambda tx: tx.runs.schedule(1, None))
    assert store.read_sync(lambda tx: tx.runs.due(2**62, 9)) == []


def test_pages_by_time_with_ties_by_id(store: Store) -> None:
    for number, (created, ended) in enumerate([(5, 0), (7, 9), (7, 0), (8, 0)], start=1):
        row = run(number, created_ms=NOW + created, ended_ms=ended)
        store.write_sync(lambda tx, row=row: tx.runs.insert(row))  # type: ignore[misc] # the row of this turn

    def ids(which: RunFilter, *, newest: bool = True, after: RunPosition | None = None, offset: int = 0) -> list[int]:
        found = store.read_sync(lambda tx: tx.runs.page(which, newest_first=newest, limit=9, offset=offset, after=after))
        return [each.run_id for each in found]

    assert ids(RunFilter()) == [4, 3, 2, 1]
    assert ids(RunFilter(), offset=2) == [2, 1]
    assert ids(RunFilter(), after=RunPosition(created_ms=NOW + 7, run_id=3)) == [2, 1]
    assert ids(RunFilter(), newest=False, after=RunPosition(created_ms=NOW + 7, run_id=2)) == [3, 4]
    assert ids(RunFilter(active=True)) == [4, 3, 1]
    assert ids(RunFilter(active=False)) == [2]
    assert ids(RunFilter(job_id=3)) == [3]
    assert ids(RunFilter(start_ms=NOW + 6, end_ms=NOW + 7)) == [3, 2]


def test_runs_that_ended_60_days_ago_go_and_active_ones_stay(store: Store, tmp_path: Path) -> None:
    clock = ManualClock()
    old = run(1, created_ms=NOW - 90 * DAY_MS)
    for row in (old, msgspec.structs.replace(run(2), ended_ms=NOW - 61 * DAY_MS), msgspec.structs.replace(run(3), ended_ms=NOW)):
        store.write_sync(lambda tx, row=row: tx.runs.insert(row))  # type: ignore[misc] # the row of this turn
    for token, days in (("old", 61), ("new", 59)):
        gone = run(9, idempotency_token=token)
        store.write_sync(lambda tx, gone=gone, days=days: tx.runs.spend(gone, NOW - days * DAY_MS))  # type: ignore[misc] # as above
    retention = Retention(store=store, clock=clock, storage=Storage(tmp_path))
    assert asyncio.run(retention.trim_runs()) == 1
    assert store.read_sync(lambda tx: [tx.runs.spent(token, "u", 0) for token in ("old", "new")]) == [None, 9]
    assert store.read_sync(lambda tx: [tx.runs.get(each) is not None for each in (1, 2, 3)]) == [True, False, True]
