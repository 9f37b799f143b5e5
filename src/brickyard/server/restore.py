"""Restores a backup (`server/backup.py`) into an empty workspace, while no server runs.

All of it is first written beside its place and checked. Then the files are put into their place, and the database comes last: a
server that starts before refuses, since the storage is not that of a new workspace. What is not complete says so
(`Storage.restoring_file`), so that the next attempt may remove it and begin anew.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from sqlalchemy import inspect
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError

from brickyard import __version__
from brickyard.config.settings import Settings
from brickyard.machine import files
from brickyard.machine.bundles import BundleError, BundleReader
from brickyard.server import workspace as joined
from brickyard.server.backup import KIND
from brickyard.server.databasemove import OWN
from brickyard.server.datadir import DATABASE, Workspace, alone
from brickyard.storage.directory import Storage, holds_anything
from brickyard.storage.private import WorkspaceError, write_private
from brickyard.store import schema, sqlite
from brickyard.store.databasecopy import exclusive_postgres, file_engine
from brickyard.store.opening import shown_url
from brickyard.store.tablecopy import CopyError, TableCopy
from brickyard.store.tx import Tx

Tell = Callable[[str, int, int], None]  # as for a backup


class RestoreFailed(Exception):
    """The backup cannot be restored. The message is one line: why, and what to do."""


class Restored(NamedTuple):
    """A backup that is in its place, or was checked."""

    workspace_id: str
    version: str  # of the Brickyard that made it
    created_ms: int
    files: int
    size: int
    secrets_key: str  # none, inside, setting: where the key of its secrets is


def check_backup(file: Path, tell: Tell) -> Restored:
    """Reads all of a backup and compares it with its checksums. Raises RestoreFailed."""
    with _opened(file) as (reader, size):
        return _read(file, reader, None, _Progress(tell, size))


def restore(chosen: Settings, file: Path, tell: Tell) -> Restored:
    """Makes the workspace of the settings that of the backup. Raises RestoreFailed, WorkspaceError and StoreError."""
    with _opened(file) as (reader, size):
        _refuse_newer(file, reader.about)
        workspace, storage = Workspace(chosen.data_dir, chosen.storage_dir), Storage(chosen.storage_dir)
        with alone(workspace, storage):
            try:
                return _Restore(chosen, storage, tell).run(file, reader, size)
            except OSError as error:
                raise RestoreFailed(
                    f"cannot write to {error.filename or storage.root}: {error.strerror or error}. Free space there, and run the "
                    "command again."
                ) from error


@contextlib.contextmanager
def _opened(file: Path) -> Iterator[tuple[BundleReader, int]]:
    stream: BinaryIO
    try:
        stream = file.open("rb")
    except OSError as error:
        raise RestoreFailed(f"cannot read {file}: {error.strerror}.") from error
    with stream:
        try:
            reader = BundleReader(stream, KIND)
        except BundleError as error:
            raise RestoreFailed(f"{file} {error}.") from error
        yield reader, os.fstat(stream.fileno()).st_size


def _refuse_newer(file: Path, about: dict[str, Any]) -> None:
    found, version = str(about.get("schema")), about.get("version")
    if not found.isdigit() or found > schema.newest():
        raise RestoreFailed(
            f"{file} was made by Brickyard {version} (schema {found}), and this is Brickyard {__version__} (schema "
            f"{schema.newest()}), which cannot read it. Restore it with that version."
        )


def _read(file: Path, reader: BundleReader, into: Path | None, progress: _Progress) -> Restored:
    """Writes what is in the bundle into a directory, if there is one. Raises RestoreFailed and OSError."""
    storage = Storage(Path())
    known = {DATABASE, *(path.name for path in (storage.id_file, *storage.key_files, *storage.kept))}
    try:
        entries = reader.extract(into, accepts=lambda name: name.partition("/")[0] in known, moved=progress)
    except BundleError as error:
        raise RestoreFailed(f"{file} {error}. Nothing was restored.") from error
    if missing := {DATABASE, storage.id_file.name, "workspace.key"} - entries.keys():
        raise RestoreFailed(f"{file} lacks {min(missing)}. Nothing was restored.")
    about = reader.about
    return Restored(
        workspace_id=str(about.get("workspace_id")),
        version=str(about.get("version")),
        created_ms=int(about.get("created_ms", 0)),
        files=sum(entry.kind == "file" for entry in entries.values()),
        size=sum(entry.size for entry in entries.values()),
        secrets_key=str(about.get("secrets_key")),
    )


class _Progress:
    """Tells how far the reading is."""

    def __init__(self, tell: Tell, of: int) -> None:
        self._tell, self._of, self._done = tell, of, 0

    def __call__(self, size: int) -> None:
        self._done += size
        self._tell("files", self._done, self._of)


class _Restore:
    """One attempt. No server uses the storage."""

    def __init__(self, chosen: Settings, storage: Storage, tell: Tell) -> None:
        self._url = joined.database_url(chosen)
        self._storage = storage
        self._tell = tell

    def run(self, file: Path, reader: BundleReader, size: int) -> Restored:
        remote = make_url(self._url).get_backend_name() != "sqlite"
        with exclusive_postgres(self._url) if remote else contextlib.nullcontext() as target:
            known = self._known() if target is None else _known_by(target)
            if known and known == reader.about.get("workspace_id") and self._storage.restoring_file.exists():
                # A restore that was killed when all was in its place: no server has started since.
                done = _read(file, reader, None, _Progress(self._tell, size))
                self._storage.end_restoring()
                return done
            self._make_room(known)
            write_private(self._storage.restoring_file, f"{file}\n")
            drafts = self._storage.drafts
            try:
                drafts.mkdir(mode=0o700)
                done = _read(file, reader, drafts, _Progress(self._tell, size))
                self._upgrade(drafts / DATABASE, done.workspace_id)
                os.sync()  # it is on the disk before anything names it
            except BaseException:
                self._storage.end_restoring()
                raise
            self._place()
            if target is None:
                self._place_sqlite()
            else:
                self._copy(target, done.workspace_id)
            self._storage.end_restoring()
            return done

    def _make_room(self, known: str | None) -> None:
        """Removes what an attempt has left that did not end. Refuses a workspace that is not empty."""
        storage, unfinished = self._storage, self._storage.restoring_file.exists()
        if known is not None:
            raise WorkspaceError(
                f"the database {shown_url(self._url)} is that of a workspace. Restore into an empty data directory and database."
            )
        if unfinished:
            for path in (*storage.kept, storage.id_file, *storage.key_files):
                _remove(path)
            files.remove_tree(storage.drafts)
        elif storage.workspace_id() or storage.traces() or any(holds_anything(path) for path in storage.kept):
            raise WorkspaceError(
                f"the storage {storage.root} is that of a workspace ({storage.workspace_id() or 'it has files'}). Restore into "
                "an empty directory."
            )

    def _known(self) -> str | None:
        """Whose SQLite's database is; None if it is new."""
        if sqlite.is_new(self._url):
            return None
        engine = sqlite.engine(self._url)
        try:
            with engine.connect() as connection:
                with connection.begin():
                    empty = not inspect(connection).get_table_names()  # of a server that was refused
                return None if empty else _known_by(connection) or ""
        except DBAPIError:
            return ""
        finally:
            engine.dispose()

    def _upgrade(self, database: Path, workspace_id: str) -> None:
        """Brings the copied database up to date, so that its rows can go into another one."""
        engine = file_engine(database)
        try:
            schema.bring_up_to_date(engine)
            with engine.begin() as connection:
                known = Tx(connection, locking=False).get_meta(joined.ID)
        except (schema.StrangeSchema, sqlite3.Error) as error:
            raise RestoreFailed(f"its database {error}. Nothing was restored.") from error
        finally:
            engine.dispose()
        if not known or known != workspace_id:
            raise RestoreFailed(f"its database is that of workspace {known}, and its files are those of {workspace_id}.")

    def _place(self) -> None:
        """Puts the files where they belong."""
        drafts = self._storage.drafts
        for path in (*self._storage.kept, *self._storage.key_files, self._storage.id_file):
            if os.path.lexists(drafts / path.name):
                _remove(path)  # an empty directory, at most
                (drafts / path.name).rename(path)
        files.sync(self._storage.root)

    def _place_sqlite(self) -> None:
        path = Path(make_url(self._url).database or "")
        beside = path.with_name(f".{path.name}.restoring")  # the data directory may be on another disk than the storage
        shutil.copyfile(self._storage.drafts / DATABASE, beside)
        beside.chmod(0o600)
        files.sync(beside)
        for name in (f"{path.name}-wal", f"{path.name}-shm"):
            path.with_name(name).unlink(missing_ok=True)  # of an empty database
        beside.rename(path)
        files.sync(path.parent)

    def _copy(self, target: Any, workspace_id: str) -> None:
        engine = file_engine(self._storage.drafts / DATABASE)
        try:
            with engine.connect() as source, source.begin():
                copy = TableCopy(
                    source, target, own=OWN,
                    tell=lambda progress: self._tell(f"database: {progress.table}", progress.rows, progress.of),
                )  # fmt: skip
                with target.begin():
                    copy.clear()
                copy.copy()
                with target.begin():
                    copy.compare()
                    copy.number_on()
                    joined.settle(Tx(target, locking=False), workspace_id)
        except CopyError as error:
            raise RestoreFailed(f"{error}. Run the command again with another database.") from error
        finally:
            engine.dispose()


def _known_by(connection: Any) -> str | None:
    with connection.begin():
        tx = Tx(connection, locking=False)
        return tx.get_meta(joined.ID) or tx.get_meta(joined.MOVING) or tx.get_meta(joined.CREATING)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        files.remove_tree(path)
    else:
        path.unlink(missing_ok=True)
