"""What nodes say of the time, on this server's clock. The clocks of machines differ, and may be set at any time: how long ago
something was is known all the same, because each report says what time it has."""

from __future__ import annotations

from array import array

import msgspec

from brickyard.domain.clock import Clock
from brickyard.domain.node import Load, NodeStatus, WorkerLoad
from brickyard.domain.packedsamples import PackedSamples
from brickyard.domain.samples import as_array, as_bytes

SAME_MS = 1_000  # a smaller difference is that of how long calls take: times that stay the same cost no write
_TIMES = ("last_activity_ms", "silent_since_ms", "started_ms", "told_ms", "quiet_ms")


class NodeClocks:
    """By how much this server's clock is ahead of each node's."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ahead: dict[str, int] = {}

    def ahead(self, instance_id: str, node_ms: int) -> int:
        """For a call of an agent whose clock shows `node_ms` (0: it does not say, and has this server's)."""
        if not node_ms:
            return 0
        now, before = self._clock.now_ms() - node_ms, self._ahead.get(instance_id, 0)
        if abs(now - before) > SAME_MS:
            self._ahead[instance_id] = before = now
        return before

    def forget(self, instance_id: str) -> None:
        """Drops the instance, which is gone."""
        self._ahead.pop(instance_id, None)


def moved(status: NodeStatus, ahead_ms: int) -> NodeStatus:
    """The status with its times on a clock that is so much ahead."""
    if not ahead_ms:
        return status
    times = {name: at + ahead_ms for name in _TIMES if (at := getattr(status, name))}
    load = _moved_load(status.load, ahead_ms) if status.load is not None else None
    return msgspec.structs.replace(status, **times, load=load)


def with_same_times(status: NodeStatus, before: NodeStatus) -> NodeStatus:
    """The status with the times of the one before, where they differ only as clocks and calls do."""
    kept = {name: getattr(before, name) for name in _TIMES}
    same = {name: at for name, at in kept.items() if at and 0 < abs(at - getattr(status, name)) <= SAME_MS}
    return msgspec.structs.replace(status, **same) if same else status


def _moved_load(load: Load, ahead_ms: int) -> Load:
    return msgspec.structs.replace(
        load,
        backlog_since_ms=load.backlog_since_ms and load.backlog_since_ms + ahead_ms,
        workers=tuple(
            WorkerLoad(each.address, each.slots, each.running, each.idle_since_ms and each.idle_since_ms + ahead_ms, each.held_mb)
            for each in load.workers
        ),
    )


def moved_samples(samples: PackedSamples, ahead_ms: int) -> PackedSamples:
    """The samples with their times on a clock that is so much ahead."""
    if not ahead_ms or len(samples.times) % 8:
        return samples
    times = array("q", [at + ahead_ms for at in as_array("q", samples.times)])
    return msgspec.structs.replace(samples, times=as_bytes(times))
