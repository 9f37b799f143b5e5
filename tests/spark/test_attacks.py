"""Two users with a real cluster each: what one gets of the other's, from outside and by code on a cluster. Nothing."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest
import requests
from databricks.sdk.service.compute import Kind, State
from databricks.sdk.service.iam import ComplexValue

from brickyard.sandbox import launcher, network
from tests.spark.live import NODE, User
from tests.support.patience import PATIENCE_S
from tests.support.ports import free_port
from tests.support.runtimes import SPARK_4, manifest_of
from tests.support.server import Server

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

ANNA, BEN = "anna@example.com", "ben@example.com"
SHUT = {"401", "429"}  # who fails often has to wait, too
REFUSED = {"UNAUTHENTICATED": "401", "PERMISSION_DENIED": "403", "RESOURCE_EXHAUSTED": "429"}
CLIENT = """
import sys
from pyspark.sql import SparkSession
print(SparkSession.builder.remote(sys.argv[1]).getOrCreate().range(3).count())
"""
WEB = "import subprocess, sys; subprocess.Popen([sys.executable, '-m', 'http.server', '8123'])"
# Every address at which something of somebody else listens, from the driver's process and from Spark's Python workers.
KNOCK = """
import socket, subprocess, sys, time
quiet = subprocess.DEVNULL
subprocess.Popen([sys.executable, "-m", "http.server", "8124"], stdout=quiet, stderr=quiet)
def knock(place):
    host, port = place
    try:
        with socket.create_connection((host, port), timeout=5) as way:
            way.settimeout(5)
            way.sendall(b"GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
            return bool(way.recv(1))
    except OSError:
        return False
while not knock(PLACES[-1]):
    time.sleep(0.1)
print([place for place in PLACES if knock(place)], [place for place, open_ in
      zip(PLACES, sc.parallelize(PLACES, 2).map(knock).collect()) if open_])
"""
# Files of the machine, read by Spark's own means; one of them is the cluster's.
AROUND = """
import os
open("own.txt", "w").write("mine")
found = []
for path in [*PATHS, "file:" + os.path.abspath("own.txt")]:
    try:
        found.append((path.rpartition("/")[2], spark.read.text(path).count()))
    except Exception as error:
        assert "PATH_NOT_FOUND" in str(error), error
print(found)
"""


class World(NamedTuple):
    server: Server
    tokens: dict[str, str]
    clusters: dict[str, str]
    connect: int
    policy: str
    context: str = ""  # of Anna, with her command
    command: str = ""

    def user(self, name: str) -> User:
        return User(self.server.client(self.tokens[name]))


def token_of(server: Server, name: str) -> dict[str, Any]:
    made = server.client().api_client.do("POST", "/api/2.1/token-management/tokens", body={"user_name": name})
    assert isinstance(made, dict)
    return made


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    port = free_port()
    with Server.running(tmp_path_factory.mktemp("workspace"), connect_port=port) as server:
        admin, tokens, clusters = server.client(), {}, {}
        for name in (ANNA, BEN):
            admin.users.create(user_name=name, entitlements=[ComplexValue(value="allow-cluster-create")])
            tokens[name] = str(token_of(server, name)["token_value"])
            own = User(server.client(tokens[name]))
            clusters[name] = own.create(name, SPARK_4, is_single_node=True, kind=Kind.CLASSIC_PREVIEW)
        policy = admin.cluster_policies.create(name="of others", definition="{}").policy_id
        world = World(server, tokens, clusters, port, str(policy))
        for name in (ANNA, BEN):
            world.user(name).wait(clusters[name], State.RUNNING)
        put = f"{server.url}/v1/clusters/{clusters[ANNA]}/proxy"
        mapping = {"port_mappings": [{"internal_port": 8123}]}
        requests.put(put, json=mapping, headers=bearer(tokens[ANNA]), timeout=PATIENCE_S).raise_for_status()
        context = world.user(ANNA).context(clusters[ANNA])
        command = world.user(ANNA).begin(clusters[ANNA], context, WEB)
        world.user(ANNA).finish(clusters[ANNA], context, command)
        yield world._replace(context=context, command=command)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def doors(world: World) -> dict[str, Callable[[str], str]]:
    """Every way to Anna's cluster, by name: what it answers to a token. "in", or how it refuses."""
    cluster_id, url = world.clusters[ANNA], world.server.url
    of, context = {"cluster_id": cluster_id}, {"clusterId": cluster_id, "contextId": world.context}
    calls: list[tuple[str, str, dict[str, Any]]] = [
        ("GET", "/api/2.1/clusters/get", of),
        ("POST", "/api/2.1/clusters/events", of),
        ("GET", "/api/2.1/clusters/logs/list", of),
        ("GET", "/api/2.1/clusters/metrics", of),
        ("GET", "/api/2.1/clusters/list-attached", of),
        ("GET", "/api/2.1/clusters/spark-ui-link", of),
        ("GET", "/api/2.0/libraries/cluster-status", of),
        ("GET", "/api/2.0/policies/clusters/get-compliance", of),
        ("GET", f"/api/2.0/permissions/clusters/{cluster_id}", {}),
        ("PATCH", f"/api/2.0/permissions/clusters/{cluster_id}", {"access_control_list": []}),
        ("GET", "/api/1.2/contexts/status", context),
        ("POST", "/api/1.2/commands/execute", context | {"language": "python", "command": "1"}),
        ("GET", "/api/1.2/commands/status", context | {"commandId": world.command}),
        ("GET", f"/v1/clusters/{cluster_id}", {}),
        ("GET", f"/v1/clusters/{cluster_id}/proxy", {}),
        ("POST", f"/v1/clusters/{cluster_id}/snapshots", {"name": "s"}),
        ("GET", f"/spark-ui/{cluster_id}/jobs/", {}),
        ("GET", f"/ports/{cluster_id}/8123/", {}),
    ]

    def asked(method: str, path: str, body: dict[str, Any]) -> Callable[[str], str]:
        def ask(token: str) -> str:
            sent: dict[str, Any] = {"params": body} if method == "GET" else {"json": body}
            answer = requests.request(method, url + path, headers=bearer(token), timeout=PATIENCE_S, **sent)
            return "in" if answer.ok else str(answer.status_code)

        return ask

    found = {path: asked(method, path, body) for method, path, body in calls if method != "PATCH"}
    found |= {f"{method} {path}": asked(method, path, body) for method, path, body in calls if method == "PATCH"}
    return found | {"connect": lambda token: connected(world, token)}


def agent_of(world: World, name: str) -> psutil.Process:
    driver = world.user(name).get(world.clusters[name]).driver
    assert driver is not None
    place = world.server.data_dir / "instances" / str(driver.instance_id) / "agent.pid"
    return psutil.Process(json.loads(place.read_bytes())["pid"])


def jvm(process: psutil.Process) -> bool:
    return "PythonGatewayServer" in " ".join(process.cmdline())


def listening(process: psutil.Process) -> set[int]:
    """The TCP ports on which something waits for connections where the process has its network."""
    tables = [(Path(f"/proc/{process.pid}/net") / name).read_text() for name in ("tcp", "tcp6")]
    rows = [line.split() for table in tables for line in table.splitlines()[1:]]
    return {int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == "0A"}


def connected(world: World, token: str) -> str:
    """What stock PySpark gets to hear."""
    python = manifest_of(SPARK_4)["python"]
    url = f"sc://localhost:{world.connect}/;token={token};x-databricks-cluster-id={world.clusters[ANNA]}"
    done = subprocess.run([python, "-c", CLIENT, url], capture_output=True, text=True, check=False, timeout=300)
    if done.returncode == 0:
        return "in"
    return next((code for status, code in REFUSED.items() if status in done.stderr), done.stderr[-500:])


def test_who_has_no_right_gets_through_no_door(world: World) -> None:
    ways = doors(world)
    assert {name: way(world.tokens[BEN]) for name, way in ways.items()} == dict.fromkeys(ways, "403")


def test_a_token_opens_no_door_after_it_was_revoked(world: World) -> None:
    made = token_of(world.server, ANNA)
    ways = doors(world)
    token = str(made["token_value"])
    assert {name: way(token) for name, way in ways.items()} == dict.fromkeys(ways, "in")
    world.server.client().token_management.delete(made["token_info"]["token_id"])
    answers = {name: way(token) for name, way in ways.items()}
    assert set(answers.values()) <= SHUT, answers


def test_nobody_borrows_what_is_somebody_elses(world: World) -> None:
    """Ben's own cluster, run or job is no way to Anna's cluster, pool or policy, however he names them."""
    ben, theirs, own = world.user(BEN), world.clusters[ANNA], world.clusters[BEN]
    spec = {"spark_version": SPARK_4, "node_type_id": NODE, "num_workers": 1}
    script = {"spark_python_task": {"python_file": "dbfs:/x.py"}, "task_key": "t"}
    borrowed: list[tuple[int, str, dict[str, Any]]] = [
        (403, "/api/2.1/clusters/create", spec | {"clone_from": {"source_cluster_id": theirs}}),
        (403, "/api/2.2/jobs/runs/submit", {"tasks": [script | {"existing_cluster_id": theirs}]}),
        (403, "/api/2.2/jobs/runs/submit", {"tasks": [script | {"new_cluster": spec | {"policy_id": world.policy}}]}),
        (403, "/api/2.1/clusters/edit", spec | {"cluster_id": own, "policy_id": world.policy}),
        (403, "/api/2.0/policies/clusters/enforce-compliance", {"cluster_id": theirs}),
        (403, f"/v1/clusters/{own}/../{theirs}/stop", {}),
        (404, f"/v1/clusters/{own}%2F..%2F{theirs}/stop", {}),
        (404, "/api/1.2/commands/execute",
         {"clusterId": own, "contextId": world.context, "language": "python", "command": "1"}),
    ]  # fmt: skip
    said = []
    for _, path, body in borrowed:
        answer = requests.post(world.server.url + path, json=body, headers=bearer(world.tokens[BEN]), timeout=PATIENCE_S)
        said.append((answer.status_code, path, body))
    assert said == borrowed
    assert world.user(ANNA).get(theirs).state is State.RUNNING
    assert [each.cluster_id for each in ben.w.clusters.list()] == [own]


@pytest.mark.skipif(
    network.allowed(launcher.choose("auto", launcher.probe())).kind != "isolated",
    reason="clusters here share the machine's network",
)
def test_code_on_a_cluster_reaches_nothing_of_others(world: World) -> None:
    """Not the server, not agents, not the neighbour's Spark and programs, at any address; and no files."""
    theirs = world.user(ANNA).get(world.clusters[ANNA]).driver
    assert theirs is not None and theirs.private_ip is not None
    agent = agent_of(world, ANNA)
    outside, (inside,) = listening(psutil.Process()), [listening(each) for each in agent.children(recursive=True) if jvm(each)]
    assert {8123, int(world.server.url.rpartition(":")[2])} <= inside | outside, "the attack aims at what is there"
    found = [each.address for some in psutil.net_if_addrs().values() for each in some if each.family == socket.AF_INET]
    machine = [each for each in sorted(set(found)) if not each.startswith("127.")]  # loopback is the node's own
    places = [(host, port) for host in machine for port in sorted(outside)]
    places += [(str(theirs.private_ip), port) for port in sorted(inside)]
    own = [("127.0.0.1", 8124)]  # which it reaches, so that the others say something
    places += [("169.254.169.254", 80), *own]
    secret = world.server.data_dir / "instances" / str(theirs.instance_id) / "agent.json"
    assert secret.exists()
    paths = [f"file:{secret}", f"file:{world.server.data_dir}/brickyard.db", f"file:{world.server.data_dir}/admin-token"]
    assert world.user(BEN).run(world.clusters[BEN], f"PLACES = {places!r}\n{KNOCK}") == f"{own} {own}"
    assert world.user(BEN).run(world.clusters[BEN], f"PATHS = {paths!r}\n{AROUND}") == "[('own.txt', 1)]"


def test_no_guess_opens_a_door(world: World) -> None:
    token = world.tokens[ANNA]
    ways = doors(world)
    guesses = ["dapi" + "0" * 31 + "1", token[:-1] + ("0" if token[-1] != "0" else "1"), token[:-1], token.upper(), token + "0"]
    for number, guess in enumerate(guesses):
        some = ways if number == 0 else {name: way for name, way in ways.items() if name != "connect"}
        answers = {name: way(guess) for name, way in some.items()}
        assert set(answers.values()) <= SHUT, answers
