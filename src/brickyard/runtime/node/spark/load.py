"""A driver's load: waiting and running tasks, from Spark's stages and executors. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

MIB = 1 << 20


class Stage(NamedTuple):
    """The tasks of an active stage."""

    tasks: int
    running: int
    done: int


class LoadMeter:
    """Turns samples into loads, and remembers since when tasks have waited and workers have been idle. Times are epoch ms."""

    def __init__(self) -> None:
        self._backlog_since = 0
        self._idle_since: dict[str, int] = {}

    def sample(
        self, stages: Sequence[Stage], executors: Sequence[Mapping[str, Any]], homes: Mapping[str, str], now: int
    ) -> dict[str, Any]:
        """`executors` as in Spark's summaries (ExecutorSummary); `homes`: executor id -> address of its worker.

        Returns a Load of the agent protocol, as JSON.
        """
        pending = sum(max(0, stage.tasks - stage.running - stage.done) for stage in stages)
        self._backlog_since = (self._backlog_since or now) if pending else 0
        sums: dict[str, list[int]] = {}  # address -> slots, running, bytes held
        for executor in executors:
            address = homes.get(str(executor["id"]))
            if address is None or not executor.get("isActive", True):
                continue
            row = sums.setdefault(address, [0, 0, 0])
            row[0] += int(executor["maxTasks"])
            row[1] += int(executor["activeTasks"])
            row[2] += int(executor["memoryUsed"]) + int(executor["diskUsed"]) + int(executor["totalShuffleWrite"])
        self._idle_since = {address: self._idle_since.get(address) or now for address, row in sums.items() if not row[1]}
        workers = [  # rounds held bytes up to whole MiB, so that a little is not nothing
            [address, slots, running, self._idle_since.get(address, 0), -(-held // MIB)]
            for address, (slots, running, held) in sorted(sums.items())
        ]
        return {"pending": pending, "backlog_since_ms": self._backlog_since, "workers": workers}
