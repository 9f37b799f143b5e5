"""From a warm pool to the first results, step by step: one driver, one worker, side by side with Spark's own way.

A pool keeps two warm instances. Each round takes them twice, through the API of a running server, with isolated nodes:
(a) create -> RUNNING, a context, and the query of `bench.start` as its first command: the first result, from Python and SQL, by
    executors that work;
(b) the waterfall: create -> RUNNING, context create -> Running, `print(1)`, a plan that is not run, a job of two trivial tasks,
    an aggregation in SQL, the same again, another one, a Python UDF.
Then the time until what was given back is warm again. Spark's own way (`_sparkway`) takes the same steps in the same run. The
second table says what happened inside (a), from the logs of the nodes (`_firsttrace`).

Options: --rounds N, --runtime KEY. Exit code 1 when a limit is missed (marked ✗).
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from bench import _firsttrace, _sparkway
from bench._client import POLL_S, Api
from bench._harness import RUNTIME, Row, judged, options, spread, table
from bench._servers import Served, brickyard
from bench.pool import create_pool, until_idle, until_quiet
from bench.start import CORES, EXECUTOR_MB, MEMORY_MB, QUERY, check, install
from brickyard.domain.runtimes import RuntimeManifest

RAW_ROUNDS = 3
RUNNING_S, RESULT_S, RESULT_RATIO, AGAIN_S = 0.5, 2.0, 0.08, 6.0
SUMS = 'print(spark.sql("SELECT id % 10 AS k, sum(id) AS s FROM range(0, 1000000, 1, 2) GROUP BY 1 ORDER BY 1").collect())'

STEPS = (
    ("print(1)", "print(1)"),
    (
        "a plan that is not run",
        'spark.range(0, 1000).selectExpr("id % 7 AS k").where("k > 1").groupBy("k").count().orderBy("k").explain()',
    ),
    ("a first job of two trivial tasks", "print(spark.sparkContext.parallelize([1, 2], 2).count())"),
    ("a first aggregation in SQL", SUMS),
    ("the same again", SUMS),
    (
        "another one, with a join",
        'print(spark.sql("SELECT a.id % 5 AS k, avg(b.id) AS m, max(a.id) AS n FROM range(0, 100000, 1, 2) a '
        'JOIN range(0, 100000, 1, 2) b ON a.id = b.id GROUP BY 1 ORDER BY 2 DESC").collect())',
    ),
    (
        "a first Python UDF",
        "from pyspark.sql.functions import udf\n"
        "print(spark.range(0, 10, 1, 2).select(udf(lambda each: each + 1, 'long')('id')).collect())",
    ),
)
CREATE, CONTEXT, RESULT, AGAIN = "create -> RUNNING", "context create -> Running", "create -> first result", "given back -> warm"
_RAW_STEPS = f"""
import contextlib, io, json, time
took = []
for code in {json.dumps([code for _, code in STEPS])}:
    began = time.monotonic()
    with contextlib.redirect_stdout(io.StringIO()):
        exec(code, globals())
    took.append(time.monotonic() - began)
