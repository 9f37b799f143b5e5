"""What to do next: a pure comparison of what the node is with what it should be.

The executor (`node.py`) does the first step and asks again, so that a change of mind is seen between any two steps; and when a
new assignment no longer begins with the step that is running, that step is given up.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum

import msgspec

from brickyard.domain.node import Assignment


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


class Current(msgspec.Struct, frozen=True, kw_only=True):
    """What the node is. `generation` 0: nothing of any generation is left."""

    generation: int = 0
    stage: Stage = Stage.EMPTY
    master_url: str = ""  # what the host was told
    retiring: bool = False


def decide(current: Current, wanted: Assignment | None) -> tuple[Step, ...]:
    """The steps from `current` to `wanted`, in order; none: they agree, or no step can help any more."""
    if wanted is None:
        return (Step.RELEASE,) if current.generation else ()
    steps: list[Step] = []
    if current.generation != wanted.generation:
        steps = [Step.RELEASE, Step.BEGIN] if current.generation else [Step.BEGIN]
        current = Current(generation=wanted.generation)
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
