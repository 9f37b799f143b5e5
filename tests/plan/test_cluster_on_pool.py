"""The cluster planner where nodes come from pools: a state in, one pass, a state out."""

from __future__ import annotations

from collections import Counter

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from brickyard.domain.cluster import Cluster, Instance, Target, public_state
from brickyard.domain.events import EventType
from brickyard.domain.instances import InstanceState
from brickyard.domain.node import Load, NodeStatus, Phase, Role, WorkerLoad
from brickyard.domain.pools import Pool, Standing
from brickyard.domain.states import State
from brickyard.domain.terminations import TerminationReasonCode
from brickyard.plan.cluster import Plan, plan
from brickyard.plan.policy import Policy
from brickyard.plan.poolroom import CLEAN_TIMEOUT_MS, PoolStock, pools_needed
from brickyard.testing.builders import NOW, SIZES, cluster, nodes, up
from tests.plan.test_pool_plan import idle, pool
from tests.support.golden import Golden

POLICY = Policy()
POOL = pool().instance_pool_id


def on_pool(*, num_workers: int = 2, **fields: object) -> Cluster:
    of = cluster(num_workers=num_workers, **fields)  # type: ignore[arg-type] # keyword arguments of a struct
    spec = msgspec.structs.replace(of.spec, instance_pool_id=POOL, driver_instance_pool_id=POOL)
    return msgspec.structs.replace(of, spec=spec)


def resized(of: Cluster, num_workers: int) -> Cluster:
    return msgspec.structs.replace(of, spec=msgspec.structs.replace(of.spec, num_workers=num_workers), sized=False)


def own(of: Cluster, workers: int) -> list[Instance]:
    """The nodes of a running cluster on the pool."""
    return [msgspec.structs.replace(node, pool_id=POOL) for node in nodes(of, workers)]


def decide(of: Cluster, instances: list[Instance], room: PoolStock | None, *, now: int = NOW, load: Load | None = None) -> Plan:
    rooms = {POOL: room} if room is not None else {}
    return plan(of, instances, now=now, sizes=SIZES, policy=POLICY, rooms=rooms, load=load)


def kinds(decided: Plan) -> list[EventType]:
    return [event.type for event in decided.events]


def taken(decided: Plan, before: list[Instance]) -> list[Instance]:
    old = {row.instance_id for row in before}
    return [row for name, row in decided.instances.items() if name not in old]


def test_a_start_takes_warm_instances_and_launches_the_rest_for_the_pool() -> None:
    of = on_pool()
    decided = decide(of, [], PoolStock(pool(), idle=[idle(1), idle(2, Standing.IDLE)], live=2))
    got = {row.instance_id: row for row in taken(decided, [])}
    assert got.keys() == {"i-0001", "i-0002"}
    assert got["i-0001"].role is Role.DRIVER
    assert {row.cluster_id for row in got.values()} == {of.cluster_id}
    assert all(row.assignment is not None and row.assignment.generation == 2 for row in got.values()), "after the idle one"
    assert all(row.assignment is not None and row.assignment.version == 2 for row in got.values())
    assert (got["i-0001"].cold, got["i-0002"].cold) == ("", "it had no warm JVM")
    assert [(node.role, node.pool_id) for node in decided.new] == [(Role.WORKER, POOL)]


def test_a_start_beyond_the_capacity_ends_with_its_numbers_and_takes_nothing(golden: Golden) -> None:
    of = on_pool(num_workers=20)
    rows = [idle(number) for number in range(20)]
    decided = decide(of, [], PoolStock(pool(max_capacity=20), idle=rows, live=20))
    assert public_state(decided.cluster) is State.TERMINATED
    reason = decided.cluster.termination_reason
    assert reason is not None
    assert reason.code is TerminationReasonCode.INSTANCE_POOL_MAX_CAPACITY_REACHED
    golden(decided.cluster.state_message)
    golden(decided.cluster.state_message, "max_capacity")
    assert (decided.instances, decided.new) == ({}, []), "the pool's idle instances are as they were"


def test_a_start_waits_a_moment_for_what_is_on_its_way_back() -> None:
    of = on_pool(num_workers=1)
    full = pool(max_capacity=2)
    waits = decide(of, [], PoolStock(full, idle=(), live=2, returning=True), now=of.launch_started_ms + 5)
    assert (public_state(waits.cluster), waits.due_ms) == (State.PENDING, of.launch_started_ms + 5 + POLICY.pool_look_ms)
    assert (waits.instances, waits.new) == ({}, [])
    half = decide(of, [], PoolStock(full, idle=[idle(1)], live=2, returning=True), now=of.launch_started_ms + 5)
    assert [row.role for row in taken(half, [])] == [Role.DRIVER], "its worker comes later"
    assert public_state(half.cluster) is State.PENDING
    there = decide(of, [], PoolStock(full, idle=[idle(1), idle(2)], live=2), now=of.launch_started_ms + 255)
    assert sorted(row.role for row in taken(there, [])) == [Role.DRIVER, Role.WORKER]
    late = of.launch_started_ms + POLICY.pool_return_ms
    for decided in (
        decide(of, [], PoolStock(full, idle=(), live=2, returning=True), now=late),
        decide(of, [], PoolStock(full, idle=(), live=2), now=of.launch_started_ms + 5),
    ):
        assert decided.cluster.termination_reason is not None
        assert decided.cluster.termination_reason.code is TerminationReasonCode.INSTANCE_POOL_MAX_CAPACITY_REACHED


