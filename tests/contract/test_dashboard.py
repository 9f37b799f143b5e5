"""The dashboard for Grafana names only metrics and labels that a server has."""

from __future__ import annotations

import json
import re
import urllib.request
from pathlib import Path

from databricks.sdk import WorkspaceClient
from prometheus_client.parser import text_string_to_metric_families

from tests.support.server import Server

DASHBOARD = Path(__file__).parents[2] / "grafana" / "brickyard.json"
LOCAL_ONLY = {"brickyard_free_memory_bytes": {"provider"}}  # the simulated provider has no capacity; tests/cli/test_watching.py


def test_every_metric_and_label_of_the_dashboard_exists(server: Server, w: WorkspaceClient) -> None:
    made = w.clusters.create(spark_version="17.3.x-scala2.13", node_type_id="i3.xlarge", num_workers=1).result()
    ended = w.clusters.create(spark_version="17.3.x-scala2.13", node_type_id="i3.xlarge", num_workers=1).result()
    w.clusters.delete(str(ended.cluster_id)).result()
    pool = w.instance_pools.create(instance_pool_name="dashboard", node_type_id="i3.xlarge")
    with urllib.request.urlopen(f"{server.url}/metrics") as answer:  # noqa: S310 - the test's own server
        families = text_string_to_metric_families(answer.read().decode())
    labels: dict[str, set[str]] = {}
    for family in families:
        for sample in family.samples:
            labels.setdefault(sample.name, set()).update(sample.labels)
    w.instance_pools.delete(str(pool.instance_pool_id))
    w.clusters.permanent_delete(str(made.cluster_id))
    panels = json.loads(DASHBOARD.read_text())["panels"]
    assert len(panels) >= 10
    for panel in panels:
        for target in panel["targets"]:
            names = set(re.findall(r"(?:brickyard|process)_\w+", target["expr"]))
            assert names - LOCAL_ONLY.keys() <= labels.keys(), panel["title"]
            shown = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
            grouped = {each for group in re.findall(r"by \(([^)]*)\)", target["expr"]) for each in group.split(", ")}
            known = {label for name in names for label in (LOCAL_ONLY | labels).get(name, ())}
            assert shown | grouped <= known, panel["title"]
