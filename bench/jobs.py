"""Jobs at scale: calls among 10,000 jobs, and what the scheduler takes for runs that wait for their cluster."""

from __future__ import annotations

import functools
import statistics
import sys
import time

from bench._client import ALONE, SIZE, Api
from bench._harness import Row, cpu_s, table, timed
from bench._servers import NO_SAMPLES, SILENT, Served, brickyard, sqlite
from bench.page import row
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


def main() -> int:
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
