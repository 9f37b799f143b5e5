"""Begins the scheduled runs of jobs when they are due, with the rights that their owners have at that moment.

The run, and the time of the next one, are one transaction, which does nothing if the planned run is no longer the one that was
found due. So each happens once, with any number of servers, wherever one of them is killed. Runs for which no server was there
count as one, which begins late.
"""

from __future__ import annotations

import msgspec
import structlog

from brickyard.access.principals import active_principal, caller_of
from brickyard.domain.caller import Caller
from brickyard.domain.clock import Clock
from brickyard.domain.errors import ApiError, DatabaseTrouble, RequestLimitExceeded
from brickyard.domain.notes import Note, unnoted
from brickyard.domain.run import Run, TriggerType
from brickyard.domain.wakeups import Wake
from brickyard.features.jobs import rules
from brickyard.features.jobs.model import JobRow
from brickyard.features.jobs.rows import JobRows
from brickyard.features.jobs.runs import Runs
from brickyard.reconcile.loop import KeyedLoop
from brickyard.store.store import Store
from brickyard.store.tx import Tx

AT_ONCE = 4
MAX_REASON = 1_000
OPERATION = "jobs.run_scheduled"  # in the audit log

log = structlog.get_logger(__name__)


class JobLoop(KeyedLoop[int]):
    """One per server. `note` writes to the audit log."""

    def __init__(self, *, store: Store, clock: Clock, runs: Runs, wake_run: Wake[int], note: Note = unnoted) -> None:
        super().__init__(name="jobs", store=store, clock=clock, at_once=AT_ONCE)
        self._runs = runs
        self._wake_run = wake_run
        self._note = note

    def rows(self, tx: Tx) -> JobRows:
        return tx.rows(JobRows)

    async def work(self, key: int, *, timed: bool) -> None:
        """Begins the run of the job that is due, if it still is."""
        now = self._clock.now_ms()
        row = await self._store.read(lambda tx: tx.rows(JobRows).get(key), background=True)
        if row is None or not row.next_ms or now < row.next_ms:
            return
        if now - row.next_ms > rules.MISSED_MS:
            log.warning("scheduled_run_late", job_id=key, late_s=(now - row.next_ms) // 1000)
        try:
            begun = await self._store.write(lambda tx: self._begin(tx, row, now), background=True)
        except (DatabaseTrouble, RequestLimitExceeded):  # of the moment: the run is still due
            raise
        except ApiError as error:
            reason = error.message[:MAX_REASON]
            log.warning("scheduled_run_failed", job_id=key, reason=reason)
            begun = await self._store.write(lambda tx: self._fail(tx, row, now, reason), background=True)
        if begun is not None:
            run, caller = begun
            self._wake_run(run.run_id)
            if caller is not None:
                self._note(OPERATION, caller, job_id=str(key), run_id=str(run.run_id))

    def _begin(self, tx: Tx, known: JobRow, now: int) -> tuple[Run, Caller | None] | None:
        if not self._plan_next(tx, known, now):
            return None
        owner = active_principal(tx, known.run_as)
        if owner is None:
            why = f"{known.run_as} is no longer an active user of the workspace."
            return self._runs.fail(tx, known.run_as, rules.bare(known), why), None
        wanted = rules.wanted(known, trigger=TriggerType.PERIODIC)
        return self._runs.make(tx, owner, wanted), caller_of(owner, token_id="")

    def _fail(self, tx: Tx, known: JobRow, now: int, reason: str) -> tuple[Run, Caller | None] | None:
        if not self._plan_next(tx, known, now) or not known.settings.tasks:
            return None
        return self._runs.fail(tx, known.run_as, rules.bare(known), reason), None

    @staticmethod
    def _plan_next(tx: Tx, known: JobRow, now: int) -> bool:
        """Plans the run after the one that is due. False: another server was faster, or the job was changed."""
        row = tx.rows(JobRows).get(known.job_id)
        if row is None or row != known:
            return False
        tx.rows(JobRows).update(msgspec.structs.replace(row, next_ms=_following(row, now)))
        return True


def _following(row: JobRow, now: int) -> int:
    """The first run that is still to come. Periodic runs keep their rhythm."""
    following = rules.next_ms(row.settings, after_ms=row.next_ms)
    if not following or following > now:
        return following
    if row.settings.schedule is not None:
        return rules.next_ms(row.settings, after_ms=now)
    step = following - row.next_ms
    return now + step - (now - row.next_ms) % step
