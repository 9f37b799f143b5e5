"""A network for every cluster: what can reach what, with real agents and their network processes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brickyard.domain.node import Phase, Role
from brickyard.machine import addresses
from brickyard.sandbox import launcher, network
from tests.agent.world import Instance, World, assignment, living, preparation, world
from tests.support.golden import Golden
from tests.support.patience import until

HERE = network.allowed(launcher.choose("auto", launcher.probe()))
isolated = pytest.mark.skipif(HERE.kind == "shared", reason=f"no networks here: {HERE.reason}")

TRY = """
    import socket
    def reach(kind, address):
        family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
        with socket.socket(family, kind) as client:
            client.settimeout(20)
            try:
                client.connect(address)
                client.send(b"hello")
                return client.recv(100).decode() or "closed"
            except OSError as error:
                return type(error).__name__
"""


class Net:
    """Instances with networks of their own."""

    def __init__(self, here: World) -> None:
        self.here = here
        self.switchboard = network.make_switchboard()
        self.count = 0

    def instance(self, **changes: Any) -> Instance:
        self.count += 1
        address = str(addresses.RANGE[256 + self.count])
        ways = str(self.here.data_dir / "ways" / address)
        made = self.here.instance(network="isolated", address=address, ways_dir=ways, **changes)
        made.switchboard = self.switchboard
        return made.start()

    def driver(self, cluster_id: str = "0101-000000-driver00", **changes: Any) -> Instance:
        made = self.instance(**changes)
        self.here.ready(made, cluster_id=cluster_id, role=Role.DRIVER)
        return made


@pytest.fixture
def net(tmp_path: Path) -> Iterator[Net]:
    with world(tmp_path) as here:
        made = Net(here)
        try:
            yield made
        finally:
            os.close(made.switchboard)


def master_of(instance: Instance) -> str:
    return f"spark://{instance.config.address}:7077"


def listen(instance: Instance, *, name: str) -> None:
    """Answer in the node: TCP at its own address, UDP, and an abstract Unix socket."""
    instance.execute(f"""
        import socket, threading
        def serve(server):
            while True:
                client = server.accept()[0]
                client.recv(100)
                client.sendall(b"{name}")
                client.close()
        def echo(server):
            while True:
                server.sendto(b"{name}", server.recvfrom(100)[1])
        tcp = socket.create_server(("0.0.0.0", 7077))
        local = socket.socket(socket.AF_UNIX)
        local.bind("\\0brickyard-test")
        local.listen()
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        udp.bind(("0.0.0.0", 7078))
        for work, server in ((serve, tcp), (serve, local), (echo, udp)):
            threading.Thread(target=work, args=(server,), daemon=True).start()
    """)


def reach(instance: Instance, address: object, *, kind: str = "STREAM") -> str:
    code = TRY + f"\n    print(reach(socket.SOCK_{kind}, {address!r}))"
    return instance.execute(code).strip()


def network_process(instance: Instance) -> int:
    """The number of the one that serves this instance now."""

    def found() -> list[int]:
        children = psutil.Process(instance.pid).children()
        return [each.pid for each in children if "netproc.py" in " ".join(each.cmdline())]

    return until(found)[0]


@isolated
def test_a_cluster_cannot_reach_another_nor_the_machine(net: Net) -> None:
    victim, stranger = net.driver("0101-000000-victim00"), net.driver("0101-000000-stranger")
    listen(victim, name="victim")
    host = victim.config.address
    assert reach(victim, (host, 7077)) == "victim"
    assert reach(victim, (host, 7078), kind="DGRAM") == "victim"
    assert reach(victim, "\0brickyard-test") == "victim", "all three answer where they may"
    agent = victim.report().endpoint.removeprefix("http://").rpartition(":")
    server = net.here.server.url.removeprefix("http://").rpartition(":")
    with socket.create_server(("127.0.0.1", 0)) as service:
        attempts = [(host, 7077), ("127.0.0.1", 7077), (agent[0], int(agent[2])), (server[0], int(server[2]))]
        for address in [*attempts, service.getsockname()]:
            assert reach(stranger, tuple(address)) in ("ConnectionRefusedError", "OSError"), address
    for address in ((host, 7078), ("127.0.0.1", 7078)):
        assert reach(stranger, address, kind="DGRAM") in ("ConnectionRefusedError", "OSError")
    assert reach(stranger, "\0brickyard-test") == "ConnectionRefusedError"


@isolated
def test_the_nodes_of_a_cluster_reach_each_other_also_those_that_were_warm(net: Net) -> None:
    driver, cold, warm = net.driver(), net.instance(), net.instance()
    listen(driver, name="driver")
    net.here.server.assign(warm.id, preparation())
    net.here.server.status(warm.id, lambda status: status.warm == "fake")
    net.here.ready(cold, role=Role.WORKER, master_url=master_of(driver))
    net.here.server.assign(warm.id, assignment(version=2, generation=2, role=Role.WORKER, master_url=master_of(driver)))
    taken = net.here.server.status(warm.id, lambda status: status.generation == 2 and status.phase is Phase.READY)
    assert taken.warm_start
    assert (taken.network, taken.host) == ("isolated", warm.config.address)
    listen(cold, name="cold")
    assert reach(cold, (driver.config.address, 7077)) == "driver"
    assert reach(warm, (driver.config.address, 7077)) == "driver"
    assert reach(warm, (cold.config.address, 7077)) == "cold", "through the driver's network"
    assert reach(driver, (cold.config.address, 7077)) == "cold"

    net.here.server.assign(warm.id, preparation(version=3, generation=3))
    net.here.server.status(warm.id, lambda status: status.generation == 3 and status.warm == "fake")
    net.here.server.assign(warm.id, assignment(version=4, generation=4, cluster_id="0101-000000-another0"))
    net.here.server.status(warm.id, lambda status: status.generation == 4 and status.phase is Phase.READY)
    assert reach(warm, (driver.config.address, 7077)) == "OSError", "it has left the cluster's network"


@isolated
def test_a_driver_cannot_have_its_workers_connected_to_another_cluster(net: Net) -> None:
    victim, liar = net.driver("0101-000000-victim00"), net.instance()
    conf = {"test.master_host": victim.config.address}
    status = net.here.ready(liar, role=Role.DRIVER, spark_conf=conf)
    assert status.master_url == "", "the address of another node is not passed on"


@isolated
def test_a_way_leads_to_a_port_of_the_node_only(net: Net) -> None:
    driver = net.instance()
    net.here.ready(driver, role=Role.DRIVER, spark_conf={"test.port": "7077"})
    listen(driver, name="driver")
    for _ in range(2):  # to ask again changes nothing
        status, answer = driver.request("POST", "/v1/connect", {})
        assert (status, answer["port"]) == (200, 7077)
    with socket.socket(socket.AF_UNIX) as client:
        directory = os.open(Path(answer["way"]).parent, os.O_PATH)
        client.connect(f"/proc/self/fd/{directory}/7077")
        os.close(directory)
        client.sendall(b"hello")
        assert client.recv(100) == b"driver"
    assert Path(answer["way"]).parent.stat().st_mode & 0o077 == 0
    assert not json.loads(driver.execute(f"import json, os; print(json.dumps(os.path.exists({answer['way']!r})))"))


@isolated
def test_the_way_out_leads_where_it_may(net: Net, golden: Golden) -> None:
    with socket.create_server(("127.0.0.1", 0)) as allowed, socket.create_server(("127.0.0.1", 0)) as other:

        def answer() -> None:
            while True:
                try:
                    client = allowed.accept()[0]
                except OSError:
                    return
                client.sendall(b"allowed")
                client.close()

        threading.Thread(target=answer, daemon=True).start()
        place = allowed.getsockname()
        one = net.driver(network_allow=(f"{place[0]}:{place[1]}",))
        off = net.driver(internet=False)
        assert reach(one, place) == "allowed"
        assert reach(one, other.getsockname()) == "ConnectionRefusedError"
        assert reach(off, place) == "ConnectionRefusedError"
        assert reach(one, ("169.254.169.254", 80)) in ("ConnectionResetError", "closed"), "a cloud's metadata"
        assert reach(off, ("203.0.113.1", 80)) == "OSError", "there is no way there"
        golden(off.report().status.network)
        if own := _own_address():
            with socket.create_server((own, 0)) as exposed:
                exposed.settimeout(0)
                assert reach(one, exposed.getsockname()) in ("ConnectionResetError", "closed")
                with pytest.raises(BlockingIOError):
                    exposed.accept()
        allowed.shutdown(socket.SHUT_RDWR)


def _own_address() -> str:
    """An address of this machine that is none of its loopback; "" where it has none."""
    found = [each.address for card in psutil.net_if_addrs().values() for each in card if each.family is socket.AF_INET]
    return next((address for address in found if not address.startswith("127.")), "")


@isolated
def test_a_node_whose_network_is_killed_ends_and_the_next_one_has_a_new_one(net: Net) -> None:
    driver = net.driver()
    os.kill(network_process(driver), signal.SIGKILL)
    failed = net.here.server.phase(driver.id, Phase.FAILED)
    assert failed.failure is not None
    net.here.server.assign(driver.id, assignment(version=2, generation=2))
    net.here.server.status(driver.id, lambda status: status.generation == 2 and status.phase is Phase.READY)


@isolated
def test_nothing_is_left_of_a_network(net: Net) -> None:
    killed, ended = net.driver(), net.driver()
    numbers = [network_process(each) for each in (killed, ended)]
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait()
    ended.end()
    until(lambda: not any(living(number) for number in numbers))
    assert not Path(ended.config.ways_dir).exists()


@isolated
def test_a_switchboard_is_found_at_an_agent_that_outlived_its_server(net: Net) -> None:
    root = net.here.data_dir / "instances"
    assert network.find_switchboard(root) == -1
    driver = net.driver()
    found = network.find_switchboard(root)
    try:
        assert os.fstat(found).st_ino == os.fstat(net.switchboard).st_ino
        late = net.instance()
        late.end()
        late.switchboard = found  # as an agent that a new server starts
        late.start()
        listen(driver, name="driver")
        net.here.ready(late, role=Role.WORKER, master_url=master_of(driver))
        assert reach(late, (driver.config.address, 7077)) == "driver"
    finally:
        os.close(found)


def test_a_shared_network_is_told_and_refused_where_it_must_not_be(tmp_path: Path) -> None:
    with world(tmp_path) as here:
        why = "it is Tuesday."
        shared = here.instance(network_reason=why).start()
        assert here.ready(shared).network == f"shared: {why}"
        strict = here.instance(network_reason=why, network_required=True).start()
        here.server.assign(strict.id, assignment())
        failure = here.server.phase(strict.id, Phase.FAILED).failure
        assert failure is not None
        assert failure.code == "WORKSPACE_CONFIGURATION_ERROR"
        assert why in failure.message


def test_what_cannot_be_had_is_said() -> None:
    place = Path(tempfile.mkdtemp())
    try:
        with pytest.raises(addresses.NetworkError, match="without a sandbox"):
            network.probe(place / "ways", launcher.Plain())
    finally:
        shutil.rmtree(place)


@given(st.integers(0, 2**32), st.sets(st.integers(0, addresses.RANGE.num_addresses - 1), max_size=20))
def test_addresses_are_nobody_elses(seed: int, taken: set[int]) -> None:
    known = [str(addresses.RANGE[index]) for index in taken]
    first = addresses.free_address(seed, known)
    assert addresses.in_range(first)
    assert first not in known
    assert addresses.free_address(seed, known) == first
    assert addresses.free_address(seed, [*known, first]) != first


@pytest.mark.parametrize(
    ("host", "why"),
    [
        ("127.0.0.1", "loopback"), ("127.0.0.53", "loopback"), ("0.0.0.1", "loopback"), ("169.254.169.254", "link-local"),
        ("224.0.0.1", "loopback"), ("255.255.255.255", "loopback"), ("198.18.7.7", "no such node"), ("10.0.0.5", "own addresses"),
        ("10.0.0.6", ""), ("93.184.216.34", ""),
    ],
)  # fmt: skip
def test_what_a_node_may_reach(host: str, why: str) -> None:
    found = addresses.forbidden(host, 443, allow=["127.0.0.1:80"], internet=True, own=lambda address: address == "10.0.0.5")
    assert (why in found) if why else found == ""
    assert not addresses.forbidden(host, 443, allow=[f"{host}:443"], internet=False, own=lambda _: True)
    assert addresses.forbidden(host, 443, allow=[], internet=False, own=lambda _: False)


def test_resolvers_and_masters_are_read() -> None:
    text = "# by hand\nnameserver 10.0.0.2\nnameserver ::1\nnameserver 127.0.0.53\nsearch x\nnameserver\nnameserver 10.0.0.2\n"
    assert addresses.resolvers(text) == ["10.0.0.2", "127.0.0.53"]
    assert addresses.master_host("spark://198.18.0.1:7077") == "198.18.0.1"
    assert addresses.master_host("spark://198.18.0.1:7077/../x") == ""
    assert addresses.is_own("127.0.0.1")
