"""Determines a server's workspace: its database and its storage must belong to the same one.

A database that knows nothing ends every node and forgets every user, and a storage that has no id has none of the files and keys
that the database speaks of. So the two come together in two ways only: both are new, or an administrator says so (`adoption.py`).
"""

from __future__ import annotations

import os
import socket
import time

from sqlalchemy.engine import make_url

from brickyard import __version__
from brickyard.config.settings import Settings
from brickyard.domain.clock import Ids
from brickyard.domain.node import ServerAddress
from brickyard.machine.host import machine
from brickyard.server.datadir import DATABASE
from brickyard.storage.directory import Storage, StorageInUse
from brickyard.storage.private import WorkspaceError
from brickyard.store import sqlite
from brickyard.store.opening import shown_url
from brickyard.store.servers import About
from brickyard.store.store import Store
from brickyard.store.tx import Tx

PATIENCE_S = 5.0  # for a server that is creating the workspace
ID = "workspace_id"
# The id of a workspace that is being created: first noted here, then in the storage, then as ID. A server that is killed in
# between is followed by one that finds it here, and goes on.
CREATING = "workspace_creating"
MOVING = "workspace_moving"  # in both databases while `server/databasemove.py` copies one to the other
MOVED = "workspace_moved"  # in the old one afterwards: "NONCE URL"


def database_url(settings: Settings) -> str:
    """The URL of the server's database."""
    return settings.database_url or sqlite_url(settings)


def sqlite_url(settings: Settings) -> str:
    """The URL of the database that a server has without `database_url`."""
    return f"sqlite:///{settings.data_dir / DATABASE}"


def about(settings: Settings, url: str, providers: tuple[str, ...]) -> About:
    """What this server tells the others about itself."""
    return About(
        address=ServerAddress(url=url, file=str(settings.data_dir / "server.json")),
        host=socket.gethostname(),
        pid=os.getpid(),
        version=__version__,
        provider=",".join(providers),
        machine=machine() if "local" in providers else "",
        storage=str(settings.storage_dir.resolve()),
    )


def check_new(url: str, storage: Storage) -> None:
    """Refuses to make a database for a storage that a workspace has used: before anything is made, so that a backup can still be
    restored in its place. Raises WorkspaceError."""
    if (known := storage.workspace_id()) or storage.traces():
        raise _unknown_storage(url, storage, known)


def check_file(url: str, storage: Storage) -> None:
    """`check_new` if SQLite's file does not exist or is empty. Raises WorkspaceError."""
    if sqlite.is_new(url):
        check_new(url, storage)


def join(store: Store, storage: Storage, ids: Ids, *, shared: bool) -> str:
    """Holds the storage and returns the workspace's number: 16 digits, as at Databricks, generated at its first start.

    `shared`: other servers may use the same database and storage. Raises WorkspaceError unless the database and the storage name
    the same workspace, or both are new.
    """
    deadline = time.monotonic() + PATIENCE_S
    while (known := store.read_sync(known_by)) is None:
        # An empty database knows no nodes, so its server would end every node it finds: only allowed if nobody uses the storage.
        try:
            storage.hold(alone=True, patience_s=0.1)
        except StorageInUse:
            if time.monotonic() < deadline:
                continue  # perhaps that server is about to write the number
            raise
        _create(store, storage, ids)
    storage.hold(alone=not shared)
    check_storage(store.url, known, storage)
    storage.end_restoring()  # of a restore that was killed when all was in its place
    if store.read_sync(lambda tx: tx.get_meta(MOVING)) is not None:  # a copy that was begun and given up
        store.write_sync(lambda tx: tx.delete_meta(MOVING))
    return known


def check_storage(url: str, known: str, storage: Storage) -> None:
    """Refuses a storage that is not that workspace's, or has lost what made it so. Raises WorkspaceError."""
    if (found := storage.workspace_id()) not in ("", known):
        raise other_workspace(known, storage, found)
    if not found or not storage.has_key:
        missing = "workspace.key" if found else "workspace.id"
        raise WorkspaceError(
            f"the database {shown_url(url)} is that of workspace {known}, and the storage {storage.root} has no {missing}: its "
            "files and keys are missing. Mount its disk, restore it, or correct storage_url, data_dir or database_url. If it is "
            "lost for ever, run `brickyard adopt-storage`."
        )


def new_id(ids: Ids) -> str:
    """An id for a new workspace."""
    return str(10**15 + int(ids.hex(12), 16) % (9 * 10**15))


def known_by(tx: Tx) -> str | None:
    """The id of the workspace whose database this is; None if it is new. Raises WorkspaceError if it is no longer."""
    if (moved := tx.get_meta(MOVED)) is not None:
        raise WorkspaceError(
            f"this workspace's database has moved to {moved.partition(' ')[2]}. Set database_url to it. If `brickyard "
            "migrate-database` was interrupted, run it again."
        )
    return tx.get_meta(ID)


def _create(store: Store, storage: Storage, ids: Ids) -> None:
    """Makes database and storage one workspace. The storage is held alone."""
    found = storage.workspace_id()

    def begin(tx: Tx) -> str:
        tx.lock(ID)
        if (known := tx.get_meta(ID)) is not None:
            return known  # another server was faster
        if tx.get_meta(MOVING) is not None:
            raise WorkspaceError(
                f"the copy of a workspace to the database {shown_url(store.url)} has not been finished. Run `brickyard "
                "migrate-database` again; it goes on where it was."
            )
        creating = tx.get_meta(CREATING)
        if creating is None:
            check_new(store.url, storage)
            creating = new_id(ids)
            tx.set_meta(CREATING, creating)
        elif found not in ("", creating):
            raise _unknown_storage(store.url, storage, found)
        return creating

    number = store.write_sync(begin)
    if storage.belong_to(number) == number:
        storage.key()  # from now on it is missed: a new one would end all tokens
        store.write_sync(lambda tx: settle(tx, number))


def settle(tx: Tx, number: str) -> None:
    """Writes that this is the database of that workspace."""
    tx.lock(ID)
    if tx.get_meta(ID) is None:
        tx.set_meta(ID, number)
    tx.delete_meta(CREATING)


def _unknown_storage(url: str, storage: Storage, known: str) -> WorkspaceError:
    whose = f"workspace {known}" if known else f"a workspace ({', '.join(storage.traces())})"
    hint = ""
    if make_url(url).get_backend_name() != "sqlite" and (storage.root / DATABASE).exists():
        hint = " To move the workspace's SQLite database there, run `brickyard migrate-database`."
    return WorkspaceError(
        f"the storage {storage.root} has the files of {whose}, and the database {shown_url(url)} is new: all clusters, users and "
        f"secrets would be gone. Restore the database, or correct database_url, data_dir or storage_url.{hint} If the database "
        "is lost for ever, run `brickyard adopt-storage`."
    )


def other_workspace(known: str, storage: Storage, found: str) -> WorkspaceError:
    """The error for a database and a storage of different workspaces."""
    return WorkspaceError(
        f"the database belongs to workspace {known}, and the storage {storage.root} to {found}. Correct database_url or "
        "storage_url; after a restore, take both from the same backup."
    )
