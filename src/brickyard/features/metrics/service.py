"""What a cluster's nodes use: now, and over a range of time, also after the cluster has terminated."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import msgspec

from brickyard.access import Authorizer
from brickyard.access.objects import of_cluster
from brickyard.clusters.missing import existing_cluster
from brickyard.domain.access import Permission
from brickyard.domain.caller import Caller
from brickyard.domain.clock import Clock
from brickyard.domain.cluster import Cluster
from brickyard.domain.errors import InvalidParameterValue
from brickyard.domain.samples import METRICS, Columns, NodeAbout, unpack
from brickyard.domain.usage import ClusterUsage, MetricsWindow
from brickyard.features.metrics.rules import STEPS, USED, NodePast, used
from brickyard.features.metrics.rules import NodeNow as Newest
from brickyard.nodes.samples import FRESH_MS, Samples
from brickyard.nodes.sessions import AgentService
from brickyard.plan.samples import HOUR, KEPT_MS, MIN_STEP_MS, MINUTE, resample, step_for
from brickyard.store.samples import SampleRow
from brickyard.store.store import Store
from brickyard.store.tx import Tx

_encode = msgspec.json.Encoder().encode


class NodeNow(msgspec.Struct, frozen=True, kw_only=True):
    """What a node uses. `timestamp` is epoch ms; a metric that the node cannot measure is absent."""

    instance_id: str
    role: str
    node_type_id: str
    cores: int
    memory_mb: int
    simulated: bool
    timestamp: int
    metrics: dict[str, float]


class MetricsSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes with a sample of the last ten seconds."""

    cluster_id: str
    nodes: list[NodeNow]


class NodeRange(msgspec.Struct, frozen=True, kw_only=True):
    """Means for each step; null for a step without samples."""

    instance_id: str
    role: str
    node_type_id: str
    cores: int
    memory_mb: int
    simulated: bool
    metrics: dict[str, list[float | None]]


class MetricsRange(msgspec.Struct, frozen=True, kw_only=True):
    """Step number n begins at `start_time` + n x `step_ms`."""

    cluster_id: str
    start_time: int
    end_time: int
    step_ms: int
    nodes: list[NodeRange]


class AskRange(msgspec.Struct, frozen=True, kw_only=True):
    """A range of time in epoch ms; the last hour if none is given. `step_ms` 0: a few hundred points. `metrics`: names, separated
    by commas; all if it is empty."""

    cluster_id: str = ""
    start_time: int = 0
    end_time: int = 0
    step_ms: int = 0
    metrics: str = ""
    instance_id: str = ""


