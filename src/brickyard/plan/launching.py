"""Which kind of instance to request, and what to try after a refusal: node types, alternates, the spot market. Pure."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

from brickyard.domain.cluster import Instance
from brickyard.domain.node import Role
from brickyard.domain.spec import (
    AwsAvailability,
    AzureAvailability,
    ClusterSpec,
    GcpAvailability,
    RuntimeEngine,
)
from brickyard.domain.terminations import TerminationReason, TerminationReasonCode
from brickyard.plan.policy import Policy
from brickyard.plan.poolroom import pool_of
from brickyard.plan.reasons import simple_reason

_FALLBACK = (
    AwsAvailability.SPOT_WITH_FALLBACK,
    AzureAvailability.SPOT_WITH_FALLBACK_AZURE,
    GcpAvailability.PREEMPTIBLE_WITH_FALLBACK_GCP,
)
_SPOT = (AwsAvailability.SPOT, AzureAvailability.SPOT_AZURE, GcpAvailability.PREEMPTIBLE_GCP, *_FALLBACK)


class Market(NamedTuple):
    """How to obtain a cluster's nodes. The first `first_on_demand` of them, starting with the driver, are on demand."""

    spot: bool = False
    fallback: bool = False  # use on-demand instances if no spot instance is available
    first_on_demand: int = 0
    field: str = ""  # the field that asks for spot instances


def market_of(spec: ClusterSpec) -> Market:
    """The market that the specification asks for. The clouds' attributes are equivalent, and one of them is given."""
    for name in ("aws_attributes", "azure_attributes", "gcp_attributes"):
        attributes = getattr(spec, name)
        if attributes is not None and attributes.availability in _SPOT:
            fallback = attributes.availability in _FALLBACK
            return Market(True, fallback, attributes.first_on_demand or 0, f"{name}.availability is {attributes.availability}")
    if spec.gcp_attributes is not None and spec.gcp_attributes.use_preemptible_executors:
        return Market(True, False, max(1, spec.gcp_attributes.first_on_demand or 0), "gcp_attributes.use_preemptible_executors")
    return Market()


def is_spot(spec: ClusterSpec, policy: Policy, on_demand: int) -> bool:
    """Whether the next node is a spot instance, given how many nodes the cluster already has on demand."""
    market = market_of(spec)
    return market.spot and policy.spot_market and on_demand >= market.first_on_demand


def types_of(spec: ClusterSpec, role: Role) -> list[str]:
    """The node types that a node may have, the preferred one first."""
    worker = role is Role.WORKER
    first = spec.node_type_id if worker else spec.driver_node_type_id or spec.node_type_id
    flexibility = spec.worker_node_type_flexibility if worker else spec.driver_node_type_flexibility
    return [first or "", *((flexibility.alternate_node_type_ids or []) if flexibility else [])]


def unsupported(spec: ClusterSpec, role: Role, *, offered: Collection[str]) -> TerminationReason | None:
    """Why no new node of that role is possible: the provider does not, or no longer, offer its type."""
    if (node_type_id := types_of(spec, role)[0]) in offered:
        return None
    message = f"Node type {node_type_id!r} is not available here. Edit the cluster to use a type from list-node-types."
    return simple_reason(TerminationReasonCode.UNSUPPORTED_INSTANCE_TYPE, databricks_error_message=message)


def reusable(node: Instance, spec: ClusterSpec, *, offered: Collection[str]) -> bool:
    """Whether a node of an earlier start matches the current specification."""
    fits = node.node_type_id in types_of(spec, node.role) and node.pool_id == pool_of(spec, node.role)
    fits = fits and (market_of(spec).spot or not node.spot)
    return fits and node.node_type_id in offered and not node.retiring and node.launch_error is None


def next_attempt(
    node: Instance, spec: ClusterSpec, *, now: int, policy: Policy, offered: Collection[str]
) -> dict[str, Any] | None:
    """The changes with which to request a refused instance again, or None if there is nothing left to try.

    Errors that may pass are retried after a pause. If there is no room, the alternate types are tried in order, and then, if
    that is allowed, all of them again on demand.
    """
    error = node.launch_error
    if error is None:
        return None
    if error.kind in ("ThrottledError", "TransientError") and node.attempts < policy.launch_attempts:
        pause = policy.launch_backoff_ms * 2 ** (node.attempts - 1)
        return {"launch_error": None, "not_before_ms": now + pause}
    if error.kind != "CapacityError" or node.pool_id:
        return None
    fresh = {"launch_error": None, "not_before_ms": now, "attempts": 0}
    types = types_of(spec, node.role)
    behind = types[types.index(node.node_type_id) + 1 :] if node.node_type_id in types else []
    following = next((name for name in behind if name in offered and name != node.node_type_id), None)
    if following is not None:
        return {**fresh, "node_type_id": following}
    if node.spot and market_of(spec).fallback and types[0] in offered:
        return {**fresh, "node_type_id": types[0], "spot": False}
    return None


def remarks(spec: ClusterSpec, policy: Policy) -> str:
    """Notes for people about how a cluster runs differently from its specification; "" if there are none."""
    found = []
    if (market := market_of(spec)).spot and not policy.spot_market and not spec.instance_pool_id:
        found.append(f"{market.field}, but there is no spot market here: every node is on demand.")
    if spec.runtime_engine is RuntimeEngine.PHOTON:
        found.append("runtime_engine is PHOTON, which is not offered: the cluster runs on the standard engine.")
    return " ".join(found)
