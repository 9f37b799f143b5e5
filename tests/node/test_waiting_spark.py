"""An executor's JVM that waits, on real Spark: as good as one that was started for it, and gone with whatever it belongs to."""

from __future__ import annotations

import ast
import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from brickyard.runtime import catalogue
from tests.node.node import Node
from tests.node.test_warm_spark import share_mib
from tests.support.patience import until
from tests.support.runtimes import NEWEST, SPARK_3, SPARK_4

# Two nodes are warmed. test_waiting_command.py and test_waiting_holder.py have what a waiting JVM takes and gives.
pytestmark = [pytest.mark.spark, pytest.mark.extended, pytest.mark.timeout(900)]

MEMORY_MB = 1024
WAITING, LAUNCHER = "brickyard.WaitingExecutor", "waiting/java/bin/java"
LIMIT_MIB = 640  # a warm node's share of the machine's memory, with an executor

# The executor that runs a task is the parent of its Python daemon.
EXECUTOR = "int(open('/proc/' + str(__import__('os').getppid()) + '/stat').read().rpartition(')')[2].split()[1])"
FROM_CHILD = "{'cwd': __import__('os').getcwd(), 'env': dict(__import__('os').environ)}"
# What the executor's JVM was given when it began, and where relative paths lead.
FROM_JVM = """
import json
def ask(*words):
    text = ", ".join(repr(word) for word in words)
    return spark.range(1).selectExpr(f"java_method({text}) AS found").head().found
print(json.dumps({
    "env": ask("java.lang.System", "getenv"),
    "properties": ask("java.lang.System", "getProperties"),
    "threads": ask("java.lang.Thread", "getDefaultUncaughtExceptionHandler").partition("@")[0],
}))
"""
OF_ONE = ("SPARK_LOG_URL_STDERR", "SPARK_LOG_URL_STDOUT")  # name the executor


def find(node: Node, text: str) -> list[psutil.Process]:
    found = []
    for each in node.processes():
        with contextlib.suppress(psutil.NoSuchProcess):  # it has just ended
            found += [each] if text in " ".join(each.cmdline()) else []
    return found


def warmed(make: Callable[[], Node]) -> Node:
    """A warm node whose executor waits. Where the machine has much too much to do, the rehearsal ends without one
    (rehearsal.PATIENCE_S), as it should; then another node has its turn."""
    tried: list[list[str]] = []
    while len(tried) < 3:
        node = make()
        node.result(
            "prepare", manifest=node.manifest, node_dir=str(node.directory), heap_mb=614, java_options=[], env={}, role="",
            warm=True, cores=1, memory_mb=MEMORY_MB,
        )  # fmt: skip
        if "waits" in rehearsed(node):
            return node
        tried.append(node.lines)
        node.close()
    raise AssertionError(f"never warm: {tried}")


def rehearsed(node: Node) -> str:
    """Wait for the end of the rehearsal, and return what is said then."""
    ends = ("a JVM waits to be an executor", "first commands were practised")
    return until(
        lambda: next((line for line in node.lines if line.startswith(ends)), None), lambda: f"no end: {node.lines}, {node.status}"
    )


def join(driver: Node, worker: Node, **fields: Any) -> None:
    size = {"memory_mb": MEMORY_MB, "worker_cores": 1, "worker_memory_mb": MEMORY_MB}
    assert "result" in driver.become("driver", **size, **fields)
    enter(driver, worker)
    for node in (driver, worker):
        node.wait_phase("ready")


def enter(driver: Node, worker: Node) -> None:
    """Has a warm node become a worker of the driver's cluster."""
    assert "result" in worker.become("worker", memory_mb=MEMORY_MB)
    driver.wait(lambda status: "master_url" in status)
    worker.result("master", master_url=driver.status["master_url"])


def on_executor(driver: Node, code: str) -> str:
    return driver.run(f"sc.parallelize([0], 1).map(lambda _: {code}).first()")


def libraries(pid: int) -> list[str]:
    """The files of a native library that a JVM has unpacked and loaded. Linux marks those that are gone."""
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return sorted({line.partition("/liblz4")[2] for line in lines if "/liblz4" in line})


def words(text: str) -> dict[str, str]:
    """A map, as Java prints it."""
    return dict(each.partition("=")[::2] for each in text.strip("{}").split(", "))


class Met:
    """A driver, and a worker whose executor waited. On the first line of Spark the driver was as warm as its worker."""

    def __init__(self, root: Path, manifest: dict[str, Any]) -> None:
        self._root, self._manifest = root, manifest
        self.nodes: list[Node] = []

    def node(self) -> Node:
        self.nodes.append(Node(self._root / f"node{len(self.nodes)}", self._manifest))
        return self.nodes[-1]

    def start(self) -> None:
        self.worker = warmed(self.node)
        self.waited = find(self.worker, WAITING)[0].pid
        if (first := catalogue.find(SPARK_4)) is not None and first.environment == self._manifest["environment"]:
            self.driver = warmed(self.node)
            assert find(self.driver, WAITING), "any node may become a worker"
        else:
            self.driver = self.node()
        assert not any("failed" in line for line in self.worker.lines), "all that was to be rehearsed was"
        self.libraries = libraries(self.waited)  # native ones, that the waiting JVM had unpacked and loaded
        join(self.driver, self.worker)

    def files(self, name: str) -> list[Path]:
        """What each executor has written, in their order."""
        return sorted((self.worker.directory / "logs" / "executor").glob(f"app-*/*/{name}"))


