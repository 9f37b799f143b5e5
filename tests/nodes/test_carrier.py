"""The carrier process: routes, what they lead to, and how connections and the process end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from brickyard.domain.sources import SourceRules
from brickyard.machine.addresses import RANGE
from brickyard.machine.frames import Streams
from brickyard.nodes.carrier import __main__ as carrier
from brickyard.nodes.carrier.__main__ import MOST_OF_ROUTE, Routes
from brickyard.nodes.carrier.process import Carrier, CarrierFailed
from brickyard.nodes.carrier.routes import Route, Socket, Tcp
from brickyard.sandbox import launcher, network
from brickyard.sandbox.view import View
from tests.support.golden import Golden
from tests.support.patience import PATIENCE_S, until
from tests.support.ports import free_port


class Echo:
    """A program behind a Unix socket, as a node's ways are. It sends back what it gets, and at the end the number of bytes."""

    def __init__(self, place: Path) -> None:
        self.way = str(place / "way")
        self.ended = 0
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(self.way)
        self._server.listen(512)
        threading.Thread(target=self._accept, daemon=True).start()

    def route(self, port: int, user: str = "") -> Route:
        return Route(Tcp("127.0.0.1", port), Socket(self.way), user)

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self._talk, args=(self._server.accept()[0],), daemon=True).start()

    def _talk(self, connection: socket.socket) -> None:
        count = 0
        with contextlib.suppress(OSError), connection:
            while data := connection.recv(1 << 16):
                count += len(data)
                connection.sendall(data)
            connection.sendall(b"|%d" % count)
        self.ended += 1


@pytest.fixture
def echo(tmp_path: Path) -> Iterator[Echo]:
    made = Echo(tmp_path)
    yield made
    made.close()


def connect(port: int) -> socket.socket:
    made = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def everything(connection: socket.socket) -> bytes:
    """What comes until the other side has ended, or has reset the connection."""
    found = b""
    with contextlib.suppress(ConnectionError):
        while data := connection.recv(1 << 16):
            found += data
    return found


def heard(port: int) -> bytes:
    """Everything that a new connection hears. One that is reset at once may be so before this side knows that it was made."""
    try:
        with connect(port) as client:
            return everything(client)
    except ConnectionResetError:
        return b""


