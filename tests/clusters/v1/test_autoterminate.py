"""The limits of `auto_terminate` on a database: passes of one and of two servers stop a cluster once; both dialects say why."""

from __future__ import annotations

import msgspec
import pytest

from brickyard.domain.clock import rfc3339
from brickyard.domain.cluster import Target
from brickyard.domain.errors import SemanticError
from brickyard.domain.requests import UpdateCluster
from brickyard.domain.samples import NodeAbout, Point, columns, pack
from brickyard.domain.spec import ClusterSpec
from brickyard.domain.v1.clusters import AutoTerminate, CreateV1Cluster, RestartV1Cluster, StartV1Cluster
from brickyard.store.samples import SampleRow
from brickyard.store.store import Store
from tests.clusters.v1.room import MINUTE, Room
from tests.support.databases import both_databases
from tests.support.desk import ADMIN


@pytest.mark.parametrize("servers", [1, 2])
async def test_the_longest_run_time_stops_it_once_and_both_dialects_say_so(store: Store, servers: int) -> None:
    room = Room(store)
    made = await room.running(max_runtime_minutes=30)
    await room.passes(made)
    assert (await room.get(made)).auto_terminate.remaining_seconds == {"max_runtime_minutes": 1800, "idle_minutes": 7200}
    room.clock.advance(minutes=30, ms=-1)
    assert (await room.passes(made)).target is Target.RUNNING
    assert await room.is_due(made, in_ms=1) and not await room.is_due(made, in_ms=0)
    room.clock.advance(minutes=600)  # no server was there meanwhile
    assert (await room.passes(made, servers)).target is Target.TERMINATED
    (told,) = await room.endings(made)
    there = await room.desk.get(made)
    assert there["termination_reason"] == {
        "code": "USER_REQUEST",
        "type": "SUCCESS",
        "parameters": {"username": ADMIN.user_name, "auto_terminate": "max_runtime_minutes", "max_runtime_minutes": "30"},
    }
    assert msgspec.to_builtins(told.reason) == there["termination_reason"]
    here = await room.get(made)
    assert "auto_terminate.max_runtime_minutes" in here.status_details
    assert here.auto_terminate.remaining_seconds is None


async def test_it_stops_at_a_time_even_while_it_starts(store: Store) -> None:
    room = Room(store)
    at = room.clock.now_ms() + 5_000
    made = await room.v1.create(ADMIN, CreateV1Cluster(name="abc", auto_terminate=AutoTerminate(at=rfc3339(at))))
    await room.passes(made.id)
    room.clock.advance(ms=5_000)
    ended = await room.passes(made.id)
    assert ended.target is Target.TERMINATED and "auto_terminate.at" in ended.state_message
    assert (await room.get(made.id)).status in ("stopping", "stopped"), "that is no error"

    await room.end(made.id)
    room.clock.advance(minutes=60)
    await room.v1.start(ADMIN, StartV1Cluster(cluster_id=made.id))
    assert (await room.passes(made.id)).target is Target.RUNNING, "that time was for the earlier start"


async def test_it_stops_when_it_has_cost_as_much(store: Store) -> None:
    room = Room(store)
    made = await room.running(max_cost=3.0)  # at 6 an hour
    room.clock.advance(ms=1)
    await room.passes(made)
    room.clock.advance(minutes=20)
    ends = (await room.get(made)).auto_terminate
    assert ends.max_cost == 3.0
    assert ends.cost_since_start == pytest.approx(2.0, abs=1e-3)
    assert ends.remaining_seconds is not None and 599 <= ends.remaining_seconds["max_cost"] <= 601
    assert (await room.passes(made)).target is Target.RUNNING
    assert await room.is_due(made, in_ms=10 * MINUTE + 1)
    room.clock.advance(minutes=10, ms=1)
    ended = await room.passes(made)
    assert ended.termination_reason is not None and ended.termination_reason.parameters is not None
    assert ended.termination_reason.parameters["max_cost"] == "3"


