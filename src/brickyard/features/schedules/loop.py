"""Runs schedules when they are due: starts or stops their clusters, with the rights that their owners have at that moment.

A run is one transaction: the start or stop, the record of the run, and the time of the next one. It is done only if the planned
run is still the one that was found due. So it happens once, with any number of servers, wherever one of them is killed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from brickyard.access.principals import active_principal, caller_of
from brickyard.clusters import ClusterService
from brickyard.clusters.v1.problems import refuse
from brickyard.clusters.v1.service import V1ClusterService
from brickyard.domain.caller import Caller
from brickyard.domain.clock import Clock
from brickyard.domain.cluster import Cluster, Target
from brickyard.domain.errors import ApiError, DatabaseTrouble, RequestLimitExceeded, StateConflict
from brickyard.domain.notes import Note, unnoted
from brickyard.domain.requests import ClusterId
from brickyard.domain.strict import Problem
from brickyard.domain.v1.clusters import StartV1Cluster, V1ClusterState
from brickyard.features.schedules.model import Action, LastRun, Result, ScheduleRow
from brickyard.features.schedules.rows import ScheduleRows
from brickyard.features.schedules.rules import due
from brickyard.features.schedules.service import start_of
from brickyard.plan.v1.progress import state_of
from brickyard.reconcile.loop import KeyedLoop
from brickyard.store.store import Store
from brickyard.store.tx import Tx

AT_ONCE = 4
STOPPING_MS = 2_000  # a cluster that is to start is still stopping: how soon to look again
MAX_REASON = 1_000
OPERATION = "gpu_schedules.run"  # in the audit log


class Done(NamedTuple):
    """What a run did."""

    result: Result
    reason: str = ""
    incarnation: int = 0
    caller: Caller | None = None  # set if something was changed


class RunFailed(Exception):
    """The run cannot be done. The message is the reason, for people."""


class ScheduleLoop(KeyedLoop[str]):
    """One per server. `note` writes to the audit log."""

    def __init__(
        self, *, store: Store, clock: Clock, clusters: ClusterService, v1: V1ClusterService, note: Note = unnoted
    ) -> None:
        super().__init__(name="schedules", store=store, clock=clock, at_once=AT_ONCE)
        self._clusters = clusters
        self._v1 = v1
        self._note = note

    def rows(self, tx: Tx) -> ScheduleRows:
        return tx.rows(ScheduleRows)

    async def work(self, key: str, *, timed: bool) -> None:
        """Does the run of the schedule that is due, if it still is."""
        now = self._clock.now_ms()
        row = await self._store.read(lambda tx: tx.rows(ScheduleRows).get(key), background=True)
        if row is None or not row.next_ms or now < row.next_ms:
            return
        planned = row.next_ms
        try:
            problems = await self._room(row)
            done = await self._store.write(lambda tx: self._run(tx, row, now, problems), background=True)
        except (DatabaseTrouble, RequestLimitExceeded):  # of the moment: the run is still due
            raise
        except (ApiError, RunFailed) as error:
            failure = Done(Result.FAILED, str(error)[:MAX_REASON])
            await self._store.write(lambda tx: _record(tx, key, planned, now, failure), background=True)
            return
        if done is not None and done.caller is not None:
            self._clusters.changed(row.cluster_id)
            self._note(OPERATION, done.caller, cluster_id=row.cluster_id, schedule_id=key)

    async def _room(self, row: ScheduleRow) -> Sequence[Problem]:
        """Why there is no room for the start that is due. Asks the provider, outside of any transaction."""
        if row.schedule.action is not Action.START:
            return []
        asked, _ = start_of(row.cluster_id, row.start)

        def ready(tx: Tx) -> tuple[Caller, StartV1Cluster] | None:
            cluster = tx.clusters.get(row.cluster_id)
            if asked is None or cluster is None or cluster.deleted_ms or not cluster.ended:
                return None
            return _owner(tx, row), asked

        found = await self._store.read(ready, background=True)
        try:
            return [] if found is None else await self._v1.foreseen(*found)
        except StateConflict:  # somebody has started it meanwhile: the run will find that
            return []

    def _run(self, tx: Tx, known: ScheduleRow, now: int, problems: Sequence[Problem]) -> Done | None:
        """The run and its record. None: there was nothing to do, or not yet."""
        cluster = tx.clusters.get(known.cluster_id)  # locked before the schedule, as everywhere
        row = tx.rows(ScheduleRows).get(known.schedule_id)
        if row is None or row != known:
            return None  # another server was faster, or it was changed: if it is still due, the loop looks again
        if cluster is None or cluster.deleted_ms:
            tx.rows(ScheduleRows).delete(row.schedule_id)
            return None
        if not due(row.schedule, next_ms=row.next_ms, now_ms=now).run:
            done = Done(Result.SKIPPED, "No server was there at the time, or the cluster was still stopping")
        elif row.schedule.action is Action.STOP:
            done = self._stopped(tx, row, cluster)
        elif state_of(cluster) is V1ClusterState.STOPPING:
            tx.rows(ScheduleRows).postpone(row.schedule_id, now + STOPPING_MS)
            return None
        else:
            done = self._started(tx, row, cluster, problems)
        _record(tx, row.schedule_id, row.next_ms, now, done)
        return done

    def _stopped(self, tx: Tx, row: ScheduleRow, cluster: Cluster) -> Done:
        caller = _owner(tx, row)
        if cluster.target is Target.TERMINATED:
            return Done(Result.ALREADY_STOPPED)
        why = f"schedule {row.schedule_id}"
        self._clusters.commands.delete(tx, caller, ClusterId(cluster_id=cluster.cluster_id), why=why)
        return Done(Result.STOPPED, caller=caller)

    def _started(self, tx: Tx, row: ScheduleRow, cluster: Cluster, problems: Sequence[Problem]) -> Done:
        caller = _owner(tx, row)
        if cluster.target is Target.RUNNING:
            return Done(Result.ALREADY_RUNNING)
        refuse(problems)
        asked, wrong = start_of(row.cluster_id, row.start)
        if asked is None:
            refuse(wrong)
            raise AssertionError("a start that cannot be made has problems")
        begun = self._v1.begin(tx, caller, asked)
        return Done(Result.STARTED, incarnation=begun.incarnation, caller=caller)


def _owner(tx: Tx, row: ScheduleRow) -> Caller:
    """Whose rights the schedule has, as they are now."""
    principal = active_principal(tx, row.owner)
    if principal is None:
        raise RunFailed(f"it runs with the rights of {row.owner}, who is deactivated or removed; somebody else must update it")
    return caller_of(principal, token_id="")


def _record(tx: Tx, schedule_id: str, planned_ms: int, now: int, done: Done) -> None:
    """Records a run, and plans the next one."""
    row = tx.rows(ScheduleRows).get(schedule_id)
    if row is None or row.next_ms != planned_ms:
        return
    last = LastRun(planned_ms=planned_ms, at_ms=now, result=done.result, reason=done.reason, incarnation=done.incarnation)
    following = due(row.schedule, next_ms=planned_ms, now_ms=now).next_ms
    tx.rows(ScheduleRows).update(msgspec.structs.replace(row, last=last, next_ms=following))
