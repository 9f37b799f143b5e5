"""What a disk has and what of it is free: bytes and inodes, always both, so that nobody watches one of them alone. Pure."""

from __future__ import annotations

from enum import StrEnum

import msgspec

INODES_KEPT = 20_000  # a runtime has 15,000 files, and a node a few hundred
SHARE_KEPT = 20  # of a small disk only this part is kept free
MIB = 1 << 20


class Lack(StrEnum):
    """What a disk has too little of: the name of a field of `Amount`."""

    SIZE = "size"
    INODES = "inodes"


class Amount(msgspec.Struct, frozen=True):
    """An amount of disk."""

    size: int = 0  # bytes
    inodes: int = 0

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.size + other.size, self.inodes + other.inodes)

    def at_least(self, other: Amount) -> Amount:
        """Of each the larger number."""
        return Amount(max(self.size, other.size), max(self.inodes, other.inodes))

    def text(self, of: Lack) -> str:
        """One of both, for people."""
        return text(self.size) if of is Lack.SIZE else f"{self.inodes:,} inodes"


STEP = Amount(64 * MIB, 1_000)  # files are counted early when this much has gone
FULL = Amount(1 * MIB, 64)  # with less free a disk is full, whatever the settings say


class Disk(msgspec.Struct, frozen=True, kw_only=True):
    """The disk that holds a directory. What is reserved for root does not count as free. A file system that makes inodes as it
    needs them (btrfs) has none in total, and they are not watched."""

    total: Amount
    free: Amount

    def floor(self, asked: int) -> Amount:
        """What must stay free. `asked`: the setting, bytes, of which a small disk keeps less; 0: nothing is kept free."""
        inodes = min(INODES_KEPT, self.total.inodes // SHARE_KEPT) if asked else 0
        return Amount(min(asked, self.total.size // SHARE_KEPT), inodes)

    def lack(self, needed: Amount) -> Lack | None:
        """What less is free of than `needed`; None if there is enough."""
        if self.free.size < needed.size:
            return Lack.SIZE
        if self.total.inodes and self.free.inodes < needed.inodes:
            return Lack.INODES
        return None

    def left(self, of: Lack) -> str:
        """How much is left of it: "3 of 64 MiB are free", for people."""
        if of is Lack.SIZE:
            return f"{text(self.free.size)} of {text(self.total.size)} are free"
        return f"{self.free.inodes:,} of {self.total.inodes:,} inodes are free"

    def shortage(self, needed: Amount) -> str:
        """`left` of what there is less of than `needed`; "" if there is enough."""
        return self.left(lack) if (lack := self.lack(needed)) is not None else ""

    def has_lost(self, before: Disk) -> bool:
        """Whether so much has gone since `before` that files should be counted again."""
        return before.free.size - self.free.size >= STEP.size or before.free.inodes - self.free.inodes >= STEP.inodes


def text(number: float) -> str:
    """Formats bytes for people."""
    return f"{number / (1 << 30):.1f} GiB" if number >= 1 << 30 else f"{number / MIB:.0f} MiB"


def file_text(number: int) -> str:
    """Likewise, of files, which may be small."""
    return text(number) if number >= MIB else f"{number / 1024:.0f} KiB" if number >= 1024 else f"{number} bytes"
