"""The planner: a state in, one pass, a state out."""

from __future__ import annotations

import msgspec
import pytest

from brickyard.domain.cluster import RETENTION_MS, Cluster, Instance, LaunchError, Target, public_state
from brickyard.domain.events import EventType
from brickyard.domain.instances import InstanceState
from brickyard.domain.node import Failure, NodeStatus, Phase, Role
from brickyard.domain.states import State
from brickyard.domain.terminations import TerminationReasonCode, TerminationReasonType
from brickyard.plan.cluster import Plan, plan
from brickyard.plan.policy import Policy
from brickyard.testing.builders import NOW, SIZES, cluster, instance, nodes, up
from tests.support.golden import Golden

POLICY = Policy()


def decide(of: Cluster, instances: list[Instance], *, now: int = NOW, silent: frozenset[str] = frozenset()) -> Plan:
    return plan(of, instances, now=now, sizes=SIZES, policy=POLICY, silent=silent)


def kinds(decided: Plan) -> list[EventType]:
    return [event.type for event in decided.events]


def sized(of: Cluster, num_workers: int) -> Cluster:
    return msgspec.structs.replace(of, spec=msgspec.structs.replace(of.spec, num_workers=num_workers), sized=False)


def test_a_new_cluster_asks_for_a_driver_and_its_workers() -> None:
    decided = decide(cluster(num_workers=3), [])
    assert [node.role for node in decided.new] == [Role.DRIVER, Role.WORKER, Role.WORKER, Role.WORKER]
    assert public_state(decided.cluster) is State.PENDING


def test_a_single_node_cluster_asks_for_one_node() -> None:
    assert [node.role for node in decide(cluster(single=True), []).new] == [Role.SINGLE]


def test_all_nodes_ready_is_running() -> None:
    of = cluster(num_workers=2)
    decided = decide(of, nodes(of, 2))
    assert public_state(decided.cluster) is State.RUNNING
    assert kinds(decided) == [EventType.RUNNING, EventType.DRIVER_HEALTHY]
    assert decided.cluster.spark_context_id > 0


def test_a_worker_that_the_master_does_not_know_does_not_count() -> None:
    of = cluster(num_workers=2)
    driver, *workers = nodes(of, 2)
    blind = msgspec.structs.replace(driver, status=msgspec.structs.replace(driver.status, alive_workers=()))
    assert public_state(decide(of, [blind, *workers]).cluster) is State.PENDING


def test_a_driver_that_only_starts_is_not_running() -> None:
    of = cluster(num_workers=0, single=True)
    driver = instance(of, role=Role.SINGLE, phase=Phase.STARTING)
    assert public_state(decide(of, [driver]).cluster) is State.PENDING


def test_workers_learn_the_master() -> None:
    of = cluster(num_workers=1)
    worker = instance(of, phase=Phase.PREPARING)
    assert worker.assignment is not None
    worker = msgspec.structs.replace(worker, assignment=msgspec.structs.replace(worker.assignment, master_url=""))
    decided = decide(of, [instance(of, role=Role.DRIVER, phase=Phase.STARTING), worker])
    told = decided.instances[worker.instance_id].assignment
    assert told is not None
    assert told.master_url == "spark://127.0.0.1:7077"
    assert told.version == 2


def test_the_status_of_an_earlier_generation_counts_for_nothing() -> None:
    of = msgspec.structs.replace(cluster(num_workers=0, single=True), incarnation=2, restarting=True)
    stale = instance(of, role=Role.SINGLE)
    stale = msgspec.structs.replace(stale, status=msgspec.structs.replace(stale.status, generation=1))
    assert public_state(decide(of, [stale]).cluster) is State.RESTARTING


def test_growth_asks_for_the_missing_workers_only() -> None:
    of = sized(up(cluster(num_workers=2)), 5)
    decided = decide(of, nodes(of, 2))
    assert [node.role for node in decided.new] == [Role.WORKER] * 3
    assert public_state(decided.cluster) is State.RESIZING


def test_growth_done_is_an_event() -> None:
    of = up(sized(cluster(num_workers=2), 3), ready_workers=2)
    decided = decide(of, nodes(of, 3))
    assert public_state(decided.cluster) is State.RUNNING
    assert kinds(decided) == [EventType.UPSIZE_COMPLETED]


