"""What encryption between machines costs (docs/wires.md).

* start: from an agent's start to its first report, with TLS and without.
* tunnel: one connection from a server to a program of a node, against one straight to the program: MiB/s, the processor's part of
  both ends, the round trip of a small message, and a new connection.
* shuffle: a query that does nothing but shuffle 0.9 GB between two workers of one machine, on nodes elsewhere and on local ones.

`python -m bench.wires [PART ...] [--rounds N]`. There are no limits: docs/wires.md says what was measured.
"""

from __future__ import annotations

import argparse
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

import msgspec

from bench import _engine_kubernetes
from bench._common import cpu_s, table
from bench._servers import brickyard
from bench.start import Api, install, spread
from brickyard.agent.unit import private_address
from brickyard.config.settings import default_cache_dir
from brickyard.domain.endpoints import parse
from brickyard.nodes.carrier.routes import NodePort, Route, Socket
from tests.agent.world import SERVER_TOKEN, Instance, World, world
from tests.support.ports import free_port

RUNTIME = "17.3.x-scala2.13"
SENT = 1 << 30
MESSAGES = 3_000
CONNECTIONS = 200
ROWS = 32_000_000  # of 28 bytes
PROGRAM = """
import socket, threading
def serve(connection):
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    kind = connection.recv(1)
    if kind == b"s":
        left = {sent}
        while left:
            left -= connection.send(bytes(min(left, 1 << 18)))
    while kind == b"e" and (data := connection.recv(100)):
        connection.sendall(data)
    connection.close()
def accept():
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
listener = socket.create_server(("{host}", {port}))
threading.Thread(target=accept, daemon=True).start()
"""
SHUFFLE = f"""
import time
began = time.monotonic()
rows = spark.range(0, {ROWS}, 1, 8).selectExpr("id", "id * 7 as other").repartition(8, "other")
rows.write.format("noop").mode("overwrite").save()
print(time.monotonic() - began)
"""
PLAIN = {"spark.shuffle.compress": "false"}

Row = tuple[object, ...]


class Way(NamedTuple):
    """How to reach the program, and what works for it."""

    connect: Callable[[], socket.socket]
    processes: tuple[int, ...]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=["start", "tunnel", "shuffle"])
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    parts = {"start": start, "tunnel": tunnel, "shuffle": shuffle}
    rows = [row for part in options.parts for row in parts[part](options.rounds)]
    table("Wires", ["what", "in plain", "encrypted", "difference"], rows)
    return 0


def start(rounds: int) -> list[Row]:
    took: dict[bool, list[float]] = {False: [], True: []}
    with _world() as here:
        for number in range(2 * (rounds + 1)):
            encrypted = bool(number % 2)
            instance = _instance(here, encrypted=encrypted)
            began = time.monotonic()
            instance.start()
            while not any(each.instance_id == instance.id for each in here.server.reports):
                time.sleep(0.002)
            took[encrypted].append(time.monotonic() - began)
            instance.end()
    plain, safe = took[False][1:], took[True][1:]
    more = statistics.median(safe) - statistics.median(plain)
    return [("an agent's start until its first report, s", spread(plain), spread(safe), f"+{more:.2f} s")]


def tunnel(rounds: int) -> list[Row]:
    rows: list[Row] = []
    with _world() as here, _tunnel(here) as (straight, through):
        for what, measured in _MEASURED.items():
            found = [(measured(straight), measured(through)) for _ in range(rounds)]
            plain, safe = [each for each, _ in found], [each for _, each in found]
            rows.append((what, spread(plain), spread(safe), _difference(what, statistics.median(plain), statistics.median(safe))))
        before = [cpu_s(each) for each in through.processes]
        _bandwidth(through)
        used = [cpu_s(pid) - earlier for pid, earlier in zip(through.processes, before, strict=True)]
        for name, each in zip(("server (the tunnel's process)", "agent"), used, strict=True):
            rows.append((f"MiB for a second of processor time at the {name}", "", f"{SENT / each / (1 << 20):.0f}", ""))
    return rows


def shuffle(rounds: int) -> list[Row]:
    install(RUNTIME)
    with brickyard(provider="local", network="shared") as served:
        plain = _shuffles(served.url, "brickyard.medium", rounds)
    cache = Path(os.environ.get("BRICKYARD_CACHE_DIR") or default_cache_dir())
    public = f"https://127.0.0.1:{free_port()}"
    with (
        _engine_kubernetes.opened() as engine,
        brickyard(provider=engine.name, public_url=public, **engine.settings(cache)) as served,
    ):
        safe = _shuffles(served.url, engine.node_type, rounds)
    ratio = statistics.median(safe) / statistics.median(plain)
    return [("a shuffle of 0.9 GB between two workers, s", spread(plain), spread(safe), f"{ratio:.2f}x")]


