"""Notifies watchers which clusters, pools and runs have changed. For one event loop.

Notifications contain only ids: the receiver reads the objects. Changes close together are sent together, and a watcher that may
have missed some is told to read everything again. So nothing needs to be kept for long, and any server can notify.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections import Counter, deque
from collections.abc import AsyncIterator, Collection
from typing import NamedTuple

from brickyard.domain.access import ObjectKind
from brickyard.domain.clock import Clock, Ids
from brickyard.domain.cluster import Cluster
from brickyard.domain.errors import DatabaseTrouble, QuotaExceeded, RequestLimitExceeded
from brickyard.domain.pools import Pool
from brickyard.domain.run import Run
from brickyard.services.access import Authorizer
from brickyard.services.caller import Caller
from brickyard.services.tokens import renewed
from brickyard.store.changeset import Changes as Changeset
from brickyard.store.store import Store
from brickyard.store.tx import Tx

IDLE_S = 15.0  # without a change; then a keep-alive is sent and the caller's token checked again
PACE_S = 0.25  # between two events of a watcher, while changes accumulate; each event costs a read
PACE_OF_EACH_S = 0.002  # added per watcher: together they make at most about 500 reads a second
RETRY_S = 2.0  # after a failed read
MOST_OF_USER, MOST = 50, 1_000  # watchers
MOST_IDS = 1_000  # pending for a watcher; beyond this it is told to read everything
REMEMBERED = 1_000  # commits, for watchers that reconnect
_POSITION = re.compile(r"([0-9a-f]+)-([0-9]{1,18})")


WATCHED = (ObjectKind.CLUSTER, ObjectKind.INSTANCE_POOL, ObjectKind.RUN)


class Key(NamedTuple):
    """An object."""

    kind: ObjectKind
    id: str


Versions = dict[Key, int]  # a version grows with every change of the object


class Changed(NamedTuple):
    """What has changed; None: anything may have. To continue from here, pass `position` to `watch`."""

    position: str
    objects: Versions | None


class Changes:
    """All watchers of this server."""

    def __init__(self, *, store: Store, clock: Clock, ids: Ids, authorizer: Authorizer) -> None:
        self._store = store
        self._clock = clock
        self._authorizer = authorizer
        self._epoch = ids.hex(16)  # positions from another or an earlier server are not valid here
        self._number = 0
        self._recent: deque[tuple[int, frozenset[Key]]] = deque(maxlen=REMEMBERED)
        self._watchers: set[Watcher] = set()
        self._of_user: Counter[str] = Counter()
        self.closed = False
        store.on_commit(self._committed)
        store.on_gap(self._missed)

    async def watch(self, caller: Caller, *, kinds: Collection[ObjectKind] = WATCHED, after: str = "") -> Watcher:
        """A watcher of objects of these kinds; close it after use. `after` is the position of the last change that the client has
        seen; without one, or if it is no longer known, the watcher is first told that anything may have changed. Raises
        QuotaExceeded."""
        if self._of_user[caller.user_name] >= MOST_OF_USER or len(self._watchers) >= MOST:
            raise QuotaExceeded(
                f"{caller.user_name} has {self._of_user[caller.user_name]} streams open, {len(self._watchers)} in total; "
                f"at most {MOST_OF_USER} and {MOST} are allowed. Close one first."
            )
        watcher = Watcher(self, caller, frozenset(kinds), self._since(after), since_ms=self._clock.now_ms())
        self._watchers.add(watcher)
        self._of_user[caller.user_name] += 1
        try:
            await self._store.read(lambda tx: [self._authorizer.visible(tx, caller, kind) for kind in watcher.kinds])
        except BaseException:
            self.leave(watcher)
            raise
        return watcher

    def leave(self, watcher: Watcher) -> None:
        """Removes the watcher."""
        if watcher in self._watchers:
            self._watchers.remove(watcher)
            name = watcher.caller.user_name
            self._of_user[name] -= 1
            if not self._of_user[name]:
                del self._of_user[name]

    def close(self) -> None:
        """Ends all watchers, because the server stops."""
        self.closed = True
        for watcher in self._watchers:
            watcher.wake.set()

    @property
    def position(self) -> str:
        """The position after all changes so far."""
        return f"{self._epoch}-{self._number}"

    @property
    def pace_s(self) -> float:
        """How long a watcher waits between two events."""
        return PACE_S + PACE_OF_EACH_S * len(self._watchers)

    async def shown(self, watcher: Watcher, objects: Versions) -> Versions | None:
        """Those of the objects that the caller may see, in order; None if their token is no longer valid."""

        def work(tx: Tx) -> Versions | None:
            caller = renewed(tx, watcher.caller, now_ms=self._clock.now_ms(), made_by_ms=watcher.since_ms)
            if caller is None:
                return None
            shown: set[Key] = set()
            for kind in watcher.kinds:
                visible = self._authorizer.visible(tx, caller, kind)
                changed = {key for key in objects if key.kind is kind}
                if visible.owners is None:
                    shown |= changed
                else:
                    shown |= {key for key in changed if visible.shows(_owner(tx, key))}
            return {key: objects[key] for key in sorted(shown)}

        return await self._store.read(work)

    def _since(self, after: str) -> Versions | None:
        """What has changed after a position, or None if that is not known."""
        match = _POSITION.fullmatch(after)
        if match is None or match[1] != self._epoch:
            return None
        known, seen = (self._recent[0][0] if self._recent else self._number + 1), int(match[2])
        if not known - 1 <= seen <= self._number:
            return None
        return {key: number for number, keys in self._recent if number > seen for key in keys}

    def _committed(self, changes: Changeset) -> None:
        keys = frozenset(
            [
                *(Key(ObjectKind.CLUSTER, each) for each in changes.clusters),
                *(Key(ObjectKind.INSTANCE_POOL, each) for each in changes.pools),
                *(Key(ObjectKind.RUN, str(each)) for each in changes.runs),
            ]
        )
        if not keys:
            return
        self._number += 1
        self._recent.append((self._number, keys))
        for watcher in self._watchers:
            watcher.add(dict.fromkeys(keys, self._number))

    def _missed(self) -> None:
        self._number += 1
        self._recent.clear()
        for watcher in self._watchers:
            watcher.add(None)


class Watcher:
    """One client's view of the changes. Created by `Changes.watch`."""

    def __init__(
        self, changes: Changes, caller: Caller, kinds: frozenset[ObjectKind], pending: Versions | None, *, since_ms: int
    ) -> None:
        self.caller = caller
        self.kinds = kinds
        self.since_ms = since_ms
        self.wake = asyncio.Event()
        self._changes = changes
        self._pending: Versions | None = {}
        self.add(pending)

    def add(self, objects: Versions | None) -> None:
        """Records that these objects have changed; None: any may have."""
        if objects is not None:
            objects = {key: version for key, version in objects.items() if key.kind in self.kinds}
        if self._pending is not None and objects is not None and len(self._pending) + len(objects) <= MOST_IDS:
            for key, version in objects.items():
                self._pending[key] = max(version, self._pending.get(key, 0))
        else:
            self._pending = None
        if self._pending is None or self._pending:
            self.wake.set()

    def close(self) -> None:
        """Stops watching."""
        self._changes.leave(self)

    async def changes(self) -> AsyncIterator[Changed | None]:
        """Yields changes as they happen, and None from time to time otherwise. Ends when the server stops or the caller's token
        is no longer valid."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(IDLE_S):
                    await self.wake.wait()
            if self._changes.closed:
                return
            position, pending = self._changes.position, self._pending
            self.wake.clear()
            self._pending = {}
            try:
                shown = await self._changes.shown(self, pending or {})
            except (DatabaseTrouble, RequestLimitExceeded):
                self.add(pending)
                yield None
                await asyncio.sleep(RETRY_S)
                continue
            if shown is None:
                return
            yield Changed(position, None if pending is None else shown) if shown or pending is None else None
            await asyncio.sleep(self._changes.pace_s)


def _owner(tx: Tx, key: Key) -> str:
    """Who made the object; "" if it no longer exists."""
    found: Cluster | Pool | Run | None
    if key.kind is ObjectKind.CLUSTER:
        found = tx.clusters.get(key.id)
    elif key.kind is ObjectKind.INSTANCE_POOL:
        found = tx.pools.get(key.id)
    else:
        found = tx.runs.get(int(key.id))
    return found.creator_user_name if found is not None else ""
