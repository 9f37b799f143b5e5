"""The cluster planner: what to do next about one cluster, from what is wanted and what is.

`plan` is a pure function. It runs inside the transaction that read its inputs and that writes its result, so no other writer can
come between: a decision is never made on stale rows. What must happen outside (launch, terminate) is left as the state of
instances, and done after the commit, again and again until the provider agrees.

A pass has small phases in a fixed order: first reflect what the world did (`_reap`), then act on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from brickyard.domain.cluster import Cluster, Instance, Target
from brickyard.domain.node import Load
from brickyard.domain.nodetypes import NodeType
from brickyard.plan.cluster.books import NewNode, Plan
from brickyard.plan.cluster.serve import ServePhases
from brickyard.plan.policy import Policy
from brickyard.plan.poolroom import CLEAN_TIMEOUT_MS, Room

__all__ = ["NewNode", "Plan", "plan"]


def plan(
    cluster: Cluster,
    instances: Sequence[Instance],
    *,
    now: int,
    sizes: Mapping[str, NodeType],
    policy: Policy,
    silent: frozenset[str] = frozenset(),
    load: Load | None = None,
    rooms: Mapping[str, Room] = MappingProxyType({}),
) -> Plan:
    """Decide about one cluster.

    `sizes` are the node types by id. `silent` are the instances that this process has not heard from lately: nothing is
    concluded from their idleness. `load` is what the driver said last of its work; None: this process does not know.
    `rooms` are those of the pools of `poolroom.pools_needed` that exist; the plan takes from them.
    """
    books = _Pass(cluster, instances, now=now, sizes=sizes, policy=policy, silent=silent, load=load, rooms=rooms)
    return books.run()


class _Pass(ServePhases):
    """The phases in their order, each owning one condition."""

    def run(self) -> Plan:
        self._reap()
        if self.cluster.target is Target.RUNNING:
            self._check_types()
        if self.cluster.target is Target.RUNNING:
            self._regenerate()
            self._disks()
            self._driver()
        if self.cluster.target is Target.RUNNING:
            self._heartbeat()
        if self.cluster.target is Target.RUNNING:
            self._workers()
            self._autoscale()
            self._size()
        if self.cluster.target is Target.RUNNING:
            self._tell_master()
            self._serve()
        if self.cluster.target is Target.RUNNING:
            self._describe()
            self._idle()
        if self.cluster.target is Target.TERMINATED:
            self._drain()
        return Plan(
            cluster=self.cluster,
            instances={key: node for key, node in self.nodes.items() if key not in self.before or node != self.before[key]},
            new=self.new,
            removed=self.removed,
            events=self.events,
            due_ms=min(self.deadlines, default=None),
            returned=self.returned,
            purge=self.cluster.ended and (bool(self.cluster.deleted_ms) or 0 < self.cluster.forget_ms <= self.now),
        )

    def _drain(self) -> None:
        """Nothing is wanted: every instance goes, and the cluster has ended when the last one is gone."""
        self.deadlines.clear()
        for node in self._live():
            self._send_away(node)
        self.deadlines.extend(node.releasing_ms + CLEAN_TIMEOUT_MS for node in self.nodes.values() if node.releasing_ms)
        self.new.clear()
        if not self.nodes and not self.cluster.ended:
            self._change(ended=True, terminated_ms=self.now, restarting=False)
        if self.cluster.forget_ms:
            self.deadlines.append(self.cluster.forget_ms)
