"""What PostgreSQL and a second server cost: the calls of `api` on SQLite and on PostgreSQL, and clusters from create to RUNNING
through one server and through two.

CPU is that of the servers alone; a column shows what PostgreSQL itself used. On SQLite the simulated nodes live in the server's
process, on PostgreSQL in one of their own, which they call the server from. So `create` is measured with nodes that stay silent,
and two servers are compared with one on PostgreSQL. Nodes send no samples of what they use, as in `api`. Exit code 1 when a
ratio is above its limit (marked ✗). Options: --clusters N, --rounds N.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from bench import api
from bench._client import BODY, Load, flood
from bench._harness import PREFIX, Row, at_rest, cpu_s, limited, medians, options, table, turns
from bench._servers import NO_SAMPLES, SILENT, Served, brickyard, postgres
from tests.support.postgres import Postgres

CALLS = {"get": 1.3, "list": None, "create": 2.0}  # at most so many times SQLite's CPU
TWO_SERVERS = 1.25  # at most so many times one server's CPU


class Start(NamedTuple):
    """Clusters from create to RUNNING: CPU of all servers, and of PostgreSQL, per cluster; clusters per second."""

    cpu_ms: float
    database_ms: float
    rate: float


def main() -> int:
    given = options(__doc__, clusters=300, rounds=3)
    with postgres() as database:
        calls = _calls(database)
        works = {name: partial(_start, database, count, given.clusters) for name, count in (("one", 1), ("two", 2))}
        one, two = (medians(Start, each) for each in turns(given.rounds, works).values())
    starts = [
        ["one", one.cpu_ms, "", "", one.database_ms, one.rate],
        ["two", two.cpu_ms, *limited(two.cpu_ms / one.cpu_ms, TWO_SERVERS), two.database_ms, two.rate],
    ]
    missed = table(
        f"API on SQLite and PostgreSQL, one server, {api.MANY} clusters",
        ["call", "SQLite, CPU us", "PostgreSQL, CPU us", "ratio", "at most", "SQLite, requests/s", "PostgreSQL, requests/s"],
        calls,
    )
    title = f"{given.clusters} clusters of two nodes, create to RUNNING: medians of {given.rounds} rounds, taking turns"
    head = ["servers on PostgreSQL", "their CPU ms/cluster", "ratio", "at most", "PostgreSQL's CPU ms/cluster", "clusters/s"]
    return max(missed, table(title, head, starts))


def _calls(database: Postgres) -> list[Row]:
    before, after = _measured(), _measured(database_url=database.new_database(), create_url=database.new_database())
    return [
        [name, before[name].cpu_us, after[name].cpu_us, *limited(after[name].cpu_us / before[name].cpu_us, most),
         before[name].rate, after[name].rate]
        for name, most in CALLS.items()
    ]  # fmt: skip


def _measured(database_url: str = "", create_url: str = "") -> dict[str, Load]:
    """The calls, less what the server does for its running nodes meanwhile: on PostgreSQL they call it over HTTP."""
    with brickyard(NO_SAMPLES, database_url=database_url) as served:
        calls = api.measure(served, "2.0")
        upkeep = at_rest(served.pid)
    for name in ("get", "list"):
        calls[name] = calls[name]._replace(cpu_us=calls[name].cpu_us - upkeep * 1e6 / calls[name].rate)
    with brickyard(SILENT, database_url=create_url) as served:
        calls["create"] = api.creates(served)
    return calls


@contextlib.contextmanager
def servers(database_url: str, count: int) -> Iterator[list[Served]]:
    """So many servers of one workspace."""
    with tempfile.TemporaryDirectory(prefix=PREFIX) as storage, contextlib.ExitStack() as stack:
        yield [stack.enter_context(brickyard(NO_SAMPLES, database_url=database_url, storage_url=storage)) for _ in range(count)]


def _start(database: Postgres, count: int, clusters: int) -> Start:
    """Creates the clusters through all the servers in turn and waits until all run."""
    with servers(database.new_database(), count) as served:
        before, database_before, began = sum(cpu_s(each.pid) for each in served), database.cpu_s(), time.monotonic()
        asyncio.run(flood([each.url for each in served], clusters, BODY))
        seconds = time.monotonic() - began
        used, database_used = sum(cpu_s(each.pid) for each in served) - before, database.cpu_s() - database_before
    return Start(used * 1e3 / clusters, database_used * 1e3 / clusters, clusters / seconds)


if __name__ == "__main__":
    sys.exit(main())
