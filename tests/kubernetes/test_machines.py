"""Node types from machines, and room on them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from brickyard.domain.nodetypes import NodeType
from brickyard.providers.base import CapacityError
from brickyard.providers.capacity import Hardware
from brickyard.providers.kubernetes import machines
from brickyard.providers.kubernetes.machines import Room, Snapshot
from brickyard.providers.kubernetes.objects import Machine, Pod
from brickyard.providers.kubernetes.section import Template
from tests.kubernetes.kubelet import machine as document
from tests.support.golden import Golden


def machine(name: str, **more: Any) -> Machine:
    spec = {"taints": more.pop("taints", None), "unschedulable": more.pop("cordoned", None)}
    made = document(name, **more)
    made["spec"] = spec
    return msgspec.convert(made, Machine)


def pod(on: str | None, cpu: str, memory: str = "1Gi", *, owner: str = "", instance: str = "", **more: Any) -> Pod:
    requests = {"cpu": cpu, "memory": memory}
    meta = {"name": "p", "labels": {"brickyard.io/instance": instance} if instance else None}
    owners = [{"kind": owner}] if owner else None
    return msgspec.convert(
        {
            "metadata": {**meta, "ownerReferences": owners, **more},
            "spec": {"nodeName": on, "containers": [{"resources": {"requests": requests}}]},
            "status": {"phase": "Running"},
        },
        Pod,
    )


def kind(cores: float, gib: float = 1, *, gpus: int = 0, name: str = "t", model: str = "") -> NodeType:
    return NodeType(
        node_type_id=name, num_cores=cores, memory_mb=int(gib * 1024), category="test", num_gpus=gpus, gpu_model=model
    )


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3920m", 3.92),
        ("4", 4.0),
        ("15Gi", 15 * 2**30),
        ("16384Ki", 2**24),
        ("1e3", 1000.0),
        ("1.5G", 1.5e9),
        ("x", 0.0),
        ("", 0.0),
    ],
)
def test_quantities(text: str, value: float) -> None:
    assert machines.quantity(text) == pytest.approx(value)


def test_the_scheduler_counts_sidecars_and_the_largest_init_container() -> None:
    def part(cpu: str, **more: str) -> dict[str, Any]:
        return {"resources": {"requests": {"cpu": cpu, "memory": "100Mi"}}, **more}

    spec = {
        "containers": [part("1"), part("500m")],
        "initContainers": [part("4"), part("250m", restartPolicy="Always")],
        "overhead": {"cpu": "100m", "memory": "50Mi"},
    }
    made = msgspec.convert({"metadata": {}, "spec": spec}, Pod)
    assert machines.requests(made) == Hardware(4.1, 350, 0)


def test_node_types_are_what_machines_have_beside_their_daemons() -> None:
    kinds = machines.node_types(
        Snapshot(
            machines=(
                machine("a", cpu="8", memory="32Gi", **{machines.KIND: "m5.2xlarge"}),
                machine("b", cpu="7900m", memory="31Gi", **{machines.KIND: "m5.2xlarge"}),
                machine("c", cpu="16", memory="64Gi", gpus=4, **{"nvidia.com/gpu.product": "NVIDIA-A100"}),
                machine("d", cpu="16", memory="64Gi", cordoned=True, **{machines.KIND: "gone"}),
            ),
            pods=(pod("a", "250m", owner="DaemonSet"), pod("a", "2", owner="ReplicaSet"), pod("c", "100m", owner="Node")),
        )
    )
    found = {each.node_type_id: each for each in kinds}
    assert list(found) == ["k8s.small", "k8s.medium", "k8s.large", "k8s.m5.2xlarge", "k8s.16c-64g-4xNVIDIA-A100"]
    assert (found["k8s.m5.2xlarge"].num_cores, found["k8s.m5.2xlarge"].memory_mb) == (7.5, 31 * 1024)
    gpus = found["k8s.16c-64g-4xNVIDIA-A100"]
    assert (gpus.num_gpus, gpus.gpu_model, gpus.num_cores) == (4, "NVIDIA-A100", 15.5)
    assert [each.node_type_id for each in machines.node_types(None)] == ["k8s.small", "k8s.medium", "k8s.large"]


def test_room_is_what_requests_leave(golden: Golden) -> None:
    seen = Snapshot(
        machines=(machine("a", cpu="4", memory="8Gi"), machine("b", cpu="4", memory="8Gi")),
        pods=(
            pod("a", "3", instance="i-1"),
            pod("b", "2"),
            pod("b", "2", deletionTimestamp="2026-01-01T00:00:00Z"),
            pod(None, "1", instance="i-waits"),
        ),
    )
    room = Room(seen)
    room.take(kind(2), ())
    with golden.refused(CapacityError) as full:
        room.take(kind(1), ())
    assert (full.value.asked, full.value.left) == ("1 core and 1 GiB", "0 cores and 6 GiB")
    Room(seen, freed={"i-1"}).take(kind(3), ())
    with golden.refused(CapacityError):
        Room(seen).take(kind(5), ())


def test_many_small_ones_fill_a_machine_to_the_last_thousandth() -> None:
    room = Room(Snapshot(machines=(machine("a", cpu="1", memory="64Gi"),), pods=()))
    for _ in range(10):
        room.take(kind(0.1), ())
    with pytest.raises(CapacityError):
        room.take(kind(0.1), ())


def test_machines_that_may_not_run_it_have_no_room() -> None:
    taint = {"key": "dedicated", "value": "x", "effect": "NoSchedule"}
    gpu_taint = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
    seen = Snapshot(
        machines=(
            machine("tainted", taints=[taint]),
            machine("cordoned", cordoned=True),
            machine("gpus", gpus=1, taints=[gpu_taint], **{"nvidia.com/gpu.product": "L4"}),
        ),
        pods=(),
    )
    silent = document("silent")
    silent["status"]["conditions"][0]["status"] = "Unknown"
    seen = Snapshot(machines=(*seen.machines, msgspec.convert(silent, Machine)), pods=())
    with pytest.raises(CapacityError):
        Room(seen).take(kind(1), ())
    tolerant = msgspec.convert({"spec": {"tolerations": [{"key": "dedicated", "value": "x"}]}}, Template)
    Room(seen).take(kind(1), (tolerant,))
    with pytest.raises(CapacityError):
        Room(seen).take(kind(1), (tolerant, msgspec.convert({"spec": {"nodeSelector": {"zone": "b"}}}, Template)))
    Room(seen).take(kind(1, gpus=1, model="any name for people"), ())
    with pytest.raises(CapacityError):
        Room(seen).take(kind(1, gpus=1, name="k8s.x", model="H100"), ())
