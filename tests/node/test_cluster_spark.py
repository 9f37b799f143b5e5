"""A cluster of a driver and two workers: what it answers, who can reach it, and what happens when a part of it goes."""

from __future__ import annotations

import re
import socket
import subprocess
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.node.node import HOST, Node, assignment
from tests.spark.live import QUICK_CONF
from tests.support.patience import PATIENCE_S, until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


class Cluster:
    """A driver and two workers, ready."""

    def __init__(self, root: Any, manifest: dict[str, Any]) -> None:
        self._root, self._manifest = root, manifest
        self.nodes: list[Node] = []
        self.driver = self.node()
        self.workers = [self.node(), self.node()]

    def node(self) -> Node:
        self.nodes.append(Node(self._root / f"node{len(self.nodes)}", self._manifest))
        return self.nodes[-1]

    def start(self) -> None:
        for worker in self.workers:
            worker.become("worker")
        conf = QUICK_CONF | {"spark.sql.shuffle.partitions": "4", "spark.test.setting": "honoured"}
        self.driver.become("driver", spark_conf=conf, spark_env_vars={"TEST_VARIABLE": "everywhere"})
        self.driver.wait(lambda status: "master_url" in status)
        assert self.driver.status.get("phase") != "ready", "the master is told before the driver is ready"
        for worker in self.workers:
            worker.result("master", master_url=self.driver.status["master_url"])
        for node in self.nodes:
            node.wait_phase("ready")
        self.driver.wait(lambda status: len(status["alive_workers"]) == 2)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, manifest: dict[str, Any]) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("cluster"), manifest)
    try:
        made.start()
        yield made
    finally:
        for node in made.nodes:
            node.close()


def test_the_workers_are_those_that_the_master_counts(cluster: Cluster) -> None:
    assert cluster.driver.status["alive_workers"] == sorted(worker.status["worker_address"] for worker in cluster.workers)


def test_python_functions_run_on_the_executors_with_conf_and_variables(cluster: Cluster) -> None:
    driver = cluster.driver
    assert driver.run("sc.parallelize(range(100), 4).map(lambda value: value * 2).sum()") == "9900"
    assert driver.run("spark.conf.get('spark.test.setting')") == "'honoured'"
    seen = "__import__('os').environ.get('TEST_VARIABLE')"
    assert driver.run(f"sorted(set(sc.parallelize(range(8), 8).map(lambda _: {seen}).collect()))") == "['everywhere']"
    assert driver.run(seen) == "'everywhere'"
    environment = driver.run("sorted(sc.environment)")
    assert "TEST_VARIABLE" in environment and "PYTHONHASHSEED" in environment, "PySpark has read them of the settings"


def test_activity_is_told(cluster: Cluster) -> None:
    driver = cluster.driver
    before = driver.status["last_activity_ms"]
    driver.run("import time; time.sleep(2.5)")
    driver.wait(lambda status: status["busy"] is False and status["last_activity_ms"] > before)
    assert any(change.get("busy") for change in driver.history)


WAITING = """
import os, time
def wait(_):
    while not os.path.exists({go!r}): time.sleep(0.05)
sc.parallelize(range(6), 6).map(wait).count()
"""


