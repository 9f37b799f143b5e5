"""Clusters in a workspace with several providers: whose nodes may be in one cluster, and who launches them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brickyard.domain.cluster import Cluster, Instance, LaunchError, Target
from brickyard.domain.errors import InvalidParameterValue
from brickyard.domain.instances import InstanceState
from brickyard.domain.node import Phase, Role
from brickyard.domain.nodetypes import NodeType
from brickyard.domain.pools import Pool, PoolSpec
from brickyard.domain.spec import AwsAttributes, AwsAvailability, ClusterSpec, NodeTypeFlexibility
from brickyard.domain.terminations import TerminationReason
from brickyard.plan.cluster import Plan, plan
from brickyard.plan.launching import apart, next_attempt, stays
from brickyard.plan.policy import Policy
from brickyard.plan.pool import plan_pool
from brickyard.plan.poolroom import PoolStock
from brickyard.plan.spec import Offered
from brickyard.plan.specifying import specify
from brickyard.testing.builders import NOW, RUNTIMES, SMALL, cluster, instance, nodes, up
from tests.support.golden import Golden


def kind(name: str, provider: str, network: str = "") -> NodeType:
    return msgspec.structs.replace(SMALL, node_type_id=name, provider=provider, network=network or provider)


TYPES = {
    each.node_type_id: each
    for each in (kind("small", "local"), kind("there", "ray", "machines"), kind("also", "slurm", "machines"))
}
POLICY = Policy()
NO_ROOM = LaunchError(kind="CapacityError", message="none left")


def asked(num_workers: int = 2, **fields: Any) -> Cluster:
    made = cluster(num_workers=num_workers)
    return msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, **fields))


def decide(of: Cluster, all_nodes: list[Instance], *, policy: Policy = POLICY, sizes: dict[str, NodeType] = TYPES) -> Plan:
    return plan(of, all_nodes, now=NOW, sizes=sizes, policy=policy)


NAMES = st.sampled_from([*TYPES, "nowhere"])


@given(worker=NAMES, driver=NAMES | st.none(), alternates=st.lists(NAMES, max_size=2), single=st.booleans())
def test_a_cluster_is_refused_exactly_if_its_nodes_may_not_reach_each_other(
    worker: str, driver: str | None, alternates: list[str], single: bool
) -> None:
    spec = ClusterSpec(
        node_type_id=worker,
        driver_node_type_id=driver,
        is_single_node=single or None,
        worker_node_type_flexibility=NodeTypeFlexibility(alternate_node_type_ids=alternates),
    )
    names = [driver or worker] if single else [driver or worker, worker, *alternates]
    networks = {TYPES[name].network for name in names if name in TYPES}
    assert bool(apart(spec, TYPES)) == (len(networks) > 1)


def test_the_refusal_names_both_fields_and_what_to_do(golden: Golden) -> None:
    version = "17.3.x-scala2.13"
    spec = ClusterSpec(spark_version=version, node_type_id="small", driver_node_type_id="there", num_workers=1)
    offered = Offered(node_types=TYPES, runtimes=RUNTIMES)
    with pytest.raises(InvalidParameterValue) as refused:
        specify(spec, offered, user="me")
    golden(refused.value.message, "node_type_id", "driver_node_type_id")
    good = msgspec.structs.replace(spec, node_type_id="also")
    assert specify(good, offered, user="me").spec.driver_node_type_id == "there"


def test_each_node_is_launched_by_the_provider_of_its_type() -> None:
    found = decide(asked(node_type_id="there", driver_node_type_id="also"), [])
    assert {(new.role, new.provider) for new in found.new} == {(Role.DRIVER, "slurm"), (Role.WORKER, "ray")}


def test_an_alternate_of_another_provider_is_asked_of_that_one() -> None:
    of = asked(node_type_id="there", worker_node_type_flexibility=NodeTypeFlexibility(alternate_node_type_ids=["also"]))
    node = instance(of, state=InstanceState.REQUESTED, node_type_id="there", provider="ray", launch_error=NO_ROOM, attempts=1)
    changes = next_attempt(node, of.spec, now=NOW, policy=Policy(), offered=TYPES)
    assert changes is not None
    assert (changes["node_type_id"], changes["provider"]) == ("also", "slurm")


@pytest.mark.parametrize(("markets", "spot"), [(["ray"], [True]), (["slurm"], [False])])
def test_only_where_there_is_a_spot_market_a_node_is_spot(markets: list[str], spot: list[bool]) -> None:
    of = asked(
        1, node_type_id="there", driver_node_type_id="there", aws_attributes=AwsAttributes(availability=AwsAvailability.SPOT)
    )
    found = decide(of, [], policy=Policy(spot_markets=frozenset(markets)))
    assert [new.spot for new in found.new if new.role is Role.WORKER] == spot


def moved(of: Cluster) -> list[Instance]:
    """The nodes of the cluster were launched by a provider that no longer has their type."""
    return [msgspec.structs.replace(node, provider="ray") for node in nodes(of, 1)]


def test_no_worker_joins_a_driver_whose_type_now_belongs_to_another_provider(golden: Golden) -> None:
    of = up(cluster(num_workers=1))
    of = msgspec.structs.replace(of, spec=msgspec.structs.replace(of.spec, num_workers=2), sized=False)
    found = decide(of, moved(of))
    assert found.cluster.target is Target.RUNNING
    assert not found.new
    golden(found.cluster.state_message)


def test_a_restart_takes_instances_of_the_new_provider() -> None:
    of = up(cluster(num_workers=1))
    before = moved(of)
    again = msgspec.structs.replace(of, incarnation=of.incarnation + 1, restarting=True, launch_started_ms=NOW)
    found = decide(again, before)
    assert {row.state for row in found.instances.values()} == {InstanceState.TERMINATING}
    assert {new.provider for new in decide(again, [*found.instances.values()]).new} == {"local"}


def test_an_idle_instance_of_the_wrong_provider_is_not_taken_and_goes() -> None:
    pool = Pool(
        instance_pool_id="p",
        creator_user_name="u",
        creator_user_id="1",
        created_ms=NOW,
        spec=PoolSpec(instance_pool_name="p", node_type_id="small", min_idle_instances=1),
    )
    of = cluster(num_workers=0, single=True)
    rows = [
        instance(of, number=number, role=Role.WARM, phase=Phase.IDLE, cluster_id="", pool_id="p", provider=provider)
        for number, provider in enumerate(["ray", "local"])
    ]
    wrong, right = rows
    assert not stays(wrong, TYPES)
    assert stays(right, TYPES)
    stock = PoolStock(pool, idle=rows, live=2)
    taken = [stock.take(lambda each: stays(each, TYPES)) for _ in range(2)]
    assert [None if isinstance(each, TerminationReason) else each.instance for each in taken] == [right, None]
    found = plan_pool(pool, rows, used=0, others=0, now=NOW, policy=Policy(), moved=frozenset({wrong.instance_id}))
    assert {key: row.state for key, row in found.instances.items()} == {wrong.instance_id: InstanceState.TERMINATING}
