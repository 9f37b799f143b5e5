"""Calls of the /v1/clusters dialect: the clusters' own commands, several of them in one transaction where one call asks for more.

A call that changes something is checked as a whole before anything changes: every problem is in one error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import NamedTuple, Protocol

import msgspec

from brickyard.access import Authorizer
from brickyard.access.objects import of_cluster
from brickyard.clusters import ClusterService
from brickyard.clusters.v1.ports import PortPlanner
from brickyard.clusters.v1.problems import conflict, conflicts, existing, permitted, refuse
from brickyard.clusters.v1.reads import V1Reads
from brickyard.clusters.v1.snapshots import SnapshotTasks
from brickyard.clusters.v1.waiting import Waiting
from brickyard.domain.access import Permission
from brickyard.domain.caller import Caller
from brickyard.domain.clock import Clock
from brickyard.domain.cluster import AutoTerminateLimits, Cluster, Target, Workbench
from brickyard.domain.errors import InvalidParameterValue, SnapshotFailed
from brickyard.domain.nodetypes import NodeType
from brickyard.domain.ports import PortMapping
from brickyard.domain.requests import ClusterId, CreateCluster, EditCluster, RestartCluster, StartCluster
from brickyard.domain.spec import ClusterSpec
from brickyard.domain.strict import Problem
from brickyard.domain.v1.clusters import (
    CreateV1Cluster,
    DeleteV1Cluster,
    PhaseStatus,
    RestartV1Cluster,
    StartV1Cluster,
    StopV1Cluster,
    V1Cluster,
    V1ClusterState,
)
from brickyard.plan import graceful
from brickyard.plan.ports import Planned as PlannedPorts
from brickyard.plan.specifying import mistakes
from brickyard.plan.v1.autoterminate import merged, problems_of
from brickyard.plan.v1.graceful import minutes_of
from brickyard.plan.v1.progress import state_of
from brickyard.plan.v1.repeats import begun_by, is_repeated, start_key
from brickyard.plan.v1.storage import problems_of_storage
from brickyard.plan.v1.translate import (
    created,
    problems_of_delete,
    problems_of_stop,
    renamed,
    reworded,
    updated,
    wanted_types,
)
from brickyard.providers.base import CapacityError
from brickyard.store.store import Store
from brickyard.store.tx import Tx

RETRY_AFTER_S = 2
_OFF: tuple[V1ClusterState, ...] = (V1ClusterState.STOPPED, V1ClusterState.ERROR)
_ON: tuple[V1ClusterState, ...] = (V1ClusterState.RUNNING,)


class Shortage(Protocol):
    """`Provider.shortage`."""

    def __call__(self, wanted: Sequence[NodeType], *, freed: Collection[str]) -> CapacityError | None: ...


class Planned(NamedTuple):
    """What a start or restart would do. `mappings`: all of the cluster's ports, if they change. `repeated`: it is being done
    already, for the same request."""

    cluster: Cluster
    spec: ClusterSpec
    problems: Sequence[Problem]
    wanted: Sequence[NodeType]
    freed: frozenset[str]
    mappings: tuple[PortMapping, ...] | None = None
    repeated: bool = False


class V1ClusterService:
    """One per server. Methods raise ApiError. `shortage` may block: why nodes cannot be launched now (`Provider.shortage`).
    `wall`: for times that people name. `most_storage_gb`: the largest `storage_gb`. `minute_s`: how long the minutes of waits
    are."""

    def __init__(
        self,
        *,
        store: Store,
        clock: Clock,
        wall: Clock | None = None,
        authorizer: Authorizer,
        clusters: ClusterService,
        currency: str,
        shortage: Shortage,
        ports: PortPlanner,
        snapshots: SnapshotTasks,
        most_storage_gb: int,
        minute_s: float = 60.0,
    ) -> None:
        self._store = store
        self._clock = clock
        self._wall = wall or clock
        self._authorizer = authorizer
        self._clusters = clusters
        self._commands = clusters.commands
        self._offers = clusters.offers
        self._shortage = shortage
        self._ports = ports
        self._minute_s = minute_s
        self._most_storage_gb = most_storage_gb
        self._snapshots = snapshots
        self.reads = V1Reads(
            store=store,
            clock=clock,
            wall=self._wall,
            authorizer=authorizer,
            offers=clusters.offers,
            currency=currency,
            ports=ports,
        )
        self._waiting = Waiting(store=store, reads=self.reads, minute_s=minute_s)

    # -- changing ----------------------------------------------------------------------------------------------------

    async def create(self, caller: Caller, request: CreateV1Cluster) -> V1Cluster:
        """Creates a cluster, which starts unless `auto_start` is false."""
        offered = self._offers.node_types()
        spec, problems = created(request, offered, self._offers.runtimes.values())
        wanted = [offered[spec.node_type_id]] if spec.node_type_id else []
        problems += problems_of("auto_terminate", request.auto_terminate, now=self._wall.now_ms(), wanted=wanted)
        problems += problems_of_storage("storage_gb", request.storage_gb, now=0, most=self._most_storage_gb)
        asked = CreateCluster(**msgspec.structs.asdict(spec), idempotency_token=request.idempotency_key)
        auto_terminate = merged(request.auto_terminate, AutoTerminateLimits(counts_use=True), by=caller.user_name)
        workbench = Workbench(
            description=request.description or "", auto_terminate=auto_terminate, storage_gb=request.storage_gb or 0
        )
        stopped = request.auto_start is False

        def work(tx: Tx) -> V1Cluster:
            ports = PlannedPorts((), [])
            if request.port_mappings:
                self._commands.may_create(tx, caller)  # before anybody is told of others' ports
                tx.lock(tx.ports.PORTS)
                ports = self._ports.planned(tx, "", request.port_mappings, field="port_mappings")
            if wrong := [*problems, *ports.problems]:
                self._commands.may_create(tx, caller)
                refuse([*wrong, *self._mistakes(tx, caller, spec, problems, creating=True)])
            try:
                cluster = self._commands.create(tx, caller, asked, stopped=stopped, workbench=workbench)
            except InvalidParameterValue:  # it has named one of them
                refuse(self._mistakes(tx, caller, spec, problems, creating=True))
                raise
            if cluster.cluster_id not in tx.changed.clusters:  # it is that of an earlier request with the same key
                return self.reads.viewer().one(tx, cluster)
            if ports.mappings:
                self._ports.write(tx, cluster.cluster_id, ports.mappings)
            return self.reads.viewer().created(tx, cluster, with_ports=bool(ports.mappings))

        view = await self._store.write(work, inserts=self._commands.only_inserts(asked) and not request.port_mappings)
        self._clusters.changed(view.id)
        return view

    async def start(self, caller: Caller, request: StartV1Cluster) -> V1Cluster:
        """Starts a stopped cluster with its changes. With `wait_for_ready`, returns once it runs."""
        return await self._begin(caller, request)

    async def restart(self, caller: Caller, request: RestartV1Cluster) -> V1Cluster:
        """Restarts a running cluster with its changes. With `wait_for_ready`, returns once it runs again."""
        return await self._begin(caller, request)

    async def stop(self, caller: Caller, request: StopV1Cluster) -> V1Cluster:
        """Stops a cluster, once what runs has finished or its time is over. One that is stopping already can be told to hurry."""

        def work(tx: Tx) -> V1Cluster:
            cluster = self._found(tx, caller, request.cluster_id, Permission.CAN_RESTART, to="stop")
            refuse(problems_of_stop(request))
            if state_of(cluster) in _OFF:
                raise conflict(cluster, required="running")
            if request.discarded_cluster_id:
                self._authorizer.require(tx, caller, Permission.CAN_MANAGE, of_cluster(cluster), to="discard the files of")
            asks = request.force or request.grace_period_minutes is not None
            grace_ms = self._grace_ms(request) if asks or cluster.target is Target.RUNNING else None
            which, why = ClusterId(cluster_id=cluster.cluster_id), request.stop_reason or ""
            self._commands.delete(tx, caller, which, why=why, grace_ms=grace_ms)
            self._snapshots.end(tx, caller, existing(tx, cluster.cluster_id), request)
            return self.reads.viewer().one(tx, existing(tx, cluster.cluster_id))

        view = await self._store.write(work)
        self._clusters.changed(view.id)
        if request.wait_for_completion:
            view = await self._waiting.stopped(view, request.timeout_minutes)
            if view.operation is not None and view.operation.status is PhaseStatus.FAILED and request.save_state:
                why = next((each.message for each in view.operation.phases if each.status is PhaseStatus.FAILED), "")
                raise SnapshotFailed(
                    f"Cluster {view.id} has stopped with its files, but no snapshot was taken: {why}", operation=view.operation.id
                )
        return view

    async def delete(self, caller: Caller, request: DeleteV1Cluster) -> None:
        """Removes a cluster for good."""

        def work(tx: Tx) -> None:
            cluster = self._found(tx, caller, request.cluster_id, Permission.CAN_MANAGE, to="delete")
            refuse(problems_of_delete(request))
            if state_of(cluster) not in _OFF and not request.force:
                raise conflict(cluster, required="stopped", remedy=" Stop it first, or use force.")
            self._commands.permanent_delete(tx, caller, ClusterId(cluster_id=cluster.cluster_id))
            if (gone := tx.clusters.get(cluster.cluster_id)) is not None:
                self._snapshots.end(tx, caller, gone, request)

        await self._store.write(work)
        self._snapshots.collector.collect_soon()
        self._clusters.changed(request.cluster_id)

    # -- inside ------------------------------------------------------------------------------------------------------

    async def _begin(self, caller: Caller, request: StartV1Cluster) -> V1Cluster:
        """Configures and starts in one transaction. Checks for room first, so that a shortage is refused before anything is
        changed. If the room is taken in between, the start fails."""
        refuse(await self.foreseen(caller, request))

        def work(tx: Tx) -> V1Cluster:
            return self.reads.viewer().one(tx, self.begin(tx, caller, request))

        view = await self._store.write(work)
        self._clusters.changed(request.cluster_id)
        return await self._waiting.ready(view, request.timeout_minutes) if request.wait_for_ready else view

    async def foreseen(self, caller: Caller, request: StartV1Cluster) -> Sequence[Problem]:
        """All that is wrong with a start or restart, and that there is no room for it."""
        seen = await self._store.read(lambda tx: self._planned(tx, caller, request, start_key(request)))
        short = await asyncio.to_thread(self._shortage, seen.wanted, freed=seen.freed) if seen.wanted else None
        if short is None:
            return seen.problems
        return [*seen.problems, Problem(field="cluster_id", reason=str(short), requested=short.asked, available=short.left)]

    def begin(self, tx: Tx, caller: Caller, request: StartV1Cluster) -> Cluster:
        """Configures and starts a cluster in a given transaction, which must not be committed after an error."""
        key = start_key(request)
        if request.port_mapping_updates:
            tx.clusters.lock(request.cluster_id)
            tx.lock(tx.ports.PORTS)
        planned = self._planned(tx, caller, request, key)
        if planned.repeated:
            return self._hurried(tx, planned.cluster, request)
        refuse(planned.problems)
        with conflicts(planned.cluster):
            self._apply(tx, caller, request, planned)
        if planned.mappings is not None:
            self._ports.write(tx, request.cluster_id, planned.mappings)
        begun = existing(tx, request.cluster_id)
        if isinstance(request, RestartV1Cluster) and planned.cluster.up and (grace_ms := self._grace_ms(request)):
            before, now = planned.cluster.incarnation, self._clock.now_ms()
            begun = graceful.begun(begun, generation=before, now=now, grace_ms=grace_ms)
        return tx.clusters.update(begun_by(begun, request, key=key, user_name=caller.user_name))

    def _hurried(self, tx: Tx, cluster: Cluster, request: StartV1Cluster) -> Cluster:
        """The cluster, whose start goes on. A restart that is repeated with force no longer waits for what runs."""
        if not (isinstance(request, RestartV1Cluster) and request.force):
            return cluster
        now = self._clock.now_ms()
        hurried = graceful.shortened(cluster, until_ms=now, now=now)
        if hurried == cluster:
            return cluster
        tx.clusters.wake(cluster.cluster_id)
        return tx.clusters.update(hurried)

    def _grace_ms(self, request: StopV1Cluster | RestartV1Cluster) -> int:
        return round(minutes_of(request) * self._minute_s * 1000)

    def problems(self, tx: Tx, caller: Caller, cluster: Cluster, request: StartV1Cluster) -> Sequence[Problem]:
        """All that is wrong with the changes of a start, whatever the cluster's state."""
        return [*self._changes(tx, caller, cluster, request)[1], *self._mappings(tx, cluster, request)[1]]

    def _apply(self, tx: Tx, caller: Caller, request: StartV1Cluster, planned: Planned) -> None:
        """The edit, if there is something to edit, and the start. The edit of a running cluster may restart it."""
        restart = isinstance(request, RestartV1Cluster)
        if planned.spec != planned.cluster.request:
            fields = msgspec.structs.asdict(planned.spec)
            self._commands.edit(tx, caller, EditCluster(**fields, cluster_id=request.cluster_id))
        if not restart:
            self._commands.start(tx, caller, StartCluster(cluster_id=request.cluster_id))
        elif existing(tx, request.cluster_id).incarnation == planned.cluster.incarnation:
            self._commands.restart(tx, caller, RestartCluster(cluster_id=request.cluster_id))
        self._snapshots.begin(tx, caller, existing(tx, request.cluster_id), request)

    def _planned(self, tx: Tx, caller: Caller, request: StartV1Cluster, key: str) -> Planned:
        """What a start or restart would do, and all that is wrong with it. Raises if the caller may not do it, or the state does
        not allow it."""
        verb, allowed = ("restart", _ON) if isinstance(request, RestartV1Cluster) else ("start", _OFF)
        cluster = self._found(tx, caller, request.cluster_id, Permission.CAN_RESTART, to=verb)
        if request.configured_cluster_id:
            self._authorizer.require(tx, caller, Permission.CAN_MANAGE, of_cluster(cluster), to="configure")
        if is_repeated(cluster, key, given=bool(request.idempotency_key)):
            return Planned(cluster, cluster.request, [], [], frozenset(), repeated=True)
        if state_of(cluster) not in allowed:
            raise conflict(cluster, required=allowed[0].value)
        spec, problems, wanted = self._changes(tx, caller, cluster, request)
        freed = frozenset(each.instance_id for each in tx.instances.of_cluster(cluster.cluster_id))
        mappings, wrong = self._mappings(tx, cluster, request)
        return Planned(cluster, spec, [*problems, *wrong], wanted, freed, mappings)

    def _mappings(
        self, tx: Tx, cluster: Cluster, request: StartV1Cluster
    ) -> tuple[tuple[PortMapping, ...] | None, Sequence[Problem]]:
        """All of the cluster's ports after a start or restart, if they change, and what is wrong with the changes."""
        if not request.port_mapping_updates:
            return None, ()
        ports = self._ports.planned(tx, cluster.cluster_id, request.port_mapping_updates, field="port_mapping_updates")
        return ports.mappings, ports.problems

    def _changes(
        self, tx: Tx, caller: Caller, cluster: Cluster, request: StartV1Cluster
    ) -> tuple[ClusterSpec, Sequence[Problem], Sequence[NodeType]]:
        """The specification with the changes of a start or restart, what is wrong with them, and the nodes that it needs."""
        node_types = self._offers.node_types()
        spec, problems = updated(cluster, request, node_types)
        has, asks = cluster.workbench.storage_gb, request.storage_gb
        problems += problems_of_storage("update_configuration.storage_gb", asks, now=has, most=self._most_storage_gb)
        problems += self._snapshots.problems_of_restore(
            tx, cluster.cluster_id, request.restore_from_snapshot, storage_gb=asks or has
        )
        if spec != cluster.request:
            problems = [*problems, *self._mistakes(tx, caller, spec, problems, user=cluster.spec.single_user_name or "")]
        wanted, asked = wanted_types(cluster, spec, node_types), request.auto_terminate_updates
        problems = [*problems, *problems_of("auto_terminate_updates", asked, now=self._wall.now_ms(), wanted=wanted)]
        return spec, problems, wanted

    def _mistakes(
        self, tx: Tx, caller: Caller, spec: ClusterSpec, known: Sequence[Problem], *, user: str = "", creating: bool = False
    ) -> Sequence[Problem]:
        """What the rules of both dialects, and the policy, refuse in a specification, besides what is known to be wrong."""
        offered = self._commands.offered(tx, caller, spec)
        found = [
            Problem(field=renamed(each.field, creating=creating), reason=reworded(each.message, creating=creating))
            for each in mistakes(spec, offered, user=user or caller.user_name)
        ]
        told = {each.field for each in known}
        if spec.node_type_id is None and not spec.instance_pool_id:
            told.add(renamed("node_type_id", creating=creating))  # the problem of the size says more
        return [each for each in found if each.field not in told]

    def _found(self, tx: Tx, caller: Caller, cluster_id: str, permission: Permission, *, to: str) -> Cluster:
        return permitted(tx, self._authorizer, caller, cluster_id, permission, to=to)
