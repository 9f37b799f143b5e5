"""What PostgreSQL and a second server cost: the calls of `api` on SQLite and on PostgreSQL, and clusters from create to RUNNING
through one server and through two.

CPU is that of the servers alone; a column shows what PostgreSQL itself used. On SQLite the simulated nodes live in the server's
process, on PostgreSQL in one of their own, which they call the server from. So `create` is measured with nodes that stay silent,
and two servers are compared with one on PostgreSQL. Nodes send no samples of what they use, as in `api`. Exit code 1 when a
ratio is above its limit (marked ✗). Options: --clusters N, --rounds N.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

import aiohttp

from bench import api
from bench._common import Load, cpu_s, later_s, table
from bench._servers import NO_SAMPLES, SILENT, TOKEN, Served, brickyard
from bench.scale import at_rest
from tests.support.postgres import Postgres

CLUSTERS, ROUNDS = 300, 3
WIDTH = 16
CALLS = {"get": 1.3, "list": None, "create": 2.0}  # at most so many times SQLite's CPU
TWO_SERVERS = 1.25  # at most so many times one server's CPU


class Start(NamedTuple):
    """Clusters from create to RUNNING: CPU of all servers, and of PostgreSQL, per cluster; clusters per second."""

    cpu_ms: float
    database_ms: float
    rate: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clusters", type=int, default=CLUSTERS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    with postgres() as database:
        calls = _calls(database)
        starts = _starts(database, options.clusters, options.rounds)
    table(
        f"API on SQLite and PostgreSQL, one server, {api.CLUSTERS} clusters",
        ["call", "SQLite, CPU us", "PostgreSQL, CPU us", "ratio", "at most", "SQLite, requests/s", "PostgreSQL, requests/s"],
        calls,
    )
    table(
        f"{options.clusters} clusters of two nodes, create to RUNNING: medians of {options.rounds} rounds, taking turns",
        ["servers on PostgreSQL", "their CPU ms/cluster", "ratio", "at most", "PostgreSQL's CPU ms/cluster", "clusters/s"],
        starts,
    )
    return 1 if any("✗" in str(cell) for row in (*calls, *starts) for cell in row) else 0


@contextlib.contextmanager
def postgres() -> Iterator[Postgres]:
    """A PostgreSQL of this run."""
    with tempfile.TemporaryDirectory(prefix="brickyard-bench-") as place:
        database = Postgres.start(Path(place))
        try:
            yield database
        finally:
            database.end()


def _calls(database: Postgres) -> list[Sequence[object]]:
    before, after = _measured(), _measured(database_url=database.new_database(), create_url=database.new_database())
    return [
        [name, before[name].cpu_us, after[name].cpu_us, *against(after[name].cpu_us / before[name].cpu_us, most),
         before[name].rate, after[name].rate]
        for name, most in CALLS.items()
    ]  # fmt: skip


def _measured(database_url: str = "", create_url: str = "") -> dict[str, Load]:
    """The calls, less what the server does for its running nodes meanwhile: on PostgreSQL they call it over HTTP."""
    with _server(NO_SAMPLES, database_url) as served:
        calls = api.measure(served, "2.0")
        upkeep = at_rest(served.pid)
    for name in ("get", "list"):
        calls[name].cpu_us -= upkeep * 1e6 / calls[name].rate
    with _server(SILENT, create_url) as served:
        calls["create"] = api.creates(served)
    return calls


def _server(knobs: Mapping[str, float], database_url: str) -> AbstractContextManager[Served]:
    return brickyard(knobs, database_url=database_url) if database_url else brickyard(knobs)


def _starts(database: Postgres, clusters: int, rounds: int) -> list[Sequence[object]]:
    found: dict[int, list[Start]] = {1: [], 2: []}
    for _ in range(rounds):
        for count, starts in found.items():
            with servers(database.new_database(), count) as all_served:
                starts.append(asyncio.run(start(all_served, database, clusters)))
    one, two = (Start(*(statistics.median(values) for values in zip(*each, strict=True))) for each in found.values())
    return [
        ["one", one.cpu_ms, "", "", one.database_ms, one.rate],
        ["two", two.cpu_ms, *against(two.cpu_ms / one.cpu_ms, TWO_SERVERS), two.database_ms, two.rate],
    ]


@contextlib.contextmanager
def servers(database_url: str, count: int) -> Iterator[list[Served]]:
    """So many servers of one workspace."""
    with tempfile.TemporaryDirectory(prefix="brickyard-bench-") as storage, contextlib.ExitStack() as stack:
        yield [stack.enter_context(brickyard(NO_SAMPLES, database_url=database_url, storage_url=storage)) for _ in range(count)]


async def start(served: list[Served], database: Postgres, clusters: int) -> Start:
    """Creates the clusters through all the servers in turn and waits until all run."""
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    left = iter(range(clusters))
    async with aiohttp.ClientSession(headers=headers) as session:

        async def create() -> None:
            for number in left:
                url = f"{served[number % len(served)].url}/api/2.1/clusters/create"
                wait_s: float | None = 0.0
                while wait_s is not None:
                    await asyncio.sleep(wait_s)
                    async with session.post(url, data=api.BODY) as answer:
                        wait_s = later_s(answer.status, answer.headers.get("Retry-After"))
                        if wait_s is None:
                            answer.raise_for_status()

        async def running() -> float:
            async with session.get(f"{served[0].url}/metrics") as answer:
                lines = (await answer.text()).splitlines()
            return sum(float(line.split()[-1]) for line in lines if line.startswith('brickyard_clusters{state="RUNNING"}'))

        before, database_before, began = sum(cpu_s(each.pid) for each in served), database.cpu_s(), time.monotonic()
        await asyncio.gather(*(create() for _ in range(WIDTH)))
        while await running() < clusters:
            await asyncio.sleep(0.2)
        seconds = time.monotonic() - began
        used, database_used = sum(cpu_s(each.pid) for each in served) - before, database.cpu_s() - database_before
    return Start(used * 1e3 / clusters, database_used * 1e3 / clusters, clusters / seconds)


def against(ratio: float, most: float | None) -> tuple[str, str]:
    """The cells for a ratio and its limit, if it has one."""
    if most is None:
        return f"{ratio:.2f}", ""
    return f"{ratio:.2f} {'✓' if ratio <= most else '✗'}", f"{most:.2f}"


if __name__ == "__main__":
    sys.exit(main())
