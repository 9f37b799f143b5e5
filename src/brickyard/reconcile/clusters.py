"""The cluster loop, and a pass over one cluster: read, plan and write in one transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from brickyard.domain.clock import Ids
from brickyard.domain.cluster import Cluster, Instance, Target
from brickyard.domain.instances import InstanceState
from brickyard.domain.node import Load, Role
from brickyard.domain.nodetypes import NodeType
from brickyard.domain.pools import Standing
from brickyard.domain.samples import unpack
from brickyard.domain.wakeups import Wake
from brickyard.nodes.loads import Loads
from brickyard.plan.assignments import assignment_for
from brickyard.plan.autoterminate import USE_METRICS, Spent, asks_for_use, last_use, spent_of
from brickyard.plan.cluster import NewNode, Plan, load_matters, plan
from brickyard.plan.policy import Policy
from brickyard.plan.poolroom import PoolStock, pools_needed
from brickyard.plan.samples import TIERS
from brickyard.plan.scripts import remembering
from brickyard.plan.spend import settle
from brickyard.plan.starts import begun_ms, kind_of
from brickyard.reconcile.agents import Agents
from brickyard.reconcile.launches import OwnerContext, ProviderCalls, lease_launches, rows_per_pass
from brickyard.reconcile.loop import KeyedLoop
from brickyard.reconcile.measures import Came, ClusterMeasures, came, ended
from brickyard.store.clusters import ClusterRows
from brickyard.store.tx import Tx

# A pass mostly waits for the database and for its turn on the event loop: with few at once, a busy server would make few passes
# a second, however cheap they are. Passes that are ready together also share a commit.
AT_ONCE = 64
# After its start, a server ends no cluster for inactivity. What is on record was written by the clock of the server before: nodes
# must say first how long they have been idle. And it may lack samples that they took while no server was there.
GRACE_MS = 60_000


class Sweeper(Protocol):
    """Who removes what is left of clusters: `Retention`."""

    def cluster_gone(self) -> None:
        """A cluster was removed. Nothing is left of it except its directory."""
        ...


class ClusterLoop(KeyedLoop[str]):
    """Passes over clusters. Calls `wake_pool` for pools that must look at their instances now."""

    def __init__(
        self,
        given: OwnerContext,
        *,
        agents: Agents,
        loads: Loads,
        measures: ClusterMeasures,
        wake_pool: Wake[str],
        sweeper: Sweeper | None,
    ) -> None:
        super().__init__(name="clusters", store=given.store, clock=given.clock, at_once=AT_ONCE)
        self._given = given
        self._agents = agents
        self._loads = loads
        self._measures = measures
        self._wake_pool = wake_pool
        self._sweeper = sweeper
        self._began_ms = given.clock.now_ms()

    def rows(self, tx: Tx) -> ClusterRows:
        return tx.clusters

    async def work(self, key: str, *, timed: bool) -> None:
        given = self._given
        now, silent, sizes = self._clock.now_ms(), self._agents.silent(), given.node_types.now()
        ahead_ms = given.wall.now_ms() - now
        server = given.members.number

        def one_pass(tx: Tx) -> FollowUp:
            return pass_over_cluster(
                tx,
                key,
                now=now,
                sizes=sizes,
                policy=given.policy,
                ids=given.ids,
                silent=silent,
                loads=self._loads,
                server=server,
                began_ms=self._began_ms,
                ahead_ms=ahead_ms,
            )

        left = await self._store.write(one_pass, background=True)
        self._measures.note(left.came, left.ended)
        self._agents.need(key, left.needs_reports)
        if self._loads.follow(key, left.follows_load) or left.unfinished:
            self.wake(key)  # for an earlier load report, which may not change again
        if left.gone and self._sweeper is not None:
            self._sweeper.cluster_gone()
        for pool_id in left.pools:
            self._wake_pool(pool_id)
        given.launches.begin(left.calls, sizes)


class FollowUp(msgspec.Struct, frozen=True, kw_only=True):
    """What remains to be done once a cluster's pass is committed."""

    calls: ProviderCalls = ProviderCalls()
    follows_load: bool = False  # the cluster's size should follow its load
    needs_reports: bool = False  # its size or its end depends on what its nodes do
    pools: tuple[str, ...] = ()  # pools that must look at their instances now
    came: Came | None = None  # set if the cluster has come up
    ended: tuple[str, str] | None = None  # set if the cluster has ended: the reason's code and type
    unfinished: bool = False  # it needs another pass at once
    gone: bool = False  # nothing is left of the cluster except its directory


