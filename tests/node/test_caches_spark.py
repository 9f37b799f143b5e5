"""Java 25's caches under real Spark: a driver, a worker and an executor use theirs; one that does not fit stops nobody."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.node.node import Node
from tests.support.runtimes import NEWEST, manifest_of

pytestmark = [pytest.mark.spark, pytest.mark.extended, pytest.mark.timeout(1800)]

NODES = Callable[[dict[str, Any]], Node]


@pytest.fixture(scope="module")
def cached() -> dict[str, Any]:
    """The manifest of a runtime on Java 25."""
    manifest = manifest_of(NEWEST, trained=True)
    if not manifest["java_version"].startswith("25."):
        pytest.skip(f"the installed runtime {NEWEST} has Java {manifest['java_version']}")
    return manifest


@pytest.fixture
def node_of(tmp_path: Path) -> Iterator[NODES]:
    nodes: list[Node] = []

    def make(manifest: dict[str, Any]) -> Node:
        nodes.append(Node(tmp_path / f"node{len(nodes)}", manifest))
        return nodes[-1]

    yield make
    for node in nodes:
        node.close()


def mapped(process: psutil.Process) -> set[str]:
    return {Path(each.path).name for each in process.memory_maps() if each.path.endswith((".aot", ".jsa"))}


def executor(worker: Node) -> psutil.Process:
    return next(each for each in worker.processes() if "CoarseGrainedExecutorBackend" in " ".join(each.cmdline()))


def test_every_jvm_of_a_cluster_has_its_own_cache(cached: dict[str, Any], node_of: NODES) -> None:
    driver, worker = node_of(cached), node_of(cached)
    worker.become("worker")
    driver.become("driver")
    driver.wait(lambda status: "master_url" in status)
    worker.result("master", master_url=driver.status["master_url"])
    driver.wait_phase("ready")
    assert driver.run("print(spark.range(100, numPartitions=2).selectExpr('sum(id)').first()[0])") == "4950"
    assert mapped(driver.jvm()) == {"node.aot"}
    assert mapped(worker.jvm()) == {"worker.aot"}
    assert mapped(executor(worker)) == {"executor.aot"}
    assert not [line for node in (driver, worker) for line in node.lines if "fast start" in line]


@pytest.mark.parametrize("harm", ["truncated", "foreign", "garbage"])
def test_a_cache_that_does_not_fit_is_left_aside_and_the_log_says_so(
    cached: dict[str, Any], node_of: NODES, tmp_path: Path, harm: str
) -> None:
    bad = tmp_path / "node.aot"
    shutil.copyfile(cached["executor_archive" if harm == "foreign" else "node_archive"], bad)
    if harm == "truncated":
        with bad.open("r+b") as file:
            file.truncate(bad.stat().st_size // 2)
    elif harm == "garbage":
        bad.write_bytes(b"no cache at all" * 1000)
    driver = node_of({**cached, "node_archive": str(bad)})
    driver.become("single")
    driver.wait_phase("ready")
    assert driver.run("print(spark.range(10).count())") == "10"
    assert mapped(driver.jvm()) == set()
    assert [line for line in driver.lines if "fast start" in line]
