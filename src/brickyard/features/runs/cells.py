"""The output of notebooks that run as tasks, cell by cell: collected from drivers as it is made, and kept with the run."""

from __future__ import annotations

import msgspec

from brickyard.domain import nodeops
from brickyard.domain.clock import Clock
from brickyard.domain.nodeops import AgentRefused, CellsOfCommand, OfCommand
from brickyard.domain.notebookcells import NotebookCell
from brickyard.features.runs.cellrows import CellRows
from brickyard.nodes.calls import NodeCalls
from brickyard.nodes.clocks import SAME_MS
from brickyard.reconcile.runpass import Call
from brickyard.store.store import Store
from brickyard.store.tx import Tx

MOST_ANSWERS = 100  # of one look


class CellCollector:
    """One per server. What was collected is kept; the rest is with the driver until the attempt's context is destroyed."""

    def __init__(self, *, store: Store, clock: Clock, nodes: NodeCalls) -> None:
        self._store = store
        self._clock = clock
        self._nodes = nodes

    async def collect(self, call: Call, command: OfCommand) -> None:
        """Keeps what is new. May be repeated, also by two servers at once. Raises AgentUnreachable."""
        run_id, attempt = call.run.run_id, call.attempt.task_run_id
        after = await self._store.read(lambda tx: tx.rows(CellRows).version(attempt), background=True)
        for _ in range(MOST_ANSWERS):
            asked = CellsOfCommand(context_id=command.context_id, command_id=command.command_id, after=after)
            try:
                found = await self._nodes.ask(call.driver, nodeops.COMMAND_CELLS, asked)
            except AgentRefused:
                return  # the driver has forgotten the attempt, or is of a version without cells
            if not found.cells:
                return
            cells = _on_our_clock(found, self._clock.now_ms())

            def keep(tx: Tx, cells: list[NotebookCell] = cells) -> None:
                if tx.runs.get(run_id) is not None:  # locks the run: it is not deleted meanwhile, and no other server writes
                    tx.rows(CellRows).put(run_id, attempt, cells)

            await self._store.write(keep, background=True)
            after = max(cell.version for cell in cells)
            if not found.more:
                return


def _on_our_clock(found: nodeops.ChangedCells, now_ms: int) -> list[NotebookCell]:
    ahead = now_ms - found.now_ms if found.now_ms else 0
    if abs(ahead) <= SAME_MS:
        return found.cells
    return [
        msgspec.structs.replace(
            cell, start_time=cell.start_time and cell.start_time + ahead, end_time=cell.end_time and cell.end_time + ahead
        )
        for cell in found.cells
    ]
