"""Resident memory of a server at rest and of agents. Exit code 1 when one is above its limit (marked ✗)."""

from __future__ import annotations

import contextlib
import sys
import tempfile
import time
from contextlib import AbstractContextManager

from bench._client import Api
from bench._harness import PREFIX, RUNTIME, Row, limited, rss_mib, table
from bench._servers import Served, agents, brickyard, postgres
from bench.start import NODE_TYPE, install
from tests.support.ports import free_port

SERVER_MIB, AGENT_MIB = 150, 50
REST_S = 10.0  # longer than what a server does at its start


def main() -> int:
    return table("Resident memory at rest", ["process", "MiB", "at most, MiB"], [*_servers(), _agents()])


def _servers() -> list[Row]:
    with _local() as served:
        sqlite = at_rest(served)
    with postgres() as database, tempfile.TemporaryDirectory(prefix=PREFIX) as storage, contextlib.ExitStack() as stack:
        settings = {"database_url": database.new_database(), "storage_url": storage}
        served, _ = (stack.enter_context(_local(**settings)) for _ in range(2))
        postgresql = at_rest(served)
    return [_row("server, SQLite", sqlite, SERVER_MIB), _row("one of two servers, PostgreSQL", postgresql, SERVER_MIB)]


def _local(**settings: str) -> AbstractContextManager[Served]:
    """A server of real nodes, with its Spark Connect gateway."""
    return brickyard(provider="local", connect_port=str(free_port()), **settings)


def at_rest(served: Served) -> float:
    """The server's memory once it has nothing to do."""
    Api(served.url).get("/api/2.0/clusters/list")
    time.sleep(REST_S)
    return rss_mib(served.pid)


def _agents() -> Row:
    install()
    with _local() as served:
        api = Api(served.url)
        pool = {"instance_pool_name": "memory", "node_type_id": NODE_TYPE, "min_idle_instances": 1}
        api.post("/api/2.0/instance-pools/create", **pool)
        with api.cluster("memory", spark_version=RUNTIME, node_type_id=NODE_TYPE):
            time.sleep(REST_S)
            # The idle instance of the pool, the driver and the worker.
            largest = max(map(rss_mib, agents(served)))
    return _row("agent, the largest of an idle instance, a driver and a worker", largest, AGENT_MIB)


def _row(name: str, mib: float, most: int) -> Row:
    return [name, *limited(mib, most, f"{mib:.1f}")]


if __name__ == "__main__":
    sys.exit(main())
