"""Delivers what agents could not deliver of their nodes' logs: from what the nodes have left in the storage."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from brickyard.agent.delivery import Delivery, deliver_within
from brickyard.storage.directory import Storage

EVERY_S = 60.0
LIMIT_S = 60.0  # for the logs of one node

log = structlog.get_logger(__name__)


class LogDelivery:
    """`run` until cancelled. With several servers, the one for which `held` is true works. Logs that cannot be delivered are
    tried again as long as they are kept."""

    def __init__(self, *, storage: Storage, held: Callable[[], bool] = lambda: True, every_s: float = EVERY_S) -> None:
        self._storage = storage
        self._held = held
        self._every_s = every_s
        self._told: dict[str, str] = {}  # node -> the error that was logged

    async def run(self) -> None:
        while True:
            if self._held():
                await self.deliver()
            await asyncio.sleep(self._every_s)

    async def deliver(self) -> int:
        """Delivers what is left; returns of how many nodes."""
        delivered = 0
        for record in await asyncio.to_thread(self._storage.logs.undelivered):
            node, error = record.parent.name, ""
            try:
                delivery = Delivery(record, roots=self._storage.log_roots)
                logs = self._storage.logs.directory(record.parent)
                error = await asyncio.to_thread(deliver_within, delivery, logs, final=True, limit_s=LIMIT_S)
            except (OSError, ValueError) as problem:
                error = str(problem)
            delivered += not error
            if error and self._told.get(node) != error:
                log.warning("logs_not_delivered", node=node, why=error)
            self._told[node] = error
        self._told = {node: error for node, error in self._told.items() if error}
        return delivered
