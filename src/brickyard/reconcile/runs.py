"""The run loop: passes over runs, and the calls to drivers that they leave to do.

The database says which runs are due; wakes and timers in memory only make it look sooner. Every call to a driver is idempotent
and names the attempt that it is about, so a server that was killed between a call and the record of its answer loses and repeats
nothing: the next one asks again, and the driver tells what it has begun.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Protocol

import msgspec
import structlog

from brickyard.domain.clock import Clock, Ids
from brickyard.domain.errors import DatabaseTrouble
from brickyard.domain.run import Conclusion, Output, Run
from brickyard.plan.run import begun, closed, concluded
from brickyard.reconcile.runpass import Call, Calls, run_pass
from brickyard.store.changeset import Changes
from brickyard.store.store import Store
from brickyard.store.tx import Tx

log = structlog.get_logger(__name__)

POLL_S = 5.0  # for what no timer and no wake of this process knows of
AT_ONCE = 8  # passes
_BATCH, _MANY = 256, 1_000_000
_EVER_MS = 2**62


class NodeSilent(Exception):
    """The driver did not answer: whether it did as it was asked is not known."""


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """What became of an attempt, and what it left behind."""

    conclusion: Conclusion
    output: Output


class TaskNodes(Protocol):
    """How drivers are asked to run attempts. Every method may be repeated without harm, and raises NodeSilent."""

    async def begin(self, call: Call) -> Ended | None:
        """Have the driver take the attempt, unless it has it already; what became of it where it cannot be begun at all."""
        ...

    async def look(self, call: Call) -> Ended | None:
        """What became of an attempt that the driver took; None while it runs."""
        ...

    async def stop(self, call: Call) -> Output | None:
        """Interrupt an attempt that was stopped before it was over; what it had printed, until `end`."""
        ...

    async def end(self, call: Call) -> None:
        """End whatever the attempt runs, and forget it."""
        ...


class RunLoop:
    """`wake` from anywhere on the event loop; `run` until cancelled."""

    def __init__(self, *, store: Store, clock: Clock, ids: Ids, nodes: TaskNodes, wake_cluster: Callable[[str], None]) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        self._nodes = nodes
        self._wake_cluster = wake_cluster
        self._passes = asyncio.Semaphore(AT_ONCE)
        self._running: dict[int, asyncio.Task[None]] = {}
        self._again: set[int] = set()  # woken while running: one more pass when it is done
        self._timers: dict[int, asyncio.TimerHandle] = {}
        self._followers: dict[str, set[int]] = {}  # cluster -> runs that its changes concern
        self._follows: dict[int, frozenset[str]] = {}
        self._calls: dict[int, asyncio.Task[None]] = {}  # one at a time about each attempt
        self._missed: set[int] = set()  # attempts about which another call was wanted meanwhile
        self._stopped = False

    def wake(self, run_id: int) -> None:
        """Have a pass soon. Merges with one that is under way."""
        if self._stopped:
            return
        if run_id in self._running:
            self._again.add(run_id)
        else:
            self._running[run_id] = asyncio.create_task(self._drive(run_id))

    def changed(self, changes: Changes) -> None:
        """What a commit changed: clusters that runs wait for or are on."""
        for cluster_id in changes.clusters & self._followers.keys():
            for run_id in self._followers[cluster_id]:
                self.wake(run_id)

    async def run(self) -> None:
        """Poll for due runs until cancelled; everything that was begun for them ends with it."""
        self._stopped = False
        try:
            # First every active one, due or not: no timer and no wake of this process knows of them yet.
            await self._poll(_EVER_MS, _MANY)
            while True:
                await asyncio.sleep(POLL_S)
                await self._poll(self._clock.now_ms(), _BATCH)
        finally:
            self._stopped = True
            for timer in self._timers.values():
                timer.cancel()
            left = [*self._running.values(), *self._calls.values()]
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)

    async def _poll(self, until_ms: int, limit: int) -> None:
        while True:
            await self._store.usable()
            try:
                for run_id in await self._store.read(lambda tx: tx.runs.due(until_ms, limit), background=True):
                    self.wake(run_id)
            except DatabaseTrouble:
                continue
            except Exception:
                log.exception("run_poll_failed")
            return

    async def _drive(self, run_id: int) -> None:
        try:
            while True:
                self._again.discard(run_id)
                await self._store.usable()
                try:
                    async with self._passes:
                        await self._pass(run_id)
                except DatabaseTrouble:
                    continue
                if run_id not in self._again:
                    return
        except Exception:
            log.exception("run_pass_failed", run_id=run_id)  # the row is still due: the poll brings it back
        finally:
            self._running.pop(run_id, None)

    async def _pass(self, run_id: int) -> None:
        calls = await self._store.write(lambda tx: run_pass(tx, run_id, now=self._clock.now_ms(), ids=self._ids), background=True)
        self._follow(run_id, calls.follows)
        self._set_timer(run_id, calls)
        for cluster_id in calls.clusters:
            self._wake_cluster(cluster_id)
        for call in calls.begin:
            self._begin(call, self._take)
        for call in calls.look:
            self._begin(call, self._look)
        for call in calls.end:
            self._begin(call, self._end)

    def _follow(self, run_id: int, clusters: frozenset[str]) -> None:
        for cluster_id in self._follows.pop(run_id, frozenset()) - clusters:
            self._followers[cluster_id].discard(run_id)
            if not self._followers[cluster_id]:
                del self._followers[cluster_id]
        if clusters:
            self._follows[run_id] = clusters
        for cluster_id in clusters:
            self._followers.setdefault(cluster_id, set()).add(run_id)

    def _set_timer(self, run_id: int, calls: Calls) -> None:
        if (old := self._timers.pop(run_id, None)) is not None:
            old.cancel()
        if calls.due_ms is not None:
            delay_s = max(0.0, (calls.due_ms - self._clock.now_ms()) / 1000)
            self._timers[run_id] = asyncio.get_running_loop().call_later(delay_s, self.wake, run_id)

    # -- calls to drivers --------------------------------------------------------------------------------------------

    def _begin(self, call: Call, work: Callable[[Call], Coroutine[None, None, None]]) -> None:
        """Do it beside the passes: a driver that is slow to answer delays nothing but its own attempt."""
        key = call.attempt.task_run_id
        if key in self._calls:
            self._missed.add(key)  # when it is over, a pass decides anew
            return

        async def guarded() -> None:
            try:
                await work(call)
            except NodeSilent:
                pass  # the run's next pass repeats it, or finds that the driver is gone
            except DatabaseTrouble:
                self._missed.add(key)  # what was heard could not be recorded: ask again when it can be
            except Exception:
                log.exception("task_call_failed", run_id=call.run.run_id, task_run_id=key)
            finally:
                self._calls.pop(key, None)
                if key in self._missed:
                    self._missed.discard(key)
                    self.wake(call.run.run_id)

        self._calls[key] = asyncio.create_task(guarded())

    async def _take(self, call: Call) -> None:
        ended = await self._nodes.begin(call)
        if ended is not None:
            await self._conclude(call, ended)
        else:
            now = self._clock.now_ms()
            await self._record(call, lambda run: begun(run, call.attempt.task_run_id, now=now))

    async def _look(self, call: Call) -> None:
        if (ended := await self._nodes.look(call)) is not None:
            await self._conclude(call, ended)

    async def _end(self, call: Call) -> None:
        """What it printed is recorded before its driver forgets it."""
        if (output := await self._nodes.stop(call)) is not None:
            await self._keep(call, output)
        await self._nodes.end(call)
        await self._record(call, lambda run: closed(run, call.attempt.task_run_id))

    async def _conclude(self, call: Call, ended: Ended) -> None:
        """What became of the attempt and what it left behind, in one transaction: neither is ever known without the other."""
        attempt_id, now = call.attempt.task_run_id, self._clock.now_ms()
        await self._record(call, lambda run: concluded(run, attempt_id, ended.conclusion, now=now), ended.output)

    async def _keep(self, call: Call, output: Output) -> None:
        """An output on its own: of an attempt whose result was known before."""
        attempt_id = call.attempt.task_run_id
        await self._store.write(lambda tx: tx.runs.set_output(attempt_id, output), background=True)

    async def _record(self, call: Call, change: Callable[[Run], Run], output: Output | None = None) -> None:
        run_id = call.run.run_id

        def work(tx: Tx) -> None:
            run = tx.runs.get(run_id)
            if run is None:
                return  # it was deleted
            changed = change(run)
            if changed != run:
                tx.runs.update(changed)
                if output is not None:
                    tx.runs.set_output(call.attempt.task_run_id, output)
                tx.runs.wake(run_id)

        await self._store.write(work, background=True)
        self.wake(run_id)
