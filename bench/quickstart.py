"""`./dev quickstart` on a new machine, downloads excluded: until its cluster runs, and its query on a cold and on a warm cluster.

A clone of this checkout (its last commit), an empty HOME, and a PATH without Java, Node and uv, as tests/fresh has them. What is
downloaded (packages, Spark, the web page's) comes from caches that a round before the measured ones has filled.

    ./dev bench quickstart [ROUNDS]
"""

from __future__ import annotations

import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from bench._harness import PREFIX, limited, options, spread, table
from brickyard.runtime import catalogue
from brickyard.runtime.packagefiles import PackageFiles
from brickyard.runtime.parts import Span, waterfall

ROOT = Path(__file__).parent.parent
TOOLS = ("bash", "sh", "env", "dirname", "git", "uname", "cat", "rm", "mkdir", "sed", "tr", "nice")
RUNNING_S, COLD_S, WARM_S = 20.0, 4.0, 2.0
_RUNS = re.compile(r"^ +[0-9.]+ s  RUNNING")
_PHASE = re.compile(r"^\W*(server|cluster|data|query|check)\W+([0-9]+[.][0-9]+)\W*$")


class Round(NamedTuple):
    """Seconds: to RUNNING, of the query on the new cluster, and of the query again; the installation's waterfall."""

    running: float
    cold: float
    warm: float
    phases: str
    parts: str


class NewMachine:
    """A HOME without anything, and a clone. Packages come from `caches`."""

    def __init__(self, top: Path, caches: Path) -> None:
        self._home, self._clone, tools = top / "home", top / "clone", top / "bin"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(self._clone)], check=True)
        self._home.mkdir()
        tools.mkdir()
        for name in TOOLS:
            if program := shutil.which(name):
                (tools / name).symlink_to(program)
        (tools / "python3").symlink_to(Path(sys.base_prefix, "bin", f"python{sys.version_info.major}.{sys.version_info.minor}"))
        found = {key: value for key, value in os.environ.items() if key.startswith(("PIP_", "SSL_", "REQUESTS_"))}
        self._environment = {
            **found,
            "HOME": str(self._home),
            "PATH": str(tools),
            "LANG": "C.UTF-8",
            "PIP_CACHE_DIR": str(caches / "pip"),
            "PIP_FIND_LINKS": f"{found.get('PIP_FIND_LINKS', '')} {caches / 'files'}".strip(),
            "UV_CACHE_DIR": str(caches / "uv"),
            "npm_config_cache": str(caches / "npm"),
            "BRICKYARD_PORT": "0",
        }
        if not shutil.which("java"):
            self._environment["BRICKYARD_IGNORE_SYSTEM_JAVA"] = "1"

    def measure(self) -> Round:
        """Runs quickstart twice, and stops everything."""
        try:
            running, phases = self._quickstart()
            parts = self._parts()
            _, again = self._quickstart()
        finally:
            self._dev("down")
        shown = ", ".join(f"{name} {seconds:.1f}" for name, seconds in phases.items())
        return Round(running, phases["query"], again["query"], shown, parts)

    def _quickstart(self) -> tuple[float, dict[str, float]]:
        """Returns after how long the cluster ran, and how long the phases took."""
        began, ran = time.monotonic(), 0.0
        process = subprocess.Popen(
            [str(self._clone / "dev"), "quickstart", "--no-pool"],
            env=self._environment, cwd=self._home, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert process.stdout is not None
        lines: list[str] = []
        phases: dict[str, float] = {}
        try:
            for line in process.stdout:
                lines.append(line)
                if not ran and _RUNS.match(line):
                    ran = time.monotonic() - began
                if found := _PHASE.match(line):
                    phases[found[1]] = float(found[2])
        except BaseException:
            process.terminate()
            raise
        if process.wait() or "query" not in phases:
            raise RuntimeError("quickstart failed:\n" + "".join(lines[-30:]))
        return ran, phases

    def _parts(self) -> str:
        (file,) = (self._home / ".cache" / "brickyard" / "runtimes").glob("*/installation.json")
        return waterfall([Span(*each) for each in json.loads(file.read_bytes())])

    def _dev(self, *arguments: str) -> None:
        subprocess.run(
            [str(self._clone / "dev"), *arguments], env=self._environment, cwd=self._home, check=True, stdout=subprocess.DEVNULL
        )


def fetch_spark(place: Path) -> None:
    """Has Spark's distribution in `place`."""
    place.mkdir(parents=True)
    version = catalogue.default().spark_version
    files = PackageFiles(os.environ)
    name = f"pyspark-{version}.tar.gz"
    with (place / name).open("wb") as file:
        for piece in files.read(files.find("pyspark", name), look=lambda: None):
            file.write(piece)


def main() -> int:
    wanted = options(__doc__, {"rounds": 3}).rounds
    with tempfile.TemporaryDirectory(prefix=PREFIX) as top:
        caches = Path(top, "caches")
        fetch_spark(caches / "files")
        rounds = []
        for number in range(wanted + 1):
            place = Path(top, f"round{number}")
            place.mkdir()
            rounds.append(NewMachine(place, caches).measure())
            shutil.rmtree(place)
            what = "fills the caches" if number == 0 else "measured"
            print(
                f"round {number} ({what}): {rounds[-1].phases}\n  installation: {rounds[-1].parts}", file=sys.stderr, flush=True
            )
    rows = []
    for what, limit, values in (
        ("`./dev quickstart` to RUNNING", RUNNING_S, [each.running for each in rounds[1:]]),
        ("its query, cold cluster", COLD_S, [each.cold for each in rounds[1:]]),
        ("its query, warm cluster", WARM_S, [each.warm for each in rounds[1:]]),
    ):
        rows.append((what, *limited(statistics.median(values), limit, spread(values))))
    return table(
        f"Quickstart on a new machine, downloads excluded. Medians of {wanted} rounds", ("what", "s", "at most, s"), rows
    )


if __name__ == "__main__":
    sys.exit(main())
