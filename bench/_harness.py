"""What a benchmark is made of: options, rounds in turn, medians, limits, a table with the machine's line, and an exit code.

A benchmark's `main` returns what `table` returns: 1 if a cell says that its limit is missed (✗), otherwise 0.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import psutil
import uv

from brickyard.config.settings import default_cache_dir
from brickyard.machine.packageindex import uv_environment

RUNTIME = "17.3.x-scala2.13"
CACHE = Path(os.environ.get("BRICKYARD_CACHE_DIR") or default_cache_dir())
PREFIX = "brickyard-bench-"  # of temporary directories

T = TypeVar("T")
Row = Sequence[object]


def options(about: str, /, positional: Mapping[str, object] = MappingProxyType({}), **flags: object) -> argparse.Namespace:
    """The command line. A default says what type the values have; in place of a tuple, any number may be given."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in {**positional, **{f"--{name.replace('_', '-')}": value for name, value in flags.items()}}.items():
        if isinstance(default, bool):
            parser.add_argument(name, action="store_true")
        elif isinstance(default, tuple):
            many: dict[str, Any] = {"action": "extend", "nargs": "+"} if name.startswith("-") else {"nargs": "*"}
            parser.add_argument(name, type=type(next(iter(default), "")), help=f"default: {default}", **many)
        else:
            one: dict[str, Any] = {} if name.startswith("-") else {"nargs": "?"}
            parser.add_argument(name, type=type(default), default=default, help=f"default: {default}", **one)
    given = parser.parse_args()
    for name, default in {**positional, **flags}.items():
        if isinstance(default, tuple) and not getattr(given, name):
            setattr(given, name, default)
    return given


def turns(
    rounds: int,
    works: Mapping[str, Callable[[], T]],
    *,
    uncounted: int = 0,
    show: Callable[[T], object] | None = None,
    until: float = math.inf,
) -> dict[str, list[T]]:
    """What each of the works returned in each round. They take turns, so that other work on the machine affects all alike.
    `uncounted`: rounds before those, which bring files into memory. `show`: says on stderr how it goes. `until`: of
    time.monotonic(); later no round begins once one counts."""
    found: dict[str, list[T]] = {name: [] for name in works}
    for number in range(uncounted + rounds):
        if number > uncounted and time.monotonic() > until:
            break
        for name, work in works.items():
            found[name].append(work())
            if show is not None:
                print(f"round {number}: {name}: {show(found[name][-1])}", file=sys.stderr, flush=True)
    return {name: each[uncounted:] for name, each in found.items()}


def medians(kind: Callable[..., T], rounds: Iterable[Iterable[float]]) -> T:
    """The median of each field of named tuples."""
    return kind(*map(statistics.median, zip(*rounds, strict=True)))


def spread(values: Sequence[float], form: str = ".2f") -> str:
    """The median, and the fastest and the slowest in brackets."""
    return f"{statistics.median(values):{form}} ({min(values):{form}}-{max(values):{form}})"


def judged(value: object, good: bool) -> str:
    """A cell with a value that has a limit: whether it keeps that."""
    return f"{f'{value:.2f}' if isinstance(value, float) else value} {'✓' if good else '✗'}"


def limited(value: float, most: float | None, shown: object = None) -> tuple[object, object]:
    """Two cells: a value and the most that it may be, if it has a limit. `shown`: what to print in its place."""
    cell = value if shown is None else shown
    return (cell, "") if most is None else (judged(cell, value <= most), most)


def table(title: str, head: Sequence[str], rows: Iterable[Row]) -> int:
    """Prints a Markdown table. Returns 1 if one of its cells says that its limit is missed."""
    print(f"\n### {title}\n\nMachine: {machine()}\n")
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    missed = False
    for row in rows:
        cells = [f"{cell:.2f}" if isinstance(cell, float) else str(cell) for cell in row]
        missed = missed or any("✗" in cell for cell in cells)
        print("| " + " | ".join(cells) + " |")
    return int(missed)


def machine() -> str:
    """The machine in one line."""
    memory = psutil.virtual_memory().total / 2**30
    model = next(
        (line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")),  # noqa: SIM115, PTH123 - one line of a kernel file
        platform.machine(),
    )
    system = f"{platform.system()} {platform.release()}, Python {platform.python_version()}"
    return f"{os.cpu_count()} cores ({model}), {memory:.0f} GiB, {system}"


def until(condition: Callable[[], object], what: str, *, patience_s: float = 180.0, every_s: float = 0.1) -> None:
    """Waits. Raises RuntimeError on timeout."""
    deadline = time.monotonic() + patience_s
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError(f"not within {patience_s:g} s: {what}")
        time.sleep(every_s)


def timed(work: Callable[[], object]) -> float:
    """Seconds that it takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def cpu_s(pid: int) -> float:
    """CPU seconds of a process, user and system."""
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def tree_cpu_s(pids: Iterable[int]) -> float:
    """CPU seconds of these processes and all that come from them and still run, each counted once."""
    return sum(_cpu_s(each) for each in {process for pid in pids for process in _tree(pid)})


def _tree(pid: int) -> Iterator[psutil.Process]:
    with contextlib.suppress(psutil.NoSuchProcess):
        top = psutil.Process(pid)
        yield from (top, *top.children(recursive=True))


def _cpu_s(process: psutil.Process) -> float:
    with contextlib.suppress(psutil.Error):
        times = process.cpu_times()
        return float(times.user + times.system)
    return 0.0


def at_rest(pid: int, *, settle_s: float = 45.0, rest_s: float = 120.0) -> float:
    """CPU seconds per second of an idle server. Several rounds of what agents and the server do every 40 and 60 s."""
    time.sleep(settle_s)  # work that has just begun ends, and every agent polls as it does at rest
    cpu, began = cpu_s(pid), time.perf_counter()
    time.sleep(rest_s)
    return (cpu_s(pid) - cpu) / (time.perf_counter() - began)


def rss_mib(pid: int) -> float:
    """Resident memory of a process, shared pages included."""
    return float(psutil.Process(pid).memory_info().rss) / 2**20


def program(package: str, name: str, home: Path, *others: str) -> Path:
    """A program of a Python package in an environment of its own, installed on first use. `others`: packages beside it."""
    if not (found := home / "bin" / name).exists():
        _uv("venv", "-q", "--clear", "--python", sys.executable, str(home))
        _uv("pip", "install", "-q", "--python", str(home / "bin" / "python"), package, *others)
    return found


def files_of(package: str, home: Path) -> Path:
    """The directory with the files of a Python package alone, without what it requires; fetched on first use."""
    if not home.exists():
        part = home.with_name(f"{home.name}.part")
        _uv("pip", "install", "-q", "--no-deps", "--python", sys.executable, "--target", str(part), package)
        part.rename(home)
    return home


def _uv(*arguments: str) -> None:
    subprocess.run([uv.find_uv_bin(), *arguments], check=True, env={**os.environ, **uv_environment(os.environ)})
