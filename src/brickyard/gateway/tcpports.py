"""Keeps the listeners of tcp port mappings as they should be: open while their cluster runs, each leading to its driver.

The rows of mappings say what should be; what has become of it is written beside them (`PortRow`). One server of the workspace
listens. When it has gone, the next one does.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import NamedTuple

import msgspec
import structlog

from brickyard.clusters.attach.service import RunningCluster
from brickyard.domain.cluster import Cluster, Instance
from brickyard.domain.errors import DatabaseTrouble
from brickyard.domain.nodeops import PORT_OPEN, AgentRefused, AgentUnreachable, OpenPort, OpenPortOf
from brickyard.domain.periodic import Lease, Periodic, always
from brickyard.domain.ports import PortRow
from brickyard.domain.sources import SourceRules
from brickyard.nodes.calls import NodeCalls
from brickyard.nodes.carrier.process import Carrier, CarrierFailed
from brickyard.nodes.carrier.routes import Route, Socket, Tcp
from brickyard.plan.attach import driver_instance
from brickyard.plan.ports import spark_ports
from brickyard.store.store import Store
from brickyard.store.tx import Tx

POLL_S = 1.0
REST_S = 0.1  # at least, between two looks
AGAIN_S = 2.0  # before a driver that did not answer is asked again
SILENCE_S = 20.0  # of a server counts as its end; longer than a database that hangs keeps it waiting

log = structlog.get_logger(__name__)


Sources = Callable[[], Awaitable[SourceRules | None]]


async def everywhere() -> SourceRules | None:
    """Connections are let in from everywhere."""
    return None


class _Wanted(NamedTuple):
    """A mapping of a running cluster, and the driver that it leads to."""

    row: PortRow
    cluster: Cluster
    driver: Instance

    @property
    def target(self) -> _Target:
        return _Target(self.driver.instance_id, self.cluster.incarnation, self.row.mapping.internal_port)

    def route(self, opened: OpenPort) -> Route:
        """The listener, which leads to where the driver's agent says."""
        mapping, host = self.row.mapping, RunningCluster(self.cluster, self.driver).host
        target = Socket(opened.way) if opened.way else Tcp(host, mapping.internal_port)
        return Route(Tcp(mapping.bind_address, mapping.external_port), target, self.cluster.creator_user_name)

    def row_with(self, fault: str) -> PortRow:
        """The row once it is known that the listener is open, or why not."""
        return msgspec.structs.replace(self.row, opened=0 if fault else self.cluster.incarnation, fault=fault)


class _Target(NamedTuple):
    """A port of one start of a driver."""

    instance_id: str
    incarnation: int
    port: int


class _Answer(NamedTuple):
    """Where the driver's port is, or why that is not known. It is asked again after `until`."""

    opened: OpenPort | None
    fault: str
    until: float


