"""A request for a cluster under a policy of many rules of all kinds: applied, and checked. In this process, on one thread."""

from __future__ import annotations

import json
import time
from typing import Any

from bench._harness import limited, table
from brickyard.domain.policies import PolicyRow
from brickyard.domain.spec import ClusterSpec
from brickyard.plan.policies.governing import NOTHING, govern

RULES, ROUNDS = 200, 50
LIMIT_MS = 1.0
KINDS: tuple[dict[str, Any], ...] = (
    {"type": "fixed", "value": "a"},
    {"type": "allowlist", "values": ["a", "b"], "defaultValue": "a", "isOptional": True},
    {"type": "blocklist", "values": ["x", "y"], "isOptional": True},
    {"type": "regex", "pattern": "[a-z0-9.]+", "defaultValue": "a.b", "isOptional": True},
    {"type": "unlimited", "defaultValue": "v", "isOptional": True},
)
OTHERS: dict[str, Any] = {
    "num_workers": {"type": "range", "maxValue": 10},
    "autotermination_minutes": {"type": "range", "minValue": 10, "maxValue": 100, "defaultValue": 30},
    "custom_tags.team": {"type": "allowlist", "values": ["a", "b"]},
    "init_scripts.*.volumes.destination": {"type": "regex", "pattern": "/Volumes/.*", "isOptional": True},
    "spark_version": {"type": "unlimited"},
}
SPEC = ClusterSpec(
    cluster_name="b",
    spark_version="17.3.x-scala2.13",
    node_type_id="i3.xlarge",
    num_workers=2,
    custom_tags={"team": "a"},
    apply_policy_default_values=True,
)


def main() -> int:
    """Prints the table. Returns 1 if the limit is missed."""
    rules = {f"spark_conf.spark.key{number}": KINDS[number % len(KINDS)] for number in range(RULES - len(OTHERS))} | OTHERS
    policy = PolicyRow(policy_id="0" * 16, name="b", definition=json.dumps(rules))

    def evaluate() -> float:
        began = time.thread_time()
        governed = govern(SPEC, policy, NOTHING)
        assert not governed.violations(governed.given)
        return (time.thread_time() - began) * 1e3

    evaluate()  # parses the definition
    found = min(evaluate() for _ in range(ROUNDS))
    title = f"A policy of {RULES} rules: applied to a request and checked, the best of {ROUNDS}"
    return table(title, ["CPU ms", "at most"], [limited(found, LIMIT_MS, f"{found:.3f}")])
