"""What a cluster may take from an instance pool, and what it returns. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping

import msgspec

from brickyard.domain.cluster import Cluster, Instance, Target, is_single_node
from brickyard.domain.instances import InstanceState
from brickyard.domain.node import Assignment, Phase, Role
from brickyard.domain.nodetypes import NodeType
from brickyard.domain.pools import Pool, Standing, standing
from brickyard.domain.spec import ClusterSpec
from brickyard.domain.terminations import TerminationReason, TerminationReasonCode
from brickyard.plan.assignments import idle_assignment
from brickyard.plan.reasons import simple_reason

CLEAN_TIMEOUT_MS = 60_000  # an instance whose agent has not cleaned it by then is ended instead of going back
_COLD = {
    Standing.IDLE: "it had no warm JVM",
    Standing.PREPARING: "it was still being prepared",
    Standing.LAUNCHING: "it was still being launched",
}


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """An idle instance of a pool for the cluster; with `instance` None, permission to launch a new one for the pool."""

    instance: Instance | None


class PoolStock:
    """A pool as seen by one pass over a cluster: its idle instances, and how many more it may have. Taking uses it up.
    `returning`: some that clusters have given back are not clean yet."""

    def __init__(self, pool: Pool, *, idle: Iterable[Instance], live: int, returning: bool = False) -> None:
        self.pool = pool
        self.returning = returning
        sound = (each for each in idle if each.launch_error is None)
        self._idle = deque(sorted(sound, key=lambda each: (standing(each), each.instance_id)))
        self._live = live  # idle, used and pending

    def take(self, fits: Callable[[Instance], bool] = lambda _: True) -> Taken | TerminationReason:
        """One instance that fits, or why there is none. `fits` gives the same answer throughout the pass."""
        if not self.pool.active:
            return pool_not_found(self.pool.instance_pool_id)
        while self._idle:
            if fits(found := self._idle.popleft()):
                return Taken(instance=found)
        capacity = self.pool.spec.max_capacity
        if capacity is not None and self._live >= capacity:
            return self._full(capacity)
        self._live += 1
        return Taken(instance=None)

    def _full(self, capacity: int) -> TerminationReason:
        pool = self.pool
        return simple_reason(
            TerminationReasonCode.INSTANCE_POOL_MAX_CAPACITY_REACHED,
            instance_pool_id=pool.instance_pool_id,
            instance_pool_error_code="INSTANCE_POOL_MAX_CAPACITY_FAILURE",
            max_capacity=str(capacity),
            databricks_error_message=(
                f"Instance pool {pool.spec.instance_pool_name} ({pool.instance_pool_id}) is full: "
                f"{self._live} of max_capacity {capacity} instances, none idle. Terminate or shrink a cluster on it, or raise its"
                " max_capacity."
            ),
        )


def pool_not_found(pool_id: str) -> TerminationReason:
    """The reason for a deleted pool."""
    return simple_reason(
        TerminationReasonCode.INSTANCE_POOL_NOT_FOUND,
        instance_pool_id=pool_id,
        instance_pool_error_code="INSTANCE_POOL_NOT_FOUND_FAILURE",
        databricks_error_message=(
            f"Can't find an instance pool with id: {pool_id}. It was deleted. Edit the cluster to use another pool, or none."
        ),
    )


def pool_of(spec: ClusterSpec, role: Role) -> str:
    """The id of the pool that nodes of that role come from; "" if none."""
    pool_id = spec.instance_pool_id or ""
    return pool_id if role is Role.WORKER else spec.driver_instance_pool_id or pool_id


def pools_needed(cluster: Cluster, instances: Iterable[Instance]) -> tuple[set[str], int]:
    """The ids of the pools that a pass over the cluster may take from or return to, and the most nodes it may take."""
    held = {node.pool_id for node in instances if node.pool_id}
    if cluster.target is not Target.RUNNING:
        return held, 0
    own = {pool_of(cluster.spec, Role.WORKER), pool_of(cluster.spec, Role.DRIVER)} - {""}
    if not own:
        return held, 0
    serving = sum(1 for node in instances if node.ready and not node.retiring and node.generation == cluster.incarnation)
    scale = cluster.spec.autoscale if cluster.up else None
    most = cluster.num_workers if scale is None else scale.max_workers or 0  # this pass may decide to grow
    wanted = 1 + (0 if is_single_node(cluster.spec) else most)
    return held | own, max(0, wanted - serving) + 1


def joined(instance: Instance, cluster: Cluster, *, role: Role, preloaded: str, assignment: Assignment, now: int) -> Instance:
    """The idle instance, turned into a node of the cluster."""
    return msgspec.structs.replace(
        instance,
        cluster_id=cluster.cluster_id,
        role=role,
        generation=cluster.incarnation,
        assignment=assignment,
        ready_ms=0,
        idle_ms=0,
        created_ms=now,
        cold=cold_reason(instance, runtime=assignment.runtime, preloaded=preloaded),
    )


def cold_reason(instance: Instance, *, runtime: str, preloaded: str) -> str:
    """Why taking an idle instance is no warm start for that runtime; "" if it is one."""
    if not preloaded:
        return "the pool preloads no runtime"
    if preloaded != runtime:
        return f"the pool preloads {preloaded}"
    return _COLD.get(standing(instance), "")


def can_release(node: Instance, rooms: Mapping[str, PoolStock]) -> bool:
    """Whether a node may return to its pool: it must be sound, and the pool must exist."""
    room = rooms.get(node.pool_id)
    sound = node.state is InstanceState.REGISTERED and not node.lost and node.current_status.phase is not Phase.FAILED
    return room is not None and room.pool.active and sound


def releasing(node: Instance, pool: Pool, *, node_type: NodeType, now: int) -> Instance:
    """The node, told to clean itself and become idle. The cluster keeps it until its agent reports that it has."""
    return msgspec.structs.replace(
        node,
        releasing_ms=now,
        generation=0,  # of no incarnation
        retire_after_ms=0,
        assignment=idle_assignment(node_type=node_type, runtime=pool.preloaded, after=node.assignment),
    )


def returned(node: Instance, *, now: int) -> Instance:
    """The clean node, idle in its pool."""
    return msgspec.structs.replace(node, cluster_id="", role=Role.WARM, releasing_ms=0, ready_ms=0, idle_ms=now, cold="")


def warmth(nodes: Iterable[Instance]) -> str | None:
    """Which of a cluster's nodes started warm, and why others did not, for events. None if no node is from a pool."""
    own = [node for node in nodes if node.pool_id]
    if not own:
        return None
    warm = sum(node.current_status.warm_start for node in own)
    text = f"{warm} of {len(own)} nodes from the instance pool started warm"
    reasons: dict[str, list[str]] = {}
    for node in own:
        why = node.current_status.cold_reason or node.cold
        if why and not node.current_status.warm_start:
            reasons.setdefault(why, []).append(node.instance_id)
    cold = "; ".join(f"{', '.join(names)}: {why}" for why, names in reasons.items())
    return f"{text}. Cold: {cold}" if cold else text
