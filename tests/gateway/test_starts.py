"""A call to a stopped cluster starts it: once, for those who may, and for no call that ends something."""

from __future__ import annotations

import asyncio
from pathlib import Path

import grpc.aio
import msgspec
import pytest

from brickyard.domain.access import Grant, ObjectKind, Permission, Place
from brickyard.domain.audit import CONNECT_STARTED
from brickyard.domain.caller import Caller
from brickyard.domain.cluster import Target
from brickyard.domain.identity import USERS_ID
from brickyard.domain.requests import StartCluster
from brickyard.gateway.requests import FINISHING
from brickyard.testing.builders import cluster, up
from tests.gateway.test_connect import STOPPED, refusal
from tests.gateway.world import CLUSTER_ID, World, call, credentials, world
from tests.support.patience import PATIENCE_S

ME = "me@example.com"
BEFORE = msgspec.structs.replace(STOPPED, incarnation=0)  # the driver of the first start is there already


async def grants(w: World, permission: Permission) -> None:
    place = Place(ObjectKind.CLUSTER, CLUSTER_ID)
    await w.store.write(lambda tx: tx.grants.put(place, [Grant(USERS_ID, permission)]))


class Starts:
    """Starts as the service does, and what becomes of them."""

    def __init__(self, w: World, *, fails: bool = False) -> None:
        self._world, self._fails = w, fails
        self.count = 0
        w.attach._start = self

    async def __call__(self, caller: Caller, request: StartCluster) -> None:
        await self._world.clusters.start(caller, request)
        self.count += 1
        self._ending = asyncio.create_task(self._end())

    async def _end(self) -> None:
        await asyncio.sleep(0.1)
        now = (await self._world.row(CLUSTER_ID)).incarnation
        if self._fails:
            await self._world.settle(CLUSTER_ID, target=Target.TERMINATED, ended=True, state_message="no machine is free")
        else:
            await self._world.settle(CLUSTER_ID, ready_incarnation=now)


async def test_many_callers_start_it_once(tmp_path: Path) -> None:
    async with world(tmp_path, may_start=True, patience_s=PATIENCE_S) as w, w.channel() as channel:
        await w.set(up(cluster()))
        await w.set(BEFORE)
        starts = Starts(w)
        given = credentials(await w.token(ME))
        assert set(await asyncio.gather(*(call(channel, "Config", **given) for _ in range(20)))) == {b"hello"}
        assert starts.count == 1
        assert [each for each in w.noted if each[0] == CONNECT_STARTED] == [(CONNECT_STARTED, ME, {"cluster_id": CLUSTER_ID})]


async def test_a_start_that_fails_is_not_repeated(tmp_path: Path) -> None:
    """Neither by the caller whose start it is, nor by those who wait with it; the next call is another attempt."""
    async with world(tmp_path, may_start=True, patience_s=PATIENCE_S) as w, w.channel() as channel:
        await w.set(up(cluster()))
        await w.set(BEFORE)
        starts = Starts(w, fails=True)
        given = credentials(await w.token(ME))
        for attempt in (1, 2):
            found = await asyncio.gather(*(refusal(call(channel, "Config", **given)) for _ in range(10)))
            assert {code for code, _ in found} == {"FAILED_PRECONDITION"}
            assert all("no machine is free" in message for _, message in found)
            assert starts.count == attempt


@pytest.mark.parametrize("method", sorted(name.rpartition("/")[2] for name in FINISHING))
async def test_a_call_that_ends_something_starts_nothing(tmp_path: Path, method: str) -> None:
    """A program that ends says goodbye to its session, long after its cluster has ended."""
    async with world(tmp_path, may_start=True, patience_s=PATIENCE_S) as w, w.channel() as channel:
        await w.set(up(cluster()))
        await w.set(BEFORE)
        starts = Starts(w)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call(channel, method, **credentials(await w.token(ME)))
        assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert starts.count == 0


@pytest.mark.parametrize(
    ("permission", "status"),
    [
        (Permission.CAN_ATTACH_TO, "PERMISSION_DENIED"),
        (Permission.CAN_RESTART, "UNAVAILABLE"),
        (Permission.CAN_MANAGE, "UNAVAILABLE"),
    ],
)
async def test_to_attach_is_not_to_start(tmp_path: Path, permission: Permission, status: str) -> None:
    """UNAVAILABLE: it starts, and the caller asks again."""
    async with world(tmp_path, may_start=True, patience_s=0.2) as w, w.channel() as channel:
        await w.set(up(cluster()))
        await w.set(BEFORE)
        await grants(w, permission)
        w.attach._start = w.clusters.start
        code, message = await refusal(call(channel, "Config", **credentials(await w.token(ME))))
        assert code == status, message
        assert ((await w.row(CLUSTER_ID)).target is Target.RUNNING) == (status == "UNAVAILABLE")
        assert ("CAN_RESTART" in message) == (status == "PERMISSION_DENIED")
