"""Helpers shared by benchmarks: the machine's description, tables, CPU time of a process, a load of requests."""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
import statistics
import time
from collections.abc import Container, Iterable, Sequence

import aiohttp
import psutil


def machine() -> str:
    """The machine in one line."""
    memory = psutil.virtual_memory().total / 2**30
    model = next(
        (line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")),  # noqa: SIM115, PTH123 - one line of a kernel file
        platform.machine(),
    )
    system = f"{platform.system()} {platform.release()}, Python {platform.python_version()}"
    return f"{os.cpu_count()} cores ({model}), {memory:.0f} GiB, {system}"


def table(title: str, head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a Markdown table."""
    print(f"\n### {title}\n\nMachine: {machine()}\n")
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(f"{cell:.2f}" if isinstance(cell, float) else str(cell) for cell in row) + " |")


def judged(value: float, fine: bool) -> str:
    """A cell with a value that has a limit: whether it keeps that."""
    return f"{value:.2f} {'✓' if fine else '✗'}"


def cpu_s(pid: int) -> float:
    """CPU seconds of a process, user and system."""
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def tree_cpu_s(pids: Iterable[int]) -> float:
    """CPU seconds of these processes and all that come from them and still run, each counted once."""
    processes: set[psutil.Process] = set()
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess):
            top = psutil.Process(pid)
            processes |= {top, *top.children(recursive=True)}
    total = 0.0
    for each in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            times = each.cpu_times()
            total += float(times.user + times.system)
    return total


def rss_mib(pid: int) -> float:
    """Resident memory of a process, shared pages included."""
    return float(psutil.Process(pid).memory_info().rss) / 2**20


def later_s(status: int, retry_after: str | None) -> float | None:
    """How long to wait before a request is repeated, as Databricks' SDK does; None if the answer is final."""
    return float(retry_after or 1) if status in (429, 503) else None


class Load:
    """Requests per second, and the server's CPU microseconds per request; medians of several rounds."""

    def __init__(self, rate: float, cpu_us: float) -> None:
        self.rate = rate
        self.cpu_us = cpu_us


async def load(
    pid: int,
    method: str,
    url: str,
    *,
    token: str,
    body: str = "",
    requests: int,
    rounds: int = 5,
    width: int = 16,
    statuses: Container[int] = (200,),
) -> Load:
    """Send `requests` requests, `width` at a time, in each of `rounds` rounds after a warm-up. Requests that are refused for now
    are repeated. Raises unless all others are of `statuses`."""
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    rates, costs = [], []
    async with aiohttp.ClientSession(headers=headers, connector=aiohttp.TCPConnector(limit=width)) as session:

        async def one() -> None:
            while True:
                async with session.request(method, url, data=body or None) as answer:
                    data = await answer.read()
                    wait_s = later_s(answer.status, answer.headers.get("Retry-After"))
                    if wait_s is None and answer.status not in statuses:
                        raise RuntimeError(f"{url} answered {answer.status}: {data[:300]!r}")
                if wait_s is None:
                    return
                await asyncio.sleep(wait_s)

        async def run(count: int) -> None:
            left = iter(range(count))

            async def worker() -> None:
                for _ in left:
                    await one()

            await asyncio.gather(*(worker() for _ in range(width)))

        await run(max(width, requests // 5))
        for _ in range(rounds):
            cpu, started = cpu_s(pid), time.perf_counter()
            await run(requests)
            rates.append(requests / (time.perf_counter() - started))
            costs.append((cpu_s(pid) - cpu) * 1e6 / requests)
    return Load(statistics.median(rates), statistics.median(costs))
