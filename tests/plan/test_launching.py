"""Node types with alternates, and the spot market."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from brickyard.domain.cluster import Cluster, Instance, LaunchError
from brickyard.domain.events import EventType
from brickyard.domain.instances import InstanceState
from brickyard.domain.node import Phase, Role
from brickyard.domain.spec import (
    AwsAttributes,
    AwsAvailability,
    AzureAttributes,
    AzureAvailability,
    ClusterSpec,
    GcpAttributes,
    GcpAvailability,
    NodeTypeFlexibility,
    RuntimeEngine,
)
from brickyard.domain.terminations import TerminationReasonCode, TerminationReasonType
from brickyard.plan.cluster import Plan, plan
from brickyard.plan.launching import market_of, next_attempt
from brickyard.plan.policy import Policy
from brickyard.testing.builders import NOW, SIZES, SMALL, cluster, instance, nodes, up
from tests.support.golden import Golden

LARGE = msgspec.structs.replace(SMALL, node_type_id="large", num_cores=8.0, memory_mb=16_384)
TYPES = SIZES | {"large": LARGE}
MARKET = Policy(spot_markets=frozenset({""}))
NO_ROOM = LaunchError(kind="CapacityError", message="none left")
SPOT = AwsAttributes(availability=AwsAvailability.SPOT, first_on_demand=2)
FALLBACK = AwsAttributes(availability=AwsAvailability.SPOT_WITH_FALLBACK)


def asked(num_workers: int = 2, **fields: Any) -> Cluster:
    made = cluster(num_workers=num_workers)
    return msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, **fields))


def decide(of: Cluster, all_nodes: list[Instance], *, policy: Policy = MARKET) -> Plan:
    return plan(of, all_nodes, now=NOW, sizes=TYPES, policy=policy)


def refused(of: Cluster, *, number: int = 0, role: Role = Role.WORKER, **fields: Any) -> Instance:
    state = InstanceState.REQUESTED
    values = {"attempts": 1, "launch_error": NO_ROOM, **fields}
    return instance(of, role=role, number=number, phase=Phase.IDLE, state=state, **values)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, (False, False, 0)),
        ({"aws_attributes": AwsAttributes(availability=AwsAvailability.ON_DEMAND)}, (False, False, 0)),
        ({"aws_attributes": SPOT}, (True, False, 2)),
        ({"azure_attributes": AzureAttributes(availability=AzureAvailability.SPOT_WITH_FALLBACK_AZURE)}, (True, True, 0)),
        ({"gcp_attributes": GcpAttributes(availability=GcpAvailability.PREEMPTIBLE_GCP, first_on_demand=1)}, (True, False, 1)),
        ({"gcp_attributes": GcpAttributes(use_preemptible_executors=True)}, (True, False, 1)),
    ],
)
def test_each_clouds_words_mean_the_same(fields: dict[str, Any], expected: tuple[bool, bool, int]) -> None:
    assert market_of(ClusterSpec(**fields))[:3] == expected


def test_the_first_nodes_are_on_demand_the_driver_before_all() -> None:
    new = decide(asked(3, aws_attributes=SPOT), []).new
    assert [(node.role, node.spot) for node in new] == [
        (Role.DRIVER, False),
        (Role.WORKER, False),
        (Role.WORKER, True),
        (Role.WORKER, True),
    ]
    assert all(node.spot for node in decide(asked(3, aws_attributes=FALLBACK), []).new)


def test_later_nodes_are_spot_and_a_lost_one_on_demand_is_replaced_by_such() -> None:
    of = msgspec.structs.replace(up(asked(3, aws_attributes=SPOT)), sized=False)
    driver, first, second = nodes(of, 2)
    assert [node.spot for node in decide(of, [driver, first, msgspec.structs.replace(second, spot=True)]).new] == [True]
    both = [msgspec.structs.replace(node, spot=True) for node in (first, second)]
    assert [node.spot for node in decide(of, [driver, *both]).new] == [False]


def test_without_a_spot_market_every_node_is_on_demand_and_an_event_says_so(golden: Golden) -> None:
    of = asked(2, aws_attributes=SPOT, runtime_engine=RuntimeEngine.PHOTON)
    assert not any(node.spot for node in decide(of, [], policy=Policy()).new)
    running = decide(of, nodes(of, 2), policy=Policy(photon=False)).events[0]
    assert running.type is EventType.RUNNING
    message = running.details.driver_state_message or ""
    golden(message, "aws_attributes.availability", "PHOTON")
    plain = decide(asked(2), nodes(asked(2), 2)).events[0]
    assert plain.details.driver_state_message is None


def test_on_demand_takes_the_place_of_spot_where_that_is_allowed() -> None:
    of = asked(1, aws_attributes=FALLBACK)
    driver = instance(of, role=Role.DRIVER)
    decided = decide(of, [driver, refused(of, spot=True)])
    again = decided.instances["i-worker-0"]
    assert (again.spot, again.launch_error, again.state) == (False, None, InstanceState.REQUESTED)
    strict = decide(asked(1, aws_attributes=SPOT), [driver, refused(of, spot=True)])
    assert strict.cluster.termination_reason is not None
    assert strict.cluster.termination_reason.code is TerminationReasonCode.CLOUD_PROVIDER_RESOURCE_STOCKOUT


def test_alternates_are_tried_one_after_the_other() -> None:
    flexible = NodeTypeFlexibility(alternate_node_type_ids=["gone", "large"])
    of = asked(1, worker_node_type_flexibility=flexible, driver_node_type_flexibility=flexible)
    decided = decide(of, [refused(of, role=Role.DRIVER), refused(of)])
    for name in ("i-driver-0", "i-worker-0"):
        again = decided.instances[name]
        assert (again.node_type_id, again.launch_error) == ("large", None), "what is no longer offered is left out"
        assert again.assignment is not None
        assert (again.assignment.cores, again.assignment.worker_cores) == (8, 1), (
            "executors keep the size of the workers' own type"
        )
    last = [msgspec.structs.replace(node, launch_error=NO_ROOM) for node in decided.instances.values()]
    assert decide(decided.cluster, last).cluster.termination_reason is not None


def test_every_type_is_tried_in_the_spot_market_before_any_on_demand() -> None:
    fields = {"aws_attributes": FALLBACK, "worker_node_type_flexibility": NodeTypeFlexibility(alternate_node_type_ids=["large"])}
    of = asked(1, **fields)
    node, tried = refused(of, spot=True), []
    while (changes := next_attempt(node, of.spec, now=NOW, policy=MARKET, offered=TYPES)) is not None:
        node = msgspec.structs.replace(node, **changes)
        tried.append((node.node_type_id, node.spot))
        node = msgspec.structs.replace(node, launch_error=NO_ROOM)
    assert tried == [("large", True), ("small", False), ("large", False)]


def test_quota_and_mistakes_are_not_cured_by_another_type() -> None:
    of = asked(1, worker_node_type_flexibility=NodeTypeFlexibility(alternate_node_type_ids=["large"]))
    for kind in ("QuotaError", "InvalidError"):
        node = refused(of, launch_error=LaunchError(kind=kind, message="no"))
        assert next_attempt(node, of.spec, now=NOW, policy=MARKET, offered=TYPES) is None


def test_a_restart_keeps_what_fits_the_new_specification() -> None:
    flexible = NodeTypeFlexibility(alternate_node_type_ids=["large"])
    old = nodes(up(asked(2)), 2)
    old[1] = msgspec.structs.replace(old[1], node_type_id="large")
    old[2] = msgspec.structs.replace(old[2], spot=True)
    for fields, kept in (
        ({}, {"i-driver-0"}),
        ({"worker_node_type_flexibility": flexible}, {"i-driver-0", "i-worker-0"}),
        ({"aws_attributes": FALLBACK}, {"i-driver-0", "i-worker-1"}),
    ):
        of = msgspec.structs.replace(asked(2, **fields), incarnation=2, restarting=True)
        decided = decide(of, old)
        assert {name for name, node in decided.instances.items() if node.generation == 2 and node.live} == kept


def test_a_driver_that_the_spot_market_takes_back_is_told_as_such() -> None:
    of = up(asked(1, aws_attributes=FALLBACK))
    driver, worker = nodes(of, 1)
    gone = msgspec.structs.replace(driver, spot=True, state=InstanceState.GONE, lost="the provider no longer lists its instance")
    reason = decide(of, [gone, worker]).cluster.termination_reason
    assert reason is not None
    assert (reason.code, reason.type) == (TerminationReasonCode.SPOT_INSTANCE_TERMINATION, TerminationReasonType.CLOUD_FAILURE)


def test_a_restart_keeps_no_spot_instance_where_the_first_nodes_are_on_demand_by_now() -> None:
    before = up(asked(3, aws_attributes=FALLBACK))
    driver, *workers = [msgspec.structs.replace(node, spot=True) for node in nodes(before, 3)]
    edited = msgspec.structs.replace(before.spec, aws_attributes=SPOT)
    of = msgspec.structs.replace(before, spec=edited, incarnation=2, restarting=True)
    decided = decide(of, [driver, *workers])
    assert [(node.role, node.spot) for node in decided.new] == [(Role.DRIVER, False), (Role.WORKER, False)]
    kept = [node for node in decided.instances.values() if node.generation == 2]
    assert [(node.role, node.spot) for node in kept] == [(Role.WORKER, True)] * 2
    unchanged = msgspec.structs.replace(before, incarnation=2, restarting=True)
    assert not decide(unchanged, [driver, *workers]).new


def test_a_restart_keeps_the_mix_of_the_market() -> None:
    before = up(asked(3, aws_attributes=SPOT))
    all_nodes = [msgspec.structs.replace(node, spot=number >= 2) for number, node in enumerate(nodes(before, 3))]
    again = msgspec.structs.replace(before, incarnation=2, restarting=True)
    for some in (all_nodes, list(reversed(all_nodes))):
        assert not decide(again, some).new
    driverless = decide(again, all_nodes[1:])
    assert [(node.role, node.spot) for node in driverless.new] == [(Role.DRIVER, False)]
