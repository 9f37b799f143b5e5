"""What is on record of all instances, for the monitor.

A workspace has tens of thousands of rows, and while clusters start, some of them change all the time. So a server that is alone
reads the rows of changed clusters only, and keeps what it knows of the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from brickyard.domain.instances import InstanceState
from brickyard.store.changeset import Changes
from brickyard.store.store import Store
from brickyard.store.tx import Tx

MOST = 2_000  # changed clusters; if there are more, all rows are read

States = Mapping[str, tuple[str, InstanceState]]  # instance id -> its owner, and its recorded state
Records = Mapping[str, States]  # by the name of the provider


class InstanceRecords:
    """For one event loop. Rows that name no provider are those of `default`."""

    def __init__(self, *, store: Store, default: str) -> None:
        self._store = store
        self._default = default
        self._known: Records | None = None
        self._changed: set[str] = set()  # clusters whose instances may have changed since
        self._stale = True  # any instance may have changed since
        store.on_commit(self._committed)
        store.on_gap(self._missed)

    async def before(self) -> Records:
        """What was on record at some time before now. Raises DatabaseTrouble."""
        if self._known is not None:
            return self._known
        return await self._store.read(self._all, background=True)

    async def now(self) -> Records:
        """What is on record now: the same object, if nothing has changed. Raises DatabaseTrouble."""
        known, alone, changed = self._known, self._store.alone, self._changed
        if known is not None and alone and not (self._stale or changed):
            return known
        some = known is not None and alone and not self._stale and len(changed) <= MOST
        self._stale, self._changed = False, set()  # before the read: what changes meanwhile is read the next time
        try:
            if some and known is not None:
                fresh = await self._store.read(lambda tx: tx.instances.by_provider(changed), background=True)
                self._known = self._merged(known, changed, fresh)
            else:
                self._known = await self._store.read(self._all, background=True)
        except BaseException:
            self._stale = True
            raise
        return self._known

    def _committed(self, changes: Changes) -> None:
        self._changed |= changes.clusters
        # Instances of pools change hands: which rows are meant is not known from whose they were.
        self._stale = self._stale or bool(changes.pools)

    def _missed(self) -> None:
        self._stale = True

    def _all(self, tx: Tx) -> Records:
        return self._named(tx.instances.by_provider())

    def _merged(self, known: Records, changed: set[str], fresh: Records) -> Records:
        """What is known, with what was read of the changed clusters."""
        fresh = self._named(fresh)
        found: dict[str, Any] = {}
        for name in known.keys() | fresh.keys():
            kept = {key: row for key, row in known.get(name, {}).items() if row[0] not in changed}
            kept |= fresh.get(name, {})
            if kept or name == self._default:
                found[name] = kept
        return found

    def _named(self, found: Records) -> Records:
        name = self._default
        if "" not in found and name in found:
            return found
        others = {each: states for each, states in found.items() if each}
        return {**others, name: {**found.get("", {}), **found.get(name, {})}}
