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
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from bench import _talking
from bench._harness import PREFIX, Row, judged, table, turns
from brickyard.machine.addresses import RANGE
from brickyard.nodes.carrier.process import Carrier
from brickyard.nodes.carrier.routes import Route, Socket, Tcp
from brickyard.sandbox import launcher, network
from brickyard.sandbox.view import View

MIB_S, MS = 300.0, 0.3  # the limits: at least, and more than directly at most
ROUNDS = 5
PORT, DIRECT, FORWARDED = 7500, 17_500, 17_501


def measure() -> list[Row]:
    """Medians of several rounds. Needs a machine that allows networks of their own (`brickyard doctor`)."""
    return asyncio.run(_measure())


async def _measure() -> list[Row]:
    walls = launcher.choose("auto", launcher.probe())
    switchboard = network.make_switchboard()
    with tempfile.TemporaryDirectory(prefix=PREFIX) as place, contextlib.ExitStack() as stack:
        stack.callback(os.close, switchboard)
        plan = network.Plan(address=str(RANGE[300]), ways=str(Path(place, "ways")), switchboard=switchboard)
        node = network.Network(plan=plan, python=sys.executable)
        await node.start()
        carrier = Carrier()
        try:
            view = View(read_only=(sys.base_prefix,))
            inside = walls.command(_program("", PORT), view=view, network=node.descriptors)
            stack.enter_context(_running(inside, node.descriptors))
            stack.enter_context(_running(_program("127.0.0.1", DIRECT), ()))
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


def _program(host: str, port: int) -> list[str]:
    source = f'{_talking.program(host, port)}print("ready", flush=True)\naccept()\n'
    return [str(Path(sys.executable).resolve()), "-I", "-S", "-c", source]


@contextlib.contextmanager
def _running(command: list[str], descriptors: tuple[int, ...]) -> Iterator[None]:
    with subprocess.Popen(command, pass_fds=descriptors, stdout=subprocess.PIPE, env={}) as process:
        try:
            assert process.stdout and process.stdout.readline() == b"ready\n"
            yield
        finally:
            process.kill()


def _rows() -> list[Row]:
    rows: list[Row] = []
    for what, run in (("to the program", _talking.sent), ("from the program", _talking.received)):
        direct, through = _alternately(run)
        rows.append((f"{what}, MiB/s", f"{direct:.0f}", judged(f"{through:.0f}", through >= MIB_S), f"at least {MIB_S:.0f}"))
    direct, through = _alternately(_talking.trip)
    cell = judged(f"{through:.3f}", through - direct <= MS)
    return [*rows, ("round trip, ms", f"{direct:.3f}", cell, f"at most {MS} more")]


def _alternately(run: Callable[[_talking.Connect], float]) -> tuple[float, float]:
    works = {
        name: partial(run, partial(socket.create_connection, ("127.0.0.1", port)))
        for name, port in (("direct", DIRECT), ("forwarded", FORWARDED))
    }
    direct, forwarded = map(statistics.median, turns(ROUNDS, works).values())
    return direct, forwarded


def main() -> int:
    return table("a tcp port mapping", ("what", "direct", "forwarded", "limit"), measure())


if __name__ == "__main__":
    sys.exit(main())
