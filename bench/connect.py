"""What the Spark Connect gateway adds to a call, and its throughput, against the same calls straight to the same server."""

from __future__ import annotations

import asyncio
import multiprocessing
import statistics
import sys
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

import grpc
import uvloop

from bench._harness import cpu_s, judged, table, timed, turns
from bench._servers import sqlite
from brickyard.store.store import Store
from brickyard.testing.builders import cluster, up
from tests.gateway.driver import SERVICE, UNLIMITED, FakeDriver
from tests.gateway.world import CLUSTER_ID, World

CALLS, ROUNDS = 400, 5
BLOCKS = 256  # of 1 MiB
MOST_MS, LEAST_MIB = 1.5, 300  # what the gateway may add to a call, and the throughput that it must reach


def serve_driver(pipe: Connection) -> None:
    """Runs in its own process: a server that echoes and streams."""

    async def work() -> None:
        driver = FakeDriver("c")
        await driver.start()
        pipe.send(driver.port)
        await _until_closed(pipe)
        await driver.stop()

    uvloop.run(work())


def serve_gateway(pipe: Connection, driver_port: int, url: str) -> None:
    """Runs in its own process: the gateway, with its store."""

    async def work() -> None:
        store = Store.open(url)
        world = World(store, may_start=False, patience_s=0)
        world.agent.port = driver_port
        await world.set(up(cluster()))
        token = await world.token("me@example.com")
        await world.gateway.start("127.0.0.1", 0)
        pipe.send((world.gateway.port, token))
        await _until_closed(pipe)
        await world.gateway.stop()
        store.close()

    uvloop.run(work())


async def _until_closed(pipe: Connection) -> None:
    loop, closed = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(pipe.fileno(), closed.set)
    await closed.wait()
    loop.remove_reader(pipe.fileno())


class Client:
    """Calls as PySpark makes them: synchronous, one after the other."""

    def __init__(self, port: int, token: str) -> None:
        self._channel = grpc.insecure_channel(f"127.0.0.1:{port}", options=UNLIMITED)
        self._metadata = (("authorization", f"Bearer {token}"), ("x-databricks-cluster-id", CLUSTER_ID))

    def small(self) -> float:
        """Milliseconds of a call with 100 bytes each way, the median of `CALLS`."""
        call: Any = self._channel.unary_unary(SERVICE + "Config")
        return _median(lambda: call(b"x" * 100, metadata=self._metadata), CALLS) * 1e3

    def stream(self) -> float:
        """MiB/s of a result of `BLOCKS` messages."""
        call: Any = self._channel.unary_stream(SERVICE + "ExecutePlan")
        return BLOCKS / _median(lambda: sum(1 for _ in call(b"%d" % BLOCKS, metadata=self._metadata)), 1)

    def upload(self) -> float:
        """MiB/s of an upload of the same size, in messages of 1 MiB."""
        call: Any = self._channel.stream_unary(SERVICE + "AddArtifacts")
        block = b"x" * (1 << 20)
        return BLOCKS / _median(lambda: call((block for _ in range(BLOCKS)), metadata=self._metadata), 1)


def _median(work: Callable[[], Any], times: int) -> float:
    return statistics.median(timed(work) for _ in range(times))


def main() -> int:
    spawn = multiprocessing.get_context("spawn")
    with sqlite() as url:
        ours, theirs = spawn.Pipe()
        driver = spawn.Process(target=serve_driver, args=(theirs,))
        driver.start()
        driver_port = ours.recv()
        gate, inner = spawn.Pipe()
        gateway = spawn.Process(target=serve_gateway, args=(inner, driver_port, url))
        gateway.start()
        try:
            return measure(driver_port, *gate.recv(), pid=gateway.pid or 0)
        finally:
            for pipe, process in ((gate, gateway), (ours, driver)):
                pipe.close()  # makes it stop serving and end
                process.join()


def measure(driver_port: int, port: int, token: str, *, pid: int) -> int:
    """Prints the table. Returns 1 if a limit is missed."""

    def measured(run: Callable[[], float]) -> tuple[float, float]:
        """What it found, and the gateway's CPU seconds."""
        cpu = cpu_s(pid)
        return run(), cpu_s(pid) - cpu

    direct, through = Client(driver_port, "c"), Client(port, token)
    rows = []
    kinds = (("call of 100 bytes, ms", Client.small), ("result stream, MiB/s", Client.stream), ("upload, MiB/s", Client.upload))
    for what, kind in kinds:
        works = {name: partial(measured, partial(kind, client)) for name, client in (("direct", direct), ("through", through))}
        found = turns(ROUNDS, works, uncounted=1)
        straight, relayed = (statistics.median(value for value, _ in each) for each in found.values())
        used, added = sum(cpu for _, cpu in found["through"]), relayed - straight
        if kind is Client.small:
            limit, unit = f"{judged(f'+{added:.2f}', added <= MOST_MS)} (at most +{MOST_MS})", CALLS
        else:
            limit, unit = judged(f"at least {LEAST_MIB}", relayed >= LEAST_MIB), BLOCKS
        rows.append([what, straight, relayed, limit, used * 1e3 / ROUNDS / unit])
    return table(
        "Spark Connect gateway",
        ["what", "straight to the server", "through the gateway", "limit", "gateway's CPU ms a call or MiB"],
        rows,
    )


if __name__ == "__main__":
    sys.exit(main())
