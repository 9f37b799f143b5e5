"""The Clusters API's calls: what somebody asks for becomes desired state and an event, in one transaction.

None of them waits for a machine. Every check is made in the transaction that acts on it, on a locked row: two requests about one
cluster take turns, and the second sees what the first has done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from brickyard.domain.clock import Clock, Ids
from brickyard.domain.cluster import Cluster, Target, is_single_node, public_state
from brickyard.domain.errors import InvalidParameterValue, InvalidState
from brickyard.domain.events import ClusterEvent, ClusterSize, EventDetails, EventDetailsCause, EventType
from brickyard.domain.nodetypes import Catalogue, NodeType
from brickyard.domain.pools import Pool, inherited_tags
from brickyard.domain.requests import (
    ChangeClusterOwner,
    ClusterId,
    CreateCluster,
    EditCluster,
    GetEvents,
    ListClusters,
    ResizeCluster,
    RestartCluster,
    StartCluster,
    UpdateCluster,
)
from brickyard.domain.runtimes import Runtime
from brickyard.domain.spec import AutoScale, ClusterSpec
from brickyard.domain.states import ClusterSource, State
from brickyard.domain.terminations import TerminationReason, TerminationReasonCode, TerminationReasonType
from brickyard.domain.views import (
    GetEventsResponse,
    GetSparkVersionsResponse,
    ListAvailableZonesResponse,
    ListNodeTypesResponse,
    SparkVersion,
)
from brickyard.plan.mask import apply_mask
from brickyard.plan.spec import check_num_workers, check_range, named_pools, normalise
from brickyard.plan.starts import STARTING, next_incarnation
from brickyard.plan.zones import DEFAULT_ZONE, ZONES
from brickyard.services.authz import Action, Authorizer
from brickyard.services.caller import Caller
from brickyard.services.clusterevents import ClusterEvents
from brickyard.services.firstlook import FirstLook
from brickyard.services.listing import ClusterLists
from brickyard.services.missing import missing_cluster
from brickyard.services.viewcache import ViewCache
from brickyard.services.views import node_type_view
from brickyard.store.store import Store
from brickyard.store.tx import Tx

MAX_PINNED = 100
MAX_IDEMPOTENCY_TOKEN = 64
_encode = msgspec.json.Encoder().encode
Change = Callable[[Tx, Cluster], Cluster]


class _Offers(NamedTuple):
    """What can be chosen from, as JSON; it does not change while the server runs."""

    zones: bytes
    spark_versions: bytes


class Specified(NamedTuple):
    """The effective specification of a new cluster, and the tags that it inherits from its pool."""

    spec: ClusterSpec
    pool_tags: dict[str, str]


class ClusterService:
    """One per server. Methods raise ApiError."""

    def __init__(
        self,
        *,
        store: Store,
        clock: Clock,
        ids: Ids,
        node_types: Callable[[], Sequence[NodeType]],
        runtimes: Callable[[], Iterable[Runtime]],
        authorizer: Authorizer,
        wake: Callable[[str], None],
        photon: bool = False,
    ) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        self._node_types = Catalogue(node_types)
        self._runtimes = {runtime.key: runtime for runtime in runtimes()}
        self._authorizer = authorizer
        self._wake = wake
        self._photon = photon
        self._views = ViewCache(store=store, sizes=self._node_types.now)
        self._lists = ClusterLists(store=store, clock=clock, views=self._views)
        self._events = ClusterEvents(store=store)
        self._first_look = FirstLook(store=store)
        versions = [SparkVersion(key=runtime.key, name=runtime.name) for runtime in self._runtimes.values()]
        self._offers = _Offers(
            zones=_encode(ListAvailableZonesResponse(zones=list(ZONES), default_zone=DEFAULT_ZONE)),
            spark_versions=_encode(GetSparkVersionsResponse(versions=versions)),
        )

    # -- reading -----------------------------------------------------------------------------------------------------

    async def get(self, caller: Caller, cluster_id: str) -> bytes:
        """One cluster, as JSON."""
        if self._first_look.due(cluster_id):
            self._authorizer.require(caller, Action.VIEW)
            await self._first_look.settle(cluster_id)
        view = await self._views.full(cluster_id)
        if view is None:
            raise await self._store.read(lambda tx: missing_cluster(tx, cluster_id))
        self._authorizer.require(caller, Action.VIEW)
        return view

    async def list(self, caller: Caller, request: ListClusters, *, paged: bool) -> bytes:
        """Clusters as JSON: one page, or all of them for clients that do not page."""
        self._authorizer.require(caller, Action.VIEW)
        return await self._lists.page(request, paged=paged)

    async def events(self, caller: Caller, request: GetEvents) -> GetEventsResponse:
        """What happened to a cluster."""
        self._authorizer.require(caller, Action.VIEW)
        return await self._events.page(request)

    async def list_node_types(self, caller: Caller) -> bytes:
        """Sizes of machine, as JSON."""
        self._authorizer.require(caller, Action.VIEW)
        return _encode(ListNodeTypesResponse(node_types=[node_type_view(each) for each in self._node_types.now().values()]))

    async def list_zones(self, caller: Caller) -> bytes:
        """Zones, as JSON. All of them are this workspace's machines."""
        self._authorizer.require(caller, Action.VIEW)
        return self._offers.zones

    async def spark_versions(self, caller: Caller) -> bytes:
        """Runtimes, as JSON."""
        self._authorizer.require(caller, Action.VIEW)
        return self._offers.spark_versions

    # -- asking ------------------------------------------------------------------------------------------------------

    async def create(self, caller: Caller, request: CreateCluster) -> str:
        """A new cluster that starts; returns its id. With an idempotency token that an active cluster has: that one's."""
        self._authorizer.require(caller, Action.CREATE)
        token = request.idempotency_token or ""
        if len(token) > MAX_IDEMPOTENCY_TOKEN:
            raise InvalidParameterValue(
                f"idempotency_token has {len(token)} characters; at most {MAX_IDEMPOTENCY_TOKEN} are allowed."
            )
        now = self._clock.now_ms()
        asked = _spec_of(request)
        specified = await self.specify(caller, asked)
        cluster = Cluster(
            cluster_id=self._ids.cluster_id(now),
            creator_user_name=caller.user_name,
            source=ClusterSource.API,
            created_ms=now,
            start_ms=now,
            launch_started_ms=now,
            spec=specified.spec,
            request=asked,
            pool_tags=specified.pool_tags,
            idempotency_token=token,
            secret=self._ids.secret(),
            connect_token=self._ids.secret(),
            state_message=STARTING,
        )
        source = request.clone_from.source_cluster_id if request.clone_from else ""
        created = await self._store.write(lambda tx: _create(tx, cluster, user=caller.user_name, clone_of=source))
        self._first_look.begin(created)
        self._wake(created)
        return created

    async def start(self, caller: Caller, request: StartCluster) -> None:
        """Start a terminated cluster at the size it was left with."""

        def change(tx: Tx, cluster: Cluster) -> Cluster:
            _refuse_job_cluster(cluster, "started")
            _expect(cluster, State.TERMINATED)
            self._event(tx, cluster, EventType.STARTING, EventDetails(user=caller.user_name))
            return self._next_incarnation(cluster, restarting=False)

        await self._change(caller, Action.RESTART, request.cluster_id, change)

    async def restart(self, caller: Caller, request: RestartCluster) -> None:
        """Restart a running cluster. Administrators may say for whom they do it."""
        user = (request.restart_user if caller.is_admin else "") or caller.user_name

        def change(tx: Tx, cluster: Cluster) -> Cluster:
            _refuse_job_cluster(cluster, "restarted")
            _expect(cluster, State.RUNNING)
            self._event(tx, cluster, EventType.RESTARTING, EventDetails(user=user))
            return self._next_incarnation(cluster, restarting=True)

        await self._change(caller, Action.RESTART, request.cluster_id, change)

    async def delete(self, caller: Caller, request: ClusterId) -> None:
        """Terminate a cluster; nothing happens to one that is terminated or terminating."""

        def change(tx: Tx, cluster: Cluster) -> Cluster:
            return cluster if cluster.target is Target.TERMINATED else self._terminated_by(tx, cluster, caller)

        await self._change(caller, Action.RESTART, request.cluster_id, change)

    async def permanent_delete(self, caller: Caller, request: ClusterId) -> None:
        """Remove a cluster for good: from now on it does not exist for any call."""

        def change(tx: Tx, cluster: Cluster) -> Cluster:
            if cluster.pinned_ms:
                raise InvalidParameterValue(
                    f"Cluster {cluster.cluster_id} is pinned and cannot be permanently deleted: unpin the cluster first."
                )
            if cluster.target is not Target.TERMINATED:
                cluster = self._terminated_by(tx, cluster, caller)
            return msgspec.structs.replace(cluster, deleted_ms=self._clock.now_ms())

        await self._change(caller, Action.MANAGE, request.cluster_id, change)

    async def edit(self, caller: Caller, request: EditCluster) -> None:
        """Replace the specification. A running cluster restarts with it, a terminated one keeps it for its next start."""

        def change(tx: Tx, cluster: Cluster) -> Cluster:
            return self._edited(tx, cluster, _spec_of(request), caller)

        await self._change(caller, Action.MANAGE, request.cluster_id, change)

    async def update(self, caller: Caller, request: UpdateCluster) -> None:
        """Replace the parts of the specification that the mask names. An update that changes nothing restarts nothing."""

        def change(tx: Tx, cluster: Cluster) -> Cluster:
            asked = apply_mask(cluster.request, request.cluster or ClusterSpec(), request.update_mask)
            return self._edited(tx, cluster, asked, caller, unless_same=True)

        await self._change(caller, Action.MANAGE, request.cluster_id, change)

    async def resize(self, caller: Caller, request: ResizeCluster) -> None:
        """Change the number of workers of a running cluster, or the range in which it follows its load."""
        scale = request.autoscale if request.autoscale != AutoScale() else None
        if scale is None and request.num_workers is None:
            raise InvalidParameterValue("Missing required field: size")
        if scale is not None and request.num_workers:
            raise InvalidParameterValue(
                "num_workers and autoscale are both given: a cluster has a size or a range. Leave one out."
            )

        def change(tx: Tx, cluster: Cluster) -> Cluster:
            _expect(cluster, State.RUNNING)
            resized = _resized(cluster, request.num_workers, scale)
            if resized.spec == cluster.spec and not cluster.grow_failures:
                return cluster
            wanted, cause = resized.num_workers, EventDetailsCause.USER_REQUEST
            if wanted == cluster.num_workers and not cluster.grow_failures:
                return resized
            details = EventDetails(
                current_num_workers=cluster.ready_workers, target_num_workers=wanted, cause=cause, user=caller.user_name
            )
            self._event(tx, cluster, EventType.RESIZING, details)
            return msgspec.structs.replace(
                resized, sized=False, resize_cause=cause, grow_failures=0, grow_after_ms=0, state_message=""
            )

        await self._change(caller, Action.MANAGE, request.cluster_id, change)

    async def pin(self, caller: Caller, request: ClusterId) -> None:
        """Keep a cluster in the list however long it has been terminated."""

        def change(tx: Tx, cluster: Cluster) -> Cluster:
            if cluster.pinned_ms:
                return cluster
            # Two pins of two clusters, where writers run side by side: each would count without the other.
            tx.lock("pins")
            if tx.clusters.count_pinned() >= MAX_PINNED:
                raise InvalidParameterValue(f"{MAX_PINNED} clusters are pinned, which is the most there can be. Unpin one first.")
            self._event(tx, cluster, EventType.PINNED, EventDetails(user=caller.user_name))
            return msgspec.structs.replace(cluster, pinned_ms=self._clock.now_ms())

        await self._change(caller, Action.PIN, request.cluster_id, change)

    async def unpin(self, caller: Caller, request: ClusterId) -> None:
        """Undo a pin."""

        def change(tx: Tx, cluster: Cluster) -> Cluster:
            if not cluster.pinned_ms:
                return cluster
            self._event(tx, cluster, EventType.UNPINNED, EventDetails(user=caller.user_name))
            return msgspec.structs.replace(cluster, pinned_ms=0, unpinned_ms=self._clock.now_ms())

        await self._change(caller, Action.PIN, request.cluster_id, change)

    async def change_owner(self, caller: Caller, request: ChangeClusterOwner) -> None:
        """Give a terminated cluster to another user."""

        def change(tx: Tx, cluster: Cluster) -> Cluster:
            _expect(cluster, State.TERMINATED)
            if tx.users.get(request.owner_username) is None:
                raise InvalidParameterValue(f"owner_username {request.owner_username} is not a user of this workspace.")
            return msgspec.structs.replace(cluster, creator_user_name=request.owner_username)

        await self._change(caller, Action.CHANGE_OWNER, request.cluster_id, change)

    # -- inside ------------------------------------------------------------------------------------------------------

    async def specify(self, caller: Caller, asked: ClusterSpec) -> Specified:
        """What a new cluster of the caller's would be."""
        # A pool that is deleted between this look and the write is found missing by the cluster's first pass.
        named = named_pools(asked)
        pools = await self._store.read(lambda tx: tx.pools.many(named)) if named else {}
        self._may_attach(caller, pools)
        return Specified(self._normalise(asked, user=caller.user_name, pools=pools), _inherited(asked, pools))

    def _normalise(self, asked: ClusterSpec, *, user: str, pools: Mapping[str, Pool]) -> ClusterSpec:
        node_types = self._node_types.now()
        return normalise(asked, user=user, node_types=node_types, runtimes=self._runtimes, pools=pools, photon=self._photon)

    def _may_attach(self, caller: Caller, pools: Mapping[str, Pool]) -> None:
        for pool in pools.values():
            self._authorizer.require_pool(caller, Action.ATTACH, pool)

    async def _change(self, caller: Caller, action: Action, cluster_id: str, change: Change) -> None:
        """Find, authorise, change and wake, in one transaction. A change that returns the same cluster writes nothing."""

        def work(tx: Tx) -> bool:
            cluster = tx.clusters.get(cluster_id)
            if cluster is None or cluster.deleted_ms:
                raise missing_cluster(tx, cluster_id)
            self._authorizer.require(caller, action, cluster)
            changed = change(tx, cluster)
            if changed == cluster:
                return False
            tx.clusters.update(changed)
            tx.clusters.wake(cluster_id)
            return True

        if await self._store.write(work):
            self._first_look.begin(cluster_id)
            self._wake(cluster_id)

    async def end_all(self, why: str) -> None:
        """The server is about to stop and to end every node: terminate what runs, with that as its reason (`why`, a phrase)."""
        reason = TerminationReason(
            code=TerminationReasonCode.CLOUD_PROVIDER_SHUTDOWN,
            type=TerminationReasonType.CLOUD_FAILURE,
            parameters={"databricks_error_message": why},
        )
        message = f"The workspace's server was stopped ({why}), and its nodes with it. Start the cluster again."

        def work(tx: Tx) -> None:
            for cluster_id in tx.clusters.running():
                cluster = tx.clusters.get(cluster_id)
                if cluster is not None and cluster.target is Target.RUNNING:
                    tx.clusters.update(self._terminated(tx, cluster, reason, message))
                    tx.clusters.wake(cluster_id)

        await self._store.write(work)

    def _terminated_by(self, tx: Tx, cluster: Cluster, caller: Caller) -> Cluster:
        reason = TerminationReason(
            code=TerminationReasonCode.USER_REQUEST,
            type=TerminationReasonType.SUCCESS,
            parameters={"username": caller.user_name},
        )
        return self._terminated(tx, cluster, reason, f"Termination requested by {caller.user_name}", user=caller.user_name)

    def _terminated(
        self, tx: Tx, cluster: Cluster, reason: TerminationReason, message: str, *, user: str | None = None
    ) -> Cluster:
        self._event(tx, cluster, EventType.TERMINATING, EventDetails(reason=reason, user=user))
        return msgspec.structs.replace(
            cluster,
            target=Target.TERMINATED,
            ended=False,
            restarting=False,
            termination_reason=reason,
            state_message=message,
        )

    def _edited(self, tx: Tx, cluster: Cluster, asked: ClusterSpec, caller: Caller, *, unless_same: bool = False) -> Cluster:
        _refuse_job_cluster(cluster, "edited")
        state = public_state(cluster)
        if state not in (State.RUNNING, State.TERMINATED):
            raise _unexpected(cluster)
        # A cluster of a single user stays that user's, whoever changes something else of it.
        pools = tx.pools.many(named_pools(asked))
        self._may_attach(caller, pools)
        spec = self._normalise(asked, user=cluster.spec.single_user_name or caller.user_name, pools=pools)
        if spec.single_user_name != cluster.spec.single_user_name:
            _check_single_user(tx, spec, caller.user_name)
        changed = msgspec.structs.replace(cluster, spec=spec, request=asked, pool_tags=_inherited(asked, pools))
        if unless_same and spec == cluster.spec:
            return changed
        details = EventDetails(
            previous_attributes=_attributes(cluster.spec),
            attributes=_attributes(spec),
            previous_cluster_size=_size(cluster.spec),
            cluster_size=_size(spec),
            user=caller.user_name,
        )
        self._event(tx, cluster, EventType.EDITED, details)
        if state is State.TERMINATED:
            return changed
        self._event(tx, cluster, EventType.RESTARTING, EventDetails(user=caller.user_name))
        return self._next_incarnation(changed, restarting=True)

    def _next_incarnation(self, cluster: Cluster, *, restarting: bool) -> Cluster:
        return next_incarnation(
            cluster,
            now=self._clock.now_ms(),
            secret=self._ids.secret(),
            connect_token=self._ids.secret(),
            restarting=restarting,
        )

    def _event(self, tx: Tx, cluster: Cluster, kind: EventType, details: EventDetails) -> None:
        now = self._clock.now_ms()
        tx.events.append(ClusterEvent(cluster_id=cluster.cluster_id, timestamp=now, type=kind, details=details))