def test_a_cluster_that_runs_grows_as_far_as_the_pool_does(golden: Golden) -> None:
    of = resized(up(on_pool(num_workers=1)), 5)
    before = own(of, 1)
    decided = decide(of, before, PoolStock(pool(max_capacity=4), idle=[idle(1)], live=3))
    assert len(taken(decided, before)) == 1
    assert len(decided.new) == 1
    assert decided.cluster.target is Target.RUNNING
    assert EventType.ADD_NODES_FAILED in kinds(decided)
    golden(decided.cluster.state_message, "max_capacity")
    assert decided.cluster.grow_after_ms > NOW, "and it tries again later"


def test_an_autoscaling_cluster_does_not_grow_and_says_why(golden: Golden) -> None:
    of = up(on_pool(autoscale=(1, 4), target_workers=1))
    before = [msgspec.structs.replace(node, ready_ms=NOW - 3_600_000) for node in own(of, 1)]
    busy = Load(
        pending=20,
        backlog_since_ms=NOW - 2_000,
        workers=(WorkerLoad(address="127.0.0.1:9000", slots=1, running=1, idle_since_ms=0, held_mb=0),),
    )
    decided = decide(of, before, PoolStock(pool(max_capacity=2), idle=(), live=2), load=busy)
    assert public_state(decided.cluster) is State.RUNNING
    assert decided.cluster.num_workers == 1
    failed = next(event for event in decided.events if event.type is EventType.AUTOSCALING_FAILED)
    golden(failed.details.did_not_expand_reason or "", "max_capacity")
    assert failed.details.reason is not None
    assert failed.details.reason.code is TerminationReasonCode.INSTANCE_POOL_MAX_CAPACITY_REACHED


def test_a_deleted_pool_ends_a_start_and_not_what_runs(golden: Golden) -> None:
    decided = decide(on_pool(), [], None)
    reason = decided.cluster.termination_reason
    assert reason is not None
    assert reason.code is TerminationReasonCode.INSTANCE_POOL_NOT_FOUND
    golden(decided.cluster.state_message)
    of = resized(up(on_pool(num_workers=1)), 2)
    deleted = msgspec.structs.replace(pool(), deleted_ms=NOW)
    running = decide(of, own(of, 1), PoolStock(deleted, idle=(), live=2))
    assert running.cluster.target is Target.RUNNING
    assert EventType.ADD_NODES_FAILED in kinds(running)
    # Nodes cannot go back to it: they end.
    ended = decide(msgspec.structs.replace(of, target=Target.TERMINATED), own(of, 1), PoolStock(deleted, idle=(), live=2))
    assert {row.state for row in ended.instances.values()} == {InstanceState.TERMINATING}


def test_a_restart_keeps_its_nodes_with_new_generations() -> None:
    of = up(on_pool(num_workers=1))
    before = own(of, 1)
    again = msgspec.structs.replace(of, incarnation=2, restarting=True)
    decided = decide(again, before, PoolStock(pool(max_capacity=2), idle=(), live=2))
    assert not decided.new
    assert {row.generation for row in decided.instances.values()} == {2}
    assert all(row.assignment is not None and row.assignment.generation > 1 for row in decided.instances.values())


def released(of: Cluster, before: list[Instance]) -> list[Instance]:
    ending = msgspec.structs.replace(of, target=Target.TERMINATED, ended=False)
    decided = decide(ending, before, PoolStock(pool(), idle=(), live=len(before)))
    return [decided.instances[row.instance_id] for row in before]


def test_nodes_go_back_when_they_are_clean_and_not_before() -> None:
    of = up(on_pool(num_workers=1))
    ending = msgspec.structs.replace(of, target=Target.TERMINATED, ended=False)
    going = released(of, own(of, 1))
    assert all(row.state is InstanceState.REGISTERED and row.cluster_id == of.cluster_id for row in going)
    assert all(row.assignment is not None and row.assignment.role is Role.WARM for row in going)
    assert all(row.assignment is not None and (row.assignment.cluster_id, row.assignment.secret) == ("", "") for row in going)
    waiting = decide(ending, going, PoolStock(pool(), idle=(), live=2), now=NOW + 5)
    assert not waiting.cluster.ended
    assert not waiting.returned
    reported = [NodeStatus(generation=row.assignment.generation if row.assignment else 0) for row in going]
    clean = [msgspec.structs.replace(row, status=status) for row, status in zip(going, reported, strict=True)]
    done = decide(ending, clean, PoolStock(pool(), idle=(), live=2), now=NOW + 5)
    assert done.cluster.ended
    assert [(row.cluster_id, row.pool_id, row.idle_ms) for row in done.returned] == [("", POOL, NOW + 5)] * 2


