"""tcp port mappings: listeners of the server that lead to drivers. Drivers are simulated; their ports are this machine's."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from brickyard.providers.simulated import Knobs, SimulatedProvider
from tests.clusters.v1.conftest import Api
from tests.clusters.v1.program import raw
from tests.support.golden import Golden
from tests.support.patience import PATIENCE_S, until
from tests.support.ports import free_port
from tests.support.server import Server


@pytest.fixture(autouse=True)
def _own_ports(machines: SimulatedProvider) -> None:
    machines.turn(Knobs(own_ports=True))


@pytest.fixture(scope="module")
def echo() -> Iterator[int]:
    """The port of a program that sends back what it gets."""

    def answer(connection: socket.socket) -> None:
        while data := connection.recv(1 << 16):
            connection.sendall(data)

    with raw(answer) as port:
        yield port


def mapping(internal: int, external: int, **more: Any) -> dict[str, Any]:
    return {"internal_port": internal, "external_port": external, "protocol": "tcp", **more}


def answers(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection:
        connection.sendall(b"x")
        return connection.recv(1) == b"x"
    return False


def closed(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


def status(api: Api, cluster: str, of: int = 0) -> tuple[str, str]:
    shown = api.data("GET", f"/{cluster}/proxy")["port_mappings"][of]
    return shown["status"], shown["status_details"]


def test_a_listener_opens_with_its_cluster_changes_live_and_closes(api: Api, echo: int, golden: Golden) -> None:
    first, second = free_port(), free_port()
    cluster = api.stopped(port_mappings=[mapping(echo, first)])
    (made,) = api.data("GET", f"/{cluster}")["port_mappings"]
    assert (made["url"], made["bind_address"], made["status"]) == (f"tcp://127.0.0.1:{first}", "127.0.0.1", "inactive")
    assert closed(first)
    api.data("POST", f"/{cluster}/start", {"wait_for_ready": True})
    until(lambda: status(api, cluster) == ("active", ""), "the listener is open")
    assert answers(first)
    with socket.create_connection(("127.0.0.1", first), timeout=PATIENCE_S) as kept:
        kept.sendall(b"a")
        assert kept.recv(1) == b"a"
        api.data("PUT", f"/{cluster}/proxy/ports/{made['id']}", {"external_port": second})
        with contextlib.suppress(ConnectionError):
            assert kept.recv(1) == b"", "what was opened through the old one has ended"
    until(lambda: answers(second), "the new listener is open")
    assert closed(first)
    added = api.data("POST", f"/{cluster}/proxy/ports", mapping(free_port(), first, description="nobody listens"))
    until(lambda: status(api, cluster, 1) == ("active", ""), "the second listener is open")
    assert not answers(first), "a connection that ends"
    api.data(
        "PUT", f"/{cluster}/proxy/ports/{added['id']}", {"internal_port": free_port(), "protocol": "http", "external_port": 0}
    )
    until(lambda: closed(first), "the mapping is an http one now")
    api.data("POST", f"/{cluster}/stop", {"wait_for_completion": True})
    until(lambda: closed(second), "a stopped cluster has no listeners")
    state, why = status(api, cluster)
    assert state == "inactive"
    golden(why)
    api.data("DELETE", f"/{cluster}", confirm_deletion="DELETE")


def test_a_port_that_something_else_has_is_refused_before_anything_changes(api: Api, echo: int, golden: Golden) -> None:
    cluster = api.running()
    with socket.create_server(("127.0.0.1", 0)) as other, socket.create_server(("127.0.0.1", free_port())) as low:
        taken = low.getsockname()[1]
        wanted = {"port_mappings": [{"internal_port": 8888}, mapping(echo, taken)]}
        code, _, details = api.error("PUT", f"/{cluster}/proxy", wanted)
        assert code == 422
        (problem,) = details["problems"]
        assert (problem["field"], problem["requested"]) == ("port_mappings[1].external_port", taken)
        golden(problem["reason"])
        start = {"port_mapping_updates": [mapping(echo, other.getsockname()[1])], "environment_updates": {"A": "1"}}
        (problem,) = api.error("POST", f"/{cluster}/restart", start)[2]["problems"]
        assert problem["field"] == "port_mapping_updates[0].external_port"
        own = int(api.url.rpartition(":")[2])
        assert api.error("POST", f"/{cluster}/proxy/ports", mapping(echo, own))[0] == 422
    shown = api.data("GET", f"/{cluster}")
    assert (shown["port_mappings"], shown["environment"], shown["status"]) == ([], {}, "running")
    api.data("DELETE", f"/{cluster}", confirm_deletion="DELETE", force="true")


def test_a_port_that_is_taken_while_its_cluster_is_stopped_is_opened_once_it_is_free(api: Api, echo: int) -> None:
    port = free_port()
    cluster = api.stopped(port_mappings=[mapping(echo, port)])
    with socket.create_server(("127.0.0.1", port)):
        api.data("POST", f"/{cluster}/start", {"wait_for_ready": True})
        why = "another program of this machine has this port"
        until(lambda: status(api, cluster) == ("failed", why), "it is told")
    until(lambda: status(api, cluster) == ("active", ""), "the listener is open")
    assert answers(port)
    api.data("DELETE", f"/{cluster}", confirm_deletion="DELETE", force="true")
    until(lambda: closed(port), "a deleted cluster has no listeners")


def test_a_port_moves_to_another_cluster_at_once(api: Api, echo: int, golden: Golden) -> None:
    port = free_port()
    clusters = [api.running(), api.running()]
    made = api.data("POST", f"/{clusters[0]}/proxy/ports", mapping(echo, port))
    until(lambda: answers(port), "the listener is open")
    reason = api.error("POST", f"/{clusters[1]}/proxy/ports", mapping(echo, port))[2]["problems"][0]["reason"]
    golden(reason)
    api.data("DELETE", f"/{clusters[0]}/proxy/ports/{made['id']}")
    api.data("POST", f"/{clusters[1]}/proxy/ports", mapping(echo, port))
    until(lambda: status(api, clusters[1]) == ("active", ""), "the listener is open")
    for each in clusters:
        api.data("DELETE", f"/{each}", confirm_deletion="DELETE", force="true")


def test_listeners_are_open_again_after_their_process_was_killed(api: Api, echo: int, server: Server) -> None:
    port = free_port()
    cluster = api.running(port_mappings=[mapping(echo, port)])
    until(lambda: answers(port), "the listener is open")
    here = [each for each in psutil.Process().children() if "brickyard.nodes.carrier" in each.cmdline()]
    for each in here:
        os.kill(each.pid, signal.SIGKILL)
    until(lambda: answers(port), "the listener is open again")
    api.data("POST", f"/{cluster}/stop", {"wait_for_completion": True})
    until(lambda: closed(port), "it is closed")
