"""The dashboard for Grafana and the alert rules for Prometheus: each expression is one, names only metrics and labels that a
server has, and is right with several servers."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import promql_parser as promql
import pytest
import yaml
from databricks.sdk import WorkspaceClient
from prometheus_client.parser import text_string_to_metric_families

from tests.support.patience import until
from tests.support.server import Server

GRAFANA = Path(__file__).parents[2] / "grafana"
DASHBOARD: dict[str, Any] = json.loads((GRAFANA / "brickyard.json").read_text())
RULES: list[dict[str, Any]] = [
    rule for group in yaml.safe_load((GRAFANA / "brickyard.rules.yml").read_text())["groups"] for rule in group["rules"]
]
# The simulated provider has no capacity and runs no tasks: tests/cli/test_watching.py and tests/server/test_metrics.py.
ELSEWHERE = {
    "brickyard_free_memory_bytes": {"provider"},
    "brickyard_capacity_memory_bytes": {"provider"},
    "brickyard_spark_executors": {"cluster_id"},
    "brickyard_spark_tasks": {"cluster_id", "state"},
}
OF_PROMETHEUS = {"job", "instance", "le"}
VARIABLES = {"$__rate_interval": "5m", "$job": "brickyard", "$cluster": "1"}


class Use(NamedTuple):
    """A metric in an expression, and the aggregations around it, the outermost first."""

    name: str
    labels: frozenset[str]
    around: tuple[tuple[str, frozenset[str]], ...]


def uses(expr: Any, around: tuple[tuple[str, frozenset[str]], ...] = ()) -> Iterator[Use]:
    """Every metric of a parsed expression."""
    if isinstance(expr, promql.VectorSelector):
        assert expr.name is not None
        yield Use(expr.name, frozenset(each.name for each in expr.matchers.matchers), around)
        return
    if isinstance(expr, promql.AggregateExpr):
        around = (*around, (str(expr.op), frozenset(expr.modifier.labels if expr.modifier is not None else ())))
    for name in ("expr", "lhs", "rhs", "vector_selector"):
        if (inner := getattr(expr, name, None)) is not None:
            yield from uses(inner, around)
    for inner in getattr(expr, "args", ()):
        yield from uses(inner, around)


def parsed(expr: str) -> Any:
    for name, value in VARIABLES.items():
        expr = expr.replace(name, value)
    return promql.parse(expr)


TARGETS = [(panel["title"], target) for panel in DASHBOARD["panels"] for target in panel["targets"]]
EXPRESSIONS = {
    **{f"{title} {target['refId']}": target["expr"] for title, target in TARGETS},
    **{str(rule["alert"]): rule["expr"] for rule in RULES},
}


@pytest.fixture(scope="module")
def labels(server: Server, w: WorkspaceClient) -> Iterator[dict[str, set[str]]]:
    """The labels of each metric of a server that has done some work."""
    made = w.clusters.create(spark_version="17.3.x-scala2.13", node_type_id="i3.xlarge", num_workers=1).result()
    ended = w.clusters.create(spark_version="17.3.x-scala2.13", node_type_id="i3.xlarge", num_workers=1).result()
    w.clusters.delete(str(ended.cluster_id)).result()
    pool = w.instance_pools.create(instance_pool_name="dashboard", node_type_id="i3.xlarge")

    def look() -> dict[str, set[str]] | None:
        with urllib.request.urlopen(f"{server.url}/metrics") as answer:  # noqa: S310 - the test's own server
            families = text_string_to_metric_families(answer.read().decode())
        found: dict[str, set[str]] = {}
        for family in families:
            for sample in family.samples:
                found.setdefault(sample.name, set()).update(sample.labels)
        return found if "brickyard_spark_driver_heap_bytes" in found else None

    yield until(look, "no sample of a driver") | ELSEWHERE
    w.instance_pools.delete(str(pool.instance_pool_id))
    w.clusters.permanent_delete(str(made.cluster_id))


@pytest.mark.parametrize("expr", EXPRESSIONS.values(), ids=EXPRESSIONS)
def test_every_metric_and_label_exists(labels: dict[str, set[str]], expr: str) -> None:
    found = list(uses(parsed(expr)))
    assert found
    for use in found:
        assert use.name in labels
        named = use.labels | {label for _, by in use.around for label in by}
        known = {label for each in found for label in labels[each.name]}
        assert named - OF_PROMETHEUS <= known


@pytest.mark.parametrize("expr", EXPRESSIONS.values(), ids=EXPRESSIONS)
def test_every_expression_is_right_with_several_servers(expr: str) -> None:
    """What all servers report alike counts once; what each one counts for itself is added up, or shown for each."""
    for use in uses(parsed(expr)):
        if use.name.startswith("process_") or expr.startswith("absent("):
            continue
        assert use.around, f"{use.name} has a series for each server"
        inner, by = use.around[-1]
        counted = use.name.endswith(("_bucket", "_count", "_total"))
        assert inner == "sum" if counted else inner in ("max", "min")
        for (_, outer_by), (_, inner_by) in pairwise(use.around):
            assert outer_by <= inner_by
        if len(use.around) > 1 and use.around[0][0] == "sum":
            assert "job" in by, "the sum is one of workspaces"


@pytest.mark.parametrize(("title", "target"), TARGETS, ids=[f"{title} {target['refId']}" for title, target in TARGETS])
def test_every_panel_shows_the_chosen_jobs(title: str, target: dict[str, Any]) -> None:
    found = list(uses(parsed(target["expr"])))
    assert all("job" in use.labels for use in found), title
    outer = found[0].around[0][1] if found[0].around and found[0].around[0][0] not in ("topk",) else None
    by = outer if outer is not None else {label for _, each in found[0].around for label in each}
    shown = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
    assert shown <= by | {"instance"}, "the legend names what is left after the aggregation"


def test_the_dashboard_asks_for_its_data_source() -> None:
    [asked] = DASHBOARD["__inputs"]
    variables = {each["name"]: each for each in DASHBOARD["templating"]["list"]}
    assert (asked["type"], asked["pluginId"]) == ("datasource", "prometheus")
    assert variables["datasource"]["current"]["value"] == f"${{{asked['name']}}}"
    used = {target["datasource"]["uid"] for _, target in TARGETS} | {panel["datasource"]["uid"] for panel in DASHBOARD["panels"]}
    assert used | {variables["job"]["datasource"]["uid"]} == {"${datasource}"}
    assert variables["job"]["multi"] and variables["job"]["includeAll"]
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


@pytest.mark.parametrize("rule", RULES, ids=[rule["alert"] for rule in RULES])
def test_every_alert_says_how_bad_it_is_and_what_to_do(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in ("critical", "warning")
    assert rule["annotations"].keys() == {"summary", "description"}
    left = {label for use in uses(parsed(rule["expr"])) for _, by in use.around[:1] for label in by}
    assert set(re.findall(r"\$labels\.(\w+)", json.dumps(rule["annotations"]))) <= left


@pytest.mark.skipif(shutil.which("promtool") is None, reason="no promtool on PATH (Debian: apt install prometheus)")
def test_prometheus_itself_raises_the_alerts_and_no_others() -> None:
    made = subprocess.run(
        ["promtool", "test", "rules", "brickyard.rules.test.yml"], cwd=GRAFANA, capture_output=True, text=True, check=False
    )
    assert made.returncode == 0, made.stdout + made.stderr
