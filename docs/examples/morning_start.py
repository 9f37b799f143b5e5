"""The morning start of a development cluster, with plain HTTP.

    DATABRICKS_HOST=http://127.0.0.1:8080 DATABRICKS_TOKEN=dapi... python morning_start.py dev-cluster

One call gives the cluster today's configuration and starts it. The files in its /workspace are those of the evening before, and
its port for JupyterLab is the same. It stops by itself after an idle hour.
"""

import os
import sys
import time

import requests

CLUSTERS = os.environ["DATABRICKS_HOST"].rstrip("/") + "/v1/clusters"
SESSION = requests.Session()
SESSION.headers["Authorization"] = f"Bearer {os.environ['DATABRICKS_TOKEN']}"


def call(method, url, **options):
    """The data of an answer, or the error's message and problems."""
    answer = SESSION.request(method, url, timeout=60, **options)
    body = answer.json()
    if not body.get("success"):
        sys.exit(f"{body['error']}: {body['message']} {body['details']}")
    return answer, body["data"]


def cluster_named(name):
    """The address of the cluster. The first morning makes it."""
    found = call("GET", CLUSTERS, params={"search": name, "limit": 100})[1]["clusters"]
    same = [each for each in found if each["name"] == name]
    made = same[0] if same else call("POST", CLUSTERS, json={"name": name, "cpu_cores": 1, "auto_start": False})[1]
    return f"{CLUSTERS}/{made['id']}", made["status"]


def main(name):
    """Starts it, and shows the phases until it runs."""
    cluster, status = cluster_named(name)
    if status == "running":
        print("it runs already")
        return
    today = {
        "update_configuration": {"cpu_cores": 1},
        "environment_updates": {"STARTED_ON": time.strftime("%Y-%m-%d")},
        "auto_terminate_updates": {"idle_minutes": 60, "max_runtime_minutes": 12 * 60},
        "port_mapping_updates": [{"internal_port": 8888, "description": "JupyterLab", "strip_prefix": False}],
    }
    answer, view = call("POST", f"{cluster}/start", json=today)
    shown = set()
    while view["status"] == "starting":
        time.sleep(float(answer.headers.get("Retry-After", 1)))
        answer, view = call("GET", cluster, params={"include_metrics": "false", "include_cost_breakdown": "false"})
        for phase in view["operation"]["phases"]:
            if phase["status"] == "completed" and phase["name"] not in shown:
                shown.add(phase["name"])
                print(f"{view['operation']['progress_percent']:3} % {phase['name']}")
    if view["status"] != "running":
        sys.exit(f"it did not start: {view['status_details']}")
    print(f"running, JupyterLab's place is {view['port_mappings'][0]['url']}")


if __name__ == "__main__":
    main(*sys.argv[1:])
