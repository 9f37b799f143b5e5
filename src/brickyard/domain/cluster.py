"""Clusters and their instances, as stored and as the planner uses them.

A cluster has *desired* fields (what a user asked for, or the system itself has decided) and *observed* ones (what has become of
it). Only the pure functions of `plan/` write any of them; services and loops carry the result into the store. `public_state`
derives the public state from both, for every combination.
"""

from __future__ import annotations

import functools
from enum import StrEnum

import msgspec

from brickyard.domain.events import ClusterSize, EventDetailsCause
from brickyard.domain.instances import InstanceState
from brickyard.domain.libraries import ClusterLibrary
from brickyard.domain.node import Assignment, NodeStatus, Phase, Role
from brickyard.domain.scripts import GlobalScriptRef
from brickyard.domain.spec import ClusterSpec
from brickyard.domain.states import ClusterSource, State
from brickyard.domain.terminations import TerminationReason
from brickyard.domain.warehouses import Warehouse

SINGLE_NODE_PROFILE = "spark.databricks.cluster.profile"
RETENTION_MS = 30 * 24 * 3600 * 1000  # how long a terminated, unpinned cluster is kept before it is removed


class Target(StrEnum):
    """What a cluster should be."""

    RUNNING = "RUNNING"
    TERMINATED = "TERMINATED"


class AutoTerminateLimits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """When the cluster stops by itself, besides its idle time (`plan/autoterminate.py`). 0: no such limit."""

    max_runtime_minutes: int = 0
    at_ms: int = 0
    max_cost: float = 0
    by: str = ""  # who has set them
    counts_use: bool = False  # a node whose processors or GPUs are busy is not idle, although no command runs

    @property
    def any(self) -> bool:
        return bool(self.max_runtime_minutes or self.at_ms or self.max_cost)


