"""Autoscale: the cost of a decision, and how soon a burst of tasks has a second worker.

* Decision: the pure planner on a cluster of 1,000 workers; the limit is 1 ms.
* Burst: a cluster of one worker gets more tasks than that can run. By hand: the cluster is resized to two workers at that
  moment, and the time until the new worker begins a task is a cold worker start. Autoscale: nobody resizes the cluster, and
  the same time is measured from the first task on. Rounds alternate in one run, on the same cluster; a first round does not
  count. The limit of the ratio is 1.5.

Options: --rounds N, --runtime KEY. Exit code 1 when a limit is exceeded (marked ✗).
"""

from __future__ import annotations

import json
import statistics
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta

import msgspec
from databricks.sdk import WorkspaceClient
from databricks.sdk.service import compute

from bench._harness import RUNTIME, limited, options, spread, table, timed, until
from bench._servers import TOKEN, Served, brickyard
from brickyard.domain.cluster import Cluster, Instance
from brickyard.domain.node import Load, WorkerLoad
from brickyard.plan.autoscale import Rules, decide, situation
from brickyard.plan.cluster import plan
from brickyard.plan.policy import Policy
from brickyard.testing.builders import NOW, SIZES, cluster, nodes, up

WORKERS = 1_000
DECISION_LIMIT_MS, RATIO_LIMIT = 1.0, 1.5
SOON = timedelta(seconds=180)
# Each task prints when it began and in which executor's directory; the last line is the driver's clock before the first task.
BURST = """
import json, os, time
began = time.time()
def task(_):
    at = time.time()
    time.sleep(0.5)
    return (at, os.getcwd())
seen = sc.parallelize(range(TASKS), TASKS).map(task).collect()
first = {}
for at, where in sorted(seen):
    first.setdefault(where, at)
print(json.dumps({"began": began, "first": sorted(first.values())}))
"""


def main() -> int:
    given = options(__doc__, rounds=5, runtime=RUNTIME)
    decided = decision()
    with brickyard(provider="local", autoscale_down_after_s="3") as served:
        hand, auto, decisions = bursts(served, given.runtime, given.rounds)
    missed = table(
        f"Autoscale: until the second worker of a cluster runs a task, {given.rounds} rounds",
        ["", "s (fastest-slowest)", "against a cold worker start", "at most"],
        [
            ["resize by hand: a cold worker start", spread(hand), "", ""],
            ["autoscale", spread(auto), *limited(statistics.median(auto) / statistics.median(hand), RATIO_LIMIT)],
            ["of which until it decides", spread(decisions), "", ""],
        ],
    )
    rows = [[what, *limited(ms, DECISION_LIMIT_MS, f"{ms:.3f}")] for what, ms in decided.items()]
    return max(missed, table(f"Autoscale: one decision, {WORKERS} workers", ["case", "ms", "at most"], rows))


# -- the decision ------------------------------------------------------------------------------------------------------------


def decision() -> dict[str, float]:
    """Milliseconds per decision, including the reading of the load, for a burst and for an idle cluster."""
    of = up(cluster(autoscale=(1, 2 * WORKERS), target_workers=WORKERS))
    made = [msgspec.structs.replace(node, ready_ms=NOW - 10**6) for node in nodes(of, WORKERS)]
    _warm(of, made, _load(1, 50_000))
    return {"a burst": _time(of, made, _load(4, 50_000)), "all idle": _time(of, made, _load(0, 0))}


def _load(running: int, pending: int) -> Load:
    since = 0 if running else NOW - 10**6
    workers = tuple(WorkerLoad(f"127.0.0.1:{9000 + number}", 4, running, since, 10) for number in range(WORKERS))
    return Load(pending=pending, backlog_since_ms=NOW - 5_000 if pending else 0, workers=workers)


def _warm(of: Cluster, made: list[Instance], load: Load) -> None:
    """Checks that the planner's whole pass makes the same decision, so that the timed code is the code that runs."""
    if plan(of, made, now=NOW, sizes=SIZES, policy=Policy(), load=load).cluster.num_workers <= WORKERS:
        raise RuntimeError("the planner does not see the burst")


