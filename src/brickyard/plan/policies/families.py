"""The policy families, and the policy of each that every workspace begins with.

A policy may be a family's definition with overrides: they replace the family's rules path by path. Source: Databricks'
documentation of default policies and policy families, and the definition of Personal Compute in databrickslabs/ucx.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec


class Family(NamedTuple):
    """A policy family. `definition` is the JSON text of its rules."""

    policy_family_id: str
    name: str
    description: str
    definition: str


def _family(policy_family_id: str, name: str, description: str, rules: dict[str, dict[str, Any]]) -> Family:
    return Family(policy_family_id, name, description, msgspec.json.encode(rules).decode())


_SINGLE_USER = ["SINGLE_USER", "LEGACY_SINGLE_USER", "LEGACY_SINGLE_USER_STANDARD"]
_NO_POOL: dict[str, dict[str, Any]] = {
    "instance_pool_id": {"type": "forbidden", "hidden": True},
    "driver_instance_pool_id": {"type": "forbidden", "hidden": True},
}
_SIZES: dict[str, dict[str, Any]] = {
    "node_type_id": {"type": "unlimited", "isOptional": True},
    "driver_node_type_id": {"type": "unlimited", "isOptional": True},
    "num_workers": {"type": "unlimited", "isOptional": True},
    "autoscale.min_workers": {"type": "unlimited", "defaultValue": 2, "isOptional": True},
    "autoscale.max_workers": {"type": "unlimited", "defaultValue": 10, "isOptional": True},
}

FAMILIES: tuple[Family, ...] = (
    _family(
        "personal-vm",
        "Personal Compute",
        "Use with small-to-medium data or libraries like pandas and scikit-learn. Spark runs in local mode.",
        {
            "spark_version": {"type": "unlimited", "defaultValue": "auto:latest-lts"},
            "node_type_id": {"type": "unlimited"},
            "num_workers": {"type": "fixed", "value": 0, "hidden": True},
            "spark_conf.spark.databricks.cluster.profile": {"type": "fixed", "value": "singleNode", "hidden": True},
            "spark_conf.spark.master": {"type": "fixed", "value": "local[*]", "hidden": True},
            "data_security_mode": {"type": "allowlist", "values": _SINGLE_USER, "defaultValue": "SINGLE_USER", "hidden": True},
            "autotermination_minutes": {"type": "unlimited", "defaultValue": 4320, "isOptional": True},
            "cluster_type": {"type": "fixed", "value": "all-purpose"},
            **_NO_POOL,
        },
    ),
    _family(
        "shared-compute",
        "Shared Compute",
        "Larger clusters that several users share and keep apart from one another.",
        {
            "spark_version": {"type": "unlimited", "defaultValue": "auto:latest-lts"},
            "data_security_mode": {
                "type": "allowlist",
                "values": ["USER_ISOLATION", "DATA_SECURITY_MODE_STANDARD"],
                "defaultValue": "USER_ISOLATION",
            },
            "autotermination_minutes": {"type": "unlimited", "defaultValue": 120, "isOptional": True},
            "cluster_type": {"type": "fixed", "value": "all-purpose"},
            **_SIZES,
        },
    ),
    _family(
        "power-user",
        "Power User Compute",
        "Larger clusters for one user each.",
        {
            "spark_version": {"type": "unlimited", "defaultValue": "auto:latest-lts"},
            "data_security_mode": {"type": "allowlist", "values": _SINGLE_USER, "defaultValue": "SINGLE_USER"},
            "autotermination_minutes": {"type": "unlimited", "defaultValue": 120, "isOptional": True},
            "cluster_type": {"type": "fixed", "value": "all-purpose"},
            **_SIZES,
        },
    ),
    _family(
        "job-cluster",
        "Job Compute",
        "Clusters of jobs, and of nothing else.",
        {
            "spark_version": {"type": "unlimited", "defaultValue": "auto:latest-lts"},
            "cluster_type": {"type": "fixed", "value": "job"},
            **_SIZES,
        },
    ),
    _family(
        "shared-data-science",
        "Legacy Shared Compute",
        "Clusters that several users share without being kept apart.",
        {
            "spark_version": {"type": "unlimited", "defaultValue": "auto:latest-lts"},
            "data_security_mode": {"type": "allowlist", "values": ["NONE"], "defaultValue": "NONE"},
            "autotermination_minutes": {"type": "unlimited", "defaultValue": 120, "isOptional": True},
            "cluster_type": {"type": "fixed", "value": "all-purpose"},
            **_SIZES,
        },
    ),
)


def merged(definition: str, overrides: str) -> str:
    """A family's definition with the overrides of a policy, path by path. Both must be JSON objects (`language.parse`)."""
    rules: dict[str, Any] = msgspec.json.decode(definition)
    return msgspec.json.encode(rules | msgspec.json.decode(overrides or "{}")).decode()
