"""The simulated world's knobs, and the file through which they can be changed from outside the server's process."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import msgspec
import structlog

from brickyard.domain.samples import SAMPLE_S
from brickyard.providers.base import SetupError

LOOK_EVERY_S = 0.1
_PROBABILITIES = dict.fromkeys(
    ("prepare_error", "launch_error", "node_failure", "never_registers", "jitter", "command_failure"), 1.0
)
_SECONDS = dict.fromkeys(
    ("register_s", "start_s", "warm_start_s", "prepare_s", "script_s", "stop_s", "command_s", "library_s", "sample_s"), 86_400.0
)

log = structlog.get_logger(__name__)


class Knobs(msgspec.Struct, kw_only=True):
    """Settings of the simulated world. Times are seconds; probabilities are 0 to 1. May be changed while it runs."""

    register_s: float = 0.0  # from launch until the agent calls home
    waits_for: str = ""  # what the provider says of an instance until then: "waiting for a machine"
    start_s: float = 0.0  # from assignment until the node is ready
    warm_start_s: float = 0.0  # the same, if the runtime was prepared
    prepare_s: float = 0.0  # for an idle instance of a pool: until its runtime is prepared
    prepare_error: float = 0.0  # probability that a preparation fails
    script_s: float = 0.0  # how long each init script takes
    failing_script: str = ""  # name of an init script that fails, on every node
    stop_s: float = 0.0  # from terminate until the instance is gone
    jitter: float = 0.0  # fraction by which the times above vary
    max_instances: int = 1_000_000
    max_spot: int = 1_000_000  # how many of these may be spot instances
    full_types: frozenset[str] = frozenset()  # node types that are sold out
    launch_error: float = 0.0  # probability that a launch raises TransientError
    node_failure: float = 0.0  # probability that a node fails instead of becoming ready
    never_registers: float = 0.0
    library_s: float = 0.0  # from the assignment until a library is installed
    bad_libraries: frozenset[str] = frozenset()  # PyPI packages, and names of files, that cannot be installed
    commands_file: str = ""  # if set, commands are accepted and each appends its id to this file when it begins; "": refused
    command_s: float = 0.0  # from a command's start until it finishes
    command_failure: float = 0.0  # probability that a command that was noted fails; the same for the same id
    logs: bool = False  # nodes write logs, which are read, delivered and kept as a real node's
    own_ports: bool = False  # ports of drivers lead to programs on this machine's loopback; otherwise nothing listens
    sample_s: float = SAMPLE_S  # between two samples of what a node uses, which are made up; 0: none
    own_process: bool = False  # the world is a process of its own, as where there are several servers. Read at the start
    seed: int = 0


class HasKnobs(Protocol):
    """A world, whose knobs may be others at every look."""

    @property
    def knobs(self) -> Knobs: ...


class KnobsError(SetupError):
    """The file cannot be used. The message says why."""


class _File(Knobs, forbid_unknown_fields=True):
    """Knobs read from a file. Unknown names are errors, because a misspelt one would do nothing."""


def read(path: Path) -> Knobs:
    """The knobs in a TOML file; those that are absent have their defaults. Raises KnobsError."""
    return _decoded(path, _content(path))


def in_force(path: Path) -> Path:
    """The copy of the file that the server leaves beside it once its knobs are in effect."""
    return path.with_name(f"{path.name}.seen")


async def follow(path: Path, turn: Callable[[Knobs], None]) -> None:
    """Applies the knobs whenever the file changes, forever. An unusable file changes nothing, and is logged once."""
    seen, said = None, ""
    while True:
        try:
            if (content := _content(path)) != seen:
                turn(_decoded(path, content))
                seen, said = content, ""
                with contextlib.suppress(OSError):  # its directory may be read-only: then nobody waits for the copy
                    draft = in_force(path).with_suffix(".draft")
                    draft.write_bytes(content)
                    draft.replace(in_force(path))
                log.info("knobs_turned", path=str(path))
        except KnobsError as error:
            if str(error) != said:
                said = str(error)
                log.warning("knobs_are_as_before", why=said)
        await asyncio.sleep(LOOK_EVERY_S)


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise KnobsError(f"simulated_knobs: cannot read {path}: {error.strerror}.") from error


def _decoded(path: Path, content: bytes) -> Knobs:
    try:
        knobs = msgspec.toml.decode(content, type=_File)
    except (msgspec.MsgspecError, ValueError) as error:
        raise KnobsError(f"simulated_knobs: {path} is wrong: {error}. Knobs: {', '.join(Knobs.__struct_fields__)}.") from error
    for name, most in {**_SECONDS, **_PROBABILITIES}.items():
        if not 0 <= getattr(knobs, name) <= most:
            raise KnobsError(f"simulated_knobs: in {path}, {name} is {getattr(knobs, name)}; it must be between 0 and {most:g}.")
    if knobs.commands_file and not Path(knobs.commands_file).is_absolute():
        raise KnobsError(f"simulated_knobs: in {path}, commands_file is {knobs.commands_file!r}; it must be an absolute path.")
    return knobs