class ClusterMetrics:
    """`samples`: what this server has received. `agents` are asked for newer ones, and to send them often for a while. Methods
    raise ApiError."""

    def __init__(
        self,
        *,
        store: Store,
        clock: Clock,
        authorizer: Authorizer,
        samples: Samples,
        agents: AgentService | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._authorizer = authorizer
        self._samples = samples
        self._agents = agents

    async def snapshot(self, caller: Caller, cluster_id: str) -> MetricsSnapshot:
        """What the nodes use now. Other servers write what they receive every few seconds."""
        await self._store.read(lambda tx: self._find(tx, caller, cluster_id))
        await self._look(cluster_id)
        oldest = self._clock.now_ms() - FRESH_MS

        def work(tx: Tx) -> list[SampleRow]:
            return tx.samples.between(cluster_id, oldest, self._clock.now_ms() + HOUR)

        newest = self._newest(cluster_id, await self._store.read(work))
        oldest = self._clock.now_ms() - FRESH_MS  # the database may have taken its time
        nodes = [
            NodeNow(instance_id=name, timestamp=each.at_ms, metrics=dict(each.values), **msgspec.structs.asdict(each.about))
            for name, each in sorted(newest.items(), key=lambda each: _order(each[1].about, each[0]))
            if each.at_ms >= oldest
        ]
        return MetricsSnapshot(cluster_id=cluster_id, nodes=nodes)

    async def _look(self, cluster_id: str) -> None:
        if self._agents is not None:
            await self._agents.look(cluster_id)

    def _newest(self, cluster_id: str, rows: Sequence[SampleRow]) -> dict[str, Newest]:
        """The newest sample of each node, of those that are stored and those that this server has heard."""
        newest: dict[str, Newest] = {}
        for row in rows:
            for name, found in unpack(row.packed).items():
                at = found.times[-1]
                if name not in newest or newest[name].at_ms < at:
                    newest[name] = Newest(found.about, at, found.points()[at].values)
        for name, fresh in self._samples.fresh(cluster_id).items():
            if name not in newest or newest[name].at_ms <= fresh.sample.at_ms:
                newest[name] = Newest(fresh.about, fresh.sample.at_ms, fresh.sample.values)
        return newest

    async def used(self, cluster_id: str, window: MetricsWindow) -> ClusterUsage:
        """What the nodes use now, and over a window of time. Whoever calls this has checked the permission."""
        await self._look(cluster_id)
        now = self._clock.now_ms()
        start, oldest = now - window.ms, now - FRESH_MS
        rows = await self._store.read(lambda tx: tx.samples.between(cluster_id, start, now + HOUR))

        def work() -> ClusterUsage:
            newest = self._newest(cluster_id, [row for row in rows if row.end_ms >= oldest])
            found = [(row.tier, unpack(row.packed, metrics=USED)) for row in rows]
            past = resample(found, start_ms=start, end_ms=now, step_ms=window.ms // STEPS)
            here = [each for each in newest.values() if each.at_ms >= oldest]
            return used(here, [NodePast(each.about, each.values) for each in past.values()], window)

        return await asyncio.to_thread(work)

    async def between(self, caller: Caller, request: AskRange) -> bytes:
        """A MetricsRange as JSON, which takes long enough to be made on a thread."""
        metrics = _metrics(request.metrics)
        start, end = self._range(request)

        def work(tx: Tx) -> list[SampleRow]:
            self._find(tx, caller, request.cluster_id)
            return tx.samples.between(request.cluster_id, start, end)

        rows = await self._store.read(work)
        if end > self._clock.now_ms() - MINUTE:
            await self._look(request.cluster_id)  # whoever draws this asks again soon
        return await asyncio.to_thread(_answer, request, rows, start, end, metrics)

    def _find(self, tx: Tx, caller: Caller, cluster_id: str) -> Cluster:
        cluster = existing_cluster(tx, cluster_id)
        self._authorizer.require(tx, caller, Permission.CAN_ATTACH_TO, of_cluster(cluster), to="see the metrics of")
        return cluster

    def _range(self, request: AskRange) -> tuple[int, int]:
        now = self._clock.now_ms()
        end = request.end_time or now
        start = request.start_time or end - HOUR
        if not 0 <= start < end:
            raise InvalidParameterValue(
                f"start_time is {start} and end_time is {end}; start_time must be the earlier one, in epoch ms."
            )
        if end - start > 2 * KEPT_MS:
            raise InvalidParameterValue("start_time and end_time are more than 60 days apart; metrics are kept for 30.")
        if request.step_ms and request.step_ms < MIN_STEP_MS:
            raise InvalidParameterValue(
                f"step_ms is {request.step_ms}; it must be at least {MIN_STEP_MS}, the time between samples."
            )
        return start, end


def _answer(request: AskRange, rows: Sequence[SampleRow], start: int, end: int, metrics: Sequence[str]) -> bytes:
    found: list[tuple[int, Mapping[str, Columns]]] = [
        (row.tier, unpack(row.packed, metrics=metrics, instance_id=request.instance_id)) for row in rows
    ]
    nodes = {name for _, row in found for name in row}
    try:
        step = step_for(start, end, nodes=len(nodes), metrics=len(metrics), asked_ms=request.step_ms)
    except ValueError as error:
        raise InvalidParameterValue(
            f"step_ms is {request.step_ms}, which gives too many values for {len(nodes)} nodes and {len(metrics)} metrics; it "
            f"must be at least {error}. Or name fewer metrics, one instance_id, or a shorter range."
        ) from error
    answers = resample(found, start_ms=start, end_ms=end, step_ms=step)
    return _encode(
        MetricsRange(
            cluster_id=request.cluster_id,
            start_time=start,
            end_time=end,
            step_ms=step,
            nodes=[
                NodeRange(instance_id=name, metrics=answer.values, **msgspec.structs.asdict(answer.about))
                for name, answer in sorted(answers.items(), key=lambda each: _order(each[1].about, each[0]))
            ],
        )
    )


def _metrics(asked: str) -> Sequence[str]:
    names = [name.strip() for name in asked.split(",") if name.strip()]
    if unknown := [name for name in names if name not in METRICS]:
        raise InvalidParameterValue(f"metrics has {unknown[0][:140]!r}; it must be among {', '.join(METRICS)}.")
    return list(dict.fromkeys(names)) or list(METRICS)


def _order(about: NodeAbout, instance_id: str) -> tuple[bool, str]:
    """The driver first."""
    return about.role == "worker", instance_id
