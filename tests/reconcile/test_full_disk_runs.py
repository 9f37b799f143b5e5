"""A disk that is full at any step of a run and of its repair, and has room again: the run ends with its output, and nothing
begins twice."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from brickyard.domain.run import RunResultState
from brickyard.features.jobs.model import RepairRun
from brickyard.features.runs.tasknodes import MAX_LOGS
from brickyard.providers.simulated.kernels import Answer
from brickyard.store.store import Store
from tests.reconcile.crashes import FullStore, killed_at_every_step
from tests.reconcile.runworld import ADMIN, RunWorld, task
from tests.reconcile.world import provider
from tests.support.databases import empty_sqlite
from tests.support.patience import PATIENCE_S
from tests.support.people import enter


async def full_and_free(root: Path, store: Store, steps: int) -> bool:
    """Returns whether the disk was full before the work was over."""
    simulated = provider()
    full = FullStore(store, steps)
    runs_store: Any = full
    world = RunWorld(store, simulated, root, runs_store=runs_store)
    world.file("a", "one")
    world.file("b", "fail")
    await store.write(lambda tx: enter(tx, ADMIN))
    async with world.running():
        run_id = await world.submit(task("a"), task("b", "a"))
        assert (await world.over(run_id)).state.result_state is RunResultState.FAILED
        world.file("b", "mended")
        await world.jobs.repair(ADMIN, RepairRun(run_id=run_id, rerun_all_failed_tasks=True))
        view = await world.over(run_id)
    assert view.state.result_state is RunResultState.SUCCESS
    logs = [(await world.output(each.run_id)).logs for each in view.tasks or []]
    assert [str(each)[:2] for each in logs] == ["/a", "be", "/b"], "each attempt's output is kept"
    begun = [command for _, command in simulated.kernels.begun]
    assert len(begun) == len(set(begun)) == 3, "nothing runs twice"
    assert not simulated.observe(), "no instance is left"
    return full.passed


@pytest.mark.extended
def test_a_disk_that_is_full_at_any_step_loses_no_run_and_begins_nothing_twice(tmp_path: Path) -> None:
    killed_at_every_step(tmp_path, full_and_free, steps_at_least=8, at_once=44)


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(empty_sqlite(tmp_path / "test.db"))
    yield opened
    opened.close()


async def test_the_largest_output_waits_for_room(sqlite: Store, tmp_path: Path) -> None:
    """SQLite itself says that the disk is full when the output is to be kept."""
    simulated = provider()
    world = RunWorld(sqlite, simulated, tmp_path)
    simulated.kernels.compute = lambda _: Answer(results={"resultType": "text", "data": "x" * MAX_LOGS}, after_s=1.0)
    refused: list[str] = []
    full = False

    @event.listens_for(sqlite._engine, "checkout")
    def bound(raw: Any, *_: Any) -> None:
        raw.execute(f"PRAGMA max_page_count = {1 if full else 2**30}")  # never less than it has already

    @event.listens_for(sqlite._engine, "handle_error")
    def count(context: Any) -> None:
        if getattr(context.original_exception, "sqlite_errorcode", 0) == sqlite3.SQLITE_FULL:
            refused.append(context.statement)

    world.file("a", "one")
    async with world.running():
        run_id = await world.submit(task("a"))
        await world.begun(run_id, "a")
        full = True
        async with asyncio.timeout(PATIENCE_S):
            while not refused:
                await asyncio.sleep(0.05)
        assert (await world.view(run_id)).state.result_state is None
        full = False
        view = await world.over(run_id)
    assert view.state.result_state is RunResultState.SUCCESS
    assert len((await world.output((view.tasks or [])[0].run_id)).logs or "") == MAX_LOGS
    assert len(simulated.kernels.begun) == 1