def _create(tx: Tx, cluster: Cluster, *, user: str, clone_of: str) -> str:
    if cluster.idempotency_token:
        # Two creates with one token: the writer that comes second finds the first one's row. On PostgreSQL, where writers run
        # side by side, the lock makes them take turns.
        tx.lock(f"idempotency/{cluster.idempotency_token}")
        if (same := tx.clusters.by_idempotency_token(cluster.idempotency_token)) is not None:
            return same.cluster_id
    if clone_of:
        source = tx.clusters.get(clone_of)
        if source is None or source.deleted_ms:
            raise missing_cluster(tx, clone_of)
    _check_single_user(tx, cluster.spec, user)
    tx.clusters.insert(cluster)
    details = EventDetails(cluster_size=_size(cluster.spec), attributes=_attributes(cluster.spec), user=user)
    event = ClusterEvent(cluster_id=cluster.cluster_id, timestamp=cluster.created_ms, type=EventType.CREATING, details=details)
    tx.events.append(event)
    return cluster.cluster_id


def _check_single_user(tx: Tx, spec: ClusterSpec, caller: str) -> None:
    name = spec.single_user_name
    if name and name != caller and tx.users.get(name) is None:
        raise InvalidParameterValue(f"single_user_name {name[:140]} is not a user of this workspace.")


