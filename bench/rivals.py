"""Brickyard beside other servers of the Databricks API that can be installed: whether their clusters compute, and how fast.

Each is installed into an environment of its own on first use, started by its own command, and asked the same through the official
SDK: a cluster of a driver and a worker, and then what clients do with it (`_probes`). A cell is the time that it took, or why it
did not come out right: an error, or an answer that is not what was asked for. The last rows are calls of one client that waits
for each answer, with the client's own work.

Databricks itself is not among them: nobody can install it.

Options: --only NAME (brickyard, minilake, semblance). Exit code 1 when Brickyard fails at something (✗).
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import NamedTuple

from databricks.sdk import WorkspaceClient
from databricks.sdk.config import Config

from bench._harness import RUNTIME, options, table, timed
from bench._probes import PROBES, Bench, computes, running
from bench._servers import TOKEN, Served, brickyard, minilake, semblance
from bench.start import install

CALLS = 200
SHORT = 70  # characters of a reason


class Rival(NamedTuple):
    """A server, and what it calls a small node and a runtime."""

    served: Callable[[], AbstractContextManager[Served]]
    node_type: str
    runtime: str


def _ours() -> AbstractContextManager[Served]:
    return brickyard(provider="local", connect_port="0")


RIVALS = {
    "brickyard": Rival(_ours, "brickyard.small", RUNTIME),
    "minilake": Rival(minilake, "i3.xlarge", "15.4.x-scala2.12"),
    "semblance": Rival(semblance, "i3.xlarge", "15.4.x-scala2.12"),
}


def _tried(work: Callable[[], object]) -> str:
    """How long it took, or why it failed."""
    began = time.perf_counter()
    try:
        work()
    except Exception as error:  # whatever a rival's answer makes the SDK raise is its result
        reason = " ".join(str(error).split()) or type(error).__name__
        return f"✗ {reason[:SHORT].replace('|', '/')}"
    return f"{time.perf_counter() - began:.2f} s"


def measured(rival: Rival) -> dict[str, str]:
    """What it did, row by row."""
    began = time.perf_counter()
    found: dict[str, str] = {}
    with rival.served() as served:
        client = WorkspaceClient(
            config=Config(host=served.url, token=TOKEN, auth_type="pat", http_timeout_seconds=60, retry_timeout_seconds=20)
        )
        found["the server answers"] = f"{time.perf_counter() - began:.2f} s"
        bench = Bench(client, rival.node_type, rival.runtime)

        def created() -> None:
            bench.cluster_id = bench.create()
            running(bench)

        found["a cluster of two nodes, from create to RUNNING"] = _tried(created)
        found["the first result of a query on it"] = _tried(lambda: computes(bench))
        for probe in PROBES:
            found[probe.about] = _tried(lambda probe=probe: probe.work(bench))  # type: ignore[misc] # bound to this turn
            print(f"  {probe.about}: {found[probe.about]}", file=sys.stderr, flush=True)
        found["`get`"] = _rate(lambda: client.clusters.get(bench.cluster_id))
        found["`list` of one page"] = _rate(lambda: list(itertools.islice(client.clusters.list(page_size=20), 20)))
    return found


def _rate(call: Callable[[], object]) -> str:
    said = _tried(call)
    return said if said.startswith("✗") else f"{CALLS / timed(lambda: [call() for _ in range(CALLS)]):.0f}/s"


def main() -> int:
    given = options(__doc__, only="")
    install(RUNTIME)
    chosen = {name: rival for name, rival in RIVALS.items() if given.only in ("", name)}
    found: dict[str, dict[str, str]] = {}
    for name, rival in chosen.items():
        print(f"{name}:", file=sys.stderr, flush=True)
        found[name] = measured(rival)
    rows = [[what, *(each[what] for each in found.values())] for what in next(iter(found.values()))]
    table("The same calls to each server", ["what", *found], rows)
    return int(any("✗" in each for each in found.get("brickyard", {}).values()))


if __name__ == "__main__":
    raise SystemExit(main())