def pass_over_cluster(
    tx: Tx,
    cluster_id: str,
    *,
    now: int,
    sizes: Mapping[str, NodeType],
    policy: Policy,
    ids: Ids,
    silent: frozenset[str],
    loads: Loads,
    server: int = 0,
    began_ms: int = 0,
    ahead_ms: int = 0,
) -> FollowUp:
    """One pass over one cluster: read, plan, write.

    The rows stay locked from the read to the commit, so neither a user's request nor another loop can interfere. Launches are
    leased: `not_before_ms` is advanced before the call, so that no other process repeats it meanwhile, and a call that died
    halfway is repeated (launching is idempotent). Instances taken from a pool change hands in the same transaction, with the
    pool's row locked, so no other cluster can take them. `server`: this server's number.
    `began_ms`: when it was started. `ahead_ms`: as in `plan.cluster`.
    """
    stored = tx.clusters.get(cluster_id)
    if stored is None:
        return FollowUp()
    cluster = _with_global_scripts(tx, stored)
    before, partial = tx.instances.of_cluster_within(cluster_id, rows_per_pass(policy))
    # The cluster's instances are locked before the pools. Nobody locks them without the cluster, so this cannot deadlock.
    rooms = _rooms(tx, cluster, before, most=policy.nodes_per_pass + 1)
    asked = before if load_matters(cluster, before) else ()
    load = next((found for each in asked if (found := _load(tx, each, cluster, loads)) is not None), None)
    decided = plan(
        cluster,
        before,
        now=now,
        sizes=sizes,
        policy=policy,
        silent=silent,
        load=load,
        rooms=rooms,
        spent=_spent(tx, cluster, before, now=now, sizes=sizes, policy=policy),
        used_ms=_used(tx, cluster, before, now=now, began_ms=began_ms),
        idle_from_ms=began_ms + GRACE_MS if began_ms else 0,
        ahead_ms=ahead_ms,
        partial=partial,
    )
    if decided.purge:
        _charge(tx, cluster, (), had_nodes=bool(before), now=now, sizes=sizes, policy=policy)
        return _purge(tx, cluster, decided, now)
    old = {instance.instance_id: instance for instance in before}
    left = {instance.instance_id for instance in (*decided.removed, *decided.returned)}
    after = [decided.instances.get(name, row) for name, row in old.items() if name not in left]
    after += [row for name, row in decided.instances.items() if name not in old]  # taken from a pool
    created = [_new_instance(node, decided.cluster, now=now, sizes=sizes, policy=policy, ids=ids) for node in decided.new]
    launch, due, more = lease_launches([*after, *created], now=now, policy=policy, due=decided.due_ms, server=server)
    leased = {instance.instance_id: instance for instance in launch}
    _write(tx, stored, decided, old, [leased.get(row.instance_id, row) for row in after], due=due)
    for instance in created:
        tx.instances.insert(leased.get(instance.instance_id, instance))
    _charge(tx, decided.cluster, after, had_nodes=bool(before), now=now, sizes=sizes, policy=policy)
    if decided.cluster.up and not cluster.up:
        tx.start_times.add(kind_of(decided.cluster), now - begun_ms(decided.cluster))
    changed = [row for row in after if row != old.get(row.instance_id)]
    pools = _wake_pools(tx, changed, old, decided)
    follows_load = decided.cluster.up and decided.cluster.spec.autoscale is not None
    return FollowUp(
        calls=ProviderCalls(
            launch=launch,
            terminate=tuple(
                row
                for row in changed
                if row.state is InstanceState.TERMINATING and _state(old, row) is not InstanceState.TERMINATING
            ),
        ),
        follows_load=follows_load,
        needs_reports=follows_load or (decided.cluster.up and decided.cluster.workbench.auto_terminate.counts_use),
        pools=pools,
        came=came(cluster, decided.cluster, after),
        ended=ended(cluster, decided.cluster),
        unfinished=decided.unfinished or more,
    )


def _charge(
    tx: Tx,
    cluster: Cluster,
    nodes: Sequence[Instance],
    *,
    had_nodes: bool,
    now: int,
    sizes: Mapping[str, NodeType],
    policy: Policy,
) -> None:
    """Settles what the cluster's nodes cost, in the transaction that changes them."""
    if had_nodes or nodes:
        known = tx.charges.open(cluster.cluster_id)
        tx.charges.write(*settle(known, cluster, nodes, now=now, node_types=sizes, currency=policy.currency))


def _spent(
    tx: Tx, cluster: Cluster, nodes: Sequence[Instance], *, now: int, sizes: Mapping[str, NodeType], policy: Policy
) -> Spent | None:
    """What the cluster has cost since its start, if it has a limit of that, with nodes that were launched since the last pass."""
    if not cluster.workbench.auto_terminate.max_cost:
        return None
    known = tx.charges.between(cluster.start_ms, now + 1, cluster_id=cluster.cluster_id)
    settled = settle(
        [each for each in known if not each.ended_ms], cluster, nodes, now=now, node_types=sizes, currency=policy.currency
    )
    replaced = {each.instance_id for each in settled.ended}
    kept = [each for each in known if each.ended_ms or each.instance_id not in replaced]
    return spent_of([*kept, *settled.ended, *settled.begun], cluster, now=now)


def _used(tx: Tx, cluster: Cluster, nodes: Sequence[Instance], *, now: int, began_ms: int) -> int:
    """Until when the cluster's machines were in use, if it would end for idleness otherwise."""
    since = asks_for_use(cluster, nodes, now=now)
    if not since or now < began_ms + GRACE_MS:
        return 0
    rows = tx.samples.between(cluster.cluster_id, since, now)
    return last_use(((TIERS[row.tier].step_ms, unpack(row.packed, metrics=USE_METRICS)) for row in rows), since_ms=since, now=now)


