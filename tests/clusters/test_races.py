"""Requests that meet: each takes effect once, and none sees a state that another has left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import msgspec

from brickyard.domain.cluster import Target
from brickyard.domain.errors import ApiError, InvalidState
from brickyard.domain.requests import ClusterId, ListClustersFilterBy, ResizeCluster, RestartCluster, StartCluster
from brickyard.plan.changes import MAX_PINNED
from tests.support.databases import both_databases
from tests.support.desk import ADMIN, ASK, USER, Desk

pytestmark = both_databases


async def meet(*calls: Coroutine[Any, Any, Any]) -> list[ApiError]:
    """Make the calls at once; returns the errors. Anything but an ApiError is raised."""
    results = await asyncio.gather(*calls, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException) and not isinstance(result, ApiError):
            raise result
    return [result for result in results if isinstance(result, ApiError)]


async def test_one_of_many_starts_wins(desk: Desk) -> None:
    name = await desk.create()
    await desk.settle(name, target=Target.TERMINATED, ended=True)
    before = (await desk.row(name)).incarnation
    errors = await meet(*(desk.service.start(ADMIN, StartCluster(cluster_id=name)) for _ in range(8)))
    assert len(errors) == 7
    assert all(isinstance(error, InvalidState) for error in errors)
    assert (await desk.row(name)).incarnation == before + 1


async def test_an_idempotency_token_is_its_users(desk: Desk) -> None:
    """Nobody is led to another user's cluster by a token that both have chosen."""

    asked = msgspec.structs.replace(ASK, idempotency_token="nightly")
    theirs, mine, again = [await desk.service.create(caller, asked) for caller in (USER, ADMIN, ADMIN)]
    assert theirs != mine == again


async def test_a_delete_always_holds(desk: Desk) -> None:
    for _ in range(5):
        name = await desk.create()
        await desk.bring_up(name)
        await meet(
            desk.service.restart(ADMIN, RestartCluster(cluster_id=name)),
            desk.service.delete(ADMIN, ClusterId(cluster_id=name)),
            desk.service.resize(ADMIN, ResizeCluster(cluster_id=name, num_workers=5)),
            desk.service.delete(ADMIN, ClusterId(cluster_id=name)),
        )
        assert (await desk.get(name))["state"] == "TERMINATING"


async def test_pins_that_meet_stay_within_the_limit(desk: Desk) -> None:
    names = [await desk.create() for _ in range(MAX_PINNED + 4)]
    for name in names[: MAX_PINNED - 1]:
        await desk.service.pin(ADMIN, ClusterId(cluster_id=name))
    errors = await meet(*(desk.service.pin(ADMIN, ClusterId(cluster_id=name)) for name in names[MAX_PINNED - 1 :]))
    assert len(errors) == 4
    pinned = await desk.list(filter_by=ListClustersFilterBy(is_pinned=True), page_size=100)
    assert len(pinned["clusters"]) == MAX_PINNED
