"""Engines as providers: what they add to the engine's own times.

* start: from `launch` to the agent's first report, against the engine's own start of an empty unit; at most 1.5 s more.
* observe: 1,000 instances in one call; at most 100 ms of our CPU, the process beside the server included.
* many: 200 instances, of which none may fail. It takes about 80 MiB for each: --many N asks for fewer.
* spark: a driver and two workers, from create to the first result, against the local provider; at most 1.3x.

`python -m bench.engines [PART ...] [--engine NAME] [--rounds N] [--many N]`. Exit code 1 when a limit is missed (marked ✗).
"""

from __future__ import annotations

import argparse
import os
import secrets
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

import psutil

from bench import _engine_kubernetes, _engine_ray, _engine_slurm
from bench._common import table
from bench._enginehome import SERVER_TOKEN, Home, home
from bench._servers import brickyard
from bench.start import Api, install, spread
from brickyard.config.settings import default_cache_dir
from brickyard.domain.nodetypes import NodeType
from brickyard.providers.base import LaunchRequest, Provider
from tests.support.rays import free_port

MORE_S, OBSERVE_MS, RATIO = 1.5, 100.0, 1.3
RUNTIME = "17.3.x-scala2.13"
LEFT = 3 << 30  # bytes of memory that the machine keeps for others

Row = tuple[object, ...]


class Engine(Protocol):
    """One engine's part: `bench/_engine_NAME.py` has `opened()`, which yields it."""

    name: str
    tiny: NodeType  # of which hundreds fit
    waiting: NodeType  # of which none ever fits
    node_type: str  # for Spark

    def empty_units(self, count: int) -> list[float]: ...

    def provider(self, server_url: str, *, grows: bool = False) -> Provider: ...

    def cpu_s(self) -> float: ...

    def settings(self, cache_dir: Path) -> Mapping[str, str]: ...


ENGINES: dict[str, Callable[[], AbstractContextManager[Engine]]] = {
    "ray": _engine_ray.opened,
    "slurm": _engine_slurm.opened,
    "kubernetes": _engine_kubernetes.opened,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=["start", "observe", "many", "spark"])
    parser.add_argument("--engine", action="append", choices=sorted(ENGINES))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--many", type=int, default=200)
    options = parser.parse_args()
    parts: dict[str, Callable[[Engine], list[Row]]] = {
        "start": lambda engine: start(engine, options.rounds),
        "observe": lambda engine: observe(engine, 1_000),
        "many": lambda engine: many(engine, options.many),
        "spark": lambda engine: spark(engine, options.rounds),
    }
    rows: list[Row] = []
    for name in options.engine or ENGINES:
        for part in options.parts:
            with ENGINES[name]() as engine:
                rows += [(name, *row) for row in parts[part](engine)]
    table("Engines", ["engine", "what", "the engine or the local provider", "ours", "difference", "at most"], rows)
    return 1 if any("✗" in str(cell) for row in rows for cell in row) else 0


def start(engine: Engine, rounds: int) -> list[Row]:
    """The first of each does not count: it fetches what later ones find."""
    empty = engine.empty_units(rounds + 1)[1:]
    ours: list[float] = []
    with home() as calls:
        provider = engine.provider(calls.url)
        try:
            for _ in range(rounds + 1):
                began = time.monotonic()
                (name,) = _launch(provider, engine.tiny, 1, calls)
                ours.append(calls.wait(name) - began)
                _end(provider)
        finally:
            provider.close(keep_nodes=False)
    more = statistics.median(ours[1:]) - statistics.median(empty)
    mark = "✓" if more <= MORE_S else "✗"
    return [("from launch to the agent's report, s", spread(empty), spread(ours[1:]), f"+{more:.2f} {mark}", f"+{MORE_S:.1f}")]


def observe(engine: Engine, count: int) -> list[Row]:
    provider = engine.provider("http://127.0.0.1:1", grows=True)
    try:
        _launch(provider, engine.waiting, count, None)
        took, cpu = [], []
        for _ in range(20):
            began, ours, beside = time.monotonic(), time.process_time(), engine.cpu_s()
            assert len(provider.observe()) == count
            took.append((time.monotonic() - began) * 1000)
            cpu.append((time.process_time() - ours + engine.cpu_s() - beside) * 1000)
        _end(provider)
    finally:
        provider.close(keep_nodes=False)
    median = statistics.mean(cpu)  # the kernel counts CPU time in steps of 10 ms
    mark = "✓" if median <= OBSERVE_MS else "✗"
    return [
        (
            f"observe {count:,} instances, ms of CPU",
            "",
            f"{median:.0f} {mark} ({statistics.median(took):.0f} in all)",
            "",
            OBSERVE_MS,
        )
    ]


def many(engine: Engine, count: int) -> list[Row]:
    with home() as calls:
        provider = engine.provider(calls.url)
        try:
            began = time.monotonic()
            names = list(_paced(provider, engine.tiny, count, calls))
            last = max(calls.wait(name) for name in names) - began
            seen = provider.observe()
            failed = sum(1 for name in names if name not in seen or not seen[name].alive)
            began = time.monotonic()
            _end(provider)
            ending = time.monotonic() - began
        finally:
            provider.close(keep_nodes=False)
    mark = "✓" if not failed else "✗"
    return [
        (
            f"{count} instances on three nodes, s until all agents report",
            "",
            last,
            f"{failed} failed {mark}; {ending:.1f} s to end",
            "0 failed",
        )
    ]


def spark(engine: Engine, rounds: int) -> list[Row]:
    install(RUNTIME)
    cache = Path(os.environ.get("BRICKYARD_CACHE_DIR") or default_cache_dir())
    with brickyard(provider="local") as served:
        local = _starts(served.url, rounds, "brickyard.medium")
    public = f"https://127.0.0.1:{free_port('127.0.0.1')}"
    with brickyard(provider=engine.name, public_url=public, **engine.settings(cache)) as served:
        ours = _starts(served.url, rounds, engine.node_type)
    ratio = statistics.median(ours) / statistics.median(local)
    mark = "✓" if ratio <= RATIO else "✗"
    return [
        ("a driver and two workers, s until the first result", spread(local), spread(ours), f"{ratio:.2f}x {mark}", f"{RATIO}x")
    ]


def _starts(url: str, rounds: int, node_type: str) -> list[float]:
    fields = {"num_workers": 2, "spark_version": RUNTIME, "node_type_id": node_type}
    took = [Api(url).start(**fields).answer for _ in range(rounds + 1)]
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
