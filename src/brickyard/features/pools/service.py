"""The Instance Pools API's calls: desired state, in one transaction each. None of them waits for a machine."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import msgspec

from brickyard.access import Authorizer
from brickyard.access.objects import WORKSPACE, of_cluster, of_pool
from brickyard.clusters.catalogue import Offers
from brickyard.clusters.missing import existing_pool
from brickyard.domain.access import ObjectKind, Permission
from brickyard.domain.caller import Caller
from brickyard.domain.clock import Clock, Ids
from brickyard.domain.cluster import Instance
from brickyard.domain.errors import InvalidParameterValue
from brickyard.domain.instances import InstanceState
from brickyard.domain.pools import (
    CreateInstancePool,
    EditInstancePool,
    InstancePoolId,
    InstancePoolState,
    InstancePoolStats,
    InstancePoolStatus,
    InstancePoolView,
    ListInstancePoolsResponse,
    ListPoolDetails,
    ListPoolDetailsResponse,
    Pool,
    PoolDetails,
    PoolInstance,
    PoolInstanceState,
    PoolSpec,
    Standing,
    pool_default_tags,
    standing,
    unprepared,
)
from brickyard.domain.wakeups import Wake
from brickyard.features.pools.rules import edited_spec, pool_spec, without_effect
from brickyard.store.store import Store
from brickyard.store.tx import Tx

_NAMES = "pool names"  # writers lock this so that no two of them assign the same name


class PoolService:
    """One per server. Methods raise ApiError. `wake` is called for every changed pool."""

    def __init__(
        self,
        *,
        store: Store,
        clock: Clock,
        ids: Ids,
        offers: Offers,
        authorizer: Authorizer,
        wake: Wake[str],
    ) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        self._offers = offers
        self._authorizer = authorizer
        self._wake = wake

    async def create(self, caller: Caller, request: CreateInstancePool) -> str:
        """Creates a pool and returns its id. Its idle instances are launched in the background."""

        def work(tx: Tx) -> str:
            to = "create instance pools in the"
            self._authorizer.require(tx, caller, Permission.ALLOW_INSTANCE_POOL_CREATE, WORKSPACE, to=to)
            spec = pool_spec(
                request,
                node_types=self._offers.node_types(),
                runtimes=list(self._offers.runtimes),
                max_nodes=self._offers.max_nodes,
            )
            now = self._clock.now_ms()
            pool = Pool(
                instance_pool_id=self._ids.pool_id(now),
                creator_user_name=caller.user_name,
                creator_user_id=caller.user_id,
                created_ms=now,
                spec=spec,
            )
            _take_name(tx, spec)
            tx.pools.insert(pool)
            return pool.instance_pool_id

        created = await self._store.write(work)
        self._wake(created)
        return created

    async def edit(self, caller: Caller, request: EditInstancePool) -> None:
        """Changes a pool; instances are launched or ended in the background."""

        def change(tx: Tx, pool: Pool) -> Pool:
            spec = edited_spec(pool, request, max_nodes=self._offers.max_nodes)
            if spec.instance_pool_name != pool.spec.instance_pool_name:
                _take_name(tx, spec)
            # Somebody is working on the pool: whatever kept it from filling may be fixed.
            return msgspec.structs.replace(pool, spec=spec, failures=0, fill_after_ms=0)

        await self._change(caller, request.instance_pool_id, change, to="edit")

    async def delete(self, caller: Caller, request: InstancePoolId) -> None:
        """Deletes a pool for good. Idle instances end in the background; clusters keep theirs."""

        def change(_tx: Tx, pool: Pool) -> Pool:
            return msgspec.structs.replace(pool, deleted_ms=self._clock.now_ms())

        await self._change(caller, request.instance_pool_id, change, to="delete")

    async def get(self, caller: Caller, request: InstancePoolId) -> InstancePoolView:
        """One pool, with the current state of its instances."""
        pool_id = request.instance_pool_id

        def work(tx: Tx) -> InstancePoolView:
            pool = self._find(tx, caller, pool_id, Permission.CAN_ATTACH_TO, to="see")
            return pool_view(pool, tx.instances.standings(pool_id).get(pool_id, {}))

        return await self._store.read(work)

    async def list(self, caller: Caller) -> ListInstancePoolsResponse:
        """All pools that the caller may see, oldest first."""

        def work(tx: Tx) -> ListInstancePoolsResponse:
            pools = tx.pools.shown(self._authorizer.visible(tx, caller, ObjectKind.INSTANCE_POOL))
            standings = tx.instances.standings(*(pool.instance_pool_id for pool in pools)) if pools else {}
            return ListInstancePoolsResponse(
                instance_pools=[pool_view(pool, standings.get(pool.instance_pool_id, {})) for pool in pools]
            )

        return await self._store.read(work)

    async def details(self, caller: Caller, request: ListPoolDetails) -> ListPoolDetailsResponse:
        """What the Instance Pools API does not tell: of all pools that the caller may see, or of one, with its instances."""
        wanted = request.instance_pool_id

        def work(tx: Tx) -> ListPoolDetailsResponse:
            pools = tx.pools.shown(self._authorizer.visible(tx, caller, ObjectKind.INSTANCE_POOL))
            if wanted is not None:
                pools = [pool for pool in pools if pool.instance_pool_id == wanted]
            standings = tx.instances.standings(*(pool.instance_pool_id for pool in pools)) if pools else {}
            rows = tx.instances.live_of_pool(pools[0].instance_pool_id) if pools and wanted is not None else []
            clusters = tx.clusters.many({row.cluster_id for row in rows if row.cluster_id})
            shown = self._authorizer.shown(tx, caller, ObjectKind.CLUSTER, list(clusters.values()), of_cluster)
            seen = {cluster.cluster_id for cluster in shown}
            return ListPoolDetailsResponse(
                pools=[
                    PoolDetails(
                        instance_pool_id=pool.instance_pool_id,
                        creator_user_name=pool.creator_user_name,
                        created_at=pool.created_ms,
                        warm_count=standings.get(pool.instance_pool_id, {}).get(Standing.WARM, 0),
                        without_effect=without_effect(pool.spec),
                        instances=[_instance(row, seen) for row in rows] if wanted is not None else None,
                    )
                    for pool in pools
                ]
            )

        return await self._store.read(work)

    async def end_idle(self, *, staying: frozenset[str] = frozenset()) -> None:
        """Marks idle instances as ended on purpose rather than lost, because the server stops and ends its instances; not those
        of providers that are `staying`. The next server fills the pools again."""

        def work(tx: Tx) -> None:
            # Locked before their instances and in one order, as everywhere.
            for pool in tx.pools.many(pool.instance_pool_id for pool in tx.pools.active()).values():
                for row in tx.instances.idle_of_pool(pool.instance_pool_id):
                    if row.live and row.provider not in staying:
                        tx.instances.update(msgspec.structs.replace(row, state=InstanceState.TERMINATING))
                tx.pools.wake(pool.instance_pool_id)

        await self._store.write(work)

    async def _change(self, caller: Caller, pool_id: str, change: Callable[[Tx, Pool], Pool], *, to: str) -> None:
        def work(tx: Tx) -> None:
            pool = self._find(tx, caller, pool_id, Permission.CAN_MANAGE, to=to)
            tx.pools.update(change(tx, pool))
            tx.pools.wake(pool_id)

        await self._store.write(work)
        self._wake(pool_id)

    def _find(self, tx: Tx, caller: Caller, pool_id: str, permission: Permission, *, to: str) -> Pool:
        pool = existing_pool(tx, pool_id)
        self._authorizer.require(tx, caller, permission, of_pool(pool), to=to)
        return pool


def pool_view(pool: Pool, standings: Mapping[Standing, int]) -> InstancePoolView:
    """A pool as clients see it. Pure."""
    return InstancePoolView(
        **msgspec.structs.asdict(pool.spec),
        instance_pool_id=pool.instance_pool_id,
        default_tags=pool_default_tags(pool),
        state=InstancePoolState.ACTIVE if pool.active else InstancePoolState.DELETED,
        stats=pool_stats(standings),
        status=InstancePoolStatus(pending_instance_errors=list(pool.errors) or None),
    )


def pool_stats(standings: Mapping[Standing, int]) -> InstancePoolStats:
    """A pool's four counts, computed from the number of its instances in each standing. Pure."""
    count = standings.get
    return InstancePoolStats(
        used_count=count(Standing.USED, 0),
        idle_count=count(Standing.WARM, 0) + count(Standing.IDLE, 0),
        pending_used_count=count(Standing.PENDING_USED, 0),
        pending_idle_count=count(Standing.PREPARING, 0) + count(Standing.LAUNCHING, 0),
    )


def _instance(row: Instance, seen: Collection[str]) -> PoolInstance:
    return PoolInstance(
        instance_id=row.instance_id,
        state=PoolInstanceState(standing(row).name),
        created_at=row.created_ms,
        cluster_id=row.cluster_id if row.cluster_id in seen else None,
        message=(row.launch_error.message if row.launch_error is not None else "" if row.cluster_id else unprepared(row)) or None,
    )


def _take_name(tx: Tx, spec: PoolSpec) -> None:
    tx.lock(_NAMES)
    if (other := tx.pools.named(spec.instance_pool_name)) is not None:
        raise InvalidParameterValue(
            f"instance_pool_name {spec.instance_pool_name} is taken by instance pool {other}: choose another name."
        )
