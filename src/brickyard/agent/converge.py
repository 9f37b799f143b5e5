"""Decides what to do next: a pure comparison of the node's current state with the wanted one.

The executor (`node.py`; each step is a file in `steps/`) does the first step and asks again, so a new assignment takes effect
between any two steps. If the steps for a new assignment no longer begin with the running step, the executor gives that step up.

An instance without a cluster may hold a warm node ready (role WARM). No user code has run in it. The first cluster with the same
size and runtime takes it over. A node that a cluster has used is never reused: a new one is made.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import NamedTuple

import msgspec

from brickyard.agent.watching.memory import java_options
from brickyard.domain.libraries import WantedLibrary
from brickyard.domain.node import Assignment, Role


class Stage(IntEnum):
    """How much of a generation exists on this instance."""

    EMPTY = 0  # nothing, or clean directories
    INSTALLED = 1  # its runtime is installed on this machine
    HOSTED = 2  # the node host runs
    STARTED = 3  # it has a JVM that has no role yet
    JOINED = 4  # the node has been given its role
    ENDED = 5  # it failed; final for this generation


class Step(StrEnum):
    RELEASE = "release"  # end everything of the generation, keep its logs, clean its directories
    BEGIN = "begin"  # make the directories of a new generation
    INSTALL = "install"
    HOST = "host"  # start the sandbox with the node host
    SCRIPTS = "scripts"  # run the init scripts
    START = "start"  # start the JVM
    LIBRARIES = "libraries"  # install the cluster's libraries that are not there yet
    JOIN = "join"
    TELL_MASTER = "tell_master"
    RETIRE = "retire"
    CLOSE = "close"  # tell what users have started, and wait until nothing runs any more
    WARM = "warm"  # prepare everything that a cluster can take over
    COOL = "cool"  # end everything that was prepared, complete or not, and clean its directories
    TAKE = "take"  # turn the prepared node into a generation's node


class Size(NamedTuple):
    """The size a warm node is prepared for. An assignment of the same size may take it over; its conf is checked later."""

    runtime: str
    cores: int
    memory_mb: int
    gpus: int


class Current(msgspec.Struct, frozen=True, kw_only=True):
    """The node's current state. With `generation` 0, nothing of a cluster's generation is left, but a warm node may exist."""

    generation: int = 0
    stage: Stage = Stage.EMPTY
    scripted: bool = False  # its init scripts have run
    master_url: str = ""  # the master URL given to the node host
    retiring: bool = False
    closed: bool = False  # the cluster stops, and nothing runs here any more
    libraries: tuple[WantedLibrary, ...] = ()  # dealt with, whether that worked or not
    libraries_late: bool = False  # the node takes its role before they are all there
    prepared: Size | None = None  # the size of the warm node that exists, complete or not
    warm: bool = False  # the warm node is complete


def size_of(wanted: Assignment) -> Size:
    return Size(wanted.runtime, wanted.cores, wanted.memory_mb, wanted.gpus)


def decide(current: Current, wanted: Assignment | None) -> tuple[Step, ...]:
    """Returns the steps from `current` to `wanted`, in order. Empty if the two agree or no step can help any more."""
    if wanted is None or wanted.role is Role.WARM:
        return _decide_idle(current, wanted)
    steps, current = _decide_own(current, wanted)
    if current.stage is Stage.ENDED or current.retiring:
        return tuple(steps)
    if wanted.closing and current.stage is Stage.JOINED:
        return () if current.closed else (Step.CLOSE,)  # nothing else matters any more
    if wanted.retiring:
        return (*steps, Step.RETIRE)  # it has not joined yet: it holds nothing of value, and nothing more needs to start
    for stage, step in ((Stage.INSTALLED, Step.INSTALL), (Stage.HOSTED, Step.HOST)):
        if current.stage < stage:
            steps.append(step)
    if wanted.init_scripts and not current.scripted and current.stage < Stage.JOINED:
        if wanted.role is Role.WORKER:
            if current.stage < Stage.STARTED and starts_early(wanted):
                steps.append(Step.START)
                current = msgspec.structs.replace(current, stage=Stage.STARTED)
            if not wanted.driver_host:
                return tuple(steps)  # the scripts need the driver's address: the assignment will name it
        steps.append(Step.SCRIPTS)  # a driver's JVM starts beside them, if it may start early
    if current.stage < Stage.STARTED:
        steps.append(Step.START)
    joins = [Step.JOIN] if current.stage < Stage.JOINED else []
    if current.stage is Stage.JOINED and wanted.master_url and wanted.master_url != current.master_url:
        joins = [Step.TELL_MASTER]
    libraries = [] if set(wanted.wanted_libraries) <= set(current.libraries) else [Step.LIBRARIES]
    before = current.stage < Stage.JOINED and not current.libraries_late
    return (*steps, *libraries, *joins) if before else (*steps, *joins, *libraries)


def _decide_idle(current: Current, wanted: Assignment | None) -> tuple[Step, ...]:
    """Returns the steps towards a node without a cluster."""
    size = size_of(wanted) if wanted is not None and wanted.runtime else None
    make = (Step.WARM,) if size is not None else ()
    if current.generation:
        return (Step.RELEASE, *make)
    if current.prepared is None:
        return make
    return () if current.prepared == size and current.warm else (Step.COOL, *make)


def _decide_own(current: Current, wanted: Assignment) -> tuple[list[Step], Current]:
    """Returns the steps that give the node to the assignment, and its state after them."""
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


def starts_early(wanted: Assignment) -> bool:
    """Whether the JVM may start before the init scripts have run. Options and variables may name what a script makes. If a script
    changes other files that a JVM reads once, this is found out afterwards, and another JVM is started."""
    return java_options(wanted) == [] and not wanted.spark_env_vars


def why_cold(current: Current, wanted: Assignment) -> str:
    """Returns a sentence that says why the prepared node cannot be taken over, or "" if it can or there is none."""
    prepared = current.prepared
    if prepared is None or (current.warm and prepared == size_of(wanted)):
        return ""
    if prepared.runtime != wanted.runtime:
        return f"the instance was prepared for runtime {prepared.runtime}, and the cluster's is {wanted.runtime}"
    if prepared != size_of(wanted):
        return "the instance was prepared for another size of node"
    return "the instance was still being prepared"


def continued(wanted: Assignment | None, last: Assignment | None) -> Assignment | None:
    """The assignment, for its whole generation with the secrets that it began with: one that is changed or deleted while it is in
    use changes nothing on a running node."""
    if wanted is None or last is None or wanted.generation != last.generation:
        return wanted
    kept = ("spark_conf", "spark_env_vars", "redact", "sealed", "refusal")
    return msgspec.structs.replace(wanted, **{name: getattr(last, name) for name in kept})
