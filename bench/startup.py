"""How long a server takes until it serves: an empty workspace, and one with 100,000 terminated clusters.

What is in the database must not delay the start. The servers take turns, and all start on files that have been read before. Exits
with 1 if one takes longer than the limit.
"""

from __future__ import annotations

import contextlib
import sys
import time
from functools import partial
from pathlib import Path
from typing import NamedTuple

from bench._harness import cpu_s, judged, medians, options, rss_mib, spread, table, turns
from bench._servers import brickyard, sqlite
from bench.pages import MANY, fill

LIMIT_S = 2.0


class Start(NamedTuple):
    """Seconds until it serves, the CPU seconds that this took, and its memory in MiB."""

    seconds: float
    cpu: float
    memory: float


def start(url: str) -> Start:
    began = time.perf_counter()
    storage = str(Path(url.removeprefix("sqlite:///")).parent)  # which belongs to the database from the first start on
    with brickyard(database_url=url, storage_url=storage) as served:
        return Start(time.perf_counter() - began, cpu_s(served.pid), rss_mib(served.pid))


def main() -> int:
    rounds = options(__doc__, rounds=5).rounds
    with contextlib.ExitStack() as opened:
        urls = {count: opened.enter_context(sqlite()) for count in (0, MANY)}
        for count, url in urls.items():
            fill(url, count)
        found = turns(rounds, {str(count): partial(start, url) for count, url in urls.items()}, uncounted=1)
    rows = []
    for name, starts in found.items():
        middle = medians(Start, starts)
        cell = judged(spread([each.seconds for each in starts]), middle.seconds <= LIMIT_S)
        rows.append([name, cell, LIMIT_S, middle.cpu, middle.memory])
    head = ["terminated clusters", "s until it serves (fastest-slowest)", "at most", "CPU s", "RSS MiB"]
    return table(f"Start of a server: medians of {rounds} rounds, taking turns", head, rows)


if __name__ == "__main__":
    sys.exit(main())
