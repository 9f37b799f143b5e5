"""A cluster's life through the official SDK on real Spark: resized under load, edited, attacked from within, and killed piece by
piece. One workspace and two clusters for all of it; the tests build on each other in order."""

from __future__ import annotations

import hashlib
import io
import json
import os
import urllib.request
from typing import Any

import pytest
from databricks.sdk.service.compute import ClusterDetails, CommandStatus, DbfsStorageInfo, InitScriptInfo, Kind, State
from prometheus_client.parser import text_string_to_metric_families

from brickyard.sandbox import launcher, network
from tests.spark.live import JVM, KERNEL, NODE, Live, command_line, living
from tests.support.depth import ALL
from tests.support.patience import until
from tests.support.runtimes import OTHER, SPARK_4, manifest_of

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

# Every node says who it is, whether a JVM runs already, and leaves a file where Spark's Python workers can see it.
MARK = b"""#!/bin/bash
set -eu
[ "$(command -v pip)" = "$(dirname "$HOME")/python/bin/pip" ]
mkdir -p /dbfs/marks
echo "$DB_IS_DRIVER $DB_DRIVER_IP $TEST_VARIABLE $(grep -l java /proc/[0-9]*/comm | wc -l)" >"/dbfs/marks/$DB_CONTAINER_IP"
echo from the script >"$HOME/mark"
"""
# Java starts beside a driver's scripts: this one waits for it, and then changes what it has read.
LATE = b"""#!/bin/bash
until grep -qs java /proc/[0-9]*/comm; do sleep 0.1; done
while [ -e "$HOME/../conf/gateway.info" ] || [ ! -e "$HOME/../conf/log4j2.properties" ]; do sleep 0.1; done
echo "# changed" >>"$HOME/../conf/log4j2.properties"
touch "$HOME/changed"
"""
CONF = {"spark.sql.shuffle.partitions": "4", "spark.test.setting": "first"}
PASSWORD = 'hunter2-"quoted" & <more>'
SINGLE: dict[str, Any] = {"is_single_node": True, "kind": Kind.CLASSIC_PREVIEW}


@pytest.fixture(scope="module")
def neighbour(live: Live) -> str:
    """A cluster of one node, on another line of Spark if all are tested."""
    live.w.dbfs.upload("/scripts/late.sh", io.BytesIO(LATE))
    script = InitScriptInfo(dbfs=DbfsStorageInfo("dbfs:/scripts/late.sh"))
    return live.create("neighbour", OTHER, quick=False, init_scripts=[script], **SINGLE)


@pytest.fixture(scope="module")
def cluster(live: Live, neighbour: str) -> str:
    """A cluster of a driver and a worker on Spark 4."""
    live.w.dbfs.upload("/scripts/mark.sh", io.BytesIO(MARK))
    live.w.secrets.create_scope("main")
    live.w.secrets.put_secret("main", "password", string_value=PASSWORD)
    live.w.secrets.put_secret("main", "other", string_value="read by dbutils")
    return live.create(
        "main", SPARK_4, num_workers=1, custom_tags={"team": "a"},
        spark_conf=CONF | {"spark.test.hidden": "user:{{secrets/main/password}}"},
        spark_env_vars={"TEST_VARIABLE": "set", "TEST_HIDDEN": "{{secrets/main/password}}"},
        init_scripts=[InitScriptInfo(dbfs=DbfsStorageInfo("dbfs:/scripts/mark.sh"))],
    )  # fmt: skip


def test_a_single_node(live: Live, neighbour: str, cluster: str) -> None:
    assert live.get(cluster).state is State.PENDING, "the other one starts meanwhile"
    live.wait(neighbour, State.RUNNING)
    said = live.run(neighbour, "print(spark.version, sc.master, spark.range(1000).selectExpr('sum(id)').first()[0])")
    version, master, total = said.split()
    assert version == manifest_of(OTHER)["spark_version"]
    assert (master, total) == ("local[1]", "499500")


