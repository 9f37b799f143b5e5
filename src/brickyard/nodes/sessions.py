"""What agents call: reports of nodes, and the assignments that they wait for.

The database is written when a node's status changes. That an agent was heard of is kept by `hearing.py`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable

import msgspec

from brickyard.domain.clock import Clock
from brickyard.domain.cluster import Instance
from brickyard.domain.errors import DatabaseAway
from brickyard.domain.instances import InstanceState
from brickyard.domain.node import AssignmentReply, NodeStatus, Phase, ServerAddress, StatusReply, StatusReport
from brickyard.nodes.hearing import Hearing
from brickyard.nodes.loads import Loads
from brickyard.nodes.tokens import InstanceTokens
from brickyard.store.store import Store
from brickyard.store.tx import Tx

MAX_WAIT_S = 30.0
LOOK_S, LOOK_UNTOLD_S = 10.0, 1.0  # between two looks for what other servers changed, where they tell it and where they do not
ANSWER_S = 60.0  # an answer that nothing has changed is given again for so long
_TEXT_LIMIT = 8_000
_NOTHING = NodeStatus()


class AgentService:
    """One per server. `wake` is told of every cluster and pool whose instances have changed. `servers`: all of the workspace."""

    def __init__(
        self,
        *,
        store: Store,
        clock: Clock,
        tokens: InstanceTokens,
        wake: Callable[[str], None],
        silence_s: float,
        loads: Loads,
        servers: Callable[[], tuple[ServerAddress, ...]] = tuple,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._clock = clock
        self._tokens = tokens
        self._wake = wake
        self._loads = loads
        self._servers = servers
        self._monotonic = monotonic
        self._hearing = Hearing(store=store, loads=loads, silence_s=silence_s, monotonic=monotonic)
        self._known: dict[str, tuple[StatusReport, str | None]] = {}  # the last report that was written, and its cluster
        self._waiters: dict[str, set[asyncio.Event]] = {}
        self._answers: dict[str, tuple[AssignmentReply, float]] = {}  # the last one, and until when it may be given again
        self._turns: dict[str, asyncio.Lock] = {}
        self._leaving = False
        store.on_commit(lambda changes: self.assignments_changed(changes.instances))
        store.on_gap(self._look_again)

    def authenticate(self, instance_id: str, bearer: str) -> bool:
        """Whether the bearer token is that instance's own."""
        return self._tokens.is_agent(instance_id, bearer)

    def proof(self, instance_id: str) -> str:
        """The token by which that instance's agent knows its own server."""
        return self._tokens.server_token(instance_id)

    async def report(self, report: StatusReport) -> StatusReply:
        """Take an agent's report. A repeated one is a heartbeat and costs no write."""
        # One at a time an instance, in the order of arrival: writers run side by side, and an older status must not win.
        async with self._turns.setdefault(report.instance_id, asyncio.Lock()):
            return await self._report(report)

    async def _report(self, report: StatusReport) -> StatusReply:
        instance_id = report.instance_id
        if self._hearing.behind:  # other servers take the agent for silent: it must turn to one of them
            raise DatabaseAway("what agents say cannot be recorded")
        self._hearing.hear(instance_id)
        busier = self._loads.hear(instance_id, report.status.generation, report.status.load)
        report = msgspec.structs.replace(report, status=_bounded(report.status))
        last = self._known.get(instance_id)
        if last is None or last[0] != report:
            now = self._clock.now_ms()
            owner_id = await self._store.write(lambda tx: record_report(tx, report, now=now), background=True)
            self._known[instance_id] = (report, owner_id)
            if owner_id:
                self._wake(owner_id)
        elif busier and last[1] and self._loads.follows(last[1]):
            self._wake(last[1])
        known = self._known[instance_id][1] is not None
        return StatusReply(server_token=self.proof(instance_id), known=known, servers=self._servers())

    async def assignment(self, instance_id: str, have: int, wait_s: float) -> AssignmentReply:
        """The instance's assignment, as soon as its version is not `have`, or after `wait_s` as it is."""
        deadline = self._monotonic() + min(max(wait_s, 0.0), MAX_WAIT_S)
        changed = asyncio.Event()
        self._waiters.setdefault(instance_id, set()).add(changed)
        try:
            while True:
                # Cleared before the read: a change after the read sets it again, so none is missed.
                changed.clear()
                self._hearing.hear(instance_id)
                reply = self._answered(instance_id) or await self._read(instance_id, changed)
                if not reply.known or _version(reply) != have or not await self._change(changed, deadline):
                    return reply
        finally:
            waiters = self._waiters.get(instance_id, set())
            waiters.discard(changed)
            if not waiters:
                self._waiters.pop(instance_id, None)

    def _answered(self, instance_id: str) -> AssignmentReply | None:
        """The last answer, while it is surely true: an agent that waits for nothing costs a read a minute."""
        reply, until = self._answers.get(instance_id, (None, 0.0))
        return reply if self._monotonic() < until and self._store.alone else None

    async def _read(self, instance_id: str, changed: asyncio.Event) -> AssignmentReply:
        instance = await self._store.read(lambda tx: tx.instances.get(instance_id), background=True)
        known = instance is not None and instance.live
        assignment = instance.assignment if instance is not None and known else None
        reply = AssignmentReply(server_token=self.proof(instance_id), known=known, assignment=assignment, servers=self._servers())
        if known and self._store.alone and not changed.is_set():
            self._answers[instance_id] = (reply, self._monotonic() + ANSWER_S)
        return reply

    async def _change(self, changed: asyncio.Event, deadline: float) -> bool:
        """Wait until the instance's row may be another one: look again. False: what was read is the answer."""
        left = deadline - self._monotonic()
        if left <= 0 or self._leaving:
            return False
        try:
            # What another server changes is told by the change feed, which can fail: look again now and then.
            # (Not wait_for, which makes a task: thousands of agents wait here.)
            look_s = left if self._store.alone else LOOK_S if self._store.told else LOOK_UNTOLD_S
            async with asyncio.timeout(min(left, look_s)):
                await changed.wait()
        except TimeoutError:
            return not self._store.alone
        return True

    def assignments_changed(self, instance_ids: Iterable[str]) -> None:
        """Answer the long polls of these instances now."""
        for instance_id in instance_ids:
            self._answers.pop(instance_id, None)
            for waiter in self._waiters.get(instance_id, ()):
                waiter.set()

    def _look_again(self) -> None:
        """Any assignment may be another one, or may be changed by another server from now on."""
        self._answers.clear()
        self.assignments_changed(list(self._waiters))

    def release(self) -> None:
        """The server is about to end: answer every long poll now, so that none holds it up."""
        self._leaving = True
        self.assignments_changed(list(self._waiters))

    async def judge(self, registered: Iterable[str]) -> frozenset[str]:
        """Those of the registered instances whose agents have said nothing to any server for too long. Raises DatabaseTrouble."""
        return await self._hearing.judge(registered)

    def silent(self) -> frozenset[str]:
        """What `judge` found last, if that was lately."""
        return self._hearing.silent()

    async def run(self) -> None:
        """Tell the other servers who is heard of, until cancelled."""
        await self._hearing.run(self.forget)

    def forget(self, instance_id: str) -> None:
        """The instance is gone: keep nothing of it."""
        self._hearing.forget(instance_id)
        self._answers.pop(instance_id, None)
        self._known.pop(instance_id, None)
        self._loads.forget(instance_id)
        self._turns.pop(instance_id, None)


