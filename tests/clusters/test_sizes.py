"""The size of a cluster: a number of workers, or a range within which it follows its load."""

from __future__ import annotations

import asyncio

import pytest

from brickyard.domain.errors import InvalidParameterValue, InvalidState
from brickyard.domain.requests import (
    ClusterId,
    EditCluster,
    GetEvents,
    ResizeCluster,
    RestartCluster,
    StartCluster,
    UpdateCluster,
)
from brickyard.domain.spec import AutoScale, ClusterSpec
from tests.support.desk import ADMIN, RUNTIME, Desk, refused
from tests.support.golden import Golden

RANGE = AutoScale(min_workers=2, max_workers=8)


def resize(name: str, workers: int | None = None, **scale: int) -> ResizeCluster:
    return ResizeCluster(cluster_id=name, num_workers=workers, autoscale=AutoScale(**scale) if scale else None)


async def test_a_range_is_shown_instead_of_a_number(desk: Desk) -> None:
    name = await desk.create(num_workers=None, autoscale=RANGE)
    view = await desk.get(name)
    assert view["autoscale"] == {"min_workers": 2, "max_workers": 8}
    assert "num_workers" not in view, "who sends what he got must not be told that both are given"
    assert (await desk.row(name)).num_workers == 2
    event = ((await desk.service.events(ADMIN, GetEvents(cluster_id=name))).events or [])[0]
    assert event.details.cluster_size is not None
    assert event.details.cluster_size.autoscale == RANGE


async def test_every_start_begins_with_the_least(desk: Desk) -> None:
    name = await desk.create(num_workers=None, autoscale=RANGE)
    await desk.bring_up(name)
    await desk.settle(name, target_workers=7)
    assert (await desk.row(name)).num_workers == 7
    await desk.service.restart(ADMIN, RestartCluster(cluster_id=name))
    assert (await desk.row(name)).num_workers == 2
    await desk.settle(name, target_workers=7)
    await desk.service.delete(ADMIN, ClusterId(cluster_id=name))
    await desk.settle(name, ended=True)
    await desk.service.start(ADMIN, StartCluster(cluster_id=name))
    assert (await desk.row(name)).num_workers == 2


@pytest.mark.parametrize(("before", "after"), [(6, 6), (12, 10), (3, 5)])
async def test_a_fixed_cluster_that_gets_a_range_is_moved_into_it(desk: Desk, before: int, after: int) -> None:
    name = await desk.create(num_workers=before)
    await desk.bring_up(name)
    await desk.service.resize(ADMIN, resize(name, min_workers=5, max_workers=10))
    row = await desk.row(name)
    assert (row.num_workers, row.spec.num_workers) == (after, None)
    assert row.request.autoscale == AutoScale(min_workers=5, max_workers=10)
    assert (await desk.get(name))["state"] == ("RUNNING" if before == after else "RESIZING")
    kinds = [event.type for event in (await desk.service.events(ADMIN, GetEvents(cluster_id=name))).events or []]
    assert ("RESIZING" in kinds) == (before != after)
    await desk.settle(name, sized=True)
    await desk.service.resize(ADMIN, resize(name, 4))
    row = await desk.row(name)
    assert (row.num_workers, row.spec.autoscale) == (4, None)


async def test_resizes_that_cannot_be(desk: Desk, golden: Golden) -> None:
    name = await desk.create()
    message = await refused(InvalidState, desk.service.resize(ADMIN, resize(name, 3)))
    golden(message, name, "Pending")
    await desk.bring_up(name)
    cases = [
        (resize(name), "size"),
        (resize(name, 3, min_workers=1, max_workers=2), "autoscale"),
        (resize(name, min_workers=0, max_workers=2), "autoscale.min_workers"),
        (resize(name, min_workers=2, max_workers=2), "autoscale.max_workers"),
        (resize(name, max_workers=2), "autoscale.min_workers"),
        (resize(name, 0), "NumWorkers"),
    ]
    for request, field in cases:
        golden(await refused(InvalidParameterValue, desk.service.resize(ADMIN, request)), field)
    assert (await desk.get(name))["state"] == "RUNNING"
    single = await desk.create(
        num_workers=None, spark_conf={"spark.databricks.cluster.profile": "singleNode", "spark.master": "local[*]"}
    )
    await desk.bring_up(single)
    message = await refused(InvalidParameterValue, desk.service.resize(ADMIN, resize(single, min_workers=1, max_workers=2)))
    assert "SingleNode" in message


async def test_two_resizes_at_once_leave_one_of_them(desk: Desk) -> None:
    name = await desk.create()
    await desk.bring_up(name)
    both = [
        desk.service.resize(ADMIN, resize(name, 5)),
        desk.service.resize(ADMIN, resize(name, min_workers=3, max_workers=6)),
    ]
    outcomes = await asyncio.gather(*both, return_exceptions=True)
    assert sum(isinstance(outcome, InvalidState) for outcome in outcomes) == 1
    assert (await desk.row(name)).num_workers in (3, 5)


async def test_edit_and_update_change_the_kind_of_size(desk: Desk, golden: Golden) -> None:
    name = await desk.create()
    await desk.bring_up(name)
    edit = EditCluster(cluster_id=name, spark_version=RUNTIME.key, node_type_id="small", autoscale=RANGE)
    await desk.service.edit(ADMIN, edit)
    assert (await desk.get(name))["state"] == "RESTARTING"
    assert (await desk.row(name)).num_workers == 2
    await desk.bring_up(name)
    ask = UpdateCluster(cluster_id=name, update_mask="num_workers", cluster=ClusterSpec(num_workers=4))
    await desk.service.update(ADMIN, ask)
    row = await desk.row(name)
    assert (row.num_workers, row.spec.autoscale, row.request.autoscale) == (4, None, None)
    await desk.bring_up(name)
    ask = UpdateCluster(cluster_id=name, update_mask="autoscale", cluster=ClusterSpec(autoscale=RANGE))
    await desk.service.update(ADMIN, ask)
    row = await desk.row(name)
    assert (row.spec.num_workers, row.request.num_workers, row.spec.autoscale) == (None, None, RANGE)
    await desk.bring_up(name)
    ask = UpdateCluster(cluster_id=name, update_mask="autoscale")
    golden(await refused(InvalidParameterValue, desk.service.update(ADMIN, ask)), "size")
