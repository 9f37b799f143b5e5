"""What providers say of instances reaches people: which of it is written down, where it is shown, and how often."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from brickyard.domain.cluster import Cluster, Instance, Target
from brickyard.domain.events import ClusterEvent, EventType
from brickyard.domain.instances import InstanceState
from brickyard.domain.node import NodeStatus, Phase, Role
from brickyard.domain.pools import Pool, PoolSpec
from brickyard.domain.terminations import TerminationReasonCode
from brickyard.plan.cluster import Plan, plan
from brickyard.plan.policy import Policy
from brickyard.plan.pool import plan_pool
from brickyard.plan.providermessages import EVERY_S, LIMIT, MOST_EVENTS, Messages, brief
from brickyard.testing.builders import NOW, SIZES, cluster, instance, nodes, up
from tests.support.golden import Golden

POLICY = Policy()


def decide(of: Cluster, all_nodes: list[Instance], *, now: int = NOW) -> Plan:
    return plan(of, all_nodes, now=now, sizes=SIZES, policy=POLICY)


def coming(of: Cluster, message: str, *, role: Role = Role.WORKER, number: int = 0, **fields: Any) -> Instance:
    """An instance that the provider has accepted, and whose agent has not called."""
    made = instance(of, role=role, number=number, state=InstanceState.LAUNCHED, provider_message=message, **fields)
    return msgspec.structs.replace(made, status=NodeStatus(), registered_ms=0)


# -- which messages are written ----------------------------------------------------------------------------------------

TEXTS = st.sampled_from(["", "one", "two"])


@given(st.lists(st.tuples(st.dictionaries(st.sampled_from(["a", "b"]), TEXTS), st.floats(0, 20)), max_size=12))
def test_a_message_is_written_when_it_changes_and_not_too_often(looks: list[tuple[dict[str, str], float]]) -> None:
    messages, now = Messages(), 0.0
    rows: dict[str, str] = {}  # what the database has
    written: dict[str, float] = {}
    for first, (said, pause) in enumerate(looks):
        now += pause
        for gone in rows.keys() - said.keys():
            del rows[gone]
            written.pop(gone, None)
        changed = messages.look(said, now_s=now)
        for name, text in changed.items():
            assert not first or rows.get(name, "") != text, "what is there already is not written"
            assert not first or name not in written or now - written[name] >= EVERY_S
            rows[name], written[name] = text, now
        for name, text in said.items():
            late = name in written and now - written[name] < EVERY_S
            assert late or rows.get(name, "") == text


def test_another_server_may_have_written() -> None:
    messages = Messages()
    assert messages.look({"a": ""}, now_s=0) == {"a": ""}
    assert messages.look({"a": ""}, now_s=10) == {}
    messages.forget()
    assert messages.look({"a": ""}, now_s=20) == {"a": ""}


@given(st.text())
def test_a_message_is_one_short_line(text: str) -> None:
    line = brief(text)
    assert len(line) <= LIMIT
    assert line.isprintable()
    assert brief(line) == line


# -- a cluster that is coming ------------------------------------------------------------------------------------------


def waits(found: Plan) -> list[ClusterEvent]:
    return [event for event in found.events if event.type is EventType.AUTOSCALING_BACKOFF]


def test_a_pending_cluster_says_what_its_driver_waits_for(golden: Golden) -> None:
    of = cluster(num_workers=1)
    found = decide(of, [coming(of, "waiting for Ray: {CPU: 4}", role=Role.DRIVER), coming(of, "waiting for another thing")])
    golden(found.cluster.state_message)
    (event,) = waits(found)
    golden(event.details.did_not_expand_reason)


def test_when_the_driver_is_there_the_workers_message_counts(golden: Golden) -> None:
    of = cluster(num_workers=2)
    driver, worker, _ = nodes(of, 2)
    found = decide(of, [driver, worker, coming(of, "pod is unschedulable", number=7)])
    golden(found.cluster.state_message)


def test_workers_that_a_cluster_is_to_get_are_told_of_until_they_are_there(golden: Golden) -> None:
    of = msgspec.structs.replace(up(cluster(num_workers=2)), sized=False)
    found = decide(of, [*nodes(of, 1), coming(of, "no room yet", number=7)])
    golden(found.cluster.state_message)
    there = decide(found.cluster, nodes(of, 2))
    assert (there.cluster.state_message, there.cluster.sized) == ("", True)


@given(st.lists(st.sampled_from(["", "a", "b", "c"]), max_size=40))
def test_events_are_few_however_often_the_message_changes(said: list[str]) -> None:
    of, told = cluster(num_workers=0, single=True), 0
    for message in said:
        found = decide(of, [coming(of, message, role=Role.SINGLE)])
        told += len(waits(found))
        again = decide(found.cluster, [coming(of, message, role=Role.SINGLE)])
        assert not again.events
        assert again.cluster == found.cluster
        of = found.cluster
    assert told <= MOST_EVENTS


def test_a_start_that_takes_too_long_says_what_it_waited_for(golden: Golden) -> None:
    of = cluster(num_workers=0, single=True)
    late = NOW + POLICY.launch_timeout_ms
    found = decide(of, [coming(of, "waiting for Ray: {CPU: 4}", role=Role.SINGLE)], now=late)
    assert found.cluster.target is Target.TERMINATED
    golden(found.cluster.state_message)
    assert found.cluster.termination_reason is not None
    assert found.cluster.termination_reason.code is TerminationReasonCode.BOOTSTRAP_TIMEOUT


# -- an instance that ended --------------------------------------------------------------------------------------------


def ended(node: Instance, why: str) -> Instance:
    return msgspec.structs.replace(node, state=InstanceState.GONE, lost=why)


def test_a_driver_that_ended_before_its_agent_called_was_not_launched(golden: Golden) -> None:
    of = cluster(num_workers=0, single=True)
    found = decide(of, [ended(coming(of, "", role=Role.SINGLE), "its pod cannot pull its image")])
    reason = found.cluster.termination_reason
    assert reason is not None
    assert reason.code is TerminationReasonCode.CLOUD_PROVIDER_LAUNCH_FAILURE
    golden(found.cluster.state_message)


def test_a_driver_that_was_there_is_lost_with_what_the_provider_says(golden: Golden) -> None:
    of = up(cluster(num_workers=0, single=True))
    found = decide(of, [ended(instance(of, role=Role.SINGLE), "its Slurm job was preempted")])
    golden(found.cluster.state_message)


def test_workers_that_end_again_and_again_end_the_start_with_the_reason(golden: Golden) -> None:
    of, passes, evicted = cluster(num_workers=1), 0, "its pod was evicted"
    driver = nodes(of, 0)[0]
    events: list[ClusterEvent] = []
    while of.target is Target.RUNNING:
        found = decide(of, [driver, ended(coming(of, "", number=passes), evicted)])
        events += found.events
        of, passes = found.cluster, passes + 1
    assert passes == POLICY.max_worker_failures
    told = [event.details.driver_state_message for event in events if event.type is EventType.NODES_LOST]
    assert told == [evicted] * passes
    golden(of.state_message, evicted)


# -- pools -------------------------------------------------------------------------------------------------------------


def pool(**fields: Any) -> Pool:
    spec = PoolSpec(instance_pool_name="p", node_type_id="small", min_idle_instances=1)
    return Pool(instance_pool_id="p", creator_user_name="u", creator_user_id="1", created_ms=NOW, spec=spec, **fields)


def test_a_pool_says_what_its_pending_instances_wait_for_and_counts_no_failure(golden: Golden) -> None:
    row = msgspec.structs.replace(
        coming(cluster(), "no room yet", role=Role.WARM), cluster_id="", pool_id="p", created_ms=NOW, node_type_id="small"
    )
    found = plan_pool(pool(), [row], used=0, others=0, now=NOW, policy=POLICY)
    (waits,) = found.pool.errors
    assert waits.instance_id == row.instance_id
    golden(waits.message, row.provider_message)
    assert not found.pool.failures
    there = msgspec.structs.replace(row, state=InstanceState.REGISTERED, registered_ms=NOW, provider_message="")
    assert plan_pool(found.pool, [there], used=0, others=0, now=NOW, policy=POLICY).pool.errors == ()
    late = plan_pool(found.pool, [row], used=0, others=0, now=NOW + POLICY.launch_timeout_ms, policy=POLICY)
    golden(late.pool.errors[0].message)


def test_a_waiting_instance_of_a_pool_that_failed_before_is_told_of_only_while_it_waits(golden: Golden) -> None:
    row = msgspec.structs.replace(coming(cluster(), "no room yet", role=Role.WARM), cluster_id="", pool_id="p", created_ms=NOW)
    failed = decide_pool(pool(), msgspec.structs.replace(row, state=InstanceState.GONE, lost="it fell"))
    again = decide_pool(failed, row)
    fell, waits = again.errors
    golden(fell.message, "it fell")
    golden(waits.message, row.provider_message)
    silent = decide_pool(again, msgspec.structs.replace(row, provider_message=""))
    assert silent.errors == (fell,)


def decide_pool(of: Pool, row: Instance) -> Pool:
    return plan_pool(of, [row], used=0, others=0, now=NOW, policy=POLICY).pool


def test_a_cluster_that_runs_shows_a_warning_as_long_as_it_holds_unless_there_is_something_else_to_show() -> None:
    of = up(cluster(num_workers=1))
    rows = nodes(of, 1)
    warned = [msgspec.structs.replace(node, provider_message=f"warning {number}") for number, node in enumerate(rows)]
    found = decide(of, warned).cluster
    assert found.state_message == "Warning 0", "the driver's first"
    assert decide(found, [rows[0], warned[1]]).cluster.state_message == "Warning 1"
    assert decide(found, rows).cluster.state_message == ""
    other = msgspec.structs.replace(found, state_message="something else")
    assert decide(other, warned).cluster.state_message == "something else"
    assert all(row.status.phase is Phase.READY for row in rows)
