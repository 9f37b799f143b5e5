"""What agents are told: at once when it changes, and from memory while it does not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar

import msgspec
import pytest

from brickyard.domain.instances import InstanceState
from brickyard.domain.node import Assignment, AssignmentReply, NodeStatus, Phase, Poll, Role, ServerAddress, StatusReport
from brickyard.nodes.polls import ANSWER_S, LOOK_S, Alarms, Bell
from brickyard.nodes.sessions import MAX_WAIT_S, AgentService
from brickyard.store.servers import About, Server
from brickyard.store.store import Store
from brickyard.store.tx import Tx
from brickyard.testing.builders import cluster, instance
from tests.support.members import SetMembers
from tests.support.patience import PATIENCE_S, until
from tests.support.world import agent_service

T = TypeVar("T")
DRIVER = instance(cluster(), role=Role.DRIVER)
ID = DRIVER.instance_id


class CountingStore(Store):
    """A store that knows how often it was read."""

    reads = 0
    told_now: Callable[[], bool] | None = None
    then: Callable[[], Awaitable[None]] | None = None  # after a write, before who has written goes on

    @property
    def told(self) -> bool:
        return super().told if self.told_now is None else self.told_now()

    async def read(self, work: Callable[[Tx], T], *, background: bool = False) -> T:
        self.reads += 1
        return await super().read(work, background=background)

    async def write(self, work: Callable[[Tx], T], *, background: bool = False, inserts: bool = False) -> T:
        found = await super().write(work, background=background, inserts=inserts)
        if self.then is not None:
            await self.then()
        return found


@pytest.fixture
def counting(store_url: str) -> Iterator[CountingStore]:
    """With one driver on record."""
    store = CountingStore.open(store_url)
    assert isinstance(store, CountingStore)
    until(lambda: store.told, "it does not hear of changes")  # then nothing that is remembered is forgotten for it
    store.write_sync(lambda tx: tx.clusters.insert(cluster()))
    store.write_sync(lambda tx: tx.instances.insert(DRIVER))
    yield store
    store.close()


def service(store: Store, monotonic: Callable[[], float], **settings: Any) -> AgentService:
    return agent_service(store, monotonic=monotonic, **settings)


def version() -> int:
    assert DRIVER.assignment is not None
    return DRIVER.assignment.version


def change(store: Store) -> None:
    """Give the driver another assignment."""
    assert DRIVER.assignment is not None
    newer = msgspec.structs.replace(DRIVER.assignment, version=version() + 1)
    store.write_sync(lambda tx: tx.instances.update(msgspec.structs.replace(DRIVER, assignment=newer)))


async def test_a_waiting_agent_hears_of_a_change_at_once(counting: CountingStore) -> None:
    agents = service(counting, asyncio.get_running_loop().time)
    first = await agents.assignment(ID, 0, 20)
    assert first.known
    assert first.assignment == DRIVER.assignment
    waiting = asyncio.create_task(agents.assignment(ID, version(), 20))
    await asyncio.sleep(0)  # it waits now, on what the first answer left in memory or on a read of its own
    await asyncio.to_thread(change, counting)
    reply = await asyncio.wait_for(waiting, PATIENCE_S)
    assert reply.assignment is not None
    assert reply.assignment.version == version() + 1


async def test_an_agent_that_waits_for_nothing_is_answered_from_memory(counting: CountingStore) -> None:
    """With several servers only while it hears of the others' changes, and not for long."""
    told = [True]
    counting.told_now = lambda: told[0]
    now = [0.0]

    agents = service(counting, lambda: now[0])
    for _ in range(5):
        assert (await agents.assignment(ID, version(), 0)).assignment == DRIVER.assignment
    assert counting.reads == 1
    now[0] += ANSWER_S if counting.alone else LOOK_S
    await agents.assignment(ID, version(), 0)
    assert counting.reads == 2
    agents.assignments_changed([ID])
    await agents.assignment(ID, version(), 0)
    assert counting.reads == 3
    told[0] = False
    await agents.assignment(ID, version(), 0)
    assert counting.reads == 4


