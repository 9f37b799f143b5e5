"""The cluster planner: decides what to do next about one cluster, given its desired and observed state.

`plan` is a pure function. It runs inside the transaction that reads its inputs and writes its result, so no other writer can
interfere and no decision is made on stale rows. External actions (launch, terminate) are recorded in the state of instances and
carried out after the commit, repeatedly until the provider agrees.

A pass has small phases in a fixed order: first record what happened outside (`_reap`), then act on it. It changes a limited
number of nodes, and its time grows with their number, not with its square: other writers wait for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from brickyard.domain.cluster import Cluster, Instance, Target
from brickyard.domain.node import Load, Role
from brickyard.domain.nodetypes import NodeType
from brickyard.plan.cluster.ending import EndPhases
from brickyard.plan.cluster.passstate import NewNode, Plan
from brickyard.plan.gpu.limits import Spent
from brickyard.plan.policy import Policy
from brickyard.plan.poolroom import PoolStock

__all__ = ["NewNode", "Plan", "load_matters", "plan"]


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
    return _Pass(
        cluster,
        instances,
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
    ).run()


class _Pass(EndPhases):
    """Runs the phases in order. Each phase is responsible for one condition."""

    def run(self) -> Plan:
        self._reap()
        if self.cluster.target is Target.RUNNING:
            self._check_extent()
            self._limits()
        if not self._lets_finish():
            if self.cluster.target is Target.RUNNING and not self._restores():
                self._work()
            if self.cluster.target is Target.TERMINATED:
                self._drain()
        return Plan(
            cluster=self.cluster,
            instances={key: node for key, node in self.nodes.items() if key not in self.before or node != self.before[key]},
            new=self.new,
            removed=self.removed,
            events=self.events,
            due_ms=self.now if self.unfinished else min(self.deadlines, default=None),
            returned=self.returned,
            unfinished=self.unfinished,
            purge=self.cluster.ended and (bool(self.cluster.deleted_ms) or 0 < self.cluster.forget_ms <= self.now),
        )

    def _work(self) -> None:
        """What a cluster needs that is to run, until a phase ends it."""
        self._check_types()
        if self.cluster.target is Target.RUNNING:
            self._regenerate()
            self._disks()
            self._scripts()
            self._driver()
        if self.cluster.target is Target.RUNNING:
            self._heartbeat()
        if self.cluster.target is Target.RUNNING:
            self._workers()
            self._autoscale()
            self._size()
        if self.cluster.target is Target.RUNNING:
            self._tell_master()
            self._tell_libraries()
            self._serve()
            self._note_progress()
        if self.cluster.target is Target.RUNNING:
            self._describe()
            self._idle()