def test_the_load_is_told_worker_by_worker(cluster: Cluster) -> None:
    driver = cluster.driver
    addresses = sorted(worker.status["worker_address"] for worker in cluster.workers)
    # The cluster is ready when one executor has answered: the other one may still be starting.
    driver.run("import time\nwhile sc._jsc.sc().getExecutorMemoryStatus().size() < 3: time.sleep(0.1)")
    go = driver.directory / "go"  # tasks wait for it: the first look at the load takes its time on a busy machine
    command = driver.begin(WAITING.format(go=str(go)))
    both_busy = [[address, 1, 1, 0] for address in addresses]

    def loaded(status: dict[str, Any]) -> bool:
        load = status.get("load") or {}
        return load.get("pending") == 4 and load["backlog_since_ms"] > 0 and [each[:4] for each in load["workers"]] == both_busy

    driver.wait(loaded)
    go.touch()
    driver.finish(command)
    driver.wait(lambda status: not status["load"]["pending"] and all(worker[3] for worker in status["load"]["workers"]))
    assert [worker[:3] for worker in driver.status["load"]["workers"]] == [[address, 1, 0] for address in addresses]
    driver.run("spark.range(0, 1000000, 1, 8).selectExpr('rand() AS r').cache().count()")  # does not compress: 8 MB
    driver.wait(lambda status: all(worker[4] >= 1 and worker[3] for worker in status["load"]["workers"]))


def listening(nodes: list[Node]) -> set[tuple[str, int]]:
    found = set()
    for node in nodes:
        for process in node.processes():
            sockets = process.net_connections(kind="inet")
            found |= {(each.laddr[0], each.laddr[1]) for each in sockets if each.status == psutil.CONN_LISTEN}
    return found


def test_ports_are_on_loopback_and_none_speaks_http(cluster: Cluster) -> None:
    found = listening(cluster.nodes)
    assert found
    assert {address for address, _ in found} <= {HOST, "::1", f"::ffff:{HOST}"}
    answers = {}
    for _, port in found:
        with socket.create_connection((HOST, port), timeout=PATIENCE_S) as connection:
            connection.settimeout(1.0)
            try:
                connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
                answers[port] = connection.recv(64)
            except OSError:
                answers[port] = b""
    assert not [port for port, answer in answers.items() if answer.startswith(b"HTTP/")], answers


def test_a_worker_without_the_secret_stays_outside(cluster: Cluster) -> None:
    stranger = cluster.node()
    stranger.become("worker", secret="another secret", master_url=cluster.driver.status["master_url"])
    stranger.wait(lambda status: "worker_address" in status)
    until(lambda: "Failed to connect to master" in stranger.log(), "the master did not turn it away")
    assert stranger.status["phase"] != "ready"
    assert len(cluster.driver.status["alive_workers"]) == 2
    stranger.close()


@pytest.mark.any_runtime
def test_no_secret_is_on_a_command_line(cluster: Cluster) -> None:
    lines = " ".join(node.command_lines() for node in cluster.nodes)
    assert "CoarseGrainedExecutorBackend" in lines
    assert "the cluster's secret" not in lines
    assert "the-token" not in lines


@pytest.mark.any_runtime
def test_the_ports_that_spark_has_opened_on_the_driver_are_known(cluster: Cluster) -> None:
    """Its RPC and its blocks: no mapping may lead there."""
    rpc = cluster.driver.run("print(sc.getConf().get('spark.driver.port'))")
    blocks = cluster.driver.run("print(sc._jsc.sc().statusStore().executorSummary('driver').hostPort().rpartition(':')[2])")
    assert {int(rpc), int(blocks)} <= set(cluster.driver.status["spark_ports"])


CONNECT = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
print(spark.range(7).count(), spark.conf.get("spark.authenticate.secret", None))
"""

SECRETS = """
shown = {**dict(sc.getConf().getAll()), **{row.key: row.value for row in spark.sql("SET").collect()}}
for session in (spark, spark.newSession()):
    shown |= {name: session.conf.get(name, "") for name in ("spark.authenticate.secret", "spark.connect.authenticate.token")}
