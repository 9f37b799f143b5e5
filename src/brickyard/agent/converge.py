"""What to do next: a pure comparison of what the node is with what it should be.

The executor (`node.py`; a step is a file in `steps/`) does the first step and asks again, so that a change of mind is seen
between any two steps; and when a new assignment no longer begins with the step that is running, that step is given up.

An instance without a cluster may hold a warm node ready (role WARM). Nobody's code has run in it; the first cluster whose size
and runtime it has takes it over, and what a cluster has used is never prepared again but made anew.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import NamedTuple

import msgspec

from brickyard.domain.node import Assignment, Role


class Stage(IntEnum):
    """How much of a generation exists here."""

    EMPTY = 0  # nothing, or clean directories
    INSTALLED = 1  # its runtime is on this machine
    STARTED = 2  # the node host runs, with a JVM that has no role yet
    JOINED = 3  # it was given its role
    ENDED = 4  # it failed; final for this generation


class Step(StrEnum):
    RELEASE = "release"  # end everything of the generation, keep its logs, clean its directories
    BEGIN = "begin"  # make the directories of a new generation
    INSTALL = "install"
    START = "start"
    JOIN = "join"
    TELL_MASTER = "tell_master"
    RETIRE = "retire"
    WARM = "warm"  # make everything that a cluster can take over
    COOL = "cool"  # end everything that was prepared, finished or not, and clean its directories
    TAKE = "take"  # what was prepared becomes a generation's


class Size(NamedTuple):
    """What a warm node is made for. An assignment of the same size may take it over; what its conf needs is seen later."""

    runtime: str
    cores: int
    memory_mb: int
    gpus: int


class Current(msgspec.Struct, frozen=True, kw_only=True):
    """What the node is. `generation` 0: nothing of any cluster's generation is left, and there may be something warm."""

    generation: int = 0
    stage: Stage = Stage.EMPTY
    master_url: str = ""  # what the host was told
    retiring: bool = False
    prepared: Size | None = None  # there is something of a warm node for that
    warm: bool = False  # and it is complete


def size_of(wanted: Assignment) -> Size:
    return Size(wanted.runtime, wanted.cores, wanted.memory_mb, wanted.gpus)


def decide(current: Current, wanted: Assignment | None) -> tuple[Step, ...]:
    """The steps from `current` to `wanted`, in order; none: they agree, or no step can help any more."""
    if wanted is None or wanted.role is Role.WARM:
        return _decide_idle(current, wanted)
    steps, current = _decide_own(current, wanted)
    if current.stage is Stage.ENDED or current.retiring:
        return tuple(steps)
    if wanted.retiring:
        return (*steps, Step.RETIRE)  # not yet joined: nothing of value is on it, and nothing more needs to be started
    for stage, step in ((Stage.INSTALLED, Step.INSTALL), (Stage.STARTED, Step.START), (Stage.JOINED, Step.JOIN)):
        if current.stage < stage:
            steps.append(step)
    if current.stage is Stage.JOINED and wanted.master_url and wanted.master_url != current.master_url:
        steps.append(Step.TELL_MASTER)
    return tuple(steps)


def _decide_idle(current: Current, wanted: Assignment | None) -> tuple[Step, ...]:
    """The steps towards a node without a cluster."""
    size = size_of(wanted) if wanted is not None and wanted.runtime else None
    make = (Step.WARM,) if size is not None else ()
    if current.generation:
        return (Step.RELEASE, *make)
    if current.prepared is None:
        return make
    return () if current.prepared == size and current.warm else (Step.COOL, *make)


def _decide_own(current: Current, wanted: Assignment) -> tuple[list[Step], Current]:
    """The steps until the node is the assignment's own, and what it is then."""
    if current.generation == wanted.generation:
        return [], current
    own = Current(generation=wanted.generation)
    if current.generation:
        return [Step.RELEASE, Step.BEGIN], own
    if current.prepared is None:
        return [Step.BEGIN], own
    if why_cold(current, wanted):
        return [Step.COOL, Step.BEGIN], own
    return [Step.TAKE], msgspec.structs.replace(own, stage=Stage.STARTED)


def why_cold(current: Current, wanted: Assignment) -> str:
    """Why what was prepared cannot be taken over, as a sentence; "" when it can, or when there is nothing."""
    prepared = current.prepared
    if prepared is None or (current.warm and prepared == size_of(wanted)):
        return ""
    if prepared.runtime != wanted.runtime:
        return f"the instance was prepared for runtime {prepared.runtime}, and the cluster's is {wanted.runtime}"
    if prepared != size_of(wanted):
        return "the instance was prepared for another size of node"
    return "the instance was still being prepared"