@contextlib.contextmanager
def _world() -> Iterator[World]:
    with tempfile.TemporaryDirectory(prefix="bench-") as directory, world(Path(directory)) as made:
        yield made


def _instance(here: World, *, encrypted: bool) -> Instance:
    made = here.instance(isolation="off")
    if encrypted:
        made.config = msgspec.structs.replace(
            made.config, encrypted=True, host="127.0.99.1", private_host=private_address(made.id)
        )
    return made


@contextlib.contextmanager
def _tunnel(here: World) -> Iterator[tuple[Way, Way]]:
    """To a program of a node: straight, and as a server reaches it."""
    instance = _instance(here, encrypted=True).start()
    here.ready(instance)
    host, port = instance.config.ports_host, free_port()
    instance.execute(PROGRAM.format(sent=SENT, host=host, port=port))
    where = parse(instance.report().endpoint)
    agent_host, _, agent_port = where.url.removeprefix("https://").rpartition(":")
    target = NodePort(
        host=agent_host, port=int(agent_port), fingerprint=where.fingerprint, token=SERVER_TOKEN, node_port=port,
        generation=1,
    )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        command = [sys.executable, "-P", "-m", "brickyard.nodes.carrier", directory, "0"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write(msgspec.json.encode([Route(Socket("i/1"), target)]) + b"\n")
            process.stdin.flush()
            process.stdout.readline()

            def through() -> socket.socket:
                made = socket.socket(socket.AF_UNIX)
                made.connect(f"{directory}/i/1")
                return made

            yield Way(lambda: socket.create_connection((host, port)), ()), Way(through, (process.pid, instance.pid))
            process.stdin.close()


def _bandwidth(way: Way) -> float:
    with way.connect() as made:
        began = time.monotonic()
        made.sendall(b"s")
        left, room = SENT, bytearray(1 << 18)
        while left:
            left -= made.recv_into(room)
        return SENT / (1 << 20) / (time.monotonic() - began)


def _round_trip(way: Way) -> float:
    with way.connect() as made:
        made.sendall(b"e")
        took = []
        for _ in range(MESSAGES):
            began = time.monotonic()
            made.sendall(b"x")
            made.recv(100)
            took.append(time.monotonic() - began)
        return statistics.median(took) * 1000


def _new_connection(way: Way) -> float:
    """Until the first byte has come back."""
    took = []
    for _ in range(CONNECTIONS):
        began = time.monotonic()
        with way.connect() as made:
            made.sendall(b"ex")
            made.recv(1)
        took.append(time.monotonic() - began)
    return statistics.median(took) * 1000


_MEASURED: dict[str, Callable[[Way], float]] = {
    "one connection, MiB/s": _bandwidth,
    "a small message and its answer, ms": _round_trip,
    "a new connection, ms": _new_connection,
}


def _difference(what: str, plain: float, safe: float) -> str:
    return f"+{safe - plain:.2f} ms" if what.endswith("ms") else f"{safe / plain:.2f}x"


def _shuffles(url: str, node_type: str, rounds: int) -> list[float]:
    """The first does not count."""
    api = Api(url)
    spec = {"cluster_name": "shuffle", "num_workers": 2, "spark_version": RUNTIME, "node_type_id": node_type, "spark_conf": PLAIN}
    cluster_id = str(api.call("POST", "/api/2.1/clusters/create", spec)["cluster_id"])
    api.until(f"/api/2.1/clusters/get?cluster_id={cluster_id}", "state", "RUNNING", ("TERMINATED", "TERMINATING", "ERROR"))
    took = [float(api.first_result(cluster_id, SHUFFLE)) for _ in range(rounds + 1)]
    print(f"{node_type}: {', '.join(f'{each:.2f}' for each in took)} s", file=sys.stderr)
    api.call("POST", "/api/2.1/clusters/delete", {"cluster_id": cluster_id})
    api.until(f"/api/2.1/clusters/get?cluster_id={cluster_id}", "state", "TERMINATED", ())
    return took[1:]


if __name__ == "__main__":
    sys.exit(main())
