"""Node types that come and go while the server runs: what is new is refused, and what is there goes on."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from brickyard.domain.events import EventType
from brickyard.domain.instances import InstanceState
from brickyard.domain.nodetypes import Catalogue, NodeType
from brickyard.domain.states import State
from brickyard.domain.terminations import TerminationReasonCode
from brickyard.store.store import Store
from brickyard.testing.builders import SMALL
from tests.reconcile.world import World, provider
from tests.stateful.workspace import Workspace
from tests.support.golden import Golden
from tests.support.patience import PATIENCE_S

LARGE = NodeType(node_type_id="large", num_cores=4.0, memory_mb=16_384, category="General Purpose")


def body(node_type: NodeType = SMALL, **fields: Any) -> dict[str, Any]:
    return {"spark_version": "17.3.x-scala2.13", "node_type_id": node_type.node_type_id, "num_workers": 2, **fields}


async def refused(world: World) -> None:
    """Until the provider has refused an instance of the cluster."""
    async with asyncio.timeout(PATIENCE_S):
        while not any(row.attempts for row in (await world.look("c"))[1] if row.state is InstanceState.REQUESTED):
            await asyncio.sleep(0.02)


def test_the_catalogue_is_the_same_object_until_the_types_change() -> None:
    offered = [SMALL]
    catalogue = Catalogue(lambda: offered)
    first = catalogue.now()
    assert catalogue.now() is first
    offered.append(LARGE)
    assert list(catalogue.now()) == ["small", "large"]
    offered.remove(SMALL)
    assert list(catalogue.now()) == ["large"]
    assert list(first) == ["small"]


async def test_a_type_that_vanishes_is_refused_for_what_is_new_and_breaks_nothing_that_is_there(
    tmp_path: Path, golden: Golden
) -> None:
    workspace = Workspace(tmp_path)
    await workspace.boot()
    made = [body(), body(num_workers=None, autoscale={"min_workers": 1, "max_workers": 3})]
    fixed, scaling = [(await workspace.post("create", **each))[1]["cluster_id"] for each in made]
    for each in (fixed, scaling):
        await workspace.until(each, "RUNNING")
    cores = (await workspace.get("get", cluster_id=fixed))[1]["cluster_cores"]
    _, made_pool = await workspace.pool("POST", "create", instance_pool_name="p", node_type_id="small", min_idle_instances=1)

    workspace.machines.offer([LARGE])
    _, listed = await workspace.get("list-node-types")
    assert [each["node_type_id"] for each in listed["node_types"]] == ["large"]
    status, refused = await workspace.post("create", **body())
    assert (status, refused["error_code"]) == (400, "INVALID_PARAMETER_VALUE")
    golden(refused["message"], "node_type_id small")
    status, refused = await workspace.pool("POST", "create", instance_pool_name="q", node_type_id="small")
    assert (status, refused["error_code"]) == (400, "INVALID_PARAMETER_VALUE")
    _, other = await workspace.post("create", **body(LARGE))
    await workspace.until(other["cluster_id"], "RUNNING")

    workspace.machines.set_tasks(scaling, 100)
    status, _ = await workspace.post("resize", cluster_id=fixed, num_workers=3)
    assert status == 200
    for _ in range(20):
        await workspace.pass_time(1_000)
    for each in (fixed, scaling):
        assert await workspace.state(each) in ("RUNNING", "RESIZING")
    _, shown = await workspace.get("get", cluster_id=fixed)
    assert (shown["cluster_cores"], len(shown["executors"])) == (cores, 2)

    workspace.machines.offer([SMALL, LARGE])  # and it comes back
    await workspace.until(fixed, "RUNNING")

    async def grown() -> str:
        _, shown = await workspace.get("get", cluster_id=fixed)
        return "" if len(shown["executors"]) == 3 else "a worker"

    await workspace.settle(grown)
    workspace.machines.offer([LARGE])
    await workspace.post("delete", cluster_id=fixed)
    await workspace.until(fixed, "TERMINATED")
    await workspace.post("start", cluster_id=fixed)
    await workspace.until(fixed, "TERMINATED")
    _, ended = await workspace.get("get", cluster_id=fixed)
    assert ended["termination_reason"]["code"] == "UNSUPPORTED_INSTANCE_TYPE"
    await workspace.pool("POST", "delete", instance_pool_id=made_pool["instance_pool_id"])
    await workspace.crash()


async def test_a_worker_whose_type_vanishes_before_its_launch_is_a_shortage(store: Store) -> None:
    async with World(store, provider()).running() as world:
        await world.create("c", num_workers=1)
        await world.wait("c", State.RUNNING)
        world.provider.knobs.launch_error = 1.0
        await world.resize("c", 2)
        await refused(world)
        world.provider.offer([LARGE])
        await world.wait_event("c", EventType.ADD_NODES_FAILED)  # a call that is under way now is refused once more
        failed = (await world.events("c", EventType.ADD_NODES_FAILED))[0]
        assert "small" in (failed.details.did_not_expand_reason or "")
        found, rows = await world.look("c")
        assert found is not None and found.up
        assert len([row for row in rows if row.ready]) == 2


async def test_a_cluster_that_starts_without_its_type_ends_with_the_reason(store: Store) -> None:
    async with World(store, provider(launch_error=1.0)).running() as world:
        await world.create("c", num_workers=1)
        await refused(world)
        world.provider.offer([LARGE])
        found = await world.wait("c", State.TERMINATED)
        assert found.termination_reason is not None
        assert found.termination_reason.code is TerminationReasonCode.UNSUPPORTED_INSTANCE_TYPE
