"""Resuming a training run from a checkpoint with a changed configuration, with plain HTTP.

    DATABRICKS_HOST=http://127.0.0.1:8080 DATABRICKS_TOKEN=dapi... python resume_training.py [train.py [PACKAGE]]

The first run trains three epochs, and its cluster stops with a snapshot. A second one, with a rate that is far too high, spoils
the checkpoint. So the third start takes the files of the snapshot, a larger node, another rate and more epochs, all in one call,
and training goes on at epoch four. PACKAGE (torch) is installed on the cluster.
"""

import base64
import os
import sys
import time
from pathlib import Path

import requests

HOST = os.environ["DATABRICKS_HOST"].rstrip("/")
CLUSTERS = f"{HOST}/v1/clusters"
SESSION = requests.Session()
SESSION.headers["Authorization"] = f"Bearer {os.environ['DATABRICKS_TOKEN']}"
SCRIPT = Path(__file__).with_name("train.py")
FILE = "/training/train.py"


def call(method, url, **options):
    """What the server answers. Ends the program with its error, if it is one."""
    answer = SESSION.request(method, url, timeout=1900, **options)
    if not answer.ok:
        sys.exit(f"{answer.status_code}: {answer.text}")
    body = answer.json()
    return body.get("data", body)


def start(cluster, **changes):
    """Starts it, and waits until it runs. A start that fails says why, in `call`."""
    view = call("POST", f"{cluster}/start", json={"wait_for_ready": True, "timeout_minutes": 30, **changes})
    print(f"running with {view['configuration']['cpu_cores']:g} cores", flush=True)


def stop(cluster, **options):
    call("POST", f"{cluster}/stop", json={"wait_for_completion": True, **options})


def train(cluster_id, package):
    """Runs the script on the cluster, and prints what it has printed."""
    task = {
        "task_key": "train",
        "existing_cluster_id": cluster_id,
        "spark_python_task": {"python_file": f"dbfs:{FILE}"},
        "libraries": [{"pypi": {"package": package}}] if package else [],
    }
    run_id = call("POST", f"{HOST}/api/2.2/jobs/runs/submit", json={"run_name": "train", "tasks": [task]})["run_id"]
    while "result_state" not in (run := call("GET", f"{HOST}/api/2.2/jobs/runs/get", params={"run_id": run_id}))["state"]:
        time.sleep(1)
    output = call("GET", f"{HOST}/api/2.2/jobs/runs/get-output", params={"run_id": run["tasks"][0]["run_id"]})
    if run["state"]["result_state"] != "SUCCESS":
        sys.exit(f"the training failed: {output.get('error')}\n{output.get('error_trace')}")
    print(output["logs"].strip(), flush=True)


def main(script=SCRIPT, package="torch"):
    contents = base64.b64encode(Path(script).read_bytes()).decode()
    call("POST", f"{HOST}/api/2.0/dbfs/put", json={"path": FILE, "contents": contents, "overwrite": True})
    made = call("POST", CLUSTERS, json={"name": f"training-{time.time_ns()}", "cpu_cores": 1, "auto_start": False})
    cluster = f"{CLUSTERS}/{made['id']}"

    start(cluster, environment_updates={"LEARNING_RATE": "0.002", "EPOCHS": "3"})
    train(made["id"], package)
    stop(cluster, save_state=True, snapshot_name="three epochs")
    snapshot = call("GET", f"{cluster}/snapshots")["snapshots"][0]

    start(cluster, environment_updates={"LEARNING_RATE": "5", "EPOCHS": "4"})
    train(made["id"], package)
    stop(cluster)

    start(
        cluster,
        restore_from_snapshot=snapshot["id"],
        update_configuration={"cpu_cores": 2},
        environment_updates={"LEARNING_RATE": "0.05", "EPOCHS": "6"},
        auto_terminate_updates={"idle_minutes": 15, "max_runtime_minutes": 240},
    )
    train(made["id"], package)
    call("DELETE", cluster, params={"confirm_deletion": "DELETE", "force": "true", "delete_snapshots": "true"})


if __name__ == "__main__":
    main(*sys.argv[1:])
