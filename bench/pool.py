"""Clusters on a warm pool against Spark's own way of starting: one driver, one worker, in one run.

A pool keeps two warm instances. Each round creates a cluster on them through the API of a running server, with isolated
nodes: create -> RUNNING and -> the first query's result, then `create(...).result()` of the official SDK; and waits until the
pool is warm again. Spark's own way (`_sparkway`) is measured in between. Also: the memory of a warm instance (PSS, with its
agent), at rest and while it practises, as it does when clusters come here. Options: --rounds N, --runtime KEY. Exit code 1 when a
limit is missed (marked ✗).
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
import time
from pathlib import Path

import psutil
from databricks.sdk import WorkspaceClient

from bench import _poolroom
from bench._common import table
from bench._servers import TOKEN, Served, brickyard
from bench.start import NODE_TYPE, Api, Took, install, show, spark_start, spread
from brickyard.domain.runtimes import RuntimeManifest

RUNTIME = "17.3.x-scala2.13"
ROUNDS = 10
RAW_ROUNDS = 4
IDLE = 2
WARM_PATIENCE_S = 600.0
PREPARES, PRACTISED = "preparing a node", "first commands were practised"
QUIET_SHARE, QUIET_PATIENCE_S = 0.1, 120.0  # of a core
RUNNING_S, RUNNING_RATIO, ANSWER_RATIO, SDK_S, IDLE_MIB = 1.2, 0.15, 0.3, 1.5, 640


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--runtime", default=RUNTIME)
    options = parser.parse_args()
    manifest = install(options.runtime)
    with brickyard(provider="local", isolation="required") as served:
        rows = _measure(served, options.runtime, manifest, options.rounds)
    table(
        f"Warm pool, {options.runtime} (Spark {manifest.spark_version}): a driver and one worker, medians of {options.rounds} "
        "rounds (in brackets: fastest and slowest)",
        ["what", "Brickyard", "Spark's own way, s", "ratio", "at most"],
        rows,
    )
    missed = any("✗" in str(cell) for row in rows for cell in row)
    return max(int(missed), _poolroom.main())


def _measure(served: Served, runtime: str, manifest: RuntimeManifest, rounds: int) -> list[list[object]]:
    api = Api(served.url)
    sdk = WorkspaceClient(host=served.url, token=TOKEN)
    raw: list[Took] = []
    ours: list[Took] = []
    results, practising, shares = [], [], []
    spark_start(manifest)  # reads the runtime's files from the disk; does not count
    pool_id = create_pool(api, runtime)
    for number in range(rounds + 1):
        until_idle(api, pool_id)
        practising.append(max(_shares_mib(served.pid)))
        took, result = _round(api, sdk, pool_id, runtime)
        if number:  # in the first one, the disk cache is cold
            ours.append(took)
            results.append(result)
            print(f"round {number}: {show(took)}; SDK {result:.2f} s", file=sys.stderr)
        if number % max(1, rounds // RAW_ROUNDS) == 0 and len(raw) < RAW_ROUNDS:
            until_quiet(api, served, pool_id)  # instances that the pool is still preparing would share the cores
            shares.append(max(_shares_mib(served.pid)))
            raw.append(spark_start(manifest))
            print(f"Spark's own way: {show(raw[-1])}", file=sys.stderr)
    return _report(raw, ours, results, shares, practising)


def create_pool(api: Api, runtime: str) -> str:
    spec = {
        "instance_pool_name": "warm",
        "node_type_id": NODE_TYPE,
        "min_idle_instances": IDLE,
        "max_capacity": IDLE,
        "preloaded_spark_versions": [runtime],
        "idle_instance_autotermination_minutes": 60,
    }
    return str(api.call("POST", "/api/2.0/instance-pools/create", spec)["instance_pool_id"])


def until_idle(api: Api, pool_id: str, *, moment_s: float = 2.0) -> None:
    """Waits until every instance of the pool is warm, and a moment more, so that preparing them disturbs nothing."""
    deadline = time.monotonic() + WARM_PATIENCE_S
    path = f"/api/2.0/instance-pools/get?instance_pool_id={pool_id}"
    while (found := api.call("GET", path))["stats"].get("idle_count", 0) < IDLE:
        errors = found.get("status", {}).get("pending_instance_errors")
        if errors or time.monotonic() > deadline:
            raise RuntimeError(f"the pool did not become warm: {errors or found['stats']}")
        time.sleep(0.1)
    time.sleep(moment_s)


def until_quiet(api: Api, served: Served, pool_id: str) -> None:
    """Waits until the pool is warm, its nodes have practised, and what is below the server uses next to no processor any more."""
    until_idle(api, pool_id)
    deadline = time.monotonic() + QUIET_PATIENCE_S
    while not _practised(served) and time.monotonic() < deadline:
        time.sleep(0.2)
    used = _used_s(served.pid)
    while time.monotonic() < deadline:
        time.sleep(1.0)
        before, used = used, _used_s(served.pid)
        if used - before < QUIET_SHARE:
            return


def _practised(served: Served) -> bool:
    """Whether all nodes have practised since they were prepared. Between two statements they use no processor either, where
    others need it."""
    logs = [log.read_text(errors="replace") for log in Path(served.place, "instances").glob("*/node.log")]
    return all(PRACTISED in log.rpartition(PREPARES)[2] for log in logs)


def _used_s(server: int) -> float:
    """CPU seconds of the processes below the server that live."""
    found = 0.0
    for process in psutil.Process(server).children(recursive=True):
        with contextlib.suppress(psutil.Error):
            times = process.cpu_times()
            found += times.user + times.system
    return found


def _round(api: Api, sdk: WorkspaceClient, pool_id: str, runtime: str) -> tuple[Took, float]:
    """Starts one cluster through the API and one through the SDK: seconds until RUNNING and the answer, and until `result()`."""
    took = api.start(spark_version=runtime, instance_pool_id=pool_id)
    until_idle(api, pool_id)
    began = time.monotonic()
    wait = sdk.clusters.create(cluster_name="sdk", spark_version=runtime, instance_pool_id=pool_id, num_workers=1)
    wait.result()
    seconds = time.monotonic() - began
    sdk.clusters.permanent_delete(wait.cluster_id)
    return took, seconds


def _shares_mib(server_pid: int) -> list[float]:
    """PSS of every instance: its agent and all processes below it."""
    found = []
    for agent in psutil.Process(server_pid).children():
        with contextlib.suppress(psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
            if "brickyard.agent" in agent.cmdline():
                found.append(sum(_share_mib(process.pid) for process in (agent, *agent.children(recursive=True))))
    return found


def _share_mib(pid: int) -> float:
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(text.split("\nPss:")[1].split()[0]) / 1024


def _report(
    raw: list[Took], ours: list[Took], results: list[float], shares: list[float], practising: list[float]
) -> list[list[object]]:
    rows: list[list[object]] = []
    limits = ((RUNNING_S, RUNNING_RATIO), (None, ANSWER_RATIO))
    for index, (what, (seconds, ratio)) in enumerate(
        zip(("create -> RUNNING, s", "create -> first result, s"), limits, strict=True)
    ):
        a, b = [took[index] for took in raw], [took[index] for took in ours]
        found = statistics.median(b) / statistics.median(a)
        good = found <= ratio and (seconds is None or statistics.median(b) <= seconds)
        limit = f"{ratio}" if seconds is None else f"{seconds} s and {ratio}"
        rows.append([what, spread(b), spread(a), f"{found:.2f} {_mark(good)}", limit])
    rows.append(
        ["SDK create(...).result(), s", f"{spread(results)} {_mark(statistics.median(results) <= SDK_S)}", "", "", f"{SDK_S} s"]
    )
    most = max(shares)
    rows.append(["memory of a warm idle instance, MiB (PSS)", f"{most:.0f} {_mark(most <= IDLE_MIB)}", "", "", IDLE_MIB])
    rows.append(["the same while it practises first commands", f"{max(practising):.0f}", "", "", ""])
    return rows


def _mark(good: bool) -> str:
    return "✓" if good else "✗"


if __name__ == "__main__":
    sys.exit(main())
