"""A scheduled batch, with plain HTTP.

    DATABRICKS_HOST=http://127.0.0.1:8080 DATABRICKS_TOKEN=dapi... python scheduled_batch.py plan nightly-batch
    DATABRICKS_HOST=http://127.0.0.1:8080 DATABRICKS_TOKEN=dapi... python scheduled_batch.py work nightly-batch

`plan` is done once: on working days the cluster starts at six, and stops at nine in any case. `work` is what a scheduler or a
person runs: it waits until the schedule has started the cluster, runs the batch on it, and stops it.
"""

import base64
import os
import sys
import time

import requests

HOST = os.environ["DATABRICKS_HOST"].rstrip("/")
CLUSTERS = f"{HOST}/v1/clusters"
SESSION = requests.Session()
SESSION.headers["Authorization"] = f"Bearer {os.environ['DATABRICKS_TOKEN']}"
BATCH = "import os\nprint(os.environ['MODE'], spark.range(1000).selectExpr('sum(id)').first()[0])\n"
ZONE = "Europe/Berlin"


def call(method, url, **options):
    """What the server answers. Ends the program with its error, if it is one."""
    answer = SESSION.request(method, url, timeout=1900, **options)
    if not answer.ok:
        sys.exit(f"{answer.status_code}: {answer.text}")
    body = answer.json()
    return body.get("data", body)


def plan(name):
    """The cluster, and when it starts and stops."""
    made = call("POST", CLUSTERS, json={"name": name, "cpu_cores": 1, "auto_start": False})
    limits = {"idle_minutes": 15, "max_runtime_minutes": 120}
    start = {"environment_updates": {"MODE": "batch"}, "auto_terminate_updates": limits}
    for times in (
        {"action": "start", "cron": "0 6 * * MON-FRI", "start": start, "missed": "run"},
        {"action": "stop", "cron": "0 9 * * MON-FRI", "missed": "skip"},
    ):
        schedule = call("POST", f"{CLUSTERS}/{made['id']}/schedules", json={"timezone": ZONE, **times})
        print(f"{schedule['action']} at {schedule['next_run_at']}")


def work(name):
    """Runs the batch on the cluster that the schedule has started."""
    cluster = next(each for each in call("GET", CLUSTERS, params={"search": name})["clusters"] if each["name"] == name)
    address = f"{CLUSTERS}/{cluster['id']}"
    while call("GET", address, params={"include_metrics": "false"})["status"] != "running":
        time.sleep(2)
    contents = base64.b64encode(BATCH.encode()).decode()
    call("POST", f"{HOST}/api/2.0/dbfs/put", json={"path": "/batch.py", "contents": contents, "overwrite": True})
    task = {
        "task_key": "batch",
        "existing_cluster_id": cluster["id"],
        "spark_python_task": {"python_file": "dbfs:/batch.py"},
    }
    run_id = call("POST", f"{HOST}/api/2.2/jobs/runs/submit", json={"run_name": "batch", "tasks": [task]})["run_id"]
    while "result_state" not in (run := call("GET", f"{HOST}/api/2.2/jobs/runs/get", params={"run_id": run_id}))["state"]:
        time.sleep(1)
    output = call("GET", f"{HOST}/api/2.2/jobs/runs/get-output", params={"run_id": run["tasks"][0]["run_id"]})
    print(run["state"]["result_state"], (output.get("logs") or output["error"]).strip())
    stopped = call("POST", f"{address}/stop", json={"stop_reason": "the batch is done", "wait_for_completion": True})
    print(stopped["status"])


if __name__ == "__main__":
    {"plan": plan, "work": work}[sys.argv[1]](sys.argv[2])
