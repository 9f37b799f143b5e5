"""The queries of TPC-H and TPC-DS on one cluster with Photon, each with the native engine and with Spark's own: same answers?

A cluster of a driver and one worker runs each query twice in one session, with `spark.comet.enabled` true and false, and compares
the rows. A query that fails with the native engine alone, or whose answers differ, is marked ✗, with the reason; the table also
says how much of each plan ran natively, and what each run took, though both are first runs that compile.

A query that fails both ways (some divide by zero, with little data) runs again without ANSI mode.

Options: --suites tpch tpcds, --queries q1 q14a, --scale N, --runtime KEY, --conf KEY=VALUE, --node-type ID (of the worker),
--remove (removes the data). Exit code 1 when something is marked ✗.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from bench import _tpcds, _tpch
from bench._client import Api
from bench._harness import Row, options, table
from bench._servers import brickyard
from bench._tpc import equal
from bench.start import install

RUNTIME = "18.0.x-photon-scala2.13"
NODE_TYPE, DRIVER_TYPE = "brickyard.medium", "brickyard.medium"
PATIENCE_S = 600.0
_PREPARE = """
import json, re, time
def views(place, tables):
    for name in tables:
        spark.read.parquet(place + "/" + name + ".parquet").createOrReplaceTempView(name)
def answered(text, native, ansi):
    spark.conf.set("spark.comet.enabled", native)
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    began, plan = time.perf_counter(), ""
    try:
        frame = spark.sql(text)
        rows = [[None if cell is None else str(cell) for cell in row] for row in frame.collect()]
        found = {"rows": rows}
        plan = frame._jdf.queryExecution().executedPlan().toString().split("Initial Plan")[0]
    except Exception as error:
        found = {"error": str(error)[:1500]}
    operators = re.findall(r"^[\\s:+*()0-9-]*(\\w+)", plan, re.M)
    found["native"] = sum(name.startswith("Comet") for name in operators)
    found["operators"] = sum(not re.search("QueryStage|^Adaptive|^InputAdapter|^WholeStage", name) for name in operators)
    found["took"] = time.perf_counter() - began
    return found
"""
_BOTH = """
given = json.loads({given!r})
for ansi in ("true", "false"):
    both = [answered(given, native, ansi) for native in ("true", "false")]
    if any("rows" in each for each in both):
        break
print(json.dumps(both))
"""

Run = Callable[[str], str]


class Answer(NamedTuple):
    """What became of a query: what is wrong, or ""; how many operators of its plan are native, and how many there are; its rows;
    seconds with the native engine, and without."""

    problem: str
    native: int
    operators: int
    rows: int
    took: tuple[float, float]


def main() -> int:
    given = options(
        __doc__, suites=("tpch", "tpcds"), queries=(), scale=0.1, runtime=RUNTIME, node_type=NODE_TYPE, conf=(), remove=False
    )
    if given.remove:
        _tpch.remove()
        _tpcds.remove()
        return 0
    install(given.runtime)
    conf = dict(each.split("=", 1) for each in given.conf)
    rows: list[Row] = []
    with brickyard(provider="local", isolation="required", connect_port="0", background_training="false") as served:
        spec = {"spark_version": given.runtime, "node_type_id": given.node_type, "driver_node_type_id": DRIVER_TYPE}
        files = {suite: show(suite, given.scale, Path(served.place)) for suite in given.suites}
        api = Api(served.url)
        with api.cluster("answers", **spec, num_workers=1, spark_conf=conf) as cluster_id:
            run = partial(api.command, cluster_id, api.context(cluster_id), patience_s=PATIENCE_S)
            for suite, tables in files.items():
                for name, answer in compared(run, suite, tables, given.scale, given.queries):
                    cell = f"✗ {answer.problem}".replace("|", "/").replace("\n", " ") if answer.problem else "✓"
                    rows.append([suite, name, cell, answer.rows, f"{answer.native} of {answer.operators}", *answer.took])
                    print(*rows[-1], file=sys.stderr, flush=True)
    return table(
        f"TPC-H and TPC-DS at scale {given.scale:g} with Photon, {given.runtime}, {given.node_type}",
        ["suite", "query", "equal", "rows", "native operators", "Photon, s", "Spark's own operators, s"],
        rows,
    )


def show(suite: str, scale: float, place: Path) -> list[str]:
    """Shows a suite's files at dbfs:/SUITE of the workspace in `place`. Returns the names of its tables."""
    files = (_tpch if suite == "tpch" else _tpcds).make(scale)
    target = place / "dbfs" / suite
    target.mkdir(parents=True)
    for each in files.glob("*.parquet"):
        try:
            os.link(each, target / each.name)
        except OSError:
            shutil.copyfile(each, target / each.name)
    return sorted(each.stem for each in files.glob("*.parquet"))


def texts(suite: str, scale: float) -> Mapping[str, str]:
    """The queries of a suite by their names."""
    return _tpcds.queries() if suite == "tpcds" else {f"q{number}": _tpch.query(number, scale) for number in _tpch.QUERIES}


def compared(run: Run, suite: str, tables: Sequence[str], scale: float, only: Sequence[str] = ()) -> Iterator[tuple[str, Answer]]:
    """Runs the queries of a suite, both ways. `run` runs Python in a session of a cluster with Photon."""
    run(f"{_PREPARE}\nviews('dbfs:/{suite}', {list(tables)!r})")
    for name, text in texts(suite, scale).items():
        if not only or name in only:
            native, plain = json.loads(run(_BOTH.format(given=json.dumps(text))))
            took = (native["took"], plain["took"])
            yield name, Answer(problem(native, plain), native["native"], native["operators"], len(plain.get("rows", ())), took)


def problem(native: Mapping[str, Any], plain: Mapping[str, Any]) -> str:
    """What is wrong with an answer of the native engine, or ""."""
    if "error" in native or "error" in plain:
        return "; ".join(f"{what}: {each['error']}" for what, each in (("Photon", native), ("Spark", plain)) if "error" in each)
    a, b = (sorted(each["rows"], key=repr) for each in (native, plain))
    if len(a) != len(b):
        return f"{len(a)} rows in place of {len(b)}"
    wrong = [(one, other) for one, other in zip(a, b, strict=True) if not all(map(equal, one, other))]
    return f"{len(wrong)} of {len(b)} rows differ, such as {wrong[0][0]} in place of {wrong[0][1]}" if wrong else ""


if __name__ == "__main__":
    sys.exit(main())
