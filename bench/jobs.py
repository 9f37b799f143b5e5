"""Jobs at scale: calls among 10,000 jobs, and what the scheduler takes for runs that wait for their cluster.

With --spark: from run-now on a warm pool to the first line of output, on real Spark with isolated nodes, a driver and one worker.
The job's cluster is made for each run. A line is there when the API shows it. Options: --rounds N, --runtime KEY.
"""

from __future__ import annotations

import base64
import functools
import statistics
import sys
import time

from bench._client import ALONE, POLL_S, SIZE, Api
from bench._harness import RUNTIME, Row, cpu_s, judged, options, spread, table, timed, until
from bench._servers import NO_SAMPLES, SILENT, Served, brickyard, sqlite
from bench.page import row
from bench.pool import create_pool, until_quiet
from bench.start import install
from brickyard.domain.tasks import SparkPythonTask, SubmitTask
from brickyard.features.jobs.model import CronSchedule, JobRow, JobSettings
from brickyard.features.jobs.rows import JobRows
from brickyard.store.store import Store
from brickyard.store.tx import Tx

JOBS, BATCH, CALLS = 10_000, 1_000, 50
RUN_NOW_MS, LIST_MS, GET_MS = 20.0, 50.0, 20.0  # at most, medians
RUNS = (250, 500, 1_000)
WATCH_S = 10.0
LINEAR = 1.5  # the most runs may take so many times what the fewest take, each
LINE_S = 3.0  # at most, a median: until the first line of a task
NOTEBOOK = (
    "# Databricks notebook source\nimport time\nprint('line', time.time(), flush=True)\n# COMMAND ----------\ntime.sleep(1)\n"
)
SCRIPT = "import time\nprint('line', time.time(), flush=True)\n"


def fill(url: str, now: int) -> None:
    """Inserts jobs with a schedule that comes long after the measurement."""
    store = Store.open(url)

    def some(start: int, tx: Tx) -> None:
        task = SubmitTask(task_key="a", spark_python_task=SparkPythonTask(python_file="dbfs:/a.py"), existing_cluster_id="none")
        schedule = CronSchedule(quartz_cron_expression="0 0 6 1 1 ?", timezone_id="UTC")
        for number in range(start, start + BATCH):
            settings = JobSettings(name=f"job {number}", tasks=[task], schedule=schedule, max_concurrent_runs=1)
            user = f"user{number % 300}@example.com"
            job = JobRow(
                job_id=number + 1,
                creator_user_name=user,
                run_as=user,
                created_ms=now - number,
                settings=settings,
                next_ms=now + 86_400_000,
            )
            tx.rows(JobRows).insert(job)

    for start in range(0, JOBS, BATCH):
        store.write_sync(functools.partial(some, start))
    store.close()


def job(api: Api, *, cluster_id: str = "", **fields: object) -> int:
    """A job of one condition, or of one task on a cluster."""
    task: dict[str, object] = {"task_key": "a", "condition_task": {"left": "1", "op": "EQUAL_TO", "right": "1"}}
    if cluster_id:
        task = {"task_key": "a", "existing_cluster_id": cluster_id, "spark_python_task": {"python_file": "dbfs:/a.py"}}
    answer = api.post("/api/2.2/jobs/create", name="measured", tasks=[task], max_concurrent_runs=1000, **fields)
    return int(answer["job_id"])


def calls(served: Served) -> list[Row]:
    api = Api(served.url)
    mine = job(api)

    def medians(work: object, most: float, what: str) -> Row:
        return row(what, [timed(work) * 1000 for _ in range(CALLS)], "ms", most)  # type: ignore[arg-type] # a call

    return [
        medians(lambda: api.post("/api/2.2/jobs/run-now", job_id=mine), RUN_NOW_MS, "run-now"),
        medians(lambda: api.get(f"/api/2.2/jobs/get?job_id={mine}"), GET_MS, "get"),
        medians(lambda: api.get("/api/2.2/jobs/list?limit=100"), LIST_MS, "a page of 100 jobs"),
        medians(lambda: api.get("/api/2.2/jobs/list?name=job%209999"), LIST_MS, "a job by its name"),
        medians(lambda: api.get(f"/api/2.2/jobs/runs/list?job_id={mine}"), LIST_MS, "a page of the job's runs"),
    ]


def waiting(served: Served) -> list[Row]:
    """The server's processor time while runs wait for a cluster that does not come up."""
    api, rows, shares = Api(served.url), [], []
    cluster = api.post("/api/2.1/clusters/create", cluster_name="slow", **SIZE, **ALONE)["cluster_id"]
    mine, there = job(api, cluster_id=cluster), 0
    for count in RUNS:
        took = [timed(lambda: api.post("/api/2.2/jobs/run-now", job_id=mine)) * 1000 for _ in range(count - there)]
        there = count
        time.sleep(2.0)  # the first passes
        before = cpu_s(served.pid)
        time.sleep(WATCH_S)
        used = (cpu_s(served.pid) - before) / WATCH_S * 1000
        shares.append(used / count)
        rows.append(row(f"run-now, up to {count} active runs", [statistics.median(took)], "ms", RUN_NOW_MS))
        rows.append(row(f"processor time of {count} runs that wait, each second", [used], "ms", shares[0] * count * LINEAR))
    return rows


