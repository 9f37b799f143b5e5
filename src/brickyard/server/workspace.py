"""Which workspace a server belongs to: its database and its storage must be of the same one."""

from __future__ import annotations

import time

from brickyard.domain.clock import Ids
from brickyard.storage.directory import Storage, StorageInUse
from brickyard.store.store import Store
from brickyard.store.tx import Tx

PATIENCE_S = 5.0  # for a server that makes the workspace at this moment
_META = "workspace_id"


def join(store: Store, storage: Storage, ids: Ids, *, shared: bool) -> str:
    """Hold the storage and return the workspace's number: 16 digits, as Databricks has them, made at its first start.

    A database without a number takes the storage's, and the other way round: an empty database, a storage from before there were
    numbers. `shared`: other servers may have the same database and storage. Raises WorkspaceError.
    """
    deadline = time.monotonic() + PATIENCE_S
    while (known := store.read_sync(lambda tx: tx.get_meta(_META))) is None:
        # An empty database knows no nodes, so its server would end all that it finds: only where nobody uses the storage.
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