async def test_an_agent_is_not_sent_again_what_it_has(counting: CountingStore) -> None:
    agents = service(counting, asyncio.get_running_loop().time)
    first = await agents.assignment(ID, 0, 0, same=True)
    assert (first.same, first.assignment) == (False, DRIVER.assignment)
    for _ in range(2):
        again = await agents.assignment(ID, version(), 0, same=True)
        assert (again.known, again.same, again.assignment) == (True, True, None)
    assert counting.reads == 1
    anew = await agents.assignment(ID, 0, 0, same=True)
    assert (anew.same, anew.assignment) == (False, DRIVER.assignment), "another process of the agent has nothing"
    older = await agents.assignment(ID, version(), 0)
    assert (older.same, older.assignment) == (False, DRIVER.assignment), "one of an earlier version does not ask for that"
    await asyncio.to_thread(change, counting)
    newer = await agents.assignment(ID, version(), 0, same=True)
    assert newer.assignment is not None and newer.assignment.version == version() + 1


async def test_agents_that_ask_together_share_a_read(counting: CountingStore) -> None:
    agents = service(counting, asyncio.get_running_loop().time)
    others = [f"i-other-{number}" for number in range(3)]
    asked = [asyncio.create_task(agents.assignment(name, 0, 0)) for name in (ID, *others)]
    replies = await asyncio.gather(*asked)
    assert [each.known for each in replies] == [True, False, False, False]
    assert counting.reads == 1


async def test_an_error_of_one_row_keeps_no_other_from_its_agent(counting: CountingStore) -> None:
    broken = instance(cluster(), role=Role.WORKER)
    counting.write_sync(lambda tx: tx.instances.insert(broken))

    class Undeliverable:
        def deliver(self, tx: Tx, assignment: Assignment) -> Assignment:
            if assignment.role is Role.WORKER:
                raise ValueError("it cannot be delivered")
            return assignment

    agents = service(counting, asyncio.get_running_loop().time, delivery=Undeliverable())
    asked = (agents.assignment(name, 0, 0) for name in (broken.instance_id, ID))
    failed, reply = await asyncio.gather(*asked, return_exceptions=True)
    assert isinstance(failed, ValueError)
    assert isinstance(reply, AssignmentReply) and reply.assignment == DRIVER.assignment


async def test_nobody_waits_for_a_read_that_is_cut_off(counting: CountingStore) -> None:
    """The server ends while it reads."""

    agents = service(counting, asyncio.get_running_loop().time)
    read = counting.read

    async def cut_off(work: Callable[[Tx], T], *, background: bool = False) -> T:
        raise asyncio.CancelledError

    counting.read = cut_off  # type: ignore[method-assign] # the store is being closed
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(agents.assignment(ID, 0, 0), PATIENCE_S)
    counting.read = read  # type: ignore[method-assign] # as before
    assert (await agents.assignment(ID, 0, 0)).known


async def test_a_new_agent_is_answered_from_its_report(counting: CountingStore) -> None:
    agents = service(counting, asyncio.get_running_loop().time)
    await agents.report(report(0, Phase.IDLE))
    if counting.told:
        assert (await agents.assignment(ID, 0, 0)).assignment == DRIVER.assignment
        assert counting.reads == 0


async def test_an_assignment_that_changes_while_a_report_is_written_is_told(counting: CountingStore) -> None:
    agents = service(counting, asyncio.get_running_loop().time)

    async def then() -> None:
        """Another commit, between that of the report and its answer."""
        counting.then = None
        await asyncio.to_thread(change, counting)
        await asyncio.sleep(0)  # the store has told of it

    counting.then = then
    await agents.report(report(0, Phase.IDLE))
    reply = await agents.assignment(ID, 0, 0)
    assert reply.assignment is not None and reply.assignment.version == version() + 1


async def test_an_instance_that_ends_during_the_read_is_unknown_at_the_next_call(counting: CountingStore) -> None:
    agents = service(counting, asyncio.get_running_loop().time)
    lost = msgspec.structs.replace(DRIVER, state=InstanceState.TERMINATING, lost="its agent has stopped answering")
    read = counting.read

    async def slow(work: Callable[[Tx], T], *, background: bool = False) -> T:
        found = await read(work, background=background)
        if counting.reads == 1:
            await counting.write(lambda tx: tx.instances.update(lost))
        return found

    counting.read = slow  # type: ignore[method-assign] # the one read in which something happens
    assert (await agents.assignment(ID, 0, 0)).known
    assert not (await agents.assignment(ID, 0, 0)).known