def lines(served: Served, runtime: str, rounds: int) -> list[Row]:
    """Runs of a job on a warm pool, from run-now on."""
    api = Api(served.url)
    pool_id = create_pool(api, runtime)
    coded = base64.b64encode(NOTEBOOK.encode()).decode()
    api.post("/api/2.0/workspace/import", path="/line", format="SOURCE", language="PYTHON", content=coded, overwrite=True)
    api.post("/api/2.0/dbfs/put", path="/line.py", contents=base64.b64encode(SCRIPT.encode()).decode(), overwrite=True)
    new = {"spark_version": runtime, "instance_pool_id": pool_id, "num_workers": 1}
    kinds = {
        "notebook": {"notebook_task": {"notebook_path": "/line"}},
        "file": {"spark_python_task": {"python_file": "dbfs:/line.py"}},
    }
    found: dict[str, list[float]] = {}
    for kind, what in kinds.items():
        tasks = [{"task_key": "a", "job_cluster_key": "main", **what}]
        clusters = [{"job_cluster_key": "main", "new_cluster": new}]
        made = api.post("/api/2.2/jobs/create", name=kind, tasks=tasks, job_clusters=clusters)["job_id"]
        for number in range(rounds + 1):
            until_quiet(api, served, pool_id)
            took = _line(api, int(made), kind)
            print(f"{kind}, round {number}: {took}", file=sys.stderr)
            if number:  # in the first one, the disk cache is cold
                for name, seconds in took.items():
                    found.setdefault(f"{kind}: {name}", []).append(seconds)
    limits = {"printed": LINE_S, "shown": LINE_S}
    rows: list[Row] = []
    for name, times in found.items():
        most = next((limit for end, limit in limits.items() if name.endswith(end)), None)
        shown = spread(times)
        rows.append([name, shown if most is None else judged(shown, statistics.median(times) <= most), most or ""])
    return rows


def _line(api: Api, job_id: int, kind: str) -> dict[str, float]:
    """Seconds from run-now until each thing has happened."""
    began = time.time()
    run_id = api.post("/api/2.2/jobs/run-now", job_id=job_id)["run_id"]
    attempt = 0
    shown = ""

    def line() -> bool:
        nonlocal attempt, shown
        attempt = attempt or api.get(f"/api/2.2/jobs/runs/get?run_id={run_id}")["tasks"][0]["run_id"]
        if kind == "notebook":
            cells = api.get(f"/api/2.2/jobs/runs/cells?run_id={attempt}")["cells"]
            shown = "".join(str(each.get("data")) for cell in cells for each in cell.get("results") or ())
        else:
            shown = api.get(f"/api/2.2/jobs/runs/get-output?run_id={attempt}").get("logs") or ""
        return "line " in shown

    until(line, "a line", every_s=POLL_S)
    seen = time.time()
    until(lambda: api.get(f"/api/2.2/jobs/runs/get?run_id={run_id}").get("end_time"), "the run is over", every_s=POLL_S)
    run = api.get(f"/api/2.2/jobs/runs/get?run_id={run_id}")
    task = run["tasks"][0]
    cluster = api.get(f"/api/2.1/clusters/get?cluster_id={task['cluster_instance']['cluster_id']}")
    return {
        "cluster RUNNING": cluster["last_restarted_time"] / 1000 - began if "last_restarted_time" in cluster else 0.0,
        "driver has begun it": (task["start_time"] + task["setup_duration"]) / 1000 - began,
        "first line printed": float(shown.partition("line ")[2].split(maxsplit=1)[0]) - began,
        "first line shown": seen - began,
        "run over": run["end_time"] / 1000 - began,
    }


def main() -> int:
    given = options(__doc__, spark=False, rounds=5, runtime=RUNTIME)
    if given.spark:
        install(given.runtime)
        with brickyard(provider="local", isolation="required", connect_port="0") as served:
            rows = lines(served, given.runtime, given.rounds)
        title = f"run-now on a warm pool, {given.runtime}: seconds after the call, medians of {given.rounds} rounds"
        return table(title, ["what", "median (fastest-slowest)", "at most"], rows)
    now = int(time.time() * 1000)
    with sqlite() as url:
        fill(url, now)
        with brickyard(NO_SAMPLES, database_url=url) as served:
            rows = calls(served)
    with brickyard(SILENT) as served:
        rows += waiting(served)
    return table(f"Among {JOBS:,} jobs, medians of {CALLS} calls", ["what", "median (fastest-slowest)", "at most"], rows)


if __name__ == "__main__":
    sys.exit(main())
