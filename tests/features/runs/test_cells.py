"""The cells of notebooks through the service, on both databases, with simulated drivers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from brickyard.domain.notebookcells import NotebookCell
from brickyard.domain.run import RunResultState
from brickyard.domain.tasks import NotebookTask, SubmitRun, SubmitTask
from brickyard.features.runs.cellrows import MAX_BYTES, CellRows
from brickyard.features.runs.model import GetRunCells, RunCells, RunId
from brickyard.providers.simulated.kernels import Answer
from brickyard.store.store import Store
from brickyard.store.tx import Tx
from tests.reconcile.runworld import ADMIN, CELLS, CLUSTER, RunWorld
from tests.reconcile.world import provider
from tests.support.databases import both_databases
from tests.support.patience import PATIENCE_S

NOTEBOOK = SubmitTask(task_key="n", new_cluster=CLUSTER, notebook_task=NotebookTask(notebook_path="/n"))


@pytest.fixture
async def world(store: Store, tmp_path: Path) -> AsyncIterator[RunWorld]:
    async with RunWorld(store, provider(), tmp_path).running() as world:
        yield world


@both_databases
async def test_cells_are_kept_while_the_notebook_runs_and_go_with_the_run(world: RunWorld) -> None:
    cells = [*CELLS]
    world.provider.kernels.compute = lambda _command: Answer(results={}, after_s=3600, cells=cells)
    run_id = await world.service.submit(ADMIN, SubmitRun(tasks=[NOTEBOOK]))

    async def told(after: int = 0) -> RunCells:
        return await world.service.cells(ADMIN, GetRunCells(run_id=run_id, after=after))

    async def states() -> list[str]:
        return [each.state for each in (await told()).cells]

    async def become(*wanted: str) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while await states() != list(wanted):
                await asyncio.sleep(0.05)

    await become("WAITING", "FINISHED", "RUNNING")
    assert not (await told()).over
    cells[1] = {**CELLS[1], "version": 9, "state": "FINISHED"}  # the driver's own list
    await become("WAITING", "FINISHED", "FINISHED")
    assert [(each.number, each.version) for each in (await told(6)).cells] == [(1, 9)]
    await world.service.cancel(ADMIN, RunId(run_id=run_id))
    assert (await world.over(run_id)).state.result_state is RunResultState.CANCELED
    assert (await states(), (await told()).over) == (["SKIPPED", "FINISHED", "FINISHED"], True)
    await world.service.delete(ADMIN, RunId(run_id=run_id))


@both_databases
async def test_rows_of_cells_are_bounded_and_never_go_back(store: Store) -> None:
    def cell(number: int, version: int, size: int = 10) -> NotebookCell:
        return NotebookCell(number=number, version=version, results=[{"data": "x" * size}])

    def work(tx: Tx) -> None:
        rows = tx.rows(CellRows)
        rows.put(1, 11, [cell(0, 2), cell(1, 3)])
        rows.put(1, 11, [cell(0, 1, 99), cell(1, 4, MAX_BYTES)])
        rows.put(1, 12, [cell(0, 7)])
        assert rows.version(11) == 4 and rows.version(13) == 0
        first, more = rows.since(11, 0, most=1)
        assert ([each.number for each in first], more) == ([0], True) and first[0].results == [{"data": "x" * 10}]
        second, more = rows.since(11, 2, most=1)
        assert not more and second[0].results == [] and "left out" in second[0].cut
        tx.runs.delete(1)
        assert rows.version(11) == rows.version(12) == 0

    await store.write(work)
