"""What the agent measures of a node, against processes that do a known amount of work."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from brickyard.agent.watching import sampling
from brickyard.agent.watching.meter import Watched
from brickyard.agent.watching.sampling import Counters, Sampled, Sampler, group_cpu_s, rates
from brickyard.domain.node import Load, WorkerLoad
from brickyard.domain.samples import METRICS, NodeAbout
from brickyard.machine import gpus
from brickyard.machine.cgroups import Group, Limits
from brickyard.machine.pressure import Usage
from brickyard.machine.processes import Process
from tests.support.gpus import describe

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="measures through /proc")
BUSY = "import time\nend = time.process_time() + 60\nwhile time.process_time() < end: pass"


@pytest.fixture
def busy() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", BUSY])
    yield process
    process.kill()
    process.wait()


class FakeNode:
    def __init__(self, pid: int, **fields: Any) -> None:
        watched = Watched(pid=pid, group=Group(), walled=False, limits=Limits(memory_mb=100, cores=1), share=1)
        values = {"cluster_id": "c", "generation": 1, "about": NodeAbout(role="driver"), "load": None, "numbers": {}}
        self.ended = ("", "")
        self.sampled: Sampled | None = Sampled(watched=watched, **{**values, **fields})

    def end(self, code: str, message: str, *, own_fault: bool = True) -> None:
        assert not own_fault
        self.ended = (code, message)

    def become(self, **fields: Any) -> None:
        assert self.sampled is not None
        self.sampled = msgspec.structs.replace(self.sampled, **fields)


class FakeWatch:
    def __init__(self, usage: Usage | None) -> None:
        self.usage = usage


class FakeLink:
    def sampled(self) -> None:
        pass


def sampler(node: FakeNode, usage: Usage | None = None, *, gpu_file: str = "") -> Sampler:
    return Sampler(node=node, watch=FakeWatch(usage), listener=FakeLink(), gpus=gpus.opened(gpu_file))


def values(of: Sampler) -> dict[str, float]:
    assert of.pending is not None
    return of.pending.samples[-1].values


async def test_a_busy_process(busy: subprocess.Popen[bytes]) -> None:
    node = FakeNode(busy.pid)
    measured = sampler(node, Usage(instance_id="i", at_s=0, memory=7, disk=8))
    await measured.run_once()
    assert values(measured) == {"memory_bytes": 7, "disk_bytes": 8}, "nothing to compare with yet"
    before, began = time.process_time(), time.monotonic()
    while values(measured).get("cpu_cores", 0.0) == 0.0 and time.monotonic() - began < 60:
        await asyncio.sleep(0.3)
        await measured.run_once()
    found = values(measured)
    assert 0 < found["cpu_cores"] <= 1.5
    assert found.keys() <= METRICS.keys()
    assert "network_in_bytes_per_s" not in found, "it has no network of its own"
    assert "gpu_fraction" not in found
    assert time.process_time() - before < 10


def test_a_sample_costs_little() -> None:
    """Of a node with 30 processes: far less than 1 % of a core, which would be 50 ms each."""
    children = [subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) for _ in range(30)]
    try:

        async def scenario() -> float:
            measured = sampler(FakeNode(os.getpid()))
            await measured.run_once()
            before = time.process_time()
            for _ in range(5):
                await measured.run_once()
            return (time.process_time() - before) / 5

        assert asyncio.run(scenario()) < 0.05
    finally:
        for child in children:
            child.kill()
            child.wait()


async def test_what_spark_says_of_itself_and_lies() -> None:
    workers = (WorkerLoad("a", 4, 3, 0, 0), WorkerLoad("b", 4, 1, 0, 0))
    node = FakeNode(os.getpid(), load=Load(pending=5, workers=workers), numbers={"gc_ms": 100, "heap_bytes": 9})
    measured = sampler(node)
    await measured.run_once()
    assert {name: values(measured)[name] for name in ("executors", "tasks_active", "tasks_waiting", "heap_bytes")} == {
        "executors": 2, "tasks_active": 4, "tasks_waiting": 5, "heap_bytes": 9,
    }  # fmt: skip
    assert "gc_fraction" not in values(measured)
    await asyncio.sleep(0.05)
    node.become(numbers={"gc_ms": 110, "tasks_done": 10})
    await measured.run_once()
    assert values(measured)["gc_fraction"] > 0
    lies: tuple[object, ...] = (float("nan"), -1, "many", [], True, 1e300, None)
    for lie in lies:
        node.become(numbers={"gc_ms": lie, "heap_bytes": lie, "more": 1})
        await measured.run_once()
        assert not {"gc_fraction", "heap_bytes", "more"} & values(measured).keys()


async def test_samples_wait_until_a_server_has_taken_them() -> None:
    node = FakeNode(os.getpid())
    measured = sampler(node)
    for _ in range(2):
        await measured.run_once()
        await asyncio.sleep(0.002)
    sent = measured.pending
    assert sent is not None
    await measured.run_once()
    measured.confirm(sent)
    assert measured.pending is not None
    assert len(measured.pending.samples) == 1
    measured.confirm(None)
    assert measured.pending.earlier == 2
    measured.again()
    assert (measured.pending.samples[:2], measured.pending.earlier) == (sent.samples, 0)
    assert len(measured.pending.samples) == 3
    for _ in range(sampling.KEPT + 5):
        measured._unconfirmed.append(measured.pending.samples[0])
    assert len(measured.pending.samples) == sampling.KEPT
    node.become(cluster_id="another", generation=2)
    await measured.run_once()
    assert (measured.pending.cluster_id, len(measured.pending.samples), measured.pending.earlier) == ("another", 1, 0)
    node.sampled = None
    await measured.run_once()
    assert len(measured.pending.samples) == 1


def test_rates_of_processes_that_come_and_go() -> None:
    old, young, gone = Process(1, 1), Process(2, 2), Process(3, 3)

    def at(seconds: float, cpu: Any, **fields: Any) -> Counters:
        return Counters(at_s=seconds, cpu=cpu, **{"read": None, "written": None, "received": None, "sent": None, **fields})

    found = rates(at(10, {old: 5.0, gone: 9.0}, received=100.0), at(12, {old: 6.0, young: 1.0}, received=300.0, sent=1.0))
    assert found == {"cpu_cores": 1.0, "network_in_bytes_per_s": 100.0}
    assert rates(at(10, 5.0), at(12, 4.0)) == {"cpu_cores": 0.0}
    assert rates(at(10, {old: 1.0}), at(12, 4.0)) == {}


@pytest.mark.parametrize(("file", "text"), [("cpu.stat", "usage_usec 1500000\nuser_usec 1\n"), ("cpuacct.usage", "1500000000\n")])
def test_processor_time_of_control_groups_of_both_versions(tmp_path: Path, file: str, text: str) -> None:
    (tmp_path / "memory").mkdir()
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / file).write_text(text)
    assert group_cpu_s(Group((str(tmp_path / "memory"), str(tmp_path / "cpu")))) == 1.5
    (tmp_path / "cpu" / file).write_text("nr_periods 0\n")
    assert group_cpu_s(Group((str(tmp_path / "cpu"),))) is None
    assert group_cpu_s(Group()) is None


def test_gpus_that_are_not_there_have_no_values() -> None:
    assert gpus.measure(gpus.opened(), ()) == {}


async def test_a_node_is_sampled_with_its_gpus_and_ends_with_them(tmp_path: Path) -> None:
    file = describe(
        tmp_path / "gpus.json", {"gpu_fraction": 0.5, "gpu_power_w": 100.0}, {"gpu_fraction": 0.25, "gpu_power_w": 50.0}
    )
    node = FakeNode(os.getpid(), gpus=("GPU-0", "GPU-1"))
    measured = sampler(node, gpu_file=file)
    await measured.run_once()
    assert (values(measured)["gpu_fraction"], values(measured)["gpu_power_w"]) == (0.375, 150)
    assert "gpu_memory_bytes" not in values(measured), "what cannot be measured is absent"
    describe(tmp_path / "gpus.json", {}, {}, lost=(1,))
    await measured.run_once()
    assert node.ended[0] == "INSTANCE_UNREACHABLE"
    assert "GPU-1" in node.ended[1]
    node.ended = ("", "")
    node.become(gpus=("GPU-0",), generation=2)
    await measured.run_once()
    assert node.ended == ("", ""), "another node's GPU"
