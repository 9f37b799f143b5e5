"""More than the server can do: clusters are created at a steady rate while clients poll without a pause.

It measures the worst time of an answer, how many requests are told to come back later (429), whether health calls and deletes get
through, and whether accepted clusters start at a steady rate and all of them run soon after.
`python -m bench.overload [seconds] [database_url] [--hogs N]`: hogs are processes that each keep a core busy. The pollers
run in a separate process, so that they do not delay the clock of creates.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import math
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from typing import IO, Any

import aiohttp

from bench._client import BODY, CLUSTERS, numbers, paced, session
from bench._harness import options, table
from bench._servers import brickyard

POLLERS, RATE, SECONDS = 300, 30, 40.0
PATIENCE_S = 120.0
LATE_S = 5.0


class Calls:
    """Answers of one kind: their statuses and seconds."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session
        self.statuses: Counter[int] = Counter()
        self.seconds: list[float] = []

    async def call(self, method: str, url: str, data: str | None = None) -> dict[str, Any]:
        """Returns the answer if its status is 200."""
        began = time.monotonic()
        async with self._session.request(method, url, data=data) as answer:
            body = await answer.read()
        self.seconds.append(time.monotonic() - began)
        self.statuses[answer.status] += 1
        found: dict[str, Any] = json.loads(body) if answer.status == 200 else {}
        return found

    @property
    def text(self) -> str:
        """Median and worst, how many took more than 5 s, and the statuses other than 200."""
        ordered = sorted(self.seconds) or [math.nan]
        late = sum(each > LATE_S for each in ordered)
        others = "".join(f", {count} x {status}" for status, count in sorted(self.statuses.items()) if status != 200)
        return f"{statistics.median(ordered):.2f} / {ordered[-1]:.2f}, {late} late{others}"


class Storm:
    """The results: answers by kind, the accepted clusters, and how many ran at which time."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self._url = url
        self._base = f"{url}{CLUSTERS}"
        self._session = session
        self._over = asyncio.Event()
        self.creates, self.deletes, self.health = Calls(session), Calls(session), Calls(session)
        self.polls = ""
        self.clusters: list[str] = []
        self.ran: list[int] = []

    async def run(self, seconds: float) -> None:
        pollers = subprocess.Popen(
            [sys.executable, "-m", "bench.overload", str(seconds), "--poll", self._base],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert pollers.stdin is not None
        beside = [asyncio.create_task(each) for each in (self._look(), self._delete(), self._count(seconds))]
        creates = [asyncio.create_task(self._create(pollers.stdin)) async for _ in paced(RATE, seconds)]
        await asyncio.gather(*creates)
        self._over.set()
        await asyncio.gather(*beside)
        self.polls = (await asyncio.to_thread(pollers.communicate))[0].strip()

    async def states(self) -> Counter[str]:
        return await numbers(self._session, self._url, "brickyard_clusters")

    async def _create(self, pollers: IO[str]) -> None:
        if made := await self.creates.call("POST", f"{self._base}/create", BODY):
            self.clusters.append(made["cluster_id"])
            print(made["cluster_id"], file=pollers, flush=True)

    async def _look(self) -> None:
        while not self._over.is_set():
            await self.health.call("GET", f"{self._url}/readyz")
            await asyncio.sleep(0.5)

    async def _delete(self) -> None:
        """Deletes one cluster a second."""
        for number in itertools.count():
            await asyncio.sleep(1.0)
            if self._over.is_set():
                return
            if number < len(self.clusters):
                await self.deletes.call("POST", f"{self._base}/delete", json.dumps({"cluster_id": self.clusters[number]}))

    async def _count(self, seconds: float) -> None:
        """How many clusters have left PENDING after each third of the time."""
        for _ in range(3):
            await asyncio.sleep(seconds / 3)
            self.ran.append(sum(count for state, count in (await self.states()).items() if state != "PENDING"))


async def poll(base: str, seconds: float) -> str:
    """Polls all clusters whose ids arrive on standard input, concurrently, until the input ends."""
    clusters: list[str] = []
    over = asyncio.Event()

    def listen() -> None:
        for line in sys.stdin:
            clusters.append(line.strip())

    async with session() as opened:
        calls = Calls(opened)

        async def one(number: int) -> None:
            while not over.is_set():
                if clusters:
                    await calls.call("GET", f"{base}/get?cluster_id={clusters[number % len(clusters)]}")
                else:
                    await asyncio.sleep(0.1)

        pollers = [asyncio.create_task(one(number)) for number in range(POLLERS)]
        await asyncio.to_thread(listen)
        over.set()
        await asyncio.gather(*pollers)
    return f"{len(calls.seconds) / seconds:.0f} a second, {calls.text}"


async def storm(url: str, seconds: float) -> list[object]:
    async with session() as opened:
        run = Storm(url, opened)
        await run.run(seconds)
        at_end, ended = await run.states(), time.monotonic()
        now = at_end
        while now["PENDING"] and time.monotonic() - ended < PATIENCE_S:
            await asyncio.sleep(0.5)
            now = await run.states()
        settled = f"{time.monotonic() - ended:.1f}" if not now["PENDING"] else f"never: {now['PENDING']} pending"
        rates = [(after - before) * 3 / seconds for before, after in itertools.pairwise([0, *run.ran])]
        steady = ", ".join(f"{rate:.1f}" for rate in rates)
        return [
            len(run.clusters), run.creates.text, run.polls, run.health.text, run.deletes.text, steady, at_end["PENDING"], settled,
        ]  # fmt: skip


@contextlib.contextmanager
def hogs(count: int) -> Iterator[None]:
    """Processes that do nothing but take CPU time."""
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for each in running:
            each.kill()
            each.wait()


def main() -> int:
    given = options(__doc__, {"seconds": SECONDS, "database_url": ""}, hogs=0, poll="")
    if given.poll:  # in the process of the pollers
        print(asyncio.run(poll(given.poll, given.seconds)))
        return 0
    with hogs(given.hogs), brickyard(database_url=given.database_url) as served:
        row = asyncio.run(storm(served.url, given.seconds))
    head = [
        "accepted", "create, s", "poll, s", "readyz, s", "delete, s", "come to run a second, by thirds",
        "pending at the end", "all run after, s",
    ]  # fmt: skip
    beside = f", {given.hogs} hogs beside" if given.hogs else ""
    return table(f"Overload: {RATE} creates a second and {POLLERS} pollers for {given.seconds:.0f} s{beside}", head, [row])


if __name__ == "__main__":
    sys.exit(main())
