"""The Instance Pools API's calls: desired state, in one transaction each. None of them waits for a machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from brickyard.domain.clock import Clock, Ids
from brickyard.domain.errors import InvalidParameterValue, ResourceDoesNotExist
from brickyard.domain.instances import InstanceState
from brickyard.domain.nodetypes import Catalogue, NodeType
from brickyard.domain.pools import (
    CreateInstancePool,
    EditInstancePool,
    InstancePoolId,
    InstancePoolState,
    InstancePoolStats,
    InstancePoolStatus,
    InstancePoolView,
    ListInstancePoolsResponse,
    Pool,
    PoolSpec,
    Standing,
    pool_default_tags,
)
from brickyard.domain.runtimes import Runtime
from brickyard.plan.poolspec import edited_spec, pool_spec
from brickyard.services.authz import Action, Authorizer
from brickyard.services.caller import Caller
from brickyard.store.store import Store
from brickyard.store.tx import Tx

_NAMES = "pool names"  # what writers lock so that two of them cannot give out one name


class PoolService:
    """One per server. Methods raise ApiError. `wake` is told of every pool that has changed."""

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
    ) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        self._node_types = Catalogue(node_types)
        self._runtimes = [runtime.key for runtime in runtimes()]
        self._authorizer = authorizer
        self._wake = wake

    async def create(self, caller: Caller, request: CreateInstancePool) -> str:
        """A new pool; returns its id. Its idle instances are launched in the background."""
        self._authorizer.require_pool(caller, Action.CREATE)
        spec = pool_spec(request, node_types=self._node_types.now(), runtimes=self._runtimes)
        now = self._clock.now_ms()
        pool = Pool(
            instance_pool_id=self._ids.pool_id(now),
            creator_user_name=caller.user_name,
            creator_user_id=caller.user_id,
            created_ms=now,
            spec=spec,
        )

        def work(tx: Tx) -> None:
            _take_name(tx, spec)
            tx.pools.insert(pool)

        await self._store.write(work)
        self._wake(pool.instance_pool_id)
        return pool.instance_pool_id

    async def edit(self, caller: Caller, request: EditInstancePool) -> None:
        """Change a pool; what has to be launched or ended for it follows in the background."""

        def change(tx: Tx, pool: Pool) -> Pool:
            spec = edited_spec(pool, request)
            if spec.instance_pool_name != pool.spec.instance_pool_name:
                _take_name(tx, spec)
            # Somebody has looked at the pool: whatever kept it from filling may be over.
            return msgspec.structs.replace(pool, spec=spec, failures=0, fill_after_ms=0)

        await self._change(caller, request.instance_pool_id, change)

    async def delete(self, caller: Caller, request: InstancePoolId) -> None:
        """Delete a pool for good. Idle instances end in the background; what clusters have of it stays theirs."""

        def change(_tx: Tx, pool: Pool) -> Pool:
            return msgspec.structs.replace(pool, deleted_ms=self._clock.now_ms())

        await self._change(caller, request.instance_pool_id, change)

    async def get(self, caller: Caller, request: InstancePoolId) -> InstancePoolView:
        """One pool, with what its instances do now."""
        pool_id = request.instance_pool_id
        pool, standings = await self._store.read(lambda tx: (tx.pools.get(pool_id), tx.instances.standings(pool_id)))
        if pool is None or not pool.active:
            raise _unknown(pool_id)
        self._authorizer.require_pool(caller, Action.VIEW, pool)
        return pool_view(pool, standings.get(pool_id, {}))

    async def list(self, caller: Caller) -> ListInstancePoolsResponse:
        """Every pool, oldest first."""
        self._authorizer.require_pool(caller, Action.VIEW)
        pools, standings = await self._store.read(lambda tx: (tx.pools.active(), tx.instances.standings()))
        return ListInstancePoolsResponse(
            instance_pools=[pool_view(pool, standings.get(pool.instance_pool_id, {})) for pool in pools]
        )

    async def end_idle(self) -> None:
        """The server leaves, and its instances end with it: then those of pools are not lost, they were sent away. The next
        server fills the pools again."""

        def work(tx: Tx) -> None:
            for pool in tx.pools.active():
                tx.pools.get(pool.instance_pool_id)  # locked before its instances, as everywhere
                for row in tx.instances.idle_of_pool(pool.instance_pool_id):
                    if row.live:
                        tx.instances.update(msgspec.structs.replace(row, state=InstanceState.TERMINATING))
                tx.pools.wake(pool.instance_pool_id)

        await self._store.write(work)

    async def _change(self, caller: Caller, pool_id: str, change: Callable[[Tx, Pool], Pool]) -> None:
        def work(tx: Tx) -> None:
            pool = tx.pools.get(pool_id)
            if pool is None or not pool.active:
                raise _unknown(pool_id)
            self._authorizer.require_pool(caller, Action.MANAGE, pool)
            tx.pools.update(change(tx, pool))
            tx.pools.wake(pool_id)

        await self._store.write(work)
        self._wake(pool_id)


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
    """The four numbers that a pool shows, of how many of its instances stand where. Pure."""
    count = standings.get
    return InstancePoolStats(
        used_count=count(Standing.USED, 0),
        idle_count=count(Standing.WARM, 0) + count(Standing.IDLE, 0),
        pending_used_count=count(Standing.PENDING_USED, 0),
        pending_idle_count=count(Standing.PREPARING, 0) + count(Standing.LAUNCHING, 0),
    )


def _take_name(tx: Tx, spec: PoolSpec) -> None:
    tx.lock(_NAMES)
    if (other := tx.pools.named(spec.instance_pool_name)) is not None:
        raise InvalidParameterValue(
            f"instance_pool_name {spec.instance_pool_name} is taken by instance pool {other}: choose another name."
        )


def _unknown(pool_id: str) -> ResourceDoesNotExist:
    return ResourceDoesNotExist(f"Can't find an instance pool with id: {pool_id}.")