print("answer", json.dumps(took), flush=True)
"""


class Straight(NamedTuple):
    """Round (a): seconds until RUNNING and until the first result, and what the logs tell."""

    running: float
    result: float
    marks: dict[str, float]


def main() -> int:
    given = options(__doc__, rounds=5, runtime=RUNTIME)
    manifest = install(given.runtime)
    with brickyard(provider="local", isolation="required", connect_port="0") as served:
        rows, inner = _measure(served, given.runtime, manifest, given.rounds)
    name = f"{given.runtime} (Spark {manifest.spark_version})"
    title = f"First results on a warm pool, {name}: a driver and one worker, medians of {given.rounds} rounds"
    missed = table(title, ["what, s", "Brickyard", "Spark's own way", "ratio", "at most"], rows)
    table("Inside the first result: seconds after create, medians", ["what", "at", "since the last one"], inner)
    return missed


def _measure(served: Served, runtime: str, manifest: RuntimeManifest, rounds: int) -> tuple[list[Row], list[Row]]:
    api = Api(served.url)
    straight: list[Straight] = []
    falls: dict[str, list[float]] = {}
    raw: dict[str, list[float]] = {}
    _raw_round(manifest)  # reads the runtime's files from the disk; does not count
    pool_id = create_pool(api, runtime)
    for number in range(rounds + 1):
        until_quiet(api, served, pool_id)
        one = _straight(api, served, pool_id, runtime)
        until_quiet(api, served, pool_id)
        fall = _waterfall(api, pool_id, runtime)
        print(f"round {number}: {one.running:.2f} s RUNNING, {one.result:.2f} s first result; {_said(fall)}", file=sys.stderr)
        if not number:
            continue  # in the first round, the disk cache is cold
        straight.append(one)
        for what, seconds in fall.items():
            falls.setdefault(what, []).append(seconds)
        if number % max(1, rounds // RAW_ROUNDS) == 0 and len(raw.get(RESULT, ())) < RAW_ROUNDS:
            until_quiet(api, served, pool_id)  # instances that the pool is still preparing would share the cores
            found = _raw_round(manifest)
            print(f"Spark's own way: {_said(found)}", file=sys.stderr)
            for what, seconds in found.items():
                raw.setdefault(what, []).append(seconds)
    falls[CREATE] += [each.running for each in straight]
    falls[RESULT] = [each.result for each in straight]
    return list(_report(falls, raw)), _inner([each.marks for each in straight])


def _straight(api: Api, served: Served, pool_id: str, runtime: str) -> Straight:
    began, epoch = time.monotonic(), time.time()
    with api.cluster("first", spark_version=runtime, instance_pool_id=pool_id) as cluster_id:
        running = time.monotonic() - began
        context = api.context(cluster_id)
        told = {"RUNNING": epoch + running, "the context": time.time()}
        text = api.command(cluster_id, context, QUERY, every_s=POLL_S / 2)
        result = time.monotonic() - began
        told["the first result"] = epoch + result
    check(text)
    found = _firsttrace.marks(Path(served.place, "logs", cluster_id), since=epoch, command=told["the context"])
    return Straight(running, result, {name: at - epoch for name, at in {**found, **told}.items()})


def _waterfall(api: Api, pool_id: str, runtime: str) -> dict[str, float]:
    took: dict[str, float] = {}
    began = time.monotonic()

    def step(what: str) -> None:
        nonlocal began
        took[what], began = time.monotonic() - began, time.monotonic()

    with api.cluster("first", spark_version=runtime, instance_pool_id=pool_id) as cluster_id:
        step(CREATE)
        context = api.context(cluster_id)
        step(CONTEXT)
        for what, code in STEPS:
            api.command(cluster_id, context, code, every_s=POLL_S / 2)
            step(what)
    until_idle(api, pool_id, moment_s=0.0)
    step(AGAIN)
    return took


def _raw_round(manifest: RuntimeManifest) -> dict[str, float]:
    """Spark's own way: one start to the first result, and one that takes the steps of the waterfall."""
    ready, result, text = _sparkway.start(manifest, QUERY, cores=CORES, worker_mb=MEMORY_MB, executor_mb=EXECUTOR_MB)
    check(text)
    _, _, text = _sparkway.start(manifest, _RAW_STEPS, cores=CORES, worker_mb=MEMORY_MB, executor_mb=EXECUTOR_MB)
    steps = zip(STEPS, json.loads(text.removeprefix("answer ")), strict=True)
    return {CREATE: ready, RESULT: result, **{what: seconds for (what, _), seconds in steps}}


def _report(ours: dict[str, list[float]], raw: dict[str, list[float]]) -> Iterator[Row]:
    limits: dict[str, tuple[float | None, float | None]] = {
        CREATE: (RUNNING_S, None), RESULT: (RESULT_S, RESULT_RATIO), AGAIN: (AGAIN_S, None),
    }  # fmt: skip
    for what, found in ours.items():
        middle = statistics.median(found)
        ratio = middle / statistics.median(raw[what]) if what in raw else None
        seconds, share = limits.get(what, (None, None))
        late = seconds is not None and middle > seconds
        slow = share is not None and (ratio is None or ratio > share)
        shown = judged(spread(found), not (late or slow)) if what in limits else spread(found)
        limit = " and ".join([*([f"{seconds} s"] if seconds else []), *([f"{share}"] if share else [])])
        yield [what, shown, spread(raw[what]) if what in raw else "", "" if ratio is None else ratio, limit]


def _inner(rounds: list[dict[str, float]]) -> list[Row]:
    """The marks that most rounds have, in the order of their medians."""
    names = {name for each in rounds for name in each}
    found = {name: [each[name] for each in rounds if name in each] for name in names}
    middles = {name: statistics.median(times) for name, times in found.items() if 2 * len(times) > len(rounds)}
    rows: list[Row] = []
    last = 0.0
    for name in sorted(middles, key=lambda each: middles[each]):
        rows.append([name, spread(found[name]), f"{middles[name] - last:+.2f}"])
        last = middles[name]
    return rows


def _said(took: dict[str, float]) -> str:
    return ", ".join(f"{what} {seconds:.2f}" for what, seconds in took.items())


if __name__ == "__main__":
    sys.exit(main())
