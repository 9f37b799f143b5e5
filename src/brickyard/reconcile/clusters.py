"""The loop: level-triggered passes over clusters and instance pools, one worker a key, wake-up hints merged.

A key is the id of a cluster or of a pool. The database says which are due (`due_ms`); a hint only makes it look sooner. A
lost hint is a delay, never a bug.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor

import msgspec
import structlog
from prometheus_client import CollectorRegistry

from brickyard.domain.clock import Clock, Ids
from brickyard.domain.cluster import Instance, LaunchError
from brickyard.domain.errors import DatabaseTrouble
from brickyard.domain.instances import InstanceState
from brickyard.domain.node import ServerAddress
from brickyard.domain.nodetypes import Catalogue, NodeType
from brickyard.domain.pools import is_pool_id
from brickyard.nodes.loads import Loads
from brickyard.nodes.tokens import InstanceTokens
from brickyard.plan.policy import Policy
from brickyard.providers.base import CapacityError, LaunchRequest, ProviderError
from brickyard.providers.fleet import Providers
from brickyard.reconcile.apply import Outside, run_pass
from brickyard.reconcile.measures import ClusterMeasures
from brickyard.reconcile.pools import run_pool_pass
from brickyard.store.store import Store
from brickyard.store.tx import Tx

log = structlog.get_logger(__name__)

POLL_S = 1.0
CALLS = 8  # of the provider, at once
# A pass waits for the database and for its turn on the event loop most of the time: with few at once, a busy server would do few
# passes a second, however cheap they are. What is ready together also shares a commit.
WORKERS = 64
_BATCH = 256


class ClusterLoop:
    """`wake` from anywhere on the event loop; `run` until cancelled."""

    def __init__(
        self,
        *,
        store: Store,
        providers: Providers,
        clock: Clock,
        ids: Ids,
        policy: Policy,
        tokens: InstanceTokens,
        server_url: Callable[[], str],
        servers: Callable[[], tuple[ServerAddress, ...]] = tuple,
        silent: Callable[[], frozenset[str]],
        loads: Loads,
        measures: ClusterMeasures | None = None,
        on_gone: Callable[[], None] = lambda: None,
    ) -> None:
        self._measures = measures or ClusterMeasures(registry=CollectorRegistry())
        self._store = store
        self._providers = providers
        self._clock = clock
        self._ids = ids
        self._policy = policy
        self._node_types = Catalogue(providers.default.node_types)
        self._tokens = tokens
        self._server_url = server_url
        self._servers = servers
        self._silent = silent
        self._loads = loads
        self._on_gone = on_gone
        self._queue: asyncio.Queue[str] = asyncio.Queue()
        self._waiting: dict[str, float] = {}  # in the queue, since when (time.monotonic()); the oldest first
        self._running: set[str] = set()
        self._again: set[str] = set()  # woken while running: one more pass when it is done
        self._calls = ThreadPoolExecutor(CALLS, thread_name_prefix="provider")
        self._outside: set[asyncio.Task[None]] = set()

    def wake(self, key: str) -> None:
        """Have a pass soon. Merges with a pass that is already waiting."""
        if key in self._running:
            self._again.add(key)
        elif key not in self._waiting:
            self._waiting[key] = time.monotonic()
            self._queue.put_nowait(key)

    @property
    def lag_s(self) -> float:
        """For how long the key has waited for its pass that has waited longest."""
        return time.monotonic() - next(iter(self._waiting.values())) if self._waiting else 0.0

    async def run(self) -> None:
        """Poll for due clusters and work on them until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._poll())
                for _ in range(WORKERS):
                    group.create_task(self._work())
        finally:
            for task in self._outside:
                task.cancel()
            self._calls.shutdown(wait=False, cancel_futures=True)

    async def first_pass(self) -> None:
        """Look at every cluster and pool that is due, before the API serves: what a killed server left behind is picked up here.

        Where no other server can be at work, launches that one had begun are repeated at once instead of when their lease ends.
        """
        if self._store.exclusive:
            await self._store.write(take_over_launches, background=True)
        for key in await self._store.read(lambda tx: self._due(tx, 1_000_000), background=True):
            await self._pass(key)

    def _due(self, tx: Tx, limit: int) -> list[str]:
        now = self._clock.now_ms()
        return [*tx.clusters.due(now, limit), *tx.pools.due(now, limit)]

    async def _poll(self) -> None:
        while True:
            await self._store.usable()
            try:
                for key in await self._store.read(lambda tx: self._due(tx, _BATCH), background=True):
                    self.wake(key)
            except DatabaseTrouble:
                continue
            except Exception:
                log.exception("poll_failed")
            await asyncio.sleep(POLL_S)

    async def _work(self) -> None:
        while True:
            key = await self._queue.get()
            self._waiting.pop(key, None)
            if key in self._running:  # another worker is at it: one key, one worker
                self._again.add(key)
                continue
            self._running.add(key)
            try:
                await self._store.usable()
                await self._pass(key)
            except Exception as error:
                if not isinstance(error, DatabaseTrouble):  # the store tells of that itself, once
                    log.exception("pass_failed", key=key)
                # The row is still due, so the poll will bring it back: a pause, not a spin.
                self._again.discard(key)
            finally:
                self._running.discard(key)
            if key in self._again:
                self._again.discard(key)
                self.wake(key)

    async def _pass(self, key: str) -> None:
        now, silent = self._clock.now_ms(), self._silent()
        sizes = self._node_types.now()

        def work(tx: Tx) -> Outside:
            if is_pool_id(key):
                return run_pool_pass(tx, key, now=now, sizes=sizes, policy=self._policy, ids=self._ids)
            return run_pass(
                tx,
                key,
                now=now,
                sizes=sizes,
                policy=self._policy,
                ids=self._ids,
                silent=silent,
                loads=self._loads,
            )

        outside = await self._store.write(work, background=True)
        self._measures.note(outside.came, outside.ended)
        if self._loads.follow(key, outside.follows_load):
            self.wake(key)  # for the load of before, which may not change again
        if outside.gone:
            self._on_gone()
        for pool_id in outside.woken:
            self.wake(pool_id)
        # The provider is called beside the pass: a slow launch of one node delays neither this cluster's next pass nor another.
        for instance in outside.terminate:
            self._begin(self._terminate(instance))
        for instance in outside.launch:
            self._begin(self._launch(instance, sizes.get(instance.node_type_id)))

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._outside.add(task)  # kept, so that it is not collected half-way
        task.add_done_callback(self._outside.discard)

    async def _launch(self, instance: Instance, node_type: NodeType | None) -> None:
        error = await self._refused(instance, node_type)
        now = self._clock.now_ms()
        # Whoever has it by now: a cluster may have taken it from its pool meanwhile. What the database cannot take is not lost:
        # the launch is repeated when its lease ends, and answers the same.
        with contextlib.suppress(DatabaseTrouble):
            owner_id = await self._store.write(
                lambda tx: record_launch(tx, instance.instance_id, error, now=now), background=True
            )
            if owner_id:
                self.wake(owner_id)

    async def _refused(self, instance: Instance, node_type: NodeType | None) -> LaunchError | None:
        """Have the provider launch the instance; what it refused it with. `node_type` is None where it is offered no more."""
        if node_type is None:
            return LaunchError(kind="InvalidError", message=f"node type {instance.node_type_id} is not offered any more")
        if (provider := self._providers.of(instance.provider)) is None:
            return LaunchError(kind="InvalidError", message=f"its provider {instance.provider} is not configured any more")
        request = LaunchRequest(
            instance_id=instance.instance_id,
            node_type=node_type,
            spot=instance.spot,
            server_url=self._server_url(),
            servers=self._servers(),
            agent_token=self._tokens.agent_token(instance.instance_id),
            server_token=self._tokens.server_token(instance.instance_id),
            tags={"ClusterId": instance.cluster_id, "InstancePoolId": instance.pool_id, "Role": instance.role.value},
        )
        try:
            await asyncio.get_running_loop().run_in_executor(self._calls, provider.launch, request)
        except CapacityError as refused:
            return LaunchError(kind="CapacityError", message=str(refused), asked=refused.asked, left=refused.left)
        except ProviderError as refused:
            return LaunchError(kind=type(refused).__name__, message=str(refused))
        except Exception as broken:  # a provider's bug is handled as an error that may pass, and is logged whole
            log.exception("launch_failed", instance_id=instance.instance_id)
            return LaunchError(kind="TransientError", message=f"{type(broken).__name__}: {broken}")
        return None

    async def _terminate(self, instance: Instance) -> None:
        """A first attempt, for speed; the monitor repeats it until the provider no longer lists the instance."""
        if (provider := self._providers.of(instance.provider)) is None:
            return  # the monitor tells of it
        with contextlib.suppress(ProviderError):
            await asyncio.get_running_loop().run_in_executor(
                self._calls, lambda: provider.terminate(instance.instance_id, reason=instance.lost or "released")
            )


def take_over_launches(tx: Tx) -> None:
    """End the launch leases of a server that is no more."""
    states = tx.instances.states()
    for instance_id in sorted(key for key, (_, state) in states.items() if state is InstanceState.REQUESTED):
        instance = tx.lock_owner(instance_id)  # its agent may be calling home now
        if instance is not None and instance.state is InstanceState.REQUESTED:
            tx.instances.update(msgspec.structs.replace(instance, not_before_ms=0))
            tx.wake_owner(instance)


def record_launch(tx: Tx, instance_id: str, error: LaunchError | None, *, now: int) -> str:
    """Write what came of a launch call; returns who must look at it, or "". The agent may have called home before the call
    returned, and the instance may have been sent away meanwhile: then its state stays."""
    instance = tx.lock_owner(instance_id)
    if instance is None or instance.state is not InstanceState.REQUESTED:
        return ""
    if error is None:
        tx.instances.update(msgspec.structs.replace(instance, state=InstanceState.LAUNCHED, launched_ms=now))
    else:
        tx.instances.update(msgspec.structs.replace(instance, launch_error=error))
    tx.wake_owner(instance)
    return instance.owner_id
