"""More than the server can do: clusters are created at a steady rate while clients poll without a pause.

What counts: how long a create takes at worst, how many are told to come back later (429), and whether the clusters that were
accepted run soon after. `python -m bench.overload [seconds] [database_url]`.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import statistics
import sys
import time
from collections import Counter
from typing import Any

import aiohttp

from bench._common import table
from bench._servers import TOKEN, brickyard

POLLERS, RATE, SECONDS = 300, 30, 40
PATIENCE_S = 120.0
BODY = json.dumps({"cluster_name": "o", "spark_version": "17.3.x-scala2.13", "node_type_id": "i3.xlarge", "num_workers": 1})


class Storm:
    """What came of it: answers of creates by status, their seconds, the seconds of polls, and the clusters that were accepted."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self._base = f"{url}/api/2.1/clusters"
        self._metrics = f"{url}/metrics"
        self._session = session
        self._over = asyncio.Event()
        self.answers: Counter[int] = Counter()
        self.creates: list[float] = []
        self.polls: list[float] = []
        self.clusters: list[str] = []

    async def run(self, seconds: float) -> None:
        pollers = [asyncio.create_task(self._poll(number)) for number in range(POLLERS)]
        creates = []
        began = time.monotonic()
        for number in itertools.count():
            await asyncio.sleep(max(0.0, began + number / RATE - time.monotonic()))
            if time.monotonic() - began > seconds:
                break
            creates.append(asyncio.create_task(self._create()))
        await asyncio.gather(*creates)
        self._over.set()
        await asyncio.gather(*pollers)

    async def states(self) -> Counter[str]:
        async with self._session.get(self._metrics) as answer:
            lines = (await answer.text()).splitlines()
        found = (line for line in lines if line.startswith("brickyard_clusters{"))
        return Counter({line.split('"')[1]: int(float(line.split()[-1])) for line in found})

    async def _create(self) -> None:
        began = time.monotonic()
        async with self._session.post(f"{self._base}/create", data=BODY) as answer:
            body: dict[str, Any] = await answer.json()
        self.creates.append(time.monotonic() - began)
        self.answers[answer.status] += 1
        if answer.status == 200:
            self.clusters.append(body["cluster_id"])

    async def _poll(self, number: int) -> None:
        while not self._over.is_set():
            if not self.clusters:
                await asyncio.sleep(0.1)
                continue
            began = time.monotonic()
            name = self.clusters[number % len(self.clusters)]
            async with self._session.get(f"{self._base}/get?cluster_id={name}") as answer:
                await answer.read()
            self.polls.append(time.monotonic() - began)


async def storm(url: str, seconds: float) -> list[object]:
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    connector, timeout = aiohttp.TCPConnector(limit=0), aiohttp.ClientTimeout(total=300)
    async with aiohttp.ClientSession(headers=headers, connector=connector, timeout=timeout) as session:
        run = Storm(url, session)
        await run.run(seconds)
        at_end, ended = await run.states(), time.monotonic()
        now = at_end
        while now["PENDING"] and time.monotonic() - ended < PATIENCE_S:
            await asyncio.sleep(0.5)
            now = await run.states()
        settled = f"{time.monotonic() - ended:.1f}" if not now["PENDING"] else f"never: {now['PENDING']} pending"
        return [
            run.answers[200], run.answers[429], statistics.median(run.creates), max(run.creates), len(run.polls) / seconds,
            max(run.polls), at_end["PENDING"], settled,
        ]  # fmt: skip


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS
    database = {"database_url": sys.argv[2]} if len(sys.argv) > 2 else {}
    with brickyard(**database) as served:
        row = asyncio.run(storm(served.url, seconds))
    head = ["accepted", "429", "create, s", "worst", "polls/s", "worst poll, s", "pending at the end", "all run after, s"]
    table(f"Overload: {RATE} creates a second and {POLLERS} pollers for {seconds:.0f} s", head, [row])


if __name__ == "__main__":
    main()
