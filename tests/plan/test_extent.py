"""Passes over many nodes: what they cost, how much each of them changes, and what is more than a workspace allows."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brickyard.domain.cluster import Cluster, Instance, Target
from brickyard.domain.errors import InvalidParameterValue
from brickyard.domain.instances import InstanceState
from brickyard.domain.node import Phase, Role
from brickyard.domain.pools import Pool, PoolSpec
from brickyard.domain.terminations import TerminationReasonCode
from brickyard.plan.cluster import Plan, plan
from brickyard.plan.policy import Policy
from brickyard.plan.pool import plan_pool
from brickyard.plan.poolroom import PoolStock
from brickyard.plan.spec import check_num_workers, check_range
from brickyard.testing.builders import NOW, SIZES, cluster, instance, nodes, up
from tests.support.golden import Golden

UNBOUND = Policy(max_nodes=100_000, nodes_per_pass=100_000)
POLICY = Policy()
POOL = "0101-000000-test-pool-A"


def pool(**fields: Any) -> Pool:
    spec = PoolSpec(instance_pool_name="p", node_type_id="small", **fields)
    return Pool(instance_pool_id=POOL, creator_user_name="u", creator_user_id="1", created_ms=NOW, spec=spec)


def idle(number: int, **fields: Any) -> Instance:
    name = f"i-{number:06}"
    values = {"state": InstanceState.REGISTERED, "registered_ms": NOW, "idle_ms": NOW, **fields}
    return Instance(
        instance_id=name,
        node_id=name,
        cluster_id="",
        pool_id=POOL,
        role=Role.WARM,
        generation=0,
        node_type_id="small",
        created_ms=NOW,
        **values,
    )


class Operations:
    """Counts the interpreter's instructions in a block: unlike seconds, they are the same on every machine."""

    count = 0

    def __enter__(self) -> Operations:
        self._before = sys.gettrace()
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)

    def _trace(self, frame: FrameType, event: str, _: object) -> Any:
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        self.count += event == "opcode"
        return self._trace


def of_size(workers: int) -> Cluster:
    return cluster(num_workers=workers)


def new(count: int) -> tuple[Cluster, list[Instance]]:
    return of_size(count), []


def ready(count: int) -> tuple[Cluster, list[Instance]]:
    """Comes up in this pass, and nothing was written of any worker yet."""
    of = of_size(count)
    return of, [msgspec.structs.replace(node, ready_ms=0) for node in nodes(of, count)]


def starting(count: int) -> tuple[Cluster, list[Instance]]:
    """Nodes that are to hear where the master is."""
    of = of_size(count)
    driver, *workers = nodes(of, count, phase=Phase.STARTING)
    return of, [driver, *(_without_master(node) for node in workers)]


def _without_master(node: Instance) -> Instance:
    assert node.assignment is not None
    return msgspec.structs.replace(node, assignment=msgspec.structs.replace(node.assignment, master_url=""))


def lost(count: int) -> tuple[Cluster, list[Instance]]:
    of = up(of_size(count))
    driver, *workers = nodes(of, count)
    return of, [driver, *(msgspec.structs.replace(node, state=InstanceState.GONE, lost="it went") for node in workers)]


def shrunk(count: int) -> tuple[Cluster, list[Instance]]:
    of = up(of_size(1))
    return of, nodes(of, count)


def restarted(count: int) -> tuple[Cluster, list[Instance]]:
    before = of_size(count)
    return msgspec.structs.replace(before, incarnation=2, restarting=True), nodes(before, count)


def ended(count: int) -> tuple[Cluster, list[Instance]]:
    of = up(of_size(count))
    return msgspec.structs.replace(of, target=Target.TERMINATED), nodes(of, count)


SITUATIONS = (new, ready, starting, lost, shrunk, restarted, ended)


def decide(of: Cluster, rows: Sequence[Instance], *, policy: Policy, **more: Any) -> Plan:
    return plan(of, rows, now=NOW, sizes=SIZES, policy=policy, **more)


def changed(decided: Plan) -> int:
    return len({*decided.instances, *(row.instance_id for row in (*decided.removed, *decided.returned))}) + len(decided.new)


@pytest.mark.parametrize("situation", SITUATIONS)
def test_the_cost_of_a_pass_grows_with_the_number_of_nodes(situation: Callable[[int], tuple[Cluster, list[Instance]]]) -> None:
    def cost(count: int) -> int:
        of, rows = situation(count)
        decide(of, rows, policy=UNBOUND)  # caches are filled
        with Operations() as done:
            decide(of, rows, policy=UNBOUND)
        return done.count

    small, large = cost(60), cost(240)
    assert large < 4.1 * small


def test_the_cost_of_taking_from_a_pool_grows_with_the_number_of_nodes() -> None:
    def cost(count: int) -> int:
        of = of_size(count)
        of = msgspec.structs.replace(of, spec=msgspec.structs.replace(of.spec, instance_pool_id=POOL))
        stock = PoolStock(pool(), idle=[idle(number) for number in range(2 * count)], live=2 * count)
        with Operations() as done:
            decided = decide(of, [], policy=UNBOUND, rooms={POOL: stock})
        assert len(decided.instances) == count + 1
        return done.count

    small, large = cost(60), cost(240)
    assert large < 4.1 * small