class WorkspaceTask(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is to be done with a cluster's workspace directory while the cluster has no node, or what was done last.

    `number` grows with every task of a cluster: what has been done for a number is never done again. A task restores at the
    beginning of an incarnation, or saves and then discards at its end.
    """

    number: int = 0
    incarnation: int = 0
    restore: str = ""  # the snapshot that the directory is to hold, before nodes start
    save: str = ""  # the snapshot to be taken
    discard: bool = False  # then empty the directory
    deletes: bool = False  # the cluster is permanently deleted, but only once the snapshot is there
    ready_ms: int = 0  # since when the cluster has had no node
    ended_ms: int = 0
    failure: str = ""

    @property
    def pending(self) -> bool:
        return self.number > 0 and not self.ended_ms

    @property
    def due_ms(self) -> int | None:
        """Since when it can be done; None if there is nothing to do, or nodes are in the way."""
        return self.ready_ms or None if self.pending else None


class GracefulStop(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A stop or restart that lets finish what runs, or the last one (`plan/graceful.py`). Times are epoch ms."""

    generation: int = 0  # the incarnation whose nodes go on until then; 0: there was none
    since_ms: int = 0
    until_ms: int = 0  # they end then at the latest
    told_ms: int = 0  # when users' programs had been told
    over_ms: int = 0  # when the wait was over
    said: str = ""  # how it ended, for people
    before: str = ""  # the cluster's message without the wait

    @property
    def pending(self) -> bool:
        return self.generation > 0 and not self.over_ms


class Workbench(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What only the dialect /v1/clusters knows of a cluster; the other one keeps it and does not show it.

    `start_key` is the digest of the last start that was requested there, and `start_incarnation` the incarnation that it began:
    a client that repeats a request, because it lost the answer, finds its own start.
    """

    description: str = ""
    start_key: str = ""
    start_incarnation: int = 0
    auto_terminate: AutoTerminateLimits = msgspec.field(name="limits", default=AutoTerminateLimits())  # as older rows have it
    schedules: int = 0  # how many it has
    storage_gb: int = 0  # GiB that its workspace directory may take; 0: no limit of its own
    task: WorkspaceTask = WorkspaceTask()
    graceful: GracefulStop = GracefulStop()


class StartProgress(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """When the steps of a start were over, in epoch ms; 0: they are not. It stays when the nodes are gone."""

    incarnation: int = 0
    acquired_ms: int = 0  # all nodes have registered
    configured_ms: int = 0  # the driver has its runtime, scripts and libraries
    served_ms: int = 0  # Spark answers on the driver


class DeferredEnforcement(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A specification that complies with the cluster's policy and waits for the cluster's termination or restart."""

    user: str  # who asked for it
    since_ms: int
    spec: ClusterSpec  # effective
    pool_tags: dict[str, str] = {}
    size_before: ClusterSize = ClusterSize()  # the cluster's size then: a later one stays


class Waits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What has been said in events of instances that wait for their provider. It begins anew when none waits."""

    said: str = ""
    times: int = 0


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """One cluster. Times are epoch milliseconds; 0 and "" mean never and none.

    `incarnation` increases with every start and restart. Each node belongs to one incarnation, and the cluster is up when
    `ready_incarnation` has caught up with it.
    """

    # Who and what
    cluster_id: str
    creator_user_name: str
    source: ClusterSource = ClusterSource.API
    created_ms: int = 0
    spec: ClusterSpec  # effective: includes the server's defaults; num_workers is the currently requested size
    request: ClusterSpec  # as sent by the client; `get` echoes it
    idempotency_token: str = ""
    job_id: int = 0  # of a job cluster; `run_name` is the run it was created for
    run_name: str = ""
    pinned_ms: int = 0
    unpinned_ms: int = 0
    deleted_ms: int = 0  # permanently deleted: hidden from every call, removed once nothing is left of it

    # Desired
    target: Target = Target.RUNNING
    incarnation: int = 1
    restarting: bool = False  # this incarnation replaces a running one
    termination_reason: TerminationReason | None = None
    secret: str = ""  # Spark's authentication secret, new for every incarnation
    connect_token: str = ""
    pool_tags: dict[str, str] = {}  # inherited from the instance pool
    libraries: tuple[ClusterLibrary, ...] = ()  # in the order they were added
    workbench: Workbench = Workbench()
    warehouse: Warehouse | None = None  # it is a SQL warehouse, whose id is its own
    enforcement: DeferredEnforcement | None = None

    # Observed
    ready_incarnation: int = 0
    ended: bool = False  # target is TERMINATED and no instance is left
    sized: bool = True  # the cluster has the requested workers, or the shortage has been reported
    ready_workers: int = 0  # how many workers were ready when the cluster last had its requested size
    state_message: str = ""
    spark_context_id: int = 0
    start_ms: int = 0  # of the running incarnation
    last_restarted_ms: int = 0
    last_state_loss_ms: int = 0
    terminating_ms: int = 0  # when its end was last decided
    terminated_ms: int = 0
    used_ms: int = 0  # until when a run waited for it, or it was found at work when it was to end for idleness
    progress: StartProgress = StartProgress()  # of the last start
    launch_started_ms: int = 0  # when this incarnation was requested
    waits: Waits = Waits()
    warning: str = ""  # what its provider says of a node that runs, while that is the state message
    grow_after_ms: int = 0  # add no workers before this time: the last attempt met a shortage
    grow_failures: int = 0
    silence_told: bool = False  # the event that the driver does not respond has been written
    global_scripts: tuple[GlobalScriptRef, ...] = ()  # those that nodes of the incarnation `scripts_incarnation` run
    scripts_incarnation: int = 0
    scripts_told: int = 0  # the incarnation whose event that init scripts have started has been written
    scripts_done: int = 0  # the same for the event that they have finished on the driver
    worker_failures: int = 0  # consecutive worker failures in this incarnation
    target_workers: int = 0  # with autoscale: how many workers are wanted
    scaled_ms: int = 0  # when autoscale last changed that
    resize_cause: EventDetailsCause | None = None  # why the size last changed

    version: int = 0  # increases with every write of the row

    @property
    def up(self) -> bool:
        """The driver has answered and the workers were there: code can run."""
        return self.target is Target.RUNNING and self.ready_incarnation == self.incarnation

    @property
    def unkept_ms(self) -> int:
        """Since when the cluster has been terminated, unpinned and without a schedule; 0 while it is running or kept. A
        warehouse is kept."""
        kept = self.pinned_ms or self.workbench.schedules or self.warehouse is not None
        return max(self.terminated_ms, self.unpinned_ms) if self.ended and not kept else 0

    @property
    def forget_ms(self) -> int:
        """When the cluster's retention ends and it is removed; 0 while it is running or pinned."""
        return self.unkept_ms + RETENTION_MS if self.unkept_ms else 0

    @property
    def num_workers(self) -> int:
        """How many workers are wanted."""
        scale = self.spec.autoscale
        if scale is None:
            return self.spec.num_workers or 0
        return min(max(self.target_workers, scale.min_workers or 0), scale.max_workers or 0)

    @property
    def most_workers(self) -> int:
        """How many workers the cluster may come to have."""
        scale = self.spec.autoscale
        return (scale.max_workers if scale is not None else self.spec.num_workers) or 0


class LaunchError(msgspec.Struct, frozen=True, kw_only=True):
    """Why the provider refused a launch. `kind` is the class name of the ProviderError."""

    kind: str
    message: str
    asked: str = ""
    left: str = ""


class Instance(msgspec.Struct, frozen=True, kw_only=True):
    """One instance; a node while `cluster_id` is set. `generation` is the cluster incarnation it works for.

    A pool's instance is idle while `cluster_id` is empty. It belongs to its cluster until its agent has ended and cleaned up
    everything of that cluster (`releasing_ms`), and only then returns to the pool.
    """

    instance_id: str
    node_id: str
    cluster_id: str
    role: Role
    generation: int
    node_type_id: str
    spot: bool = False
    state: InstanceState = InstanceState.REQUESTED
    created_ms: int = 0
    launched_ms: int = 0
    registered_ms: int = 0
    ready_ms: int = 0
    attempts: int = 0
    not_before_ms: int = 0  # do not try to launch before this time
    launcher: int = 0  # the server that holds the lease on the launch
    launch_error: LaunchError | None = None
    lost: str = ""  # why it is going away although nobody asked for it
    loss_told: bool = False  # its cluster has reacted to the loss
    assignment: Assignment | None = None
    retire_after_ms: int = 0  # retiring: terminate it at this time even if it is still working
    endpoint: str = ""
    boot_id: str = ""
    moves: int = 0  # from its last report: how often its agent has switched servers
    pid: int = 0
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)
    pool_id: str = ""  # the pool it came from and returns to
    idle_ms: int = 0  # since when it has been idle in its pool
    releasing_ms: int = 0  # since when its agent has been cleaning it before it returns to the pool
    disk_told: bool = False  # the event that its disk is nearly full has been written
    scripts_told: int = 0  # the generation of its assignment for which the end of its init scripts has been written
    cold: str = ""  # why it was not warm when a cluster took it
    provider: str = ""  # the provider that launches and ends it; empty in rows from before this column existed
    provider_message: str = ""  # what the provider says of it: what it waits for, and once its agent has called, warnings

    @property
    def owner_id(self) -> str:
        """The id of the cluster or pool whose planning pass manages it."""
        return self.cluster_id or self.pool_id

    @property
    def clean(self) -> bool:
        """Its agent has ended everything from generations before the current assignment's."""
        return self.assignment is not None and self.status.generation == self.assignment.generation

    @property
    def node_generation(self) -> int:
        """The generation by which its agent knows its node. The cluster's incarnation is another number: an instance of a pool
        has been other nodes before. 0 before there is an assignment."""
        return self.assignment.generation if self.assignment is not None else 0

    @property
    def live(self) -> bool:
        """It counts: it exists or is being launched."""
        return self.state is not InstanceState.TERMINATING and self.state is not InstanceState.GONE

    @property
    def retiring(self) -> bool:
        return self.retire_after_ms > 0

    @property
    def current_status(self) -> NodeStatus:
        """What the agent reports for the current generation; an idle status while it still reports an older one."""
        wanted = self.assignment.generation if self.assignment is not None else self.generation
        return self.status if self.status.generation == wanted else NodeStatus()

    @property
    def ready(self) -> bool:
        return self.state is InstanceState.REGISTERED and self.current_status.phase is Phase.READY


def is_single_node(spec: ClusterSpec) -> bool:
    """Whether the driver does all the work (local[*]), because of `is_single_node` or the single-node profile in the conf."""
    return bool(spec.is_single_node) or (spec.spark_conf or {}).get(SINGLE_NODE_PROFILE) == "singleNode"


def default_tags(cluster: Cluster) -> dict[str, str]:
    """The inherited pool tags, then the tags that every cluster has. A tag of the cluster replaces an inherited one."""
    own = cluster.spec.custom_tags or {}
    inherited = {key: value for key, value in cluster.pool_tags.items() if key not in own}
    return {**inherited, **_own_tags(cluster)}


def _own_tags(cluster: Cluster) -> dict[str, str]:
    tags = {
        "Vendor": "Databricks",
        "Creator": cluster.creator_user_name,
        "ClusterName": cluster.spec.cluster_name or "",
        "ClusterId": cluster.cluster_id,
    }
    if cluster.source is ClusterSource.JOB:
        tags |= {"RunName": cluster.run_name, "JobId": str(cluster.job_id)}
    return tags


def custom_tags(cluster: Cluster) -> dict[str, str]:
    """The user's tags. None may hide a default tag: Databricks puts x_ before such a key."""
    defaults = _own_tags(cluster)
    return {(f"x_{key}" if key in defaults else key): value for key, value in (cluster.spec.custom_tags or {}).items()}


# (target, ended, up, restarting, sized) -> state; None matches anything. The first match wins; each target's last row is total.
STATE_TABLE: tuple[tuple[Target, bool | None, bool | None, bool | None, bool | None, State], ...] = (
    (Target.TERMINATED, True, None, None, None, State.TERMINATED),
    (Target.TERMINATED, False, None, None, None, State.TERMINATING),
    (Target.RUNNING, None, True, None, True, State.RUNNING),
    (Target.RUNNING, None, True, None, False, State.RESIZING),
    (Target.RUNNING, None, False, True, None, State.RESTARTING),
    (Target.RUNNING, None, False, False, None, State.PENDING),
)


def public_state(cluster: Cluster) -> State:
    """The state that clients see. It follows from the desired state as well as the observed one, so no read after a `start`,
    `restart` or `delete` can still show the state before it."""
    return _state_of(cluster.target, cluster.ended, cluster.up, cluster.restarting, cluster.sized)


@functools.cache
def _state_of(*facts: Target | bool) -> State:
    for *pattern, state in STATE_TABLE:
        if all(want is None or want == fact for want, fact in zip(pattern, facts, strict=True)):
            return state
    raise AssertionError(f"no row of the state table matches {facts}")
