"""What clusters cost: the price per hour of a specification, charges for nodes, and their sums. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from brickyard.domain.cluster import Cluster, Instance
from brickyard.domain.instances import InstanceState
from brickyard.domain.node import Role
from brickyard.domain.nodetypes import NodeType
from brickyard.domain.spec import ClusterSpec
from brickyard.domain.spend import Charge
from brickyard.plan.launching import types_of

_DIGITS = 6  # prices are sums of decimals: 0.156 * 3 must not be shown as 0.46799999999999997


_CHARGED = (InstanceState.LAUNCHED, InstanceState.REGISTERED, InstanceState.TERMINATING)


class PriceRange(NamedTuple):
    """Prices per hour of a cluster, its driver included: at its smallest size with the cheapest of its node types, and at its
    largest with the dearest."""

    least: float
    most: float


def price_per_hour(spec: ClusterSpec, node_types: Mapping[str, NodeType]) -> PriceRange | None:
    """The price of an effective specification (of a pool's cluster too: its node types are filled in). None if a node type is not
    on offer, so that its price is not known."""
    driver = _prices(types_of(spec, Role.DRIVER), node_types)
    worker = _prices(types_of(spec, Role.WORKER), node_types)
    if driver is None or worker is None:
        return None
    scale = spec.autoscale
    fewest = (scale.min_workers if scale is not None else spec.num_workers) or 0
    most = (scale.max_workers if scale is not None else spec.num_workers) or 0
    return PriceRange(round(min(driver) + fewest * min(worker), _DIGITS), round(max(driver) + most * max(worker), _DIGITS))


def _prices(names: Sequence[str], node_types: Mapping[str, NodeType]) -> list[float] | None:
    """The prices of a role's own type and of its alternates. An alternate that is no longer offered is not used."""
    if names[0] not in node_types:
        return None
    return [node_types[name].price_per_hour for name in names if name in node_types]


class Settled(NamedTuple):
    """How a cluster's charges change: those that end, and those that begin."""

    ended: tuple[Charge, ...] = ()
    begun: tuple[Charge, ...] = ()


def settle(
    open_charges: Iterable[Charge],
    cluster: Cluster,
    nodes: Iterable[Instance],
    *,
    now: int,
    node_types: Mapping[str, NodeType],
    currency: str,
) -> Settled:
    """Makes the open charges those of the nodes that exist now. A node costs from its launch, or from when it was taken from a
    pool, until the provider no longer lists it. A charge ends, and another begins, when its price or the cluster's creator, name
    or tags change. Deciding from what exists, and not from what happened, counts nothing twice, whatever was killed before.
    """
    wanted = {node.instance_id: node for node in nodes if node.cluster_id == cluster.cluster_id and node.state in _CHARGED}
    known = {charge.instance_id: charge for charge in open_charges}
    ended = [_ended(charge, now) for name, charge in known.items() if name not in wanted]
    begun = []
    for name, node in wanted.items():
        before = known.get(name)
        charge = _charge(node, cluster, node_types, currency, before)
        if before is None:
            since = now if node.pool_id else node.launched_ms or node.registered_ms or now
            begun.append(msgspec.structs.replace(charge, started_ms=min(since, now)))
        elif charge != before:
            ended.append(_ended(before, now))
            begun.append(msgspec.structs.replace(charge, started_ms=now))
    return Settled(tuple(ended), tuple(begun))


def _ended(charge: Charge, now: int) -> Charge:
    return msgspec.structs.replace(charge, ended_ms=max(now, charge.started_ms + 1))


def _charge(node: Instance, cluster: Cluster, node_types: Mapping[str, NodeType], currency: str, before: Charge | None) -> Charge:
    """What a node costs now. A type that is no longer on offer keeps its price."""
    offered = node_types.get(node.node_type_id)
    known = (before.price_per_hour, before.currency) if before is not None else (0.0, currency)
    price, unit = (offered.price_per_hour, currency) if offered is not None else known
    return Charge(
        cluster_id=cluster.cluster_id,
        instance_id=node.instance_id,
        started_ms=before.started_ms if before is not None else 0,
        price_per_hour=price,
        currency=unit,
        node_type_id=node.node_type_id,
        role=node.role.value,
        creator_user_name=cluster.creator_user_name,
        cluster_name=cluster.spec.cluster_name or "",
        tags={**cluster.pool_tags, **(cluster.spec.custom_tags or {})},
    )
