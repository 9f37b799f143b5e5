"""Gives way to others: what a node does while it waits for a cluster has time."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

# How long to look at the processors, above which share of all of them others need them, and how long to give way in all.
LOOK_S, BUSY_SHARE, GIVE_WAY_S = 0.2, 0.85, 30.0

Piece = TypeVar("Piece")


class Processors(Protocol):
    """What the machine's processors have done so far: `processors`, or a test's."""

    def __call__(self) -> Sequence[int]: ...


class Pauses:
    """The pauses of one node, which together last GIVE_WAY_S at most. For one thread."""

    def __init__(self, read: Processors | None = None) -> None:
        self._read = read or processors
        self._left_s = GIVE_WAY_S

    def between(self, pieces: Iterable[Piece], cut: threading.Event) -> Iterator[Piece]:
        """Yields the pieces of some work, with pauses between them, until `cut` is set. Then what would lead to the next piece is
        not done either."""
        left = iter(pieces)
        while True:
            self.give_way(cut)
            if cut.is_set() or (piece := next(left, None)) is None or cut.is_set():
                return
            yield piece

    def give_way(self, cut: threading.Event) -> None:
        """Waits while others need the processors, or until `cut` is set."""
        before = self._read()
        while self._left_s > 0 and not cut.wait(LOOK_S):
            self._left_s -= LOOK_S
            after = self._read()
            if used_share(before, after) < BUSY_SHARE:
                return
            before = after


def processors() -> list[int]:
    """Returns what the machine's processors have done so far, in ticks by kind; empty if that is not known."""
    try:
        with open("/proc/stat") as lines:  # noqa: PTH123 - one line of a file of the kernel's
            return [int(word) for word in lines.readline().split()[1:9]]
    except (OSError, ValueError):
        return []


def used_share(before: Sequence[int], after: Sequence[int]) -> float:
    """Returns which share of all processors was used between two readings (user, nice, system, idle, iowait, irq, softirq,
    steal); 0 if that is not known."""
    spent = [new - old for old, new in zip(before, after)]  # noqa: B905 - Python 3.8
    total = sum(spent)
    return 1 - sum(spent[3:5]) / total if len(spent) > 4 and total > 0 else 0.0