def _time(of: Cluster, made: list[Instance], load: Load) -> float:
    workers, rules = made[1:], Rules()

    def once() -> None:
        at = situation(of, load, workers, cores=4, growing=False)
        decide(at, now=NOW, rules=rules, window_ms=rules.down_after_ms)

    return statistics.median(1_000 * timed(once) for _ in range(200))


# -- the burst ---------------------------------------------------------------------------------------------------------------


def bursts(served: Served, runtime: str, rounds: int) -> tuple[list[float], list[float], list[float]]:
    """Seconds until the second worker runs a task: after a resize by hand, and by autoscale; and until autoscale has decided."""
    w = WorkspaceClient(host=served.url, token=TOKEN)
    name = (
        w.clusters.create(
            cluster_name="burst", spark_version=runtime, node_type_id="brickyard.small", num_workers=1, autotermination_minutes=60
        )
        .result(timeout=SOON)
        .cluster_id
        or ""
    )
    context = w.command_execution.create_and_wait(cluster_id=name, language=compute.Language.PYTHON, timeout=SOON).id or ""
    hand, auto, decisions = [], [], []
    for number in range(rounds + 1):
        hand.append(_by_hand(w, name, context))
        w.clusters.resize_and_wait(name, num_workers=1, timeout=SOON)
        w.clusters.resize(name, autoscale=compute.AutoScale(min_workers=1, max_workers=2))
        seconds, began = _burst(w, name, context)()
        auto.append(seconds)
        decisions.append(_decided(w, name) - began)
        until(lambda: len(w.clusters.get(name).executors or []) == 1, "one executor is left")
        w.clusters.wait_get_cluster_running(name, timeout=SOON)
        w.clusters.resize(name, num_workers=1)
        text = f"round {number}: by hand {hand[-1]:.2f} s, autoscale {auto[-1]:.2f} s, decided after {decisions[-1]:.2f} s"
        print(text, file=sys.stderr, flush=True)
    return hand[1:], auto[1:], decisions[1:]


def _decided(w: WorkspaceClient, name: str) -> float:
    """Returns when autoscale last asked for more workers, in epoch seconds."""
    kinds = [compute.EventType.RESIZING]
    for event in w.clusters.events(name, event_types=kinds):
        if event.details and event.details.cause is compute.EventDetailsCause.AUTOSCALE and event.details.target_num_workers == 2:
            return (event.timestamp or 0) / 1000
    raise RuntimeError("autoscale did nothing")


def _by_hand(w: WorkspaceClient, name: str, context: str) -> float:
    wait = _burst(w, name, context)
    asked = time.time()
    w.clusters.resize(name, num_workers=2)
    return wait(asked)[0]


def _burst(w: WorkspaceClient, name: str, context: str, tasks: int = 60) -> Callable[..., tuple[float, float]]:
    """Begins a burst. The returned function waits for its end and returns the seconds from its beginning (or another moment) to
    the second worker's first task, and when the burst began."""
    found: dict[str, list[float]] = {}

    def run() -> None:
        done = w.command_execution.execute_and_wait(
            cluster_id=name, context_id=context, language=compute.Language.PYTHON, timeout=SOON,
            command=BURST.replace("TASKS", str(tasks)),
        )  # fmt: skip
        if done.results is None or done.results.result_type is not compute.ResultType.TEXT:
            raise RuntimeError(f"the burst failed: {done.results}")
        answer = json.loads(str(done.results.data))
        found["began"], found["first"] = [answer["began"]], answer["first"]

    thread = threading.Thread(target=run)
    thread.start()

    def wait(since: float = 0.0) -> tuple[float, float]:
        thread.join()
        if len(found.get("first", ())) < 2:
            raise RuntimeError(f"the second worker ran no task: {found}")
        began = found["began"][0]
        return found["first"][1] - (since or began), began

    return wait


if __name__ == "__main__":
    sys.exit(main())
