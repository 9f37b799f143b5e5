"""From nothing to a running cluster and a first result: Spark's own way against ours, round by round in one run.

(a) Spark's own way (`_sparkway`): a master, then a worker and a PySpark driver side by side, with plain options.
(b) Ours: `clusters/create` until the cluster is RUNNING, then a context and the same query as its first command, through the API
    of a running server, with isolated nodes. RUNNING is more than (a)'s "ready": the driver has answered a job by then.

Both run from the same installed runtime, and each round runs both; a first round, which reads the runtime's files from the disk,
does not count. Options: --rounds N, --runtime KEY (several times), --pause S. Exit code 1 when a ratio is above its limit
(marked ✗).

With --pause, both wait for so many seconds between "ready" and the query, as a person does; they do not count.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from bench import _sparkway
from bench._client import Api
from bench._harness import CACHE, RUNTIME, Row, limited, options, spread, table, turns
from bench._servers import brickyard
from brickyard.domain.runtimes import RuntimeManifest
from brickyard.runtime import catalogue, installer, training
from brickyard.runtime.node.jvm.archives import keeps_caches, major
from brickyard.runtime.progress import Report

RUNTIMES = (RUNTIME, "16.4.x-scala2.12", "18.2.x-scala2.13")
NODE_TYPE, CORES, MEMORY_MB = "brickyard.medium", 2, 4_096
EXECUTOR_MB = 3_072  # what Brickyard gives its executors on such a node
QUERY = """
rows = spark.range(0, 1000000, 1, 2).selectExpr("id % 10 AS k", "id AS v").groupBy("k").sum("v").orderBy("k").collect()
print("answer", [tuple(row) for row in rows], flush=True)
"""
ANSWER = f"answer {[(k, sum(range(k, 1_000_000, 10))) for k in range(10)]}"
TARGETS = (0.33, 0.35)
CACHED_TARGETS = (0.25, 0.35)  # on a Java that keeps an AOT cache


class Took(NamedTuple):
    """Seconds from the beginning until the cluster is ready, and until the query's answer arrives."""

    ready: float
    answer: float

    def __str__(self) -> str:
        return f"{self.ready:.2f} s ready, {self.answer:.2f} s first result"


def main() -> int:
    given = options(__doc__, rounds=5, runtime=RUNTIMES, pause=0.0)
    rows: list[Row] = []
    with brickyard(provider="local", isolation="required") as served:
        for key in given.runtime:
            manifest = install(key)
            works: dict[str, Callable[[], Took]] = {
                "Spark's own way": lambda: spark_start(manifest, given.pause),  # noqa: B023 - called in this round
                "Brickyard": lambda: start(Api(served.url), given.pause, spark_version=key, node_type_id=NODE_TYPE),  # noqa: B023 - likewise
            }
            theirs, ours = turns(given.rounds, works, uncounted=1, show=str).values()
            name = f"{key} (Spark {manifest.spark_version}, Java {major(manifest.java_version)})"
            limits = CACHED_TARGETS if keeps_caches(manifest.java_version) else TARGETS
            rows += [[name, *each] for each in compared(theirs, ours, limits)]
    return table(
        f"Start: a driver and one worker, medians of {given.rounds} rounds (in brackets: fastest and slowest)",
        ["runtime", "until", "Spark's own way, s", "Brickyard, s", "ratio", "at most"],
        rows,
    )


def spark_start(manifest: RuntimeManifest, pause_s: float = 0.0) -> Took:
    """Runs one start in Spark's own way. Raises RuntimeError when the answer is wrong."""
    query = f"import time; time.sleep({pause_s}){QUERY}"
    ready, answer, text = _sparkway.start(manifest, query, cores=CORES, worker_mb=MEMORY_MB, executor_mb=EXECUTOR_MB)
    check(text)
    return Took(ready, answer - pause_s)


def start(api: Api, pause_s: float = 0.0, **spec: Any) -> Took:
    """Runs one start: create to RUNNING and, after a pause that does not count, to the first result; the cluster is removed
    afterwards."""
    began = time.monotonic()
    with api.cluster("start", **spec) as cluster_id:
        ready = time.monotonic() - began
        time.sleep(pause_s)
        text = api.first_result(cluster_id, QUERY)
        answer = time.monotonic() - began - pause_s
    check(text)
    return Took(ready, answer)


def compared(theirs: list[Took], ours: list[Took], most: Sequence[float]) -> Iterator[Row]:
    """A row for each moment, with the limit of its ratio."""
    for what, a, b, limit in zip(
        ("ready", "first result"), zip(*theirs, strict=True), zip(*ours, strict=True), most, strict=True
    ):
        yield [what, spread(a), spread(b), *limited(statistics.median(b) / statistics.median(a), limit)]


def check(text: str) -> None:
    if text != ANSWER:
        raise RuntimeError(f"the query's answer is wrong: {text}")


def install(key: str = RUNTIME) -> RuntimeManifest:
    """A runtime, installed and trained. Raises SystemExit."""
    runtime = catalogue.find(key)
    if runtime is None:
        raise SystemExit(f"there is no runtime {key}; see `brickyard runtime list`")
    manifest = installer.install(runtime, cache_dir=CACHE, progress=_tell)
    trained = training.train(runtime.environment, f"Spark {runtime.spark_version}", cache_dir=CACHE, progress=_tell)
    return msgspec.structs.replace(trained, classes=manifest.classes)


def _tell(report: Report) -> None:
    print(report.text, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
