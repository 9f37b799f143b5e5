"""SQL clients on a running cluster: Databricks' connector against PySpark through Spark Connect, in turn, through one server.

A cluster of one node runs, and both clients have an open session. They take turns with:

* a connect: a new session, and its first statement
* a small statement in an open session, fetched
* a result of 1 GB, read as Arrow until the client has all of it, with the peaks of the server's and the driver's memory
* 200 sessions at once, each with two statements

Options: --rounds N, --large N (of the large result and of the sessions at once; 0: none), --seconds N (after which nothing is
measured twice). Exit code 1 when a value is above its limit (marked ✗).
"""

from __future__ import annotations

import contextlib
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Protocol

import psutil

from bench._client import ALONE, Api
from bench._harness import RUNTIME, Row, judged, limited, options, spread, table, turns
from bench._servers import TOKEN, Served, agents, brickyard
from bench._sqlclient import SESSIONS, STATEMENTS, Client
from bench.start import NODE_TYPE, install
from tests.support.ports import free_port

CONNECT_MS, SMALL_RATIO, LARGE_RATIO, CROWD_RATIO = 50.0, 1.5, 1.1, 1.5
SERVER_MIB = 150.0  # by which a large result may make the server grow
LOOK_S = 0.05


class Both(Protocol):
    """Has both clients do a work in turn, and returns what each answered."""

    def __call__(self, work: str, times: int, *, uncounted: int = 1) -> list[list[Any]]: ...


class Peaks:
    """The most resident memory of processes, in MiB, while it looks."""

    def __init__(self, *processes: psutil.Process) -> None:
        self._processes = processes
        self.before = self.most = self._now()

    @contextlib.contextmanager
    def looking(self) -> Iterator[None]:
        """Looks many times a second."""
        over = threading.Event()
        self.before = self.most = self._now()

        def look() -> None:
            while not over.wait(LOOK_S):
                self.most = [max(pair) for pair in zip(self.most, self._now(), strict=True)]

        thread = threading.Thread(target=look)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _now(self) -> list[float]:
        return [each.memory_info().rss / 2**20 for each in self._processes]


def main() -> int:
    given = options(__doc__, rounds=7, large=3, seconds=180.0)
    manifest, port = install(), free_port()
    with (
        brickyard(provider="local", connect_port=str(port), background_training="false") as served,
        Api(served.url).cluster("sql", spark_version=RUNTIME, node_type_id=NODE_TYPE, **ALONE) as cluster_id,
        contextlib.ExitStack() as stack,
    ):
        ways = {
            "Connect": (manifest.python, "pyspark", f"sc://localhost:{port}/;token={TOKEN};x-databricks-cluster-id={cluster_id}"),
            "SQL": (sys.executable, "connector", f"{served.url}/sql/protocolv1/o/0/{cluster_id}", TOKEN),
        }
        clients = {name: Client(*way) for name, way in ways.items()}
        for client in clients.values():
            stack.callback(client.close)
        peaks, until = Peaks(psutil.Process(served.pid), driver(served)), time.monotonic() + given.seconds
        return measure(clients, peaks, given.rounds, given.large, until)


def driver(served: Served) -> psutil.Process:
    """The driver's JVM."""
    (agent,) = agents(served)
    return max(psutil.Process(agent).children(recursive=True), key=lambda each: each.memory_info().rss)


def measure(clients: dict[str, Client], peaks: Peaks, rounds: int, large: int, until: float) -> int:
    """Prints the table. Returns 1 if a limit is missed."""

    def both(work: str, times: int, *, uncounted: int = 1) -> list[list[Any]]:
        works: dict[str, Callable[[], Any]] = {name: partial(client.ask, work) for name, client in clients.items()}
        shown = lambda found: f"{work}: {found[0]:.3f} s"  # noqa: E731
        return list(turns(times, works, uncounted=uncounted, show=shown, until=until).values())

    rows: list[Row] = []
    theirs, ours = both("connect", 3 * rounds)
    opened = statistics.median(1e3 * (each[0] - each[2]) for each in ours)
    lines: tuple[tuple[str, int, Row], ...] = (
        ("open a session, ms", 0, (judged(f"{opened:.0f}", opened <= CONNECT_MS), f"{CONNECT_MS:.0f} ms without the next line")),
        ("of that, to read the machine's certificates, ms", 2, ("", "")),
        ("its first statement, ms", 1, ("", "")),
    )
    for what, at, cells in lines:
        rows.append([what, *(spread([1e3 * each[at] for each in found], ".1f") for found in (theirs, ours)), *cells])
    a, b = ([each[0] + each[1] for each in found] for found in (theirs, ours))
    rows.append(["both together, s", spread(a), spread(b), ratio(a, b), ""])
    theirs, ours = both("small", rounds)
    a, b = ([1e3 * value for each in found for value in each] for found in (theirs, ours))
    rows.append(["a small statement, ms", spread(a, ".1f"), spread(b, ".1f"), *limited(ratio(a, b), SMALL_RATIO)])
    if large:
        rows += _large(both, clients, peaks, large, until)
    title = f"SQL clients, medians of at most {rounds} rounds (in brackets: fastest and slowest), {large} of the large ones"
    return table(title, ["what", "PySpark, Spark Connect", "databricks-sql-connector", "ratio or value", "at most"], rows)


def _large(both: Both, clients: dict[str, Client], peaks: Peaks, times: int, until: float) -> list[Row]:
    """The rows of the large result and of many sessions at once."""

    def measured(client: Client) -> tuple[list[float], list[float], list[float]]:
        with peaks.looking():
            found = client.ask("large")
        return found, peaks.before, peaks.most

    rows: list[Row] = []
    works = {name: partial(measured, client) for name, client in clients.items()}
    found = turns(times, works, uncounted=1, show=lambda found: f"1 GB: {found[0][0]:.1f} s", until=until)
    theirs, ours = found.values()
    a, b = ([each[0][0] for each in way] for way in (theirs, ours))
    rows.append(["1 GB of Arrow, s", spread(a), spread(b), *limited(ratio(a, b), LARGE_RATIO)])
    for at, (what, most) in enumerate((("server", SERVER_MIB), ("driver", None))):
        grown = [[each[2][at] - each[1][at] for each in way] for way in (theirs, ours)]
        whole = [max(each[2][at] for each in way) for way in (theirs, ours)]
        cells = [f"{peak:.0f} (+{max(more):.0f})" for peak, more in zip(whole, grown, strict=True)]
        over = max(grown[1])
        rows.append([f"its {what}'s peak, MiB (growth)", *cells, *limited(over, most, f"+{over:.0f}")])
    crowds = both("crowd", times, uncounted=0)
    a, b = ([each[0] for each in way] for way in crowds)
    what = f"{SESSIONS} sessions at once, {STATEMENTS} statements each, s"
    rows.append([what, spread(a), spread(b), *limited(ratio(a, b), CROWD_RATIO)])
    a, b = ([value for each in way for value in each[1:]] for way in crowds)
    rows.append(["a statement of theirs, s", spread(a), spread(b), ratio(a, b), ""])
    return rows


def ratio(theirs: list[float], ours: list[float]) -> float:
    """Of the medians."""
    return statistics.median(ours) / statistics.median(theirs)


if __name__ == "__main__":
    sys.exit(main())