async def test_another_servers_change_reaches_an_agent_that_is_answered_from_memory(
    counting: CountingStore, store_url: str
) -> None:
    if counting.alone:
        pytest.skip("SQLite has one server")
    until(lambda: counting.told, "it hears of other servers' changes")
    other = Store.open(store_url)

    agents = service(counting, asyncio.get_running_loop().time)
    await agents.assignment(ID, 0, 20)
    waiting = asyncio.create_task(agents.assignment(ID, version(), MAX_WAIT_S))
    await asyncio.sleep(0)
    await asyncio.to_thread(change, other)
    reply = await asyncio.wait_for(waiting, LOOK_S)
    assert reply.assignment is not None
    assert reply.assignment.version == version() + 1
    other.close()


async def test_an_agent_that_only_calls_another_server_makes_nobody_look(counting: CountingStore) -> None:
    woken: list[str] = []
    first, second = (service(counting, asyncio.get_running_loop().time, wake=woken.append) for _ in range(2))
    await first.report(report(0, Phase.PREPARING))
    await second.report(report(1, Phase.PREPARING))
    assert woken == [DRIVER.cluster_id]
    await second.report(report(1, Phase.STARTING))
    assert woken == [DRIVER.cluster_id] * 2


async def test_a_change_during_the_read_is_not_kept_from_the_agent(counting: CountingStore) -> None:
    """The row changes after it was read and before the answer is kept: the old answer must not be given again."""

    agents = service(counting, asyncio.get_running_loop().time)
    read = counting.read

    async def slow(work: Callable[[Tx], T], *, background: bool = False) -> T:
        found = await read(work, background=background)
        if counting.reads == 1:
            await asyncio.to_thread(change, counting)
        return found

    counting.read = slow  # type: ignore[method-assign] # the one read in which something happens
    await agents.assignment(ID, 0, 0)
    later = await agents.assignment(ID, 0, 0)
    assert later.assignment is not None
    assert later.assignment.version == version() + 1


async def test_a_released_instance_is_unknown_and_never_from_memory(counting: CountingStore) -> None:
    agents = service(counting, asyncio.get_running_loop().time)
    gone = msgspec.structs.replace(DRIVER, state=InstanceState.TERMINATING)
    await counting.write(lambda tx: tx.instances.update(gone))
    for _ in range(2):
        reply = await agents.assignment(ID, version(), 20)
        assert (reply.known, reply.assignment) == (False, None)


def report(moves: int, phase: Phase, **changes: object) -> StatusReport:
    status = NodeStatus(phase=phase, generation=DRIVER.generation, assignment_version=version())
    said = StatusReport(instance_id=ID, boot_id="boot", endpoint="http://127.0.0.1:9", pid=7, status=status, moves=moves)
    return msgspec.structs.replace(said, **changes)


def recorded(store: Store) -> Phase:
    found = store.read_sync(lambda tx: tx.instances.get(ID))
    assert found is not None
    return found.status.phase


@pytest.mark.parametrize("state", [InstanceState.TERMINATING, InstanceState.GONE])
async def test_an_agent_that_says_what_it_said_last_hears_that_its_instance_is_lost(
    counting: CountingStore, store_url: str, state: InstanceState
) -> None:
    """It was cut off for a while. Its status is the same as before, so that its server would not look, nor would another one that
    had heard from it."""

    agents = service(counting, asyncio.get_running_loop().time)
    assert (await agents.report(report(0, Phase.READY))).known
    assert (await agents.assignment(ID, 0, 0)).known
    lost = msgspec.structs.replace(DRIVER, state=state, lost="its agent has stopped answering")
    await counting.write(lambda tx: tx.instances.update(lost))
    assert not (await agents.report(report(0, Phase.READY))).known
    assert not (await agents.assignment(ID, version(), 20)).known
    assert not (await agents.report(report(0, Phase.READY))).known
    found = await counting.read(lambda tx: tx.instances.get(ID))
    assert found is not None and found.state is state, "it is not adopted again"


async def test_an_instance_that_ends_while_its_report_is_written_hears_so_at_its_next_report(counting: CountingStore) -> None:
    agents = service(counting, asyncio.get_running_loop().time)
    lost = msgspec.structs.replace(DRIVER, state=InstanceState.TERMINATING, lost="its agent has stopped answering")

    async def then() -> None:
        """Another commit, between that of the report and its answer."""
        counting.then = None
        await counting.write(lambda tx: tx.instances.update(lost))

    counting.then = then
    assert (await agents.report(report(0, Phase.READY))).known
    assert not (await agents.report(report(0, Phase.READY))).known


