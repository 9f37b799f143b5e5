"""Engines as providers: what they add to the engine's own times.

* start: from `launch` to the agent's first report, against the engine's own start of an empty unit; at most 1.5 s more.
* observe: 1,000 instances in one call; at most 100 ms of our CPU, the process beside the server included.
* many: 200 instances, of which none may fail. It takes about 80 MiB for each: --many N asks for fewer.
* spark: a driver and two workers, from create to the first result, against the local provider; at most 1.3x.

`python -m bench.engines [PART ...] [--engine NAME] [--rounds N] [--many N]`. Exit code 1 when a limit is missed (marked ✗).
"""

from __future__ import annotations

import secrets
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

import psutil

from bench import _engine_kubernetes, _engine_ray, _engine_slurm
from bench._client import Api
from bench._engine import Engine
from bench._enginehome import SERVER_TOKEN, Home, home
from bench._harness import RUNTIME, Row, judged, limited, options, spread, table
from bench._servers import brickyard
from bench.start import install
from bench.start import start as start_cluster
from brickyard.domain.nodetypes import NodeType
from brickyard.providers.base import LaunchRequest, Provider
from tests.support.ports import free_port

MORE_S, OBSERVE_MS, RATIO = 1.5, 100.0, 1.3
LEFT = 3 << 30  # bytes of memory that the machine keeps for others
ENGINES: Mapping[str, Callable[[], AbstractContextManager[Engine]]] = {
    "ray": _engine_ray.opened,
    "slurm": _engine_slurm.opened,
    "kubernetes": _engine_kubernetes.opened,
}


def main() -> int:
    parts: dict[str, Callable[[Engine], Row]] = {
        "start": lambda engine: start(engine, given.rounds),
        "observe": lambda engine: observe(engine, 1_000),
        "many": lambda engine: many(engine, given.many),
        "spark": lambda engine: spark(engine, given.rounds),
    }
    given = options(__doc__, {"parts": tuple(parts)}, engine=tuple(ENGINES), rounds=5, many=200)
    rows: list[Row] = []
    for name in given.engine:
        for part in given.parts:
            with ENGINES[name]() as engine:
                rows.append((name, *parts[part](engine)))
    return table("Engines", ["engine", "what", "the engine or the local provider", "ours", "difference", "at most"], rows)


@contextmanager
def opened(engine: Engine, server_url: str, *, autoscaler: bool = False) -> Iterator[Provider]:
    """A provider. `autoscaler`: it launches what does not fit, so that it waits."""
    provider = engine.provider(server_url, autoscaler=autoscaler)
    try:
        yield provider
    finally:
        provider.close(keep_nodes=False)


def start(engine: Engine, rounds: int) -> Row:
    """The first of each does not count: it fetches what later ones find."""
    empty = engine.empty_units(rounds + 1)[1:]
    ours: list[float] = []
    with home() as calls, opened(engine, calls.url) as provider:
        for _ in range(rounds + 1):
            began = time.monotonic()
            (name,) = _launch(provider, engine.tiny, 1, calls)
            ours.append(calls.wait(name) - began)
            _end(provider)
    more = statistics.median(ours[1:]) - statistics.median(empty)
    return ("from launch to the agent's report, s", spread(empty), spread(ours[1:]), *limited(more, MORE_S, f"+{more:.2f}"))


def observe(engine: Engine, count: int) -> Row:
    with opened(engine, "http://127.0.0.1:1", autoscaler=True) as provider:
        _launch(provider, engine.waiting, count, None)
        took, cpu = [], []
        for _ in range(20):
            began, ours, beside = time.monotonic(), time.process_time(), engine.cpu_s()
            assert len(provider.observe()) == count
            took.append((time.monotonic() - began) * 1000)
            cpu.append((time.process_time() - ours + engine.cpu_s() - beside) * 1000)
        _end(provider)
    mean = statistics.mean(cpu)  # the kernel counts CPU time in steps of 10 ms
    shown, most = limited(mean, OBSERVE_MS, f"{mean:.0f} ({statistics.median(took):.0f} in all)")
    return (f"observe {count:,} instances, ms of CPU", "", shown, "", most)


def many(engine: Engine, count: int) -> Row:
    with home() as calls, opened(engine, calls.url) as provider:
        began = time.monotonic()
        names = list(_paced(provider, engine.tiny, count, calls))
        last = max(calls.wait(name) for name in names) - began
        seen = provider.observe()
        failed = sum(1 for name in names if name not in seen or not seen[name].alive)
        began = time.monotonic()
        _end(provider)
        ending = time.monotonic() - began
    what = f"{count} instances on three nodes, s until all agents report"
    return (what, "", last, judged(f"{failed} failed; {ending:.1f} s to end", not failed), "0 failed")


def spark(engine: Engine, rounds: int) -> Row:
    install()
    with brickyard(provider="local") as served:
        local = _starts(served.url, rounds, "brickyard.medium")
    with brickyard(provider=engine.name, public_url=f"https://127.0.0.1:{free_port()}", **engine.settings()) as served:
        ours = _starts(served.url, rounds, engine.node_type)
    ratio = limited(statistics.median(ours) / statistics.median(local), RATIO)
    return ("a driver and two workers, s until the first result", spread(local), spread(ours), *ratio)


def _starts(url: str, rounds: int, node_type: str) -> list[float]:
    took = [
        start_cluster(Api(url), num_workers=2, spark_version=RUNTIME, node_type_id=node_type).answer for _ in range(rounds + 1)
    ]
    print(f"{node_type}: {', '.join(f'{each:.2f}' for each in took)} s", file=sys.stderr)
    return took[1:]


def _paced(provider: Provider, node_type: NodeType, count: int, calls: Home) -> Iterator[str]:
    """Launches while the machine has memory left: beyond that, its troubles would be measured."""
    for number in range(count):
        if psutil.virtual_memory().available < LEFT:
            raise SystemExit(f"too little memory is left after {number} instances: --many {number}")
        yield from _launch(provider, node_type, 1, calls)


def _launch(provider: Provider, node_type: NodeType, count: int, calls: Home | None) -> list[str]:
    names = [f"i-{secrets.token_hex(8)}" for _ in range(count)]
    for name in names:
        provider.launch(
            LaunchRequest(
                instance_id=name,
                node_type=node_type,
                server_url=calls.url if calls is not None else "http://127.0.0.1:1",
                agent_token="a" * 32,
                server_token=SERVER_TOKEN,
            )
        )
    return names


def _end(provider: Provider) -> None:
    while left := provider.observe():
        for name in left:
            provider.terminate(name, reason="the benchmark is over")
        time.sleep(0.05)


if __name__ == "__main__":
    sys.exit(main())
