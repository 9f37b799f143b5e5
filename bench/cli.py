"""The command's start: `brickyard --help` against a bare click program with as many commands, `./dev`, warm, and
`brickyard status` without a server and with one that has some clusters.

The commands take turns, so that other work on the machine disturbs them equally; a row is the median of its runs.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from bench import api
from bench._common import table
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


def measure(command: list[str], *, exits: int = 0) -> Run:
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
    for number in range(CLUSTERS):
        api.call(served, "/api/2.1/clusters/create", json.dumps({**json.loads(api.BODY), "cluster_name": f"cluster {number}"}))
    while any(each["state"] != "RUNNING" for each in api.call(served, "/api/2.0/clusters/list")["clusters"]):
        time.sleep(0.2)


def main() -> None:
    with brickyard(NO_SAMPLES) as served, tempfile.TemporaryDirectory() as nothing:
        filled(served)
        status = [sys.executable, "-P", "-m", "brickyard", "status", "--data-dir"]
        statuses = {
            "brickyard status, no server": ([*status, nothing], NOT_RUNNING),
            f"brickyard status, {CLUSTERS} clusters": ([*status, served.place], 0),
        }
        measured(statuses)


def measured(statuses: dict[str, tuple[list[str], int]]) -> None:
    """Measures everything, and prints the table. `statuses`: commands with what they exit with."""
    with tempfile.TemporaryDirectory() as folder:
        bare = Path(folder, "bare.py")
        bare.write_text(BARE.replace("COMMANDS", repr(_COMMANDS)))
        commands = {
            "bare click program --help": [sys.executable, "-P", str(bare), "--help"],
            "brickyard --help": [sys.executable, "-P", "-m", "brickyard", "--help"],
            "brickyard version": [sys.executable, "-P", "-m", "brickyard", "version"],
            "./dev help": [str(ROOT / "dev"), "help"],
            "./dev version": [str(ROOT / "dev"), "version"],
        }
        all_commands = {**{name: (command, 0) for name, command in commands.items()}, **statuses}
        for command, exits in all_commands.values():
            measure(command, exits=exits)  # fill the byte code and disk caches
        runs: dict[str, list[Run]] = {name: [] for name in all_commands}
        for _ in range(ROUNDS):
            for name, (command, exits) in all_commands.items():
                runs[name].append(measure(command, exits=exits))
    medians = {
        name: Run(statistics.median(each.wall for each in found), statistics.median(each.cpu for each in found))
        for name, found in runs.items()
    }
    floor = medians["bare click program --help"]
    table(
        f"Start of the command: medians of {ROUNDS} runs, taking turns",
        ("command", "ms", "CPU ms", "times the bare program", "times its CPU"),
        [(name, run.wall * 1e3, run.cpu * 1e3, run.wall / floor.wall, run.cpu / floor.cpu) for name, run in medians.items()],
    )
    assert medians["brickyard --help"].wall <= LIMIT * floor.wall, f"--help takes more than {LIMIT} times a bare program"
    for name in statuses:
        assert medians[name].wall <= STATUS_LIMIT_S, f"{name}: more than {STATUS_LIMIT_S} s"
    assert medians["./dev version"].wall <= DEV_LIMIT_S, f"./dev takes more than {DEV_LIMIT_S} s to start"


if __name__ == "__main__":
    main()
