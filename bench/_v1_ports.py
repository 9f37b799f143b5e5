"""What a tcp port mapping costs: a program in a node's network, reached through the carrier process and its way, beside the
same program reached directly on loopback. Alone: `./dev python -m bench._v1_ports`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from bench._common import table
from brickyard.machine.addresses import RANGE
from brickyard.nodes.carrier.process import Carrier
from brickyard.nodes.carrier.routes import Route, Socket, Tcp
from brickyard.sandbox import launcher, network
from brickyard.sandbox.view import View

MIB_S, MS = 300.0, 0.3  # the limits: at least, and more than directly at most
AMOUNT, ROUNDS, TRIPS = 512 << 20, 5, 2000
PORT, DIRECT, FORWARDED = 7500, 17_500, 17_501
# Its first byte says what a connection is for: to give back what comes, to take it all, or to send.
PROGRAM = """
import socket, sys, threading
AMOUNT = int(sys.argv[2])
def talk(c):
    c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    kind, buffer = c.recv(1), bytearray(1 << 18)
    if kind == b"e":
        while data := c.recv(64):
            c.sendall(data)
    elif kind == b"t":
        count = 0
        while more := c.recv_into(buffer):
            count += more
        c.sendall(b"%d" % count)
    else:
        for _ in range(AMOUNT // len(buffer)):
            c.sendall(buffer)
    c.close()
server = socket.create_server(("0.0.0.0", int(sys.argv[1])))
print("ready", flush=True)
while True:
    threading.Thread(target=talk, args=(server.accept()[0],), daemon=True).start()
"""


class Row(NamedTuple):
    """`holds`: the limit is kept."""

    what: str
    direct: str
    forwarded: str
    limit: str
    holds: bool


def measure() -> list[Row]:
    """Medians of several rounds. Needs a machine that allows networks of their own (`brickyard doctor`)."""
    return asyncio.run(_measure())


async def _measure() -> list[Row]:
    walls = launcher.choose("auto", launcher.probe())
    switchboard = network.make_switchboard()
    with tempfile.TemporaryDirectory(prefix="brickyard-") as place, contextlib.ExitStack() as stack:
        stack.callback(os.close, switchboard)
        plan = network.Plan(address=str(RANGE[300]), ways=str(Path(place, "ways")), switchboard=switchboard)
        node = network.Network(plan=plan, python=sys.executable)
        await node.start()
        carrier = Carrier()
        try:
            view = View(read_only=(sys.base_prefix,))
            inside = walls.command(_program(PORT), view=view, network=node.descriptors)
            stack.enter_context(_running(inside, node.descriptors))
            stack.enter_context(_running(_program(DIRECT), ()))
            routes = [Route(Tcp("127.0.0.1", FORWARDED), Socket(await node.open(PORT)))]
            measuring: asyncio.Task[list[Row]] | None = None
            while measuring is None or not measuring.done():
                assert await carrier.tell(routes) == [""]  # again and again, as a server does
                measuring = measuring or asyncio.create_task(asyncio.to_thread(_rows))
                await asyncio.wait({measuring}, timeout=1.0)
            return measuring.result()
        finally:
            await carrier.close()
            await node.stop()


def _program(port: int) -> list[str]:
    return [str(Path(sys.executable).resolve()), "-I", "-S", "-c", PROGRAM, str(port), str(AMOUNT)]


@contextlib.contextmanager
def _running(command: list[str], descriptors: tuple[int, ...]) -> Iterator[None]:
    with subprocess.Popen(command, pass_fds=descriptors, stdout=subprocess.PIPE, env={}) as process:
        try:
            assert process.stdout and process.stdout.readline() == b"ready\n"
            yield
        finally:
            process.kill()


def _rows() -> list[Row]:
    rows = []
    for what, run in (("to the program", _sent), ("from the program", _received)):
        direct, through = _alternately(run)
        rows.append(Row(f"{what}, MiB/s", f"{direct:.0f}", f"{through:.0f}", f"at least {MIB_S:.0f}", through >= MIB_S))
    direct, through = _alternately(_trip)
    rows.append(Row("round trip, ms", f"{direct:.3f}", f"{through:.3f}", f"at most {MS} more", through - direct <= MS))
    return rows


def _alternately(run: Callable[[int], float]) -> tuple[float, float]:
    found = [(run(DIRECT), run(FORWARDED)) for _ in range(ROUNDS)]
    return statistics.median(each[0] for each in found), statistics.median(each[1] for each in found)


@contextlib.contextmanager
def _connected(port: int, kind: bytes) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port)) as made:
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        made.sendall(kind)
        yield made


def _sent(port: int) -> float:
    """MiB/s until the program says that it has everything."""
    buffer = bytearray(1 << 18)
    with _connected(port, b"t") as made:
        began = time.perf_counter()
        for _ in range(AMOUNT // len(buffer)):
            made.sendall(buffer)
        made.shutdown(socket.SHUT_WR)
        assert made.recv(64) == b"%d" % AMOUNT
        return AMOUNT / 2**20 / (time.perf_counter() - began)


def _received(port: int) -> float:
    buffer, count = bytearray(1 << 18), 0
    with _connected(port, b"s") as made:
        began = time.perf_counter()
        while more := made.recv_into(buffer):
            count += more
        assert count == AMOUNT
        return AMOUNT / 2**20 / (time.perf_counter() - began)


def _trip(port: int) -> float:
    """Milliseconds, the median of many."""
    times = []
    with _connected(port, b"e") as made:
        for _ in range(TRIPS):
            began = time.perf_counter()
            made.sendall(b"x")
            made.recv(64)
            times.append(time.perf_counter() - began)
    return statistics.median(times) * 1000


def main() -> int:
    """Prints the table. Returns 1 if a limit is missed."""
    found = measure()
    table("a tcp port mapping", ("what", "direct", "forwarded", "limit", "kept"), found)
    return int(not all(each.holds for each in found))


if __name__ == "__main__":
    sys.exit(main())
