"""Rows of runs, their attempts, and the attempts' outputs."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Connection, and_, bindparam, case, delete, func, insert, or_, select, update

from brickyard.domain.access import ObjectKind, Place
from brickyard.domain.queries import RunFilter, RunPosition
from brickyard.domain.run import Output, Run, RunType, Task
from brickyard.store.changeset import Changes
from brickyard.store.due import WOKEN, Due, DueRows
from brickyard.store.grants import granted, remove_grants, seen
from brickyard.store.tables import jobs, spent_tokens, task_cells, task_runs
from brickyard.store.tables import runs as t

_decode = msgspec.json.Decoder(Run).decode
_encode = msgspec.json.Encoder().encode
_decode_task = msgspec.json.Decoder(Task).decode
_decode_output = msgspec.json.Decoder(Output).decode

_GET = select(t.c.doc).where(t.c.run_id == bindparam("id"))
_GET_LOCKED = _GET.with_for_update()
_UPDATE = update(t).where(t.c.run_id == bindparam("id"))
_KEEP = (
    update(task_runs)
    .where(task_runs.c.task_run_id == bindparam("id"))
    .values(for_each_id=bindparam("for_each"), number=bindparam("place"), doc=bindparam("task"))
)
_BY_TOKEN = (
    select(t.c.run_id)
    .where(t.c.idempotency_token == bindparam("token"), t.c.creator == bindparam("user"))
    .order_by(t.c.created_ms)
    .limit(1)
)


def _spent_key(token: str, user_name: str, job_id: int) -> str:
    of = f"\0{job_id}" if job_id else ""
    return hashlib.sha256(f"{user_name}\0{token}{of}".encode()).hexdigest()


def _columns(run: Run) -> dict[str, Any]:
    return {
        "job_id": run.job_id,
        "type": run.type.value,
        "creator": run.creator_user_name,
        "created_ms": run.created_ms,
        "turn_ms": run.began_ms,
        "ended_ms": run.ended_ms,
        "idempotency_token": run.idempotency_token,
        "version": run.version,
        "doc": _encode(run).decode(),
    }


class RunRows(DueRows[int]):
    """Run rows within one transaction."""

    _due = Due(t, t.c.run_id)

    def __init__(self, connection: Connection, *, locking: bool, changed: Changes) -> None:
        self._connection = connection
        self._changed = changed
        self._get = _GET_LOCKED if locking else _GET

    def get(self, run_id: int) -> Run | None:
        """The run. Inside `write` the row is locked until the commit."""
        doc = self._connection.execute(self._get, {"id": run_id}).scalar()
        return None if doc is None else _decode(doc)

    def insert(self, run: Run) -> None:
        """Inserts a new run, due at once, and the ids of its tasks. Raises IntegrityError if one of them is taken."""
        self._changed.runs.add(run.run_id)
        self._connection.execute(insert(t), {"run_id": run.run_id, "due_ms": 0, **_columns(run)})
        self.insert_attempts(run.run_id, (task.task_run_id for task in run.tasks))

    def active_of(self, user_name: str) -> list[Run]:
        """The user's runs that are not over."""
        query = select(t.c.doc).where(t.c.creator == user_name, t.c.ended_ms == 0)
        return [_decode(doc) for doc in self._connection.execute(query).scalars()]

    def insert_attempts(self, run_id: int, attempts: Iterable[int]) -> None:
        """Inserts the ids by which attempts are found. Raises IntegrityError if one of them is taken."""
        rows = [{"task_run_id": attempt, "run_id": run_id, "output": ""} for attempt in attempts]
        if rows:
            self._connection.execute(insert(task_runs), rows)

    def keep_iterations(self, iterations: Iterable[Task]) -> None:
        """Keeps iterations of for-each tasks that are over, and no longer part of their run: beside their last attempts."""
        rows = [
            {
                "id": each.task_run_id,
                "for_each": of.of,
                "place": of.number,
                "task": _encode(msgspec.structs.replace(task, cluster=None)).decode() if each is task.last else "",
            }
            for task in iterations
            if (of := task.iteration) is not None
            for each in task.attempts
        ]
        if rows:
            self._connection.execute(_KEEP, rows)

    def iterations(self, for_each_id: int, *, first: int, limit: int) -> list[Task]:
        """Iterations of the attempt at a for-each task that are over, from that number on, in their order."""
        of = (task_runs.c.for_each_id == for_each_id, task_runs.c.number >= first, task_runs.c.doc != "")
        query = select(task_runs.c.doc).where(*of).order_by(task_runs.c.number).limit(limit)
        return [_decode_task(doc) for doc in self._connection.execute(query).scalars()]

    def iteration(self, task_run_id: int) -> Task | None:
        """The iteration that is over and has the attempt."""
        query = select(task_runs.c.for_each_id, task_runs.c.number).where(task_runs.c.task_run_id == task_run_id)
        found = self._connection.execute(query).one_or_none()
        if found is None or found.for_each_id is None:
            return None
        return next(iter(self.iterations(found.for_each_id, first=found.number, limit=1)), None)

    def ended_among(self, run_ids: Sequence[int]) -> dict[int, Run | None]:
        """The runs that exist; None in place of those that are active. They are not locked."""
        if not run_ids:
            return {}
        doc = case((t.c.ended_ms > 0, t.c.doc), else_="")
        found = self._connection.execute(select(t.c.run_id, doc.label("doc")).where(t.c.run_id.in_(run_ids)))
        return {row.run_id: _decode(row.doc) if row.doc else None for row in found}

    def update(self, run: Run) -> Run:
        """Writes the whole row; returns it with its next version. `get` it in this transaction first."""
        run = msgspec.structs.replace(run, version=run.version + 1)
        self._changed.runs.add(run.run_id)
        self._connection.execute(_UPDATE, {"id": run.run_id, **_columns(run)})
        return run

    def cancel(self, run: Run, user_name: str, at_ms: int) -> bool:
        """Records that the user cancels the run, which is due at once. False if it is over or cancelled already."""
        if run.result is not None or run.cancelled_ms:
            return False
        self.update(msgspec.structs.replace(run, cancelled_ms=at_ms, cancelled_by=user_name))
        self.wake(run.run_id)
        return True

    def delete(self, run_id: int) -> None:
        """Removes the run and everything known about it."""
        self._changed.runs.add(run_id)
        self._connection.execute(delete(task_runs).where(task_runs.c.run_id == run_id))
        self._connection.execute(delete(task_cells).where(task_cells.c.run_id == run_id))
        gone = self.get(run_id)
        self._connection.execute(delete(t).where(t.c.run_id == run_id))
        if gone is not None:
            self._changed.lose(ObjectKind.RUN, str(run_id), (), owner=gone.creator_user_name)
            if gone.type is RunType.SUBMIT_RUN:  # a job outlives its runs
                remove_grants(self._connection, self._changed, Place(ObjectKind.JOB, str(gone.job_id)))

    def spend(self, run: Run, at_ms: int) -> None:
        """Remembers the idempotency token of a run that is being deleted, so that it creates no other run of its user and job."""
        job_id = run.job_id if run.type is RunType.JOB_RUN else 0
        key = _spent_key(run.idempotency_token, run.creator_user_name, job_id)
        self._connection.execute(insert(spent_tokens), {"token": key, "run_id": run.run_id, "spent_ms": at_ms})

    def spent(self, token: str, user_name: str, job_id: int) -> int | None:
        """The deleted run of the job (0: a submitted one) that the user made with the token. Earlier versions recorded tokens
        without their jobs, and before without their users."""
        keys = [_spent_key(token, user_name, job_id), _spent_key(token, user_name, 0), token]
        return self._connection.execute(select(spent_tokens.c.run_id).where(spent_tokens.c.token.in_(keys)).limit(1)).scalar()

    def trim(self, before_ms: int, limit: int) -> int:
        """Removes at most `limit` of the runs that ended before that time, and the tokens that were spent before it; returns how
        many runs there were."""
        self._connection.execute(delete(spent_tokens).where(spent_tokens.c.spent_ms < before_ms))
        query = select(t.c.run_id).where(t.c.ended_ms > 0, t.c.ended_ms < before_ms).limit(limit)
        found = self._connection.execute(query).scalars().all()
        old = [run_id for run_id in found if (run := self.get(run_id)) is not None and run.ended_ms]  # not repaired meanwhile
        for run_id in old:
            self.delete(run_id)
        return len(old)

    def claim_one(self, run_id: int, now_ms: int, until_ms: int) -> bool:
        """Whether the run is due. If so, it is locked until the commit, and due again at `until_ms`."""
        return self._connection.execute(self._due.claim_one, {"id": run_id, "now": now_ms, "until": until_ms}).rowcount > 0

    def by_idempotency_token(self, token: str, user_name: str, job_id: int) -> int | None:
        """The run of the job (0: a submitted one) that the user made with the token."""
        query = _BY_TOKEN.where(t.c.job_id == job_id) if job_id else _BY_TOKEN.where(t.c.type == RunType.SUBMIT_RUN.value)
        return self._connection.execute(query, {"token": token, "user": user_name}).scalar()

    def owner_of_job(self, job_id: int) -> str | None:
        """Who owns the job, or the submitted run, that the permissions API knows by this id."""
        kept = self._connection.execute(select(jobs.c.owner).where(jobs.c.job_id == job_id)).scalar()
        query = select(t.c.creator).where(t.c.job_id == job_id, t.c.type == RunType.SUBMIT_RUN.value)
        return self._connection.execute(query).scalar() if kept is None else kept

    def job_of(self, run_id: int) -> int | None:
        """The job of the run, which is not locked."""
        return self._connection.execute(select(t.c.job_id).where(t.c.run_id == run_id)).scalar()

    def active_before(self, run: Run) -> int:
        """How many active runs of the job have their turn first: those that were made or repaired before."""
        earlier = or_(t.c.turn_ms < run.began_ms, and_(t.c.turn_ms == run.began_ms, t.c.run_id < run.run_id))
        query = select(func.count()).select_from(t).where(t.c.job_id == run.job_id, t.c.ended_ms == 0, earlier)
        return self._connection.execute(query).scalar_one()

    def turns(self, job_id: int) -> tuple[int, int]:
        """How many active runs the job has, and when the newest of them was made or repaired; 0 if there is none."""
        query = select(func.count(), func.coalesce(func.max(t.c.turn_ms), 0)).where(t.c.job_id == job_id, t.c.ended_ms == 0)
        count, newest = self._connection.execute(query).one()
        return count, newest

    def active_of_job(self, job_id: int) -> list[int]:
        """The ids of the job's active runs, oldest first."""
        query = select(t.c.run_id).where(t.c.job_id == job_id, t.c.ended_ms == 0).order_by(t.c.created_ms, t.c.run_id)
        return list(self._connection.execute(query).scalars())

    def last_of_job(self, job_id: int) -> Run | None:
        """The job's run that has ended last."""
        query = select(t.c.doc).where(t.c.job_id == job_id, t.c.ended_ms > 0)
        doc = self._connection.execute(query.order_by(t.c.ended_ms.desc(), t.c.created_ms.desc()).limit(1)).scalar()
        return None if doc is None else _decode(doc)

    def wake_job(self, job_id: int) -> None:
        """Has the job of a run that has ended looked at now; later, if somebody has locked it. (The job is locked before its runs
        elsewhere, so it must not be waited for.)"""
        free = select(jobs.c.job_id).where(jobs.c.job_id == job_id).with_for_update(skip_locked=True).cte("free")
        self._connection.execute(update(jobs).where(jobs.c.job_id.in_(select(free.c.job_id))).values(due_ms=WOKEN))

    def first_waiting(self, ended: Run) -> int | None:
        """The run of the job whose turn it is now that one has ended."""
        query = select(t.c.run_id).where(t.c.job_id == ended.job_id, t.c.ended_ms == 0, t.c.run_id != ended.run_id)
        ordered = query.order_by(t.c.turn_ms, t.c.run_id).offset(ended.max_concurrent - 1).limit(1)
        return self._connection.execute(ordered).scalar()

    def run_of(self, task_run_id: int) -> int | None:
        """The run that an attempt belongs to."""
        query = select(task_runs.c.run_id).where(task_runs.c.task_run_id == task_run_id)
        return self._connection.execute(query).scalar()

    def output(self, task_run_id: int) -> Output | None:
        """The output of an attempt, once it is over."""
        found = self._connection.execute(select(task_runs.c.output).where(task_runs.c.task_run_id == task_run_id)).scalar()
        return _decode_output(found) if found else None

    def set_output(self, task_run_id: int, output: Output) -> None:
        query = update(task_runs).where(task_runs.c.task_run_id == task_run_id)
        self._connection.execute(query.values(output=_encode(output).decode()))

    def page(self, which: RunFilter, *, newest_first: bool, limit: int, offset: int, after: RunPosition | None) -> list[Run]:
        """At most `limit` matching runs in the order of their start, strictly after `after`, or after skipping `offset`."""
        query = select(t.c.created_ms, t.c.run_id, t.c.doc)
        if which.job_id is not None:
            query = query.where(t.c.job_id == which.job_id)
        if which.active is not None:
            query = query.where(t.c.ended_ms == 0 if which.active else t.c.ended_ms > 0)
        if which.type is not None:
            query = query.where(t.c.type == which.type.value)
        if which.start_ms:
            query = query.where(t.c.created_ms >= which.start_ms)
        if which.end_ms:
            query = query.where(t.c.created_ms <= which.end_ms)
        if after is not None:
            behind, tie = (
                (t.c.created_ms < after.created_ms, t.c.run_id < after.run_id)
                if newest_first
                else (t.c.created_ms > after.created_ms, t.c.run_id > after.run_id)
            )
            query = query.where(or_(behind, and_(t.c.created_ms == after.created_ms, tie)))
        order = (t.c.created_ms.desc(), t.c.run_id.desc()) if newest_first else (t.c.created_ms.asc(), t.c.run_id.asc())
        shared = t.c.run_id.in_(select(t.c.run_id).where(t.c.job_id.in_(granted(ObjectKind.JOB, which.visible.holders))))
        parts = [query.where(only) for only in seen(which.visible, t.c.creator, shared)]
        # Each part is read in order of an index of its own, and as far as the page goes.
        queries = [part.order_by(*order).limit(offset + limit if len(parts) > 1 else limit) for part in parts]
        if len(queries) == 1:
            return [_decode(row.doc) for row in self._connection.execute(queries[0].offset(offset))]
        rows = [[_Found(*row) for row in self._connection.execute(each)] for each in queries]
        merged = heapq.merge(*rows, key=lambda row: row[:2], reverse=newest_first)
        return [_decode(row.doc) for row in islice(merged, offset, offset + limit)]


class _Found(NamedTuple):
    created_ms: int
    run_id: int
    doc: str
