"""Clusters of 4 nodes on the simulated provider, from create to RUNNING; the cost of one must not grow with their number.

Running nodes poll all the time, so a longer run costs more. The cost of polling is measured once nothing happens any more
(upkeep), and a separate column subtracts what it cost during the run, with half of the nodes running on average. The first size
is measured again at the end: it shows how far the machine itself has changed meanwhile.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

import aiohttp
import psutil

from bench._common import cpu_s, later_s, table
from bench._servers import TOKEN, brickyard

BODY = json.dumps({"cluster_name": "s", "spark_version": "17.3.x-scala2.13", "node_type_id": "i3.xlarge", "num_workers": 3})
SIZES = (1_000, 2_000, 5_000, 1_000)
REST_S = 15.0


async def run(url: str, count: int) -> None:
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


def main() -> None:
    rows: list[list[Any]] = []
    for count in [int(size) for size in sys.argv[1:]] or SIZES:
        with brickyard() as served:
            cpu, started = cpu_s(served.pid), time.perf_counter()
            asyncio.run(run(served.url, count))
            seconds = time.perf_counter() - started
            used = cpu_s(served.pid) - cpu
            rss = psutil.Process(served.pid).memory_info().rss / 2**20
            upkeep = at_rest(served.pid)
            own = (used - upkeep * seconds / 2) * 1000 / count
            rows.append([count, seconds, count / seconds, used * 1000 / count, own, upkeep * 1e6 / count, rss])
    head = ["clusters", "s", "clusters/s", "CPU ms/cluster", "less upkeep", "upkeep, CPU ms a second for 1,000", "RSS MiB"]
    table("Scale: clusters of 4 nodes, create to RUNNING", head, rows)


def at_rest(pid: int) -> float:
    """CPU seconds per second of an idle server."""
    time.sleep(2.0)  # let work that has just begun finish
    cpu, began = cpu_s(pid), time.perf_counter()
    time.sleep(REST_S)
    return (cpu_s(pid) - cpu) / (time.perf_counter() - began)


if __name__ == "__main__":
    main()
