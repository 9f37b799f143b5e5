"""Write a plan: the rows it changes, inside the transaction that read its inputs."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from brickyard.domain.clock import Ids
from brickyard.domain.cluster import Cluster, Instance
from brickyard.domain.instances import InstanceState
from brickyard.domain.node import Role
from brickyard.domain.nodetypes import NodeType
from brickyard.plan.assignments import assignment_for
from brickyard.plan.cluster import NewNode, Plan, plan
from brickyard.plan.policy import Policy
from brickyard.reconcile.loads import Loads
from brickyard.store.tx import Tx


class Outside(msgspec.Struct, frozen=True, kw_only=True):
    """What is left to do with the provider once the pass is committed."""

    launch: tuple[Instance, ...] = ()
    terminate: tuple[Instance, ...] = ()
    changed_agents: tuple[str, ...] = ()  # instances whose assignment is a new one
    follows_load: bool = False  # the cluster's size is to follow its load


def run_pass(
    tx: Tx,
    cluster_id: str,
    *,
    now: int,
    sizes: Mapping[str, NodeType],
    policy: Policy,
    ids: Ids,
    silent: frozenset[str],
    loads: Loads,
) -> Outside:
    """One pass over one cluster: read, plan, write.

    The rows stay locked from the read to the commit, so neither a user's request nor another loop can come between. Launches are
    leased: `not_before_ms` moves on before the call, so that no second process repeats it while this one is at it, and one that
    died in the middle is repeated (launching is idempotent).
    """
    cluster = tx.clusters.get(cluster_id)
    if cluster is None:
        return Outside()
    before = tx.instances.of_cluster(cluster_id)
    drivers = (each for each in before if each.role is not Role.WORKER and each.generation == cluster.incarnation)
    load = next((found for each in drivers if (found := loads.of(each.instance_id, each.generation)) is not None), None)
    decided = plan(cluster, before, now=now, sizes=sizes, policy=policy, silent=silent, load=load)
    if decided.purge:
        for instance in decided.removed:
            tx.instances.delete(instance)
        tx.events.delete(cluster_id)
        tx.clusters.delete(cluster_id)
        return Outside()
    rows = [decided.instances.get(instance.instance_id, instance) for instance in before]
    gone = {instance.instance_id for instance in decided.removed}
    after = [row for row in rows if row.instance_id not in gone]
    created = [_new_instance(node, decided.cluster, now=now, sizes=sizes, ids=ids) for node in decided.new]
    launch, due = _lease_launches([*after, *created], now=now, policy=policy, due=decided.due_ms)
    leased = {instance.instance_id: instance for instance in launch}
    _write(tx, cluster, decided, before, [leased.get(row.instance_id, row) for row in after])
    for instance in created:
        tx.instances.insert(leased.get(instance.instance_id, instance))
    tx.clusters.schedule(cluster_id, due)
    states = {instance.instance_id: instance for instance in before}
    return Outside(
        launch=launch,
        terminate=tuple(
            row
            for row in after
            if row.state is InstanceState.TERMINATING and states[row.instance_id].state is not InstanceState.TERMINATING
        ),
        follows_load=decided.cluster.up and decided.cluster.spec.autoscale is not None,
        changed_agents=tuple(row.instance_id for row in after if row.assignment != states[row.instance_id].assignment),
    )


def _write(tx: Tx, cluster: Cluster, decided: Plan, before: list[Instance], after: list[Instance]) -> None:
    old = {instance.instance_id: instance for instance in before}
    for instance in decided.removed:
        tx.instances.delete(instance)
    for instance in after:
        if instance != old[instance.instance_id]:
            tx.instances.update(instance)
    if decided.cluster != cluster:
        tx.clusters.update(decided.cluster)
    for event in decided.events:
        tx.events.append(event)


def _new_instance(node: NewNode, cluster: Cluster, *, now: int, sizes: Mapping[str, NodeType], ids: Ids) -> Instance:
    return Instance(
        instance_id=ids.instance_id(),
        node_id=ids.node_id(),
        cluster_id=cluster.cluster_id,
        role=node.role,
        generation=cluster.incarnation,
        node_type_id=node.node_type_id,
        created_ms=now,
        assignment=assignment_for(cluster, role=node.role, node_type_id=node.node_type_id, sizes=sizes, version=1),
    )


def _lease_launches(
    instances: list[Instance], *, now: int, policy: Policy, due: int | None
) -> tuple[tuple[Instance, ...], int | None]:
    """The requested instances whose turn it is, leased; and when to look again at those whose turn is later."""
    leased: list[Instance] = []
    for instance in instances:
        if instance.state is not InstanceState.REQUESTED or instance.launch_error is not None:
            continue
        next_look = instance.not_before_ms
        if next_look <= now:
            next_look = now + policy.launch_lease_ms
            leased.append(msgspec.structs.replace(instance, attempts=instance.attempts + 1, not_before_ms=next_look))
        due = next_look if due is None else min(due, next_look)
    return tuple(leased), due
