"""Delivers what agents could not deliver of their nodes' logs: from what the nodes have left in the storage.

Uploads to S3 use the credentials that the node had, which its record holds sealed, and a network that reaches what nodes reach:
the endpoint is a user's choice.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import NamedTuple

import structlog

from brickyard.domain.clock import Monotonic
from brickyard.domain.node import LogDestination
from brickyard.domain.periodic import Lease, Periodic, always
from brickyard.domain.places import Kind
from brickyard.logs.delivery import Delivery, Passes, Runs
from brickyard.logs.objectdelivery import ObjectDelivery, uploader
from brickyard.logs.transfers import NO_LIST, MachineCredentials, credentials
from brickyard.machine.addresses import NetworkError
from brickyard.sandbox.launcher import Network
from brickyard.storage.directory import Storage
from brickyard.storage.logs import ageless
from brickyard.storage.sealer import Sealer

EVERY_S = 60.0
AGAIN_S = (50.0, 1800.0)  # after a delivery that failed, for that node: at first, at most
LIMIT_S = 60.0  # for the logs of one node
SLOW = 1 / 3  # of that time: a destination at which a delivery fails so slowly is left alone until the next round
AT_ONCE = 4  # destinations

log = structlog.get_logger(__name__)
Lend = Callable[[], AbstractAsyncContextManager[Network | None] | None]


class _Trouble(NamedTuple):
    """Why the logs of a node could not be delivered, how often in a row, and when to try again (monotonic seconds)."""

    error: str
    times: int
    after: float


class _Store(NamedTuple):
    """What destinations have in common that answer, or hang, together."""

    kind: str
    endpoint: str
    bucket: str

    @classmethod
    def of(cls, destination: LogDestination) -> _Store:
        return cls(destination.kind, destination.endpoint or destination.region, destination.bucket)


class LogDelivery(Periodic):
    """With several servers, the one for which `held` is true works. Logs that cannot be delivered are
    tried again, more and more rarely, as long as they are kept."""

    def __init__(
        self,
        *,
        storage: Storage,
        lend: Lend = lambda: None,
        sealer: Sealer | None = None,
        held: Lease = always,
        rules: MachineCredentials = NO_LIST,
        limit_s: float = LIMIT_S,
        clock: Monotonic = time.monotonic,
    ) -> None:
        """`lend`: `Provider.lend_network`. `sealer` opens sealed credentials."""
        super().__init__(every_s=EVERY_S, held=held)
        self._storage = storage
        self._lend = lend
        self._sealer = sealer
        self._rules = rules
        self._limit_s = limit_s
        self._clock = clock
        self._passes: dict[_Store, Passes] = {}
        self._trouble: dict[str, _Trouble] = {}  # by node

    async def run_once(self) -> int:
        """Delivers what is left; returns of how many nodes."""
        records = await asyncio.to_thread(self._storage.logs.undelivered)
        nodes = {record.parent.name for record in records}
        self._trouble = {node: trouble for node, trouble in self._trouble.items() if node in nodes}
        due: dict[_Store, list[Path]] = {}
        for record in records:
            if (trouble := self._trouble.get(record.parent.name)) is not None and self._clock() < trouble.after:
                continue
            try:
                delivery = await asyncio.to_thread(Delivery, record, roots=self._storage.log_roots)
            except (OSError, ValueError) as error:
                self._failed(record.parent.name, str(error))
            else:
                due.setdefault(_Store.of(delivery.record.destination), []).append(record)
        self._passes = {store: passes for store, passes in self._passes.items() if store in due or passes.hang}
        turns = asyncio.Semaphore(AT_ONCE)
        return sum(await asyncio.gather(*(self._to_one_store(store, each, turns) for store, each in due.items())))

    async def _to_one_store(self, store: _Store, records: list[Path], turns: asyncio.Semaphore) -> int:
        passes, delivered = self._passes.setdefault(store, Passes()), 0
        async with turns:
            for record in records:
                node, began = record.parent.name, time.monotonic()
                try:
                    error = await self._one(record, passes)
                except (OSError, ValueError, NetworkError) as problem:
                    error = str(problem)
                if not error:
                    delivered += 1
                    self._trouble.pop(node, None)
                    continue
                self._failed(node, error)
                if passes.hang or time.monotonic() - began > SLOW * self._limit_s:
                    break  # the others would wait as long
        return delivered

    async def _one(self, record: Path, passes: Passes) -> str:
        """Delivers the logs of one node; returns why it failed, or ""."""
        delivery = await asyncio.to_thread(Delivery, record, roots=self._storage.log_roots)
        logs = await asyncio.to_thread(self._storage.logs.directory, record.parent)

        def run(make: Callable[[], Runs]) -> str:
            with ageless(record.parent):
                return passes.run(make, logs, final=True, limit_s=self._limit_s)

        if delivery.record.destination.kind != Kind.S3:
            return await asyncio.to_thread(run, lambda: delivery)
        lent = None if delivery.record.elsewhere else self._lend()  # what nodes here reach, others need not
        if lent is None:
            return "only its nodes can reach this store"
        own = await asyncio.to_thread(self._sealer.open_variables, delivery.record.destination.sealed) if self._sealer else {}
        endpoint = delivery.record.destination.endpoint
        env = credentials(Kind.S3, cluster=own, machine=os.environ, endpoint=endpoint, rules=self._rules)
        async with lent as network:
            upload = uploader(
                delivery.record, env=env, python=sys.executable, network=network, limit_s=max(1.0, self._limit_s - 1)
            )
            return await asyncio.to_thread(run, lambda: ObjectDelivery(record, upload=upload, left=True))

    def _failed(self, node: str, error: str) -> None:
        before = self._trouble.get(node)
        if before is None or before.error != error:
            log.warning("logs_not_delivered", node=node, why=error)
        times = before.times + 1 if before is not None else 1
        first, most = AGAIN_S
        self._trouble[node] = _Trouble(error, times, self._clock() + min(most, first * 2.0 ** min(times - 1, 10)))