def test_shrinking_retires_the_newest_and_keeps_them_until_they_are_done() -> None:
    of = sized(up(cluster(num_workers=3)), 1)
    all_nodes = nodes(of, 3)
    decided = decide(of, all_nodes)
    assert sorted(decided.instances) == ["i-worker-1", "i-worker-2"]
    for changed in decided.instances.values():
        assert changed.assignment is not None
        assert changed.assignment.retiring
        assert changed.state is InstanceState.REGISTERED
    assert kinds(decided) == [EventType.DECOMMISSION_STARTED] * 2
    again = decide(decided.cluster, [decided.instances.get(n.instance_id, n) for n in all_nodes])
    assert not again.new
    assert not again.instances
    assert public_state(again.cluster) is State.RESIZING


def test_a_worker_whose_machine_is_taken_away_hands_over_while_another_takes_its_place() -> None:
    of = up(cluster(num_workers=2))
    driver, first, second = nodes(of, 2)
    told = msgspec.structs.replace(second, status=msgspec.structs.replace(second.status, leaving=True))
    decided = decide(of, [driver, first, told])
    assert [node.role for node in decided.new] == [Role.WORKER]
    (changed,) = decided.instances.values()
    assert changed.instance_id == told.instance_id
    assert changed.assignment is not None and changed.assignment.retiring
    assert EventType.DECOMMISSION_STARTED in kinds(decided)
    again = decide(decided.cluster, [driver, first, changed, instance(of, instance_id="i-new", phase=Phase.STARTING)])
    assert not again.new
    assert not again.instances


def test_a_retired_worker_goes() -> None:
    of = sized(up(cluster(num_workers=2)), 1)
    driver, first, second = nodes(of, 2)
    second = msgspec.structs.replace(
        second, retire_after_ms=NOW + 1, status=msgspec.structs.replace(second.status, phase=Phase.RETIRED)
    )
    decided = decide(of, [driver, first, second])
    assert decided.instances[second.instance_id].state is InstanceState.TERMINATING
    assert public_state(decided.cluster) is State.RUNNING


def test_a_lost_worker_is_replaced_with_an_event() -> None:
    of = up(cluster(num_workers=2))
    driver, first, second = nodes(of, 2)
    gone = msgspec.structs.replace(second, state=InstanceState.GONE, lost="its agent ended unexpectedly")
    decided = decide(of, [driver, first, gone])
    assert EventType.NODES_LOST in kinds(decided)
    assert [node.role for node in decided.new] == [Role.WORKER]
    assert decided.removed == [gone]
    assert public_state(decided.cluster) is State.RESIZING


def test_the_loss_of_a_worker_is_told_at_once_and_once() -> None:
    of = up(cluster(num_workers=2))
    driver, first, second = nodes(of, 2)
    leaving = msgspec.structs.replace(second, state=InstanceState.TERMINATING, lost="its agent ended unexpectedly")
    decided = decide(of, [driver, first, leaving])
    assert kinds(decided).count(EventType.NODES_LOST) == 1
    assert [node.role for node in decided.new] == [Role.WORKER]
    leaving = decided.instances[leaving.instance_id]
    assert leaving.loss_told
    for state in (InstanceState.TERMINATING, InstanceState.GONE):
        later = decide(decided.cluster, [driver, first, msgspec.structs.replace(leaving, state=state)])
        assert EventType.NODES_LOST not in kinds(later)


@pytest.mark.parametrize("state", [InstanceState.TERMINATING, InstanceState.GONE])  # its remains are being cleared, or are
def test_a_lost_driver_ends_the_cluster_with_its_reason(state: InstanceState, golden: Golden) -> None:
    of = up(cluster(num_workers=1))
    driver, worker = nodes(of, 1)
    gone = msgspec.structs.replace(driver, state=state, lost="its agent fell")
    decided = decide(of, [gone, worker])
    assert public_state(decided.cluster) is State.TERMINATING
    assert decided.cluster.termination_reason is not None
    assert decided.cluster.termination_reason.code is TerminationReasonCode.DRIVER_UNREACHABLE
    golden(decided.cluster.state_message, gone.lost)
    assert not decided.new
    assert decided.instances[worker.instance_id].state is InstanceState.TERMINATING


