"""The fake API server's objects: versions, events for watches, graceful deletion, and the collection of what has lost its owners.

Lives on one event loop; nothing in it waits.
"""

from __future__ import annotations

import asyncio
import copy
import functools
import itertools
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from tests.kubernetes.applying import Owned
from tests.kubernetes.schemas import Document

ENDED = ("Succeeded", "Failed")


class Key(NamedTuple):
    plural: str
    namespace: str
    name: str


class Change(NamedTuple):
    version: int
    type: str  # ADDED, MODIFIED, DELETED
    plural: str
    object: Document


def now(after_s: float = 0.0) -> str:
    return (datetime.now(UTC) + timedelta(seconds=after_s)).strftime("%Y-%m-%dT%H:%M:%SZ")


class Objects:
    def __init__(self) -> None:
        self.all: dict[Key, Document] = {}
        self.owned: dict[Key, Owned] = {}
        self.changes: list[Change] = []
        self.forgotten = 0  # changes up to this version cannot be watched any more
        self._versions = itertools.count(1000)
        self.version = next(self._versions)
        self.bell = asyncio.Event()  # of the next change
        self.listeners: list[Callable[[Change], None]] = []

    def of(self, plural: str, namespace: str = "") -> Iterator[Document]:
        """Those of one namespace, or of all."""
        for key, found in [*self.all.items()]:
            if key.plural == plural and namespace in ("", key.namespace):
                yield found

    def add(self, key: Key, made: Document) -> Document:
        meta = made.setdefault("metadata", {})
        meta |= {"name": key.name, "uid": str(uuid.uuid4()), "creationTimestamp": now(), "generation": 1}
        if key.namespace:
            meta["namespace"] = key.namespace
        self.all[key] = made
        self._record("ADDED", key, made)
        self._collect()
        return made

    def put(self, key: Key, made: Document) -> Document:
        """Changes an object, if it is another one than before."""
        if made != self.all[key]:
            self.all[key] = made
            self._record("MODIFIED", key, made)
        return made

    def change(self, key: Key, how: Callable[[Document], None]) -> None:
        """Changes an object if it is still there."""
        if key in self.all:
            made = copy.deepcopy(self.all[key])
            how(made)
            self.put(key, made)

    def delete(self, key: Key, grace_s: int | None) -> None:
        """A pod on a machine ends gracefully: its kubelet deletes it at the end. Everything else goes at once."""
        found = self.all[key]
        given = found.get("spec", {}).get("terminationGracePeriodSeconds", 30) if grace_s is None else grace_s
        running = found.get("spec", {}).get("nodeName") and found.get("status", {}).get("phase") not in ENDED
        if key.plural != "pods" or not running or given == 0:
            self.remove(key)
            return
        until = now(given)
        if found["metadata"].get("deletionTimestamp", "9") <= until:
            return

        def mark(pod: Document) -> None:
            pod["metadata"] |= {"deletionTimestamp": until, "deletionGracePeriodSeconds": given}

        self.change(key, mark)

    def remove(self, key: Key) -> None:
        if (gone := self.all.pop(key, None)) is not None:
            self.owned.pop(key, None)
            self._record("DELETED", key, copy.deepcopy(gone))
            self._collect()

    def forget(self) -> None:
        """From now on, no watch can begin with what is past: 410 Gone."""
        self.forgotten = self.version
        self.changes.clear()

    def _record(self, kind: str, key: Key, made: Document) -> None:
        self.version = next(self._versions)
        made["metadata"]["resourceVersion"] = str(self.version)
        change = Change(self.version, kind, key.plural, copy.deepcopy(made))
        self.changes.append(change)
        for listener in self.listeners:
            listener(change)
        self.bell.set()
        self.bell = asyncio.Event()

    def _collect(self) -> None:
        """Removes objects none of whose owners is there, and owners that are gone from the others."""
        living = {found["metadata"]["uid"] for found in self.all.values()}
        for key, found in [*self.all.items()]:
            owners: list[Any] = found["metadata"].get("ownerReferences") or []
            left = [each for each in owners if each["uid"] in living]
            if owners and not left and key in self.all:
                self.remove(key)
            elif len(left) < len(owners):
                self.change(key, functools.partial(_keep, left))


def _keep(owners: list[Any], made: Document) -> None:
    made["metadata"]["ownerReferences"] = owners