def record_report(tx: Tx, report: StatusReport, *, now: int) -> str | None:
    """Write what an agent reports; returns the cluster or pool that must look at it ("": none must), or None when the instance is
    not (or no longer) wanted.

    Whoever has it is locked first, as everywhere: two writers of one cluster take turns instead of meeting in a deadlock.
    """
    instance = tx.lock_owner(report.instance_id)
    if instance is None or not instance.live:
        return None
    if instance.boot_id == report.boot_id and report.moves < instance.moves:
        return ""  # a server that hung had it in hand, while the agent told another one what is so now
    status = report.status
    if instance.boot_id and instance.boot_id != report.boot_id and status.generation < instance.status.generation:
        # A new agent process took over the instance and has nothing of the old one's node: that node is lost.
        moved = _lost(instance)
    else:
        moved = instance
    tx.instances.update(
        msgspec.structs.replace(
            moved,
            state=InstanceState.REGISTERED if moved.live else moved.state,
            registered_ms=instance.registered_ms or now,
            endpoint=report.endpoint,
            boot_id=report.boot_id,
            moves=report.moves,
            pid=report.pid,
            status=status,
        )
    )
    settled = instance.registered_ms and not status.warm_error and not instance.status.warm_error
    if not instance.cluster_id and settled and status.phase is not Phase.FAILED:
        return ""  # a pool has nothing to decide about an idle instance that gets on
    tx.wake_owner(instance)
    return instance.owner_id


def _lost(instance: Instance) -> Instance:
    return msgspec.structs.replace(instance, state=InstanceState.TERMINATING, lost="its agent ended unexpectedly")


def _bounded(status: NodeStatus) -> NodeStatus:
    """Agents are trusted to speak, not to be brief: what goes into a row has a limit, and loads do not go there at all."""
    status = msgspec.structs.replace(status, load=None)
    failure = status.failure
    if failure is not None:
        failure = msgspec.structs.replace(
            failure, message=failure.message[:_TEXT_LIMIT], log_tail=failure.log_tail[-_TEXT_LIMIT:]
        )
    if status.phase is Phase.IDLE and status == _NOTHING:
        return status
    return msgspec.structs.replace(status, message=status.message[:_TEXT_LIMIT], failure=failure)


def _version(reply: AssignmentReply) -> int:
    return reply.assignment.version if reply.assignment else 0
