"""The pool planner: how many idle instances to launch, and which to end. Pure, and run like `plan.cluster`: inside the
transaction that read its inputs and that writes its result.

It looks after the idle instances only; what clusters have taken is theirs until they give it back.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from brickyard.domain.cluster import Instance
from brickyard.domain.instances import InstanceState
from brickyard.domain.pools import PendingInstanceError, Pool, Standing, standing, unprepared
from brickyard.plan.policy import Policy

DEFAULT_IDLE_MINUTES = 60
_MAX_ERRORS = 10
_PROOF_MS = 5_000  # an instance that has lived for so long after a failure shows that instances can be had again
_LOST = "it ended unexpectedly: {}"
_UNPREPARED = "it could not be prepared"


class PoolPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a pass decided. `instances` are only those that changed; `new` is how many to record and launch; `due_ms` None: not
    before something wakes the pool."""

    pool: Pool
    instances: dict[str, Instance]
    new: int
    removed: tuple[Instance, ...]
    due_ms: int | None
    purge: bool = False  # deleted, and nothing is left of it: remove its row


def plan_pool(pool: Pool, idle: Sequence[Instance], *, used: int, others: int, now: int, policy: Policy) -> PoolPlan:
    """Decide about one pool. `idle` are its instances that no cluster has, whatever their state; `used` counts the live ones that
    clusters have, `others` all rows of it that clusters have."""
    return _Pass(pool, idle, used=used, others=others, now=now, policy=policy).run()


class _Pass:
    """The state of one pass: small phases in a fixed order, as in `plan.cluster`."""

    def __init__(self, pool: Pool, idle: Sequence[Instance], *, used: int, others: int, now: int, policy: Policy) -> None:
        self.pool = pool
        self.rows = list(idle)
        self.used = used
        self.others = others
        self.now = now
        self.policy = policy
        self.changed: dict[str, Instance] = {}
        self.removed: list[Instance] = []
        self.failed: list[PendingInstanceError] = []
        self.deadlines: list[int] = []
        self.idle: list[Instance] = []  # live ones; every phase keeps it so

    def run(self) -> PoolPlan:
        self._reap()
        self._sort_out()
        self._note_failures()
        new = 0
        if not self.pool.active:
            self._end(list(self.idle))
        else:
            new = self._fill()
            self._trim()
        return PoolPlan(
            pool=self.pool,
            instances=self.changed,
            new=new,
            removed=tuple(self.removed),
            due_ms=min(self.deadlines, default=None),
            purge=not self.pool.active and len(self.removed) == len(self.rows) and not self.others,
        )

    def _reap(self) -> None:
        """Instances that are gone leave the books. One that nobody sent away counts as a failed attempt: it will be replaced, but
        not in a spin."""
        for row in self.rows:
            if row.state is InstanceState.GONE:
                self.removed.append(row)
                if row.lost:
                    self._fail(row, _LOST.format(row.lost))
            elif row.live:
                self.idle.append(row)

    def _sort_out(self) -> None:
        """Instances that could not be launched, or never called, go."""
        hopeless: list[Instance] = []
        for row in self.idle:
            deadline = row.created_ms + self.policy.launch_timeout_ms
            if row.launch_error is not None:
                self._fail(row, row.launch_error.message)
                hopeless.append(row)
            elif row.state is not InstanceState.REGISTERED:
                if self.now >= deadline:
                    self._fail(row, f"its agent did not call within {self.policy.launch_timeout_ms // 1000} s")
                    hopeless.append(row)
                else:
                    self.deadlines.append(deadline)
        self._end(hopeless)

    def _note_failures(self) -> None:
        """Failures of one pass are one failure: an attempt. An attempt after it that succeeded ends the pause."""
        pool = self.pool
        not_ready = [
            PendingInstanceError(instance_id=row.instance_id, message=f"{_UNPREPARED}: {why}")
            for row in self.idle
            if (why := unprepared(row))
        ]
        if self.failed:
            pause = min(self.policy.launch_backoff_ms * 2**pool.failures, self.policy.grow_backoff_max_ms)
            fields = {"failures": min(pool.failures + 1, 30), "failed_ms": self.now, "fill_after_ms": self.now + pause}
            self.pool = msgspec.structs.replace(pool, **fields, errors=tuple([*self.failed, *not_ready][:_MAX_ERRORS]))
            return
        kept: tuple[PendingInstanceError, ...] = ()
        if pool.failures and not self._recovered():
            kept = tuple(error for error in pool.errors if not error.message.startswith(_UNPREPARED))
        errors = (*kept, *not_ready)[:_MAX_ERRORS]
        failures = pool.failures if kept else 0
        if (errors, failures) != (pool.errors, pool.failures):
            self.pool = msgspec.structs.replace(
                pool, errors=errors, failures=failures, fill_after_ms=pool.fill_after_ms if failures else 0
            )

    def _recovered(self) -> bool:
        """Whether an instance came after the last failure and has lived for a while, or all that are wanted are there."""
        registered = [row.registered_ms for row in self.idle if row.state is InstanceState.REGISTERED]
        proofs = [at + _PROOF_MS for at in registered if at > self.pool.failed_ms]
        if proofs and min(proofs) > self.now:
            self.deadlines.append(min(proofs))
        return len(registered) >= self.pool.min_idle or any(at <= self.now for at in proofs)

    def _fill(self) -> int:
        """How many to launch to have the minimum idle, within the capacity. While attempts fail: one at a time, after a pause."""
        missing = self.pool.min_idle - len(self.idle)
        if (capacity := self.pool.spec.max_capacity) is not None:
            missing = min(missing, capacity - self.used - len(self.idle))
        if missing <= 0:
            return 0
        if self.pool.fill_after_ms > self.now:
            self.deadlines.append(self.pool.fill_after_ms)
            return 0
        if self.pool.failures:
            since = self.pool.failed_ms
            trying = any(row.state is not InstanceState.REGISTERED and row.created_ms > since for row in self.idle)
            return 0 if trying else 1
        return missing

    def _trim(self) -> None:
        """Idle instances beyond the minimum end when their time is over; those beyond the capacity, which an edit may have
        lowered, at once. The least useful go first: not warm, then longest idle."""
        minutes = self.pool.spec.idle_instance_autotermination_minutes
        limit_ms = (DEFAULT_IDLE_MINUTES if minutes is None else minutes) * 60_000
        capacity = self.pool.spec.max_capacity
        over = self.used + len(self.idle) - capacity if capacity is not None else 0
        excess = len(self.idle) - self.pool.min_idle
        if excess <= 0 and over <= 0:
            return
        candidates = self.idle if over > 0 else [row for row in self.idle if row.idle_ms + limit_ms <= self.now]
        order = sorted(candidates, key=lambda row: (standing(row) is Standing.WARM, row.idle_ms, row.instance_id))
        ended = order[: max(0, over)]
        expired = [row for row in order[len(ended) :] if row.idle_ms + limit_ms <= self.now]
        ended += expired[: max(0, excess - len(ended))]
        self._end(ended)
        if len(self.idle) > self.pool.min_idle:
            waiting = [row.idle_ms + limit_ms for row in self.idle]
            self.deadlines.append(max(self.now + 1, min(waiting)))

    def _fail(self, row: Instance, message: str) -> None:
        self.failed.append(PendingInstanceError(instance_id=row.instance_id, message=message))

    def _end(self, rows: Sequence[Instance]) -> None:
        if not rows:
            return
        for row in rows:
            self.changed[row.instance_id] = msgspec.structs.replace(row, state=InstanceState.TERMINATING)
        self.idle = [row for row in self.idle if row.instance_id not in self.changed]
