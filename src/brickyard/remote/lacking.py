"""What the page uses beyond the Databricks API, and which of it a workspace lacks: the page hides that. Pure."""

from __future__ import annotations

from typing import Any

VALIDATION = "validate_only"  # of create and edit; all others are paths
# As in our OpenAPI document. tests/api/test_remote.py compares this with what the page calls.
ADDITIONS = (
    VALIDATION,
    "/api/1.2/contexts/languages",
    "/api/2.2/jobs/runs/cells",
    "/api/2.0/audit-logs",
    "/api/2.1/budgets",
    "/api/2.1/changes",
    "/api/2.1/clusters/list-attached",
    "/api/2.1/clusters/logs/list",
    "/api/2.1/clusters/metrics",
    "/api/2.1/clusters/spark-ui-link",
    "/api/2.1/instance-pools/details",
    "/api/2.1/machine",
    "/api/2.1/policies/clusters/try",
    "/api/2.1/runtimes",
    "/api/2.1/spend",
    "/api/2.1/spend/prices",
    "/api/2.1/token-management/tokens",
    "/api/2.1/workspace/versions/list",
    "/api/2.1/workspace/versions/export",
    "/v1/clusters/{cluster_id}",
    "/v1/clusters/{cluster_id}/proxy",
    "/v1/snapshots/{snapshot_id}",
)


def lacking(document: Any) -> tuple[str, ...]:
    """What of `ADDITIONS` is missing in a workspace with this OpenAPI document; all of them, if it is not one of Brickyard."""
    paths = _at(document, "paths") if _at(document, "info", "title") == "Brickyard" else None
    known = set(paths) if isinstance(paths, dict) else set()
    if known and _at(document, "components", "schemas", "CreateCluster", "properties", VALIDATION) is not None:
        known.add(VALIDATION)
    return tuple(each for each in ADDITIONS if each not in known)


def _at(value: Any, *keys: str) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value