def test_java_that_started_beside_a_script_is_replaced_if_the_script_changed_what_it_had_read(live: Live, neighbour: str) -> None:
    started = "sc._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getStartTime()"
    changed = "1000 * os.stat(os.path.expanduser('~/changed')).st_mtime"
    assert live.run(neighbour, f"import os; print({started} > {changed})") == "True"


def test_settings_variables_and_tags_reach_the_code(live: Live, cluster: str) -> None:
    live.wait(cluster, State.RUNNING, workers=1)
    said = json.loads(live.run(cluster, """
import json, os
seen = sc.parallelize([0], 1).map(lambda _: os.environ.get("TEST_VARIABLE")).first()
tags = json.loads(spark.conf.get("spark.databricks.clusterUsageTags.clusterAllTags"))
print(json.dumps([spark.version[:2], spark.conf.get("spark.test.setting"), os.environ.get("TEST_VARIABLE"), seen, tags]))
"""))  # fmt: skip
    tags = {tag["key"]: tag["value"] for tag in said.pop()}
    assert said == ["4.", "first", "set", "set"]
    assert tags == {**(live.get(cluster).default_tags or {}), "team": "a"}
    assert tags["ClusterId"] == cluster
    now = live.get(cluster)
    assert now.driver is not None and now.executors
    assert now.driver.private_ip != now.executors[0].private_ip, "Spark takes what has one address for one machine"


def test_metrics_of_its_nodes(live: Live, cluster: str) -> None:
    """Of both nodes, with real work: what Spark counts, and what the kernel does."""
    live.run(cluster, "print(spark.range(4_000_000).selectExpr('sum(sqrt(id))').first())")

    def nodes() -> dict[str, dict[str, float]]:
        asked = live.w.api_client.do("GET", "/api/2.0/clusters/metrics-snapshot", query={"cluster_id": cluster})
        assert isinstance(asked, dict)
        assert not any(node["simulated"] for node in asked["nodes"])
        return {node["role"]: node["metrics"] for node in asked["nodes"]}

    wanted = {"cpu_cores", "memory_bytes", "disk_bytes"}
    until(lambda: len(found := nodes()) == 2 and all(wanted <= each.keys() for each in found.values()), "samples of both nodes")
    until(lambda: {"gc_fraction", "heap_bytes", "executors", "tasks_active"} <= nodes()["driver"].keys(), "what Spark says")
    driver, worker = nodes()["driver"], nodes()["worker"]
    assert driver["executors"] == 1
    assert 50e6 < driver["heap_bytes"] < driver["memory_bytes"] * 1.5
    assert min(driver["memory_bytes"], worker["memory_bytes"]) > 100e6
    assert "executors" not in worker
    assert not {"gpu_fraction", "gpu_memory_bytes"} & driver.keys()
    isolated = network.allowed(launcher.choose("auto", launcher.probe())).kind == "isolated"
    assert ("network_in_bytes_per_s" in worker) == isolated


SLOW = "def wait(_):\n    while not os.path.exists('/dbfs/measured'): time.sleep(0.1)\nsc.parallelize(range(2), 2).foreach(wait)"


def test_what_prometheus_hears_of_its_tasks_and_executors(live: Live, cluster: str) -> None:
    running = live.workspace.running()
    assert running is not None

    def values() -> dict[tuple[str, str], float]:
        with urllib.request.urlopen(f"{running.url}/metrics") as answer:  # noqa: S310 - the test's own server
            families = [*text_string_to_metric_families(answer.read().decode())]
        found = [sample for family in families for sample in family.samples if sample.labels.get("cluster_id") == cluster]
        return {(each.name, each.labels.get("state", "")): each.value for each in found}

    context = live.context(cluster)
    command = live.begin(cluster, context, f"import os, time\n{SLOW}")
    seen = until(lambda: now if (now := values()).get(("brickyard_spark_tasks", "running"), 0) > 0 else None, "no running task")
    assert seen["brickyard_spark_executors", ""] == 1
    assert seen["brickyard_spark_driver_heap_bytes", ""] > 1e6
    live.touch("/measured")
    assert live.finish(cluster, context, command).status is CommandStatus.FINISHED
    live.w.command_execution.destroy(cluster, context)


