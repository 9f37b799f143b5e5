"""Clusters of 4 nodes on the simulated provider, from create to RUNNING; the cost of one must not grow with their number.

Running nodes poll all the time, so a longer run costs more. The cost of polling is measured once nothing happens any more
(upkeep), and a separate column subtracts what it cost during the run, with half of the nodes running on average. The first size
is measured again at the end: it shows how far the machine itself has changed meanwhile.

The simulated nodes of these rows live in the server's process, and what they take counts as its own. So upkeep is measured once
more with nodes in a process of their own, which call the server over HTTP as real agents do.

Exits with 1 if a limit is missed: CPU of a cluster, its growth, memory, and upkeep. `--quick`: without the 10,000.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from typing import Any

import aiohttp
import psutil

from bench._common import cpu_s, judged, later_s, table
from bench._servers import OWN_PROCESS, TOKEN, brickyard

BODY = json.dumps({"cluster_name": "s", "spark_version": "17.3.x-scala2.13", "node_type_id": "i3.xlarge", "num_workers": 3})
SIZES = (1_000, 2_000, 5_000, 10_000, 1_000)
APART = 1_000  # clusters whose nodes live in a process of their own: each node holds a connection
SETTLE_S, REST_S = 45.0, 120.0  # several rounds of what agents and the server do every 40 and 60 s
CPU_MS, UPKEEP_MS, RSS_MIB, GROWTH = 10.0, 20.0, 400.0, 1.25


async def run(url: str, count: int) -> None:
    """Creates the clusters, and returns once all are RUNNING."""
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    async with aiohttp.ClientSession(headers=headers) as session:
        left = iter(range(count))

        async def create() -> None:
            for _ in left:
                while True:
                    async with session.post(f"{url}/api/2.1/clusters/create", data=BODY) as answer:
                        wait_s = later_s(answer.status, answer.headers.get("Retry-After"))
                        if wait_s is None:
                            answer.raise_for_status()
                            break
                    await asyncio.sleep(wait_s)

        await asyncio.gather(*(create() for _ in range(16)))
        while True:
            async with session.get(f"{url}/metrics") as answer:
                text = await answer.text()
            states = {
                line.split('"')[1]: float(line.split()[-1])
                for line in text.splitlines()
                if line.startswith("brickyard_clusters{")
            }
            if states.get("RUNNING", 0) >= count:
                return
            if states.get("TERMINATED", 0):
                raise RuntimeError(f"clusters ended: {states}")
            await asyncio.sleep(0.5)


def measured(count: int) -> list[float]:
    """Seconds, CPU ms a cluster, the same without upkeep, upkeep in CPU ms a second for 1,000, and memory in MiB."""
    with brickyard() as served:
        cpu, started = cpu_s(served.pid), time.perf_counter()
        asyncio.run(run(served.url, count))
        seconds = time.perf_counter() - started
        used = cpu_s(served.pid) - cpu
        rss = psutil.Process(served.pid).memory_info().rss / 2**20
        upkeep = at_rest(served.pid)
        own = (used - upkeep * seconds / 2) * 1000 / count
        return [seconds, used * 1000 / count, own, upkeep * 1e6 / count, rss]


def apart(count: int) -> tuple[float, float]:
    """Upkeep in CPU ms a second for 1,000, and memory in MiB, of a server whose nodes live in another process."""
    with brickyard(OWN_PROCESS) as served:
        asyncio.run(run(served.url, count))
        return at_rest(served.pid) * 1e6 / count, psutil.Process(served.pid).memory_info().rss / 2**20


def main() -> int:
    """Prints the tables. Returns 1 if a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sizes", type=int, nargs="*", help=f"numbers of clusters; {', '.join(map(str, SIZES))} if none")
    parser.add_argument("--quick", action="store_true", help="without the 10,000 clusters")
    options = parser.parse_args()
    sizes = options.sizes or [size for size in SIZES if size < 10_000 or not options.quick]
    rows: list[list[Any]] = []
    kept = True
    first = 0.0
    for count in sizes:
        seconds, used, own, upkeep, rss = measured(count)
        first = first or own
        fine = [used <= CPU_MS, own <= GROWTH * first, upkeep <= UPKEEP_MS, rss <= RSS_MIB]
        kept = kept and all(fine)
        cells = [judged(*each) for each in zip((used, own, upkeep, rss), fine, strict=True)]
        rows.append([count, seconds, count / seconds, *cells])
    limits = ["at most", "", "", CPU_MS, f"{GROWTH}x the first", UPKEEP_MS, RSS_MIB]
    head = ["clusters", "s", "clusters/s", "CPU ms/cluster", "less upkeep", "upkeep, CPU ms a second for 1,000", "RSS MiB"]
    table("Scale: clusters of 4 nodes, create to RUNNING", head, [*rows, limits])
    upkeep, rss = apart(min(APART, *sizes))
    kept = kept and upkeep <= UPKEEP_MS
    table(
        "Upkeep of a server whose simulated nodes live in a process of their own",
        ["clusters", "upkeep, CPU ms a second for 1,000", "RSS MiB"],
        [[min(APART, *sizes), judged(upkeep, upkeep <= UPKEEP_MS), rss], ["at most", UPKEEP_MS, ""]],
    )
    return 0 if kept else 1


def at_rest(pid: int) -> float:
    """CPU seconds per second of an idle server."""
    time.sleep(SETTLE_S)  # work that has just begun ends, and every agent polls as it does at rest
    cpu, began = cpu_s(pid), time.perf_counter()
    time.sleep(REST_S)
    return (cpu_s(pid) - cpu) / (time.perf_counter() - began)


if __name__ == "__main__":
    sys.exit(main())
