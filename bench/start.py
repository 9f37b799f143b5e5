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

import argparse
import http.client
import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from bench import _sparkway
from bench._common import table
from bench._servers import TOKEN, Served, brickyard
from brickyard.config.settings import default_cache_dir
from brickyard.domain.runtimes import RuntimeManifest
from brickyard.runtime import catalogue, installer, training
from brickyard.runtime.node.jvm.archives import keeps_caches, major
from brickyard.runtime.progress import Report

RUNTIMES = ("17.3.x-scala2.13", "16.4.x-scala2.12", "18.2.x-scala2.13")
ROUNDS = 5
NODE_TYPE, CORES, MEMORY_MB = "brickyard.medium", 2, 4_096
EXECUTOR_MB = 3_072  # what Brickyard gives its executors on such a node
POLL_S = 0.02
IDLE_S = 1.0
PATIENCE_S = 180.0
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--runtime", action="append", help=f"runtime keys; by default {', '.join(RUNTIMES)}")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds between being ready and the query")
    options = parser.parse_args()
    rows = []
    with brickyard(provider="local", isolation="required") as served:
        for key in options.runtime or RUNTIMES:
            manifest = install(key)
            theirs, ours = _rounds(served, key, manifest, options.rounds, options.pause)
            name = f"{key} (Spark {manifest.spark_version}, Java {major(manifest.java_version)})"
            rows += _report(name, theirs, ours, CACHED_TARGETS if keeps_caches(manifest.java_version) else TARGETS)
    table(
        f"Start: a driver and one worker, medians of {options.rounds} rounds (in brackets: fastest and slowest)",
        ["runtime", "until", "Spark's own way, s", "Brickyard, s", "ratio", "at most"],
        rows,
    )
    return 1 if any("✗" in str(cell) for row in rows for cell in row) else 0


def _rounds(served: Served, key: str, manifest: RuntimeManifest, count: int, pause_s: float) -> tuple[list[Took], list[Took]]:
    theirs, ours = [], []
    for number in range(count + 1):
        theirs.append(spark_start(manifest, pause_s))
        ours.append(Api(served.url, pause_s=pause_s).start(spark_version=key, node_type_id=NODE_TYPE))
        print(f"{key} round {number}: Spark's own way {show(theirs[-1])}; Brickyard {show(ours[-1])}", file=sys.stderr)
    return theirs[1:], ours[1:]


def spark_start(manifest: RuntimeManifest, pause_s: float = 0.0) -> Took:
    """Runs one start in Spark's own way. Raises RuntimeError when the answer is wrong."""
    query = f"import time; time.sleep({pause_s}){QUERY}"
    ready, answer, text = _sparkway.start(manifest, query, cores=CORES, worker_mb=MEMORY_MB, executor_mb=EXECUTOR_MB)
    check(text)
    return Took(ready, answer - pause_s)


class Api:
    """A client of the server over one kept-alive connection, so that measuring costs next to nothing."""

    def __init__(self, url: str, *, pause_s: float = 0.0) -> None:
        """`pause_s`: between a cluster's start and its first command."""
        self._pause_s = pause_s
        self._connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=60)
        self._used = 0.0

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        data = json.dumps(body) if body is not None else None
        if time.monotonic() - self._used > IDLE_S:  # the server closes connections that are idle for some seconds
            self._connection.close()
        self._connection.request(method, path, body=data, headers={"Authorization": f"Bearer {TOKEN}"})
        answer = self._connection.getresponse()
        self._used = time.monotonic()
        found: dict[str, Any] = json.loads(answer.read())
        if answer.status != 200:
            raise RuntimeError(f"{path} answered {answer.status}: {found}")
        return found

    def until(self, path: str, key: str, wanted: str, refused: tuple[str, ...], *, every_s: float = POLL_S) -> dict[str, Any]:
        """Polls until `key` of the answer is `wanted`. Raises RuntimeError when it is one of `refused`, or on timeout."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            found = self.call("GET", path)
            if found[key] == wanted:
                return found
            if found[key] in refused or time.monotonic() > deadline:
                raise RuntimeError(f"{path} did not become {wanted}: {found}")
            time.sleep(every_s)

    def start(self, **fields: Any) -> Took:
        """Runs one start: create to RUNNING and, after a pause that does not count, to the first result; the cluster is removed
        afterwards."""
        spec = {"cluster_name": "start", "num_workers": 1, **fields}
        began = time.monotonic()
        cluster_id = self.call("POST", "/api/2.1/clusters/create", spec)["cluster_id"]
        get = f"/api/2.1/clusters/get?cluster_id={cluster_id}"
        try:
            self.until(get, "state", "RUNNING", ("TERMINATED", "TERMINATING", "ERROR"))
            ready = time.monotonic() - began
            time.sleep(self._pause_s)
            text = self.first_result(cluster_id)
            answer = time.monotonic() - began - self._pause_s
        finally:
            self.call("POST", "/api/2.1/clusters/delete", {"cluster_id": cluster_id})
            self.until(get, "state", "TERMINATED", ())
        check(text)
        return Took(ready, answer)

    def first_result(self, cluster_id: str, code: str = QUERY) -> str:
        """The output of the query, or other code, from a new context's first command."""
        where = {"clusterId": cluster_id, "language": "python"}
        context = self.call("POST", "/api/1.2/contexts/create", where)["id"]
        at = f"clusterId={cluster_id}&contextId={context}"
        self.until(f"/api/1.2/contexts/status?{at}", "status", "Running", ("Error",))
        ran = self.call("POST", "/api/1.2/commands/execute", {**where, "contextId": context, "command": code})
        found = self.until(f"/api/1.2/commands/status?{at}&commandId={ran['id']}", "status", "Finished", ("Error", "Cancelled"))
        return str(found["results"].get("data") or found["results"]).strip()


def _report(name: str, theirs: list[Took], ours: list[Took], targets: tuple[float, float]) -> list[list[object]]:
    rows: list[list[object]] = []
    for index, (what, most) in enumerate(zip(("ready", "first result"), targets, strict=True)):
        a, b = [took[index] for took in theirs], [took[index] for took in ours]
        ratio = statistics.median(b) / statistics.median(a)
        mark = "✓" if ratio <= most else "✗"
        rows.append([name, what, spread(a), spread(b), f"{ratio:.2f} {mark}", most])
    return rows


def spread(seconds: list[float]) -> str:
    return f"{statistics.median(seconds):.2f} ({min(seconds):.2f}-{max(seconds):.2f})"


def show(took: Took) -> str:
    return f"{took.ready:.2f} s ready, {took.answer:.2f} s first result"


def check(text: str) -> None:
    if text != ANSWER:
        raise RuntimeError(f"the query's answer is wrong: {text}")


def install(key: str) -> RuntimeManifest:
    """A runtime, installed and trained. Raises SystemExit."""
    runtime = catalogue.find(key)
    if runtime is None:
        raise SystemExit(f"there is no runtime {key}; see `brickyard runtime list`")
    cache = Path(os.environ.get("BRICKYARD_CACHE_DIR") or default_cache_dir())
    manifest = installer.install(runtime, cache_dir=cache, progress=_tell)
    trained = training.train(runtime.environment, f"Spark {runtime.spark_version}", cache_dir=cache, progress=_tell)
    return msgspec.structs.replace(trained, classes=manifest.classes)


def _tell(report: Report) -> None:
    print(report.text, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
