"""The 22 queries of TPC-H: Spark's own standalone cluster against Brickyard, query by query, on the same files.

(a) Spark's own way (`_sparkway`): a master, two workers and a PySpark driver, with plain options.
(b) Ours: a cluster of a driver and two workers, through the API of a running server, with isolated nodes and Brickyard's
    defaults.

Both run from the same installed runtime, with the same cores and memory for workers, executors and driver, and read the same
files (`_tpch`; made once per cache). Both stay up; while one runs a query the other is idle, and they take turns in going first.
A first round, in which both compile and read the files from the disk, does not count; there the results are compared. After
--seconds no query is run again that has been measured once, so that a run on a busy machine ends, too.

What counts is the time of `spark.sql(text).collect()` in the driver's program, the same line in both. The table also says how
much processor time all processes of each cluster took, which depends less on what else the machine does, how long a client of
the API waits, from sending a command until its status says Finished (Spark's own cluster has nothing like it), and the most
memory that an executor of each has had. On two quiet cores it ends within ten minutes.

Options: --rounds N (0: the first round counts, which is long with large data), --seconds N, --scale N, --queries 1,6,14,
--runtime KEY, --node-type ID (of the workers), --conf KEY=VALUE (for our side, to try a setting), --their-conf KEY=VALUE,
--photon (our side has the native engine, on a runtime with Photon), --remove (removes the data). Exit code 1 when a ratio is
above its limit (marked ✗).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from bench import _sparkway, _tpch
from bench._client import Api
from bench._harness import RUNTIME, Row, limited, medians, options, spread, table, tree_cpu_s
from bench._servers import Served, agents, brickyard
from bench._tpc import equal
from bench.start import install
from brickyard.domain.runtimes import photon_key
from brickyard.runtime import catalogue

WORKERS = 2
NODE_TYPES = {"brickyard.small": (1, 2_048), "brickyard.medium": (2, 4_096)}
PHOTON_RUNTIME = "18.0.x-photon-scala2.13"
NODE_TYPE, DRIVER_TYPE = "brickyard.small", "brickyard.medium"
EXECUTOR_SHARE, DRIVER_SHARE = 0.75, 0.6  # what Brickyard gives executors and drivers of their nodes' memory
MOST_SUM, MOST_SUM_PHOTON, MOST_EACH = 0.8, 0.45, 1.0
PLACE = "tpch"  # below dbfs:/
EXECUTOR = "CoarseGrainedExecutorBackend"
PATIENCE_S = 600.0
POLL_S = 0.05
_PREPARE = """
import json, time
for name in {tables}:
    spark.read.parquet({place!r} + "/" + name + ".parquet").createOrReplaceTempView(name)
def measured(text):
    global rows
    began = time.perf_counter()
    rows = spark.sql(text).collect()
    return time.perf_counter() - began
