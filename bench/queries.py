"""The 22 queries of TPC-H: Spark's own standalone cluster against Brickyard, query by query, on the same files.

(a) Spark's own way (`_sparkway`): a master, two workers and a PySpark driver, with plain options.
(b) Ours: a cluster of a driver and two workers, through the API of a running server, with isolated nodes and Brickyard's
    defaults.

Both run from the same installed runtime, with the same cores and memory for workers, executors and driver, and read the same
files (`_tpch`; made once per cache). Both stay up; while one runs a query the other is idle, and they take turns in going first.
A first round, in which both compile and read the files from the disk, does not count; there the results are compared. After
--seconds no query is run again that has been measured once, so that a run on a busy machine ends, too.

What counts is the time of `spark.sql(text).collect()` in the driver's program, the same line in both. The table also says how
much processor time all processes of each cluster took, which depends less on what else the machine does, and how long a client of
the API waits, from sending a command until its status says Finished; Spark's own cluster has nothing like it.

Options: --rounds N, --seconds N, --scale N, --queries 1,6,14, --runtime KEY, --node-type ID (of the workers), --conf KEY=VALUE
(for our side, to try a setting), --their-conf KEY=VALUE, --remove (removes the data). Exit code 1 when a ratio is above its limit
(marked ✗).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

from bench import _sparkway, _tpch
from bench._common import table, tree_cpu_s
from bench._servers import Served, agents, brickyard
from bench.start import Api, install
from brickyard.domain.runtimes import RuntimeManifest

RUNTIME = "17.3.x-scala2.13"
ROUNDS, WORKERS = 3, 2
SECONDS = 420.0
NODE_TYPES = {"brickyard.small": (1, 2_048), "brickyard.medium": (2, 4_096)}
NODE_TYPE, DRIVER_TYPE = "brickyard.small", "brickyard.medium"
EXECUTOR_SHARE, DRIVER_SHARE = 0.75, 0.6  # what Brickyard gives executors and drivers of their nodes' memory
MOST_SUM, MOST_EACH = 0.8, 1.0
PLACE = "tpch"  # below dbfs:/
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
    options = _options()
    if options.remove:
        _tpch.remove()
        return 0
    numbers = [int(each) for each in options.queries.split(",")] if options.queries else sorted(_tpch.QUERIES)
    if unknown := [number for number in numbers if number not in _tpch.QUERIES]:
        raise SystemExit(f"--queries names {unknown[0]}: there are queries 1 to {len(_tpch.QUERIES)}")
    files = _tpch.make(options.scale)
    texts = {number: _tpch.query(number, options.scale) for number in numbers}
    with _their_cluster(options) as theirs, _our_cluster(options, files) as ours:
        theirs.run(_PREPARE.format(tables=_tpch.TABLES, place=f"file:{files}"))
        ours.run(_PREPARE.format(tables=_tpch.TABLES, place=f"dbfs:/{PLACE}"))
        took = _rounds(theirs, ours, texts, options.rounds, until=began + options.seconds)
    return _report(took, options)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="after which nothing is measured twice")
    parser.add_argument("--scale", type=float, default=1.0, help=f"of TPC-H, at most {_tpch.MOST_SCALE}")
    parser.add_argument("--queries", default="", help="numbers, with commas between them; by default all")
    parser.add_argument("--runtime", default=RUNTIME)
    parser.add_argument("--node-type", default=NODE_TYPE, choices=NODE_TYPES)
    parser.add_argument("--conf", action="append", default=[], metavar="KEY=VALUE", help="Spark configuration of our cluster")
    parser.add_argument("--their-conf", action="append", default=[], metavar="KEY=VALUE", help="the same of Spark's own")
    parser.add_argument("--remove", action="store_true", help="removes the data and its generator, and does nothing else")
    return parser.parse_args()


# ── the two clusters ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@contextlib.contextmanager
def _their_cluster(options: argparse.Namespace) -> Iterator[Side]:
    cores, memory_mb = NODE_TYPES[options.node_type]
    conf = {"spark.executor.memory": f"{int(memory_mb * EXECUTOR_SHARE)}m", **_pairs(options.their_conf)}
    driver_mb = int(NODE_TYPES[DRIVER_TYPE][1] * DRIVER_SHARE)
    manifest: RuntimeManifest = install(options.runtime)
    with _sparkway.cluster(
        manifest, workers=WORKERS, cores=cores, worker_mb=memory_mb, conf=conf, driver_mb=driver_mb
    ) as cluster:
        yield Side(cluster.run, lambda: cluster.pids)


@contextlib.contextmanager
def _our_cluster(options: argparse.Namespace, files: Path) -> Iterator[Side]:
    with brickyard(provider="local", isolation="required", connect_port="0") as served:
        _show(files, served)
        api = Api(served.url)
        spec = {
            "cluster_name": "queries", "spark_version": options.runtime, "node_type_id": options.node_type,
            "driver_node_type_id": DRIVER_TYPE, "num_workers": WORKERS, "spark_conf": _pairs(options.conf),
        }  # fmt: skip
        cluster_id = api.call("POST", "/api/2.1/clusters/create", spec)["cluster_id"]
        get = f"/api/2.1/clusters/get?cluster_id={cluster_id}"
        try:
            api.until(get, "state", "RUNNING", ("TERMINATED", "TERMINATING", "ERROR"))
            yield Side(_commands(api, cluster_id), lambda: [served.pid, *agents(served)])
        finally:
            api.call("POST", "/api/2.1/clusters/delete", {"cluster_id": cluster_id})
            api.until(get, "state", "TERMINATED", ())


def _commands(api: Api, cluster_id: str) -> Callable[[str], str]:
    """A new context, and a function that runs commands in it."""
    where = {"clusterId": cluster_id, "language": "python"}
    context = api.call("POST", "/api/1.2/contexts/create", where)["id"]
    at = f"clusterId={cluster_id}&contextId={context}"
    api.until(f"/api/1.2/contexts/status?{at}", "status", "Running", ("Error",))

    def run(code: str) -> str:
        ran = api.call("POST", "/api/1.2/commands/execute", {**where, "contextId": context, "command": code})
        deadline = time.monotonic() + PATIENCE_S
        while True:
            found = api.call("GET", f"/api/1.2/commands/status?{at}&commandId={ran['id']}")
            if found["status"] == "Finished":
                break
            if found["status"] in ("Error", "Cancelled") or time.monotonic() > deadline:
                raise RuntimeError(f"a command did not finish: {found}")
            time.sleep(POLL_S)
        results = found["results"]
        if results.get("resultType") != "text" or results.get("truncated"):
            raise RuntimeError(f"a command failed: {results.get('cause') or results}")
        return str(results["data"]).strip()

    return run


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
                if index:
                    took[number][side].append(found[side])
            what = f"round {index}" if index else "first round, which does not count"
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
        len(a) == len(b) and all(map(_equal, a, b)) for a, b in zip(sorted(theirs, key=repr), sorted(ours, key=repr), strict=True)
    )
    if not same:
        raise RuntimeError(f"query {number} has different results:\n{theirs[:5]}\n{ours[:5]}")


def _equal(a: str | None, b: str | None) -> bool:
    if a == b:
        return True
    try:
        one, other = Decimal(a or "x"), Decimal(b or "x")
    except ArithmeticError:
        return False
    return abs(one - other) <= Decimal("1e-9") * max(abs(one), abs(other))


# ── the table ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _report(took: Mapping[int, tuple[list[Took], list[Took]]], options: argparse.Namespace) -> int:
    rows: list[list[object]] = []
    sums = [0.0] * 5
    for number, (theirs, ours) in took.items():
        a, b = ([each.inside for each in side] for side in (theirs, ours))
        cpu = [statistics.median(each.cpu for each in side) for side in (theirs, ours)]
        outside = statistics.median(each.outside for each in ours)
        for index, value in enumerate((statistics.median(a), statistics.median(b), *cpu, outside)):
            sums[index] += value
        rows.append([f"Q{number}", _spread(a), _spread(b), _ratio(a, b), MOST_EACH, *cpu, cpu[1] / cpu[0], outside])
    mark = "✓" if sums[1] / sums[0] <= MOST_SUM else "✗"
    cpu = sums[2:4]
    rows.append(["sum", *sums[:2], f"{sums[1] / sums[0]:.2f} {mark}", MOST_SUM, *cpu, cpu[1] / cpu[0], sums[4]])
    cores, memory_mb = NODE_TYPES[options.node_type]
    processor = ["processor time, Spark's own, s", "Brickyard, s", "ratio"]
    table(
        f"TPC-H at scale {options.scale:g}, {options.runtime}: a driver and {WORKERS} workers of {cores} "
        f"core{'s' if cores > 1 else ''} and {memory_mb} MiB, medians of {_counted(took)} rounds (in brackets: fastest and "
        "slowest)",
        ["query", "Spark's own way, s", "Brickyard, s", "ratio", "at most", *processor, "for a client of Brickyard's API, s"],
        rows,
    )
    return 1 if any("✗" in str(cell) for row in rows for cell in row) else 0


def _counted(took: Mapping[int, tuple[list[Took], list[Took]]]) -> str:
    counts = [len(theirs) for theirs, _ in took.values()]
    return str(min(counts)) if min(counts) == max(counts) else f"{min(counts)} or {max(counts)}"


def _ratio(theirs: list[float], ours: list[float]) -> str:
    ratio = statistics.median(ours) / statistics.median(theirs)
    return f"{ratio:.2f} {'✓' if ratio <= MOST_EACH else '✗'}"


def _spread(seconds: list[float]) -> str:
    return f"{statistics.median(seconds):.2f} ({min(seconds):.2f}-{max(seconds):.2f})"


if __name__ == "__main__":
    sys.exit(main())
