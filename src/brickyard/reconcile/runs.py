"""The run loop: passes over runs, and the calls to drivers that they leave to do.

The database says which runs are due; wakes and timers in memory only make it look sooner. Every call to a driver is idempotent
and names the attempt that it is about, so a server that was killed between a call and the record of its answer loses and repeats
nothing: the next one asks again, and the driver tells what it has begun.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Protocol

import msgspec
import structlog

from brickyard.domain.clock import Clock, Ids
from brickyard.domain.errors import DatabaseTrouble
from brickyard.domain.run import Conclusion, Output, Run
from brickyard.plan.run import begun, closed, concluded
from brickyard.reconcile.loop import CLAIM_MS, KeyedLoop
from brickyard.reconcile.runpass import Call, Calls, pass_over_run
from brickyard.store.changeset import Changes
from brickyard.store.runs import RunRows
from brickyard.store.store import Store
from brickyard.store.tx import Tx

log = structlog.get_logger(__name__)

AT_ONCE = 8  # passes
_EVER_MS, _MANY = 2**62, 1_000_000
_EARLY_MS = 50  # that a timer may ring before its time by the machine's clock


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


class RunLoop(KeyedLoop[int]):
    """`wake` from anywhere on the event loop; `run` until cancelled.

    Whoever made the last pass over a run follows it: sets a timer for the next one, and hears of changes of its clusters. An
    active run is due every few seconds, so another server's poll finds one whose server is no more; a server whose timer comes
    second forgets it.
    """

    def __init__(self, *, store: Store, clock: Clock, ids: Ids, nodes: TaskNodes, wake_cluster: Callable[[str], None]) -> None:
        super().__init__(name="runs", store=store, clock=clock, at_once=AT_ONCE)
        self._ids = ids
        self._nodes = nodes
        self._wake_cluster = wake_cluster
        self._followers: dict[str, set[int]] = {}  # cluster -> runs that its changes concern
        self._follows: dict[int, frozenset[str]] = {}
        self._calls: dict[int, asyncio.Task[None]] = {}  # one at a time about each attempt
        self._missed: set[int] = set()  # attempts about which another call was wanted meanwhile

    def rows(self, tx: Tx) -> RunRows:
        return tx.runs

    def changed(self, changes: Changes) -> None:
        """What a commit changed: clusters that runs wait for or are on."""
        for cluster_id in changes.clusters & self._followers.keys():
            for run_id in self._followers[cluster_id]:
                self.wake(run_id)

    async def run(self) -> None:
        """Poll for due runs until cancelled; everything that was begun for them ends with it."""
        try:
            if self._store.alone:  # all are ours, and no timer and no wake of this process knows of them yet
                await self._wake_all()
            await super().run()
        finally:
            left = list(self._calls.values())
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)

    async def _wake_all(self) -> None:
        while True:
            await self._store.usable()
            with contextlib.suppress(DatabaseTrouble):
                for run_id in await self._store.read(lambda tx: tx.runs.due(_EVER_MS, _MANY), background=True):
                    self.wake(run_id)
                return

    async def work(self, key: int, *, timed: bool) -> int | None:
        now, claims = self._clock.now_ms(), timed and not self._store.alone

        def one_pass(tx: Tx) -> Calls:
            if claims and not tx.runs.claim_one(key, now + _EARLY_MS, now + CLAIM_MS):
                return Calls()  # another server has made a pass meanwhile, and follows the run
            return pass_over_run(tx, key, now=now, ids=self._ids)

        calls = await self._store.write(one_pass, background=True)
        self._follow(key, calls.follows)
        for cluster_id in calls.clusters:
            self._wake_cluster(cluster_id)
        for call in calls.begin:
            self._begin(call, self._take)
        for call in calls.look:
            self._begin(call, self._look)
        for call in calls.end:
            self._begin(call, self._end)
        return calls.due_ms

    def _follow(self, run_id: int, clusters: frozenset[str]) -> None:
        for cluster_id in self._follows.pop(run_id, frozenset()) - clusters:
            self._followers[cluster_id].discard(run_id)
            if not self._followers[cluster_id]:
                del self._followers[cluster_id]
        if clusters:
            self._follows[run_id] = clusters
        for cluster_id in clusters:
            self._followers.setdefault(cluster_id, set()).add(run_id)

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
