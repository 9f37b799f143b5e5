"""Decides which node must yield when the machine runs out of memory or disk. Pure: the same numbers give every agent one answer.

No server is involved, because it may be down. Each agent measures its own node and publishes the numbers (`usage.py`). When the
machine runs low, every agent looks at all of them, and only the agent of the node named here acts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from brickyard.machine.disk import MIB, Lack, text

SMALLEST = 32 * MIB  # nodes that use less are never named: ending them would not help
FEWEST = 1_000  # inodes, likewise
SLACK = 16 * MIB  # how far a directory that is too large may still grow: removing files from it writes a little first
STALE_S = 15.0  # older numbers are ignored: their agent hangs or is gone
NEAR = 0.8  # share of a node's disk limit at which its cluster is warned
DBFS_FULL = "notices/dbfs.full"  # file in the storage, which exists while the workspace's files exceed their limit
STALLED = 10.0  # percent of the last ten seconds in which every process waited for memory


class Usage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a node used when its agent last measured. Bytes."""

    instance_id: str
    at_s: float  # the machine's monotonic clock
    memory: int = 0
    memory_share: int = 0  # memory that the node type promises
    disk: int = 0  # for a driver, includes how much its cluster's directory has grown since its start
    written: int = 0  # recently, anywhere: `disk` does not include writes to the workspace's files
    inodes: int = 0  # as `disk`
    made: int = 0  # recently, of those

    def taken(self, of: Lack) -> int:
        """What it holds of a disk and has lately taken."""
        return self.disk + self.written if of is Lack.SIZE else self.inodes + self.made


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """The machine's (or its container's) memory in bytes. `stalled`: see STALLED; 0 if the kernel does not report it."""

    total: int
    available: int
    stalled: float = 0.0

    @property
    def floor(self) -> int:
        """Bytes that must stay available: page cache and the server need them, and the kernel starts to kill only at much
        less."""
        return min(max(self.total // 25, 192 * MIB), 1024 * MIB)

    @property
    def low(self) -> bool:
        return self.available < self.floor or (self.stalled >= STALLED and self.available < 3 * self.floor)

    @property
    def near(self) -> bool:
        """Whether memory is low enough to look more closely."""
        return self.available < 4 * self.floor or self.stalled > 0


def node_memory_limit(node_bytes: int, total: int) -> int:
    """Returns the most that a node may use. A node type larger than the machine must not bring the machine down."""
    return min(node_bytes, total - max(total // 10, 256 * MIB)) if total > 512 * MIB else node_bytes


def most_inodes(total: int, scanned: int) -> int:
    """Returns how many inodes one part of the workspace may hold: half of the disk's, and no more than a scan counts."""
    return min(total // 2, scanned) if total else scanned


def exceeds_disk(*, own: int, shared: int, found: int, limit: int) -> bool:
    """Whether a node's own files and, for a driver, its cluster's directory together exceed the limit.

    The cluster's directory outlives the node, so what the node `found` in it does not end the node, and a tenth of the limit
    is always left for the node's own files: otherwise a cluster with a full directory could never start again to clean up.
    """
    return own > max(limit - shared, limit // 10) or shared > max(limit, found + SLACK)


def exceeds_quota(*, size: int, found: int, limit: int) -> bool:
    """Whether a directory takes more than it may; 0: there is no limit. What the node `found` does not end it, as above."""
    return bool(limit) and size > max(limit, found + SLACK)


def fair_share(usage: Usage, all_shares: int, total: int) -> float:
    """Returns the memory a node may count on: its type's promise, or its part of the machine if more was promised than exists."""
    return usage.memory_share * min(1.0, total / all_shares) if all_shares else 0.0


def memory_offender(usages: Iterable[Usage], *, now_s: float, total: int, least: float) -> str | None:
    """Returns the node furthest above its share of the machine's memory, or None if no node takes `least` of its share: then
    others hold the memory, and ending a node would free next to nothing."""
    fresh = _fresh(usages, now_s)
    shares = sum(usage.memory_share for usage in fresh)
    named = [usage for usage in fresh if usage.memory >= max(SMALLEST, least * fair_share(usage, shares, total))]
    worst = max(named, key=lambda usage: (usage.memory - fair_share(usage, shares, total), usage.instance_id), default=None)
    return worst.instance_id if worst else None


class Holders(NamedTuple):
    """Who holds the machine's memory. Bytes. `programs`: whatever is not a node, the server and its tools included."""

    nodes: int
    programs: int

    @property
    def text(self) -> str:
        return f"nodes held {text(self.nodes)}, and other programs of the machine {text(self.programs)}"


def holders(usages: Iterable[Usage], memory: Memory, *, now_s: float) -> Holders:
    """Who holds what is not available."""
    nodes = sum(usage.memory for usage in _fresh(usages, now_s))
    return Holders(nodes, max(0, memory.total - memory.available - nodes))


def disk_offender(usages: Iterable[Usage], *, now_s: float, lack: Lack) -> str | None:
    """Returns the node that holds and has recently taken the most of what is lacking, or None if something else fills the
    disk."""
    least = SMALLEST if lack is Lack.SIZE else FEWEST
    named = [usage for usage in _fresh(usages, now_s) if usage.taken(lack) >= least]
    worst = max(named, key=lambda usage: (usage.taken(lack), usage.instance_id), default=None)
    return worst.instance_id if worst else None


def _fresh(usages: Iterable[Usage], now_s: float) -> list[Usage]:
    return [usage for usage in usages if -STALE_S <= now_s - usage.at_s <= STALE_S]
