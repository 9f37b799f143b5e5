"""What servers and the process of the simulated world (`process.py`) say to each other, and the files by which they find it."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

import msgspec

from brickyard.config import Settings
from brickyard.providers.base import CapacityError, InvalidError, ProviderError, TransientError
from brickyard.storage.directory import Storage

LOCK, NOTE, LOG = "world.lock", "world.json", "world.log"


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """world.json: where the world is called, and the bearer token of all calls but those to instances."""

    pid: int
    url: str
    token: str


class Server(msgspec.Struct, frozen=True, kw_only=True):
    """POST /world/servers: a server that uses the world, with the process that it ends with."""

    pid: int
    url: str
    ends_with: int | None = None


class Gone(msgspec.Struct, frozen=True, kw_only=True):
    """POST /world/terminate: an instance that shall go."""

    instance_id: str
    reason: str = ""


class End(msgspec.Struct, frozen=True, kw_only=True):
    """POST /world/end: end everything, or only where no server lives."""

    if_unused: bool = False


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """Its answer: whether the world ends now, and how many instances it has."""

    ends: bool
    instances: int


class Refusal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer 409: a ProviderError, by the name of its class."""

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
    """The world's place, where all servers of a workspace find it."""
    return Storage(settings.storage_dir).simulated


def take_lock(place: Path, *, patience_s: float) -> bool:
    """Be the world of this place until this process ends; False while another one is."""
    handle = os.open(place / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + patience_s
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= deadline:
                os.close(handle)
                return False
            time.sleep(0.02)


def lives(place: Path) -> bool:
    """Whether a world has this place now, also one that is starting or ending. Raises OSError where that cannot be found out."""
    try:
        handle = os.open(place / LOCK, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def find(place: Path) -> Note | None:
    """The world that serves there now. Raises OSError."""
    if not lives(place):
        return None
    try:
        return msgspec.json.decode((place / NOTE).read_bytes(), type=Note)
    except (FileNotFoundError, msgspec.MsgspecError):
        return None  # not yet, or not any more
