"""The command's start: `brickyard --help` against a bare click program with as many commands, `./dev`, warm, and
`brickyard status` without a server and with one that has some clusters. Exit code 1 when a limit is missed (marked ✗).

The commands take turns, so that other work on the machine disturbs them equally; a row is the median of its runs.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import NamedTuple

from bench._client import SIZE, Api
from bench._harness import judged, medians, table, turns
from bench._servers import NO_SAMPLES, Served, brickyard
from brickyard.cli import _COMMANDS

ROOT = Path(__file__).parent.parent
ROUNDS = 25
LIMIT = 2.0  # how many times the bare program's time `brickyard --help` may take
DEV_LIMIT_S = 2.0
STATUS_LIMIT_S = 0.4
CLUSTERS = 20  # that `status` shows
NOT_RUNNING = 3  # what `status` exits with if no server runs

BARE = """\
import click

@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def cli():
    "A program with nothing in it."

for name, text in COMMANDS.items():
    cli.command(name, help=text)(lambda: None)
cli()
"""


class Run(NamedTuple):
    """Seconds of one run, or medians of many: wall time and CPU time."""

    wall: float
    cpu: float


def measure(*command: str, exits: int = 0) -> Run:
    """One run, which must exit with that code."""
    started = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd="/") as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != exits:
        raise RuntimeError(f"{command} ended with {process.returncode}")
    return Run(time.perf_counter() - started, usage.ru_utime + usage.ru_stime)


def filled(served: Served) -> None:
    """Some clusters, all RUNNING."""
    api = Api(served.url)
    for number in range(CLUSTERS):
        api.create(f"cluster {number}", **SIZE)
    api.all_running()


def main() -> int:
    with brickyard(NO_SAMPLES) as served, tempfile.TemporaryDirectory() as folder:
        filled(served)
        bare, nothing = Path(folder, "bare.py"), Path(folder, "nothing")
        bare.write_text(BARE.replace("COMMANDS", repr(_COMMANDS)))
        nothing.mkdir()
        ours = (sys.executable, "-P", "-m", "brickyard")
        works = {
            "bare click program --help": partial(measure, sys.executable, "-P", str(bare), "--help"),
            "brickyard --help": partial(measure, *ours, "--help"),
            "brickyard version": partial(measure, *ours, "version"),
            "./dev help": partial(measure, str(ROOT / "dev"), "help"),
            "./dev version": partial(measure, str(ROOT / "dev"), "version"),
            "brickyard status, no server": partial(measure, *ours, "status", "--data-dir", str(nothing), exits=NOT_RUNNING),
            f"brickyard status, {CLUSTERS} clusters": partial(measure, *ours, "status", "--data-dir", served.place),
        }
        # The first round fills the byte code and disk caches.
        found = {name: medians(Run, runs) for name, runs in turns(ROUNDS, works, uncounted=1).items()}
    floor = found["bare click program --help"]
    limits = {"brickyard --help": LIMIT * floor.wall, "./dev version": DEV_LIMIT_S}
    rows = []
    for name, run in found.items():
        most = STATUS_LIMIT_S if "status" in name else limits.get(name)
        ms = 1e3 * run.wall if most is None else judged(1e3 * run.wall, run.wall <= most)
        rows.append((name, ms, "" if most is None else 1e3 * most, 1e3 * run.cpu, run.wall / floor.wall, run.cpu / floor.cpu))
    head = ("command", "ms", "at most", "CPU ms", "times the bare program", "times its CPU")
    return table(f"Start of the command: medians of {ROUNDS} runs, taking turns", head, rows)


if __name__ == "__main__":
    sys.exit(main())