def test_what_is_not_clean_in_time_ends() -> None:
    of = up(on_pool(num_workers=1))
    ending = msgspec.structs.replace(of, target=Target.TERMINATED, ended=False)
    late = decide(ending, released(of, own(of, 1)), PoolStock(pool(), idle=(), live=2), now=NOW + CLEAN_TIMEOUT_MS)
    assert {row.state for row in late.instances.values()} == {InstanceState.TERMINATING}


def test_a_node_that_failed_does_not_go_back() -> None:
    of = up(on_pool(num_workers=1))
    driver, worker = own(of, 1)
    broken = msgspec.structs.replace(worker, status=msgspec.structs.replace(worker.status, phase=Phase.FAILED))
    decided = decide(of, [driver, broken], PoolStock(pool(), idle=[idle(1)], live=3))
    assert decided.instances[worker.instance_id].state is InstanceState.TERMINATING
    assert decided.instances["i-0001"].cluster_id == of.cluster_id, "an idle one takes its place"


def test_a_pass_reads_only_the_pools_that_it_may_need() -> None:
    of = on_pool(num_workers=2)
    assert pools_needed(of, []) == ({POOL}, 4)
    running = up(of)
    assert pools_needed(running, own(running, 2)) == ({POOL}, 1)
    assert pools_needed(msgspec.structs.replace(of, target=Target.TERMINATED), own(of, 2)) == ({POOL}, 0)
    assert pools_needed(cluster(), nodes(cluster(), 2)) == (set(), 0)


@st.composite
def situations(draw: st.DrawFn) -> tuple[Cluster, list[Instance], Pool, list[Instance], int]:
    have, wanted = draw(st.integers(0, 4)), draw(st.integers(1, 6))
    of = on_pool(num_workers=have or 1)
    if draw(st.booleans()):
        of = up(of)
    before = own(of, have)[: draw(st.integers(0, have + 1))]
    phases = st.sampled_from([Phase.READY, Phase.FAILED])
    before = [msgspec.structs.replace(row, status=msgspec.structs.replace(row.status, phase=draw(phases))) for row in before]
    of = resized(of, wanted)
    if draw(st.booleans()):
        of = msgspec.structs.replace(of, target=Target.TERMINATED, ended=False)
    kinds = st.sampled_from([Standing.WARM, Standing.IDLE, Standing.PREPARING, Standing.LAUNCHING])
    rows = [idle(number, draw(kinds)) for number in range(draw(st.integers(0, 6)))]
    used = len(before) + draw(st.integers(0, 4))
    of_pool = pool(max_capacity=draw(st.none() | st.integers(1, 12)))
    return of, before, of_pool, rows, used


@given(situations())
def test_whatever_happens_nothing_is_taken_twice_or_beyond_the_capacity(
    situation: tuple[Cluster, list[Instance], Pool, list[Instance], int],
) -> None:
    of, before, of_pool, rows, used = situation
    decided = decide(of, before, PoolStock(of_pool, idle=rows, live=used + len(rows)))
    got = taken(decided, before)
    assert {row.instance_id for row in got} <= {row.instance_id for row in rows}
    assert all(row.cluster_id == of.cluster_id for row in got)
    capacity = of_pool.spec.max_capacity
    if capacity is not None and decided.new:
        assert used + len(rows) + len(decided.new) <= capacity
    after = [decided.instances.get(row.instance_id, row) for row in before] + got
    current = [row for row in after if row.live and not row.releasing_ms and row.generation == of.incarnation]
    roles = Counter(row.role for row in current)
    assert roles[Role.DRIVER] + sum(node.role is Role.DRIVER for node in decided.new) <= 1
    if decided.cluster.target is Target.TERMINATED:
        assert not got
        assert not decided.new
        assert not current


def test_a_node_of_a_type_that_is_no_longer_offered_ends() -> None:
    of = msgspec.structs.replace(up(on_pool(num_workers=1)), target=Target.TERMINATED, ended=False)
    decided = plan(of, own(of, 1), now=NOW, sizes={}, policy=POLICY, rooms={POOL: PoolStock(pool(), idle=(), live=2)})
    assert {row.state for row in decided.instances.values()} == {InstanceState.TERMINATING}
