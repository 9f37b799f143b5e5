"""What `GET /v1/clusters/{id}` adds to a cluster: what its nodes use, what it has cost, and the ends of its logs.

The first two take more than the cluster itself, and are asked for by default. So they are kept for as long as samples are apart,
and requests that come meanwhile share one read.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, Protocol

import msgspec

from brickyard.access import Authorizer
from brickyard.clusters.logs.service import ClusterLog, ClusterLogs
from brickyard.clusters.v1.problems import permitted
from brickyard.clusters.v1.reads import V1Reads
from brickyard.domain.access import Permission
from brickyard.domain.caller import Caller
from brickyard.domain.clock import Clock, Monotonic
from brickyard.domain.nodeops import ReadLog
from brickyard.domain.samples import SAMPLE_S
from brickyard.domain.usage import ClusterUsage, MetricsWindow
from brickyard.domain.v1.clusters import GetV1Cluster
from brickyard.domain.v1.details import GetV1Metrics, LogTail
from brickyard.store.store import Store
from brickyard.store.tx import Tx

MOST = 4_000  # of what is kept, a KiB each
LOGS = 10
TAIL = 8192  # bytes of each log
_encode = msgspec.json.Encoder().encode


class Usage(Protocol):
    """What clusters use. Implemented by `ClusterMetrics`."""

    async def used(self, cluster_id: str, window: MetricsWindow) -> ClusterUsage:
        """What a cluster uses now, and used in the window. Checks no permission."""
        ...


class _Known(NamedTuple):
    """What was read, also as JSON."""

    value: Any
    json: bytes


class V1Details:
    """One per server. Methods raise ApiError."""

    def __init__(
        self,
        *,
        store: Store,
        clock: Clock,
        authorizer: Authorizer,
        reads: V1Reads,
        metrics: Usage,
        logs: ClusterLogs,
        monotonic: Monotonic = time.monotonic,
    ) -> None:
        self._store = store
        self._clock = clock
        self._authorizer = authorizer
        self._reads = reads
        self._metrics = metrics
        self._logs = logs
        self._monotonic = monotonic
        self._kept: dict[tuple[str, str], tuple[float, asyncio.Future[_Known]]] = {}  # until when, and what or who reads it

    async def get(self, caller: Caller, request: GetV1Cluster) -> bytes:
        """One cluster with all that is asked for, as JSON."""
        cluster_id = request.cluster_id
        json = await self._reads.get(caller, cluster_id)
        if request.include_cost_breakdown:
            json = _filled(json, b"total", (await self._soon(cluster_id, "cost", self._cost)).json)
        if request.include_logs:
            json = _filled(json, b"logs", _encode(await self._tails(caller, cluster_id)))
        if request.include_metrics:
            json = _filled(json, b"metrics", (await self._used(cluster_id, request.metrics_window)).json)
        return json

    async def metrics(self, caller: Caller, request: GetV1Metrics) -> ClusterUsage:
        """What a cluster uses."""

        def see(tx: Tx) -> None:
            permitted(tx, self._authorizer, caller, request.cluster_id, Permission.CAN_ATTACH_TO, to="see the metrics of")

        await self._store.read(see)
        found: ClusterUsage = (await self._used(request.cluster_id, request.metrics_window)).value
        return found

    async def _used(self, cluster_id: str, window: MetricsWindow) -> _Known:
        return await self._soon(cluster_id, window, lambda of: self._metrics.used(of, window))

    async def _cost(self, cluster_id: str) -> float:
        """What the cluster has cost since it was created."""

        def work(tx: Tx) -> float:
            now = self._clock.now_ms()
            return round(sum(each.amount(0, now) for each in tx.charges.between(0, now, cluster_id=cluster_id)), 6)

        return await self._store.read(work)

    async def _soon(self, cluster_id: str, what: str, read: Callable[[str], Awaitable[Any]]) -> _Known:
        """What was read a moment ago, or is being read; else it is read now."""

        async def known() -> _Known:
            value = await read(cluster_id)
            return _Known(value, _encode(value))

        key, now = (cluster_id, what), self._monotonic()
        until, found = self._kept.get(key, (0.0, None))
        failed = found is not None and found.done() and (found.cancelled() or found.exception() is not None)
        if found is None or failed or now >= until:
            if len(self._kept) >= MOST:
                self._kept.clear()
            found = asyncio.ensure_future(known())
            self._kept[key] = (now + SAMPLE_S, found)
        return found.result() if found.done() else await asyncio.shield(found)

    async def _tails(self, caller: Caller, cluster_id: str) -> list[LogTail]:
        """The ends of the logs of the newest driver."""
        drivers = [each for each in (await self._logs.list(caller, cluster_id)).files if each.role != "worker"]
        asked = [each for each in drivers if each.node == drivers[0].node][:LOGS]
        return list(await asyncio.gather(*(self._tail(caller, cluster_id, each) for each in asked)))

    async def _tail(self, caller: Caller, cluster_id: str, log: ClusterLog) -> LogTail:
        read = await self._logs.read(caller, cluster_id, log.file, ReadLog(name="", offset=-TAIL, limit=TAIL))
        return LogTail(file=log.file, size=read.size, text=read.text, running=read.running)


def _filled(json: bytes, field: bytes, value: bytes) -> bytes:
    """With the value, as JSON, of a field that is null. Quotes in users' words are escaped, and their values are never null, so
    only the field itself looks like this."""
    return json.replace(b'"%b":null' % field, b'"%b":%b' % (field, value), 1)