def test_init_scripts_ran_on_every_node_before_spark(live: Live, cluster: str) -> None:
    now = live.get(cluster)
    assert now.driver is not None and now.executors
    driver, worker = str(now.driver.private_ip), str(now.executors[0].private_ip)
    marks = {str(file.path): live.w.dbfs.download(str(file.path)).read().decode() for file in live.w.dbfs.list("/marks")}
    assert marks == {f"/marks/{driver}": f"TRUE {driver} set 0\n", f"/marks/{worker}": f"FALSE {driver} set 0\n"}
    read = "lambda _: open(os.path.expanduser('~/mark')).read()"
    assert live.run(cluster, f"import os; print(sc.parallelize([0], 1).map({read}).first())").strip() == "from the script"
    kinds = live.events(cluster)
    told = [each.as_dict() for each in live.w.clusters.events(cluster) if "INIT" in str(each.type)]
    said = json.dumps([each.as_dict() for each in live.w.clusters.events(cluster)], indent=1)  # pytest would shorten a list
    assert [each["type"] for each in told] == ["INIT_SCRIPTS_FINISHED", "INIT_SCRIPTS_STARTED"], said
    assert kinds.index("INIT_SCRIPTS_FINISHED") < kinds.index("RUNNING")


def test_a_failing_init_script_ends_the_start(live: Live) -> None:
    live.w.dbfs.upload("/scripts/bad.sh", io.BytesIO(b"echo no such package >&2; exit 4"))
    script = InitScriptInfo(dbfs=DbfsStorageInfo("dbfs:/scripts/bad.sh"))
    code, parameters, message = live.ended(live.create("bad", OTHER, init_scripts=[script], **SINGLE))
    assert code == "INIT_SCRIPT_FAILURE"
    assert "dbfs:/scripts/bad.sh" in message
    assert "exit code 4" in parameters["databricks_error_message"]
    assert message.endswith("no such package")


def test_secrets_reach_the_code_and_are_shown_nowhere(live: Live, cluster: str) -> None:
    said = live.run(cluster, """
import hashlib, os, sys
seen = [os.environ["TEST_HIDDEN"], spark.conf.get("spark.test.hidden")[5:]]
seen += [sc.parallelize([0], 1).map(lambda _: os.environ["TEST_HIDDEN"]).first()]
print([hashlib.sha256(value.encode()).hexdigest() for value in seen])
print(seen, os.environ["TEST_HIDDEN"])
spark.sql("SELECT '" + seen[0] + "' AS secret").collect() and None
""")  # fmt: skip
    digests, shown = said.splitlines()
    assert digests.count(hashlib.sha256(PASSWORD.encode()).hexdigest()) == 3
    assert shown == "['[REDACTED]', '[REDACTED]', '[REDACTED]'] [REDACTED]"
    raised = live.context(cluster)
    error = live.finish(cluster, raised, live.begin(cluster, raised, "import os; raise ValueError(os.environ['TEST_HIDDEN'])"))
    assert error.results is not None
    assert "[REDACTED]" in str(error.results.summary)
    assert "hunter2" not in repr(error.as_dict())
    read = live.run(
        cluster, "value = dbutils.secrets.get('main', 'other'); print(len(value), value, dbutils.secrets.list('main'))"
    )
    assert read == "15 [REDACTED] [SecretMetadata(key='other'), SecretMetadata(key='password')]"
    now = live.get(cluster)
    assert now.spark_env_vars is not None and now.spark_env_vars["TEST_HIDDEN"] == "{{secrets/main/password}}"
    assert "hunter2" not in repr([now.as_dict(), [event.as_dict() for event in live.w.clusters.events(cluster)]])
    for process in live.processes():
        assert "hunter2" not in command_line(process), process
    database = [path.read_bytes() for path in live.data.glob("brickyard.db*")]
    assert not any(b"hunter2" in data for data in database)
    environment = live.spark_ui(cluster, "environment/")
    assert "spark.test.hidden" in environment
    assert "hunter2" not in environment


