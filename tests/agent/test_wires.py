"""A real agent that serves TLS, and whose programs its tunnel reaches."""

from __future__ import annotations

import asyncio
import socket
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from brickyard.agent.config import AgentConfig
from brickyard.agent.link.servers import Servers
from brickyard.agent.unit import private_address
from brickyard.domain.endpoints import parse
from brickyard.domain.node import ServerAddress
from brickyard.machine.frames import Streams
from brickyard.machine.listeners import listeners
from brickyard.machine.tls import pinning_context
from brickyard.nodes.carrier.routes import NodePort
from brickyard.nodes.carrier.tls import Refused, connected
from tests.agent.world import SERVER_TOKEN, Instance, World, world
from tests.support.patience import PATIENCE_S
from tests.support.ports import free_port

SERVE = """
import socket, threading
def serve():
    while True:
        connection = listener.accept()[0]
        connection.sendall(b"of the node")
        connection.close()
listener = socket.create_server(("{}", {}))
threading.Thread(target=serve, daemon=True).start()
"""


@pytest.fixture
def here(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path) as made:
        yield made


def start(here: World) -> Instance:
    """An instance on a machine of its own, whose servers are on this one: they are known by their processes."""
    instance = here.instance(isolation="off")
    instance.config = msgspec.structs.replace(
        instance.config, encrypted=True, host="127.0.99.1", private_host=private_address(instance.id)
    )
    instance.start()
    here.ready(instance)
    return instance


def reached(instance: Instance, port: int, *, generation: int = 1, token: str = SERVER_TOKEN) -> bytes:
    """What a program on that port says to the server; b"" if the tunnel does not lead there."""
    where = parse(instance.report().endpoint)
    host, _, agent_port = where.url.removeprefix("https://").rpartition(":")
    target = NodePort(
        host=host, port=int(agent_port), fingerprint=where.fingerprint, token=token, node_port=port, generation=generation
    )

    async def ask() -> bytes:
        try:
            streams: Streams = await connected(target, pinning_context())
        except Refused:
            return b""
        length = int.from_bytes(await streams.reader.readexactly(4), "big")
        said = await streams.reader.readexactly(length)
        streams.writer.close()
        return said

    return asyncio.run(asyncio.wait_for(ask(), PATIENCE_S))


def test_the_report_names_the_certificate_that_the_agent_serves(here: World) -> None:
    instance = start(here)
    where = parse(instance.report().endpoint)
    assert where.url.startswith("https://127.0.99.1:")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    request = urllib.request.Request(f"{where.url}/v1/status", headers={"Authorization": f"Bearer {SERVER_TOKEN}"})  # noqa: S310 - ours
    with urllib.request.urlopen(request, timeout=PATIENCE_S, context=context) as answer:  # noqa: S310 - as above
        assert msgspec.json.decode(answer.read())["endpoint"] == str(where)
    assert not [each for each in instance.directory.rglob("*") if each.is_file() and b"PRIVATE KEY" in each.read_bytes()]


def test_the_tunnel_leads_to_programs_of_this_node_alone(here: World) -> None:
    instance = start(here)
    for address in (instance.config.ports_host, "127.0.0.1", "0.0.0.0", "127.0.99.1"):  # noqa: S104 - where programs listen
        port = free_port()
        instance.execute(SERVE.format(address, port))
        assert reached(instance, port) == b"of the node", address
        assert reached(instance, port, generation=2) == b"", "that was another start of the cluster"
        assert reached(instance, port, token="agent-secret") == b"", "that is the token of another direction"


def test_a_port_of_another_node_stays_closed(here: World) -> None:
    """It is on the same machine, belongs to the same user, and has even taken this node's own address."""
    instance, other = start(here), start(here)
    for address in (instance.config.ports_host, other.config.ports_host, "127.0.0.1", "0.0.0.0"):  # noqa: S104 - as above
        port = free_port()
        other.execute(SERVE.format(address, port))
        assert reached(instance, port) == b"", address
    port = free_port()
    code = SERVE.format("127.0.0.1", port) + "print('listens', flush=True); threading.Event().wait()"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as of_the_machine:
        assert of_the_machine.stdout is not None
        of_the_machine.stdout.readline()
        assert reached(instance, port) == b""
        of_the_machine.kill()


def test_listeners_of_an_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as first:
        port = first.getsockname()[1]
        assert len(listeners("127.0.0.1", port)) == 1
        assert listeners("127.64.0.1", port) == []
        with socket.create_server(("127.64.0.1", port)):
            assert len(listeners("127.64.0.1", port)) == 1
    with socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as everywhere:
        assert len(listeners("127.0.0.1", everywhere.getsockname()[1])) == 1


def config(tmp_path: Path, **more: Any) -> AgentConfig:
    return AgentConfig(
        instance_id="i", agent_token="a", server_token="s", instance_dir=str(tmp_path), cache_dir="", logs_dir="",
        node_code_dir="", encrypted=True, **more,
    )  # fmt: skip


def test_an_agent_elsewhere_sends_its_token_to_no_plain_server(tmp_path: Path) -> None:
    plain, secure = ServerAddress(url="http://10.0.0.1:8080"), ServerAddress(url="https://10.0.0.2:8443")
    servers = Servers(config(tmp_path, server_url="http://10.0.0.3", servers=(plain, secure)))
    assert servers.candidates() == [secure.url]
