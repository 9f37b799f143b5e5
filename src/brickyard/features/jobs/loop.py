"""Begins the runs of jobs that nobody asks for: by schedule, by files and tables, and of continuous jobs. Each has the rights
that the job's identity has at that moment.

The run, and what is remembered of it (the time of the next one, what a trigger has seen), are one transaction, which does nothing
if the job is no longer as it was found due. So each happens once, with any number of servers, wherever one of them is killed.
Runs for which no server was there count as one, which begins late.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec
import structlog

from brickyard.access.principals import active_principal, caller_of
from brickyard.domain.caller import Caller
from brickyard.domain.clock import Clock
from brickyard.domain.errors import ApiError, DatabaseTrouble, RequestLimitExceeded
from brickyard.domain.notes import Note, unnoted
from brickyard.domain.run import Run
from brickyard.domain.wakeups import Wake
from brickyard.features.jobs import arrivals, continuous, rules, triggers
from brickyard.features.jobs.arrivals import Watched
from brickyard.features.jobs.model import JobRow, TriggerSettings
from brickyard.features.jobs.rows import JobRows, TriggerRows
from brickyard.features.jobs.runs import Runs
from brickyard.features.jobs.watches import CannotLook, Watches, references, table_of
from brickyard.reconcile.loop import KeyedLoop
from brickyard.store.store import Store
from brickyard.store.tx import Tx

AT_ONCE = 4
MOST_LOOKS = 2  # at once, at files and tables: a storage that hangs must not keep schedules from their time
BUSY_MS = 2_000
MAX_REASON = 1_000
OPERATION = "jobs.run_scheduled"  # in the audit log

log = structlog.get_logger(__name__)


class JobLoop(KeyedLoop[int]):
    """One per server. `note` writes to the audit log."""

    def __init__(
        self, *, store: Store, clock: Clock, runs: Runs, watches: Watches, wake_run: Wake[int], note: Note = unnoted
    ) -> None:
        super().__init__(name="jobs", store=store, clock=clock, at_once=AT_ONCE)
        self._runs = runs
        self._watches = watches
        self._wake_run = wake_run
        self._note = note
        self._looks = 0

    def rows(self, tx: Tx) -> JobRows:
        return tx.rows(JobRows)

    async def work(self, key: int, *, timed: bool) -> None:
        """Begins the run of the job that is due, if it still is."""
        now = self._clock.now_ms()
        row = await self._store.read(lambda tx: tx.rows(JobRows).get(key), background=True)
        if row is None:
            return
        if continuous.is_on(row):
            await self._begin(row, now, _goes_on)
        elif not row.next_ms or now < row.next_ms:
            await self._store.write(lambda tx: _rest(tx, row, row.next_ms), background=True)
        elif triggers.watches(row.settings) and self._looks >= MOST_LOOKS:
            await self._store.write(lambda tx: _rest(tx, row, now + BUSY_MS), background=True)
        elif triggers.watches(row.settings):
            self._looks += 1
            try:
                await self._look(row, now)
            finally:
                self._looks -= 1
        else:
            if now - row.next_ms > rules.MISSED_MS:
                log.warning("scheduled_run_late", job_id=key, late_s=(now - row.next_ms) // 1000)
            await self._begin(row, now, _is_due)

    async def _look(self, row: JobRow, now: int) -> None:
        """Looks at what the job waits for, and begins a run if that has come."""
        stored = await self._store.read(lambda tx: tx.rows(TriggerRows).get(row.job_id), background=True)
        known, trigger = stored or Watched(since_ms=row.next_ms), row.settings.trigger or TriggerSettings()
        began, seen = self._clock.now_ms(), {}
        try:
            seen = dict(await self._watches.look(row.settings))
        except CannotLook as error:
            look = arrivals.failed(known, str(error)[:MAX_REASON], now=now)
            if known.why != look.state.why:
                log.warning("trigger_failed", job_id=row.job_id, why=look.state.why)
        else:
            look = arrivals.looked(
                known,
                seen,
                triggers.waits(trigger),
                now=now,
                enough=lambda tokens: triggers.enough(trigger, map(table_of, tokens)),
            )
        slow_ms = min(arrivals.SLOWEST_MS, 100 * (self._clock.now_ms() - began))  # looking takes 1 % of the time at most

        def decide(tx: Tx, current: JobRow, at: int) -> tuple[JobRow, bool] | None:
            if tx.rows(TriggerRows).get(row.job_id) != stored:
                return None  # another server was faster
            if look.state != stored:
                tx.rows(TriggerRows).put(row.job_id, look.state)
            return msgspec.structs.replace(current, next_ms=max(look.next_ms, at + slow_ms)), bool(look.fires)

        by = references(trigger, {each: seen[each] for each in look.fires}) if look.fires else {}
        await self._begin(row, now, decide, by)

    async def _begin(self, row: JobRow, now: int, decide: Decide, by: Mapping[str, str] | None = None) -> None:
        """Has `decide` say whether a run begins, and begins it, in one transaction. A run that cannot begin is a failed one."""
        try:
            begun = await self._store.write(lambda tx: self._made(tx, row, now, decide, by), background=True)
        except (DatabaseTrouble, RequestLimitExceeded):  # of the moment: the run is still due
            raise
        except ApiError as error:
            reason = error.message[:MAX_REASON]
            log.warning("scheduled_run_failed", job_id=row.job_id, reason=reason)
            begun = await self._store.write(lambda tx: self._fail(tx, row, now, decide, reason), background=True)
        if begun is not None:
            run, caller = begun
            self._wake_run(run.run_id)
            if caller is not None:
                self._note(OPERATION, caller, job_id=str(row.job_id), run_id=str(run.run_id))

    def _made(
        self, tx: Tx, known: JobRow, now: int, decide: Decide, by: Mapping[str, str] | None
    ) -> tuple[Run, Caller | None] | None:
        if not _decided(tx, known, now, decide):
            return None
        trigger = triggers.type_of(known.settings)
        owner = active_principal(tx, known.run_as)
        if owner is None:
            why = f"{known.run_as} is no longer an active user of the workspace."
            return self._runs.fail(tx, known.run_as, rules.bare(known, trigger), why), None
        self._watches.require(tx, owner, known.settings)
        wanted = rules.wanted(known, trigger=trigger, triggered_by=by)
        return self._runs.make(tx, owner, wanted), caller_of(owner, token_id="")

    def _fail(self, tx: Tx, known: JobRow, now: int, decide: Decide, reason: str) -> tuple[Run, Caller | None] | None:
        if not _decided(tx, known, now, decide) or not known.settings.tasks:
            return None
        return self._runs.fail(tx, known.run_as, rules.bare(known, triggers.type_of(known.settings)), reason), None


class Decide(Protocol):
    """Decides about a job that has not changed since it was found due, within the transaction."""

    def __call__(self, tx: Tx, row: JobRow, now: int, /) -> tuple[JobRow, bool] | None:
        """The row as it is from now on, and whether a run begins; None: another server was faster."""
        ...


def _decided(tx: Tx, known: JobRow, now: int, decide: Decide) -> bool:
    """Records what is decided. False: no run begins, or another server was faster, or the job was changed."""
    row = tx.rows(JobRows).get(known.job_id)
    if row is None or row != known or (decided := decide(tx, row, now)) is None:
        return False
    after, begins = decided
    if begins or msgspec.structs.replace(after, next_ms=row.next_ms) != row:
        tx.rows(JobRows).update(after)
    else:  # one more look: the rest of the row stays
        tx.rows(JobRows).schedule(row.job_id, after.next_ms)
    return begins


def _is_due(_tx: Tx, row: JobRow, now: int) -> tuple[JobRow, bool]:
    """A scheduled run."""
    return msgspec.structs.replace(row, next_ms=_following(row, now)), True


def _goes_on(tx: Tx, row: JobRow, now: int) -> tuple[JobRow, bool]:
    """The next run of a continuous job, unless one is active."""
    active = bool(tx.runs.active_of_job(row.job_id))
    return continuous.following(row, active=active, last=tx.runs.last_of_job(row.job_id), now=now)


def _rest(tx: Tx, known: JobRow, until_ms: int) -> None:
    """Looks at a job at that time again; 0: only when it is changed."""
    if tx.rows(JobRows).get(known.job_id) == known:
        tx.rows(JobRows).schedule(known.job_id, until_ms or None)


def _following(row: JobRow, now: int) -> int:
    """The first run that is still to come. Periodic runs keep their rhythm."""
    following = rules.next_ms(row.settings, after_ms=row.next_ms)
    if not following or following > now:
        return following
    if row.settings.schedule is not None:
        return rules.next_ms(row.settings, after_ms=now)
    step = following - row.next_ms
    return now + step - (now - row.next_ms) % step
