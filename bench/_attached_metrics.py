"""Metrics of clusters: what sampling costs a node, how long a range over 30 days takes to read, and what is stored."""

from __future__ import annotations

import asyncio
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench._harness import limited, table
from brickyard.access import Authorizer
from brickyard.agent.watching.meter import Watched
from brickyard.agent.watching.sampling import Sampled, Sampler
from brickyard.domain.caller import Caller
from brickyard.domain.packedsamples import packed
from brickyard.domain.samples import METRICS, SAMPLE_S, NodeAbout, NodeSamples, Point, columns, pack
from brickyard.features.metrics.loop import SamplePacking
from brickyard.features.metrics.service import AskRange, ClusterMetrics
from brickyard.machine.cgroups import Group, Limits
from brickyard.machine.gpus import opened
from brickyard.nodes.samples import Samples
from brickyard.plan.samples import DAY, HOUR, MINUTE, TIERS
from brickyard.store.samples import SampleRow
from brickyard.store.store import Store
from brickyard.testing.builders import cluster
from brickyard.testing.clock import ManualClock

PROCESSES = 30  # of the node: a driver with a few kernels
NODES = 3
ROUNDS = 15
SAMPLING_PERCENT, RANGE_MS, STORED_KIB = 1.0, 50.0, 500.0
ADMIN = Caller(user_name="a", user_id="1", is_admin=True, token_id="t")  # noqa: S106 - no password
OURS = cluster()


def main() -> int:
    percent = sampling_percent()
    milliseconds, stored_kib = asyncio.run(reading())
    rows = [
        (f"a node of {PROCESSES} processes, % of a core", *limited(percent, SAMPLING_PERCENT)),
        (f"a range over 30 days, all metrics of {NODES} nodes, ms of processor time", *limited(milliseconds, RANGE_MS)),
        ("stored for a node of 30 days, KiB", *limited(stored_kib, STORED_KIB)),
    ]
    return table("Metrics of clusters", ("", "measured", "at most"), rows)


def sampling_percent() -> float:
    """The processor time that one sample takes, as a share of the time between two."""
    children = [subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) for _ in range(PROCESSES)]
    watched = Watched(pid=os.getpid(), group=Group(), walled=False, limits=Limits(memory_mb=1, cores=1), share=1)
    node = Sampled(watched=watched, cluster_id="c", generation=1, about=NodeAbout(), load=None, numbers={"gc_ms": 1})

    class Here:
        sampled = node
        usage = None

        def end(self, code: str, message: str, *, own_fault: bool = True) -> None:
            raise AssertionError((code, message))

    class Link:
        def sampled(self) -> None:
            pass

    async def measured() -> float:
        sampler = Sampler(node=Here(), watch=Here(), listener=Link(), gpus=opened())
        await sampler.run_once()
        costs = []
        for _ in range(ROUNDS):
            began = time.process_time()
            for _ in range(10):
                await sampler.run_once()
            costs.append((time.process_time() - began) / 10)
        return statistics.median(costs)

    try:
        return 100 * asyncio.run(measured()) / SAMPLE_S
    finally:
        for child in children:
            child.kill()
            child.wait()


async def reading() -> tuple[float, float]:
    """Milliseconds of processor time for an answer, and KiB in the database for each node, of a cluster of 30 days."""
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "bench.db"
        store = Store.open(f"sqlite:///{path}")
        try:
            clock = ManualClock()
            await store.write(lambda tx: tx.clusters.insert(OURS))
            for row in history(clock.now_ms()):
                await store.write(lambda tx, row=row: tx.samples.insert([row]))  # type: ignore[misc] # mypy infers no lambda with a default
            live = Samples(store=store, clock=clock)
            live.take("i-0", OURS.cluster_id, packed(NodeSamples(cluster_id=OURS.cluster_id)))
            await SamplePacking(store=store, clock=clock).pack()
            service = ClusterMetrics(store=store, clock=clock, authorizer=Authorizer(), samples=live)
            asked = AskRange(cluster_id=OURS.cluster_id, start_time=clock.now_ms() - 30 * DAY)
            times = []
            for _ in range(ROUNDS):
                began = time.process_time()  # of all threads: what others do on the machine does not count
                await service.between(ADMIN, asked)
                times.append((time.process_time() - began) * 1000)
            rows = await store.read(lambda tx: tx.samples.between(OURS.cluster_id, 0, clock.now_ms() + DAY))
            return statistics.median(times), sum(len(row.packed) for row in rows) / 1024 / NODES
        finally:
            store.close()


def history(now: int) -> list[SampleRow]:
    """30 days as the packing leaves them."""
    found = []
    begin = {4: now - 30 * DAY, 3: now - 7 * DAY, 2: now - DAY, 1: now - HOUR}
    end = {4: now - 7 * DAY, 3: now - DAY, 2: now - HOUR, 1: now}
    for number, tier in enumerate(TIERS):
        if not number:
            continue
        step = tier.step_ms or int(SAMPLE_S * 1000)
        for start in range(begin[number] - begin[number] % tier.window_ms, end[number], tier.window_ms):
            times = [at for at in range(start, start + tier.window_ms, step) if begin[number] <= at < end[number]]
            if times:
                nodes = {f"i-{node}": columns(NodeAbout(), {at: _point(at, node, step) for at in times}) for node in range(NODES)}
                found.append(SampleRow(OURS.cluster_id, number, start, times[-1], pack(nodes)))
    return found


def _point(at: int, node: int, step: int) -> Point:
    """Values that do not pack well: every metric moves all the time."""
    phase = at / MINUTE / 7 + node
    return Point(step / 5000, {name: 1e6 * (1.1 + math.sin(phase * (1 + n / 10))) for n, name in enumerate(METRICS)})
