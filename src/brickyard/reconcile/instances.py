"""The instance monitor: compares the providers' lists with the recorded instances.

* recorded as running but not listed (or listed as ended): the instance is gone, and its cluster is told;
* recorded as terminating and still listed: terminated again; no longer listed: gone;
* listed but not recorded: an orphan of a crash, which is ended;
* waiting in its provider: what the provider says of it is recorded, when it changes, and its cluster or pool is told;
* silent for too long: considered lost, even while its provider cannot be asked;
* recorded with a provider that is not configured: nobody can ask for it or end it. It goes on while its agent calls. Once it is
  no longer wanted, or lost, it is gone when its agent must have ended itself.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import msgspec
import structlog

from brickyard.domain.clock import Monotonic
from brickyard.domain.cluster import Instance
from brickyard.domain.instances import InstanceState
from brickyard.domain.periodic import Lease, Periodic, always
from brickyard.domain.wakeups import Wake
from brickyard.plan.providermessages import Messages, brief
from brickyard.providers.base import Observed, Provider, ProviderError
from brickyard.providers.fleet import Providers
from brickyard.reconcile.agents import Agents
from brickyard.reconcile.aside import Aside
from brickyard.reconcile.records import InstanceRecords, Records, States
from brickyard.store.store import Store
from brickyard.store.tx import Tx

log = structlog.get_logger(__name__)

POLL_S = 0.5
MAX_POLL_S = 5.0
SHARE = 0.02  # of the time may go into checks, as long as the interval stays within MAX_POLL_S
MOST_CHANGED = 500  # instances in one look: other writers wait for its transaction
PATIENCE_S = 5.0  # for a provider's answer; then the check goes on without it, and takes the answer when it is there

_NEW = ("", InstanceState.REQUESTED)
_TOLD = (InstanceState.REQUESTED, InstanceState.LAUNCHED, InstanceState.REGISTERED)  # of which providers say something
SILENT = "its agent has stopped answering"


class _Question(NamedTuple):
    """A call of `Provider.observe` that is under way, and what was on record before it began."""

    listing: asyncio.Future[Mapping[str, Observed]]
    before: States


class _Answer(NamedTuple):
    provider: Provider
    listed: Mapping[str, Observed]
    before: States


class _Quiet(NamedTuple):
    """A comparison that found nothing to do: what was on record, who of that is registered, and what the providers listed."""

    records: Records
    registered: Sequence[str]
    listings: Mapping[str, Mapping[str, Observed]]


class InstanceMonitor(Periodic):
    """Compares what the providers list with what is on record; with several servers, on the one for which `held` is true.
    `grace_s`: after this time without a server, an agent ends itself."""

    def __init__(
        self,
        *,
        store: Store,
        providers: Providers,
        agents: Agents,
        wake: Wake[str],
        held: Lease = always,
        grace_s: float = 600.0,
        monotonic: Monotonic = time.monotonic,
    ) -> None:
        super().__init__(every_s=POLL_S, database=store, held=held)
        self._store = store
        self._providers = providers
        self._told: set[str] = set()  # instances already logged as having an unconfigured provider
        self._left: dict[str, float] = {}  # those of them that are terminating: since when, as far as this server knows
        self._records = InstanceRecords(store=store, default=providers.default.name)
        self._quiet: _Quiet | None = None  # the last comparison, if it found nothing to do
        self._turn = asyncio.Lock()
        self._questions: dict[str, _Question] = {}
        self._messages = Messages()
        self._aside = Aside[str]("instance_check")
        self.troubles: dict[str, str] = {}  # why a provider does not answer now, by its name
        self._slow: set[str] = set()  # providers that are logged as not answering
        self._agents = agents
        self._wake = wake
        self._grace_s = grace_s
        self._monotonic = monotonic
        self._calls, self._asks = self._threads()

    async def first_pass(self) -> None:
        await self.run_once()

    async def skip(self) -> None:
        self._messages.forget()

    def _threads(self) -> tuple[ThreadPoolExecutor, ThreadPoolExecutor]:
        """Those that end instances, and those that ask providers: one that does not answer keeps no instance from being ended.
        None of them starts before a call."""
        ending, asking = ThreadPoolExecutor(4, "monitor"), ThreadPoolExecutor(len(self._providers), "observe")
        return ending, asking

    async def end(self) -> None:
        """Drop what is under way, for another run."""
        for threads in (self._calls, self._asks):
            threads.shutdown(wait=False, cancel_futures=True)
        self._calls, self._asks = self._threads()
        self._questions.clear()
        self._messages.forget()
        self._quiet = None

    async def run_once(self) -> None:
        """One comparison. A server that loses the lease meanwhile (it was stopped, say) does nothing: its data may be old. A
        provider that cannot answer keeps only its own instances from being compared."""
        async with self._turn:
            began = time.monotonic()
            await self._look()
            self.every_s = min(max(POLL_S, (time.monotonic() - began) / SHARE), MAX_POLL_S)

    async def _look(self) -> None:
        held = self._lease()
        # Records are read before and after a provider is asked. One that it lists and that is not on record afterwards is an
        # orphan. One that it does not list is missing only if it was launched before: an instance can be launched, and its agent
        # can call home, while the provider is being asked. (Records, not times: servers' clocks differ.)
        known = await self._records.before()
        answers = await self._ask(known)
        records = await self._records.now()
        quiet = self._quiet if self._quiet is not None and self._quiet.records is records else None
        registered = quiet.registered if quiet is not None else _registered(records)
        silent = await self._agents.judge(registered)
        listings = {name: answer.listed for name, answer in answers.items()}
        if quiet is not None and known is records and not silent and listings == quiet.listings:
            return  # nothing has changed since a comparison that found nothing
        self._quiet = None
        left = {name: states for name, states in records.items() if self._providers.of(name) is None}
        self._tell(left)
        listed: dict[str, Observed] = {}
        suspects = self._ended_alone(left)
        ending: list[tuple[Provider, str, str]] = []
        for name, states in records.items():
            if (answer := answers.get(name)) is not None:
                suspects |= suspicious(states, answer.listed, before=answer.before, silent=silent)
                listed |= {instance_id: seen for instance_id, seen in answer.listed.items() if instance_id in states}
            else:  # they may still exist, as far as anybody knows
                lost = {key for key, (_, state) in states.items() if state is InstanceState.REGISTERED and key in silent}
                suspects |= dict.fromkeys(lost, SILENT)
                listed |= {key: Observed(instance_id=key, alive=True) for key in lost}
        for answer in answers.values():
            ending += self._unwanted(answer, records.get(answer.provider.name, {}), left)
        if held and not self._lease():
            return
        telling = _telling(records, listed, suspects, has_said=self._messages.has_said)
        said = self._messages.look(telling, now_s=self._monotonic())
        if suspects or said:
            now = dict(itertools.islice(suspects.items(), MOST_CHANGED))
            try:
                woken = await self._record(now, listed, said)
            except BaseException:
                self._messages.forget()
                raise
            for owner_id in itertools.chain.from_iterable(woken):
                self._wake(owner_id)
        # Concurrently: one that is slow to end delays no other.
        await asyncio.gather(*(self._terminate(*each) for each in ending[:MOST_CHANGED]))
        if known is records and not (suspects or telling or said or ending or left or silent):
            self._quiet = _Quiet(records, registered, listings)

    async def _record(
        self, suspects: Mapping[str, str], listed: Mapping[str, Observed], said: Mapping[str, str]
    ) -> Sequence[set[str]]:
        """Returns the clusters and pools that must look."""

        async def write(ids: Sequence[str]) -> set[str]:
            ours = {key: suspects[key] for key in ids if key in suspects}
            told = {key: said[key] for key in ids if key in said}
            return await self._store.write(lambda tx: _write(tx, ours, listed, told), background=True)

        return await self._aside.together({**suspects, **said}, write)

    async def _ask(self, known: Records) -> dict[str, _Answer]:
        """What the providers list that answer in time, by name."""
        loop = asyncio.get_running_loop()
        begun: list[asyncio.Future[Mapping[str, Observed]]] = []
        for provider in self._providers:
            if provider.name not in self._questions:
                begun.append(loop.run_in_executor(self._asks, provider.observe))
                self._questions[provider.name] = _Question(begun[-1], known.get(provider.name, {}))
        if begun:
            await asyncio.wait(begun, timeout=PATIENCE_S)
        answers: dict[str, _Answer] = {}
        for provider in self._providers:
            name, question = provider.name, self._questions[provider.name]
            if not question.listing.done():
                if name not in self._slow:
                    self._slow.add(name)
                    self.troubles[name] = f"no answer for {PATIENCE_S:g} s"
                    log.warning("observe_slow", provider=name, why=f"{self.troubles[name]}; the others go on")
                continue
            del self._questions[name]
            self._slow.discard(name)
            try:
                answers[name] = _Answer(provider, question.listing.result(), question.before)
            except ProviderError as error:
                if self.troubles.get(name) != str(error):  # twice a second, for as long as it lasts
                    log.warning("observe_failed", provider=name, error=str(error))
                self.troubles[name] = str(error)
                continue
            except Exception as error:  # its bug; the others go on
                log.exception("observe_failed", provider=name)
                self.troubles[name] = f"{type(error).__name__}: {error}"
                continue
            if self.troubles.pop(name, ""):
                log.info("observe_works", provider=name)
        return answers

    def _unwanted(self, answer: _Answer, states: States, left: Records) -> list[tuple[Provider, str, str]]:
        """What the provider is to end, each with the reason. Forgets what it no longer lists."""
        provider, listed = answer.provider, answer.listed
        ending = []
        # One that is on record with another provider was refused here first: a late call has launched it after all.
        for instance_id in listed.keys() - states.keys() - {key for found in left.values() for key in found}:
            log.warning("orphan_instance", instance_id=instance_id, provider=provider.name)
            ending.append((provider, instance_id, "it belongs to no cluster and no pool of this workspace"))
        for instance_id, (_, state) in states.items():
            if state is InstanceState.TERMINATING and instance_id in listed:
                ending.append((provider, instance_id, "released"))
            elif instance_id not in listed and state in (InstanceState.TERMINATING, InstanceState.GONE):
                self._agents.forget(instance_id)
        return ending

    def _ended_alone(self, left: Records) -> dict[str, str]:
        """Instances that nobody can end, because their providers are not configured, and whose agents have had the time to end
        themselves, as `suspicious` returns them."""
        now = self._monotonic()
        terminating = [key for found in left.values() for key, (_, state) in found.items() if state is InstanceState.TERMINATING]
        self._left = {instance_id: self._left.get(instance_id, now) for instance_id in terminating}
        ended = [instance_id for instance_id, since in self._left.items() if now - since > self._grace_s]
        for instance_id in ended:
            self._agents.forget(instance_id)
        return dict.fromkeys(ended, "")

    def _tell(self, left: Records) -> None:
        """Logs, once, the instances of providers that are not configured."""
        names = {instance_id: name for name, states in left.items() for instance_id in states}
        for instance_id in names.keys() - self._told:
            log.warning(
                "instance_left", instance_id=instance_id, provider=names[instance_id], why="its provider is not configured"
            )
        self._told = set(names)

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
                suspects[instance_id] = brief(seen.message) or "its agent ended unexpectedly"
            elif instance_id in silent:
                suspects[instance_id] = f"{SILENT}; its provider says: {brief(seen.message)}" if seen.message else SILENT
        elif state is InstanceState.TERMINATING and seen is None:
            suspects[instance_id] = ""
    return suspects


def _registered(records: Records) -> list[str]:
    return [key for states in records.values() for key, (_, state) in states.items() if state is InstanceState.REGISTERED]


def _telling(
    records: Records, listed: Mapping[str, Observed], suspects: Collection[str], *, has_said: Callable[[str], bool]
) -> dict[str, str]:
    """What providers say of the instances that they have: of those whose agents have not called, and of others if there is, or
    was, something to say."""
    return {
        instance_id: listed[instance_id].message
        for states in records.values()
        for instance_id, (_, state) in states.items()
        if state in _TOLD and instance_id in listed and instance_id not in suspects
        if state is not InstanceState.REGISTERED or listed[instance_id].message or has_said(instance_id)
    }


def _write(tx: Tx, suspects: Mapping[str, str], listed: Mapping[str, Observed], said: Mapping[str, str]) -> set[str]:
    return (mark_gone(tx, suspects, listed) if suspects else set()) | (note_messages(tx, said) if said else set())


def mark_gone(tx: Tx, suspects: Mapping[str, str], listed: Mapping[str, Observed]) -> set[str]:
    """Updates the suspects once their rows are locked. Returns the clusters and pools that must look.

    One that is not listed becomes GONE. One that is listed but dead or silent becomes TERMINATING with its loss recorded, and
    GONE once the provider no longer lists it.
    """
    return _change(tx, suspects, lambda instance: _moved_on(instance, suspects, listed))


def note_messages(tx: Tx, said: Mapping[str, str]) -> set[str]:
    """Records what providers say of instances, once their rows are locked. Returns the clusters and pools that must look."""

    def noted(instance: Instance) -> Instance:
        if instance.state not in _TOLD:
            return instance
        return msgspec.structs.replace(instance, provider_message=said[instance.instance_id])

    return _change(tx, said, noted)


def _change(tx: Tx, instance_ids: Collection[str], change: Callable[[Instance], Instance]) -> set[str]:
    """Changes these instances; returns the owners of those that are not the same afterwards."""
    woken: set[str] = set()
    rows = tx.instances.many(instance_ids)
    # Clusters, then pools, then their instances, each in a fixed order: no deadlock. An instance that changes hands meanwhile is
    # not found below; the next check finds it.
    cluster_ids = sorted({row.cluster_id for row in rows} - {""})
    for cluster_id in cluster_ids:
        tx.clusters.lock(cluster_id)
    pools = tx.pools.many(row.pool_id for row in rows if not row.cluster_id)
    for instance in tx.instances.many_locked(row.instance_id for row in rows):
        owned = instance.cluster_id in cluster_ids if instance.cluster_id else instance.pool_id in pools
        if owned and (after := change(instance)) != instance:
            tx.instances.update(after)
            if instance.owner_id not in woken:
                woken.add(instance.owner_id)
                tx.wake_owner(instance)
    return woken


def _moved_on(instance: Instance, suspects: Mapping[str, str], listed: Mapping[str, Observed]) -> Instance:
    """The instance in its new state."""
    why = suspects[instance.instance_id]
    if instance.state is InstanceState.GONE:
        return instance
    if instance.instance_id in listed:
        if instance.state is InstanceState.TERMINATING:
            return instance
        return msgspec.structs.replace(instance, state=InstanceState.TERMINATING, lost=why)
    if instance.provider_message and instance.state in _TOLD:
        why = f"{why}, of which it said before: {instance.provider_message.rstrip('.')}"
    lost = instance.lost or (why if instance.state is not InstanceState.TERMINATING else "")
    return msgspec.structs.replace(instance, state=InstanceState.GONE, lost=lost)
