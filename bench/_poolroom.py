"""Pools on the simulated provider: what the server itself costs, without machines and Spark.

Requests ten clusters at once from a pool with 20 idle instances, against one at a time; and measures the pool planner while
clusters come and go on a pool that is kept at 1,000 idle instances. Exit code 1 when a limit is missed (marked ✗).
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any
from unittest import mock

from bench._harness import limited, table
from bench._servers import sqlite
from brickyard.domain.pools import Standing
from brickyard.domain.states import State
from brickyard.plan.pool import plan_pool
from brickyard.reconcile import pools
from brickyard.store.store import Store
from tests.reconcile.test_pools import create, make_pool, settle
from tests.reconcile.world import World, provider

ROUNDS, AT_ONCE, IDLE = 10, 10, 20
MANY, CHURN_S, CHURNERS = 1_000, 20.0, 4
PER_CLUSTER, PLANNER_MS = 1.5, 5.0


def main() -> int:
    one, ten = (statistics.median(each) for each in asyncio.run(_in_a_world(_at_once)))
    planner = asyncio.run(_in_a_world(_churn))
    ends = f"median of {len(planner)} passes; slowest {max(planner):.2f}"
    rows = [
        ["create -> RUNNING, one at a time, ms", 1000 * one, ""],
        [f"the same, {AT_ONCE} at once, ms per cluster", 1000 * ten, ""],
        ["ratio", *limited(ten / one, PER_CLUSTER)],
        [f"planner, {MANY} idle instances, ms ({ends})", *limited(statistics.median(planner), PLANNER_MS)],
    ]
    title = f"Pools, simulated: clusters of a driver and a worker, medians of {ROUNDS} rounds"
    return table(title, ["what", "Brickyard", "at most"], rows)


async def _in_a_world(measure: Callable[[World], Awaitable[Any]]) -> Any:
    with sqlite() as url:
        store = Store.open(url)
        try:
            async with World(store, provider()).running() as world:
                return await measure(world)
        finally:
            store.close()


async def _at_once(world: World) -> tuple[list[float], list[float]]:
    """Seconds from create to RUNNING: of single clusters, and per cluster when ten are requested together."""
    await make_pool(world, min_idle_instances=IDLE, idle_instance_autotermination_minutes=0)
    one, ten = [], []
    for number in range(ROUNDS):
        one.append(await _round(world, [f"one-{number}"]))
        ten.append(await _round(world, [f"ten-{number}-{each}" for each in range(AT_ONCE)]) / AT_ONCE)
    return one, ten


async def _round(world: World, names: list[str]) -> float:
    await settle(world, {Standing.IDLE: IDLE})
    began = time.perf_counter()
    await asyncio.gather(*(create(world, name) for name in names))
    await asyncio.gather(*(world.wait(name, State.RUNNING) for name in names))
    seconds = time.perf_counter() - began
    rows = await world.store.read(lambda tx: [node for name in names for node in tx.instances.of_cluster(name)])
    if len(rows) != 2 * len(names) or len({row.instance_id for row in rows}) != len(rows):
        raise RuntimeError("an instance is missing, or was given out twice")
    for name in names:
        await world.terminate(name)
    await asyncio.gather(*(world.wait(name, State.TERMINATED) for name in names))
    return seconds


async def _churn(world: World) -> list[float]:
    """Milliseconds of each planner pass while clusters come and go."""
    await make_pool(world, min_idle_instances=MANY, idle_instance_autotermination_minutes=0)
    await settle(world, {Standing.IDLE: MANY}, timeout=300)
    taken: list[float] = []

    def timed(*args: Any, **kwargs: Any) -> Any:
        began = time.thread_time()
        decided = plan_pool(*args, **kwargs)
        taken.append(1000 * (time.thread_time() - began))
        return decided

    with mock.patch.object(pools, "plan_pool", timed):
        until = time.perf_counter() + CHURN_S
        await asyncio.gather(*(_come_and_go(world, f"churn-{number}", until) for number in range(CHURNERS)))
    await settle(world, {Standing.IDLE: MANY}, timeout=60)
    return taken


async def _come_and_go(world: World, prefix: str, until: float) -> None:
    number = 0
    while time.perf_counter() < until:
        name = f"{prefix}-{number}"
        await create(world, name, num_workers=3)
        await world.wait(name, State.RUNNING)
        await world.terminate(name)
        await world.wait(name, State.TERMINATED)
        number += 1


if __name__ == "__main__":
    sys.exit(main())
