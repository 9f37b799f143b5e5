"""A thousand runs of kept jobs, and repairs, on three servers and one PostgreSQL while servers, nodes and drivers are killed.

Drivers are simulated and note what they begin; with --real, they are real ones, each task is a process there, and there are two
servers. Each attempt that has succeeded must be noted once, none twice; no run may be lost, made twice, or left behind.

Exits with 1 if one of these does not hold. --seed N kills the same things in the same order.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench._harness import CACHE, PREFIX, judged, options, table
from bench._servers import postgres
from tests.replicas.jobkills import LocalNodes, Nodes, SimulatedNodes, left_behind, storm
from tests.replicas.servers import Replicas

RUNS, REAL_AT_ONCE, AT_ONCE = 1_000, 6, 32
PAUSES_S, REAL_PAUSES_S = (0.2, 2.5), (8.0, 30.0)
SHOWN = 20


def main() -> int:
    given = options(__doc__, runs=RUNS, seed=1, real=False)
    settings: dict[str, Any] = {"rate_limits": "off"}
    with postgres() as database, tempfile.TemporaryDirectory(prefix=PREFIX) as place:
        home = Path(place)
        if given.real:
            nodes: Nodes = LocalNodes(home)
            settings |= {"cache_dir": CACHE}
        else:
            nodes = simulated = SimulatedNodes(home)
            settings |= {"provider": "simulated", "simulated_knobs": simulated.knobs}
        count, at_once, pauses_s = (2, REAL_AT_ONCE, REAL_PAUSES_S) if given.real else (3, AT_ONCE, PAUSES_S)
        with Replicas.running(home, database.new_database(), count=count, **settings) as replicas:
            clusters = 1 if given.real else 4
            work = storm(replicas, nodes, runs=given.runs, at_once=at_once, clusters=clusters, seed=given.seed, pauses_s=pauses_s)
            tally = asyncio.run(work)
        left = left_behind(home)
    rows: list[tuple[object, ...]] = [
        ("runs asked for", len(tally.made)),
        ("runs that tasks made", tally.children),
        ("repairs", tally.repairs),
        ("scheduled runs", tally.ticks),
        ("runs cancelled", tally.cancelled),
        *((f"runs that ended {name}", number) for name, number in sorted(tally.results.items())),
        *((f"attempts that ended {name}", number) for name, number in sorted(tally.attempts.items())),
        *((f"killed: {name}", number) for name, number in sorted(tally.kills.items())),
        ("minutes", tally.seconds / 60),
        ("lines too few or too many, runs lost or doubled", judged(len(tally.problems), not tally.problems)),
        ("processes left", judged(len(left), not left)),
    ]
    for problem in (*tally.problems, *left)[:SHOWN]:
        print(problem, file=sys.stderr)
    return table(f"{given.runs:,} runs under kills, seed {given.seed}", ["what", "measured"], rows)


if __name__ == "__main__":
    sys.exit(main())
