"""Autoscale: the size that a load asks for, and what the planner makes of it."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brickyard.domain.cluster import Cluster, Instance, LaunchError, public_state
from brickyard.domain.errors import InvalidParameterValue
from brickyard.domain.events import EventDetailsCause, EventType
from brickyard.domain.instances import InstanceState
from brickyard.domain.node import Load, Phase, Role, WorkerLoad
from brickyard.domain.spec import AutoScale
from brickyard.domain.states import ClusterSource, State
from brickyard.plan.autoscale import WINDOW_CONF, Decision, Rules, Situation, check_autoscale, check_window, decide, window_ms
from brickyard.plan.cluster import Plan, load_matters, plan
from brickyard.plan.policy import Policy
from brickyard.plan.poolroom import pools_needed
from brickyard.testing.builders import NOW, SIZES, cluster, instance, nodes, up
from tests.support.golden import Golden

RULES = Rules()
WINDOW = RULES.down_after_ms
LONG_AGO = NOW - 10 * WINDOW


def of(**fields: object) -> Situation:
    values: dict[str, object] = {
        "low": 1,
        "high": 8,
        "present": 2,
        "pending": 0,
        "running": 0,
        "backlog_since_ms": 0,
        "slots": 4,
        "idle_since_ms": (),
    }
    return Situation(**{**values, **fields})  # type: ignore[arg-type] # keyword arguments of a struct


def size(at: Situation, now: int = NOW) -> Decision:
    return decide(at, now=now, rules=RULES, window_ms=WINDOW)


@st.composite
def situations(draw: st.DrawFn) -> Situation:
    low = draw(st.integers(1, 50))
    high = low + draw(st.integers(1, 200))
    present = draw(st.integers(low, high))
    pending = draw(st.sampled_from([0, 0, 1, 5, 100, 100_000]))
    return Situation(
        low=low,
        high=high,
        present=present,
        pending=pending,
        running=draw(st.integers(0, 500)),
        backlog_since_ms=draw(st.integers(NOW - 5_000, NOW + 100)) if pending else 0,
        slots=draw(st.integers(1, 16)),
        idle_since_ms=draw(st.lists(st.integers(NOW - 2 * WINDOW, NOW), max_size=present)),
        growing=draw(st.booleans()),
        shrinking=draw(st.booleans()),
        scaled_ms=draw(st.sampled_from([0, NOW - 1_000, NOW])),
        not_before_ms=draw(st.sampled_from([0, NOW + 30_000])),
    )


@given(situations())
def test_the_size_stays_in_its_range_and_moves_only_with_a_cause(at: Situation) -> None:
    target, due = size(at)
    assert at.low <= target <= at.high
    if target > at.present:
        assert at.pending and target <= math.ceil((at.pending + at.running) / at.slots), "no more than the tasks can use"
        assert at.backlog_since_ms + RULES.up_after_ms <= NOW and at.not_before_ms <= NOW
    if target < at.present:
        ripe = [since for since in at.idle_since_ms if NOW - since >= WINDOW]
        assert not at.pending and at.present - target <= len(ripe), "no more go than were idle for the whole window"
        assert at.present - target <= math.ceil(at.present * RULES.down_share)
    if due is not None:
        assert due > NOW and target == at.present, "either it acts, or it says when"


@given(situations())
def test_a_decision_that_was_taken_is_not_taken_again(at: Situation) -> None:
    target, _ = size(at)
    if target != at.present:
        after = msgspec.structs.replace(at, present=target, growing=target > at.present, shrinking=target < at.present)
        assert size(after).target == target


@given(situations())
def test_waiting_ends(at: Situation) -> None:
    """What was put off to a moment happens then, unless idle workers show that more would not help."""
    _, due = size(at)
    if due is not None:
        then = size(at, now=due)
        assert then.due_ms is None
        useful = math.ceil((at.pending + at.running) / at.slots)
        assert then.target != at.present or (at.pending and (at.idle_since_ms or useful <= at.present))


@given(st.integers(1, 50), st.integers(1, 500))
def test_at_most_two_steps_lead_from_the_least_to_the_most(low: int, more: int) -> None:
    at = of(low=low, high=low + more, present=low, pending=10**6, running=4 * low, backlog_since_ms=NOW - 2_000)
    first = size(at).target
    second = size(msgspec.structs.replace(at, present=first)).target
    assert low < first <= second == low + more


@given(st.integers(2, 200), st.integers(1, 8))
def test_an_idle_cluster_comes_down_to_its_least_step_by_step(high: int, low: int) -> None:
    low = min(low, high - 1)
    present, now, scaled_ms = high, NOW, 0
    while present > low:
        target, due = size(of(low=low, high=high, present=present, idle_since_ms=[LONG_AGO] * present, scaled_ms=scaled_ms), now)
        if due is not None:
            assert due == scaled_ms + RULES.down_pause_ms, "a pause after every step"
            now = due
        else:
            assert low <= target < present
            assert present - target <= math.ceil(present / 4)
            present, scaled_ms = target, now
    assert present == low


def test_what_is_idle_while_tasks_wait_shows_that_more_would_not_help() -> None:
    at = of(pending=50, running=4, backlog_since_ms=LONG_AGO)
    assert size(at).target > 2
    assert size(msgspec.structs.replace(at, idle_since_ms=[NOW - RULES.stuck_ms])).target == 2


def test_windows() -> None:
    plain = scaled(2)
    assert window_ms(plain, RULES) == 150_000
    assert window_ms(msgspec.structs.replace(plain, source=ClusterSource.JOB), RULES) == 40_000
    asked = msgspec.structs.replace(plain, spec=msgspec.structs.replace(plain.spec, spark_conf={WINDOW_CONF: "20"}))
    assert window_ms(asked, RULES) == 20_000
    for bad in ("0", "601", "-1", "x", "", "1.5", "٣"):
        with pytest.raises(InvalidParameterValue, match=r"spark_conf\.spark\.databricks\.aggressiveWindowDownS"):
            check_window({WINDOW_CONF: bad})


@pytest.mark.parametrize(
    ("low", "high", "field"),
    [
        (None, 2, "autoscale.min_workers"),
        (1, None, "autoscale.max_workers"),
        (0, 2, "autoscale.min_workers"),
        (3, 3, "autoscale.max_workers"),
        (3, 2, "autoscale.max_workers"),
        (1, 101, "autoscale.max_workers"),
    ],
)
def test_ranges(low: int | None, high: int | None, field: str, golden: Golden) -> None:
    with pytest.raises(InvalidParameterValue) as refused:
        check_autoscale(AutoScale(min_workers=low, max_workers=high), limit=100)
    golden(refused.value.message, field)


# -- the planner -------------------------------------------------------------------------------------------------------------


def scaled(workers: int) -> Cluster:
    return up(cluster(autoscale=(1, 8), target_workers=workers))


def work(*running: int, pending: int = 0, since: int = LONG_AGO, held: tuple[int, ...] = ()) -> Load:
    """Worker n runs that many tasks, and has been idle since long ago where it runs none."""
    workers = tuple(
        WorkerLoad(
            address=f"127.0.0.1:{9000 + number}",
            slots=4,
            running=tasks,
            idle_since_ms=0 if tasks else since,
            held_mb=held[number] if held else 0,
        )
        for number, tasks in enumerate(running)
    )
    return Load(pending=pending, backlog_since_ms=NOW - 2_000 if pending else 0, workers=workers)


def rested(of: Cluster, workers: int) -> list[Instance]:
    """Nodes that have been there for long."""
    return [msgspec.structs.replace(node, ready_ms=LONG_AGO) for node in nodes(of, workers)]


def planned(of: Cluster, all_nodes: list[Instance], load: Load | None, *, silent: frozenset[str] = frozenset()) -> Plan:
    decided = plan(of, all_nodes, now=NOW, sizes=SIZES, policy=Policy(), silent=silent, load=load)
    if decided != plan(of, all_nodes, now=NOW, sizes=SIZES, policy=Policy(), silent=silent):
        assert load_matters(of, all_nodes), "else the load would not even be read"
    return decided


def test_a_burst_brings_workers_with_an_event_that_says_why() -> None:
    of = scaled(1)
    decided = planned(of, rested(of, 1), work(4, pending=20))
    assert [node.role for node in decided.new] == [Role.WORKER] * 4, "halfway to the most: 5 of 8, where 6 could be used"
    assert public_state(decided.cluster) is State.RESIZING
    (event,) = decided.events
    assert event.type is EventType.RESIZING
    details = event.details
    assert (details.current_num_workers, details.target_num_workers, details.cause) == (1, 5, EventDetailsCause.AUTOSCALE)
    ready = msgspec.structs.replace(decided.cluster, ready_workers=1)
    done = planned(ready, rested(of, 5), work(4, 4, 4, 4, 4))
    (event,) = done.events
    assert (event.type, event.details.cause) == (EventType.UPSIZE_COMPLETED, EventDetailsCause.AUTOSCALE)
    assert event.details.target_num_workers == 5
    assert public_state(done.cluster) is State.RUNNING


def test_idle_workers_leave_those_that_hold_the_least_first() -> None:
    of = scaled(4)
    driver, *workers = rested(of, 4)
    decided = planned(of, [driver, *workers], work(1, 0, 0, 0, held=(0, 50, 7, 50)))
    assert decided.cluster.target_workers == 3
    assert [node.instance_id for node in decided.instances.values() if node.retiring] == ["i-worker-2"]
    kinds = [event.type for event in decided.events]
    assert kinds == [EventType.RESIZING, EventType.DECOMMISSION_STARTED], "gracefully, also where nothing seems to be held"
    assert decided.events[0].details.target_num_workers == 3


def test_a_resize_by_hand_spares_the_workers_that_run_tasks() -> None:
    of = msgspec.structs.replace(up(cluster(num_workers=1)), sized=False)
    decided = planned(of, rested(of, 3), work(3, 0, 0))
    assert {node.instance_id for node in decided.instances.values() if node.retiring} == {"i-worker-1", "i-worker-2"}


@given(st.lists(st.integers(0, 4), min_size=1, max_size=8), st.integers(0, 3), st.integers(1, 8))
def test_no_worker_with_tasks_goes_and_the_range_holds(running: list[int], pending: int, target: int) -> None:
    of = scaled(len(running))
    decided = planned(of, rested(of, len(running)), work(*running, pending=pending * target))
    assert 1 <= decided.cluster.num_workers <= 8
    going = [node for node in decided.instances.values() if node.retiring or node.state is InstanceState.TERMINATING]
    assert all(running[int(node.instance_id.rpartition("-")[2])] == 0 for node in going)
    assert len(running) - len(going) + len(decided.new) == decided.cluster.num_workers


def test_nothing_is_decided_without_news_of_the_driver() -> None:
    of = scaled(3)
    all_nodes = rested(of, 3)
    for load, silent in ((None, frozenset[str]()), (work(0, 0, 0), frozenset({"i-driver-0"}))):
        decided = planned(of, all_nodes, load, silent=silent)
        assert msgspec.structs.replace(decided.cluster, progress=of.progress) == of
        assert decided.due_ms == NOW + RULES.unknown_ms


def test_where_capacity_ends_the_cluster_says_so_and_goes_on_with_what_it_has() -> None:
    of = msgspec.structs.replace(scaled(5), sized=False, ready_workers=1, resize_cause=EventDetailsCause.AUTOSCALE)
    error = LaunchError(kind="CapacityError", message="8 cores were asked for and 2 are left", asked="8 cores", left="2 cores")
    refused = [instance(of, number=n, phase=Phase.IDLE, state=InstanceState.REQUESTED, launch_error=error) for n in range(1, 5)]
    decided = planned(of, [*rested(of, 1), *refused], work(4, pending=20))
    (event,) = decided.events
    assert event.type is EventType.AUTOSCALING_FAILED
    assert event.details.did_not_expand_reason == error.message
    assert (event.details.current_num_workers, event.details.target_num_workers) == (1, 5)
    assert decided.cluster.num_workers == 1
    assert public_state(decided.cluster) is State.RUNNING
    again = planned(decided.cluster, rested(of, 1), work(4, pending=20))
    assert not again.new and not again.events, "it waits before it tries again"
    assert again.due_ms == NOW + Policy().grow_backoff_ms


def test_a_start_begins_with_the_least() -> None:
    decided = planned(cluster(autoscale=(2, 8)), [], None)
    assert [node.role for node in decided.new] == [Role.DRIVER, Role.WORKER, Role.WORKER]


def test_a_burst_sees_as_much_of_its_pool_as_it_may_take_at_once() -> None:
    plain = scaled(1)
    of = msgspec.structs.replace(plain, spec=msgspec.structs.replace(plain.spec, instance_pool_id="pool"))
    names, count = pools_needed(of, rested(of, 1))
    assert (names, count >= 7) == ({"pool"}, True), "seven more are possible in one pass"
    starting = msgspec.structs.replace(of, ready_incarnation=0)
    assert pools_needed(starting, rested(of, 1))[1] < 7


def test_workers_that_have_not_come_are_given_up_when_nothing_needs_them_any_more() -> None:
    of = msgspec.structs.replace(scaled(4), sized=False, ready_workers=2, resize_cause=EventDetailsCause.AUTOSCALE)
    waiting = [instance(of, number=n, phase=Phase.IDLE, state=InstanceState.LAUNCHED, ready_ms=0) for n in (2, 3)]
    decided = planned(of, [*rested(of, 2), *waiting], work(0, 4))
    assert decided.cluster.target_workers == 3
    (going,) = [node for node in decided.instances.values() if node.state is InstanceState.TERMINATING]
    assert going in [msgspec.structs.replace(each, state=InstanceState.TERMINATING) for each in waiting]
    busy = planned(of, [*rested(of, 2), *waiting], work(4, 4))
    assert busy.cluster.target_workers == 4, "not while all that have come are busy: a task may wait next"
