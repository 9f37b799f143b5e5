"""Backs up a workspace, its database and its storage, while servers and nodes work with both.

First the database is copied as it is at one moment, then the files. Files come and go meanwhile: a second look finds what was
moved from where the first one had not been to where it had. So whatever was there before the backup began, and is still there, is
in it. `server/restore.py` reads it.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from brickyard import __version__
from brickyard.config.settings import Settings
from brickyard.domain.secrets import key_entries
from brickyard.machine.bundles import BundleWriter, Unreadable
from brickyard.machine.drafts import drafted
from brickyard.server import workspace as joined
from brickyard.server.databasemove import OWN
from brickyard.server.datadir import DATABASE, Workspace
from brickyard.storage.private import WorkspaceError
from brickyard.storage.vault import Vault
from brickyard.storage.walking import in_log, walk
from brickyard.store import sqlite
from brickyard.store.databasecopy import copy_database, file_engine
from brickyard.store.opening import shown_url
from brickyard.store.tx import Tx

KIND = "a backup of a workspace"
SUFFIX = ".tar"
LOOKS = 3  # at the files: a busy workspace has new ones each time
KEY_TRIES = 3
LONGEST = 3072  # bytes of a file's path below the storage: longer ones could not be made again below every other directory
MOST_NAMED = 100

Tell = Callable[[str, int, int], None]  # what is being done, how much of it is done, of how much (0: unknown)


class BackupFailed(Exception):
    """There is no backup. The message is one line: why, and what to do."""


class Backup(NamedTuple):
    """A complete one."""

    file: Path
    workspace_id: str
    files: int
    size: int
    secrets_key: str  # where the key of its secrets is: none, inside, setting (encryption_key), lost
    unsteady: list[str]  # files that changed each time that they were read
    left_out: list[str]  # paths that are too long, the first of them: they are not there, nor what is below them


class _Database(NamedTuple):
    """The copy of the database, and what it says."""

    file: Path
    workspace_id: str
    schema: str
    clusters: frozenset[str]
    keys: set[str]  # the ids of the keys that its secrets are encrypted with


def back_up(chosen: Settings, target: Path, tell: Tell) -> Backup:
    """Writes the backup to a new file, or to one with a name of its own in a directory. Raises BackupFailed, WorkspaceError and
    StoreError."""
    target = target.resolve()
    file = target / f"brickyard-{time.strftime('%Y%m%d-%H%M%S')}{SUFFIX}" if target.is_dir() else target
    if os.path.lexists(file):
        raise BackupFailed(f"{file} exists already. Choose another name.")
    try:
        with drafted(file) as draft:
            return _Work(chosen, draft, tell).run(file)
    except Unreadable as error:
        raise BackupFailed(f"{error}. Run as the user who started the server. There is no backup.") from error
    except OSError as error:
        where = f" {error.filename}" if error.filename else ""
        raise BackupFailed(
            f"cannot write the backup to {file.parent}: {error.strerror or error}{where}. Free space there, or choose another "
            "place."
        ) from error


class _Work:
    """One backup."""

    def __init__(self, chosen: Settings, draft: Path, tell: Tell) -> None:
        self._chosen = chosen
        self._storage = Workspace(chosen.data_dir, chosen.storage_dir).storage
        self._draft = draft
        self._tell = tell
        self._size = 0
        self._left_out: list[str] = []

    def run(self, file: Path) -> Backup:
        self._refuse()
        started_ms = time.time_ns() // 1_000_000
        ring, where, database = self._database()
        about = {
            "version": __version__,
            "schema": database.schema,
            "workspace_id": database.workspace_id,
            "created_ms": started_ms,
            "secrets_key": where,
        }
        path = self._draft / file.name
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as stream:
            writer = BundleWriter(stream, KIND, about, moved=self._moved)
            writer.add(DATABASE, database.file)
            database.file.unlink()
            self._keys(writer, ring)
            for _ in range(LOOKS):
                if not self._look(writer, database):
                    break
            self._forget_dropped(writer)
            writer.close()
        count = sum(entry.kind == "file" for entry in writer.entries.values())
        unsteady = [name for name in writer.unsteady if name in writer.entries]
        return Backup(file, database.workspace_id, count, path.stat().st_size, where, unsteady, self._left_out)

    def _refuse(self) -> None:
        url = joined.database_url(self._chosen)
        if sqlite.is_new(url):
            raise WorkspaceError(f"there is no database {shown_url(url)}. Correct --data-dir, or database_url.")
        if not self._storage.workspace_id():
            raise WorkspaceError(f"the storage {self._storage.root} has no workspace.id. Correct --data-dir, or storage_url.")

    # ── the database, and the keys that belong to it ────────────────────────────────────────────────────────────────────────

    def _database(self) -> tuple[str, str, _Database]:
        """What secrets.key has, where the key of the secrets is, and the copy. A change of the key may begin or end meanwhile, so
        the file is read before and after, and the backup has the keys of both."""
        for number in range(1, KEY_TRIES + 1):
            before = self._key_text()
            database = self._copy()
            ring = "".join(f"{key}\n" for key in dict.fromkeys(key_entries(self._key_text()) + key_entries(before)))
            where = "none" if not database.keys else "setting" if self._chosen.encryption_key else "inside"
            if where == "inside" and Vault(path=Path(), given=ring or " ").trouble(database.keys):
                where = "lost"  # before now, or by several changes since
            if where != "lost" or number == KEY_TRIES:
                return ring, where, database
            database.file.unlink()
        raise AssertionError

    def _key_text(self) -> str:
        try:
            return self._storage.secrets_key_file.read_text()
        except FileNotFoundError:
            return ""

    def _copy(self) -> _Database:
        url, file = joined.database_url(self._chosen), self._draft / DATABASE
        copy_database(
            url, file, own=[key for key in OWN if key != joined.ID],
            tell=lambda progress: self._tell(f"database: {progress.table}", progress.rows, progress.of),
            pages=lambda done, of: self._tell("database", done, of),
        )  # fmt: skip
        engine = file_engine(file)
        try:
            with engine.begin() as connection:
                tx = Tx(connection, locking=False)
                known = joined.known_by(tx)
                if known is None:
                    raise WorkspaceError(f"the database {shown_url(url)} is new, so there is nothing to back up.")
                joined.check_storage(url, known, self._storage)
                joined.settle(tx, known)
                tx.delete_meta(joined.MOVING)
        finally:
            engine.dispose()
        with contextlib.closing(sqlite3.connect(file)) as copy:
            read: Callable[[str], set[Any]] = lambda query: {row[0] for row in copy.execute(query)}  # noqa: E731
            return _Database(
                file,
                known,
                next(iter(read("SELECT version_num FROM alembic_version"))),
                frozenset(read("SELECT cluster_id FROM clusters")),
                read("SELECT DISTINCT key_id FROM secrets"),
            )

    def _keys(self, writer: BundleWriter, ring: str) -> None:
        for path in (self._storage.id_file, *self._storage.key_files):
            if path == self._storage.secrets_key_file:
                if ring:
                    writer.data(path.name, ring.encode())
            else:
                writer.add(path.name, path)

    # ── the files ───────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _look(self, writer: BundleWriter, database: _Database) -> bool:
        """Adds what is not there yet; returns whether there was anything."""
        torn, new = set[str](), False
        # What Spark knows of tables comes before the tables: what it names is there by then.
        for top in (self._storage.metastore, *self._storage.kept):
            for path in walk(top, skips=lambda path: self._is_skipped(path, database)):
                name = str(path.relative_to(self._storage.root))
                if _is_too_long(name):
                    if name not in self._left_out and len(self._left_out) < MOST_NAMED:
                        self._left_out.append(name)
                    continue
                if name in writer.entries or self._is_left_out(path, database):
                    continue
                if (above := name.rpartition("/")[0]) and writer.kind(above) != "directory":
                    continue  # it was a file or a link when it was read, and nothing can be below those
                if writer.add(name, path, below=top.parent):
                    new = True
                elif log := in_log(name):
                    torn.add(log)
        for log in torn:  # a version was removed while it was read: the next look takes the log as it is then
            for name in [name for name in writer.entries if in_log(name) == log]:
                writer.leave_out(name)
        return new

    def _is_left_out(self, path: Path, database: _Database) -> bool:
        """Whether it belongs to a cluster that the copied database does not know, or is what the backup itself writes."""
        cluster = path.parent in (self._storage.clusters, self._storage.workspaces)
        return path == self._draft or (cluster and path.name not in database.clusters)

    def _is_skipped(self, path: Path, database: _Database) -> bool:
        """Whether what is in it is of no interest."""
        too_long = _is_too_long(str(path.relative_to(self._storage.root)))
        return too_long or self._is_left_out(path, database) or self._is_scratch(path)

    def _is_scratch(self, path: Path) -> bool:
        """Whether a driver empties it when it starts."""
        return path.name == "scratch" and path.parent.parent == self._storage.clusters

    def _forget_dropped(self, writer: BundleWriter) -> None:
        """Leaves out what Spark knows of tables that were dropped while their rows were read."""
        for name in [name for name in writer.entries if name.startswith(f"{self._storage.metastore.name}/")]:
            if not os.path.lexists(self._storage.root / name):
                writer.leave_out(name)

    def _moved(self, size: int) -> None:
        self._size += size
        self._tell("files", self._size, 0)


def _is_too_long(name: str) -> bool:
    return len(os.fsencode(name)) > LONGEST