def test_a_driver_that_fails_ends_the_cluster_with_the_log() -> None:
    of = cluster(num_workers=0, single=True)
    failed = NodeStatus(
        phase=Phase.FAILED,
        generation=1,
        failure=Failure(code="SPARK_STARTUP_FAILURE", message="spark.x is bad", log_tail="line 1\nline 2"),
    )
    decided = decide(of, [instance(of, role=Role.SINGLE, status=failed)])
    reason = decided.cluster.termination_reason
    assert reason is not None
    assert reason.code is TerminationReasonCode.SPARK_STARTUP_FAILURE
    assert reason.type is TerminationReasonType.CLIENT_ERROR
    assert "spark.x is bad" in decided.cluster.state_message
    assert "line 2" in decided.cluster.state_message


def test_the_message_of_a_failure_has_its_reason_first_and_no_line_that_tells_of_normal_work() -> None:
    of = cluster(num_workers=0, single=True)
    tail = [f"26/11/27 03:00:{second:02} INFO SparkContext: Running" for second in range(29)]
    tail += ["26/11/27 03:00:30 ERROR SparkContext: failed", "java.lang.Exception: INFO of a user's own", ""]
    failure = Failure(code="DRIVER_EVICTION", message="the machine ran out of memory", log_tail="\n".join(tail))
    failed = NodeStatus(phase=Phase.FAILED, generation=1, failure=failure)
    decided = decide(of, [instance(of, role=Role.SINGLE, status=failed)])
    reason, message = decided.cluster.termination_reason, decided.cluster.state_message
    assert reason is not None and reason.type is TerminationReasonType.CLOUD_FAILURE
    assert (reason.parameters or {})["log_tail"] == failure.log_tail
    assert failure.message in message.splitlines()[0]
    assert message.splitlines()[-2:] == tail[-3:-1]
    assert "Running" not in message


def refused(of: Cluster, node: Instance, kind: str = "CapacityError", attempts: int = 1) -> Instance:
    error = LaunchError(kind=kind, message="4 cores asked, 1 left", asked="4 cores", left="1 core")
    return msgspec.structs.replace(
        node, state=InstanceState.REQUESTED, launch_error=error, attempts=attempts, launched_ms=0, registered_ms=0
    )


def test_no_room_for_the_driver_is_a_stockout_that_says_how_much() -> None:
    of = cluster(num_workers=1)
    decided = decide(of, [refused(of, instance(of, role=Role.DRIVER))])
    reason = decided.cluster.termination_reason
    assert reason is not None
    assert reason.code is TerminationReasonCode.CLOUD_PROVIDER_RESOURCE_STOCKOUT
    assert reason.parameters is not None
    assert (reason.parameters["asked"], reason.parameters["left"]) == ("4 cores", "1 core")


def test_a_start_goes_on_with_most_of_its_workers_and_says_so(golden: Golden) -> None:
    of = cluster(num_workers=7)
    have = nodes(of, 6)
    decided = decide(of, [*have, refused(of, instance(of, number=6))])
    assert public_state(decided.cluster) is State.RUNNING
    assert kinds(decided) == [EventType.ADD_NODES_FAILED, EventType.RUNNING, EventType.DRIVER_HEALTHY]
    golden(decided.cluster.state_message)


def test_a_shortage_shows_until_it_is_over(golden: Golden) -> None:
    of = up(cluster(num_workers=2), sized=False, ready_workers=1)
    short = decide(of, [*nodes(of, 1), refused(of, instance(of, number=1))]).cluster
    assert public_state(short) is State.RUNNING
    golden(short.state_message)
    whole = decide(short, nodes(short, 2)).cluster
    assert (whole.grow_failures, whole.state_message) == (0, "")


def test_a_start_with_too_few_workers_ends() -> None:
    of = cluster(num_workers=2)
    decided = decide(of, [*nodes(of, 1), refused(of, instance(of, number=1))])
    assert public_state(decided.cluster) is State.TERMINATING


