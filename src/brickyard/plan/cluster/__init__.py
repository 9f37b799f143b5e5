"""The cluster planner: decides what to do next about one cluster, given its desired and observed state.

`plan` is a pure function. It runs inside the transaction that reads its inputs and writes its result, so no other writer can
interfere and no decision is made on stale rows. External actions (launch, terminate) are recorded in the state of instances and
carried out after the commit, repeatedly until the provider agrees.

A pass goes through `PHASES`: first it records what happened outside (`reap`), then it acts on it. It changes a limited number of
nodes, and its time grows with their number, not with its square: other writers wait for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from brickyard.domain.cluster import Cluster, Instance, Target
from brickyard.domain.node import Load, Role
from brickyard.domain.nodetypes import NodeType
from brickyard.plan.autoterminate import Spent
from brickyard.plan.cluster.ending import drain, end_at_limit, end_idle, let_finish, restore
from brickyard.plan.cluster.nodes import (
    check_heartbeat,
    drop_failed_workers,
    end_without_types,
    keep_driver,
    reap,
    regenerate,
    report_disks,
)
from brickyard.plan.cluster.nodeset import NodeSet
from brickyard.plan.cluster.passstate import NewNode, Pass, Plan
from brickyard.plan.cluster.scripts import report_scripts
from brickyard.plan.cluster.serve import announce_libraries, announce_master, describe, serve
from brickyard.plan.cluster.size import end_oversized, follow_load, resize
from brickyard.plan.policy import Policy
from brickyard.plan.poolroom import PoolStock

__all__ = ["PHASES", "NewNode", "Plan", "load_matters", "plan"]

Phase = Callable[[Pass], None]

# In this order. A phase with a target is skipped unless that is the cluster's target when its turn comes: any phase may end the
# cluster, and `drain` then follows in the same pass.
PHASES: tuple[tuple[Target | None, Phase], ...] = (
    (None, reap),
    (Target.RUNNING, end_oversized),
    (Target.RUNNING, end_at_limit),
    (None, let_finish),
    (Target.RUNNING, restore),
    (Target.RUNNING, end_without_types),
    (Target.RUNNING, regenerate),
    (Target.RUNNING, report_disks),
    (Target.RUNNING, report_scripts),
    (Target.RUNNING, keep_driver),
    (Target.RUNNING, check_heartbeat),
    (Target.RUNNING, drop_failed_workers),
    (Target.RUNNING, follow_load),
    (Target.RUNNING, resize),
    (Target.RUNNING, announce_master),
    (Target.RUNNING, announce_libraries),
    (Target.RUNNING, serve),
    (Target.RUNNING, describe),
    (Target.RUNNING, end_idle),
    (Target.TERMINATED, drain),
)


def load_matters(cluster: Cluster, instances: Sequence[Instance]) -> bool:
    """Whether a pass asks for the driver's load: the cluster's size follows it, or there are workers too many."""
    workers = sum(node.role is Role.WORKER and node.generation == cluster.incarnation for node in instances)
    return cluster.up and (cluster.spec.autoscale is not None or workers > cluster.num_workers)


def plan(
    cluster: Cluster,
    instances: Sequence[Instance],
    *,
    now: int,
    sizes: Mapping[str, NodeType],
    policy: Policy,
    silent: frozenset[str] = frozenset(),
    load: Load | None = None,
    rooms: Mapping[str, PoolStock] = MappingProxyType({}),
    spent: Spent | None = None,
    used_ms: int = 0,
    idle_from_ms: int = 0,
    ahead_ms: int = 0,
    partial: bool = False,
) -> Plan:
    """Decides about one cluster.

    `sizes` are the node types by id. `silent` are the instances that this process has not heard from lately: the planner
    concludes nothing from their idleness. `load` is the driver's last reported load, or None if this process does not know it.
    `rooms` are the existing pools among `poolroom.pools_needed`; the plan takes from them.
    `spent`: needed if the cluster has a limit of its cost. `used_ms`: until when its machines were in use, if that matters.
    `idle_from_ms`: earlier, it does not end for inactivity. `ahead_ms`: by how much the clock of times that people name is ahead
    of `now`.
    `partial`: the cluster has more nodes than any may have, and `instances` are some of them. It ends.
    """
    this = Pass(
        cluster=cluster,
        nodes=NodeSet(instances, incarnation=cluster.incarnation),
        now=now,
        sizes=sizes,
        policy=policy,
        silent=silent,
        load=load,
        rooms=rooms,
        spent=spent,
        used_ms=used_ms,
        idle_from_ms=idle_from_ms,
        ahead_ms=ahead_ms,
        partial=partial,
    )
    for target, phase in PHASES:
        if not this.waiting and target in (None, this.cluster.target):
            phase(this)
    return this.plan()
