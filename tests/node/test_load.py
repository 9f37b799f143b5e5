"""What a driver tells of its load."""

from __future__ import annotations

from typing import Any

import msgspec

from brickyard.domain.node import Load, WorkerLoad
from brickyard.runtime.node.spark import load

HOMES = {"0": "10.0.0.1:7000", "1": "10.0.0.1:7000", "2": "10.0.0.2:7000"}


def executor(name: str, running: int = 0, **fields: Any) -> dict[str, Any]:
    base = {"id": name, "isActive": True, "maxTasks": 2, "activeTasks": running, "memoryUsed": 0, "diskUsed": 0}
    return {**base, "totalShuffleWrite": 0, **fields}


def told(found: dict[str, Any]) -> Load:
    """As the agent reads it."""
    return msgspec.convert(found, Load)


def test_executors_of_one_worker_count_together() -> None:
    held = executor("1", running=1, memoryUsed=3 << 20, diskUsed=1 << 20, totalShuffleWrite=(1 << 20) + 1)
    found = told(load.LoadMeter().sample([], [executor("0", running=2), held, executor("2")], HOMES, 5_000))
    assert found.workers == (
        WorkerLoad(address="10.0.0.1:7000", slots=4, running=3, idle_since_ms=0, held_mb=6),
        WorkerLoad(address="10.0.0.2:7000", slots=2, running=0, idle_since_ms=5_000, held_mb=0),
    )


def test_executors_that_are_gone_or_not_placed_yet_do_not_count() -> None:
    found = told(load.LoadMeter().sample([], [executor("9"), executor("2", isActive=False)], HOMES, 5_000))
    assert found.workers == ()


def test_idleness_and_a_backlog_are_dated_from_their_beginning() -> None:
    meter = load.LoadMeter()
    waiting = [load.Stage(tasks=10, running=4, done=1), load.Stage(tasks=3, running=0, done=3)]
    first = told(meter.sample(waiting, [executor("0"), executor("2", running=1)], HOMES, 1_000))
    assert (first.pending, first.backlog_since_ms) == (5, 1_000)
    second = told(meter.sample(waiting, [executor("0"), executor("2")], HOMES, 2_000))
    assert second.backlog_since_ms == 1_000
    assert [worker.idle_since_ms for worker in second.workers] == [1_000, 2_000]
    third = told(meter.sample([], [executor("0", running=1), executor("2")], HOMES, 3_000))
    assert (third.pending, third.backlog_since_ms) == (0, 0)
    assert [worker.idle_since_ms for worker in third.workers] == [0, 2_000]
    fourth = told(meter.sample(waiting, [executor("0")], HOMES, 4_000))
    assert fourth.backlog_since_ms == 4_000
    assert [worker.idle_since_ms for worker in fourth.workers] == [4_000], "it was busy in between"
