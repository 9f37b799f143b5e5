"""Calls that wait for the end of a cluster's operation."""

from __future__ import annotations

import asyncio
import contextlib
import time

from brickyard.clusters.v1.problems import existing
from brickyard.clusters.v1.reads import V1Reads, last_of
from brickyard.domain.errors import DatabaseTrouble, StartFailed, StartTimeout, StopTimeout
from brickyard.domain.v1.clusters import PhaseStatus, V1Cluster
from brickyard.store.store import Store

DEFAULT_WAIT_MINUTES = 10
LOOK_S = 5.0  # a waiting call looks at least this often, in case that it was not told of a change


class Waiting:
    """One per server. `minute_s`: how long the minutes of waits are."""

    def __init__(self, *, store: Store, reads: V1Reads, minute_s: float) -> None:
        self._store = store
        self._reads = reads
        self._minute_s = minute_s

    async def ready(self, view: V1Cluster, minutes: float | None) -> V1Cluster:
        """The cluster once it runs. Raises StartTimeout, StartFailed."""
        minutes, begun = minutes or DEFAULT_WAIT_MINUTES, last_of(view)
        ended = await self._ended(view, minutes)
        last = last_of(ended)
        if last.id == begun.id and last.status is PhaseStatus.IN_PROGRESS:
            raise StartTimeout(
                f"Cluster {view.id} does not run yet after {minutes} minutes. Its start goes on: {ended.status_details}",
                operation=begun.id,
            )
        if last.id != begun.id or last.status is PhaseStatus.FAILED:
            raise StartFailed(
                f"Cluster {view.id} did not start: {ended.status_details}", operation=last.id, current_state=ended.status.value
            )
        return ended

    async def stopped(self, view: V1Cluster, minutes: float | None) -> V1Cluster:
        """The cluster once its stop has ended. Raises StopTimeout."""
        minutes = minutes or DEFAULT_WAIT_MINUTES
        ended = await self._ended(view, minutes)
        if ended.operation is not None and ended.operation.status is PhaseStatus.IN_PROGRESS:
            raise StopTimeout(
                f"Cluster {view.id} has not stopped within {minutes} minutes. It goes on stopping.", operation=ended.operation.id
            )
        return ended

    async def _ended(self, view: V1Cluster, minutes: float) -> V1Cluster:
        """The cluster once the operation that is shown has ended, another has begun, or the time is over. Goes on waiting while
        the database is away."""
        until, begun = time.monotonic() + minutes * self._minute_s, last_of(view)
        with self._reads.bells.of(view.id) as bell:
            while True:
                bell.clear()
                left = until - time.monotonic()
                try:
                    now = await self._store.read(lambda tx: self._reads.viewer().one(tx, existing(tx, view.id)))
                except DatabaseTrouble:
                    if left <= 0:
                        raise
                else:
                    last = last_of(now)
                    if last.id != begun.id or last.status is not PhaseStatus.IN_PROGRESS or left <= 0:
                        return now
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(min(left, LOOK_S)):
                        await bell.wait()