@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize("count", [101, 350])
def test_a_pass_changes_a_limited_number_of_nodes_and_the_next_ones_do_the_rest(
    situation: Callable[[int], tuple[Cluster, list[Instance]]], count: int
) -> None:
    of, rows = situation(count)
    wanted = settled(of, rows, policy=UNBOUND)
    assert settled(of, rows, policy=POLICY) == wanted
    passes = list(pass_by_pass(of, rows, policy=POLICY))
    # One more for a driver, and one for what the last of a full pass has begun.
    assert max(changed(decided) for decided in passes) <= POLICY.nodes_per_pass + 1


def settled(of: Cluster, rows: Sequence[Instance], *, policy: Policy) -> tuple[object, ...]:
    """What is there once no pass is due at once: the cluster's states, and how many instances are in each state, of each role."""
    *_, last = pass_by_pass(of, rows, policy=policy)
    kinds: dict[tuple[object, ...], int] = {}
    for row in last.rows:
        assert row.assignment is not None or row.state is InstanceState.REQUESTED
        key = (row.role, row.state, row.generation, row.retiring, row.assignment is not None and bool(row.assignment.master_url))
        kinds[key] = kinds.get(key, 0) + 1
    return last.cluster.up, last.cluster.target, last.cluster.ended, last.cluster.ready_workers, kinds


class _Pass(Plan, kw_only=True):
    rows: list[Instance]  # afterwards


def pass_by_pass(of: Cluster, rows: Sequence[Instance], *, policy: Policy) -> Iterator[_Pass]:
    """Passes, each with what the one before has left, for as long as one is due at once."""
    made = 0
    for _ in range(1_000):
        decided = decide(of, rows, policy=policy)
        of = decided.cluster
        gone = {row.instance_id for row in (*decided.removed, *decided.returned)}
        rows = [decided.instances.get(row.instance_id, row) for row in rows if row.instance_id not in gone]
        for node in decided.new:
            made += 1
            blank = instance(of, role=node.role, number=100_000 + made)
            requested = {"state": InstanceState.REQUESTED, "registered_ms": 0, "ready_ms": 0, "launched_ms": 0, "status": None}
            rows.append(msgspec.structs.replace(blank, **{**requested, "status": type(blank.status)()}))
        yield _Pass(**{name: getattr(decided, name) for name in Plan.__struct_fields__}, rows=rows)
        if not decided.unfinished:
            return
        assert decided.due_ms == NOW
    raise AssertionError("it never ends")


def test_a_cluster_with_more_workers_than_a_workspace_allows_does_not_start() -> None:
    of = cluster(num_workers=100_000)
    decided = decide(of, [], policy=POLICY)
    assert decided.cluster.target is Target.TERMINATED
    assert decided.cluster.ended
    assert not decided.new
    reason = decided.cluster.termination_reason
    assert reason is not None
    assert reason.code is TerminationReasonCode.INVALID_ARGUMENT


def test_a_cluster_that_is_up_with_more_workers_than_allowed_keeps_them_and_gets_no_more() -> None:
    of = msgspec.structs.replace(up(of_size(5)), sized=False)
    policy = Policy(max_nodes=3)
    kept = decide(of, nodes(of, 4), policy=policy)
    assert kept.cluster.target is Target.RUNNING
    assert not kept.new
    assert not kept.instances
    grown = decide(of, nodes(of, 1), policy=policy)
    assert len(grown.new) == 2
    assert not grown.unfinished


@given(
    present=st.integers(0, 400),
    min_idle=st.integers(0, 400),
    gone=st.integers(0, 400),
    used=st.integers(0, 30),
    active=st.booleans(),
    beyond=st.integers(0, 10_000),
)
@settings(max_examples=60)
def test_passes_over_a_pool_are_limited_and_reach_what_is_wanted(
    present: int, min_idle: int, gone: int, used: int, *, active: bool, beyond: int
) -> None:
    policy = Policy(max_nodes=300)
    of = msgspec.structs.replace(pool(min_idle_instances=min_idle), deleted_ms=0 if active else NOW)
    rows = [idle(number) for number in range(present)]
    rows += [idle(1_000 + number, state=InstanceState.GONE) for number in range(gone)]
    made = 0
    for _ in range(100):
        decided = plan_pool(of, rows, used=used, others=used, now=NOW, policy=policy, beyond=beyond)
        assert len(decided.removed) + len(decided.instances) + decided.new <= policy.nodes_per_pass
        removed = {row.instance_id for row in decided.removed}
        rows = [decided.instances.get(row.instance_id, row) for row in rows if row.instance_id not in removed]
        rows += [idle(10_000 + made + number) for number in range(decided.new)]
        made += decided.new
        if not decided.unfinished:
            break
        assert decided.due_ms == NOW
    else:
        raise AssertionError("it never ends")
    live = sum(row.live for row in rows)
    if beyond or not active:
        assert not made
    if active and not beyond:
        assert live == min(max(present, min_idle), policy.max_nodes)
    if not active:
        assert live == 0
        assert decided.purge == (not (used or beyond or present))


@pytest.mark.parametrize("workers", [1_001, 100_000])
def test_a_request_for_more_workers_than_allowed_is_refused(workers: int, golden: Golden) -> None:
    with golden.refused(InvalidParameterValue, "num_workers", "max_nodes"):
        check_num_workers(workers, single=False, max_nodes=1_000)
    scale = cluster(autoscale=(1, workers)).spec.autoscale
    assert scale is not None
    with golden.refused(InvalidParameterValue, "autoscale.max_workers", "max_nodes"):
        check_range(scale, single=False, max_nodes=1_000)
    check_num_workers(workers, single=False, max_nodes=workers)