async def test_every_answer_names_all_servers(counting: CountingStore) -> None:
    servers = (ServerAddress(url="http://127.0.0.1:1", file="/one.json"), ServerAddress(url="http://127.0.0.1:2"))

    living = [Server(number=number, about=About(address=each), started_ms=0) for number, each in enumerate(servers)]
    agents = service(counting, asyncio.get_running_loop().time, members=SetMembers(living=living))
    assert (await agents.report(report(0, Phase.PREPARING))).servers == servers
    assert (await agents.assignment(ID, 0, 0)).servers == servers


async def test_what_an_agent_says_is_recorded_though_it_goes_from_server_to_server(counting: CountingStore) -> None:
    first, second = (service(counting, asyncio.get_running_loop().time) for _ in range(2))
    assert (await first.report(report(0, Phase.PREPARING))).known
    assert (await second.report(report(1, Phase.STARTING))).known
    assert recorded(counting) is Phase.STARTING
    # The first server has heard this very status before, and what is on record is another one's.
    assert (await first.report(report(2, Phase.PREPARING))).known
    assert recorded(counting) is Phase.PREPARING


async def test_a_report_that_a_hung_server_had_in_hand_does_not_win_over_a_newer_one(counting: CountingStore) -> None:
    hung, other = (service(counting, asyncio.get_running_loop().time) for _ in range(2))
    await hung.report(report(0, Phase.PREPARING))
    await other.report(report(1, Phase.READY))
    assert (await hung.report(report(0, Phase.STARTING))).known
    assert recorded(counting) is Phase.READY
    await other.report(report(0, Phase.PREPARING, boot_id="the next process"))  # it counts from the beginning
    assert recorded(counting) is Phase.PREPARING


async def test_a_poll_that_is_held_is_answered_once_there_is_something_to_say(counting: CountingStore) -> None:
    """By a change, a loss, and the server's end; two of one agent, both."""

    agents = service(counting, asyncio.get_running_loop().time)
    await agents.report(report(0, Phase.READY))
    assert (await agents.poll(Poll(instance_id=ID))).assignment == DRIVER.assignment
    has = Poll(instance_id=ID, have=version(), wait=MAX_WAIT_S)
    two = [asyncio.ensure_future(agents.poll(has)) for _ in range(2)]
    await asyncio.sleep(0)
    assert not any(each.done() for each in two)
    await asyncio.to_thread(change, counting)
    for reply in await asyncio.wait_for(asyncio.gather(*two), PATIENCE_S):
        assert reply.assignment is not None and reply.assignment.version == version() + 1

    leaving = asyncio.ensure_future(agents.poll(Poll(instance_id=ID, have=version() + 1, wait=MAX_WAIT_S)))
    await asyncio.sleep(0)
    agents.release()
    assert (await asyncio.wait_for(leaving, PATIENCE_S)).same

    other = service(counting, asyncio.get_running_loop().time)
    await other.report(report(0, Phase.READY))
    waits = asyncio.ensure_future(other.poll(Poll(instance_id=ID, have=version() + 1, wait=MAX_WAIT_S)))
    await asyncio.sleep(0)
    lost = msgspec.structs.replace(DRIVER, state=InstanceState.TERMINATING, lost="its agent has stopped answering")
    await counting.write(lambda tx: tx.instances.update(lost))
    assert not (await asyncio.wait_for(waits, PATIENCE_S)).known


async def test_a_poll_that_is_held_is_answered_when_its_time_is_over(counting: CountingStore) -> None:
    agents = service(counting, asyncio.get_running_loop().time)
    await agents.report(report(0, Phase.READY))
    await agents.poll(Poll(instance_id=ID, have=version()))
    polls = [Poll(instance_id=ID, have=version(), wait=wait_s) for wait_s in (0.1, 0.3, 0.5)]
    held = [asyncio.ensure_future(agents.poll(each)) for each in polls]
    await asyncio.sleep(0)
    held.pop().cancel()  # its agent has gone
    reads = counting.reads
    for reply in await asyncio.wait_for(asyncio.gather(*held), PATIENCE_S):
        assert (reply.known, reply.same, reply.assignment) == (True, True, None)
    if counting.alone:
        assert counting.reads == reads
    while agents._polls._bells:
        await asyncio.sleep(0.01)


async def test_polls_that_begin_together_do_not_end_together() -> None:
    alarms, bells = Alarms(), [Bell() for _ in range(400)]
    for bell in bells:
        alarms.set(bell, 40.0, early_s=8.0)
    assert sorted(len(due) for due in alarms._due.values())[-1] < 40
    assert len(alarms._due) > 20