class TcpPorts(Periodic):
    """One per server; the one that has the lease listens. While the database is away, everything stays as it is."""

    def __init__(self, *, store: Store, nodes: NodeCalls, held: Lease = always, sources: Sources = everywhere) -> None:
        """`sources`: what IP access lists have in force."""
        super().__init__(every_s=POLL_S, pace_s=REST_S, held=held)
        self._store = store
        self._nodes = nodes
        self._sources = sources
        self._rules: SourceRules | None = None
        self._carrier = Carrier(silence_s=SILENCE_S)
        self._ports: frozenset[int] = frozenset()
        self._wanted: Sequence[_Wanted] = ()
        self._answers: dict[_Target, _Answer] = {}
        self._asking: dict[_Target, asyncio.Task[None]] = {}
        self._usable: asyncio.Task[None] | None = None
        store.on_commit(lambda changes: self.wake() if changes.clusters or changes.identity else None)

    @property
    def ports(self) -> Collection[int]:
        """External ports on which this server listens, as far as is known."""
        return self._ports

    async def skip(self) -> None:
        await self.end()

    async def run_once(self) -> None:
        """Have open what should be."""
        with contextlib.suppress(DatabaseTrouble):
            if await self._reads():
                self._wanted = await self._store.read(_wanted, background=True)
                self._rules = await self._sources()
        self._ask()
        known = [(each, found.opened) for each in self._wanted if (found := self._answers.get(each.target)) and found.opened]
        ports = [each.row.mapping.external_port for each, _ in known]
        self._ports = self._ports.union(ports)
        try:
            faults = await self._carrier.tell([each.route(opened) for each, opened in known], self._rules)
        except CarrierFailed as error:
            log.warning("forwarding_failed", why=str(error))
            faults = [f"The forwarding process failed: {error}"] * len(known)
        self._ports = frozenset(port for port, fault in zip(ports, faults, strict=True) if not fault)
        with contextlib.suppress(DatabaseTrouble):
            await self._tell([(each, fault) for (each, _), fault in zip(known, faults, strict=True)])

    async def _reads(self) -> bool:
        """Whether the database can be used. Does not wait until it can: the process is to hear of us."""
        self._usable = self._usable or asyncio.create_task(self._store.usable())
        if not (await asyncio.wait({self._usable}, timeout=POLL_S))[0]:
            return False
        self._usable = None
        return True

    async def end(self) -> None:
        asking = [*self._asking.values(), *([self._usable] if self._usable is not None else [])]
        self._usable = None
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        self._wanted = ()
        self._answers.clear()
        self._ports = frozenset()
        await self._carrier.close()

    def _ask(self) -> None:
        """Begins to ask the drivers that are to be asked. One that hangs keeps no other waiting."""
        targets = {each.target: each.driver for each in self._wanted}
        self._answers = {target: answer for target, answer in self._answers.items() if target in targets}
        for target, driver in targets.items():
            known = self._answers.get(target)
            if target not in self._asking and (known is None or time.monotonic() >= known.until):
                task = self._asking[target] = asyncio.create_task(self._answer(target, driver))
                task.add_done_callback(lambda _, target=target: self._asking.pop(target, None))  # type: ignore[misc]

    async def _answer(self, target: _Target, driver: Instance) -> None:
        if target.port in spark_ports([driver]):
            self._answers[target] = _Answer(None, "Spark uses this port of the driver node", time.monotonic() + AGAIN_S)
            return
        try:
            opened = await self._nodes.ask(driver, PORT_OPEN, OpenPortOf(port=target.port, generation=driver.node_generation))
        except (AgentUnreachable, AgentRefused) as error:
            fault = f"The driver of the cluster does not answer: {error}"
            self._answers[target] = _Answer(None, fault, time.monotonic() + AGAIN_S)
        else:
            self._answers[target] = _Answer(opened, "", float("inf"))
            self.wake()

    async def _tell(self, found: Sequence[tuple[_Wanted, str]]) -> None:
        """Writes down what has become of the mappings, where that is news. `found`: of those whose driver has answered."""
        silent = [
            (each, answer.fault) for each in self._wanted if (answer := self._answers.get(each.target)) and not answer.opened
        ]
        rows = [each.row_with(fault) for each, fault in (*found, *silent)]
        before = {each.row.mapping.port_id: each.row for each in self._wanted}
        if news := [row for row in rows if row != before[row.mapping.port_id]]:
            await self._store.write(lambda tx: tx.ports.tell(news), background=True)


def _wanted(tx: Tx) -> Sequence[_Wanted]:
    """The tcp mappings of clusters that run."""
    rows = tx.ports.listening()
    if not rows:
        return ()
    named = {row.mapping.cluster_id for row in rows}
    clusters, nodes = tx.clusters.many(named), tx.instances.of_clusters(named)
    found = []
    for row in rows:
        cluster = clusters.get(row.mapping.cluster_id)
        if cluster is not None and cluster.up and not cluster.deleted_ms:
            driver = driver_instance(cluster, nodes[cluster.cluster_id])
            found += [_Wanted(row, cluster, driver)] if driver is not None else []
    return found
