"""Provider calls that passes request: launches and terminations, made outside the passes and recorded when they are over.

A launch is leased in the instance's row before the call (`not_before_ms`, `launcher`), so that nobody repeats it meanwhile. If
the server dies, the launch is repeated as soon as that is noticed, or when the lease ends. Launching is idempotent.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import time
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import msgspec
import structlog

from brickyard.domain.clock import Clock, Ids
from brickyard.domain.cluster import Instance, LaunchError
from brickyard.domain.errors import DatabaseTrouble
from brickyard.domain.instances import InstanceState
from brickyard.domain.nodetypes import Catalogue, NodeType
from brickyard.domain.wakeups import Wake
from brickyard.nodes.tokens import InstanceTokens
from brickyard.plan.policy import Policy
from brickyard.providers.base import CapacityError, LaunchRequest, Provider, ProviderError
from brickyard.providers.fleet import Providers
from brickyard.reconcile.aside import Aside
from brickyard.reconcile.measures import ClusterMeasures
from brickyard.store.membership import Members, addresses
from brickyard.store.store import Store
from brickyard.store.tx import Tx

log = structlog.get_logger(__name__)

CALLS = 8  # concurrent provider calls
_MOST_TAKEN = 500  # leases that end at once when a server has gone; the others end when their time is over


class ProviderCalls(msgspec.Struct, frozen=True, kw_only=True):
    """The instances that a pass wants launched and ended."""

    launch: tuple[Instance, ...] = ()
    terminate: tuple[Instance, ...] = ()


class Launches:
    """`begin` on the event loop; `close` when done. Calls `wake` with the owner of each finished launch."""

    def __init__(
        self,
        *,
        store: Store,
        providers: Providers,
        clock: Clock,
        tokens: InstanceTokens,
        server_url: str,
        members: Members,
        server_ca: str,
        wake: Wake[str],
        measures: ClusterMeasures,
    ) -> None:
        self._store = store
        self._providers = providers
        self._clock = clock
        self._tokens = tokens
        self._server_url = server_url
        self._members = members
        self._server_ca = server_ca
        self._wake = wake
        self._measures = measures
        self._threads = _threads()
        self._under_way: set[asyncio.Task[None]] = set()
        self._over = _Over()

    def begin(self, calls: ProviderCalls, sizes: Mapping[str, NodeType]) -> None:
        """Starts the calls of one pass without waiting: a slow launch delays neither the next pass nor other launches."""
        for instance in calls.terminate:
            self._begin(self._terminate(instance))
        for instance in calls.launch:
            self._launch(instance, sizes.get(instance.node_type_id))

    def close(self) -> None:
        """Drops what is under way, because the loops end. A call already running in a provider finishes by itself."""
        for task in self._under_way:
            task.cancel()
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._threads = _threads()  # for another run of the loops; no thread starts before a call
        self._over = _Over()

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._under_way.add(task)  # referenced, so that it is not garbage-collected halfway
        task.add_done_callback(self._under_way.discard)

    def _launch(self, instance: Instance, node_type: NodeType | None) -> None:
        """Launches the instance on a thread. `node_type` is None if no longer on offer."""
        provider = self._providers.of(instance.provider)
        loop, over = asyncio.get_running_loop(), self._over
        if node_type is None:
            error = LaunchError(kind="InvalidError", message=f"node type {instance.node_type_id} is no longer offered")
            self._note(loop, over, _Launched(instance, error, 0.0))
        elif provider is None:
            error = LaunchError(kind="InvalidError", message=f"its provider {instance.provider} is no longer in the settings")
            self._note(loop, over, _Launched(instance, error, 0.0))
        else:
            if instance.instance_id in over.queued:
                return  # its lease has ended while it waits for a thread
            over.queued.add(instance.instance_id)
            request = self._request(instance, node_type, encrypted=provider.where == "elsewhere")

            def call() -> None:
                over.queued.discard(instance.instance_id)
                self._note(loop, over, _launched(provider, request, instance))

            self._threads.submit(call)

    def _request(self, instance: Instance, node_type: NodeType, *, encrypted: bool) -> LaunchRequest:
        return LaunchRequest(
            instance_id=instance.instance_id,
            node_type=node_type,
            spot=instance.spot,
            server_url=self._server_url,
            servers=addresses(self._members),
            encrypted=encrypted,
            server_ca=self._server_ca,
            agent_token=self._tokens.agent_token(instance.instance_id),
            server_token=self._tokens.server_token(instance.instance_id),
            tags={"ClusterId": instance.cluster_id, "InstancePoolId": instance.pool_id, "Role": instance.role.value},
        )

    def _note(self, loop: asyncio.AbstractEventLoop, over: _Over, launched: _Launched) -> None:
        """A launch is over. On any thread: waking the event loop is expensive, so launches that end together wake it once."""
        over.launches.append(launched)
        if not over.told:
            over.told = True
            with contextlib.suppress(RuntimeError):  # the loop was closed: the launch is repeated by the next server
                loop.call_soon_threadsafe(self._take, over)

    def _take(self, over: _Over) -> None:
        """Begins to record what is over: launches of one cluster together."""
        if over is not self._over:
            return  # of an earlier run of the loops
        over.told = False  # before the look: what ends from now on says so
        owners: dict[str, list[_Launched]] = {}
        while over.launches:
            launched = over.launches.popleft()
            self._measures.launched(launched.error.kind if launched.error is not None else "accepted", launched.seconds)
            # A cluster may have taken an idle instance from its pool meanwhile: each is recorded with its owner of then.
            owners.setdefault(launched.instance.cluster_id or launched.instance.instance_id, []).append(launched)
        for launches in owners.values():
            self._begin(self._record(launches))

    async def _record(self, launches: Sequence[_Launched]) -> None:
        """Records the results. If the database is in trouble, nothing is lost: launches are repeated when their leases end, with
        the same result."""
        now = self._clock.now_ms()
        with contextlib.suppress(DatabaseTrouble):
            woken = await self._store.write(
                lambda tx: {record_launch(tx, each.instance.instance_id, each.error, now=now) for each in launches},
                background=True,
            )
            for owner_id in woken - {""}:
                self._wake(owner_id)

    async def _terminate(self, instance: Instance) -> None:
        """A first attempt, for speed; the monitor repeats it until the provider no longer lists the instance."""
        if (provider := self._providers.of(instance.provider)) is None:
            return  # the monitor logs it
        with contextlib.suppress(ProviderError):
            await asyncio.get_running_loop().run_in_executor(
                self._threads, lambda: provider.terminate(instance.instance_id, reason=instance.lost or "released")
            )


class _Launched(NamedTuple):
    """A launch call that is over: what the provider refused, if it did, and how long it took."""

    instance: Instance
    error: LaunchError | None
    seconds: float


class _Over:
    """The launches of one run of the loops that wait for a thread, and those that are over and not recorded yet."""

    def __init__(self) -> None:
        self.launches: deque[_Launched] = deque()
        self.queued: set[str] = set()  # instances whose launch waits for a thread
        self.told = False  # whether the event loop knows that there are some


def _launched(provider: Provider, request: LaunchRequest, instance: Instance) -> _Launched:
    """Launches the instance. Runs on a thread."""
    began, error = time.monotonic(), None
    try:
        provider.launch(request)
    except CapacityError as refused:
        error = LaunchError(kind="CapacityError", message=str(refused), asked=refused.asked, left=refused.left)
    except ProviderError as refused:
        error = LaunchError(kind=type(refused).__name__, message=str(refused))
    except Exception as broken:  # a provider's bug is handled as an error that may pass, and logged in full
        log.exception("launch_failed", instance_id=instance.instance_id)
        error = LaunchError(kind="TransientError", message=f"{type(broken).__name__}: {broken}")
    return _Launched(instance, error, time.monotonic() - began)


class OwnerContext(NamedTuple):
    """What passes over clusters and pools work with."""

    store: Store
    clock: Clock
    wall: Clock
    ids: Ids
    policy: Policy
    node_types: Catalogue
    launches: Launches
    members: Members


def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(CALLS, thread_name_prefix="provider")


class Leased(NamedTuple):
    """The instances that are leased for a launch, when to look again at the others, and whether there are more at once."""

    instances: tuple[Instance, ...]
    due_ms: int | None
    more: bool


def rows_per_pass(policy: Policy) -> int:
    """How many rows a pass reads. A cluster or pool with more of them has more than the workspace allows, and is worked off.
    Twice the limit: instances that end are there for a while beside those that replace them."""
    return 2 * policy.max_nodes + policy.nodes_per_pass


def lease_launches(instances: Sequence[Instance], *, now: int, policy: Policy, due: int | None, server: int) -> Leased:
    """Leases the requested instances whose turn it is for the server with that number: as many as one pass may change."""
    leased: list[Instance] = []
    for instance in instances:
        if instance.state is not InstanceState.REQUESTED or instance.launch_error is not None:
            continue
        next_look = instance.not_before_ms
        if next_look <= now:
            if len(leased) == policy.nodes_per_pass:
                return Leased(tuple(leased), now, True)
            next_look = now + policy.launch_lease_ms
            attempts = instance.attempts + 1
            leased.append(msgspec.structs.replace(instance, attempts=attempts, not_before_ms=next_look, launcher=server))
        due = next_look if due is None else min(due, next_look)
    return Leased(tuple(leased), due, False)


async def take_over_launches(store: Store, gone: Callable[[int], bool], aside: Aside[str]) -> set[str]:
    """Ends the launch leases of servers that have gone, so that others repeat the launches. Returns who must look."""
    states = await store.read(lambda tx: tx.instances.states(), background=True)
    requested = [key for key, (_, state) in states.items() if state is InstanceState.REQUESTED]

    async def leased(keys: Sequence[str]) -> list[str]:
        return await store.read(lambda tx: _leased_by(tx, keys, gone), background=True)

    async def end(name: str) -> str:
        with aside.around(name):
            return await store.write(functools.partial(_end_lease, instance_id=leases[name], gone=gone), background=True)
        return ""

    found = itertools.chain.from_iterable(await aside.together(requested, leased))
    leases = {f"lease of {key}": key for key in itertools.islice(found, _MOST_TAKEN)}  # set aside apart from the reading
    # One per transaction: they have many owners, and a transaction that locks several must do so in a fixed order.
    return set(await asyncio.gather(*map(end, aside.ready(leases)))) - {""}


def _leased_by(tx: Tx, instance_ids: Sequence[str], gone: Callable[[int], bool]) -> list[str]:
    return [each.instance_id for each in tx.instances.many(instance_ids) if each.not_before_ms and gone(each.launcher)]


def _end_lease(tx: Tx, instance_id: str, gone: Callable[[int], bool]) -> str:
    instance = tx.lock_owner(instance_id)  # its agent may be calling home now
    if instance is None or instance.state is not InstanceState.REQUESTED or not gone(instance.launcher):
        return ""
    tx.instances.update(msgspec.structs.replace(instance, not_before_ms=0))
    tx.wake_owner(instance)
    return instance.owner_id


def record_launch(tx: Tx, instance_id: str, error: LaunchError | None, *, now: int) -> str:
    """Records the result of a launch call. Returns the owner that must look at it, or "". The agent may have called home before
    the call returned, and the instance may have been sent away meanwhile: then its state stays."""
    instance = tx.lock_owner(instance_id)
    if instance is None or instance.state is not InstanceState.REQUESTED:
        return ""
    if error is None:
        tx.instances.update(msgspec.structs.replace(instance, state=InstanceState.LAUNCHED, launched_ms=now))
        return ""  # there is nothing to decide before its agent calls, or the time for that is over
    tx.instances.update(msgspec.structs.replace(instance, launch_error=error))
    tx.wake_owner(instance)
    return instance.owner_id
