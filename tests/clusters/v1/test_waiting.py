"""Waits that end before what they wait for, and streams whose caller loses the permission. No loops run here: nothing ends."""

from __future__ import annotations

import asyncio
import threading

import msgspec
import pytest

from brickyard.clusters.v1 import V1ClusterService
from brickyard.clusters.v1.following import STREAMS
from brickyard.domain.access import Grant, ObjectKind, Permission, Place
from brickyard.domain.caller import Caller
from brickyard.domain.cluster import Target
from brickyard.domain.errors import DatabaseAway, QuotaExceeded, ResourceNotFound, StartTimeout, StopTimeout
from brickyard.domain.v1.clusters import (
    CreateV1Cluster,
    PhaseStatus,
    StartV1Cluster,
    StopV1Cluster,
    V1ClusterState,
)
from brickyard.store.store import Store
from brickyard.testing.clock import ManualClock
from tests.support.desk import ADMIN, USER, Desk
from tests.support.golden import Golden
from tests.support.people import enter
from tests.support.world import World

MINUTE_S = 0.005


class Clock(ManualClock):
    """Every read of the service asks it for the time. While `away` is set, the database fails it."""

    def __init__(self) -> None:
        super().__init__()
        self.away = False
        self.met = threading.Event()

    def now_ms(self) -> int:
        if self.away:
            self.met.set()
            raise DatabaseAway("the test says so")
        return super().now_ms()


def service(store: Store, *, clock: Clock | None = None, minute_s: float = MINUTE_S) -> V1ClusterService:
    return World(store).v1_service(clock=clock, minute_s=minute_s)


async def with_token(store: Store, caller: Caller) -> Caller:
    """The caller with a token that is valid."""
    await store.write(lambda tx: enter(tx, ADMIN, USER))
    _, row = await World(store).tokens.create(caller)
    return msgspec.structs.replace(caller, token_id=row.token_id)


async def test_who_has_waited_for_long_enough_is_told_so_and_it_goes_on(store: Store, golden: Golden) -> None:
    v1 = service(store)
    made = await v1.create(ADMIN, CreateV1Cluster(name="abc", auto_start=False))
    wait = StartV1Cluster(cluster_id=made.id, wait_for_ready=True, timeout_minutes=1)
    with golden.refused(StartTimeout) as late:
        await v1.start(ADMIN, wait)
    now = await v1.reads.look(ADMIN, made.id)
    assert now.operation is not None
    assert (now.status, now.operation.status) == (V1ClusterState.STARTING, PhaseStatus.IN_PROGRESS)
    assert late.value.details == {"operation": now.operation.id}
    with pytest.raises(StartTimeout):
        await v1.start(ADMIN, wait)  # the same request: it waits for the same start
    assert (await v1.reads.look(ADMIN, made.id)).operation == now.operation
    with golden.refused(StopTimeout):
        await v1.stop(ADMIN, StopV1Cluster(cluster_id=made.id, wait_for_completion=True))
    assert (await v1.reads.look(ADMIN, made.id)).status is V1ClusterState.STOPPING


async def test_a_cluster_that_was_never_started_has_no_operation(store: Store, golden: Golden) -> None:
    v1 = service(store)
    made = await v1.create(ADMIN, CreateV1Cluster(name="abc", auto_start=False))
    assert made.operation is None
    with golden.refused(ResourceNotFound):
        await v1.reads.operation(ADMIN, made.id, f"stop-{made.id}-1")
    with golden.refused(ResourceNotFound):
        await v1.reads.follow(ADMIN, made.id)


async def test_a_stream_goes_on_when_the_database_was_away(store: Store) -> None:
    clock, desk = Clock(), Desk(store)
    v1 = service(store, clock=clock)
    made = await v1.create(ADMIN, CreateV1Cluster(name="abc"))
    pieces = (await v1.reads.follow(await with_token(store, ADMIN), made.id)).pieces()
    await anext(pieces)
    clock.away, following = True, asyncio.ensure_future(anext(pieces))
    await asyncio.sleep(0)  # it waits for a change now
    await desk.settle(made.id, target=Target.TERMINATED, terminating_ms=1)
    assert await following is None, "no news, and the stream is still open"
    clock.away = False
    await desk.settle(made.id, ended=True, terminated_ms=2)
    seen = [piece async for piece in pieces if piece is not None]
    assert [each.status for each in seen] == [PhaseStatus.COMPLETED]


async def test_a_wait_goes_on_when_the_database_was_away(store: Store) -> None:
    clock, desk = Clock(), Desk(store)
    v1 = service(store, clock=clock, minute_s=60)
    made = await v1.create(ADMIN, CreateV1Cluster(name="abc"))
    stop = StopV1Cluster(cluster_id=made.id, wait_for_completion=True)
    waiting = asyncio.ensure_future(v1.stop(ADMIN, stop))
    while (await desk.row(made.id)).target is not Target.TERMINATED:
        await asyncio.sleep(0)
    clock.away = True
    while not clock.met.is_set():
        await desk.settle(made.id, state_message="changed")  # it looks
    clock.away = False
    await desk.settle(made.id, ended=True, terminated_ms=2)
    assert (await waiting).status is V1ClusterState.STOPPED


async def test_a_user_has_so_many_streams(store: Store) -> None:
    v1 = service(store)
    made = await v1.create(ADMIN, CreateV1Cluster(name="abc"))
    streams = [await v1.reads.follow(ADMIN, made.id) for _ in range(STREAMS.share)]
    with pytest.raises(QuotaExceeded, match=f"{STREAMS.share}"):
        await v1.reads.follow(ADMIN, made.id)
    streams[0].close()
    streams[0].close()  # counts once
    with pytest.raises(ResourceNotFound):  # counts nothing
        await v1.reads.follow(ADMIN, "0101-000000-nowhere0")
    await v1.reads.follow(ADMIN, made.id)
    with pytest.raises(QuotaExceeded):
        await v1.reads.follow(ADMIN, made.id)


async def test_a_stream_ends_when_its_caller_may_not_see_the_cluster_any_more(store: Store) -> None:
    v1, desk = service(store), Desk(store)
    caller = await with_token(store, USER)
    made = await v1.create(ADMIN, CreateV1Cluster(name="abc"))
    place = Place(ObjectKind.CLUSTER, made.id)
    await store.write(lambda tx: tx.grants.put(place, [Grant(USER.user_id, Permission.CAN_ATTACH_TO)]))
    pieces = (await v1.reads.follow(caller, made.id)).pieces()
    assert (await anext(pieces)).status is PhaseStatus.IN_PROGRESS  # type: ignore[union-attr] # the first is an operation
    following = asyncio.ensure_future(anext(pieces, None))
    await asyncio.sleep(0)  # it waits for a change now
    await store.write(lambda tx: tx.grants.put(place, []))
    await desk.settle(made.id, state_message="changed")
    assert await following is None
    assert [piece async for piece in pieces] == []
