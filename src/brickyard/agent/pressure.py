"""Who has to give way when the machine runs out of memory or of disk. Pure: the same numbers lead every agent to the same answer.

No server is asked: it may be down. Each agent measures its own node and publishes the numbers (`usage.py`); when the machine runs
low each looks at all of them, and only the one whose node is named here acts.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

MIB = 1 << 20
SMALLEST = 32 * MIB  # a node that uses less is never named: its end would help nobody
SLACK = 16 * MIB  # by which a directory that is too large may grow: removing from it writes a little first
STALE_S = 15.0  # numbers older than that are not looked at: their agent hangs or is gone
NEAR = 0.8  # of its disk: the cluster is told
DBFS_FULL = "dbfs.full"  # in the storage, touched again and again while the workspace's files take more than they may
DBFS_FULL_S = 90.0  # after that without a touch it does not count: the server has gone
STALLED = 10.0  # percent of the last ten seconds in which everything waited for memory


class Usage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a node used when its agent last looked. Bytes."""

    instance_id: str
    at_s: float  # the machine's monotonic clock
    memory: int = 0
    memory_share: int = 0  # what its node type promises
    disk: int = 0  # of a driver also by how much its cluster's directory has grown since it started
    written: int = 0  # lately, wherever: what it writes to the workspace's files is not in `disk`


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """The machine's memory (or its container's), in bytes. `stalled`: see STALLED; 0 where the kernel does not tell."""

    total: int
    available: int
    stalled: float = 0.0

    @property
    def floor(self) -> int:
        """What must stay available: page cache and the server need it to go on, and the kernel kills at far less."""
        return min(max(self.total // 25, 192 * MIB), 1024 * MIB)

    @property
    def low(self) -> bool:
        return self.available < self.floor or (self.stalled >= STALLED and self.available < 3 * self.floor)

    @property
    def near(self) -> bool:
        """Worth a closer look."""
        return self.available < 4 * self.floor or self.stalled > 0


def node_memory_limit(node_bytes: int, total: int) -> int:
    """What a node may use at most. A type larger than the machine must not take the machine down with it."""
    return min(node_bytes, total - max(total // 10, 256 * MIB)) if total > 512 * MIB else node_bytes


def disk_floor(total: int, asked: int) -> int:
    """The bytes of a disk that must stay free: what the settings ask for, and no more than a twentieth of a small disk."""
    return min(asked, total // 20)


def exceeds_disk(*, own: int, shared: int, found: int, limit: int) -> bool:
    """Whether a node's own files and, for a driver, its cluster's directory take more than they may together.

    That directory outlives the node, so what the node has `found` in it ends nobody, and a tenth of the limit is always left for
    own files: else a cluster whose directory is full could never start again to remove something.
    """
    return own > max(limit - shared, limit // 10) or shared > max(limit, found + SLACK)


def fair_share(usage: Usage, all_shares: int, total: int) -> float:
    """What a node may count on: what its type promises, or its part of the machine where more was promised than there is."""
    return usage.memory_share * min(1.0, total / all_shares) if all_shares else 0.0


def memory_offender(usages: Iterable[Usage], *, now_s: float, total: int) -> str | None:
    """The node that is furthest above its share of the machine's memory; None: none uses enough to matter."""
    fresh = _fresh(usages, now_s)
    shares = sum(usage.memory_share for usage in fresh)
    named = [usage for usage in fresh if usage.memory >= SMALLEST]
    worst = max(named, key=lambda usage: (usage.memory - fair_share(usage, shares, total), usage.instance_id), default=None)
    return worst.instance_id if worst else None


def disk_offender(usages: Iterable[Usage], *, now_s: float) -> str | None:
    """The node that holds and has lately written the most; None: the disk is being filled by somebody else."""
    named = [usage for usage in _fresh(usages, now_s) if usage.disk + usage.written >= SMALLEST]
    worst = max(named, key=lambda usage: (usage.disk + usage.written, usage.instance_id), default=None)
    return worst.instance_id if worst else None


def _fresh(usages: Iterable[Usage], now_s: float) -> list[Usage]:
    return [usage for usage in usages if -STALE_S <= now_s - usage.at_s <= STALE_S]


def text(number: float) -> str:
    """Bytes for people."""
    return f"{number / (1 << 30):.1f} GiB" if number >= 1 << 30 else f"{number / MIB:.0f} MiB"
