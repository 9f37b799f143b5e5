"""Real Spark on nodes that are elsewhere: everything works, and nobody between the machines reads any of it."""

from __future__ import annotations

import contextlib
import socket
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest
from databricks.sdk.service.compute import ClusterDetails, State

from brickyard.config import providernames
from tests.clusters.v1.conftest import Api
from tests.spark.live import QUICK_CONF, Live, command_line
from tests.support.patience import PATIENCE_S, until
from tests.support.ports import HAS_IPV6, free_port
from tests.support.runtimes import SPARK_3, SPARK_4, manifest_of
from tests.wires.apart import NAME, NETWORK
from tests.wires.sniffer import Heard, listening

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1500)]

ROOT = Path(__file__).parents[2]
MARKER = "the-quick-brown-marker"
PROGRAM = """
import socket, threading
def serve():
    while True:
        connection = listener.accept()[0]
        while data := connection.recv(65536):
            connection.sendall(data)
listener = socket.create_server(("127.0.0.1", 5432))
threading.Thread(target=serve, daemon=True).start()
print("listens")
"""
CLIENT = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
rows = spark.range(20000).selectExpr("concat('MARKER-', id) AS text").collect()
print(len(rows), rows[7].text)
"""
PLAIN = {"spark.shuffle.compress": "false", "spark.broadcast.compress": "false", "spark.network.crypto.enabled": "false"}


class Apart(Live):
    """A workspace with nodes elsewhere."""

    def __init__(self, data: Path, *, settings: dict[str, Any]) -> None:
        super().__init__(data)
        self.connect, self.agents = free_port(), free_port()
        given = {"provider": NAME, "public_url": f"https://127.0.0.1:{self.agents}", "connect_port": self.connect, **settings}
        self.settings = msgspec.structs.replace(self.settings, **given)

    def crosses(self, source: str, source_port: int, target: str, target_port: int) -> bool:
        """Whether a packet would pass between two machines. Clients of the server are on its own."""
        machines = source.startswith(NETWORK) or target.startswith(NETWORK)
        return machines or self.agents in (source_port, target_port)

    def agents_of_all(self) -> list[psutil.Process]:
        """The agents of all instances."""
        return [each for each in self.server().children() if "--unit" in command_line(each)]

    @contextlib.contextmanager
    def overheard(self) -> Iterator[Heard]:
        try:
            with listening(self.crosses) as heard:
                yield heard
        except PermissionError:
            pytest.skip("only root may listen to packets")


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apart]:
    with served(tmp_path_factory.mktemp("apart")) as made:
        yield made


@contextlib.contextmanager
def served(place: Path, **settings: Any) -> Iterator[Apart]:
    """A workspace, whose provider is installed for its server alone."""
    about = place / "site" / "apart-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: apart\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[{providernames.GROUP}]\n{NAME} = tests.wires.apart:open_provider\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", f"{ROOT / 'src'}:{ROOT}:{place / 'site'}")
        made = Apart(place / "workspace", settings=settings)
        made.start()
        try:
            yield made
        finally:
            made.close()


@pytest.fixture(scope="module", params=[SPARK_4, SPARK_3])
def cluster(apart: Apart, request: pytest.FixtureRequest) -> Iterator[ClusterDetails]:
    wanted = {"cluster_name": "apart", "spark_version": request.param, "node_type_id": f"{NAME}.small", "num_workers": 2}
    answer = apart.w.api_client.do("POST", "/api/2.1/clusters/create", body={**wanted, "spark_conf": QUICK_CONF | PLAIN})
    assert isinstance(answer, dict)
    made = str(answer["cluster_id"])
    yield apart.wait(made, State.RUNNING, workers=2)
    apart.w.clusters.permanent_delete(made)
    until(lambda: not apart.agents_of_all(), "its nodes end")


def code(text: str) -> str:
    return text.replace("MARKER", MARKER)


def test_a_shuffle_between_machines_is_not_readable(apart: Apart, cluster: ClusterDetails) -> None:
    with apart.overheard() as heard:
        text = """
