"""The files of the workspace's metastore: a database, table or function is one file, which is replaced whole.

    lock                                  flock
    databases/<name>/database.json        a description; `default` needs none
    databases/<name>/table/<name>.json    a table or view, with its partitions
    databases/<name>/function/<name>.json
    dropped/<id>/                         what was dropped, until its rows are removed

A file has its version in the first line and Spark's description, as JSON, below. A change names the version that it was made
for, and is made with the lock held. Names are percent-encoded. Agents write these files for drivers (agent/catalog/metastore.py),
servers for the API (features/catalog/).
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple
from urllib.parse import quote, unquote

from brickyard.machine import locks
from brickyard.machine.pressure import DBFS_FULL

MAX_NAME = 240  # bytes of a name, percent-encoded: a file system allows 255
LOCK_PATIENCE_S = 20.0
DEFAULT = "default"
SUFFIX = ".json"
DATABASE = "database" + SUFFIX

Kind = Literal["table", "function"]
KINDS: tuple[Kind, ...] = ("table", "function")


class Refused(Exception):
    """The request makes no sense, or cannot be met now; the message says why. Nothing was changed."""


class Locked(Refused):
    """Somebody else has held the lock all the time."""


class Full(Refused):
    """The workspace's files exceed their limit."""


class Description(NamedTuple):
    """An entry as it is kept: `text` is JSON, which any driver may have written."""

    version: str
    text: bytes
    modified_ms: int


class MetastoreFiles:
    """The metastore in `root`. Methods block, raise Refused and OSError, and may be called on any thread."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.dropped = root / "dropped"
        self._databases = root / "databases"

    # --- what is there ---

    def databases(self) -> list[str]:
        """The names of the databases, sorted. `default` is missing unless somebody has changed it."""
        return names_in(self._databases, "")

    def exists(self, database: str) -> bool:
        return database == DEFAULT or self.record(database).exists()

    def names(self, database: str, kind: Kind) -> list[str]:
        """The names of a database's entries, sorted."""
        return names_in(self.database(database) / kind, SUFFIX)

    def database(self, name: str) -> Path:
        return self._databases / encoded(name)

    def record(self, database: str) -> Path:
        """The file of a database's description."""
        return self.database(database) / DATABASE

    def entry(self, database: str, kind: Kind, name: str) -> Path:
        """The file of a table or function."""
        return self.database(database) / kind / (encoded(name) + SUFFIX)

    # --- changes, with the lock held ---

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Holds the lock of all changes. Raises Locked."""
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(self.root / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if not locks.take(fd, patience_s=LOCK_PATIENCE_S):
                raise Locked(f"the workspace's metastore has been locked by another node for {LOCK_PATIENCE_S:g} s")
            yield
        finally:
            os.close(fd)

    def put(self, path: Path, version: str, text: bytes, *, database: str = "") -> str | None:
        """Writes an entry in the place of one with that version, "" for none, and returns the new version. `database`: there must
        be such a one. None: somebody was faster."""
        if (self.root.parent / DBFS_FULL).exists():
            raise Full("the workspace's files exceed their limit (dbfs_gb): delete some, or drop tables")
        if version_of(path) != version or (database and not self.exists(database)):
            return None
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        made = secrets.token_hex(8)
        _write(path, made.encode() + b"\n" + text)
        return made

    def drop_database(self, name: str, *, cascade: bool) -> Path | None:
        """Drops a database, and returns where it remains until its rows are removed. Unless `cascade`, it must be empty. None:
        it is not there, not empty, or `default`."""
        path = self.database(name)
        if name == DEFAULT or not self.exists(name):
            return None
        if not cascade and any(names_in(path / kind, SUFFIX) for kind in KINDS):
            return None
        return self.set_aside(path)

    def set_aside(self, path: Path) -> Path:
        """Drops a file or a directory. It remains in the returned directory of `dropped` until the rows that it names are
        removed."""
        target = self.dropped / secrets.token_hex(16) / path.name
        target.parent.mkdir(mode=0o700, parents=True)
        path.rename(target)
        return target.parent


def read(path: Path, *, limit: int = -1) -> Description | None:
    """An entry; None if there is none. One with more than `limit` bytes has no text."""
    try:
        with path.open("rb") as file:
            info = os.fstat(file.fileno())
            whole = limit < 0 or info.st_size <= limit
            version, _, text = file.read(-1 if whole else 64).partition(b"\n")
    except FileNotFoundError:
        return None
    return Description(version.decode("ascii", "replace"), text if whole else b"", info.st_mtime_ns // 1_000_000)


def version_of(path: Path) -> str:
    """The version of what is there, "" for nothing."""
    try:
        with path.open("rb") as file:
            return file.readline(64).strip().decode("ascii", "replace")
    except FileNotFoundError:
        return ""


def encoded(name: str) -> str:
    """The name as one that is safe for a file: without "/", never "." or ".."."""
    safe = quote(name, safe="").replace(".", "%2E")
    if not 0 < len(safe) <= MAX_NAME:
        raise Refused(f"the name {name[:80]!r} is empty or longer than {MAX_NAME} bytes")
    return safe


def names_in(directory: Path, suffix: str) -> list[str]:
    """The decoded names of the directory's files with that suffix, sorted."""
    try:
        names = sorted(path.name for path in directory.iterdir())
    except FileNotFoundError:
        return []
    return [unquote(name[: len(name) - len(suffix)]) for name in names if name.endswith(suffix) and not name.startswith(".")]


def _write(path: Path, data: bytes) -> None:
    """Replaces the file, whole and on the disk."""
    draft = path.with_name(".draft")
    try:
        with draft.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.rename(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
