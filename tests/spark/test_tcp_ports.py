"""tcp port mappings of a real cluster: the program is Python in a context of its driver. They come back with their server, and
follow the driver to another node."""

from __future__ import annotations

import contextlib
import socket
from typing import Any

import pytest
from databricks.sdk.service.compute import Kind, State

from tests.clusters.v1.conftest import Api
from tests.clusters.v1.test_tcp_ports import answers, closed
from tests.spark.live import Live, User
from tests.support.patience import PATIENCE_S, until
from tests.support.ports import free_port
from tests.support.runtimes import SPARK_4

# Extended: tests/clusters/v1/test_tcp_ports.py has mappings to nodes that only seem real.
pytestmark = [pytest.mark.spark, pytest.mark.extended, pytest.mark.timeout(900)]

INSIDE = 5432
PROGRAM = f"""
import socket, threading
def serve(listener):
    while True:
        threading.Thread(target=echo, args=(listener.accept()[0],), daemon=True).start()
def echo(connection):
    while data := connection.recv(65536):
        connection.sendall(data)
listener = socket.create_server((spark.conf.get("spark.driver.host"), {INSIDE}))
threading.Thread(target=serve, args=(listener,), daemon=True).start()
print("listens")
"""


def begin_program(who: User, cluster_id: str) -> None:
    """Starts the program. It ends with its context, which stays."""
    context = who.context(cluster_id)
    said = who.finish(cluster_id, context, who.begin(cluster_id, context, PROGRAM))
    assert said.results is not None and said.results.data == "listens", said


def mapping_of(who: User, cluster_id: str) -> dict[str, Any]:
    """The cluster's only mapping, as that server shows it."""
    (shown,) = api_of(who).data("GET", f"/{cluster_id}/proxy")["port_mappings"]
    return dict(shown)


def api_of(who: User) -> Api:
    return Api(str(who.w.config.host), str(who.w.config.token))


def opened(who: User, cluster_id: str, external: int) -> None:
    """Maps the program's port, and waits until it answers there."""
    body = {"internal_port": INSIDE, "external_port": external, "protocol": "tcp"}
    api_of(who).data("POST", f"/{cluster_id}/proxy/ports", body)
    until(lambda: answers(external), "the program answers")


@pytest.fixture(scope="module")
def cluster(live: Live) -> str:
    made = live.create("ports", SPARK_4, is_single_node=True, kind=Kind.CLASSIC_PREVIEW)
    live.wait(made, State.RUNNING)
    return made


@pytest.fixture(scope="module")
def port(live: Live, cluster: str) -> int:
    """The external port of the program."""
    external = free_port()
    begin_program(live, cluster)
    opened(live, cluster, external)
    return external


def test_a_mapping_comes_back_with_its_server(live: Live, cluster: str, port: int) -> None:
    before = mapping_of(live, cluster)
    assert (before["status"], before["url"]) == ("active", f"tcp://127.0.0.1:{port}")
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as kept:
        kept.sendall(b"a")
        assert kept.recv(1) == b"a"
        live.kill(live.server())
        with contextlib.suppress(ConnectionError):
            assert kept.recv(1) == b"", "it ends, rather than that it hangs"
    until(lambda: closed(port), "connections are refused while there is no server")
    live.start()
    until(lambda: answers(port), "the same program answers, at the same port")
    assert mapping_of(live, cluster)["id"] == before["id"]
    until(lambda: mapping_of(live, cluster)["status"] == "active", "it is told")


def test_a_mapping_follows_the_driver_to_another_node(live: Live, cluster: str, port: int) -> None:
    lost = live.get(cluster).driver
    live.kill(live.driver_agent(cluster))
    live.wait(cluster, State.TERMINATED)
    until(lambda: closed(port), "there is nothing that it could lead to")
    assert mapping_of(live, cluster)["status"] == "inactive"
    live.w.clusters.start(cluster)
    found = live.wait(cluster, State.RUNNING).driver
    assert lost is not None and found is not None and found.instance_id != lost.instance_id
    assert not answers(port), "nobody listens on the new node yet: a connection ends"
    begin_program(live, cluster)
    until(lambda: answers(port), "it leads to the new node")