"""
_ROWS = "print(json.dumps([[None if cell is None else str(cell) for cell in row] for row in rows]))"


class Side(NamedTuple):
    """A running cluster: a function that runs Python in its driver and returns what it printed, and one that returns the pids
    of the processes from which all its others come."""

    run: Callable[[str], str]
    pids: Callable[[], Sequence[int]]


class Took(NamedTuple):
    """Seconds of a query in the driver's program, and for who asked for it; processor seconds of all the cluster's processes."""

    inside: float
    outside: float
    cpu: float


def main() -> int:
    began = time.monotonic()
    given = options(
        __doc__, rounds=3, seconds=420.0, scale=1.0, queries="", runtime="", node_type=NODE_TYPE, conf=(), their_conf=(),
        remove=False, photon=False,
    )  # fmt: skip
    given.runtime = with_photon(given.runtime or PHOTON_RUNTIME) if given.photon else given.runtime or RUNTIME
    if given.remove:
        _tpch.remove()
        return 0
    numbers = [int(each) for each in given.queries.split(",")] if given.queries else sorted(_tpch.QUERIES)
    if unknown := [number for number in numbers if number not in _tpch.QUERIES]:
        raise SystemExit(f"--queries names {unknown[0]}: there are queries 1 to {len(_tpch.QUERIES)}")
    if given.node_type not in NODE_TYPES:
        raise SystemExit(f"--node-type is {given.node_type}, and must be one of {', '.join(NODE_TYPES)}")
    files = _tpch.make(given.scale)
    texts = {number: _tpch.query(number, given.scale) for number in numbers}
    with _their_cluster(given) as theirs, _our_cluster(given, files) as ours:
        theirs.run(_PREPARE.format(tables=_tpch.TABLES, place=f"file:{files}"))
        ours.run(_PREPARE.format(tables=_tpch.TABLES, place=f"dbfs:/{PLACE}"))
        took = _rounds(theirs, ours, texts, given.rounds, until=began + given.seconds)
        peaks = [_executor_peak_mib(side.pids()) for side in (theirs, ours)]
    return _report(took, peaks, given)


def with_photon(key: str) -> str:
    """The key of a runtime with the native engine. Raises SystemExit if it has none: it would be measured without."""
    wanted = photon_key(key)
    if catalogue.find(wanted) is None:
        those = ", ".join(each.key for each in catalogue.rows() if each.photon)
        raise SystemExit(f"--photon: {key} has no Photon; {those} has")
    return wanted


# ── the two clusters ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@contextlib.contextmanager
def _their_cluster(options: argparse.Namespace) -> Iterator[Side]:
    cores, memory_mb = NODE_TYPES[options.node_type]
    conf = {"spark.executor.memory": f"{int(memory_mb * EXECUTOR_SHARE)}m", **_pairs(options.their_conf)}
    driver_mb = int(NODE_TYPES[DRIVER_TYPE][1] * DRIVER_SHARE)
    with _sparkway.cluster(
        install(options.runtime), workers=WORKERS, cores=cores, worker_mb=memory_mb, conf=conf, driver_mb=driver_mb
    ) as cluster:
        yield Side(cluster.run, lambda: cluster.pids)


@contextlib.contextmanager
def _our_cluster(options: argparse.Namespace, files: Path) -> Iterator[Side]:
    with brickyard(provider="local", isolation="required", connect_port="0", background_training="false") as served:
        _show(files, served)
        api = Api(served.url)
        spec = {
            "spark_version": options.runtime, "node_type_id": options.node_type, "driver_node_type_id": DRIVER_TYPE,
            "num_workers": WORKERS, "spark_conf": _pairs(options.conf),
        }  # fmt: skip
        with api.cluster("queries", **spec) as cluster_id:
            context = api.context(cluster_id)
            run = partial(api.command, cluster_id, context, every_s=POLL_S, patience_s=PATIENCE_S)
            yield Side(run, lambda: [served.pid, *agents(served)])


def _show(files: Path, served: Served) -> None:
    """Shows the tables' files at dbfs:/tpch: the same files where both directories are on one disk, otherwise copies."""
    place = Path(served.place) / "dbfs" / PLACE
    place.mkdir(parents=True)
    for name in _tpch.TABLES:
        source, target = files / f"{name}.parquet", place / f"{name}.parquet"
        try:
            os.link(source, target)
        except OSError:
            shutil.copyfile(source, target)


def _pairs(settings: Sequence[str]) -> dict[str, str]:
    return dict(each.split("=", 1) for each in settings)


# ── measuring ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _rounds(
    theirs: Side, ours: Side, texts: Mapping[int, str], count: int, *, until: float
) -> dict[int, tuple[list[Took], list[Took]]]:
    """Runs all rounds, and says how each query goes. Returns for each query what it took there and here. Raises RuntimeError when
    a result differs. `until`: of time.monotonic(); later no query is run again that has been measured."""
    took: dict[int, tuple[list[Took], list[Took]]] = {number: ([], []) for number in texts}
    for index in range(count + 1):
        sums = [0.0, 0.0]
        for number, text in texts.items():
            if took[number][0] and time.monotonic() > until:
                return took
            found = {}
            order = ((0, theirs), (1, ours)) if (index + number) % 2 else ((1, ours), (0, theirs))
            for side, cluster in order:
                found[side] = _once(cluster, text)
                sums[side] += found[side].inside
                if index or not count:
                    took[number][side].append(found[side])
            what = f"round {index}" if index else "first round" if not count else "first round, which does not count"
            print(f"{what}, Q{number}: {_beside(found[0], found[1])}", file=sys.stderr, flush=True)
            if not index:
                _compare(number, json.loads(theirs.run(_ROWS)), json.loads(ours.run(_ROWS)))
        print(f"{what}: Spark's own {sums[0]:.1f} s, Brickyard {sums[1]:.1f} s, {sums[1] / sums[0]:.2f}", file=sys.stderr)
    return took