async def test_a_training_loop_in_a_shell_keeps_it_alive(store: Store) -> None:
    room = Room(store)
    made = await room.running(idle_minutes=10)
    began = room.clock.now_ms()
    busy = {began + each * 5_000: Point(1, {"cpu_cores": 0.9}) for each in range(96)}  # 8 minutes
    idle = {began + each * 5_000: Point(1, {"cpu_cores": 0.02}) for each in range(96, 400)}
    packed = pack({"i-1": columns(NodeAbout(cores=4), {**busy, **idle})})
    await store.write(lambda tx: tx.samples.insert([SampleRow(made, 0, began, began + 2_000_000, packed)]))
    room.clock.advance(minutes=10)
    kept = await room.passes(made)
    assert kept.target is Target.RUNNING
    assert began + 8 * MINUTE <= kept.used_ms <= began + 9 * MINUTE
    left = (await room.get(made)).auto_terminate.remaining_seconds
    assert left is not None and 8 * 60 <= left["idle_minutes"] <= 9 * 60
    room.clock.advance(minutes=9)
    ended = await room.passes(made)
    assert ended.termination_reason is not None and ended.termination_reason.code == "INACTIVITY"


async def test_a_server_that_has_just_been_started_waits_for_the_samples_that_nodes_took_meanwhile(store: Store) -> None:
    room = Room(store)
    made = await room.running(idle_minutes=10)
    since = room.clock.now_ms()
    room.clock.advance(minutes=30)
    began = room.clock.now_ms()
    assert (await room.passes(made, began_ms=began)).target is Target.RUNNING
    room.clock.advance(seconds=30)
    busy = {since + each * 5_000: Point(1, {"cpu_cores": 0.9}) for each in range(300, 366)}
    packed = pack({"i-1": columns(NodeAbout(cores=4), busy)})
    await store.write(lambda tx: tx.samples.insert([SampleRow(made, 0, since, room.clock.now_ms(), packed)]))
    room.clock.advance(seconds=31)
    assert (await room.passes(made, began_ms=began)).target is Target.RUNNING, "it was in use"
    room.clock.advance(minutes=10)
    assert (await room.passes(made, began_ms=began)).termination_reason is not None


async def test_a_cluster_of_the_other_dialect_counts_commands_only_and_keeps_its_limits_through_an_edit(store: Store) -> None:
    room = Room(store)
    there = await room.desk.create(num_workers=1, autotermination_minutes=10)
    assert not (await room.desk.row(there)).workbench.auto_terminate.counts_use
    made = await room.running(max_runtime_minutes=30, idle_minutes=20)
    change = ClusterSpec(autotermination_minutes=60)
    await room.desk.service.update(ADMIN, UpdateCluster(cluster_id=made, update_mask="autotermination_minutes", cluster=change))
    ends = (await room.get(made)).auto_terminate
    assert (ends.idle_minutes, ends.max_runtime_minutes) == (60, 30)


@both_databases
async def test_a_restart_changes_limits_and_a_refused_one_changes_nothing(store: Store) -> None:
    room = Room(store)
    made = await room.running(max_runtime_minutes=30)
    wrong = AutoTerminate(max_cost=-1.0, at="noon", max_runtime_minutes=40)
    with pytest.raises(SemanticError) as caught:
        await room.v1.restart(ADMIN, RestartV1Cluster(cluster_id=made, auto_terminate_updates=wrong))
    fields = [each["field"] for each in caught.value.details["problems"]]
    assert fields == ["auto_terminate_updates.at", "auto_terminate_updates.max_cost"]
    assert (await room.get(made)).auto_terminate.max_runtime_minutes == 30
    right = AutoTerminate(max_cost=2.0, max_runtime_minutes=None)
    again = await room.v1.restart(ADMIN, RestartV1Cluster(cluster_id=made, auto_terminate_updates=right))
    assert (again.auto_terminate.max_cost, again.auto_terminate.max_runtime_minutes) == (2.0, None)
