"""The state of one planning pass: a cluster and its nodes, with the queries and changes that phases may make. Pure.

Every change goes through `Pass`, so that each phase finds the cluster and its nodes consistent.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from brickyard.domain.cluster import Cluster, Instance, Target, is_single_node
from brickyard.domain.events import ClusterEvent, EventDetails, EventType
from brickyard.domain.instances import InstanceState
from brickyard.domain.node import Assignment, Failure, Load, Phase, Role
from brickyard.domain.nodetypes import NodeType
from brickyard.domain.terminations import TerminationReason, TerminationReasonCode
from brickyard.plan import graceful
from brickyard.plan.assignments import assignment_for
from brickyard.plan.autoterminate import Spent
from brickyard.plan.cluster.nodeset import NodeSet
from brickyard.plan.launching import is_spot, next_attempt, provider_of, stays, types_of, unsupported
from brickyard.plan.policy import Policy
from brickyard.plan.poolroom import CLEAN_TIMEOUT_MS, PoolStock, can_release, joined, pool_not_found, pool_of, releasing


class NewNode(msgspec.Struct, frozen=True, kw_only=True):
    """An instance to record and launch. The caller that applies the plan assigns its ids."""

    role: Role
    node_type_id: str
    provider: str = ""
    pool_id: str = ""  # the pool that owns it
    spot: bool = False


class Plan(msgspec.Struct, kw_only=True):
    """The result of a pass: the rows to write, and when to look again.

    `instances` holds only those that changed. With `due_ms` None, the next pass is when something wakes the cluster.
    """

    cluster: Cluster
    instances: dict[str, Instance]
    new: list[NewNode]
    removed: list[Instance]
    events: list[ClusterEvent]
    due_ms: int | None
    returned: list[Instance] = []  # back in their pools and idle
    unfinished: bool = False  # the pass has changed as much as one may: the next one is due now
    purge: bool = False  # permanently deleted, or retention is over, and nothing is left: remove its rows


class Pass(msgspec.Struct, kw_only=True):
    """The state of one pass. `plan` documents the facts; each phase changes the rest."""

    cluster: Cluster
    nodes: NodeSet
    now: int
    sizes: Mapping[str, NodeType]
    policy: Policy
    silent: frozenset[str]
    load: Load | None
    rooms: Mapping[str, PoolStock]
    spent: Spent | None
    used_ms: int
    idle_from_ms: int
    ahead_ms: int
    partial: bool

    before: dict[str, Instance] = {}  # the nodes at the beginning
    returned: list[Instance] = []
    new: list[NewNode] = []
    new_on_demand: int = 0
    removed: list[Instance] = []
    events: list[ClusterEvent] = []
    shortage: TerminationReason | None = None  # why this pass could not get a worker
    deadlines: list[int] = []
    waiting: bool = False  # nothing else is done meanwhile: no phase follows in this pass
    unfinished: bool = False  # there is more to do at once, in another pass

    def __post_init__(self) -> None:
        self.before = dict(self.nodes)

    def plan(self) -> Plan:
        """The changes that the phases have made."""
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

    # -- facts -------------------------------------------------------------------------------------------------------

    def driver_role(self) -> Role:
        return Role.SINGLE if is_single_node(self.cluster.spec) else Role.DRIVER

    def wanted(self) -> int:
        return 0 if is_single_node(self.cluster.spec) else self.cluster.num_workers

    def enough(self) -> int:
        """The smallest number of workers that is enough to complete a start."""
        return min(self.wanted(), max(1, math.ceil(self.policy.min_ready_ratio * self.wanted())))

    def full(self) -> bool:
        """Whether the pass has changed as many nodes as one pass may. The rest is for the next one, which follows at once: nobody
        else can write while a pass does."""
        if len(self.nodes.touched) + len(self.new) < self.policy.nodes_per_pass:
            return False
        self.unfinished = True
        return True

    def in_turn(self, nodes: Iterable[Instance]) -> Iterator[Instance]:
        """The nodes that a phase may change, for as long as this pass may change any."""
        for node in nodes:
            if self.full():
                return
            yield node

    def registered_workers(self, driver: Instance) -> list[Instance]:
        """Workers that report ready and that the master considers alive."""
        alive = frozenset(driver.current_status.alive_workers)
        return [
            node
            for node in self.nodes.workers
            if node.ready and not node.retiring and node.current_status.worker_address in alive
        ]

    def hangs(self, node: Instance) -> bool:
        """Whether Spark on the node has been silent for too long. If it may become so, schedules a pass for that time."""
        since_ms = node.current_status.silent_since_ms
        if since_ms and self.now < since_ms + self.policy.silence_ms:
            self.deadlines.append(since_ms + self.policy.silence_ms)
        return bool(since_ms) and self.now >= since_ms + self.policy.silence_ms

    def unheard(self, driver: Instance) -> bool:
        """Whether the driver's last report of its work may be out of date: nothing is concluded from it then."""
        return driver.instance_id in self.silent or bool(driver.current_status.silent_since_ms)

    def failure_of(self, node: Instance) -> Failure | None:
        status = node.current_status
        if status.phase is not Phase.FAILED:
            return None
        return status.failure or Failure(code="", message=status.message or "it failed and gave no reason")

    def missing_text(self, ready: int) -> str:
        return f"{self.wanted() - ready} of {self.wanted()} workers could not be obtained; retrying in the background"

    def size_details(self, current: int) -> EventDetails:
        cause = self.cluster.resize_cause if self.cluster.up else None
        return EventDetails(current_num_workers=current, target_num_workers=self.wanted(), cause=cause)

    # -- changes -----------------------------------------------------------------------------------------------------

    def add(self, role: Role) -> TerminationReason | None:
        """Adds a node: an idle one of its pool, or a new one. Returns the reason if neither is possible."""
        spec, pool_id = self.cluster.spec, pool_of(self.cluster.spec, role)
        driver = self.nodes.driver if role is Role.WORKER else None
        if (reason := unsupported(spec, role, offered=self.sizes, driver=driver)) is not None:
            return reason
        found = None
        if pool_id:
            room = self.rooms.get(pool_id)
            taken = room.take(lambda each: stays(each, self.sizes)) if room is not None else pool_not_found(pool_id)
            if isinstance(taken, TerminationReason):
                return taken
            if room is not None and taken.instance is not None:
                found = joined(
                    taken.instance,
                    self.cluster,
                    role=role,
                    preloaded=room.pool.preloaded,
                    assignment=self.assignment(taken.instance, role),
                    now=self.now,
                )
        if found is not None:
            self.nodes[found.instance_id] = found
        else:
            on_demand = self.nodes.on_demand + self.new_on_demand
            node_type_id = types_of(spec, role)[0]
            provider = provider_of(node_type_id, self.sizes, self.policy)
            spot = not pool_id and is_spot(spec, self.policy, on_demand, provider=provider)
            self.new.append(NewNode(role=role, node_type_id=node_type_id, provider=provider, pool_id=pool_id, spot=spot))
            self.new_on_demand += not spot
        return None

    def waits_for_pool(self, role: Role, short: TerminationReason) -> bool:
        """Whether the start waits a moment longer, since the pool that is full gets instances back."""
        room = self.rooms.get(pool_of(self.cluster.spec, role))
        until = self.cluster.launch_started_ms + self.policy.pool_return_ms
        if self.cluster.up or room is None or not room.returning or self.now >= until:
            return False
        if short.code is not TerminationReasonCode.INSTANCE_POOL_MAX_CAPACITY_REACHED:
            return False
        self.deadlines.append(min(until, self.now + self.policy.pool_look_ms))
        name = room.pool.spec.instance_pool_name
        self.change(state_message=f"Waiting for instances that are on their way back to instance pool {name}.")
        return True

    def send_away(self, node: Instance) -> None:
        """Returns the node to its pool if that accepts it; otherwise ends it."""
        if node.instance_id not in self.before:  # taken in this pass: nobody has heard of it
            del self.nodes[node.instance_id]
        elif stays(node, self.sizes) and can_release(node, self.rooms):
            pool, node_type = self.rooms[node.pool_id].pool, self.sizes[node.node_type_id]
            self.nodes[node.instance_id] = releasing(node, pool, node_type=node_type, now=self.now)
            self.deadlines.append(self.now + CLEAN_TIMEOUT_MS)
        else:
            self.set(node, state=InstanceState.TERMINATING)

    def retry_launch(self, node: Instance) -> bool:
        """Whether a refused launch will be tried again, unchanged or in another form."""
        changes = next_attempt(node, self.cluster.spec, now=self.now, policy=self.policy, offered=self.sizes)
        if changes is None:
            return False
        self.set(node, **changes)
        if "node_type_id" in changes:
            self.set(node, assignment=self.assignment(self.nodes[node.instance_id]))
        return True

    def assignment(self, node: Instance, role: Role | None = None) -> Assignment:
        """The assignment of a node in the current incarnation. Its master is added later."""
        return assignment_for(
            self.cluster,
            role=role or node.role,
            node_type_id=node.node_type_id,
            sizes=self.sizes,
            after=node.assignment,
            encrypted=(node.provider or self.policy.provider) in self.policy.encrypting,
            photon=self.policy.photon,
            table_format=self.policy.table_format,
        )

    def end(self, reason: TerminationReason, message: str, *, state_loss: bool = False) -> None:
        """Ends the cluster on the system's behalf: sets its target and a reason, as a user's request would."""
        self.cluster = graceful.shortened(self.cluster, until_ms=self.now, now=self.now)
        self.change(
            target=Target.TERMINATED, ended=False, terminating_ms=self.now, termination_reason=reason, state_message=message
        )
        if state_loss:
            self.change(last_state_loss_ms=self.now)
        self.event(EventType.TERMINATING, EventDetails(reason=reason))

    def change(self, **fields: object) -> None:
        if any(getattr(self.cluster, name) != value for name, value in fields.items()):
            self.cluster = msgspec.structs.replace(self.cluster, **fields)

    def set(self, node: Instance, **fields: object) -> None:
        self.nodes[node.instance_id] = msgspec.structs.replace(self.nodes[node.instance_id], **fields)

    def event(self, kind: EventType, details: EventDetails) -> None:
        self.events.append(ClusterEvent(cluster_id=self.cluster.cluster_id, timestamp=self.now, type=kind, details=details))