def _beside(theirs: Took, ours: Took) -> str:
    inside, cpu = ours.inside / theirs.inside, ours.cpu / max(theirs.cpu, 0.01)
    seconds = f"Spark's own {theirs.inside:.2f} s, Brickyard {ours.inside:.2f} s, {inside:.2f}"
    return f"{seconds}; processor time {theirs.cpu:.2f} s, {ours.cpu:.2f} s, {cpu:.2f}"


def _once(side: Side, text: str) -> Took:
    cpu, began = tree_cpu_s(side.pids()), time.perf_counter()
    inside = float(side.run(f"print(measured({text!r}))"))
    outside = time.perf_counter() - began
    return Took(inside, outside, tree_cpu_s(side.pids()) - cpu)


def _compare(number: int, theirs: list[list[Any]], ours: list[list[Any]]) -> None:
    """Raises RuntimeError unless both are the same rows, numbers within rounding."""
    same = len(theirs) == len(ours) and all(
        len(a) == len(b) and all(map(equal, a, b)) for a, b in zip(sorted(theirs, key=repr), sorted(ours, key=repr), strict=True)
    )
    if not same:
        raise RuntimeError(f"query {number} has different results:\n{theirs[:5]}\n{ours[:5]}")


def _executor_peak_mib(pids: Sequence[int]) -> float:
    """The most resident memory that one executor's JVM has had, as the kernel counts it."""
    peaks = [0]
    for process in {child for pid in pids for child in psutil.Process(pid).children(recursive=True)}:
        with contextlib.suppress(psutil.Error, OSError):
            if process.name() == "java" and EXECUTOR in " ".join(process.cmdline()):
                status = Path(f"/proc/{process.pid}/status").read_text()
                peaks += [int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")]
    return max(peaks) / 1024


# ── the table ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _report(took: Mapping[int, tuple[list[Took], list[Took]]], peaks: Sequence[float], options: argparse.Namespace) -> int:
    rows: list[Row] = []
    sums = [0.0] * 5
    for number, (theirs, ours) in took.items():
        a, b = medians(Took, theirs), medians(Took, ours)
        for index, value in enumerate((a.inside, b.inside, a.cpu, b.cpu, b.outside)):
            sums[index] += value
        shown = (spread([each.inside for each in side]) for side in (theirs, ours))
        rows.append([f"Q{number}", *shown, *limited(b.inside / a.inside, MOST_EACH), a.cpu, b.cpu, b.cpu / a.cpu, b.outside])
    ratio = limited(sums[1] / sums[0], MOST_SUM_PHOTON if options.photon else MOST_SUM)
    rows.append(["sum", *sums[:2], *ratio, *sums[2:4], sums[3] / sums[2], sums[4]])
    ratio = limited(peaks[1] / peaks[0], MOST_EACH if options.photon else None)
    rows.append(["most memory of an executor, MiB", *(f"{peak:.0f}" for peak in peaks), *ratio, *[""] * 4])
    cores, memory_mb = NODE_TYPES[options.node_type]
    counts = sorted({len(theirs) for theirs, _ in took.values()})
    return table(
        f"TPC-H at scale {options.scale:g}, {options.runtime}: a driver and {WORKERS} workers of {cores} "
        f"core{'s' if cores > 1 else ''} and {memory_mb} MiB, medians of {' or '.join(map(str, counts))} rounds (in brackets: "
        "fastest and slowest)",
        ["query", "Spark's own way, s", "Brickyard, s", "ratio", "at most", "processor time, Spark's own, s", "Brickyard, s",
         "ratio", "for a client of Brickyard's API, s"],
        rows,
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