ATTACK = """
import json, os, urllib.error, urllib.request
def reads(path):
    try:
        with open(path, "rb") as file:
            return len(file.read())
    except OSError:
        return None
found = [path for path in PATHS if os.path.lexists(path) or reads(path) is not None]
found += sc.parallelize([0], 1).map(lambda _: [path for path in PATHS if os.path.lexists(path)]).first()
for path in PATHS:
    try:
        found.append((path, spark.read.text("file:" + path).count()))
    except Exception as error:
        assert "PATH_NOT_FOUND" in str(error), error
strangers, secrets = [], []
for number in [name for name in os.listdir("/proc") if name.isdigit()]:
    for name in ("cmdline", "environ"):
        try:
            text = open(f"/proc/{number}/{name}", "rb").read()
        except OSError:
            continue
        strangers += [number] if b"brickyard.agent" in text or b"brickyard.cli" in text else []
        secrets += [number] if any(secret.encode() in text for secret in SECRETS) else []
signalled = []
for number in PIDS:
    try:
        os.kill(number, 0)
        signalled.append(number)
    except OSError:
        pass
answers = []
for url in URLS:
    try:
        answers.append(urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=10).status)
    except urllib.error.HTTPError as error:
        answers.append(error.code)
    except OSError:
        answers.append("unreachable")
print(json.dumps([found, strangers, secrets, signalled, answers]))
"""


@pytest.mark.skipif(launcher.probe().kind == "none", reason=f"no isolation here: {launcher.probe().reason}")
def test_hostile_code_finds_nothing_that_is_not_its_own(live: Live, cluster: str, neighbour: str) -> None:
    live.run(neighbour, "open('secret.txt', 'w').write('the secret of a neighbour')")
    theirs = live.get(neighbour).driver
    ours = live.get(cluster).driver
    assert theirs is not None and ours is not None
    instances = live.data / "instances"
    paths = [live.data / name for name in ("brickyard.db", "workspace.key", "admin-token", "server.json", "server.log")]
    paths += [instances / str(ours.instance_id) / name for name in ("agent.json", "agent.log")]
    paths += [instances / str(theirs.instance_id) / name for name in ("agent.json", "node/work/secret.txt", "node/logs/stdout")]
    assert all(path.exists() for path in paths), "the attack aims at what is there"
    agent, stranger = live.driver_agent(cluster), live.below(live.driver_agent(neighbour), JVM)
    pids = [live.server().pid, agent.pid, stranger.pid, os.getpid()]
    tokens = json.loads((instances / str(ours.instance_id) / "agent.json").read_bytes())
    secrets = [live.workspace.stored_token(), live.workspace.storage.key().hex(), tokens["agent_token"], tokens["server_token"]]
    # A secret that the code names is in its own memory only; it looks for it in what others show of theirs.
    urls = [
        f"{live.w.config.host}/api/2.1/clusters/list",
        f"{live.w.config.host}/agent/v1/assignment?instance_id=x&have=0&wait=0",
    ]
    names = {"PATHS": [str(path) for path in paths], "PIDS": pids, "SECRETS": secrets, "URLS": urls}
    said = live.run(cluster, "".join(f"{name} = {value!r}\n" for name, value in names.items()) + ATTACK)
    found, strangers, seen, signalled, answers = json.loads(said)
    assert (found, strangers, seen, signalled) == ([], [], [], [])
    isolated = network.allowed(launcher.choose("auto", launcher.probe())).kind == "isolated"
    assert set(answers) <= ({"unreachable"} if isolated else {401, 403}), "the server's port is not there, or gives nothing away"