@contextlib.contextmanager
def killed(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Kills the process at the end: leaving its own `with` only waits for it."""
    try:
        yield
    finally:
        process.kill()


def answers(port: int) -> bool:
    with contextlib.suppress(OSError), connect(port) as connection:
        connection.sendall(b"x")
        return connection.recv(1) == b"x"
    return False


class Process:
    """The process, told from the outside of an event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self.carrier = Carrier()

    def call(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE_S)

    def tell(self, *routes: Route) -> list[str]:
        found: list[str] = self.call(self.carrier.tell(routes))
        return found

    @property
    def pid(self) -> int:
        assert self.carrier.child is not None
        return self.carrier.child.pid

    def close(self) -> None:
        self.call(self.carrier.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_S)
        self._loop.close()


@pytest.fixture
def process() -> Iterator[Process]:
    made = Process()
    yield made
    made.close()


def test_each_side_ends_on_its_own_and_no_byte_is_lost(process: Process, echo: Echo) -> None:
    port = free_port()
    assert process.tell(echo.route(port)) == [""]
    sent = os.urandom(3 << 20)
    with connect(port) as client:

        def send() -> None:
            client.sendall(sent)
            client.shutdown(socket.SHUT_WR)

        sender = threading.Thread(target=send)
        sender.start()
        assert everything(client) == sent + b"|%d" % len(sent)
        sender.join(PATIENCE_S)
    assert psutil.Process(process.pid).is_running()


def test_who_takes_nothing_makes_the_other_side_wait(process: Process, echo: Echo) -> None:
    """The echo's answers are not read, so it takes nothing any more."""
    port = free_port()
    process.tell(echo.route(port))
    with connect(port) as client:
        client.setblocking(False)
        sent = 0
        while select.select([], [client], [], 1.0)[1]:
            sent += client.send(b"z" * (1 << 16))
            assert sent < 64 << 20, "it is kept somewhere"
    assert psutil.Process(process.pid).memory_info().rss < 80 << 20


def test_a_route_that_closes_ends_its_connections_and_no_others(process: Process, echo: Echo) -> None:
    gone, stays = free_port(), free_port()
    assert process.tell(echo.route(gone), echo.route(stays)) == ["", ""]
    with connect(gone) as first, connect(stays) as second:
        for each in (first, second):
            each.sendall(b"a")
            assert each.recv(1) == b"a"
        assert process.tell(echo.route(stays)) == [""]
        everything(first)
        with pytest.raises(OSError):
            connect(gone)
        second.sendall(b"b")
        assert second.recv(1) == b"b"


def test_a_port_that_something_else_has_is_told_and_opened_once_it_is_free(process: Process, echo: Echo, golden: Golden) -> None:
    port, other = free_port(), free_port()
    with socket.create_server(("127.0.0.1", port)):
        faults = process.tell(echo.route(port), echo.route(other))
        assert faults[1:] == [""]
        golden(faults[0])
    assert process.tell(echo.route(port), echo.route(other)) == ["", ""]
    assert answers(port)


def test_nobody_behind_it_is_a_connection_that_ends(process: Process, tmp_path: Path) -> None:
    port, nobody = free_port(), free_port()
    assert process.tell(Route(Tcp("127.0.0.1", port), Socket(str(tmp_path / "none")))) == [""]
    assert heard(port) == b""
    assert process.tell(Route(Tcp("127.0.0.1", port), Tcp("127.0.0.1", nobody))) == [""]
    assert heard(port) == b""


def test_more_connections_than_there_is_room_for_wait(process: Process, echo: Echo) -> None:
    port, other = free_port(), free_port()
    process.tell(echo.route(port), echo.route(other))
    with contextlib.ExitStack() as opened:
        clients = [opened.enter_context(connect(port)) for _ in range(MOST_OF_ROUTE)]
        for each in clients:
            each.sendall(b"a")
            assert each.recv(1) == b"a"
        late = opened.enter_context(connect(port))  # the kernel's queue has it
        late.sendall(b"b")
        assert answers(other), "one route's connections are no other's"
        assert not select.select([late], [], [], 0.2)[0]
        clients[0].close()
        assert late.recv(1) == b"b"


async def test_no_user_takes_every_connection(echo: Echo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carrier, "MOST_OF_USER", 2)
    ports = [free_port() for _ in range(3)]
    routes = Routes()
    wanted = [echo.route(port, user) for port, user in zip(ports, ("me", "me", "you"), strict=True)]
    assert await routes.tell(wanted) == ["", "", ""]

    async def entered(port: int) -> Streams:
        made = Streams(*await asyncio.open_connection("127.0.0.1", port))
        made.writer.write(b"a")
        return made

    async with asyncio.timeout(PATIENCE_S):
        mine = [await entered(port) for port in ports[:2]]
        for each in mine:
            assert await each.reader.readexactly(1) == b"a"
        late, yours = await entered(ports[0]), await entered(ports[2])
        assert await yours.reader.readexactly(1) == b"a"
        waiting = asyncio.create_task(late.reader.readexactly(1))
        assert not (await asyncio.wait({waiting}, timeout=0.2))[0]
        mine[1].writer.close()  # of my other route
        assert await waiting == b"a"
        await routes.tell([])
        for each in (mine[0], late, yours):
            with contextlib.suppress(ConnectionError):
                await each.reader.read()  # it ends


async def test_only_addresses_that_are_let_in_connect_and_others_are_put_out(
    echo: Echo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port, way = free_port(), str(tmp_path / "ways" / "a")
    monkeypatch.setattr(carrier, "source_of", lambda *_, **__: "203.0.113.9")  # of clients on other machines
    wanted, routes = [echo.route(port), Route(Socket(way), Socket(echo.way))], Routes()
    (tmp_path / "ways").mkdir()

    async def entered(port: int) -> Streams:
        made = Streams(*await asyncio.open_connection("127.0.0.1", port))
        made.writer.write(b"a")
        return made

    async with asyncio.timeout(PATIENCE_S):
        assert await routes.tell(wanted, SourceRules(allowed=("203.0.113.0/24",))) == ["", ""]
        first = await entered(port)
        assert await first.reader.readexactly(1) == b"a"
        await routes.tell(wanted, SourceRules(blocked=("203.0.113.9",)))
        with contextlib.suppress(ConnectionError):
            assert await first.reader.read() == b""
        with contextlib.suppress(ConnectionError):
            refused = await entered(port)
            assert await refused.reader.read() == b""
        inside = Streams(*await asyncio.open_unix_connection(way))  # of the server itself
        inside.writer.write(b"b")
        assert await inside.reader.readexactly(1) == b"b"
        await routes.tell(wanted)
        again = await entered(port)
        assert await again.reader.readexactly(1) == b"a"
        await routes.tell([])


async def test_a_tcp_route_that_leads_elsewhere_is_another_one_and_a_socket_is_the_same(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    echoes = [Echo(tmp_path / "one"), Echo(tmp_path / "two")]
    listeners: list[Tcp | Socket] = [Tcp("127.0.0.1", free_port()), Socket(str(tmp_path / "ways" / "a"))]
    routes = Routes()

    async def entered(listener: Tcp | Socket) -> Streams:
        if isinstance(listener, Tcp):
            return Streams(*await asyncio.open_connection(listener.host, listener.port))
        return Streams(*await asyncio.open_unix_connection(listener.path))

    async def answers(streams: Streams) -> bool:
        with contextlib.suppress(OSError, EOFError):
            streams.writer.write(b"a")
            return await streams.reader.readexactly(1) == b"a"
        return False

    async with asyncio.timeout(PATIENCE_S):
        assert await routes.tell([Route(each, Socket(echoes[0].way)) for each in listeners]) == ["", ""]
        before = [await entered(each) for each in listeners]
        assert [await answers(each) for each in before] == [True, True]
        assert await routes.tell([Route(each, Socket(echoes[1].way)) for each in listeners]) == ["", ""]
        echoes[0].close()
        assert [await answers(each) for each in before] == [False, True]
        assert [await answers(await entered(each)) for each in listeners] == [True, True]
        await routes.tell([])
        assert not (tmp_path / "ways" / "a").exists()
    echoes[1].close()


def test_the_process_ends_with_its_last_route_and_with_its_server(process: Process, echo: Echo) -> None:
    port = free_port()
    process.tell(echo.route(port))
    first = psutil.Process(process.pid)
    process.tell()
    until(lambda: not first.is_running(), "the process has ended")
    process.tell(echo.route(port))
    second = psutil.Process(process.pid)
    assert process.carrier.child is not None
    process._loop.call_soon_threadsafe(process.carrier.child.close_input)  # what the kernel does when the server is killed
    until(lambda: not second.is_running() or second.status() == psutil.STATUS_ZOMBIE, "the process has ended")


def test_a_process_that_was_killed_is_told_and_started_again(process: Process, echo: Echo) -> None:
    port = free_port()
    process.tell(echo.route(port))
    os.kill(process.pid, signal.SIGKILL)
    with pytest.raises(CarrierFailed):
        process.tell(echo.route(port))
    assert process.tell(echo.route(port)) == [""]
    assert answers(port)


NETWORK = network.allowed(launcher.choose("auto", launcher.probe()))


@pytest.mark.skipif(NETWORK.kind == "shared", reason=f"no networks here: {NETWORK.reason}")
def test_a_node_gives_connections_away_and_does_not_carry_them(process: Process, tmp_path: Path) -> None:
    """A node's network, with a program in it. Its network process stands still while bytes pass."""
    program = """
        import socket
        server = socket.create_server(("127.0.0.1", 7600))
        print("ready", flush=True)
        while True:
            with server.accept()[0] as client:
                while data := client.recv(64):
                    client.sendall(data)
    """
    switchboard, port = network.make_switchboard(), free_port()
    plan = network.Plan(address=str(RANGE[311]), ways=str(tmp_path / "ways"), switchboard=switchboard)

    async def made() -> tuple[network.Network, str, str]:
        node = network.Network(plan=plan, python=sys.executable)
        await node.start()
        return node, await node.open(7600), await node.open(7601)

    node, way, nobody = process.call(made())
    line = launcher.choose("auto", launcher.probe()).command(
        [str(Path(sys.executable).resolve()), "-I", "-S", "-c", textwrap.dedent(program)],
        view=View(read_only=(sys.base_prefix,)), network=node.descriptors,
    )  # fmt: skip
    with subprocess.Popen(line, pass_fds=node.descriptors, stdout=subprocess.PIPE, env={}) as inside, killed(inside):
        assert inside.stdout and inside.stdout.readline() == b"ready\n"
        assert process.tell(Route(Tcp("127.0.0.1", port), Socket(way))) == [""]
        with connect(port) as client:
            client.sendall(b"a")
            assert client.recv(1) == b"a"
            (carrier,) = [each for each in psutil.Process().children() if "netproc.py" in " ".join(each.cmdline())]
            carrier.suspend()
            client.sendall(b"b")
            assert client.recv(1) == b"b"
            carrier.resume()
        assert answers(port)
        assert process.tell(Route(Tcp("127.0.0.1", port), Socket(nobody))) == [""]
        assert heard(port) == b"", "nobody listens there"
    process.call(node.stop())
    os.close(switchboard)


def test_a_server_that_says_nothing_counts_as_gone(process: Process, echo: Echo) -> None:
    process.carrier, port = Carrier(silence_s=0.5), free_port()
    process.tell(echo.route(port))
    gone = psutil.Process(process.pid)
    until(lambda: not gone.is_running() or gone.status() == psutil.STATUS_ZOMBIE, "the process has ended")
    with pytest.raises(CarrierFailed):
        process.tell(echo.route(port))
