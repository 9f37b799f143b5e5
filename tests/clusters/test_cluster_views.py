"""What clients see of a cluster: from rows to the API's object."""

from __future__ import annotations

import msgspec

from brickyard.clusters.views import cluster_details, node_type_view
from brickyard.domain.cluster import Cluster, Instance, Target
from brickyard.domain.node import Phase, Role
from brickyard.domain.spec import ClusterSpec
from brickyard.domain.states import State
from brickyard.domain.terminations import TerminationReason, TerminationReasonCode, TerminationReasonType
from brickyard.domain.views import ClusterDetails
from brickyard.testing.builders import NOW, SIZES, SMALL, cluster, instance, nodes, up
from tests.support.golden import Golden

REASON = TerminationReason(code=TerminationReasonCode.USER_REQUEST, type=TerminationReasonType.SUCCESS)


def view(of: Cluster, instances: list[Instance] | None = None, *, with_spec: bool = True) -> ClusterDetails:
    return cluster_details(of, instances or [], sizes=SIZES, with_spec=with_spec)


def test_a_running_cluster_shows_its_nodes() -> None:
    running = up(cluster(num_workers=2), spark_context_id=5)
    seen = view(running, nodes(running, 2))
    assert seen.state is State.RUNNING
    assert seen.driver is not None
    assert (seen.driver.instance_id, seen.driver.private_ip, seen.driver.start_timestamp) == ("i-driver-0", "127.0.0.1", NOW)
    assert [node.instance_id for node in seen.executors or []] == ["i-worker-0", "i-worker-1"]
    assert (seen.cluster_cores, seen.cluster_memory_mb) == (3.0, 3 * SMALL.memory_mb)
    assert (seen.spark_context_id, seen.jdbc_port, seen.start_time, seen.last_restarted_time) == (5, 10_000, NOW, NOW)
    assert (seen.state_message, seen.termination_reason, seen.terminated_time) == ("", None, None)


def test_a_running_cluster_tells_when_something_last_ran_on_it() -> None:
    running = up(cluster(num_workers=1))
    driver, worker = nodes(running, 1)
    assert view(running, [driver, worker]).last_activity_time is None, "nothing is told before its driver has"
    used = msgspec.structs.replace(driver, status=msgspec.structs.replace(driver.status, last_activity_ms=NOW - 5))
    assert view(running, [used, worker]).last_activity_time == NOW - 5
    assert view(cluster(), [used, worker]).last_activity_time is None, "a cluster that does not run has no driver"


def test_a_single_node_is_its_driver_alone() -> None:
    running = up(cluster(single=True))
    seen = view(running, [instance(running, role=Role.SINGLE)])
    assert seen.driver is not None
    assert seen.executors is None
    assert seen.num_workers == 0


def test_nodes_show_only_while_they_work() -> None:
    pending = cluster()
    assert view(pending, nodes(pending, 2)).driver is None
    running = up(pending)
    driver, first, second = nodes(running, 2)
    starting = instance(running, number=1, phase=Phase.STARTING)
    assert len(view(running, [driver, first, starting]).executors or []) == 1
    older = msgspec.structs.replace(second, generation=0)
    assert len(view(running, [driver, first, older]).executors or []) == 1


def test_resizing_says_how_far_it_is(golden: Golden) -> None:
    resizing = up(cluster(num_workers=3), sized=False)
    driver, first, second = nodes(resizing, 2)
    leaving = msgspec.structs.replace(second, retire_after_ms=NOW)
    assert view(resizing, [driver, first, second]).state is State.RESIZING
    golden(view(resizing, [driver, first, second]).state_message)
    told = view(resizing, [driver, first, leaving]).state_message
    golden(told)


def test_reasons_show_only_at_the_end() -> None:
    ended = cluster(target=Target.TERMINATED, ended=True, termination_reason=REASON, terminated_ms=NOW, state_message="why")
    seen = view(ended)
    assert (seen.state, seen.termination_reason, seen.terminated_time) == (State.TERMINATED, REASON, NOW)
    going = view(msgspec.structs.replace(ended, ended=False))
    assert (going.state, going.termination_reason, going.terminated_time) == (State.TERMINATING, REASON, None)
    again = view(msgspec.structs.replace(ended, target=Target.RUNNING))
    assert (again.state, again.termination_reason) == (State.PENDING, None)


def test_tags() -> None:
    plain = cluster()
    assert view(plain).custom_tags == {}
    assert view(plain).default_tags == {
        "Vendor": "Databricks",
        "Creator": "someone@example.com",
        "ClusterName": "test",
        "ClusterId": plain.cluster_id,
    }
    tagged = msgspec.structs.replace(plain, spec=msgspec.structs.replace(plain.spec, custom_tags={"Vendor": "me", "Team": "a"}))
    assert view(tagged).custom_tags == {"x_Vendor": "me", "Team": "a"}


def test_the_request_is_echoed_as_sent_and_only_by_get() -> None:
    request = ClusterSpec(
        spark_version="17.3.x-scala2.13", node_type_id="small", num_workers=2, apply_policy_default_values=False
    )
    asked = cluster(request=request)
    assert view(asked).spec == request
    assert view(asked, with_spec=False).spec is None
    assert view(asked).apply_policy_default_values is None


def test_node_types_have_every_field_that_clients_sort_by() -> None:
    fields = msgspec.to_builtins(node_type_view(SMALL))
    assert None not in fields.values()
    for name in ("is_deprecated", "num_cores", "memory_mb", "num_gpus", "instance_type_id", "node_info", "is_graviton"):
        assert name in fields
    assert not fields["photon_worker_capable"]
    assert msgspec.to_builtins(node_type_view(SMALL, photon=True))["photon_worker_capable"]
    disks = fields["node_instance_type"]
    assert set(disks) == {
        "instance_type_id",
        "local_disks",
        "local_disk_size_gb",
        "local_nvme_disks",
        "local_nvme_disk_size_gb",
    }