def test_a_running_cluster_that_cannot_grow_goes_on_and_tries_again_later() -> None:
    of = sized(up(cluster(num_workers=1)), 2)
    decided = decide(of, [*nodes(of, 1), refused(of, instance(of, number=1))])
    assert public_state(decided.cluster) is State.RUNNING
    assert kinds(decided) == [EventType.ADD_NODES_FAILED]
    assert not decided.new
    assert decided.due_ms == NOW + POLICY.grow_backoff_ms
    later = decide(decided.cluster, nodes(of, 1), now=NOW + POLICY.grow_backoff_ms)
    assert [node.role for node in later.new] == [Role.WORKER]


def test_an_error_that_may_pass_is_tried_again_and_not_for_ever() -> None:
    of = cluster(num_workers=0, single=True)
    node = instance(of, role=Role.SINGLE)
    decided = decide(of, [refused(of, node, "TransientError")])
    assert decided.instances[node.instance_id].launch_error is None
    assert decided.instances[node.instance_id].not_before_ms > NOW
    last = decide(of, [refused(of, node, "TransientError", attempts=POLICY.launch_attempts)])
    assert last.cluster.target is Target.TERMINATED


def test_a_start_that_takes_too_long_ends() -> None:
    of = cluster(num_workers=1)
    decided = decide(of, nodes(of, 1, phase=Phase.STARTING), now=NOW + POLICY.launch_timeout_ms)
    assert decided.cluster.termination_reason is not None
    assert decided.cluster.termination_reason.code is TerminationReasonCode.BOOTSTRAP_TIMEOUT


def test_a_restart_keeps_instances_that_fit() -> None:
    before = up(cluster(num_workers=1))
    of = msgspec.structs.replace(before, incarnation=2, restarting=True)
    decided = decide(of, nodes(before, 1))
    assert not decided.new
    assert {node.generation for node in decided.instances.values()} == {2}
    assert all(node.assignment is not None and node.assignment.version == 2 for node in decided.instances.values())
    assert public_state(decided.cluster) is State.RESTARTING


def test_termination_sends_everything_away_and_ends_when_all_is_gone() -> None:
    of = msgspec.structs.replace(up(cluster(num_workers=1)), target=Target.TERMINATED)
    decided = decide(of, nodes(of, 1))
    assert {node.state for node in decided.instances.values()} == {InstanceState.TERMINATING}
    assert public_state(decided.cluster) is State.TERMINATING
    gone = [msgspec.structs.replace(node, state=InstanceState.GONE) for node in decided.instances.values()]
    done = decide(decided.cluster, gone)
    assert public_state(done.cluster) is State.TERMINATED
    assert done.cluster.terminated_ms == NOW
    assert done.due_ms == NOW + RETENTION_MS


def idle(minutes: int) -> Cluster:
    of = up(cluster(num_workers=0, single=True))
    return msgspec.structs.replace(of, spec=msgspec.structs.replace(of.spec, autotermination_minutes=minutes))


def test_an_idle_cluster_ends_after_its_minutes() -> None:
    of = idle(10)
    driver = instance(of, role=Role.SINGLE)
    assert decide(of, [driver], now=NOW + 599_999).due_ms == NOW + 600_000
    decided = decide(of, [driver], now=NOW + 600_000)
    assert decided.cluster.termination_reason is not None
    assert decided.cluster.termination_reason.code is TerminationReasonCode.INACTIVITY
    assert "INACTIVITY" in decided.cluster.state_message
    assert decided.cluster.termination_reason.parameters == {"inactivity_duration_min": "10"}


def test_a_busy_or_silent_driver_is_not_idle() -> None:
    of = idle(10)
    driver = instance(of, role=Role.SINGLE)
    busy = msgspec.structs.replace(driver, status=msgspec.structs.replace(driver.status, busy=True))
    assert decide(of, [busy], now=NOW + 10**9).cluster.target is Target.RUNNING
    unheard = decide(of, [driver], now=NOW + 10**9, silent=frozenset({driver.instance_id}))
    assert unheard.cluster.target is Target.RUNNING


