"""The server's side of agent calls: reports of nodes, and assignments, which agents wait for.

A change of a node's status is written to the database. `hearing.py` records when agents were heard from.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Protocol

import msgspec

from brickyard.domain.clock import Clock, Monotonic
from brickyard.domain.errors import DatabaseAway
from brickyard.domain.node import REPORT_S, Assignment, AssignmentReply, Poll, StatusReply, StatusReport
from brickyard.domain.packedsamples import PackedSamples, packed
from brickyard.domain.periodic import Periodic
from brickyard.domain.wakeups import Wake
from brickyard.nodes.attention import Attention
from brickyard.nodes.balance import Balance
from brickyard.nodes.clocks import NodeClocks, moved, moved_samples
from brickyard.nodes.hearing import WRITE_S, Hearing
from brickyard.nodes.loads import Loads
from brickyard.nodes.polls import Bell, Found, Held, Polls
from brickyard.nodes.reports import Recorded, bounded, complete, record_report, with_scripts
from brickyard.nodes.samples import Samples
from brickyard.nodes.tokens import InstanceTokens
from brickyard.nodes.tunnels import Tunnels
from brickyard.store.changeset import Changes
from brickyard.store.membership import ALONE, Members, addresses
from brickyard.store.store import Store
from brickyard.store.tx import Tx

MAX_WAIT_S = 60.0
EARLY = 0.2  # of its time, by which a poll may be answered too early
TOLD_S = 1.0  # for so long, whoever looks at a cluster waits for reports that were asked for


class Delivery(Protocol):
    """What assignments get on their way to an agent."""

    def deliver(self, tx: Tx, assignment: Assignment) -> Assignment:
        """The assignment with what no row holds, such as values of secrets."""
        ...


class AgentService(Periodic):
    """One per server. Calls `wake` for each cluster and pool whose instances have changed."""

    def __init__(
        self,
        *,
        store: Store,
        clock: Clock,
        tokens: InstanceTokens,
        wake: Wake[str],
        silence_s: float,
        loads: Loads,
        members: Members = ALONE,
        delivery: Delivery | None = None,
        samples: Samples | None = None,
        balance: Balance | None = None,
        attention: Attention | None = None,
        tunnels: Tunnels | None = None,
        monotonic: Monotonic = time.monotonic,
    ) -> None:
        super().__init__(every_s=WRITE_S, database=store)
        self._of_users: list[Callable[[], None]] = []
        self._store = store
        self._clock = clock
        self._tokens = tokens
        self._wake = wake
        self._loads = loads
        self._members = members
        self._delivery = delivery
        self._samples = samples or Samples(store=store, clock=clock)
        self._balance = balance or Balance()
        self._attention = attention or Attention()
        self._tunnels = tunnels
        self._monotonic = monotonic
        self._hearing = Hearing(store=store, loads=loads, silence_s=silence_s, monotonic=monotonic)
        self._clocks = NodeClocks(clock)
        self._known: dict[str, tuple[StatusReport, str | None]] = {}  # the last written report, and the cluster
        self._polls = Polls(store=store, rows=self, monotonic=monotonic)
        self._turns: dict[str, _Turn] = {}
        self._asked: list[_Asked] = []
        self._paces: dict[str, float] = {}  # how often agents were last told to report
        self._leaving = False
        self._looking: set[asyncio.Task[None]] = set()  # for held polls that have rung
        self._writing: set[str] = set()  # instances whose report is being written; without those that ended meanwhile
        store.on_commit(self._committed)
        store.on_gap(self._look_again)

    def authenticate(self, instance_id: str, bearer: str) -> bool:
        """Whether the bearer token belongs to that instance."""
        return self._tokens.is_agent(instance_id, bearer)

    def proof(self, instance_id: str) -> str:
        """The token by which the instance's agent recognises its own server."""
        return self._tokens.server_token(instance_id)

    def on_users(self, listener: Callable[[], None]) -> None:
        """Calls `listener` when a driver has reported other users."""
        self._of_users.append(listener)

    async def report(self, report: StatusReport) -> StatusReply:
        """Processes an agent's report. A repeated report is a heartbeat and costs no write."""
        # One at a time per instance, in order of arrival: writers run side by side, and an older status must not win.
        turn = self._turns.setdefault(report.instance_id, _Turn())
        turn.wanted += 1
        try:
            async with turn.lock:
                return await self._report(report)
        finally:
            turn.wanted -= 1
            if not turn.wanted:
                del self._turns[report.instance_id]

    async def _report(self, report: StatusReport) -> StatusReply:
        instance_id = report.instance_id
        self._hear(instance_id)
        ahead = self._clocks.ahead(instance_id, report.now_ms)
        status = moved(report.status, ahead)
        busier = self._loads.hear(instance_id, status.generation, status.load)
        samples = moved_samples(packed(report.samples), ahead) if report.samples is not None else None
        report = msgspec.structs.replace(report, status=bounded(status), samples=None, now_ms=0)
        last = self._known.get(instance_id)
        if last is None or last[0] != report:
            self._writing.add(instance_id)
            try:
                owner_id, wakes, _ = await self._write(report)
            finally:
                stays = instance_id in self._writing
                self._writing.discard(instance_id)
            if stays or owner_id is None:  # else it has ended since the write: the next report is written, and finds that out
                self._known[instance_id] = (report, owner_id)
            if report.status.users != (last[0].status.users if last is not None else ()):
                for listener in self._of_users:
                    listener()
            if owner_id and wakes:
                self._wake(owner_id)
        else:
            owner_id = last[1]
            if busier and owner_id and self._loads.follows(owner_id):
                self._wake(owner_id)
        again = self._take(instance_id, owner_id, samples)
        for asked in self._asked if not again else ():
            asked.reported(instance_id)
        pause_s = self._paces[instance_id] = self._attention.pause_s(owner_id or "")
        return StatusReply(
            server_token=self.proof(instance_id),
            known=owner_id is not None,
            servers=addresses(self._members),
            move_to=self._balance.called(instance_id),
            report_s=pause_s,
            samples_again=again,
        )

    def _hear(self, instance_id: str) -> None:
        if self._hearing.behind:  # other servers consider the agent silent: it must switch to one of them
            raise DatabaseAway("agent reports cannot be recorded")
        self._hearing.hear(instance_id)

    def _samples_of(self, poll: Poll) -> PackedSamples | None:
        return poll.samples and moved_samples(poll.samples, self._clocks.ahead(poll.instance_id, poll.now_ms))

    def _take(self, instance_id: str, owner_id: str | None, samples: PackedSamples | None) -> bool:
        """Takes the samples, unless the agent must send them again with earlier ones."""
        if samples is None or not owner_id:
            return False
        again = self._samples.wants_again(instance_id, owner_id, samples)
        if not again:
            self._samples.take(instance_id, owner_id, samples)
        return again

    async def _write(self, report: StatusReport) -> Recorded:
        instance_id, now = report.instance_id, self._clock.now_ms()
        bell = self._polls.hang(instance_id)
        try:
            recorded = await self._store.write(lambda tx: record_report(tx, report, now=now), background=True)
            wanted = recorded.assignment
            if wanted is not None and instance_id not in self._known and complete(wanted):
                self._polls.keep(instance_id, Found(True, wanted.version, wanted), bell)  # a new agent asks for it next
        finally:
            self._polls.take_down(instance_id, bell)
        return recorded

    async def look(self, cluster_id: str) -> None:
        """Somebody looks at what the cluster's nodes use: their agents report at once, and often from now on. Waits a moment for
        those reports."""
        if not self._attention.look(cluster_id) or not (asked := self._quicken(cluster_id)).left:
            return
        self._asked.append(asked)
        try:
            async with asyncio.timeout(TOLD_S):
                await asked.done.wait()
        except TimeoutError:
            return
        finally:
            self._asked.remove(asked)

    def need(self, cluster_id: str, needed: bool) -> None:
        """Whether the cluster's size or end depends on what its nodes do: then their agents report often."""
        if self._attention.need(cluster_id, needed):
            self._quicken(cluster_id)

    def _quicken(self, cluster_id: str) -> _Asked:
        """Answers the long polls of the cluster's nodes, with how often they are to report."""
        asked = _Asked({key for key, (_, owner_id) in self._known.items() if owner_id == cluster_id})
        for instance_id in asked.left:
            self._polls.ring(instance_id)
        return asked

    def _pause_s(self, instance_id: str) -> float:
        """How long the agent may wait with a report that says nothing new."""
        _, owner_id = self._known.get(instance_id, (None, None))
        return self._attention.pause_s(owner_id or "")

    def poll(self, poll: Poll) -> Awaitable[AssignmentReply]:
        """As `assignment`, for an agent that has nothing to report but its samples."""
        return self._held(poll) or self._polled(poll)

    def _held(self, poll: Poll) -> asyncio.Future[AssignmentReply] | None:
        """Holds the poll if there is nothing to say, as nearly always."""
        instance_id, known = poll.instance_id, self._known.get(poll.instance_id)
        if known is None or self._leaving or not self._store.alone or poll.wait <= 0:
            return None
        found, pause_s = self._polls.kept(instance_id, has=poll.have), self._attention.pause_s(known[1] or "")
        if found is None or found.version != poll.have or pause_s < self._paces.get(instance_id, REPORT_S):
            return None
        if self._take(instance_id, known[1], self._samples_of(poll)):
            return None
        self._hearing.hear(instance_id)
        wait_s = min(poll.wait, MAX_WAIT_S)
        held = Held(instance_id, poll.have, self, until=self._monotonic() + wait_s)
        self._polls.add(instance_id, held)
        self._polls.alarms.set(held, wait_s, early_s=wait_s * EARLY)
        return held.answered

    def over(self, held: Held) -> None:
        """The time of a poll is over; or it has rung, and there may be something to say."""
        self._polls.take_down(held.instance_id, held)
        if held.answered.done():
            return  # whoever waited is gone
        if held.stale:
            looking = asyncio.create_task(self._look_for(held))
            self._looking.add(looking)
            looking.add_done_callback(self._looking.discard)
        else:
            pause_s = self._paces[held.instance_id] = self._pause_s(held.instance_id)
            same = Found(True, held.have, whole=False)
            held.answered.set_result(self._reply(held.instance_id, same, pause_s, has=held.have))

    async def _look_for(self, held: Held) -> None:
        """Answers a poll as any other."""
        try:
            reply = await self.assignment(held.instance_id, held.have, held.until - self._monotonic(), same=True)
        except asyncio.CancelledError:
            held.answered.cancel()
            raise
        except Exception as error:
            if not held.answered.done():
                held.answered.set_exception(error)
        else:
            if not held.answered.done():
                held.answered.set_result(reply)

    async def _polled(self, poll: Poll) -> AssignmentReply:
        instance_id = poll.instance_id
        self._hear(instance_id)
        known = self._known.get(instance_id)
        again = known is not None and self._take(instance_id, known[1], self._samples_of(poll))
        if known is not None and not again:
            return await self.assignment(instance_id, poll.have, poll.wait, same=True)
        reply = await self.assignment(instance_id, poll.have, 0.0, same=True)
        return msgspec.structs.replace(reply, samples_again=again, unheard=known is None)

    async def assignment(self, instance_id: str, have: int, wait_s: float, *, same: bool = False) -> AssignmentReply:
        """Returns the instance's assignment as soon as its version is not `have`, or the current one after `wait_s`. `same`: an
        agent that has that one already need not get it again."""
        deadline = self._monotonic() + min(max(wait_s, 0.0), MAX_WAIT_S)
        while True:
            bell = self._polls.hang(instance_id)
            try:
                self._hearing.hear(instance_id)
                found = self._polls.kept(instance_id, has=have if same else None) or await self._polls.read(instance_id, bell)
                pause_s = self._pause_s(instance_id)
                new = not found.known or found.version != have or pause_s < self._paces.get(instance_id, REPORT_S)
                if new or not await self._change(instance_id, bell, deadline):
                    self._paces[instance_id] = pause_s
                    return self._reply(instance_id, found, pause_s, has=have if same else None)
            finally:
                self._polls.take_down(instance_id, bell)

    def _reply(self, instance_id: str, found: Found, pause_s: float, *, has: int | None) -> AssignmentReply:
        same = has is not None and 0 < has == found.version
        return AssignmentReply(
            server_token=self.proof(instance_id),
            known=found.known,
            assignment=None if same else found.assignment,
            same=same,
            servers=addresses(self._members),
            report_s=pause_s,
        )

    def found(self, tx: Tx, instance_id: str) -> Found:
        """Whether the instance is wanted, and its assignment as it is delivered: with what its row only names."""
        instance = tx.instances.get(instance_id)
        if instance is None or not instance.live:
            return Found(False)
        wanted = instance.assignment and with_scripts(tx, instance.assignment)
        if wanted is not None and self._delivery is not None:
            wanted = self._delivery.deliver(tx, wanted)
        return Found(True, wanted.version if wanted is not None else 0, wanted)

    async def _change(self, instance_id: str, bell: Bell, deadline: float) -> bool:
        """Waits until the instance's row may have changed and must be read again. False: the last read is the answer."""
        now = self._monotonic()
        left = deadline - now
        if left <= 0 or self._leaving:
            return False
        wait_s = left if self._store.alone else min(left, self._polls.look_s(instance_id, now))
        rung = await bell.wait(wait_s, self._polls.alarms)
        return rung or not self._store.alone

    def users(self) -> dict[str, tuple[str, ...]]:
        """Who has execution contexts on the drivers whose agents report to this server, by instance."""
        return {key: report.status.users for key, (report, _) in self._known.items() if report.status.users}

    def _committed(self, changes: Changes) -> None:
        """An instance that is no longer wanted, or was lost, must hear so at its next call, though it may say what it said last:
        its agent may have been cut off, and its node replaced."""
        for instance_id in changes.ended:
            self._known.pop(instance_id, None)
            self._polls.forget(instance_id)
        self._writing -= changes.ended
        self.assignments_changed(changes.instances)

    def assignments_changed(self, instance_ids: Collection[str]) -> None:
        """Answers the long polls of these instances now."""
        self._polls.changed(instance_ids)

    def _look_again(self) -> None:
        """Makes every poll read again: any assignment may have changed, or may be changed by another server from now on."""
        self._polls.all_changed()

    def release(self) -> None:
        """Answers every long poll now, because the server is about to stop and must not be held up."""
        self._leaving = True
        self._look_again()

    async def judge(self, registered: Iterable[str]) -> frozenset[str]:
        """The registered instances whose agents no server has heard from for too long. Raises DatabaseTrouble."""
        return await self._hearing.judge(registered)

    def silent(self) -> frozenset[str]:
        """The result of the last `judge`, if that was recent."""
        return self._hearing.silent()

    async def run_once(self) -> None:
        """Write down for the other servers which agents were heard from."""
        await self._hearing.tell_others(self.forget)

    def forget(self, instance_id: str) -> None:
        """Drops everything about the instance, which is gone."""
        if self._tunnels is not None:
            self._tunnels.forget(instance_id)
        self._hearing.forget(instance_id)
        self._clocks.forget(instance_id)
        self._balance.forget(instance_id)
        self._polls.forget(instance_id)
        self._known.pop(instance_id, None)
        self._paces.pop(instance_id, None)
        self._loads.forget(instance_id)
        self._samples.forget(instance_id)


class _Turn:
    """For the reports of one instance, as long as there are any."""

    __slots__ = ("lock", "wanted")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.wanted = 0


class _Asked:
    """Instances whose agents were asked to report now. `done` is set once all have."""

    def __init__(self, instance_ids: set[str]) -> None:
        self.left = instance_ids
        self.done = asyncio.Event()

    def reported(self, instance_id: str) -> None:
        self.left.discard(instance_id)
        if not self.left:
            self.done.set()