def _spec_of(request: ClusterSpec) -> ClusterSpec:
    """The plain specification in a request that carries more."""
    return ClusterSpec(**{name: getattr(request, name) for name in ClusterSpec.__struct_fields__})


def _resized(cluster: Cluster, num_workers: int | None, scale: AutoScale | None) -> Cluster:
    """The cluster with another size, or with a range into which its present size is moved. Raises InvalidParameterValue."""
    single = is_single_node(cluster.spec)
    if scale is not None:
        check_range(scale, single=single)
        num_workers = None
    elif num_workers is not None:
        check_num_workers(num_workers, single=single)
    return msgspec.structs.replace(
        cluster,
        spec=msgspec.structs.replace(cluster.spec, num_workers=num_workers, autoscale=scale),
        request=msgspec.structs.replace(cluster.request, num_workers=num_workers, autoscale=scale),
        target_workers=cluster.num_workers if scale is not None else 0,
    )


def _inherited(asked: ClusterSpec, pools: Mapping[str, Pool]) -> dict[str, str]:
    pool = pools.get(asked.instance_pool_id or "")
    return inherited_tags(pool) if pool is not None else {}


def _attributes(spec: ClusterSpec) -> ClusterSpec:
    return msgspec.structs.replace(spec, num_workers=None, autoscale=None)


def _size(spec: ClusterSpec) -> ClusterSize:
    return ClusterSize(num_workers=spec.num_workers, autoscale=spec.autoscale)


def _refuse_job_cluster(cluster: Cluster, verb: str) -> None:
    if cluster.source is ClusterSource.JOB:
        raise InvalidState(
            f"Cluster {cluster.cluster_id} is a job cluster: it was made for one run, ends with it, and cannot be {verb}."
            " Submit another run, or create a cluster of your own."
        )


def _expect(cluster: Cluster, state: State) -> None:
    if public_state(cluster) is not state:
        raise _unexpected(cluster)


def _unexpected(cluster: Cluster) -> InvalidState:
    return InvalidState(f"Cluster {cluster.cluster_id} is in unexpected state {public_state(cluster).value.capitalize()}.")