def test_workers_that_keep_failing_end_a_start() -> None:
    of = msgspec.structs.replace(cluster(num_workers=1), worker_failures=2)
    driver, worker = nodes(of, 1)
    failed = NodeStatus(phase=Phase.FAILED, generation=1, failure=Failure(code="WORKER_SETUP_FAILURE", message="no disk"))
    decided = decide(of, [driver, msgspec.structs.replace(worker, status=failed)])
    assert decided.cluster.termination_reason is not None
    assert decided.cluster.termination_reason.code is TerminationReasonCode.WORKER_SETUP_FAILURE
    assert "no disk" in decided.cluster.state_message


def test_a_deleted_cluster_is_purged_once_nothing_is_left() -> None:
    of = msgspec.structs.replace(up(cluster(num_workers=0, single=True)), target=Target.TERMINATED, deleted_ms=NOW)
    assert not decide(of, [instance(of, role=Role.SINGLE)]).purge
    assert decide(of, []).purge


def test_a_terminated_cluster_is_purged_when_nothing_has_kept_it_for_thirty_days() -> None:
    of = cluster(target=Target.TERMINATED, ended=True, terminated_ms=NOW)
    last = NOW + RETENTION_MS
    assert not decide(of, [], now=last - 1).purge
    assert decide(of, [], now=last - 1).due_ms == last
    assert decide(of, [], now=last).purge
    pinned = msgspec.structs.replace(of, pinned_ms=NOW)
    assert not decide(pinned, [], now=last * 2).purge
    assert decide(pinned, [], now=last * 2).due_ms is None
    unpinned = msgspec.structs.replace(of, unpinned_ms=last)
    assert decide(unpinned, [], now=last).due_ms == last + RETENTION_MS
    assert decide(unpinned, [], now=last + RETENTION_MS).purge
    running = msgspec.structs.replace(of, target=Target.RUNNING, ended=False, incarnation=2)
    assert not decide(running, [], now=last).purge


def test_a_node_type_that_is_no_longer_offered_ends_the_cluster() -> None:
    decided = plan(cluster(), [], now=NOW, sizes={}, policy=POLICY)
    assert decided.cluster.termination_reason is not None
    assert decided.cluster.termination_reason.code is TerminationReasonCode.UNSUPPORTED_INSTANCE_TYPE


def test_a_cluster_that_is_up_goes_on_without_its_type_and_asks_again_later(golden: Golden) -> None:
    of = up(cluster(num_workers=2), sized=False)
    decided = plan(of, nodes(of, 1), now=NOW, sizes={}, policy=POLICY)
    assert decided.cluster.up
    assert not decided.new
    failed = [event for event in decided.events if event.type is EventType.ADD_NODES_FAILED]
    golden(failed[0].details.did_not_expand_reason or "")
    assert decided.due_ms == decided.cluster.grow_after_ms > NOW
    later = decided.due_ms
    again = plan(decided.cluster, nodes(of, 1), now=later, sizes=SIZES, policy=POLICY)
    assert [node.role for node in again.new] == [Role.WORKER]


def silent(node: Instance, since_ms: int, reason: str = "") -> Instance:
    """The same node, on which Spark answers nothing since then."""
    status = msgspec.structs.replace(node.status, silent_since_ms=since_ms, silent_reason=reason)
    return msgspec.structs.replace(node, status=status)


def test_a_driver_that_hangs_is_told_of_and_given_up_when_that_lasts(golden: Golden) -> None:
    of = up(cluster(num_workers=1))
    driver, worker = nodes(of, 1)
    hung = [silent(driver, NOW), worker]
    at_first = decide(of, hung, now=NOW + POLICY.silence_ms - 1)
    assert (kinds(at_first), at_first.due_ms) == ([], NOW + POLICY.silence_ms)
    told = decide(of, hung, now=NOW + POLICY.silence_ms)
    assert (kinds(told), told.due_ms) == ([EventType.DRIVER_NOT_RESPONDING], NOW + POLICY.give_up_ms)
    assert public_state(told.cluster) is State.RUNNING
    golden(told.cluster.state_message)
    assert kinds(decide(told.cluster, hung, now=NOW + POLICY.give_up_ms - 1)) == [], "it is told once"
    over = decide(told.cluster, hung, now=NOW + POLICY.give_up_ms)
    assert (kinds(over), public_state(over.cluster)) == ([EventType.TERMINATING], State.TERMINATING)
    reason = over.cluster.termination_reason
    assert reason is not None
    assert (reason.code, reason.type) == (TerminationReasonCode.DRIVER_UNRESPONSIVE, TerminationReasonType.SERVICE_FAULT)


