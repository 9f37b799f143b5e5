"""Decides when background work may run: pure, over what a look at the machine has seen."""

from __future__ import annotations

from enum import StrEnum

import msgspec

OTHERS_SHARE = 0.3  # of the cores: with more, others are at work
QUIET_S = 5.0  # for so long nothing else must have happened before it begins or goes on
PATIENCE_S = 60.0  # stopped for longer, it ends: what is stopped keeps its memory
NEEDED_MB, LEAST_MB = 3_000, 700  # free memory to begin with; less than the second, and it ends


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """The machine at one moment."""

    starting: bool  # a node starts
    others: float  # cores that everything else uses
    cores: int
    free_mb: int


class Action(StrEnum):
    WAIT = "wait"  # do not begin yet
    RUN = "run"  # begin, or go on
    STOP = "stop"  # stay where it is
    END = "end"  # throw away what was done, and begin anew when there is time again


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the background work. Times are seconds of any clock that does not go back."""

    begun: bool = False
    stopped_s: float | None = None  # since when it is stopped
    busy_s: float = 0.0  # when somebody else was last at work


def decide(work: Work, seen: Seen, *, now_s: float) -> tuple[Action, Work]:
    """Returns what to do, and what is known afterwards."""
    busy = seen.starting or seen.others > OTHERS_SHARE * seen.cores
    last = now_s if busy else work.busy_s
    quiet = now_s - last >= QUIET_S
    if not work.begun:
        if quiet and seen.free_mb >= NEEDED_MB:
            return Action.RUN, Work(begun=True, busy_s=last)
        return Action.WAIT, Work(busy_s=last)
    if seen.free_mb < LEAST_MB:
        return Action.END, Work(busy_s=last)
    if quiet if work.stopped_s is not None else not busy:
        return Action.RUN, Work(begun=True, busy_s=last)
    since = now_s if work.stopped_s is None else work.stopped_s
    if now_s - since >= PATIENCE_S:
        return Action.END, Work(busy_s=last)
    return Action.STOP, Work(begun=True, stopped_s=since, busy_s=last)