print(sorted({value for value in shown.values() if value in ("the cluster's secret", "the-token")}))
"""


@pytest.mark.any_runtime
def test_no_setting_that_code_lists_has_a_secret_of_the_cluster(cluster: Cluster) -> None:
    assert cluster.driver.run(SECRETS) == "[]"


def test_connect_asks_for_its_token(cluster: Cluster, manifest: dict[str, Any]) -> None:
    assert "connect_port" not in cluster.driver.status, "it starts when somebody asks for it"
    if not manifest["has_connect"]:
        assert "Maven" in cluster.driver.call("connect_open")["error"]["message"]
        return
    before = cluster.driver.status["last_activity_ms"]
    port = cluster.driver.result("connect_open")["port"]
    cluster.driver.wait(lambda status: status["last_activity_ms"] > before)
    assert cluster.driver.result("connect_open") == {"port": port}, "asking again changes nothing"
    assert cluster.workers[0].call("connect_open")["error"]["code"] == "INVALID"

    def count(token: str) -> subprocess.CompletedProcess[str]:
        url = f"sc://localhost:{port}/;authorization=Bearer%20{token}"
        return subprocess.run(
            [manifest["python"], "-c", CONNECT, url], capture_output=True, text=True, check=False, timeout=PATIENCE_S
        )

    right = count("the-token")
    assert right.stdout.split() == ["7", "None"], right.stderr[-500:]
    wrong = count("another")
    assert wrong.returncode != 0
    assert "UNAUTHENTICATED" in wrong.stderr


# A client of Spark Connect that adds files, says what its functions on the executors read of them, and stays until it is told.
GUEST = """
import itertools, pathlib, sys, zipfile
from pyspark.sql import SparkSession, functions as f
url, directory, text = sys.argv[1:]
for name in ("h.zip", "k.zip"):
    with zipfile.ZipFile(pathlib.Path(directory, name), "w") as archive:
        archive.writestr("whose.py" if name == "h.zip" else "k.txt", "TEXT = " + repr(text))
pathlib.Path(directory, "h.txt").write_text(text)
spark = SparkSession.builder.remote(url).getOrCreate()
spark.addArtifacts(directory + "/h.zip", pyfile=True)
spark.addArtifacts(directory + "/h.txt", file=True)
spark.addArtifacts(directory + "/k.zip#k", archive=True)

@f.udf("string")
def read(_):
    import os, whose
    from pyspark import SparkFiles
    assert repr(whose.TEXT) in open(SparkFiles.get("k/k.txt")).read()
    return whose.TEXT + open(SparkFiles.get("h.txt")).read()

for line in itertools.chain([""], sys.stdin):
    print([row[0] for row in spark.range(0, 8, 1, 4).select(read("id")).distinct().collect()], flush=True)
"""

# What Spark's own server records of such a client, for a line of Spark whose server this machine does not have.
RECORD = """
def record(session, directory):
    for kind, name in (("addedFiles", "h.zip"), ("addedFiles", "h.txt"), ("addedArchives", "k.zip#k")):
        files = sc._jvm.scala.collection.concurrent.TrieMap()
        states = getattr(sc._jsc.sc(), kind)()
        if states.get(session).isDefined():
            files = states.get(session).get()
        files.put(f"file:{directory}/{name}", 1)
        states.put(session, files)
"""

READS = """
from pyspark import SparkFiles
from pyspark.sql import functions as f

def reads(_):
    import importlib.util, os
    from pyspark import SparkFiles
    there = {os.path.basename(each) for each in ("h.zip", "h.txt", "k") if os.path.exists(SparkFiles.get(each))}
    return sorted(there | {"whose"} if importlib.util.find_spec("whose") else there)

def own(_):
    from pyspark import SparkFiles
    return open(SparkFiles.get("own.txt")).read()

def everywhere(function):
    said = [sc.parallelize(range(8), 4).map(function).map(str).distinct().collect()]
    for session in (spark, spark.newSession()):
        rows = session.range(0, 8, 1, 4).select(f.udf(function, "string")("id").alias("v")).distinct().collect()
        said.append([row.v for row in rows])
    return said
"""


CLASH = """
try:
    sc.addFile("dbfs:/b/own.txt")
except Exception:
    print("refused")
