"""A warm JVM on real Spark: anybody's until it becomes a driver or a worker, and then as good as one that was started for it."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.node.node import Node
from tests.support.patience import PATIENCE_S, until
from tests.support.runtimes import SPARK_4

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

# A warm node's share of the machine's memory; it is less where the JVMs of other tests use the same archives.
LIMIT_MIB = 430


def warm(node: Node) -> None:
    node.result(
        "prepare", manifest=node.manifest, node_dir=str(node.directory), heap_mb=614, java_options=[], env={}, role="",
        warm=True, cores=1,
    )  # fmt: skip


def share_mib(node: Node) -> float:
    """PSS of the node host and everything below it: pages that several processes map are shared out among them."""
    pages = []
    for process in node.processes():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
            pages.append(Path(f"/proc/{process.pid}/smaps_rollup").read_text())
    return sum(int(text.split("\nPss:")[1].split()[0]) for text in pages) / 1024


def practised(node: Node) -> bool:
    return "first commands were practised" in node.lines


def kernels(node: Node) -> list[psutil.Process]:
    return [each for each in node.processes() if "start.py kernel" in " ".join(each.cmdline())]


class Warm:
    """A driver and a worker that were warm, and became a cluster."""

    def __init__(self, root: Path, manifest: dict[str, Any]) -> None:
        self.nodes = [Node(root / name, manifest) for name in ("driver", "worker")]
        self.driver, self.worker = self.nodes
        self.jvms: list[int] = []
        self.idle_status: list[dict[str, Any]] = []
        self.idle_mib = 0.0
        self.idle_listening: list[tuple[int, str]] = []
        self.left: list[str] = []

    def prepare(self) -> None:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(warm, self.nodes))
        self.jvms = [node.jvm().pid for node in self.nodes]
        self.idle_status = [dict(node.status) for node in self.nodes]
        for node in self.nodes:
            until(partial(practised, node), "first commands are practised")
            assert len(node.lines) == 1, f"nothing of it has failed: {node.lines}"
        # The collector gives the heap back bit by bit.
        until(lambda: self._settle() <= LIMIT_MIB, f"a warm node has {self.idle_mib:.0f} MiB")
        places = [self.driver.directory / name for name in ("work", "tmp/practice", "logs/eventlog")]
        self.left = [path.name for place in places for path in place.rglob("*") if path.is_file()]

    def _settle(self) -> float:
        self.idle_mib = max(share_mib(node) for node in self.nodes)
        return self.idle_mib

    def start(self) -> None:
        assert "result" in self.worker.become("worker")
        assert "result" in self.driver.become("driver", spark_conf={"spark.test.setting": "honoured"})
        self.driver.wait(lambda status: "master_url" in status)
        self.worker.result("master", master_url=self.driver.status["master_url"])
        for node in self.nodes:
            node.wait_phase("ready")
        self.driver.wait(lambda status: len(status["alive_workers"]) == 1)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, manifest: dict[str, Any]) -> Iterator[Warm]:
    made = Warm(tmp_path_factory.mktemp("warm"), manifest)
    try:
        made.prepare()
        made.start()
        yield made
    finally:
        for node in made.nodes:
            node.close()


def test_a_warm_node_has_no_role_and_little_memory(cluster: Warm) -> None:
    assert all("phase" not in status and "master_url" not in status for status in cluster.idle_status)
    assert cluster.idle_mib <= LIMIT_MIB
    assert cluster.left == [], "no file of the round is left in its work directory"


def test_the_very_jvms_become_the_cluster(cluster: Warm) -> None:
    assert [node.jvm().pid for node in cluster.nodes] == cluster.jvms
    assert all("cold_reason" not in node.status for node in cluster.nodes)


FLAG = """
def flag(name):
    face = sc._jvm.java.lang.Class.forName("com.sun.management.HotSpotDiagnosticMXBean")
    bean = sc._jvm.java.lang.management.ManagementFactory.getPlatformMXBean(face)
    return int(bean.getVMOption(name).getValue())
