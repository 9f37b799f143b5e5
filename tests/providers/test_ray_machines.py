"""What follows from what Ray says of its machines."""

from __future__ import annotations

from pathlib import Path

import pytest

from brickyard.config.settings import Settings
from brickyard.domain.nodetypes import NodeType
from brickyard.providers.base import Setup, SetupError
from brickyard.providers.ray import machines, open_provider
from brickyard.providers.ray.machines import GIB, Machine
from brickyard.providers.ray.section import RaySection, Wishes, asked
from tests.support.golden import Golden


def machine(cores: float, gib: float, *, free: float = 1.0, **more: float) -> Machine:
    total = {"CPU": cores, "memory": gib * GIB, "node:10.0.0.1": 1.0, "object_store_memory": 1e9, **more}
    return Machine(id="1", host="10.0.0.1", total=total, free={key: value * free for key, value in total.items()})


A100 = {"GPU": 4.0, "accelerator_type:A100": 1.0}


def names(*there: Machine) -> list[str]:
    return [each.node_type_id for each in machines.offered(there)]


def test_each_size_of_machine_is_offered_whole_and_in_pieces() -> None:
    assert names(machine(4, 15.7), machine(4, 15.2), machine(1, 4)) == ["ray.1c-3g", "ray.1c-4g", "ray.2c-7g", "ray.4c-15g"]
    assert names(machine(0, 8), machine(0.5, 8), machine(8, 1)) == [], "none is too small for Spark"
    assert names() == []


def test_gpus_come_in_whole_numbers_with_their_share_of_the_machine() -> None:
    found = machines.offered([machine(32, 128, **A100)])
    assert [each.node_type_id for each in found] == [
        "ray.8c-32g",
        "ray.8c-32g-1xA100",
        "ray.16c-64g-2xA100",
        "ray.32c-128g-4xA100",
    ]
    assert (found[1].num_gpus, found[1].gpu_model, found[1].category) == (1, "A100", "GPU Accelerated")
    assert names(machine(8, 32, GPU=1.0)) == ["ray.2c-8g", "ray.8c-32g-1xgpu"]


def test_what_ray_is_asked_for() -> None:
    there = [machine(32, 128, **A100)]
    one = machines.offered(there)[1]
    model = machines.model_of(one, there)
    assert asked(one, Wishes(accelerator_type=model)) == {
        "CPU": 8.0, "memory": 32.0 * GIB, "GPU": 1.0, "accelerator_type:A100": 0.001,
    }  # fmt: skip
    named = NodeType(node_type_id="disk", num_cores=0.5, memory_mb=2048, category="")
    assert asked(named, Wishes(resources={"fast_disk": 1})) == {"CPU": 0.5, "memory": 2.0 * GIB, "fast_disk": 1.0}
    assert machines.text(asked(one, Wishes(accelerator_type=model))) == "8 cores, 32 GiB, 1 GPU (A100)"


def test_what_is_missing_is_named(golden: Golden) -> None:
    whole = {"CPU": 4.0, "memory": 8.0 * GIB}
    half = {"CPU": 2.0, "memory": 4.0 * GIB}
    two = [machine(4, 8), machine(4, 8, free=0.5)]
    assert machines.short_of([whole], two, waiting=[]) is None
    assert machines.short_of([half, half, half], two, waiting=[]) is None
    missing = machines.short_of([half, half], two, waiting=[half, half])
    assert missing is not None and (missing.asked, missing.left) == ("2 cores, 4 GiB", "0 cores, 0 GiB")
    golden(str(missing), missing.asked, missing.left)
    assert machines.short_of([half, half], two, waiting=[half, half], ending=[half, whole]) is None
    assert machines.short_of([half, half], two, waiting=[half, half, half], ending=[half]) is not None
    large = machines.short_of([{"CPU": 64.0, "memory": 1.0}], two, waiting=[])
    assert large is not None
    golden(str(large), "4 cores, 8 GiB")
    assert machines.short_of([half], [], waiting=[]) is not None


@pytest.mark.parametrize(
    ("free", "cores", "autoscaler"),
    [(1.0, 4.0, False), (0.0, 4.0, False), (1.0, 8.0, False), (1.0, 8.0, True), (0.0, 4.0, True)],
)
def test_what_an_instance_waits_for(free: float, cores: float, autoscaler: bool, golden: Golden) -> None:
    there = [machine(4, 8, free=free)]
    golden(machines.waits({"CPU": cores, "memory": float(GIB)}, there, autoscaler=autoscaler), f"{cores:.0f} cores, 1 GiB")
    golden(machines.waits({}, there, autoscaler=autoscaler))


def test_wishes_that_mean_nothing_are_refused(golden: Golden) -> None:
    wrong = [{"node_type_id": "a", "num_cores": 1.0, "memory_mb": 2048, "engine": {"gpu": 1}}]
    section = Setup(
        settings=Settings(sections={"ray": {"node_types": wrong}}), server_url="", workspace_id="", runtimes=()
    ).section(RaySection, "ray")  # fmt: skip
    with golden.refused(SetupError):
        section.wishes()


def test_an_interpreter_without_ray_is_refused_with_what_to_do(tmp_path: Path, golden: Golden) -> None:
    def setup(**section: str) -> Setup:
        settings = Settings(data_dir=tmp_path, sections={"ray": {"address": "127.0.0.2:1", **section}})
        return Setup(settings=settings, server_url="", workspace_id="", runtimes=())

    with golden.refused(SetupError):
        open_provider(setup())  # the environment of tests has none
    with golden.refused(SetupError):
        open_provider(setup(python="/nonexistent/python"))
