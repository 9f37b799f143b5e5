"""What an edit changes of a cluster beside its desired specification, and which fields of that need no restart. Pure."""

from __future__ import annotations

import msgspec

from brickyard.domain.cluster import Cluster
from brickyard.domain.spec import ClusterSpec
from brickyard.domain.warehouses import Warehouse

# The server alone acts on these: the loop reads the idle time, and lists, events and spend read the name and the tags. Nodes and
# Spark's configuration have the name and the tags of their start, and get the new ones at the next.
LIVE_FIELDS = frozenset({"autotermination_minutes", "cluster_name", "custom_tags"})


def restart_fields(before: ClusterSpec, after: ClusterSpec) -> list[str]:
    """The fields for whose sake a running cluster restarts, if its effective specification becomes `after`: in order, or none."""
    return [
        field
        for field in ClusterSpec.__struct_fields__
        if field not in LIVE_FIELDS and getattr(before, field) != getattr(after, field)
    ]


def with_warehouse(cluster: Cluster, warehouse: Warehouse) -> Cluster:
    """The cluster of a SQL warehouse with other words about the warehouse."""
    return msgspec.structs.replace(cluster, warehouse=warehouse)
