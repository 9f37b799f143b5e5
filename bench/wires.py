"""What encryption between machines costs (docs/wires.md).

* start: from an agent's start to its first report, with TLS and without.
* tunnel: one connection from a server to a program of a node, against one straight to the program: MiB/s, the processor's part of
  both ends, the round trip of a small message, and a new connection.
* shuffle: a query that does nothing but shuffle 0.9 GB between two workers of one machine, on nodes elsewhere and on local ones.

`python -m bench.wires [PART ...] [--rounds N]`. There are no limits: docs/wires.md says what was measured.
"""

from __future__ import annotations

import contextlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec

from bench import _engine_kubernetes, _talking
from bench._client import Api
from bench._harness import PREFIX, RUNTIME, Row, cpu_s, options, spread, table, turns
from bench._servers import brickyard
from bench.start import install
from brickyard.agent.unit import private_address
from brickyard.domain.endpoints import parse
from brickyard.nodes.carrier.routes import NodePort, Route, Socket
from tests.agent.world import SERVER_TOKEN, Instance, World, world
from tests.support.ports import free_port

ROWS = 32_000_000  # of 28 bytes
SHUFFLE = f"""
import time
began = time.monotonic()
rows = spark.range(0, {ROWS}, 1, 8).selectExpr("id", "id * 7 as other").repartition(8, "other")
rows.write.format("noop").mode("overwrite").save()
print(time.monotonic() - began)
"""
PLAIN = {"spark.shuffle.compress": "false"}


class Way(NamedTuple):
    """How to reach the program, and what works for it."""

    connect: Callable[[], socket.socket]
    processes: tuple[int, ...]


def main() -> int:
    parts = {"start": start, "tunnel": tunnel, "shuffle": shuffle}
    given = options(__doc__, {"parts": tuple(parts)}, rounds=5)
    rows = [row for part in given.parts for row in parts[part](given.rounds)]
    return table("Wires", ["what", "in plain", "encrypted", "difference"], rows)


def start(rounds: int) -> list[Row]:
    with _world() as here:

        def started(*, encrypted: bool) -> float:
            instance = _instance(here, encrypted=encrypted)
            began = time.monotonic()
            instance.start()
            while not any(each.instance_id == instance.id for each in here.server.reports):
                time.sleep(0.002)
            took = time.monotonic() - began
            instance.end()
            return took

        works = {"plain": lambda: started(encrypted=False), "safe": lambda: started(encrypted=True)}
        plain, safe = turns(rounds, works, uncounted=1).values()
    more = statistics.median(safe) - statistics.median(plain)
    return [("an agent's start until its first report, s", spread(plain), spread(safe), f"+{more:.2f} s")]


def tunnel(rounds: int) -> list[Row]:
    rows: list[Row] = []
    with _world() as here, _tunnel(here) as (straight, through):
        for what, measured in _MEASURED.items():
            found = turns(rounds, {"plain": partial(measured, straight.connect), "safe": partial(measured, through.connect)})
            plain, safe = found["plain"], found["safe"]
            rows.append((what, spread(plain), spread(safe), _difference(what, statistics.median(plain), statistics.median(safe))))
        before = [cpu_s(each) for each in through.processes]
        _talking.received(through.connect)
        used = [cpu_s(pid) - earlier for pid, earlier in zip(through.processes, before, strict=True)]
        for name, each in zip(("server (the tunnel's process)", "agent"), used, strict=True):
            rows.append(
                (f"MiB for a second of processor time at the {name}", "", f"{_talking.AMOUNT / each / (1 << 20):.0f}", "")
            )
    return rows


def shuffle(rounds: int) -> list[Row]:
    install()
    with brickyard(provider="local", network="shared") as served:
        plain = _shuffles(served.url, "brickyard.medium", rounds)
    public = f"https://127.0.0.1:{free_port()}"
    with (
        _engine_kubernetes.opened() as engine,
        brickyard(provider=engine.name, public_url=public, **engine.settings()) as served,
    ):
        safe = _shuffles(served.url, engine.node_type, rounds)
    ratio = statistics.median(safe) / statistics.median(plain)
    return [("a shuffle of 0.9 GB between two workers, s", spread(plain), spread(safe), f"{ratio:.2f}x")]


@contextlib.contextmanager
def _world() -> Iterator[World]:
    with tempfile.TemporaryDirectory(prefix=PREFIX) as directory, world(Path(directory)) as made:
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
    instance.execute(f"{_talking.program(host, port)}threading.Thread(target=accept, daemon=True).start()\n")
    where = parse(instance.report().endpoint)
    agent_host, _, agent_port = where.url.removeprefix("https://").rpartition(":")
    target = NodePort(
        host=agent_host, port=int(agent_port), fingerprint=where.fingerprint, token=SERVER_TOKEN, node_port=port,
        generation=1,
    )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix=PREFIX) as directory:
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


_MEASURED: dict[str, Callable[[_talking.Connect], float]] = {
    "one connection, MiB/s": _talking.received,
    "a small message and its answer, ms": _talking.trip,
    "a new connection, ms": _talking.opening,
}


def _difference(what: str, plain: float, safe: float) -> str:
    return f"+{safe - plain:.2f} ms" if what.endswith("ms") else f"{safe / plain:.2f}x"


def _shuffles(url: str, node_type: str, rounds: int) -> list[float]:
    """The first does not count."""
    api = Api(url)
    with api.cluster("shuffle", num_workers=2, spark_version=RUNTIME, node_type_id=node_type, spark_conf=PLAIN) as cluster_id:
        took = [float(api.first_result(cluster_id, SHUFFLE)) for _ in range(rounds + 1)]
    print(f"{node_type}: {', '.join(f'{each:.2f}' for each in took)} s", file=sys.stderr)
    return took[1:]


if __name__ == "__main__":
    sys.exit(main())
