"""Which kind of instance to request, and what to try after a refusal: node types, alternates, the spot market. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from brickyard.domain.cluster import Instance, is_single_node
from brickyard.domain.node import Role
from brickyard.domain.nodetypes import NodeType
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


def is_spot(spec: ClusterSpec, policy: Policy, on_demand: int, *, provider: str) -> bool:
    """Whether the next node is a spot instance, given its provider and how many nodes the cluster already has on demand."""
    market = market_of(spec)
    return market.spot and provider in policy.spot_markets and on_demand >= market.first_on_demand


def types_of(spec: ClusterSpec, role: Role) -> list[str]:
    """The node types that a node may have, the preferred one first."""
    worker = role is Role.WORKER
    first = spec.node_type_id if worker else spec.driver_node_type_id or spec.node_type_id
    flexibility = spec.worker_node_type_flexibility if worker else spec.driver_node_type_flexibility
    return [first or "", *((flexibility.alternate_node_type_ids or []) if flexibility else [])]


def unsupported(
    spec: ClusterSpec, role: Role, *, offered: Mapping[str, NodeType], driver: Instance | None = None
) -> TerminationReason | None:
    """Why no new node of that role is possible: no provider offers its type, or none does any longer, or workers of this type
    could not reach the driver. `driver`: the one that the cluster has."""
    node_type_id = types_of(spec, role)[0]
    if node_type_id not in offered:
        message = f"Node type {node_type_id!r} is not available here. Edit the cluster to use a type from list-node-types."
    elif role is Role.WORKER:
        message = apart(spec, offered) or _moved(driver, offered)
    else:
        message = ""
    return simple_reason(TerminationReasonCode.UNSUPPORTED_INSTANCE_TYPE, databricks_error_message=message) if message else None


def apart(spec: ClusterSpec, offered: Mapping[str, NodeType]) -> str:
    """Why a driver and workers of these types could not be one cluster: their providers' nodes do not reach each other. "" if
    they could. Alternates count; types that nobody offers do not."""
    if is_single_node(spec):
        roles: tuple[tuple[str, Role], ...] = (("driver_node_type_flexibility", Role.DRIVER),)
        first = ("driver_node_type_id" if spec.driver_node_type_id else "node_type_id", types_of(spec, Role.DRIVER)[0])
    else:
        roles = (("driver_node_type_flexibility", Role.DRIVER), ("worker_node_type_flexibility", Role.WORKER))
        first = ("node_type_id", types_of(spec, Role.WORKER)[0])
    named = [first]
    for flexibility, role in roles:
        own, *alternates = types_of(spec, role)
        field = "driver_node_type_id" if role is Role.DRIVER and spec.driver_node_type_id else "node_type_id"
        named += [(field, own), *((f"{flexibility}.alternate_node_type_ids", name) for name in alternates)]
    known = [(field, offered[name]) for field, name in named if name in offered]
    for field, each in known[1:]:
        one = known[0][1]
        if each.network != one.network:
            return (
                f"{known[0][0]} {one.node_type_id} is of provider {one.provider}, and {field} {each.node_type_id} of provider "
                f"{each.provider}: their nodes do not reach each other, so they cannot be in one cluster. Choose types of one "
                "provider (list-node-types says which provider each is of)."
            )
    return ""


def _moved(driver: Instance | None, offered: Mapping[str, NodeType]) -> str:
    """Why no worker can join a driver that was launched before its node type went to another provider."""
    now = offered.get(driver.node_type_id) if driver is not None else None
    if driver is None or now is None or not driver.provider or now.provider in ("", driver.provider):
        return ""
    return (
        f"The driver is an instance of provider {driver.provider}, and its node type {driver.node_type_id} is now of provider "
        f"{now.provider}: new workers might not reach it. Restart the cluster."
    )


def provider_of(node_type_id: str, offered: Mapping[str, NodeType], policy: Policy) -> str:
    """The name of the provider that launches an instance of this type."""
    found = offered.get(node_type_id)
    return found.provider if found is not None and found.provider else policy.provider


def stays(node: Instance, offered: Mapping[str, NodeType]) -> bool:
    """Whether the instance's type is on offer and still belongs to the provider that launched it."""
    found = offered.get(node.node_type_id)
    return found is not None and (not found.provider or node.provider in ("", found.provider))


def reusable(node: Instance, spec: ClusterSpec, *, offered: Mapping[str, NodeType]) -> bool:
    """Whether a node of an earlier start matches the current specification."""
    fits = node.node_type_id in types_of(spec, node.role) and node.pool_id == pool_of(spec, node.role)
    fits = fits and (market_of(spec).spot or not node.spot)
    return fits and stays(node, offered) and not node.retiring and node.launch_error is None


def next_attempt(
    node: Instance, spec: ClusterSpec, *, now: int, policy: Policy, offered: Mapping[str, NodeType]
) -> dict[str, Any] | None:
    """The changes with which to request a refused instance again, or None if there is nothing left to try.

    Errors that may pass are retried after a pause. If there is no room, the alternate types are tried in order, and then, if
    that is allowed, all of them again on demand. Another type may be of another provider.
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
        provider = provider_of(following, offered, policy)
        spot = node.spot and (provider == node.provider or provider in policy.spot_markets)
        return {**fresh, "node_type_id": following, "provider": provider, "spot": spot}
    if node.spot and market_of(spec).fallback and types[0] in offered:
        return {**fresh, "node_type_id": types[0], "provider": provider_of(types[0], offered, policy), "spot": False}
    return None


def remarks(spec: ClusterSpec, policy: Policy, offered: Mapping[str, NodeType]) -> str:
    """Notes for people about how a cluster runs differently from its specification; "" if there are none."""
    found = []
    providers = {provider_of(types_of(spec, role)[0], offered, policy) for role in (Role.DRIVER, Role.WORKER)}
    if (market := market_of(spec)).spot and not providers & policy.spot_markets and not spec.instance_pool_id:
        found.append(f"{market.field}, but there is no spot market here: every node is on demand.")
    if spec.runtime_engine is RuntimeEngine.PHOTON and not policy.photon:
        found.append("runtime_engine is PHOTON, which is not offered: the cluster runs on the standard engine.")
    return " ".join(found)
