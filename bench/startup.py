"""How long a server takes until it serves: an empty workspace, and one with 100,000 terminated clusters.

What is in the database must not delay the start. The servers take turns, and all start on files that have been read before. Exits
with 1 if one takes longer than the limit.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import NamedTuple

from bench._common import cpu_s, judged, rss_mib, table
from bench._servers import Served, brickyard
from bench.pages import MANY, fill

LIMIT_S = 2.0
ROUNDS = 5


class Start(NamedTuple):
    """Seconds until it serves, the CPU seconds that this took, and its memory in MiB."""

    seconds: float
    cpu: float
    memory: float


def start(server: Callable[[], AbstractContextManager[Served]]) -> Start:
    began = time.perf_counter()
    with server() as served:
        return Start(time.perf_counter() - began, cpu_s(served.pid), rss_mib(served.pid))


def main() -> int:
    """Prints the table. Returns 1 if the limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    rounds = parser.parse_args().rounds
    with contextlib.ExitStack() as opened:
        urls = {}
        for count in (0, MANY):
            place = opened.enter_context(tempfile.TemporaryDirectory(prefix="brickyard-bench-"))
            urls[count] = f"sqlite:///{Path(place) / 'startup.db'}"
            fill(urls[count], count)
        found: dict[int, list[Start]] = {count: [] for count in urls}
        for number in range(rounds + 1):
            for count, url in urls.items():
                measured = start(partial(brickyard, database_url=url))
                if number:  # the first one fills the caches of the disk
                    found[count].append(measured)
    medians = {count: Start(*map(statistics.median, zip(*starts, strict=True))) for count, starts in found.items()}
    table(
        f"Start of a server: medians of {rounds} rounds, taking turns",
        ["terminated clusters", "s until it serves (fastest-slowest)", "at most", "CPU s", "RSS MiB"],
        [
            [
                count,
                f"{judged(each.seconds, each.seconds <= LIMIT_S)} ({_spread(found[count])})",
                LIMIT_S,
                each.cpu,
                each.memory,
            ]
            for count, each in medians.items()
        ],
    )
    return 0 if all(each.seconds <= LIMIT_S for each in medians.values()) else 1


def _spread(starts: list[Start]) -> str:
    return f"{min(each.seconds for each in starts):.2f}-{max(each.seconds for each in starts):.2f}"


if __name__ == "__main__":
    sys.exit(main())
