"""The messages between servers and the process of the simulated world (`process.py`), and the files by which they find it."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from brickyard.config.settings import Settings
from brickyard.machine import locks
from brickyard.providers.base import CapacityError, InvalidError, Observed, ProviderError, TransientError
from brickyard.storage.directory import Storage

LOCK, NOTE, LOG = "world.lock", "world.json", "world.log"


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """world.json: the world's address, and the bearer token for all calls except those to instances."""

    pid: int
    url: str
    token: str


_decode_note = msgspec.json.Decoder(Note).decode


class Server(msgspec.Struct, frozen=True, kw_only=True):
    """POST /world/servers: a server that uses the world, and the process that it ends with."""

    pid: int
    url: str
    ends_with: int | None = None


class Gone(msgspec.Struct, frozen=True, kw_only=True):
    """POST /world/terminate: an instance to end."""

    instance_id: str
    reason: str = ""


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """POST /world/observe: what the world lists, unless that is still what it listed under this number. 0: whatever it is."""

    have: int = 0


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to `Look`. None: the same as before."""

    number: int
    instances: list[Observed] | None = None


class End(msgspec.Struct, frozen=True, kw_only=True):
    """POST /world/end: end everything, optionally only if no server is alive."""

    if_unused: bool = False


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to `End`: whether the world is ending, and how many instances it has."""

    ends: bool
    instances: int


class Refusal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The body of a 409: a ProviderError, by its class name."""

    kind: str
    message: str
    asked: str = ""
    left: str = ""

    @classmethod
    def of(cls, error: ProviderError) -> Refusal:
        more = {"asked": error.asked, "left": error.left} if isinstance(error, CapacityError) else {}
        return cls(kind=type(error).__name__, message=str(error), **more)

    def error(self) -> ProviderError:
        if self.kind == CapacityError.__name__:
            return CapacityError(self.message, asked=self.asked, left=self.left)
        return {InvalidError.__name__: InvalidError}.get(self.kind, TransientError)(self.message)


def directory(settings: Settings) -> Path:
    """The world's directory, where all servers of a workspace find it."""
    return Storage(settings.storage_dir).simulated


def take_lock(place: Path, *, patience_s: float) -> bool:
    """Takes the world's lock until this process ends. Returns False if another world has it."""
    handle = os.open(place / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if locks.take(handle, patience_s=patience_s):
        return True
    os.close(handle)
    return False


def lives(place: Path) -> bool:
    """Whether a world has this place, including one that is starting or ending. Raises OSError if that cannot be determined."""
    return locks.is_taken(place / LOCK)


def find(place: Path) -> Note | None:
    """The world that is serving there. Raises OSError."""
    if not lives(place):
        return None
    try:
        return _decode_note((place / NOTE).read_bytes())
    except (FileNotFoundError, msgspec.MsgspecError):
        return None  # not yet, or no longer
