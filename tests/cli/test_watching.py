"""What those who run a server see of it: the log's lines and the metrics, both as docs/metrics.md describes them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from databricks.sdk.errors import NotFound
from databricks.sdk.errors.base import DatabricksError
from prometheus_client.parser import text_string_to_metric_families

from brickyard.cli.http import get
from tests.support.command import Cli, one_line
from tests.support.golden import Golden
from tests.support.patience import PATIENCE_S, until

REAL_SERVERS = True  # their first lines are read, too

PAGE = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()
CAPACITY = {f"brickyard_{what}_{unit}" for what in ("capacity", "free") for unit in ("cores", "memory_bytes")}


def rows() -> dict[str, set[str]]:
    """Name -> labels, of the page's table."""
    found = {}
    for names, kind, labels in re.findall(r"^\| (`brickyard_.*?) \| (.*?) \| (.*?) \|", PAGE, re.MULTILINE):
        assert kind.split(",")[0] in ("gauge", "counter", "histogram")
        for name in re.findall(r"`(\w+)`", names):
            found[name] = set(re.findall(r"`(\w+)`", labels))
    return found


def test_the_log_is_json_and_has_a_line_for_every_change(cli: Cli) -> None:
    assert cli.run("up", "--detach", "--log-format", "json").returncode == 0
    w = cli.client()
    made = w.clusters.create(cluster_name="a", spark_version="17.3.x-scala2.13", node_type_id="i3.xlarge", num_workers=1).result()
    token = w.tokens.create(comment="one").token_value
    with pytest.raises(NotFound):
        w.dbfs.move("/nowhere\nelse", "/other")
    with pytest.raises(DatabricksError):
        w.clusters.delete("0101-000000-nowhere0")
    list(w.clusters.list())
    list(w.clusters.events(str(made.cluster_id)))
    running = cli.workspace.running()
    assert running is not None
    metrics = get(f"{running.url}/metrics", token="", timeout_s=PATIENCE_S)
    w.clusters.delete_and_wait(str(made.cluster_id))
    ended = get(f"{running.url}/metrics", token="", timeout_s=PATIENCE_S)
    assert cli.run("down").returncode == 0
    text = cli.workspace.log_file.read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert {"serves", "stopping", "stopped"} <= {line["event"] for line in lines}
    changes = [line for line in lines if line["event"] == "request"]
    assert [(line["operation"], line["status"], line.get("error_code")) for line in changes] == [
        ("clusters.create", 200, None),
        ("tokens.create", 200, None),
        ("dbfs.move", 404, "RESOURCE_DOES_NOT_EXIST"),
        ("clusters.delete", 400, "INVALID_PARAMETER_VALUE"),
        ("clusters.delete", 200, None),
    ]
    assert {line["user"] for line in changes} == {"admin@brickyard.local"}
    assert changes[0]["object"] == changes[-1]["object"] == f"cluster_id={made.cluster_id}"
    assert changes[2]["object"] == "source_path=/nowhere\\nelse destination_path=/other"
    assert all(line["request_id"] and line["ms"] > 0 and line["timestamp"] for line in changes)
    assert str(token) not in text
    assert cli.workspace.stored_token() not in text
    as_the_page_says(metrics, ended)
    assert set(changes[-1]) == set(json.loads(re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)[0]))


def as_the_page_says(metrics: str, ended: str) -> None:
    families = [family for text in (metrics, ended) for family in text_string_to_metric_families(text)]
    samples = {sample.name: sample for family in families for sample in family.samples}
    shown = {re.sub(r"_(bucket|count|sum|created)$", "", name) for name in samples if name.startswith("brickyard_")}
    shown = {"brickyard_pool_instances" if name.startswith("brickyard_pool") else name for name in shown}
    described = rows()
    # No pool was made, the simulated provider has no capacity, and a rate takes two samples.
    maybe = {"brickyard_pool_instances", "brickyard_spark_tasks_per_second"}
    assert {name.removesuffix("_total") for name in shown - maybe} == {
        name.removesuffix("_total") for name in described.keys() - CAPACITY - maybe
    }
    for name, sample in samples.items():
        family = re.sub(r"_(bucket|count|sum|created)$", "", name)
        labels = described.get(family, described.get(f"{family}_total"))
        if name.startswith("brickyard_") and labels is not None:
            assert set(sample.labels) - {"le"} == labels, name
    assert 'brickyard_cluster_start_seconds_count{reason="no_pool",runtime="17.3.x-scala2.13",start="cold"} 1.0' in metrics
    assert 'brickyard_cluster_terminations_total{code="USER_REQUEST",type="SUCCESS"} 1.0' in ended
    assert "process_resident_memory_bytes" in samples
    assert not any(re.search(r"_(mb|ms|minutes)(_|$)", name) for name in samples), "base units only"


def test_a_server_that_cannot_start_says_so_in_json_too(cli: Cli, golden: Golden) -> None:
    cli.environment["BRICKYARD_LOG_FORMAT"] = "json"
    said = one_line(cli.run("up", "--detach", "--task-files-dir", "/nonexistent"))
    golden(said)
    until(cli.workspace.log_file.exists, "the log")
    for line in cli.workspace.log_file.read_text().splitlines():
        json.loads(line)
