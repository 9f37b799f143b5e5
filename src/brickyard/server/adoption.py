"""Makes a database and a storage one workspace although one of them knows nothing of the other, after its half was lost."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import NamedTuple

from brickyard.config.settings import Settings
from brickyard.domain.clock import Ids
from brickyard.server import workspace as joined
from brickyard.server.datadir import Workspace, alone
from brickyard.storage.directory import Storage
from brickyard.storage.private import WorkspaceError
from brickyard.store import membership, sqlite
from brickyard.store.opening import shown_url
from brickyard.store.store import Store


class Offer(NamedTuple):
    """What there would be afterwards, in lines for an administrator."""

    what: str
    kept: tuple[str, ...]
    lost: tuple[str, ...]


class Declined(Exception):
    """The administrator does not want it."""


def adopt(chosen: Settings, workspace: Workspace, accept: Callable[[Offer], bool]) -> str:
    """Joins the two if `accept` says so to what that means; returns the workspace's id. Before that, no database is made, and
    nothing is written to the storage. Raises Declined, WorkspaceError, StoreError and JoinRefused."""
    url, storage = joined.database_url(chosen), Storage(chosen.storage_dir)
    accepted = False

    def ask(offer: Offer) -> None:
        nonlocal accepted
        if not (accepted or accept(offer)):
            raise Declined
        accepted = True

    with contextlib.ExitStack() as opened:
        opened.enter_context(alone(workspace, storage))
        if sqlite.is_new(url):
            ask(_without_database(url, storage))
        opened.enter_context(contextlib.closing(membership.take(url, joined.about(chosen, "", chosen.providers))))
        store = Store.open(url, creates=lambda: ask(_without_database(url, storage)))
        opened.enter_context(contextlib.closing(store))
        return _join(store, storage, ask)


def _join(store: Store, storage: Storage, ask: Callable[[Offer], None]) -> str:
    known, found = store.read_sync(joined.known_by), storage.workspace_id()
    if known and found and known != found:
        raise joined.other_workspace(known, storage, found)
    if known and found and storage.has_key:
        raise WorkspaceError(
            f"the database and the storage {storage.root} are those of workspace {known}: start it with `brickyard up`."
        )
    ask(_without_storage(store.url, known, storage) if known else _without_database(store.url, storage))
    number = storage.belong_to(known or found or joined.new_id(Ids()))
    storage.key()
    store.write_sync(lambda tx: joined.settle(tx, number))
    return number


def _without_database(url: str, storage: Storage) -> Offer:
    known = storage.workspace_id()
    if not known and not storage.traces():
        raise WorkspaceError(
            f"the database {shown_url(url)} and the storage {storage.root} are both new: start with `brickyard up`."
        )
    directories = len(storage.cluster_directories())
    return Offer(
        f"The storage {storage.root} is that of workspace {known or 'unknown'}, and the database {shown_url(url)} is new.",
        kept=(
            "all files: dbfs:/, /Volumes, /Workspace, the tables in them",
            "the administrator's token and the keys in the storage",
            f"directories of {directories} clusters, logs and snapshots: no cluster shows them, and nothing removes them but you "
            f"({storage.clusters}, {storage.workspaces}, {storage.logs.root}, {storage.snapshots})",
        ),
        lost=(
            "all clusters, pools, policies, runs, schedules and their history; nodes that still run are ended",
            "all users, groups, permissions and tokens but the administrator's",
            "all secrets, the audit log and what was spent",
        ),
    )


def _without_storage(url: str, known: str, storage: Storage) -> Offer:
    there = storage.traces()
    lost = ["files, tables, clusters' directories, logs and snapshots that are not in the storage now"]
    if not storage.has_key:
        lost.append("all tokens and sessions but the administrator's token, which is made anew; running nodes are ended")
    if "secrets.key" not in there:
        lost.append("all secrets, unless encryption_key has their key")
    return Offer(
        f"The database {shown_url(url)} is that of workspace {known}, and the storage {storage.root} is new or incomplete.",
        kept=("all clusters, pools, policies, runs, users, groups and permissions", f"what is in {storage.root} now"),
        lost=tuple(lost),
    )
