"""Clusters of 4 nodes on the simulated provider, from create to RUNNING; the cost of one must not grow with their number.

Running nodes poll all the time, so a longer run costs more. The cost of polling is measured once nothing happens any more
(upkeep), and a separate column subtracts what it cost during the run, with half of the nodes running on average. The first size
is measured again at the end: it shows how far the machine itself has changed meanwhile.

The simulated nodes of these rows live in the server's process, and what they take counts as its own. So upkeep is measured once
more with nodes in a process of their own, which call the server over HTTP as real agents do.

Exits with 1 if a limit is missed: CPU of a cluster, its growth, memory, and upkeep. `--quick`: without the 10,000.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

from bench._client import SIZE, flood
from bench._harness import Row, at_rest, cpu_s, judged, limited, options, rss_mib, table
from bench._servers import OWN_PROCESS, brickyard

BODY = json.dumps({"cluster_name": "s", **SIZE, "num_workers": 3})
SIZES = (1_000, 2_000, 5_000, 10_000, 1_000)
APART = 1_000  # clusters whose nodes live in a process of their own: each node holds a connection
CPU_MS, UPKEEP_MS, RSS_MIB, GROWTH = 10.0, 20.0, 400.0, 1.25


def run(url: str, count: int) -> None:
    """Creates the clusters, and returns once all are RUNNING."""
    asyncio.run(flood([url], count, BODY, every_s=0.5))


def measured(count: int) -> list[float]:
    """Seconds, CPU ms a cluster, the same without upkeep, upkeep in CPU ms a second for 1,000, and memory in MiB."""
    with brickyard() as served:
        cpu, started = cpu_s(served.pid), time.perf_counter()
        run(served.url, count)
        seconds = time.perf_counter() - started
        used = cpu_s(served.pid) - cpu
        rss = rss_mib(served.pid)
        upkeep = at_rest(served.pid)
        own = (used - upkeep * seconds / 2) * 1000 / count
        return [seconds, used * 1000 / count, own, upkeep * 1e6 / count, rss]


def apart(count: int) -> tuple[float, float]:
    """Upkeep in CPU ms a second for 1,000, and memory in MiB, of a server whose nodes live in another process."""
    with brickyard(OWN_PROCESS) as served:
        run(served.url, count)
        return at_rest(served.pid) * 1e6 / count, rss_mib(served.pid)


def main() -> int:
    given = options(__doc__, {"sizes": SIZES}, quick=False)
    sizes = [size for size in given.sizes if size < 10_000 or not given.quick]
    rows: list[Row] = []
    first = 0.0
    for count in sizes:
        seconds, used, own, upkeep, rss = measured(count)
        first = first or own
        limits = ((used, CPU_MS), (own, GROWTH * first), (upkeep, UPKEEP_MS), (rss, RSS_MIB))
        rows.append([count, seconds, count / seconds, *(judged(found, found <= most) for found, most in limits)])
    rows.append(["at most", "", "", CPU_MS, f"{GROWTH}x the first", UPKEEP_MS, RSS_MIB])
    head = ["clusters", "s", "clusters/s", "CPU ms/cluster", "less upkeep", "upkeep, CPU ms a second for 1,000", "RSS MiB"]
    missed = table("Scale: clusters of 4 nodes, create to RUNNING", head, rows)
    upkeep, rss = apart(min(APART, *sizes))
    head = ["clusters", "upkeep, CPU ms a second for 1,000", "at most", "RSS MiB"]
    title = "Upkeep of a server whose simulated nodes live in a process of their own"
    return max(missed, table(title, head, [[min(APART, *sizes), *limited(upkeep, UPKEEP_MS), rss]]))


if __name__ == "__main__":
    sys.exit(main())
