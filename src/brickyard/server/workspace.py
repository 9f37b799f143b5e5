"""Determines a server's workspace: its database and its storage must belong to the same one."""

from __future__ import annotations

import time

from brickyard.domain.clock import Ids
from brickyard.storage.directory import Storage, StorageInUse
from brickyard.store.store import Store
from brickyard.store.tx import Tx

PATIENCE_S = 5.0  # for a server that is creating the workspace
_META = "workspace_id"


def join(store: Store, storage: Storage, ids: Ids, *, shared: bool) -> str:
    """Holds the storage and returns the workspace's number: 16 digits, as at Databricks, generated at its first start.

    A database without a number takes the storage's, and vice versa: that is an empty database, or a storage older than the
    numbers. `shared`: other servers may use the same database and storage. Raises WorkspaceError.
    """
    deadline = time.monotonic() + PATIENCE_S
    while (known := store.read_sync(lambda tx: tx.get_meta(_META))) is None:
        # An empty database knows no nodes, so its server would end every node it finds: only allowed if nobody uses the storage.
        try:
            storage.hold(alone=True, patience_s=0.1)
        except StorageInUse:
            if time.monotonic() < deadline:
                continue  # perhaps that server is about to write the number
            raise
        _write(store, storage.workspace_id() or str(10**15 + int(ids.hex(12), 16) % (9 * 10**15)))
    storage.hold(alone=not shared)
    storage.belong_to(known)
    return known


def _write(store: Store, offered: str) -> None:
    def work(tx: Tx) -> None:
        tx.lock(_META)
        if tx.get_meta(_META) is None:
            tx.set_meta(_META, offered)

    store.write_sync(work)