rows = spark.range(0, 60000, 1, 8).selectExpr("concat('MARKER-', id) AS text")
print(rows.repartition(8, "text").groupBy("text").count().repartition(4).count())
"""
        assert apart.run(str(cluster.cluster_id), code(text)) == "60000"

        def of_spark(source: str, source_port: int, target: str, target_port: int) -> bool:
            return apart.agents not in (source_port, target_port)

        assert heard.size(of_spark) > 1_000_000, "it passed by here"
        assert not heard.holds(MARKER.encode())


def test_a_connect_session_is_not_readable(apart: Apart, cluster: ClusterDetails) -> None:
    if not str(cluster.spark_version).startswith("17."):
        pytest.skip("Spark 3's client differs; its server is reached by the same way")
    url = f"sc://localhost:{apart.connect}/;token={apart.w.config.token};x-databricks-cluster-id={cluster.cluster_id}"
    with apart.overheard() as heard:
        command = [manifest_of(SPARK_4)["python"], "-c", code(CLIENT), url]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        assert done.stdout.split() == ["20000", f"{MARKER}-7"], done.stderr
        assert heard.size(apart.crosses) > 100_000
        assert not heard.holds(MARKER.encode())


def test_the_spark_ui_opens(apart: Apart, cluster: ClusterDetails) -> None:
    if not str(cluster.spark_version).startswith("17."):
        pytest.skip("Spark 3 has no web UI here")
    with apart.overheard() as heard:
        page = apart.spark_ui(str(cluster.cluster_id), "environment/")
        assert "spark.network.crypto.cipher" in page
        assert "AES/GCM/NoPadding" in page
        assert not heard.holds(b"spark.network.crypto.cipher")


def test_a_mapped_port_is_reached_and_not_readable(apart: Apart, cluster: ClusterDetails) -> None:
    cluster_id, external = str(cluster.cluster_id), free_port()
    context = apart.context(cluster_id)
    said = apart.finish(cluster_id, context, apart.begin(cluster_id, context, PROGRAM))
    assert said.results is not None and said.results.data == "listens", said
    api = Api(str(apart.w.config.host), str(apart.w.config.token))
    api.data("POST", f"/{cluster_id}/proxy/ports", {"internal_port": 5432, "external_port": external, "protocol": "tcp"})
    with apart.overheard() as heard:
        sent = MARKER.encode() * 10_000

        def echoed() -> bool:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", external), timeout=PATIENCE_S) as made:
                made.sendall(MARKER.encode())
                return made.recv(1) == MARKER.encode()[:1]
            return False

        until(echoed, "the program answers")
        with socket.create_connection(("127.0.0.1", external), timeout=PATIENCE_S) as made:
            made.sendall(sent)
            got = b""
            while len(got) < len(sent):
                got += made.recv(1 << 20)
        assert got == sent
        until(lambda: heard.size(apart.crosses) > 2 * len(sent), "what listens has looked at all packets")
        assert not heard.holds(MARKER.encode())


@pytest.mark.extended  # another cluster between machines
@pytest.mark.skipif(not HAS_IPV6, reason="this machine has no ::1")
def test_machines_that_have_ipv6_alone(tmp_path: Path) -> None:
    """All of them are ::1 here: agents call the server there, servers call agents, and Spark's nodes each other."""
    public = f"https://[::1]:{free_port()}"
    with served(tmp_path, public_url=public, sections={NAME: {"host": "::1"}}) as apart:
        cluster_id = apart.create("ipv6", SPARK_4, node_type=f"{NAME}.small", num_workers=1)
        cluster = apart.wait(cluster_id, State.RUNNING, workers=1)
        assert [str(each.private_ip) for each in (cluster.driver, *(cluster.executors or [])) if each] == ["::1", "::1"]
        assert apart.run(cluster_id, "print(spark.range(1000, numPartitions=4).repartition(3).count())") == "1000"
        assert "spark.network.crypto.cipher" in apart.spark_ui(cluster_id, "environment/")
        hosts = {
            each.laddr.ip
            for agent in apart.agents_of_all()
            for process in [agent, *agent.children(recursive=True)]
            for each in process.net_connections("inet")
            if each.status == psutil.CONN_LISTEN and not each.laddr.ip.removeprefix("::ffff:").startswith("127.")
        }
        assert hosts == {"::1"}, "the rest is private"


def test_nothing_else_listens_for_other_machines(apart: Apart, cluster: ClusterDetails) -> None:
    agents = apart.agents_of_all()
    assert len(agents) == 3
    kinds: list[str] = []
    for agent in agents:
        for process in [agent, *agent.children(recursive=True)]:
            with contextlib.suppress(psutil.NoSuchProcess):
                for each in process.net_connections("inet"):
                    if each.status == psutil.CONN_LISTEN:
                        kinds.append(_kind(each.laddr.ip.removeprefix("::ffff:"), each.laddr.port, of_agent=process == agent))
    assert kinds.count("agent") == 3
    assert kinds.count("spark") >= 5, "the master, two workers, the driver and two executors, with their blocks"
    assert set(kinds) <= {"agent", "spark", "private"}, kinds


def _kind(host: str, port: int, *, of_agent: bool) -> str:
    if host.startswith("127.") and not host.startswith(NETWORK):
        return "private"
    if not host.startswith(NETWORK):
        return f"{host}:{port} listens everywhere"
    if of_agent:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with socket.create_connection((host, port), timeout=PATIENCE_S) as plain, context.wrap_socket(plain) as made:
            return "agent" if made.version() == "TLSv1.3" else str(made.version())
    with socket.create_connection((host, port), timeout=2) as made:
        made.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        with contextlib.suppress(OSError):
            answer = made.recv(100)
            return f"{host}:{port} answers {answer!r}" if answer else "spark"
        return "spark"  # it waits for the rest of a message of its own
