"""Resident memory of a server at rest and of agents. Exit code 1 when one is above its limit (marked ✗)."""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager

from bench import api
from bench._common import rss_mib, table
from bench._servers import Served, agents, brickyard
from bench.replicas import postgres
from bench.start import NODE_TYPE, RUNTIMES, install
from tests.support.ports import free_port

SERVER_MIB, AGENT_MIB = 150, 50
REST_S = 10.0  # longer than what a server does at its start
PATIENCE_S = 180.0


def main() -> int:
    rows = _servers() + _agents()
    table("Resident memory at rest", ["process", "MiB", "at most, MiB"], rows)
    return 1 if any("✗" in str(cell) for row in rows for cell in row) else 0


def _servers() -> list[Sequence[object]]:
    with _local() as served:
        sqlite = at_rest(served)
    with (
        postgres() as database,
        tempfile.TemporaryDirectory(prefix="brickyard-bench-") as storage,
        contextlib.ExitStack() as stack,
    ):
        settings = {"database_url": database.new_database(), "storage_url": storage}
        served, _ = (stack.enter_context(_local(**settings)) for _ in range(2))
        postgresql = at_rest(served)
    return [_row("server, SQLite", sqlite, SERVER_MIB), _row("one of two servers, PostgreSQL", postgresql, SERVER_MIB)]


def _local(**settings: str) -> AbstractContextManager[Served]:
    """A server of real nodes, with its Spark Connect gateway."""
    return brickyard(provider="local", connect_port=str(free_port()), **settings)


def at_rest(served: Served) -> float:
    """The server's memory once it has nothing to do."""
    api.call(served, "/api/2.0/clusters/list")
    time.sleep(REST_S)
    return rss_mib(served.pid)


def _agents() -> list[Sequence[object]]:
    install(RUNTIMES[0])
    with _local() as served:
        pool = {"instance_pool_name": "memory", "node_type_id": NODE_TYPE, "min_idle_instances": 1}
        api.call(served, "/api/2.0/instance-pools/create", json.dumps(pool))
        spec = {"cluster_name": "memory", "spark_version": RUNTIMES[0], "node_type_id": NODE_TYPE, "num_workers": 1}
        cluster_id = api.call(served, "/api/2.1/clusters/create", json.dumps(spec))["cluster_id"]
        deadline = time.monotonic() + PATIENCE_S
        while api.call(served, f"/api/2.1/clusters/get?cluster_id={cluster_id}")["state"] != "RUNNING":
            if time.monotonic() > deadline:
                raise RuntimeError("the cluster does not run")
            time.sleep(0.2)
        time.sleep(REST_S)
        # The idle instance of the pool, the driver and the worker.
        largest = max(map(rss_mib, agents(served)))
    return [_row("agent, the largest of an idle instance, a driver and a worker", largest, AGENT_MIB)]


def _row(name: str, mib: float, most: int) -> Sequence[object]:
    return [name, f"{mib:.1f} {'✓' if mib <= most else '✗'}", most]


if __name__ == "__main__":
    sys.exit(main())
