"""Locks of the drivers that write tables, held by their agents.

The locks are files that no node sees, so no program can take them, and they end with the node: not before its processes have
ended, and in any case with the agent.

    driver/<cluster>    the cluster's records of writes (CommitRecords.java) belong to the holder: the cluster's own driver
                        while it lives, or another one that finishes what a killed driver has left
    place/<hash>        commits to one place come one after the other

A file exists while its lock is held, and has the id of the holder's cluster in it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
from pathlib import Path
from typing import Any, Literal

import msgspec

from brickyard.machine import locks
from brickyard.storage.metastore import Refused

Kind = Literal["driver", "place"]
MAX_NAME = 4096


class Lock(msgspec.Struct, tag_field="ask", tag="lock", forbid_unknown_fields=True):
    """Asks for a lock. The answer says whether the driver holds it now, or else whose driver does."""

    kind: Kind
    name: str


class Unlock(msgspec.Struct, tag_field="ask", tag="unlock", forbid_unknown_fields=True):
    """Gives a lock back."""

    kind: Kind
    name: str


class WriteLocks:
    """The locks of one agent's node. Methods may be called on any thread."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._mutex = threading.Lock()
        self._held: dict[tuple[Kind, str], int] = {}  # descriptors
        self._ended: object = None

    def answer(self, ask: Lock | Unlock, *, cluster_id: str, host: object) -> dict[str, Any]:
        """`host`: the node host that asks. Raises Refused and OSError."""
        with self._mutex:
            if host is None or host is self._ended:
                raise Refused("the node is being ended")
            if isinstance(ask, Unlock):
                self._give_back((ask.kind, ask.name))
                return {}
            return self._take((ask.kind, ask.name), cluster_id)

    def end(self, host: object) -> None:
        """Gives back all locks. No process of `host` is alive any more, and what it has asked for comes too late."""
        with self._mutex:
            self._ended = host
            for key in list(self._held):
                self._give_back(key)

    def _take(self, key: tuple[Kind, str], cluster_id: str) -> dict[str, Any]:
        if key in self._held:
            return {"held": True}
        if not 0 < len(key[1]) <= MAX_NAME:
            raise Refused(f"a name has 1 to {MAX_NAME} characters")
        # One driver commits to one place at a time, and finishes the writes of one other cluster: nothing that it asks for beyond
        # that is a driver's, and what it holds, others wait for.
        own = ("driver", cluster_id)
        if key != own and any(each != own and each[0] == key[0] for each in self._held):
            raise Refused("a driver may hold one lock of a kind")
        path = self._path(key)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        while True:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                if not locks.take(fd):
                    return {"held": False, "holder": os.pread(fd, 100, 0).decode("ascii", "replace")}
                if _is_at(fd, path):
                    with contextlib.suppress(OSError):  # the disk is full: others are not told who holds it
                        os.ftruncate(fd, 0)  # an agent that was killed leaves its file
                        os.pwrite(fd, cluster_id.encode()[:100], 0)
                    self._held[key], fd = fd, -1
                    return {"held": True}
            finally:
                if fd >= 0:
                    os.close(fd)  # its last holder has removed the file since it was opened

    def _give_back(self, key: tuple[Kind, str]) -> None:
        if (fd := self._held.pop(key, None)) is not None:
            with contextlib.suppress(OSError):  # the lock ends with the descriptor, whatever becomes of the file
                self._path(key).unlink()
            os.close(fd)

    def _path(self, key: tuple[Kind, str]) -> Path:
        return self._root / key[0] / hashlib.sha256(key[1].encode("utf-8", "surrogatepass")).hexdigest()


def _is_at(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), path.lstat())
    except FileNotFoundError:
        return False
