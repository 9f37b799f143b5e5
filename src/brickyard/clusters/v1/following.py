"""Streams of a cluster's operation: as long as it goes on, and while the database is away for a moment."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Protocol

from brickyard.domain.caller import Caller
from brickyard.domain.errors import DatabaseTrouble, PermissionDenied, ResourceNotFound
from brickyard.domain.quotas import Quota, Slot
from brickyard.domain.v1.clusters import Operation, PhaseStatus
from brickyard.store.bells import Bells
from brickyard.store.store import Store
from brickyard.store.tx import Tx

BEAT_S = 15.0  # without news: the caller's token is checked again
PACE_S = 0.25  # between two events
STREAMS = Quota("operations that are followed", total=500, share=20, reserve=50, admin_share=20)  # of one server


class Operations(Protocol):
    """Where streams read: `V1Reads`."""

    def still(self, tx: Tx, caller: Caller, cluster_id: str, *, since_ms: int) -> Operation | None:
        """The operation, for a caller whose token is still valid and who may still see it; else None."""
        ...


class Following:
    """One stream, for a caller whose token was valid at `since_ms`."""

    def __init__(
        self,
        caller: Caller,
        *,
        store: Store,
        bells: Bells,
        cluster_id: str,
        known: Operation,
        since_ms: int,
        operations: Operations,
        slot: Slot,
    ) -> None:
        self._store = store
        self._bells = bells
        self._cluster_id = cluster_id
        self._known = known
        self._caller = caller
        self._since_ms = since_ms
        self._operations = operations
        self._slot = slot

    def close(self) -> None:
        """Gives back its share of the quota."""
        self._slot.release()

    async def pieces(self) -> AsyncIterator[Operation | None]:
        """The operation whenever it changes, until it has ended; None from time to time otherwise. Ends early if the caller's
        token is no longer valid, or the cluster or the permission is gone."""
        last = self._known
        yield last
        with self._bells.of(self._cluster_id) as bell:
            while last.status is PhaseStatus.IN_PROGRESS:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(BEAT_S):
                        await bell.wait()
                bell.clear()
                try:
                    seen = await self._store.read(self._still)
                except (ResourceNotFound, PermissionDenied):
                    return
                except DatabaseTrouble:
                    yield None
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(BEAT_S):
                            await self._store.usable()
                    bell.set()  # what has changed meanwhile was not told
                    continue
                if seen is None:
                    return
                yield seen if seen != last else None
                last = seen
                await asyncio.sleep(PACE_S)

    def _still(self, tx: Tx) -> Operation | None:
        return self._operations.still(tx, self._caller, self._cluster_id, since_ms=self._since_ms)
