"""The pool planner: how many idle instances to launch, and which to end. Pure; like `plan.cluster` it runs inside the transaction
that reads its inputs and writes its result.

It manages only idle instances. Instances that clusters have taken belong to those clusters until they are returned.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from brickyard.domain.cluster import Instance
from brickyard.domain.instances import InstanceState
from brickyard.domain.pools import PendingInstanceError, Pool, Standing, standing, unprepared
from brickyard.plan.policy import Policy
from brickyard.plan.providermessages import waiting

DEFAULT_IDLE_MINUTES = 60
_MAX_ERRORS = 10
_PROOF_MS = 5_000  # an instance that lives this long after a failure shows that launches work again
_LOST = "it ended unexpectedly: {}"
_UNPREPARED = "it could not be prepared"
_WAITS = "it waits"


class PoolPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a pass. `instances` holds only those that changed; `new` is how many to record and launch; with `due_ms` None
    the next pass is when something wakes the pool."""

    pool: Pool
    instances: dict[str, Instance]
    new: int
    removed: tuple[Instance, ...]
    due_ms: int | None
    unfinished: bool = False  # the pass has changed as much as one may: the next one is due now
    purge: bool = False  # deleted, and nothing is left of it: remove its row


def plan_pool(
    pool: Pool,
    idle: Sequence[Instance],
    *,
    used: int,
    others: int,
    now: int,
    policy: Policy,
    moved: frozenset[str] = frozenset(),
    beyond: int = 0,
) -> PoolPlan:
    """Decides about one pool. `idle` are its instances that no cluster has, in any state; `used` counts the live instances that
    clusters have, `others` all rows of instances that clusters have. `moved` are idle ones that no cluster will take, because
    their node type now belongs to another provider. `beyond` counts idle instances that are not
    among `idle`, because there are more than any pass takes in."""
    return _Pass(pool=pool, rows=idle, used=used, others=others, now=now, policy=policy, moved=moved, beyond=beyond).run()