@pytest.fixture(scope="module")
def met(tmp_path_factory: pytest.TempPathFactory, manifest: dict[str, Any]) -> Iterator[Met]:
    made = Met(tmp_path_factory.mktemp("met"), manifest)
    try:
        made.start()
        yield made
    finally:
        for node in made.nodes:
            node.close()


@pytest.mark.parametrize("manifest", [SPARK_4, SPARK_3, NEWEST], indirect=True)
def test_the_waiting_jvm_becomes_the_first_executor_and_a_new_one_is_the_same(met: Met) -> None:
    assert on_executor(met.driver, EXECUTOR) == str(met.waited)
    until(lambda: not find(met.driver, WAITING), "a driver has no use for it")
    assert not (met.worker.directory / "waiting" / "socket").exists()
    assert met.libraries and all(each.endswith(" (deleted)") for each in met.libraries), "it leaves no files"
    assert any(f"JVM {met.waited} " in line for line in met.worker.lines)
    first = json.loads(met.driver.run(FROM_JVM)), ast.literal_eval(on_executor(met.driver, FROM_CHILD))
    until(lambda: len(met.files("stderr")) == 1, "its output is kept")
    (output,) = met.files("stderr")
    text = output.read_text()
    assert text.startswith("Spark Executor Command: ")
    assert "Connecting to driver" in text, "it logs as any executor does"
    assert text.count("Starting executor ID") == 1, "nothing of the rehearsal is there"

    psutil.Process(met.waited).kill()
    until(lambda: on_executor(met.driver, EXECUTOR) != str(met.waited), "Spark takes another executor")
    assert "EXITED message Command exited with code 137" in met.worker.log()
    assert not find(met.worker, WAITING)
    assert not find(met.worker, LAUNCHER)
    second = json.loads(met.driver.run(FROM_JVM)), ast.literal_eval(on_executor(met.driver, FROM_CHILD))
    same(first[0], second[0])
    first_env, second_env = (dict(each[1]["env"]) for each in (first, second))
    for name in ("_SPARK_AUTH_SECRET", "SPARK_EXECUTOR_DIRS", *OF_ONE):  # the JVM passes those on that it was started with
        first_env.pop(name, None)
        second_env.pop(name, None)
    changed = {key for key in first_env if first_env[key] != second_env.get(key)}
    assert changed <= {"PYTHON_WORKER_FACTORY_SECRET", "SPARK_LOCAL_DIRS"}, "Python sees the same, but for what is random"
    assert first[1]["cwd"].endswith("/0") and second[1]["cwd"].endswith("/1"), "each has its own working directory"


def same(waited: dict[str, str], started: dict[str, str]) -> None:
    """Both JVMs were given the same, but for the executors' numbers."""
    first, second = words(waited["env"]), words(started["env"])
    assert first.keys() == second.keys()
    assert {key for key in first if first[key] != second[key]} <= set(OF_ONE)
    first, second = words(waited["properties"]), words(started["properties"])
    assert first.keys() == second.keys()
    assert {key for key in first if first[key] != second[key]} <= {"user.dir", "sun.java.command"}
    assert first["user.dir"].endswith("/0") and second["user.dir"].endswith("/1")
    assert first["sun.java.command"].replace("--executor-id 0", "--executor-id 1") == second["sun.java.command"]
    assert waited["threads"] == started["threads"]


@pytest.mark.any_runtime
@pytest.mark.usefixtures("met")  # other JVMs beside it that use the same archives, as on most machines with a warm node
@pytest.mark.parametrize("manifest", [SPARK_4], indirect=True)
def test_an_executor_that_does_not_fit_starts_its_own_jvm_and_says_why(new_node: Callable[[], Node]) -> None:
    driver, worker = new_node(), warmed(new_node)
    waited = find(worker, WAITING)[0].pid
    until(lambda: share_mib(worker) <= LIMIT_MIB, "the collector gives back what the rehearsal took")
    join(driver, worker, spark_conf={"spark.executor.memory": "512m"})
    assert on_executor(driver, EXECUTOR) != str(waited)
    (line,) = [line for line in worker.lines if all(each in line for each in ("spark.executor.memory", "512M", "768M"))]
    until(lambda: not find(worker, WAITING), "nothing waits any more")
    (output,) = (worker.directory / "work" / "executors").glob("app-*/0/stderr")
    assert line.partition(": ")[2] in output.read_text(), "the log of the executor says why as well"


@pytest.mark.any_runtime
@pytest.mark.parametrize("manifest", [SPARK_4], indirect=True)
def test_it_leaves_gracefully_with_its_worker(met: Met, new_node: Callable[[], Node]) -> None:
    worker = warmed(new_node)
    waited = find(worker, WAITING)[0]
    enter(met.driver, worker)
    worker.wait_phase("ready")
    until(lambda: any("has become an executor" in line for line in worker.lines), "its executor waited for this")
    (output,) = (worker.directory / "work" / "executors").glob("app-*/*/stderr")
    output = output.rename(worker.directory / "stderr")  # Spark's worker goes on to write it, and removes its directory
    until(lambda: "Successfully registered with driver" in output.read_text(), "it takes part")
    assert [each.pid for each in find(worker, WAITING)] == [waited.pid]
    worker.result("retire")
    worker.wait_phase("retired")
    assert not find(worker, WAITING)
    assert "decommission" in output.read_text().lower()