def test_a_driver_that_is_silent_for_a_known_reason_names_it(golden: Golden) -> None:
    of = up(cluster(num_workers=1))
    driver, worker = nodes(of, 1)
    why = "its processes were used up"
    hung = [silent(driver, NOW, why), worker]
    told = decide(of, hung, now=NOW + POLICY.silence_ms)
    golden(told.cluster.state_message, why)
    over = decide(told.cluster, hung, now=NOW + POLICY.give_up_ms)
    reason = over.cluster.termination_reason
    assert reason is not None
    assert reason.code is TerminationReasonCode.DRIVER_UNRESPONSIVE
    golden((reason.parameters or {})["databricks_error_message"], why)


def test_a_driver_that_answers_again_is_healthy() -> None:
    of = up(cluster(num_workers=1))
    driver, worker = nodes(of, 1)
    told = decide(of, [silent(driver, NOW), worker], now=NOW + POLICY.silence_ms)
    back = decide(told.cluster, [driver, worker], now=NOW + POLICY.silence_ms + 1)
    assert (kinds(back), back.cluster.state_message) == ([EventType.DRIVER_HEALTHY], "")
    assert kinds(decide(back.cluster, [driver, worker], now=NOW + POLICY.give_up_ms)) == []


def test_a_worker_that_hangs_is_replaced() -> None:
    of = up(cluster(num_workers=2))
    driver, stays, hangs = nodes(of, 2)
    hangs = silent(hangs, NOW)
    before = decide(of, [driver, stays, hangs], now=NOW + POLICY.silence_ms - 1)
    assert (kinds(before), before.due_ms) == ([], NOW + POLICY.silence_ms)
    decided = decide(of, [driver, stays, hangs], now=NOW + POLICY.silence_ms)
    assert decided.instances[hangs.instance_id].state is InstanceState.TERMINATING
    assert [node.role for node in decided.new] == [Role.WORKER]
    assert kinds(decided)[0] is EventType.NODES_LOST


def test_nothing_is_concluded_from_the_idleness_of_a_driver_that_hangs() -> None:
    of = cluster(num_workers=0, single=True)
    of = up(msgspec.structs.replace(of, spec=msgspec.structs.replace(of.spec, autotermination_minutes=10)))
    driver = silent(instance(of, role=Role.SINGLE), NOW + 599_000)
    assert kinds(decide(of, [driver], now=NOW + 600_000)) == []


def test_a_disk_that_is_nearly_full_is_told_once(golden: Golden) -> None:
    of = up(cluster(num_workers=1))
    driver, worker = nodes(of, 1)
    full = msgspec.structs.replace(worker.status, disk_used=90 << 20, disk_limit=100 << 20)
    decided = decide(of, [driver, msgspec.structs.replace(worker, status=full)])
    assert kinds(decided) == [EventType.DID_NOT_EXPAND_DISK]
    details = decided.events[0].details
    assert (details.instance_id, details.disk_size, details.free_space) == (worker.instance_id, 100 << 20, 10 << 20)
    golden(details.did_not_expand_reason)
    told = decided.instances[worker.instance_id]
    assert kinds(decide(of, [driver, told])) == []
    again = decide(of, [driver, msgspec.structs.replace(told, status=worker.status)])
    assert kinds(again) == []
    assert not again.instances[worker.instance_id].disk_told, "it has room again; the next time is told again"


def test_a_node_that_has_nearly_all_the_files_that_it_may_have_is_told_as_well() -> None:
    of = up(cluster(num_workers=1))
    driver, worker = nodes(of, 1)
    many = msgspec.structs.replace(worker.status, files_used=9_000, files_limit=10_000)
    decided = decide(of, [driver, msgspec.structs.replace(worker, status=many)])
    assert kinds(decided) == [EventType.DID_NOT_EXPAND_DISK]
    details = decided.events[0].details
    assert (details.instance_id, details.disk_size, details.free_space) == (worker.instance_id, None, None)
    assert "9,000 of 10,000" in (details.did_not_expand_reason or "")
    assert kinds(decide(of, [driver, decided.instances[worker.instance_id]])) == []
