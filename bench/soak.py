"""A workspace in steady use: 30 creates a second and 300 pollers for ten minutes, on a server that has one core for itself.

A poller waits for its cluster as clients do: it asks once a second. Each cluster is deleted once it has RUN for a while, and must
then end. So the workspace has about a thousand running clusters all the time, and many thousands of ended ones at the end.
`overload` has pollers that never pause.

Exits with 1 unless the 99th percentile of `get` is below 20 ms, no call has failed, and no cluster and no node is left behind.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections import Counter, deque

import aiohttp

from bench._client import BODY, CLUSTERS, numbers, paced, session
from bench._harness import cpu_s, judged, options, rss_mib, table
from bench._servers import Served, brickyard

RATE, POLLERS, SECONDS = 30, 300, 600.0
POLL_S = 1.0
LIVES_S = 30.0  # from RUNNING until it is deleted
P99_MS = 20.0
PATIENCE_S = 60.0  # for the last clusters to end


class Soak:
    """What has happened so far."""

    def __init__(self, served: Served, session: aiohttp.ClientSession) -> None:
        self._base = f"{served.url}{CLUSTERS}"
        self._url = served.url
        self._session = session
        self.gets: list[float] = []  # seconds
        self.creates: list[float] = []
        self.errors: Counter[str] = Counter()
        self.accepted = 0
        self._made: deque[str] = deque(maxlen=POLLERS)  # the newest clusters: those that somebody waits for
        self._ran: set[str] = set()

    async def run(self, seconds: float) -> None:
        """Creates for that long; returns once every cluster has been deleted."""
        over = asyncio.Event()
        pollers = [asyncio.create_task(self._poll(number, over)) for number in range(POLLERS)]
        lives = [asyncio.create_task(self._live(min(LIVES_S, seconds / 4))) async for _ in paced(RATE, seconds)]
        over.set()
        await asyncio.gather(*pollers, *lives)

    async def left(self) -> tuple[int, int]:
        """Clusters that have not ended, and instances, once there are none or patience is over."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            states = await numbers(self._session, self._url, "brickyard_clusters")
            clusters = states.total() - states["TERMINATED"]
            instances = (await numbers(self._session, self._url, "brickyard_instances")).total()
            if (clusters == instances == 0) or time.monotonic() > deadline:
                return clusters, instances
            await asyncio.sleep(0.5)

    async def _live(self, lives_s: float) -> None:
        """One cluster, from its create to its deletion."""
        began = time.perf_counter()
        made = await self._call("create", "POST", "/create", BODY)
        if made is None:
            return
        self.creates.append(time.perf_counter() - began)
        self.accepted += 1
        cluster_id = json.loads(made)["cluster_id"]
        self._made.append(cluster_id)
        await asyncio.sleep(lives_s)
        if cluster_id not in self._ran:  # no poller has seen it RUNNING
            found = await self._call("get", "GET", f"/get?cluster_id={cluster_id}")
            if found is not None and json.loads(found)["state"] != "RUNNING":
                self.errors[f"not RUNNING after {lives_s:g} s"] += 1
        self._ran.discard(cluster_id)
        await self._call("delete", "POST", "/delete", json.dumps({"cluster_id": cluster_id}))

    async def _poll(self, number: int, over: asyncio.Event) -> None:
        """Waits for one cluster after the other."""
        await asyncio.sleep(POLL_S * number / POLLERS)
        while not over.is_set():
            if self._made:
                cluster_id = self._made[number % len(self._made)]
                began = time.perf_counter()
                found = await self._call("get", "GET", f"/get?cluster_id={cluster_id}")
                self.gets.append(time.perf_counter() - began)
                if found is not None and b'"state":"RUNNING"' in found:
                    self._ran.add(cluster_id)
            await asyncio.sleep(POLL_S)

    async def _call(self, name: str, method: str, path: str, body: str | None = None) -> bytes | None:
        try:
            async with self._session.request(method, self._base + path, data=body) as answer:
                found = await answer.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            self.errors[f"{name}: {type(error).__name__}"] += 1
            return None
        if answer.status != 200:
            self.errors[f"{name}: {answer.status}"] += 1
            return None
        return found


def percentile(seconds: list[float], share: float) -> float:
    """In ms."""
    ordered = sorted(seconds)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1000


async def soaked(served: Served, seconds: float) -> tuple[Soak, tuple[int, int]]:
    async with session(timeout_s=30) as opened:
        soak = Soak(served, opened)
        await soak.run(seconds)
        return soak, await soak.left()


def main() -> int:
    seconds = options(__doc__, {"seconds": SECONDS}).seconds
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cores[:1])  # the server's, and that of all it starts
    with brickyard() as served:
        os.sched_setaffinity(0, cores[1:] or cores)
        cpu, began = cpu_s(served.pid), time.monotonic()
        soak, (clusters, instances) = asyncio.run(soaked(served, seconds))
        share, memory = (cpu_s(served.pid) - cpu) / (time.monotonic() - began), rss_mib(served.pid)
    p50, p99, worst = (percentile(soak.gets, each) for each in (0.5, 0.99, 1.0))
    failed = sum(soak.errors.values())
    rows = [
        ("creates", soak.accepted, ""),
        ("create, ms: median / 99 %", f"{percentile(soak.creates, 0.5):.1f} / {percentile(soak.creates, 0.99):.1f}", ""),
        ("gets", len(soak.gets), ""),
        ("get, ms: median / worst", f"{p50:.1f} / {worst:.1f}", ""),
        ("get, ms: 99 %", judged(p99, p99 < P99_MS), P99_MS),
        ("calls that failed", judged(failed, not failed), 0),
        ("clusters and nodes left behind", judged(f"{clusters} and {instances}", clusters == instances == 0), 0),
        ("server's share of its core", share, ""),
        ("memory at the end, MiB", memory, ""),
    ]
    for what, count in soak.errors.most_common():
        rows.append((f"of the failed: {what}", count, ""))
    return table(f"Soak: {RATE} creates a second and {POLLERS} pollers for {seconds:g} s", ["what", "measured", "at most"], rows)


if __name__ == "__main__":
    sys.exit(main())