"""


def test_the_heap_of_its_driver_grows_as_usual(cluster: Warm) -> None:
    driver = cluster.driver
    assert "-XX:MaxHeapFreeRatio=5" in driver.jvm().cmdline(), "while it waited, it had to save memory"
    driver.run(FLAG)
    until(lambda: driver.run("flag('MaxHeapFreeRatio')") == "70", "it need not save memory any more")
    until(lambda: driver.run("flag('MinHeapFreeRatio')") == "40", "nor grow only when it must")


def test_it_computes_on_its_executors_and_has_its_conf(cluster: Warm) -> None:
    driver = cluster.driver
    assert driver.run("sc.parallelize(range(100), 4).map(lambda value: value * 2).sum()") == "9900"
    assert driver.run("spark.range(1000).selectExpr('id % 2 AS k').groupBy('k').count().collect()[0][1]") == "500"
    assert driver.run("spark.conf.get('spark.test.setting')") == "'honoured'"
    assert driver.run("sc.applicationId != '' and sc.master.startswith('spark://')") == "True"


def test_nothing_of_the_round_is_known_to_the_cluster(cluster: Warm) -> None:
    known = cluster.driver.run("sc._conf.get('spark.databricks.clusterUsageTags.clusterId')")
    assert known == "'0101-000000-abcdefgh'"
    assert "first answer" not in cluster.driver.log()
    logs = {path.name for path in (cluster.driver.directory / "logs").iterdir()}
    assert {"stdout", "stderr", "log4j-active.log"} <= logs
    assert "local[" not in cluster.driver.log(), "the log of what was practised is gone"
    application = cluster.driver.run("sc.applicationId").strip("'")
    events = [path.name for path in (cluster.driver.directory / "logs" / "eventlog").iterdir()]
    assert [name.startswith(application) for name in events] == [True], events
    assert "Successfully registered with master" in cluster.worker.log()


CONNECT = """
import sys
from pyspark.sql import SparkSession
print(SparkSession.builder.remote(sys.argv[1]).getOrCreate().range(7).count())
"""


def test_connect_serves_again(cluster: Warm, manifest: dict[str, Any]) -> None:
    if not manifest["has_connect"]:
        assert "error" in cluster.driver.call("connect_open")
        return
    url = f"sc://localhost:{cluster.driver.result('connect_open')['port']}/;authorization=Bearer%20the-token"
    done = subprocess.run(
        [manifest["python"], "-c", CONNECT, url], capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )
    assert done.stdout.strip() == "7", done.stderr[-500:]


def test_a_worker_keeps_no_python_that_waits_for_a_driver(cluster: Warm) -> None:
    until(lambda: not kernels(cluster.worker), "the worker's kernel ends")
    assert kernels(cluster.driver)


@pytest.mark.extended  # a node is warmed; tests/agent/test_warm.py has a cluster that does not wait
def test_a_cluster_that_comes_at_once_cuts_the_practice_off(new_node: Callable[[], Node]) -> None:
    node = new_node()
    warm(node)
    before = node.jvm().pid
    assert "result" in node.become("single")
    (line,) = [line for line in node.lines if "practised" in line]
    assert "cluster" in line
    node.wait_phase("ready")
    assert node.jvm().pid == before
    assert node.run("spark.range(10).selectExpr('id % 2 AS k').groupBy('k').count().count()") == "2"
    application = node.run("sc.applicationId").strip("'")
    events = [path.name for path in (node.directory / "logs" / "eventlog").iterdir()]
    assert [name.startswith(application) for name in events] == [True], events
    assert not (node.directory / "tmp" / "practice").exists()


@pytest.mark.extended  # a node is warmed; test_starts_spark.py starts another JVM for such a conf
@pytest.mark.any_runtime
@pytest.mark.parametrize("manifest", [SPARK_4], indirect=True)
def test_a_conf_that_it_cannot_serve_gets_a_jvm_of_its_own(new_node: Callable[[], Node]) -> None:
    node = new_node()
    warm(node)
    before = node.jvm().pid
    assert "result" in node.become("single", spark_env_vars={"WISH": "granted"})
    assert "WISH" in node.status["cold_reason"]
    node.wait_phase("ready")
    assert node.jvm().pid != before
    assert node.run("sc.parallelize(range(10)).sum()") == "45"
    assert node.run("__import__('os').environ['WISH']") == "'granted'"
    assert json.dumps(node.history).count("cold_reason") == 1


@pytest.mark.extended  # a node is warmed; tests/agent/test_warm.py has what becomes of one that fails
@pytest.mark.any_runtime
@pytest.mark.parametrize("manifest", [SPARK_4], indirect=True)
def test_a_warm_jvm_that_dies_is_told(new_node: Callable[[], Node]) -> None:
    node = new_node()
    warm(node)
    node.jvm().kill()
    node.wait_phase("failed")
    assert "SIGKILL" in node.status["failure"]["message"]


@pytest.mark.any_runtime
@pytest.mark.parametrize("manifest", [SPARK_4], indirect=True)
def test_users_who_are_kept_apart_get_no_process_that_could_reach_the_jvm(new_node: Callable[[], Node]) -> None:
    node = new_node()
    warm(node)
    waited = {each.pid for each in kernels(node)}
    assert waited
    assert "result" in node.become("single", user_isolation=True)
    node.wait_phase("ready")
    until(lambda: not waited & {each.pid for each in kernels(node)}, "what waited has ended")
    names = "[name in __import__('os').environ for name in ('SPARK_REMOTE', 'PYSPARK_GATEWAY_PORT', 'PYSPARK_GATEWAY_SECRET')]"
    assert node.run(names) == "[True, False, False]"
    assert not waited & {each.pid for each in kernels(node)}
