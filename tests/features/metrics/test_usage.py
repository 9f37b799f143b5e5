"""What a cluster uses, out of its nodes' samples, and the checks of its health."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brickyard.domain.cluster import Cluster, Instance, Target
from brickyard.domain.ports import PortMapping, PortProtocol, PortRow
from brickyard.domain.samples import METRICS, NodeAbout
from brickyard.domain.usage import MetricsWindow
from brickyard.domain.v1.details import HealthStatus
from brickyard.features.metrics.rules import USED, NodeNow, NodePast, used
from brickyard.plan.v1.health import checks
from brickyard.testing.builders import cluster, nodes, up
from tests.support.golden import Golden

ABOUT = NodeAbout(role="driver", node_type_id="small", cores=4, memory_mb=8192)
OTHER = msgspec.structs.replace(ABOUT, role="worker", cores=12)
HOUR = MetricsWindow.HOUR
VALUES = st.dictionaries(st.sampled_from(sorted(USED)), st.floats(0, 2**40))


def test_nodes_are_summed_up_and_shares_are_of_what_they_have() -> None:
    now = [
        NodeNow(ABOUT, 1_000, {"cpu_cores": 1.0, "memory_bytes": 2.0**30, "gpu_fraction": 0.2, "gpu_temperature_c": 50.0}),
        NodeNow(OTHER, 2_000, {"cpu_cores": 3.0, "memory_bytes": 2.0**31, "gpu_fraction": 0.6, "gpu_temperature_c": 70.0}),
    ]
    past = [NodePast(ABOUT, {"cpu_cores": [2.0, None, None]}), NodePast(OTHER, {"cpu_cores": [6.0, 3.0, None]})]
    found = used(now, past, HOUR)
    assert (found.nodes, found.timestamp) == (2, "1970-01-01T00:00:02.000Z")
    assert (found.cpu.cores, found.cpu.cores_used.current, found.cpu.utilization_percent.current) == (16, 4.0, 25.0)
    assert (found.cpu.cores_used.average, found.cpu.cores_used.maximum) == (5.5, 8.0)
    assert (found.cpu.utilization_percent.average, found.cpu.utilization_percent.maximum) == (37.5, 50.0)
    assert (found.memory.total_gb, found.memory.used_gb.current, found.memory.used_gb.average) == (16.0, 3.0, None)
    assert found.gpu is not None
    assert (found.gpu.utilization_percent.current, found.gpu.temperature_celsius.current) == (40.0, 70.0)
    assert found.gpu.power_watts.current is None, "what no node measures is absent, not 0"


def test_without_samples_there_are_no_numbers() -> None:
    found = used([], [], HOUR)
    assert (found.nodes, found.timestamp, found.gpu, found.cpu.cores) == (0, None, None, 0)
    assert set(msgspec.structs.astuple(found.cpu.utilization_percent)) == {None}


@given(st.lists(VALUES, max_size=3), st.lists(VALUES, max_size=3))
def test_every_number_is_one_and_the_average_is_not_above_the_maximum(
    now: list[dict[str, float]], past: list[dict[str, float]]
) -> None:
    found = used(
        [NodeNow(ABOUT, 1, each) for each in now],
        [NodePast(OTHER, {name: [value, None] for name, value in each.items()}) for each in past],
        HOUR,
    )
    groups = [found.cpu, found.memory, found.storage, found.network, *([found.gpu] if found.gpu else [])]
    for group in groups:
        for measure in msgspec.structs.astuple(group):
            if not isinstance(measure, int | float):
                assert all(value is None or math.isfinite(value) for value in msgspec.structs.astuple(measure))
                assert (measure.average is None) == (measure.maximum is None)
                assert measure.average is None or measure.average <= measure.maximum + 0.002


def test_the_metrics_that_are_used_are_those_of_nodes() -> None:
    assert set(METRICS) > USED
    assert {"cpu_cores", "memory_bytes", "disk_bytes", "gpu_fraction", "network_in_bytes_per_s"} <= USED


def running(**status: object) -> tuple[Cluster, list[Instance]]:
    """A cluster with two workers, all well but for what the driver reports."""
    made = up(cluster())
    found = []
    for number, node in enumerate(nodes(made, made.num_workers)):
        address = f"10.0.0.{number}:1"
        has = msgspec.structs.replace(node.status, generation=made.incarnation, worker_address=address)
        found.append(msgspec.structs.replace(node, endpoint="http://node", status=has))
    alive = tuple(each.status.worker_address for each in found)
    driver = msgspec.structs.replace(found[0].status, **{"alive_workers": alive, **status})
    return made, [msgspec.structs.replace(found[0], status=driver), *found[1:]]


def unwell(made: Cluster, instances: list[Instance], ports: tuple[PortRow, ...] = ()) -> dict[str, str]:
    return {each.name: each.message for each in checks(made, instances, ports) if each.status is HealthStatus.UNHEALTHY}


def test_a_cluster_that_is_well() -> None:
    made, instances = running()
    assert [each.name for each in checks(made, instances, ())] == ["driver", "spark", "workers", "disk"]
    assert unwell(made, instances) == {}


@pytest.mark.parametrize(
    ("status", "name"),
    [
        ({"silent_since_ms": 5}, "spark"),
        ({"alive_workers": ()}, "workers"),
        ({"disk_used": 9 << 30, "disk_limit": 10 << 30}, "disk"),
        ({"files_used": 9_000, "files_limit": 10_000}, "disk"),
    ],
)
def test_what_is_wrong_with_it_is_said(status: dict[str, object], name: str, golden: Golden) -> None:
    found = unwell(*running(**status))
    assert list(found) == [name]
    golden(found[name])


def test_a_driver_that_is_gone_a_listener_that_is_closed_and_a_cluster_that_is_off() -> None:
    made, instances = running()
    assert list(unwell(made, instances[1:])) == ["driver"]
    mapping = PortMapping(port_id="p", cluster_id="c", internal_port=5432, protocol=PortProtocol.TCP, external_port=15_432)
    assert unwell(made, instances, (PortRow(mapping=mapping, fault="taken"),)) == {"ports": "15432: taken"}
    assert unwell(made, instances, (PortRow(mapping=mapping, opened=made.incarnation),)) == {}
    off = msgspec.structs.replace(made, target=Target.TERMINATED)
    assert checks(off, instances, ()) == []
