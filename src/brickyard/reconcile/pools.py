"""The pool loop, and a pass over one instance pool: read, plan and write in one transaction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from brickyard.domain.clock import Ids
from brickyard.domain.cluster import Instance
from brickyard.domain.instances import InstanceState
from brickyard.domain.node import Role
from brickyard.domain.nodetypes import NodeType
from brickyard.domain.pools import Pool, Standing
from brickyard.plan.assignments import idle_assignment
from brickyard.plan.launching import provider_of, stays
from brickyard.plan.policy import Policy
from brickyard.plan.pool import plan_pool
from brickyard.reconcile.launches import OwnerContext, ProviderCalls, lease_launches, rows_per_pass
from brickyard.reconcile.loop import KeyedLoop
from brickyard.store.pools import PoolRows
from brickyard.store.tx import Tx

AT_ONCE = 16


class PoolLoop(KeyedLoop[str]):
    """Passes over instance pools."""

    def __init__(self, given: OwnerContext) -> None:
        super().__init__(name="pools", store=given.store, clock=given.clock, at_once=AT_ONCE)
        self._given = given

    def rows(self, tx: Tx) -> PoolRows:
        return tx.pools

    async def work(self, key: str, *, timed: bool) -> None:
        given = self._given
        now, sizes, server = self._clock.now_ms(), given.node_types.now(), given.members.number

        def one_pass(tx: Tx) -> PoolPass:
            return pass_over_pool(tx, key, now=now, sizes=sizes, policy=given.policy, ids=given.ids, server=server)

        done = await self._store.write(one_pass, background=True)
        if done.unfinished:
            self.wake(key)
        given.launches.begin(done.calls, sizes)


class PoolPass(NamedTuple):
    """What remains to be done once a pool's pass is committed. `unfinished`: another pass at once."""

    calls: ProviderCalls = ProviderCalls()
    unfinished: bool = False


def pass_over_pool(
    tx: Tx, pool_id: str, *, now: int, sizes: Mapping[str, NodeType], policy: Policy, ids: Ids, server: int = 0
) -> PoolPass:
    """Manages a pool's idle instances. The pool's row stays locked until the commit, so no cluster takes one meanwhile."""
    pool = tx.pools.get(pool_id)
    if pool is None:
        return PoolPass()
    idle, beyond = tx.instances.idle_of_pool_within(pool_id, rows_per_pass(policy))
    standings = tx.instances.standings(pool_id).get(pool_id, {})
    used = standings.get(Standing.USED, 0) + standings.get(Standing.PENDING_USED, 0)
    others = tx.instances.count_of_pool(pool_id) - len(idle) - beyond
    moved = frozenset(row.instance_id for row in idle if row.node_type_id in sizes and not stays(row, sizes))
    decided = plan_pool(pool, idle, used=used, others=others, now=now, policy=policy, moved=moved, beyond=beyond)
    for instance in decided.removed:
        tx.instances.delete(instance)
    if decided.purge:
        tx.pools.delete(pool_id)
        return PoolPass()
    left = {instance.instance_id for instance in decided.removed}
    after = [decided.instances.get(row.instance_id, row) for row in idle if row.instance_id not in left]
    created = [
        _new_instance(pool, now=now, sizes=sizes, policy=policy, ids=ids)
        for _ in range(decided.new if pool.spec.node_type_id in sizes else 0)
    ]
    launch, due, more = lease_launches([*after, *created], now=now, policy=policy, due=decided.due_ms, server=server)
    leased = {instance.instance_id: instance for instance in launch}
    old = {row.instance_id: row for row in idle}
    for row in (leased.get(row.instance_id, row) for row in after):
        if row != old[row.instance_id]:
            tx.instances.update(row)
    for row in created:
        tx.instances.insert(leased.get(row.instance_id, row))
    if decided.pool != pool:
        tx.pools.update(decided.pool)
    tx.pools.schedule(pool_id, due)
    ended = tuple(row for row in decided.instances.values() if row.state is InstanceState.TERMINATING)
    return PoolPass(ProviderCalls(launch=launch, terminate=ended), decided.unfinished or more)


def _new_instance(pool: Pool, *, now: int, sizes: Mapping[str, NodeType], policy: Policy, ids: Ids) -> Instance:
    return Instance(
        instance_id=ids.instance_id(),
        node_id=ids.node_id(),
        cluster_id="",
        pool_id=pool.instance_pool_id,
        role=Role.WARM,
        generation=0,
        node_type_id=pool.spec.node_type_id,
        provider=provider_of(pool.spec.node_type_id, sizes, policy),
        created_ms=now,
        idle_ms=now,
        assignment=idle_assignment(node_type=sizes[pool.spec.node_type_id], runtime=pool.preloaded),
    )
