"""The run loop: passes over runs, and the calls to drivers that they request.

The database says which runs are due; wakes and timers in memory only make the loop look sooner. Every call to a driver is
idempotent and names its attempt, so if a server is killed between a call and the record of its answer, nothing is lost or
repeated: the next server asks again, and the driver tells what it has begun.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Protocol

import msgspec
import structlog

from brickyard.domain.clock import Clock, Ids
from brickyard.domain.errors import ApiError, DatabaseTrouble, RequestLimitExceeded
from brickyard.domain.run import Attempt, Conclusion, Output, Run, Task
from brickyard.domain.wakeups import Wake
from brickyard.plan.attempts import begun, closed, concluded, run_made
from brickyard.plan.childruns import attempt_to_begin, refused
from brickyard.reconcile.loop import CLAIM_MS, KeyedLoop
from brickyard.reconcile.runpass import Call, Calls, ChildCall, pass_over_run
from brickyard.reconcile.runrights import Rights
from brickyard.store.changeset import Changes
from brickyard.store.runs import RunRows
from brickyard.store.store import Store
from brickyard.store.tx import Tx

log = structlog.get_logger(__name__)

AT_ONCE = 8  # concurrent passes
_EVER_MS, _MANY = 2**62, 1_000_000
_EARLY_MS = 50  # a timer may ring this much before its time by the machine's clock


class NodeSilent(Exception):
    """The driver did not answer: whether it did what it was asked is unknown."""


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of an attempt, and its output."""

    conclusion: Conclusion
    output: Output


class TaskNodes(Protocol):
    """The calls to drivers that run attempts. Every method may safely be repeated, and raises NodeSilent."""

    async def begin(self, call: Call) -> Ended | None:
        """Has the driver accept the attempt, unless it already has. Returns the outcome if it cannot be begun at all."""
        ...

    async def look(self, call: Call) -> Ended | None:
        """The outcome of an attempt that the driver accepted; None while it is running."""
        ...

    async def stop(self, call: Call) -> Output | None:
        """Interrupts a stopped attempt; returns what it has printed, which is known until `end`."""
        ...

    async def end(self, call: Call) -> None:
        """Ends everything that the attempt runs, and forgets it."""
        ...


class ChildRuns(Protocol):
    """Those who make runs of other jobs for tasks (`features.jobs`)."""

    def make(self, tx: Tx, run: Run, task: Task, attempt: Attempt) -> Run:
        """Inserts the attempt's run, due at once. Raises ApiError if there can be none."""
        ...