# Shuffles of every turn are summed again in the last one: what a worker that left had written must still be there.
JOB = """
import os
from operator import add
def shuffle(turn):
    return sc.parallelize(range(4000), 2).map(lambda n: (n % 100, n + turn)).reduceByKey(add, 2).values()
def each(found):
    return [found.apply(number) for number in range(found.size())]
def right(turn):
    return shuffles[turn].sum() == sum(range(4000)) + 4000 * turn
store, shuffles = sc._jsc.sc().statusStore(), []
while not os.path.exists("/dbfs/enough"):
    shuffles.append(shuffle(len(shuffles)))
    assert right(len(shuffles) - 1)
    used = sum(executor.totalTasks() > 0 for executor in each(store.executorList(False)))
    open(f"/dbfs/used-{used}", "w").close()
nothing = sc._gateway.new_array(sc._jvm.double, 0), sc._jvm.java.util.ArrayList()
stages = each(store.stageList(None, False, False, *nothing))
bad = [stage.stageId() for stage in stages if stage.status().toString() == "FAILED" or stage.attemptId() > 0]
print(all(right(turn) for turn in range(len(shuffles))), len(stages) > 2, bad)
"""


def test_resized_up_and_down_while_a_job_runs(live: Live, cluster: str) -> None:
    context = live.context(cluster)
    command = live.begin(cluster, context, JOB)
    until(lambda: live.w.dbfs.exists("/used-1"), "the job does not start")
    live.w.clusters.resize(cluster, num_workers=2)
    assert live.get(cluster).state is State.RESIZING
    live.wait(cluster, State.RUNNING, workers=2)
    until(lambda: live.w.dbfs.exists("/used-2"), "the new worker does nothing")
    live.w.clusters.resize(cluster, num_workers=1)
    live.wait(cluster, State.RUNNING, workers=1)
    live.touch("/enough")
    answer = live.finish(cluster, context, command)
    assert answer.results is not None and answer.results.data == "True True []", answer.results
    events = live.events(cluster)
    for kind in ("RESIZING", "UPSIZE_COMPLETED", "DECOMMISSION_STARTED", "DECOMMISSION_ENDED"):
        assert kind in events
    assert "NODES_LOST" not in events


def test_an_edit_restarts_it(live: Live, cluster: str) -> None:
    before = live.get(cluster)
    live.w.clusters.edit(cluster, SPARK_4, node_type_id=NODE, num_workers=1, spark_conf={"spark.test.setting": "second"})
    assert live.get(cluster).state is State.RESTARTING
    after = live.wait(cluster, State.RUNNING, workers=1)
    assert after.spark_context_id != before.spark_context_id
    assert (
        live.run(cluster, "import os; print(spark.conf.get('spark.test.setting'), os.environ.get('TEST_VARIABLE'))")
        == "second None"
    )


# The JVM alone: tests/node/test_cluster_spark.py has the driver and the agent tell it.
@pytest.mark.parametrize("part", [pytest.param("jvm", marks=pytest.mark.extended), "agent"])
def test_a_killed_worker_is_replaced(live: Live, cluster: str, part: str) -> None:
    before, losses = live.get(cluster), live.events(cluster).count("NODES_LOST")
    assert before.executors
    lost = str(before.executors[0].instance_id)
    agent = live.worker_agents(cluster)[0]
    node = [agent, *agent.children(recursive=True)]
    live.kill(agent if part == "agent" else live.below(agent, JVM))
    until(lambda: live.events(cluster).count("NODES_LOST") == losses + 1, "its loss was not told")
    after = until(lambda: _replaced(live, cluster, lost), "it was not replaced")
    assert after.spark_context_id == before.spark_context_id, "the driver went on"
    assert live.events(cluster).count("NODES_LOST") == losses + 1
    assert live.run(cluster, "print(sc.parallelize(range(10), 2).sum())") == "45"
    until(lambda: not living(node), "the lost node left processes behind")