"""


@pytest.mark.extended  # tests/spark/test_user_isolation.py has files of sessions
def test_what_clients_add_to_their_sessions_is_theirs_and_disturbs_nobody(
    cluster: Cluster, manifest: dict[str, Any], tmp_path: Path
) -> None:
    directories = [tmp_path / "a", tmp_path / "b"]
    guests: list[subprocess.Popen[str]] = []
    try:
        if manifest["has_connect"]:
            url = f"sc://localhost:{cluster.driver.result('connect_open')['port']}/;authorization=Bearer%20the-token"
            for directory in directories:
                directory.mkdir()
                command = [manifest["python"], "-c", GUEST, url, str(directory), directory.name]
                guests.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
                assert read_line(guests[-1]) == str([directory.name * 2]), "its own files are there"
        else:
            cluster.driver.run(RECORD)
            for directory in directories:
                directory.mkdir()
                (directory / "h.txt").write_text(directory.name)
                for name in ("h.zip", "k.zip"):
                    with zipfile.ZipFile(directory / name, "w") as archive:
                        archive.writestr("whose.py", f"TEXT = {directory.name!r}")
                cluster.driver.run(f"record({directory.name!r}, {str(directory)!r})")
        cluster.driver.run(READS)
        assert cluster.driver.run("everywhere(reads)") == str([["[]"], ["[]"], ["[]"]])
        for node in cluster.nodes:
            for name, text in (("a", "own"), ("b", "other")):
                (node.directory / "dbfs" / name).mkdir(parents=True)
                (node.directory / "dbfs" / name / "own.txt").write_text(text)
        cluster.driver.run("sc.addFile('dbfs:/a/own.txt')")
        assert cluster.driver.run("everywhere(own)") == str([["own"]] * 3), (
            "the context's own files are there, in all its sessions"
        )
        assert cluster.driver.run("[each.rpartition('/')[2] for each in sc.listFiles]") == "['own.txt']"
        assert cluster.driver.run(CLASH) == "refused"
        assert cluster.driver.run("everywhere(own)") == str([["own"]] * 3), "a file that Spark refuses disturbs no job"
        for guest, directory in zip(guests, directories, strict=False):
            assert guest.stdin is not None
            print(file=guest.stdin, flush=True)
            assert read_line(guest) == str([directory.name * 2])
    finally:
        for guest in guests:
            guest.kill()
            guest.communicate()


def read_line(guest: subprocess.Popen[str]) -> str:
    assert guest.stdout is not None
    return guest.stdout.readline().strip()


COPIES = """
from pyspark import StorageLevel
numbers = sc.parallelize(range(1000), 4).persist(StorageLevel.MEMORY_ONLY_2)
print(numbers.count())
"""

LONG_JOB = """
from pyspark.sql import functions as f
kept = spark.range(0, 20000, 1, 8).withColumn("k", f.col("id") % 100).repartition(8, "k").cache()
kept.count()
total = 0
for turn in range(6):
    total += kept.rdd.map(lambda row: (row[1], row[0])).reduceByKey(lambda a, b: a + b, 8).map(lambda pair: pair[1]).sum()
