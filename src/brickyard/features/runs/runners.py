"""Chooses what runs an attempt, by the kind of its task."""

from __future__ import annotations

from brickyard.domain.run import Output
from brickyard.reconcile.runpass import Call
from brickyard.reconcile.runs import Ended, TaskNodes


class TaskRunners:
    """Implements `reconcile.runs.TaskNodes`: `drivers` run programs and notebooks on clusters, `sql` runs SQL on
    warehouses."""

    def __init__(self, *, drivers: TaskNodes, sql: TaskNodes) -> None:
        self._drivers = drivers
        self._sql = sql

    async def begin(self, call: Call) -> Ended | None:
        return await self._of(call).begin(call)

    async def look(self, call: Call) -> Ended | None:
        return await self._of(call).look(call)

    async def stop(self, call: Call) -> Output | None:
        return await self._of(call).stop(call)

    async def end(self, call: Call) -> None:
        await self._of(call).end(call)

    def _of(self, call: Call) -> TaskNodes:
        return self._sql if call.task.spec.on_warehouse else self._drivers