def _replaced(live: Live, cluster: str, lost: str) -> ClusterDetails | None:
    now = live.get(cluster)
    workers = [each.instance_id for each in now.executors or []]
    return now if now.state is State.RUNNING and workers and lost not in workers else None


def test_a_killed_kernel_says_so(live: Live, cluster: str) -> None:
    context = live.context(cluster)
    command = live.begin(cluster, context, "open('/dbfs/kernel', 'w').close()\nimport time; time.sleep(600)")
    until(lambda: live.w.dbfs.exists("/kernel"), "the command does not start")
    live.kill(*live.all_below(live.driver_agent(cluster), KERNEL))
    answer = live.finish(cluster, context, command)
    assert answer.status is CommandStatus.ERROR
    assert answer.results is not None and "SIGKILL" in str(answer.results.summary)
    assert live.run(cluster, "print(spark.range(3).count())") == "3"


def test_a_killed_server_finds_its_clusters_again(live: Live, cluster: str) -> None:
    before = live.get(cluster)
    context = live.context(cluster)
    command = live.begin(
        cluster, context, "import os, time\nwhile not os.path.exists('/dbfs/back'): time.sleep(0.1)\nprint('done')"
    )
    live.kill(live.server())
    live.start()
    live.touch("/back")
    answer = live.finish(cluster, context, command)
    assert answer.results is not None and answer.results.data == "done"
    after = live.wait(cluster, State.RUNNING, workers=1)
    assert (after.driver, after.executors, after.spark_context_id) == (before.driver, before.executors, before.spark_context_id)


def test_a_conf_that_spark_refuses_ends_it_with_the_reason(live: Live, neighbour: str) -> None:
    conf = {"spark.serializer": "com.example.Missing"}
    live.w.clusters.edit(neighbour, OTHER, node_type_id=NODE, spark_conf=conf, **SINGLE)
    code, parameters, message = live.ended(neighbour)
    assert code == "SPARK_STARTUP_FAILURE"
    assert "spark.serializer" in parameters["databricks_error_message"]
    assert "SparkContext" in parameters["log_tail"]
    assert parameters["databricks_error_message"] in message.partition("\nLast lines of its log:\n")[0]
    assert " INFO " not in message


def test_a_killed_driver_ends_the_cluster_with_its_reason(live: Live, cluster: str) -> None:
    agents = [live.driver_agent(cluster), *live.worker_agents(cluster)]
    live.kill(live.below(agents[0], JVM))
    code, _, message = live.ended(cluster)
    assert code == "DRIVER_UNREACHABLE"
    assert "SIGKILL" in message
    assert not living(agents), "its nodes ended with it"


def test_everything_killed_at_once(live: Live, cluster: str, neighbour: str) -> None:
    """In the middle of one start, after the other: the next server brings both to an end that it can name."""
    live.w.clusters.edit(neighbour, OTHER, node_type_id=NODE, **SINGLE)
    live.w.clusters.start(cluster)
    live.w.clusters.start(neighbour)
    live.wait(cluster, State.RUNNING, workers=1)
    live.kill(live.server(), *live.nodes())
    live.start()
    for each in (cluster, neighbour):
        code, _, message = live.ended(each)
        assert code == "DRIVER_UNREACHABLE", message
    until(lambda: not live.nodes(), "something is left besides the server")
    # In every run, it has started after a killed driver, above.
    live.w.clusters.start(cluster)
    live.wait(cluster, *((State.RUNNING,) if ALL else (State.PENDING, State.RUNNING)))
    assert not ALL or live.run(cluster, "print(spark.range(3).count())") == "3"
    live.w.clusters.permanent_delete(cluster)
    until(lambda: not live.nodes(), "a deleted cluster left processes behind")
