"""What the Spark Connect gateway adds to a call, and its throughput, against the same calls straight to the same server."""

from __future__ import annotations

import multiprocessing
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import grpc
import uvloop

from bench._common import cpu_s, table
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


def serve_gateway(pipe: Connection, driver_port: int, place: str) -> None:
    """Runs in its own process: the gateway, with its store."""

    async def work() -> None:
        from brickyard.store.store import Store  # noqa: PLC0415 - in this process only
        from brickyard.testing.builders import cluster, up  # noqa: PLC0415 - likewise

        store = Store.open(f"sqlite:///{Path(place) / 'bench.db'}")
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
    import asyncio  # noqa: PLC0415 - in the children only

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
    took = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        took.append(time.perf_counter() - began)
    return statistics.median(took)


def main() -> None:
    spawn = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(prefix="brickyard-bench-") as place:
        ours, theirs = spawn.Pipe()
        driver = spawn.Process(target=serve_driver, args=(theirs,))
        driver.start()
        driver_port = ours.recv()
        gate, inner = spawn.Pipe()
        gateway = spawn.Process(target=serve_gateway, args=(inner, driver_port, place))
        gateway.start()
        try:
            within = measure(driver_port, *gate.recv(), pid=gateway.pid or 0)
        finally:
            for pipe, process in ((gate, gateway), (ours, driver)):
                pipe.close()  # makes it stop serving and end
                process.join()
    if not within:
        sys.exit(1)


def measure(driver_port: int, port: int, token: str, *, pid: int) -> bool:
    """Prints the table; returns whether every limit was met."""
    direct, through = Client(driver_port, "c"), Client(port, token)
    rows: list[list[Any]] = []
    kept: list[bool] = []
    kinds = (("call of 100 bytes, ms", "small"), ("result stream, MiB/s", "stream"), ("upload, MiB/s", "upload"))
    for what, name in kinds:
        getattr(direct, name)(), getattr(through, name)()  # warm
        pairs, used = [], 0.0
        for _ in range(ROUNDS):
            before = getattr(direct, name)()
            cpu = cpu_s(pid)
            pairs.append((before, getattr(through, name)()))
            used += cpu_s(pid) - cpu
        straight, relayed = (statistics.median(side) for side in zip(*pairs, strict=True))
        small = name == "small"
        kept.append(relayed - straight <= MOST_MS if small else relayed >= LEAST_MIB)
        mark = "✓" if kept[-1] else "✗"
        limit = f"+{relayed - straight:.2f} {mark} (at most +{MOST_MS})" if small else f"{mark} (at least {LEAST_MIB})"
        unit = used * 1e3 / ROUNDS / (CALLS if small else BLOCKS)
        rows.append([what, straight, relayed, limit, f"{unit:.2f}"])
    table(
        "Spark Connect gateway",
        ["what", "straight to the server", "through the gateway", "limit", "gateway's CPU ms a call or MiB"],
        rows,
    )
    return all(kept)


if __name__ == "__main__":
    main()
