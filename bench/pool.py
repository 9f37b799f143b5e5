"""Clusters on a warm pool against Spark's own way of starting: one driver, one worker, in one run.

A pool keeps two warm instances. Each round creates a cluster on them through the API of a running server, with isolated
nodes: create -> RUNNING and -> the first query's result, then `create(...).result()` of the official SDK; and waits until the
pool is warm again. Spark's own way (`_sparkway`) is measured in between. Also: the memory of a warm instance (PSS, with its
agent), at rest and while it practises, as it does when clusters come here. Options: --rounds N, --runtime KEY. Exit code 1 when a
limit is missed (marked ✗).
"""

from __future__ import annotations

import contextlib
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
from databricks.sdk import WorkspaceClient

from bench import _poolroom
from bench._client import Api
from bench._harness import RUNTIME, Row, judged, limited, options, spread, table, tree_cpu_s, until
from bench._servers import TOKEN, Served, agents, brickyard
from bench.start import NODE_TYPE, Took, install, spark_start, start
from brickyard.domain.runtimes import RuntimeManifest

RAW_ROUNDS = 4
IDLE = 2
WARM_PATIENCE_S = 600.0
PREPARES, PRACTISED = "preparing a node", "first commands were practised"
QUIET_SHARE, QUIET_PATIENCE_S = 0.1, 120.0  # of a core
RUNNING_S, RUNNING_RATIO, ANSWER_RATIO, SDK_S, IDLE_MIB = 1.2, 0.15, 0.3, 1.5, 640


def main() -> int:
    given = options(__doc__, rounds=10, runtime=RUNTIME)
    manifest = install(given.runtime)
    with brickyard(provider="local", isolation="required") as served:
        rows = list(_measure(served, given.runtime, manifest, given.rounds))
    missed = table(
        f"Warm pool, {given.runtime} (Spark {manifest.spark_version}): a driver and one worker, medians of {given.rounds} "
        "rounds (in brackets: fastest and slowest)",
        ["what", "Brickyard", "Spark's own way, s", "ratio", "at most"],
        rows,
    )
    return max(missed, _poolroom.main())


def _measure(served: Served, runtime: str, manifest: RuntimeManifest, rounds: int) -> Iterator[Row]:
    api = Api(served.url)
    sdk = WorkspaceClient(host=served.url, token=TOKEN)
    raw: list[Took] = []
    ours: list[Took] = []
    results, practising, shares = [], [], []
    spark_start(manifest)  # reads the runtime's files from the disk; does not count
    pool_id = create_pool(api, runtime)
    for number in range(rounds + 1):
        until_idle(api, pool_id)
        practising.append(max(_shares_mib(served)))
        took, result = _round(api, sdk, pool_id, runtime)
        if number:  # in the first one, the disk cache is cold
            ours.append(took)
            results.append(result)
            print(f"round {number}: {took}; SDK {result:.2f} s", file=sys.stderr)
        if number % max(1, rounds // RAW_ROUNDS) == 0 and len(raw) < RAW_ROUNDS:
            until_quiet(api, served, pool_id)  # instances that the pool is still preparing would share the cores
            shares.append(max(_shares_mib(served)))
            raw.append(spark_start(manifest))
            print(f"Spark's own way: {raw[-1]}", file=sys.stderr)
    for what, theirs, mine, seconds, share in (
        ("create -> RUNNING, s", [each.ready for each in raw], [each.ready for each in ours], RUNNING_S, RUNNING_RATIO),
        ("create -> first result, s", [each.answer for each in raw], [each.answer for each in ours], None, ANSWER_RATIO),
    ):
        middle = statistics.median(mine)
        ratio = middle / statistics.median(theirs)
        good = ratio <= share and (seconds is None or middle <= seconds)
        yield [what, spread(mine), spread(theirs), judged(ratio, good), f"{seconds} s and {share}" if seconds else share]
    sdk_s, most = limited(statistics.median(results), SDK_S, spread(results))
    yield ["SDK create(...).result(), s", sdk_s, "", "", f"{most} s"]
    memory, most = limited(max(shares), IDLE_MIB, f"{max(shares):.0f}")
    yield ["memory of a warm idle instance, MiB (PSS)", memory, "", "", most]
    yield ["the same while it practises first commands", f"{max(practising):.0f}", "", "", ""]


def create_pool(api: Api, runtime: str) -> str:
    made = api.post(
        "/api/2.0/instance-pools/create",
        instance_pool_name="warm",
        node_type_id=NODE_TYPE,
        min_idle_instances=IDLE,
        max_capacity=IDLE,
        preloaded_spark_versions=[runtime],
        idle_instance_autotermination_minutes=60,
    )
    return str(made["instance_pool_id"])


def until_idle(api: Api, pool_id: str, *, moment_s: float = 2.0) -> None:
    """Waits until every instance of the pool is warm, and a moment more, so that preparing them disturbs nothing."""

    def idle() -> bool:
        found = api.get(f"/api/2.0/instance-pools/get?instance_pool_id={pool_id}")
        if errors := found.get("status", {}).get("pending_instance_errors"):
            raise RuntimeError(f"the pool did not become warm: {errors}")
        return bool(found["stats"].get("idle_count", 0) >= IDLE)

    until(idle, "the pool is warm", patience_s=WARM_PATIENCE_S)
    time.sleep(moment_s)


def until_quiet(api: Api, served: Served, pool_id: str) -> None:
    """Waits until the pool is warm, its nodes have practised, and what is below the server uses next to no processor any more."""
    until_idle(api, pool_id)
    deadline = time.monotonic() + QUIET_PATIENCE_S
    while not _practised(served) and time.monotonic() < deadline:
        time.sleep(0.2)
    used = _used_s(served)
    while time.monotonic() < deadline:
        time.sleep(1.0)
        before, used = used, _used_s(served)
        if used - before < QUIET_SHARE:
            return


def _practised(served: Served) -> bool:
    """Whether all nodes have practised since they were prepared. Between two statements they use no processor either, where
    others need it."""
    logs = [log.read_text(errors="replace") for log in Path(served.place, "instances").glob("*/node.log")]
    return all(PRACTISED in log.rpartition(PREPARES)[2] for log in logs)


def _used_s(served: Served) -> float:
    """CPU seconds of the processes below the server that live."""
    return tree_cpu_s(each.pid for each in psutil.Process(served.pid).children())


def _round(api: Api, sdk: WorkspaceClient, pool_id: str, runtime: str) -> tuple[Took, float]:
    """Starts one cluster through the API and one through the SDK: seconds until RUNNING and the answer, and until `result()`."""
    took = start(api, spark_version=runtime, instance_pool_id=pool_id)
    until_idle(api, pool_id)
    began = time.monotonic()
    wait = sdk.clusters.create(cluster_name="sdk", spark_version=runtime, instance_pool_id=pool_id, num_workers=1)
    wait.result()
    seconds = time.monotonic() - began
    sdk.clusters.permanent_delete(wait.cluster_id)
    return took, seconds


def _shares_mib(served: Served) -> list[float]:
    """PSS of every instance: its agent and all processes below it."""
    found = []
    for pid in agents(served):
        with contextlib.suppress(psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
            agent = psutil.Process(pid)
            found.append(sum(_share_mib(process.pid) for process in (agent, *agent.children(recursive=True))))
    return found


def _share_mib(pid: int) -> float:
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(text.split("\nPss:")[1].split()[0]) / 1024


if __name__ == "__main__":
    sys.exit(main())
