"""Notifies watchers which clusters, policies, pools and runs have changed. For one event loop.

Notifications contain only ids: the receiver reads the objects. Changes close together are sent together, and a watcher that may
have missed some is told to read everything again. So nothing needs to be kept for long, and any server can notify.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Collection
from typing import NamedTuple

from brickyard.access import Authorizer
from brickyard.access.credentials import renewed
from brickyard.access.objects import of_cluster, of_policy, of_pool, of_run
from brickyard.clusters.policies import find_policy
from brickyard.domain.access import ObjectKind, SecurableObject
from brickyard.domain.caller import Caller
from brickyard.domain.clock import Clock, Ids
from brickyard.domain.errors import DatabaseTrouble, QuotaExceeded, RequestLimitExceeded
from brickyard.domain.quotas import Occupancy, Quota, Slot
from brickyard.plan.access import holders
from brickyard.store.changeset import Changes as Changeset
from brickyard.store.store import Store
from brickyard.store.tx import Tx

IDLE_S = 15.0  # without a change; then a keep-alive is sent and the caller's token checked again
PACE_S = 0.25  # between two events of a watcher, while changes accumulate; each event costs a read
PACE_OF_EACH_S = 0.002  # added per watcher: together they make at most about 500 reads a second
RETRY_S = 2.0  # after a failed read
WATCHERS = Quota("open streams of changes", total=1_000, share=50, reserve=100, admin_share=50)  # of one server
MOST_IDS = 1_000  # pending for a watcher; beyond this it is told to read everything
REMEMBERED = 1_000  # commits, for watchers that reconnect
_POSITION = re.compile(r"([0-9a-f]+)-([0-9]{1,18})")


WATCHED = (ObjectKind.CLUSTER, ObjectKind.CLUSTER_POLICY, ObjectKind.INSTANCE_POOL, ObjectKind.RUN)


class Key(NamedTuple):
    """An object."""

    kind: ObjectKind
    id: str


Versions = dict[Key, int]  # a version grows with every change of the object


class Changed(NamedTuple):
    """What has changed; None: anything may have. To continue from here, pass `position` to `watch`. Calls no longer find what is
    `deleted`, which is among the objects."""

    position: str
    objects: Versions | None
    deleted: frozenset[Key] = frozenset()


class Changes:
    """All watchers of this server."""

    def __init__(self, *, store: Store, clock: Clock, ids: Ids, authorizer: Authorizer) -> None:
        self._store = store
        self._clock = clock
        self._authorizer = authorizer
        self._epoch = ids.hex(16)  # positions from another or an earlier server are not valid here
        self._number = 0
        self._recent: deque[tuple[int, frozenset[Key]]] = deque(maxlen=REMEMBERED)
        self._lost: OrderedDict[Key, dict[tuple[str, str], int]] = OrderedDict()  # since which change who cannot see what
        self._watchers: set[Watcher] = set()
        self._open = Occupancy()
        self.closed = False
        store.on_commit(self._committed)
        store.on_gap(self._missed)

    async def watch(self, caller: Caller, *, kinds: Collection[ObjectKind] = WATCHED, after: str = "") -> Watcher:
        """A watcher of objects of these kinds; close it after use. `after` is the position of the last change that the client has
        seen; without one, or if it is no longer known, the watcher is first told that anything may have changed. Raises
        QuotaExceeded."""
        pending = self._since(after)
        told = int(after.rpartition("-")[2]) if pending is not None else self._number
        slot = self._open.enter(WATCHERS, caller, error=QuotaExceeded)
        watcher = Watcher(self, caller, frozenset(kinds), pending, told=told, since_ms=self._clock.now_ms(), slot=slot)
        self._watchers.add(watcher)
        try:
            await self._store.read(lambda tx: [self._authorizer.visible(tx, caller, kind) for kind in watcher.kinds])
        except BaseException:
            self.leave(watcher)
            raise
        return watcher

    def leave(self, watcher: Watcher) -> None:
        """Removes the watcher."""
        self._watchers.discard(watcher)
        watcher.slot.release()

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
    def number(self) -> int:
        """How many changes there were so far."""
        return self._number

    @property
    def pace_s(self) -> float:
        """How long a watcher waits between two events."""
        return PACE_S + PACE_OF_EACH_S * len(self._watchers)

    async def shown(self, watcher: Watcher, objects: Versions) -> tuple[Versions, frozenset[Key]] | None:
        """Those of the objects that the caller may see, in order, and which of them are deleted; None if the caller's token is no
        longer valid."""

        def work(tx: Tx) -> tuple[Versions, frozenset[Key]] | None:
            caller = renewed(tx, watcher.caller, now_ms=self._clock.now_ms(), made_by_ms=watcher.since_ms)
            if caller is None:
                return None
            shown: set[Key] = set()
            for kind in watcher.kinds:
                changed = [key for key in objects if key.kind is kind]
                if self._authorizer.visible(tx, caller, kind).everything:
                    shown.update(changed)
                    continue
                existing = [(key, on) for key in changed if (on := _object(tx, key)) is not None]
                seen = self._authorizer.shown(tx, caller, kind, existing, lambda each: each[1])
                shown.update(key for key, _ in seen)
                shown.update(key for key in changed if self._has_lost(caller, key, after=watcher.told))
            return {key: objects[key] for key in sorted(shown)}, frozenset(shown - _existing(tx, shown))

        return await self._store.read(work)

    def _has_lost(self, caller: Caller, key: Key, *, after: int) -> bool:
        """Whether the caller could see the object until a change later than `after`: it is told that the object is gone."""
        lost = self._lost.get(key, {})
        who = [("", caller.user_name), *((holder, "") for holder in holders(caller))]
        return any(lost.get(each, 0) > after for each in who)

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
        if changes.identity:
            for watcher in self._watchers:
                watcher.wake.set()  # to look again at what its caller may see
        keys = frozenset(
            [
                *(Key(ObjectKind.CLUSTER, each) for each in changes.clusters),
                *(Key(ObjectKind.CLUSTER_POLICY, each) for each in changes.policies),
                *(Key(ObjectKind.INSTANCE_POOL, each) for each in changes.pools),
                *(Key(ObjectKind.RUN, str(each)) for each in changes.runs),
            ]
        )
        if not keys:
            return
        self._number += 1
        self._recent.append((self._number, keys))
        for each in changes.lost:
            key = Key(ObjectKind(each.kind), each.id)
            self._lost.setdefault(key, {})[each.holder, each.owner] = self._number
            self._lost.move_to_end(key)
        while len(self._lost) > REMEMBERED:
            self._lost.popitem(last=False)
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
        self,
        changes: Changes,
        caller: Caller,
        kinds: frozenset[ObjectKind],
        pending: Versions | None,
        *,
        told: int,
        since_ms: int,
        slot: Slot,
    ) -> None:
        self.slot = slot
        self.caller = caller
        self.kinds = kinds
        self.since_ms = since_ms
        self.told = told  # the number of the last change that the client has been told about, or could not see
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
            position, number, pending = self._changes.position, self._changes.number, self._pending
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
            self.told = number
            versions, deleted = shown
            if pending is None:
                yield Changed(position, None)
            else:
                yield Changed(position, versions, deleted) if versions else None
            await asyncio.sleep(self._changes.pace_s)


def _existing(tx: Tx, keys: Collection[Key]) -> set[Key]:
    """Those that calls find: of a deleted cluster or pool, the row may still be there."""
    clusters = tx.clusters.undeleted(key.id for key in keys if key.kind is ObjectKind.CLUSTER)
    found = {Key(ObjectKind.CLUSTER, cluster_id) for cluster_id in clusters}
    for key in keys:
        if key.kind is ObjectKind.INSTANCE_POOL:
            pool = tx.pools.get(key.id)
            there = pool is not None and pool.active
        else:
            there = key.kind is not ObjectKind.CLUSTER and _object(tx, key) is not None
        if there:
            found.add(key)
    return found


def _object(tx: Tx, key: Key) -> SecurableObject | None:
    """The object; None if it no longer exists."""
    if key.kind is ObjectKind.CLUSTER:
        cluster = tx.clusters.get(key.id)
        return None if cluster is None else of_cluster(cluster)
    if key.kind is ObjectKind.INSTANCE_POOL:
        pool = tx.pools.get(key.id)
        return None if pool is None else of_pool(pool)
    if key.kind is ObjectKind.CLUSTER_POLICY:
        policy = find_policy(tx, key.id)
        return None if policy is None else of_policy(policy)
    run = tx.runs.get(int(key.id))
    return None if run is None else of_run(run)