def _with_global_scripts(tx: Tx, cluster: Cluster) -> Cluster:
    """A cluster that begins to start remembers the global init scripts of this moment: its nodes run these, whenever they
    join."""
    if cluster.target is not Target.RUNNING or cluster.up or cluster.scripts_incarnation == cluster.incarnation:
        return cluster
    if scripts := tx.scripts.enabled():
        tx.lock(tx.scripts.SCRIPTS, shared=True)  # so that no content goes away that is being remembered
        scripts = tx.scripts.enabled()
    return remembering(cluster, scripts)


def _rooms(tx: Tx, cluster: Cluster, instances: Sequence[Instance], *, most: int) -> dict[str, PoolStock]:
    """The pools that the pass may take from or return to, locked, with as many of their idle instances as it may take."""
    needed, wanted = pools_needed(cluster, instances)
    wanted = min(wanted, most)
    rooms: dict[str, PoolStock] = {}
    for pool_id, pool in tx.pools.many(needed).items():
        live = sum(count for kind, count in tx.instances.standings(pool_id).get(pool_id, {}).items() if kind is not Standing.NONE)
        idle = tx.instances.to_take(pool_id, wanted) if wanted and pool.active else ()
        full = pool.spec.max_capacity is not None and live >= pool.spec.max_capacity and len(idle) < wanted
        waits = full and cluster.target is Target.RUNNING and not cluster.up
        returning = waits and _gives_back(tx, pool_id)
        rooms[pool_id] = PoolStock(pool, idle=idle, live=live, returning=returning)
    return rooms


def _gives_back(tx: Tx, pool_id: str) -> bool:
    """Whether instances of the pool are on their way back, or their cluster is ending."""
    live = tx.instances.live_of_pool(pool_id)
    if any(each.releasing_ms for each in live):
        return True
    users = tx.clusters.many({each.cluster_id for each in live} - {""})
    return any(each.target is Target.TERMINATED for each in users.values())


def _load(tx: Tx, node: Instance, cluster: Cluster, loads: Loads) -> Load | None:
    """The load that a node reports, if it is the cluster's driver."""
    if node.role is Role.WORKER or node.generation != cluster.incarnation or node.assignment is None:
        return None
    return loads.of(tx, node.instance_id, node.assignment.generation)


def _purge(tx: Tx, cluster: Cluster, decided: Plan, now: int) -> FollowUp:
    """Removes a permanently deleted cluster of which nothing is left, or one whose retention is over."""
    for instance in decided.removed:
        tx.instances.delete(instance)
    for instance in decided.returned:
        tx.instances.update(instance)
    tx.events.delete(cluster.cluster_id)
    tx.ports.delete(cluster.cluster_id)
    tx.clusters.delete(cluster.cluster_id)
    tx.clusters.remember(cluster.cluster_id, purged_ms=0 if cluster.deleted_ms else now)
    return FollowUp(pools=_wake_pools(tx, (), {}, decided), gone=True)


def _wake_pools(tx: Tx, changed: Sequence[Instance], old: Mapping[str, Instance], decided: Plan) -> tuple[str, ...]:
    """Wakes the pools that have lost an idle instance, lost any instance, or got one back."""
    moved = [row for row in changed if row.instance_id not in old or row.state is InstanceState.TERMINATING]
    woken = tuple(sorted({row.pool_id for row in (*moved, *decided.removed, *decided.returned) if row.pool_id}))
    for pool_id in woken:
        tx.pools.wake(pool_id)
    return woken


def _state(old: Mapping[str, Instance], row: Instance) -> InstanceState | None:
    found = old.get(row.instance_id)
    return found.state if found is not None else None


def _write(
    tx: Tx, cluster: Cluster, decided: Plan, old: Mapping[str, Instance], after: list[Instance], *, due: int | None
) -> None:
    for instance in decided.removed:
        tx.instances.delete(instance)
    for instance in after:
        if instance != old.get(instance.instance_id):
            tx.instances.update(instance)
    for instance in decided.returned:
        tx.instances.update(instance)
        tx.clusters.touch(cluster.cluster_id)
    tx.clusters.finish(cluster, decided.cluster, due_ms=due)
    for event in decided.events:
        tx.events.append(event)


def _new_instance(
    node: NewNode, cluster: Cluster, *, now: int, sizes: Mapping[str, NodeType], policy: Policy, ids: Ids
) -> Instance:
    provider = node.provider or policy.provider
    return Instance(
        instance_id=ids.instance_id(),
        node_id=ids.node_id(),
        cluster_id=cluster.cluster_id,
        role=node.role,
        generation=cluster.incarnation,
        node_type_id=node.node_type_id,
        spot=node.spot,
        provider=provider,
        created_ms=now,
        pool_id=node.pool_id,
        cold="the pool had no idle instance" if node.pool_id else "",
        assignment=assignment_for(
            cluster,
            role=node.role,
            node_type_id=node.node_type_id,
            sizes=sizes,
            encrypted=provider in policy.encrypting,
            photon=policy.photon,
            table_format=policy.table_format,
        ),
    )