class RunLoop(KeyedLoop[int]):
    """The loop over runs.

    The server that made the last pass over a run follows it: it sets a timer for the next pass and hears of changes to the run's
    clusters. An active run is due every few seconds, so if that server is gone, another server's poll finds the run; a server
    whose timer comes second forgets it.
    """

    def __init__(
        self, *, store: Store, clock: Clock, ids: Ids, nodes: TaskNodes, rights: Rights, wake_cluster: Wake[str]
    ) -> None:
        super().__init__(name="runs", store=store, clock=clock, at_once=AT_ONCE)
        self._ids = ids
        self._nodes = nodes
        self._rights = rights
        self._wake_cluster = wake_cluster
        self.children: ChildRuns | None = None  # set once it exists: it needs services that need this loop
        self._followers: dict[str, set[int]] = {}  # cluster -> runs that are affected by its changes
        self._follows: dict[int, frozenset[str]] = {}
        self._calls: dict[int, asyncio.Task[None]] = {}  # at most one per attempt
        self._missed: set[int] = set()  # attempts for which another call was requested meanwhile

    def rows(self, tx: Tx) -> RunRows:
        return tx.runs

    def changed(self, changes: Changes) -> None:
        """Handles a commit: wakes runs that wait for or run on a changed cluster."""
        for cluster_id in changes.clusters & self._followers.keys():
            for run_id in self._followers[cluster_id]:
                self.wake(run_id)

    async def run(self) -> None:
        """Polls for due runs until cancelled; everything begun for them is cancelled too."""
        try:
            if self._store.alone:  # all runs are ours, and this process has no timer and no wake for them yet
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
            return pass_over_run(tx, key, now=now, ids=self._ids, rights=self._rights)

        calls = await self._store.write(one_pass, background=True)
        self._follow(key, calls.follows)
        for cluster_id in calls.clusters:
            self._wake_cluster(cluster_id)
        for run_id in calls.runs:
            self.wake(run_id)
        for call in calls.begin:
            self._begin(call, partial(self._take, call))
        for call in calls.look:
            self._begin(call, partial(self._look, call))
        for call in calls.end:
            self._begin(call, partial(self._end, call))
        for child in calls.make:
            self._begin(child, partial(self._make_run, child))
        for child in calls.cancel:
            self._begin(child, partial(self._cancel_run, child))
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

    def _begin(self, call: Call | ChildCall, work: Callable[[], Coroutine[None, None, None]]) -> None:
        """Makes a call outside the passes: a driver that is slow to answer delays only its own attempt."""
        key = call.attempt.task_run_id
        if key in self._calls:
            self._missed.add(key)  # when it is over, a pass decides anew
            return

        async def guarded() -> None:
            try:
                await work()
            except NodeSilent:
                pass  # the run's next pass repeats it, or finds that the driver is gone
            except (DatabaseTrouble, RequestLimitExceeded):
                self._missed.add(key)  # the answer could not be recorded: ask again when it can be
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
        """Records what the attempt printed before its driver forgets it."""
        if (output := await self._nodes.stop(call)) is not None:
            await self._keep(call, output)
        await self._nodes.end(call)
        await self._record(call, lambda run: closed(run, call.attempt.task_run_id))

    async def _make_run(self, call: ChildCall) -> None:
        """Makes the run that the attempt waits for, and records both in one transaction: so it is made once."""
        children, attempt_id, now = self.children, call.attempt.task_run_id, self._clock.now_ms()
        if children is None:
            return

        def work(tx: Tx) -> int | None:
            run = tx.runs.get(call.run.run_id)
            found = attempt_to_begin(run, attempt_id) if run is not None else None
            if run is None or found is None:
                return None  # it has been decided meanwhile, or another server was faster
            child = children.make(tx, run, *found)
            tx.runs.update(run_made(run, attempt_id, child.run_id, now=now))
            return child.run_id

        try:
            made = await self._store.write(work, background=True)
        except (DatabaseTrouble, RequestLimitExceeded):
            raise
        except ApiError as error:
            why = refused(error)
            await self._record(call, lambda run: concluded(run, attempt_id, why, now=now))
            return
        if made is not None:
            self.wake(made)

    async def _cancel_run(self, call: ChildCall) -> None:
        """Cancels the run that the attempt has made, which is over a moment later."""
        child_id, now = call.attempt.child_run_id, self._clock.now_ms()

        def work(tx: Tx) -> None:
            if (child := tx.runs.get(child_id)) is not None:
                tx.runs.cancel(child, call.run.cancelled_by, now)

        await self._store.write(work, background=True)
        self.wake(child_id)

    async def _conclude(self, call: Call, ended: Ended) -> None:
        """Records the outcome and the output in one transaction: neither is ever known without the other."""
        attempt_id, now = call.attempt.task_run_id, self._clock.now_ms()
        await self._record(call, lambda run: concluded(run, attempt_id, ended.conclusion, now=now), ended.output)

    async def _keep(self, call: Call, output: Output) -> None:
        """Records only the output, for an attempt whose result was known before."""
        attempt_id = call.attempt.task_run_id
        await self._store.write(lambda tx: tx.runs.set_output(attempt_id, output), background=True)

    async def _record(self, call: Call | ChildCall, change: Callable[[Run], Run], output: Output | None = None) -> None:
        run_id = call.run.run_id

        def work(tx: Tx) -> None:
            run = tx.runs.get(run_id)
            if run is None:
                return  # the run was deleted
            changed = change(run)
            if changed != run:
                tx.runs.update(changed)
                if output is not None:
                    tx.runs.set_output(call.attempt.task_run_id, output)
                tx.runs.wake(run_id)

        await self._store.write(work, background=True)
        self.wake(run_id)
