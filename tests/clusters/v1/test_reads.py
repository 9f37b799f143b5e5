"""What is encoded once is shown as long as it is true, and no longer."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from brickyard.clusters.v1.reads import V1Reads
from brickyard.domain.errors import PermissionDenied, ResourceNotFound
from brickyard.domain.ports import PortUpdate
from brickyard.domain.v1.clusters import (
    CreateV1Cluster,
    DeleteV1Cluster,
    ListV1Clusters,
    StopV1Cluster,
)
from brickyard.store.store import Store
from tests.clusters.v1.room import Room
from tests.support.databases import both_databases
from tests.support.desk import ADMIN, USER

TRAP = {'"remaining_seconds":null': "null", "remaining_seconds": "null"}


async def same(room: Room, cluster_id: str) -> Any:
    """The cluster as it is shown, twice: as the rows are now, and whoever else reads it."""
    reads: V1Reads = room.v1.reads
    truth = msgspec.to_builtins(await reads.look(ADMIN, cluster_id))
    for _ in range(2):
        assert msgspec.json.decode(await reads.get(ADMIN, cluster_id)) == truth
        (listed,) = msgspec.json.decode(await reads.list(ADMIN, ListV1Clusters()))["clusters"]
        assert {**listed, "auto_terminate": 0, "operation": 0} == {**truth, "auto_terminate": 0, "operation": 0}
        assert listed["auto_terminate"]["remaining_seconds"] is None
    return truth


@both_databases
async def test_what_is_shown_is_what_the_rows_say(store: Store) -> None:
    room = Room(store)
    wanted = CreateV1Cluster(name="abc", tags=TRAP, environment_variables={"A": '"remaining_seconds":null'})
    made = (await room.v1.create(ADMIN, wanted)).id
    await same(room, made)
    await room.up(made)
    first = await same(room, made)
    room.clock.advance(minutes=10)
    second = await same(room, made)
    left = [each["auto_terminate"]["remaining_seconds"]["idle_minutes"] for each in (first, second)]
    assert left[0] - left[1] == 600
    assert second["tags"].items() >= TRAP.items()
    with pytest.raises(PermissionDenied):
        await room.v1.reads.get(USER, made)
    planner = room.v1._ports

    def map_port(tx: Any) -> None:
        mappings = planner.planned(tx, made, [PortUpdate(internal_port=8888)], field="").mappings
        planner.write(tx, made, mappings)

    await store.write(map_port)
    assert len((await same(room, made))["port_mappings"]) == 1
    await room.v1.stop(ADMIN, StopV1Cluster(cluster_id=made, stop_reason="enough"))
    assert (await same(room, made))["status"] == "stopping"
    await room.end(made)
    assert (await same(room, made))["auto_terminate"]["remaining_seconds"] is None
    await room.v1.delete(ADMIN, DeleteV1Cluster(cluster_id=made, confirm_deletion="DELETE"))
    with pytest.raises(ResourceNotFound):
        await room.v1.reads.get(ADMIN, made)


async def test_what_a_cluster_costs_is_always_worked_out(store: Store) -> None:
    room = Room(store)
    made = await room.running(max_cost=100.0)
    spent = []
    for _ in range(2):
        room.clock.advance(minutes=10)
        spent.append((await same(room, made))["auto_terminate"]["cost_since_start"])
    assert spent[1] >= spent[0]