print(total == 6 * sum(range(20000)))
"""


@pytest.mark.extended  # over a minute; tests/spark/test_cluster.py and test_data.py let workers leave jobs
def test_a_worker_retires_while_a_job_runs(cluster: Cluster) -> None:
    """With cached blocks that both workers have: Spark itself would look for a third one for ever."""
    driver, (leaving, staying) = cluster.driver, cluster.workers
    assert driver.run(COPIES) == "1000"
    command = driver.begin(LONG_JOB)
    until(lambda: driver.log().count("Starting job: sum") >= 2, "the job did not get going")
    leaving.result("retire")
    assert leaving.status["phase"] in ("retiring", "retired")
    leaving.wait_phase("retired")
    driver.wait(lambda status: status["alive_workers"] == [staying.status["worker_address"]])
    assert driver.finish(command).strip().endswith("True")
    log = driver.log()
    assert "FetchFailed" not in log
    assert " failed in " not in log, "no stage failed"
    assert driver.run("numbers.sum()") == "499500"
    left = [re.search(r"leaves with (\d+) cached blocks and (\d+) shuffle outputs", line) for line in driver.lines]
    ((cached, outputs),) = [found.groups() for found in left if found]
    assert int(cached) >= 4, "those that the other worker has too"
    assert outputs == "0", "all of them had moved"
    leaving.result("stop", grace_s=5)
    assert leaving.process.wait(PATIENCE_S) == 0


@pytest.mark.any_runtime
def test_a_worker_retires_while_its_executor_starts(cluster: Cluster) -> None:
    """Spark tells executors to leave once, and one that is not there yet does not hear it."""
    hasty = cluster.node()
    hasty.become("worker", master_url=cluster.driver.status["master_url"])
    until(lambda: "CoarseGrainedExecutorBackend" in hasty.command_lines(), "no executor was started")
    hasty.result("retire")
    hasty.wait_phase("retired")
    assert cluster.driver.run("sc.parallelize(range(10), 2).sum()") == "45"
    hasty.close()


def test_a_lost_worker_is_told_by_both_sides(cluster: Cluster) -> None:
    lost, before = cluster.workers[1], len(cluster.driver.status["alive_workers"])
    lost.jvm().kill()
    lost.wait_phase("failed")
    assert lost.status["failure"]["code"] == "INSTANCE_UNREACHABLE"
    assert "SIGKILL" in lost.status["failure"]["message"]
    cluster.driver.wait(lambda status: len(status["alive_workers"]) == before - 1)


@pytest.mark.any_runtime
def test_a_lost_driver_is_told(cluster: Cluster) -> None:
    driver = cluster.driver
    driver.jvm().kill()
    driver.wait_phase("failed")
    assert driver.status["failure"]["code"] == "DRIVER_UNREACHABLE"


@pytest.mark.any_runtime
def test_everything_ends_with_the_agents_pipe(cluster: Cluster) -> None:
    for node in cluster.nodes:
        below = node.processes()
        assert node.process.stdin is not None
        node.process.stdin.close()
        _, alive = psutil.wait_procs(below, timeout=PATIENCE_S)
        assert not alive


# Executors look for a service that is not there, which keeps each of them for a moment and then ends it.
LOST_SERVICE = "-Dspark.shuffle.service.enabled=true -Dspark.shuffle.registration.maxAttempts=1"


@pytest.mark.extended  # two JVMs; tests/node/test_startwatch.py counts executors that end
@pytest.mark.any_runtime
def test_a_start_whose_executors_end_one_after_the_other_fails_with_their_last_lines(
    new_node: Callable[[], Node], manifest: dict[str, Any], tmp_path: Path
) -> None:
    driver, worker, shared = new_node(), new_node(), tmp_path / "shared"
    shared.mkdir()
    conf = {"spark.executorEnv.JAVA_TOOL_OPTIONS": LOST_SERVICE, "spark.shuffle.service.enabled": "true"}
    for node, role, settings in ((worker, "worker", {}), (driver, "driver", conf)):
        place = {"host": HOST, "manifest": manifest, "node_dir": str(node.directory), "cluster_dir": str(shared)}
        node.call("become", role=role, assignment=assignment(role, spark_conf=settings), **place)
    driver.wait(lambda status: "master_url" in status)
    worker.result("master", master_url=driver.status["master_url"])
    driver.wait_phase("failed")
    failure = driver.status["failure"]
    assert failure["code"] == "SPARK_STARTUP_FAILURE"
    assert ":7337" in failure["message"] + failure["log_tail"], "where the service would listen"
    assert "ready" not in [told.get("phase") for told in driver.history]
    assert any(line.startswith("spark.shuffle.service.enabled") for line in driver.lines), "it is set aside with a note"
