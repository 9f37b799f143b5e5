"""The instance monitor: compares the providers' lists with the recorded instances.

* recorded as running but not listed (or listed as ended): the instance is gone, and its cluster is told;
* recorded as terminating and still listed: terminated again; no longer listed: gone;
* listed but not recorded: an orphan of a crash, which is ended;
* silent for too long: considered lost;
* recorded with a provider that is not configured: logged once, and left alone.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

import msgspec
import structlog

from brickyard.domain.cluster import Instance
from brickyard.domain.errors import DatabaseTrouble
from brickyard.domain.instances import InstanceState
from brickyard.providers.base import Observed, Provider, ProviderError
from brickyard.providers.fleet import Providers
from brickyard.store.store import Store
from brickyard.store.tx import Tx

log = structlog.get_logger(__name__)

POLL_S = 0.5
MAX_POLL_S = 5.0
SHARE = 0.05  # of the time may go into checks, as long as the interval stays within MAX_POLL_S

States = Mapping[str, tuple[str, InstanceState]]  # instance id -> its owner, and its recorded state
_NEW = ("", InstanceState.REQUESTED)


class InstanceMonitor:
    """`run` until cancelled. `judge` returns which registered instances have been silent for too long. With several servers, only
    the one for which `held` is true checks."""

    def __init__(
        self,
        *,
        store: Store,
        providers: Providers,
        judge: Callable[[Iterable[str]], Awaitable[frozenset[str]]],
        wake: Callable[[str], None],
        on_gone: Callable[[str], None],
        held: Callable[[], bool] = lambda: True,
    ) -> None:
        self._held = held
        self._store = store
        self._providers = providers
        self._told: set[str] = set()  # instances already logged as having an unconfigured provider
        self._before: States | None = None  # what the last comparison read
        self._judge = judge
        self._wake = wake
        self._on_gone = on_gone
        self._calls = ThreadPoolExecutor(4, thread_name_prefix="monitor")

    async def run(self) -> None:
        """Checks every half second until cancelled; with thousands of instances less often, to take little time."""
        try:
            while True:
                await self._store.usable()
                started = time.monotonic()
                try:
                    if self._held():
                        await self.look()
                except DatabaseTrouble:
                    continue
                except ProviderError as error:
                    log.warning("observe_failed", error=str(error))
                except Exception:
                    log.exception("monitor_failed")
                await asyncio.sleep(min(max(POLL_S, (time.monotonic() - started) / SHARE), MAX_POLL_S))
        finally:
            self._calls.shutdown(wait=False, cancel_futures=True)

    async def look(self) -> None:
        """One comparison. A server that loses the lease meanwhile (it was stopped, say) does nothing: its data may be old."""
        loop, held = asyncio.get_running_loop(), self._held()
        # Records are read before and after the provider is asked. One that it lists and that is not on record afterwards is an
        # orphan. One that it does not list is missing only if it was launched before: an instance can be launched, and its agent
        # can call home, while the provider is being asked. (Records, not times: servers' clocks differ.)
        before = self._before
        if before is None:
            before = await self._store.read(lambda tx: tx.instances.states(), background=True)
        where = await loop.run_in_executor(self._calls, self._observe)
        listed = {instance_id: seen for instance_id, (_, seen) in where.items()}
        states, foreign = await self._store.read(
            lambda tx: (tx.instances.states(), tx.instances.of_other_providers(self._providers.names)), background=True
        )
        self._before = states
        self._tell(foreign)
        for instance_id in foreign:
            states.pop(instance_id, None)
        ending: dict[str, str] = {}
        for instance_id in listed.keys() - states.keys() - foreign.keys():
            log.warning("orphan_instance", instance_id=instance_id, provider=where[instance_id][0].name)
            ending[instance_id] = "it belongs to no cluster and no pool of this workspace"
        registered = [instance_id for instance_id, (_, state) in states.items() if state is InstanceState.REGISTERED]
        suspects = suspicious(states, listed, before=before, silent=await self._judge(registered))
        if held and not self._held():
            return
        if suspects:
            for cluster_id in await self._store.write(lambda tx: mark_gone(tx, suspects, listed), background=True):
                self._wake(cluster_id)
        for instance_id, (_, state) in states.items():
            if state is InstanceState.TERMINATING and instance_id in listed:
                ending[instance_id] = "released"
            elif instance_id not in listed and state in (InstanceState.TERMINATING, InstanceState.GONE):
                self._on_gone(instance_id)
        # Concurrently: one that is slow to end delays no other.
        await asyncio.gather(*(self._terminate(where[instance_id][0], instance_id, why) for instance_id, why in ending.items()))

    def _observe(self) -> dict[str, tuple[Provider, Observed]]:
        """The instances that all providers list, each with its provider."""
        return {name: (provider, seen) for provider in self._providers for name, seen in provider.observe().items()}

    def _tell(self, foreign: Mapping[str, str]) -> None:
        for instance_id in foreign.keys() - self._told:
            log.warning(
                "instance_left", instance_id=instance_id, provider=foreign[instance_id], why="its provider is not configured"
            )
        self._told = set(foreign)

    async def _terminate(self, provider: Provider, instance_id: str, reason: str) -> None:
        try:
            await asyncio.get_running_loop().run_in_executor(self._calls, lambda: provider.terminate(instance_id, reason=reason))
        except ProviderError as error:
            log.warning("terminate_failed", instance_id=instance_id, error=str(error))


def suspicious(states: States, listed: Mapping[str, Observed], *, before: States, silent: frozenset[str]) -> dict[str, str]:
    """Instances whose record may no longer be true, each with the reason. `before`: the records from before the provider was
    asked. Pure."""
    suspects: dict[str, str] = {}
    for instance_id, (_, state) in states.items():
        seen = listed.get(instance_id)
        if seen is None and before.get(instance_id, _NEW)[1] is InstanceState.REQUESTED:
            continue  # it may have been launched after the provider answered
        if state in (InstanceState.LAUNCHED, InstanceState.REGISTERED):
            if seen is None:
                suspects[instance_id] = "the provider no longer lists its instance"
            elif not seen.alive:
                suspects[instance_id] = "its agent ended unexpectedly"
            elif instance_id in silent:
                suspects[instance_id] = "its agent has stopped answering"
        elif state is InstanceState.TERMINATING and seen is None:
            suspects[instance_id] = ""
    return suspects


def mark_gone(tx: Tx, suspects: Mapping[str, str], listed: Mapping[str, Observed]) -> set[str]:
    """Updates the suspects once their rows are locked. Returns the clusters and pools that must look.

    One that is not listed becomes GONE. One that is listed but dead or silent becomes TERMINATING with its loss recorded, and
    GONE once the provider no longer lists it.
    """
    woken: set[str] = set()
    rows = tx.instances.many(suspects)
    # Clusters, then pools, then their instances, each in a fixed order: no deadlock. An instance that changes hands meanwhile is
    # not found below; the next check finds it.
    cluster_ids = sorted({row.cluster_id for row in rows} - {""})
    for cluster_id in cluster_ids:
        tx.clusters.lock(cluster_id)
    pools = tx.pools.many(row.pool_id for row in rows if not row.cluster_id)
    for cluster_id in cluster_ids:
        for instance in tx.instances.of_cluster(cluster_id):
            if _moved_on(tx, instance, suspects, listed):
                tx.clusters.wake(cluster_id)
                woken.add(cluster_id)
    for pool_id in pools:
        for instance in tx.instances.idle_of_pool(pool_id):
            if _moved_on(tx, instance, suspects, listed):
                tx.pools.wake(pool_id)
                woken.add(pool_id)
    return woken


def _moved_on(tx: Tx, instance: Instance, suspects: Mapping[str, str], listed: Mapping[str, Observed]) -> bool:
    """Updates the instance's state. Returns whether it has changed."""
    why = suspects.get(instance.instance_id)
    if why is None or instance.state is InstanceState.GONE:
        return False
    if instance.instance_id in listed:
        if instance.state is InstanceState.TERMINATING:
            return False
        moved = msgspec.structs.replace(instance, state=InstanceState.TERMINATING, lost=why)
    else:
        lost = instance.lost or (why if instance.state is not InstanceState.TERMINATING else "")
        moved = msgspec.structs.replace(instance, state=InstanceState.GONE, lost=lost)
    tx.instances.update(moved)
    return True