class _Pass(msgspec.Struct, kw_only=True):
    """The state of one pass: small phases in a fixed order, as in `plan.cluster`. `plan_pool` documents the facts."""

    pool: Pool
    rows: Sequence[Instance]
    used: int
    others: int
    now: int
    policy: Policy
    moved: frozenset[str]
    beyond: int

    unfinished: bool = False  # there is more to do at once, in another pass
    changed: dict[str, Instance] = {}
    removed: list[Instance] = []
    failed: list[PendingInstanceError] = []
    deadlines: list[int] = []
    idle: list[Instance] = []  # only live ones; every phase keeps it that way

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
            due_ms=self.now if self.unfinished else min(self.deadlines, default=None),
            unfinished=self.unfinished,
            purge=not self.pool.active and len(self.removed) == len(self.rows) and not (self.others or self.beyond),
        )

    def _reap(self) -> None:
        """Removes instances that are gone. One that nobody sent away counts as a failed attempt, so that it is replaced only
        after a pause."""
        for row in self.rows:
            if row.state is InstanceState.GONE:
                if not self._left():
                    continue
                self.removed.append(row)
                if row.lost:
                    self._fail(row, _LOST.format(row.lost))
            elif row.live:
                self.idle.append(row)

    def _sort_out(self) -> None:
        """Ends instances that could not be launched, whose agents never called, or that no cluster will take."""
        hopeless: list[Instance] = []
        for row in self.idle:
            deadline = row.created_ms + self.policy.launch_timeout_ms
            if row.instance_id in self.moved:
                hopeless.append(row)
            elif row.launch_error is not None:
                self._fail(row, row.launch_error.message)
                hopeless.append(row)
            elif row.state is not InstanceState.REGISTERED:
                if self.now >= deadline:
                    said = f": {row.provider_message}" if row.provider_message else ""
                    self._fail(row, f"its agent did not call within {self.policy.launch_timeout_ms // 1000} s{said}")
                    hopeless.append(row)
                else:
                    self.deadlines.append(deadline)
        self._end(hopeless)

    def _note_failures(self) -> None:
        """Counts all failures of one pass as one failed attempt. A later successful attempt ends the pause."""
        pool = self.pool
        not_ready = [
            PendingInstanceError(instance_id=row.instance_id, message=f"{_UNPREPARED}: {why}")
            for row in self.idle
            if (why := unprepared(row))
        ]
        not_ready += [
            PendingInstanceError(instance_id=row.instance_id, message=f"{_WAITS}: {row.provider_message}")
            for row in waiting(self.idle)
        ]
        if self.failed:
            pause = min(self.policy.launch_backoff_ms * 2**pool.failures, self.policy.grow_backoff_max_ms)
            fields = {"failures": min(pool.failures + 1, 30), "failed_ms": self.now, "fill_after_ms": self.now + pause}
            self.pool = msgspec.structs.replace(pool, **fields, errors=tuple([*self.failed, *not_ready][:_MAX_ERRORS]))
            return
        kept: tuple[PendingInstanceError, ...] = ()
        if pool.failures and not self._recovered():
            kept = tuple(error for error in pool.errors if not error.message.startswith((_UNPREPARED, _WAITS)))
        errors = (*kept, *not_ready)[:_MAX_ERRORS]
        failures = pool.failures if kept else 0
        if (errors, failures) != (pool.errors, pool.failures):
            self.pool = msgspec.structs.replace(
                pool, errors=errors, failures=failures, fill_after_ms=pool.fill_after_ms if failures else 0
            )

    def _recovered(self) -> bool:
        """Whether an instance launched after the last failure has lived for a while, or all wanted instances exist."""
        registered = [row.registered_ms for row in self.idle if row.state is InstanceState.REGISTERED]
        proofs = [at + _PROOF_MS for at in registered if at > self.pool.failed_ms]
        if proofs and min(proofs) > self.now:
            self.deadlines.append(min(proofs))
        return len(registered) >= self.pool.min_idle or any(at <= self.now for at in proofs)

    def _fill(self) -> int:
        """How many to launch to reach the minimum idle within the capacity. While attempts fail: one at a time, after a pause."""
        missing = min(self.pool.min_idle - len(self.idle), -self._over(len(self.idle)))
        if missing <= 0 or self.beyond:
            return 0
        if self.pool.fill_after_ms > self.now:
            self.deadlines.append(self.pool.fill_after_ms)
            return 0
        if self.pool.failures:
            since = self.pool.failed_ms
            trying = any(row.state is not InstanceState.REGISTERED and row.created_ms > since for row in self.idle)
            return 0 if trying else 1
        return min(missing, self._left(missing))

    def _over(self, idle: int) -> int:
        """By how many that many idle instances exceed the pool's capacity, or what any pool may have idle: also one that was made
        when more were allowed."""
        over, capacity = idle - self.policy.max_nodes, self.pool.spec.max_capacity
        return over if capacity is None else max(over, self.used + idle - capacity)

    def _left(self, wanted: int = 1) -> int:
        """How many more instances this pass may change. The rest is for the next one, which follows at once: nobody else can
        write while a pass does."""
        left = max(0, self.policy.nodes_per_pass - len(self.changed) - len(self.removed))
        self.unfinished = self.unfinished or wanted > left
        return left

    def _trim(self) -> None:
        """Ends idle instances beyond the minimum when their time is over, and those beyond the capacity (an edit may have
        lowered it) at once. The least useful go first: cold ones, then the longest idle."""
        minutes = self.pool.spec.idle_instance_autotermination_minutes
        limit_ms = (DEFAULT_IDLE_MINUTES if minutes is None else minutes) * 60_000
        there = len(self.idle) + self.beyond
        over = self._over(there)
        excess = there - min(self.pool.min_idle, self.policy.max_nodes)
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
        for row in rows[: self._left(len(rows))]:
            self.changed[row.instance_id] = msgspec.structs.replace(row, state=InstanceState.TERMINATING)
        self.idle = [row for row in self.idle if row.instance_id not in self.changed]
