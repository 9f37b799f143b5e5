"""Builds a pool's effective specification from a request, and defines which changes an edit may make. Pure.

Raises only InvalidParameterValue. Unsupported fields are refused by name, with the reason (`REFUSED`);
docs/pools.md lists the same fields, and a test compares the two.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import msgspec

from brickyard.domain.errors import InvalidParameterValue
from brickyard.domain.nodetypes import NodeType
from brickyard.domain.pools import (
    ClusterTag,
    CreateInstancePool,
    DiskSpec,
    EditInstancePool,
    Pool,
    PoolAttributes,
    PoolSpec,
)
from brickyard.domain.spec import AwsAvailability, AzureAvailability, GcpAvailability
from brickyard.plan.policy import DEFAULT_MAX_NODES
from brickyard.plan.pool import DEFAULT_IDLE_MINUTES
from brickyard.plan.spec import MAX_SPOT_BID_PERCENT, MAX_TAG_KEY, MAX_TAG_VALUE, MAX_TAGS
from brickyard.plan.zones import check_zone

MAX_POOL_NAME = 99  # "less than 100 characters"
MAX_IDLE_MINUTES = 10_000
EDITABLE = ("instance_pool_name", "min_idle_instances", "max_capacity", "idle_instance_autotermination_minutes", "custom_tags")
_AVAILABILITY = ("aws_attributes.availability", "azure_attributes.availability", "gcp_attributes.gcp_availability")
_SPOT = (
    AwsAvailability.SPOT,
    AwsAvailability.SPOT_WITH_FALLBACK,
    AzureAvailability.SPOT_AZURE,
    AzureAvailability.SPOT_WITH_FALLBACK_AZURE,
    GcpAvailability.PREEMPTIBLE_GCP,
    GcpAvailability.PREEMPTIBLE_WITH_FALLBACK_GCP,
)
_SHOWN = 140

_Test = Callable[[Any], bool]


def _any(_value: Any) -> bool:
    return True


# Field -> (which non-empty values are refused, why).
REFUSED: dict[str, tuple[_Test, str]] = {
    "preloaded_docker_images": (_any, "nodes run on the machine itself, without containers"),
    "node_type_flexibility": (_any, "every instance has the pool's node type"),
    "remote_disk_throughput": (_any, "there are no remote disks"),
    "total_initial_remote_disk_size": (_any, "there are no remote disks"),
    "aws_attributes.instance_profile_arn": (_any, "there are no instance profiles"),
    "azure_attributes.capacity_reservation_group": (_any, "there are no capacity reservations"),
    "gcp_attributes.local_ssd_count": (_any, "disks are the machine's own"),
}


def pool_spec(
    request: CreateInstancePool,
    *,
    node_types: Mapping[str, NodeType],
    runtimes: Collection[str],
    max_nodes: int = DEFAULT_MAX_NODES,
) -> PoolSpec:
    """The specification of a new pool, with the server's defaults. `max_nodes`: how many instances a pool may have."""
    _check_refused(request)
    if request.node_type_id not in node_types:
        raise InvalidParameterValue(
            f"node_type_id {request.node_type_id[:_SHOWN]} is not supported here. Choose one of list-node-types; GPU types need "
            "a GPU in the machine."
        )
    _check_disks(request.disk_spec)
    _check_clouds(request)
    _check_runtimes(request.preloaded_spark_versions or [], runtimes)
    fields = {name: getattr(request, name) for name in PoolAttributes.__struct_fields__}
    elastic = True if request.enable_elastic_disk is None else request.enable_elastic_disk
    return _checked(
        PoolSpec(
            **fields
            | {
                "instance_pool_name": request.instance_pool_name,
                "node_type_id": request.node_type_id,
                "custom_tags": _tags(request.custom_tags),
                "enable_elastic_disk": elastic,
                "idle_instance_autotermination_minutes": _idle_minutes(request.idle_instance_autotermination_minutes),
            }
        ),
        max_nodes,
    )


def edited_spec(pool: Pool, request: EditInstancePool, *, max_nodes: int = DEFAULT_MAX_NODES) -> PoolSpec:
    """The specification after an edit. The sizes and the idle time are those of the request, even if absent there; absent tags
    keep their values. Everything else must be unchanged."""
    spec = pool.spec
    for name in ("node_type_id", *PoolAttributes.__struct_fields__):
        value = getattr(request, name)
        if name not in EDITABLE and value is not None and value != getattr(spec, name):
            present = msgspec.json.encode(getattr(spec, name)).decode()
            raise InvalidParameterValue(
                f"{name} of an instance pool cannot be changed: it is {present[:_SHOWN]}. An edit changes {', '.join(EDITABLE)}; "
                "for anything else create another pool."
            )
    return _checked(
        msgspec.structs.replace(
            spec,
            instance_pool_name=request.instance_pool_name,
            min_idle_instances=request.min_idle_instances,
            max_capacity=request.max_capacity,
            idle_instance_autotermination_minutes=_idle_minutes(request.idle_instance_autotermination_minutes),
            custom_tags=spec.custom_tags if request.custom_tags is None else _tags(request.custom_tags),
        ),
        max_nodes,
    )


def _checked(spec: PoolSpec, max_nodes: int) -> PoolSpec:
    """Checks the rules that hold for both create and edit."""
    name = spec.instance_pool_name
    if not name.strip():
        raise InvalidParameterValue("instance_pool_name must not be empty.")
    if len(name) > MAX_POOL_NAME:
        raise InvalidParameterValue(f"instance_pool_name has {len(name)} characters; it must be less than {MAX_POOL_NAME + 1}.")
    for field in ("min_idle_instances", "max_capacity"):
        value = getattr(spec, field)
        if value is not None and not 0 <= value <= max_nodes:
            raise InvalidParameterValue(f"{field} is {value}; it must be between 0 and {max_nodes} (max_nodes).")
    if spec.max_capacity is not None and spec.max_capacity < max(1, spec.min_idle_instances or 0):
        raise InvalidParameterValue(
            f"max_capacity is {spec.max_capacity}; it must be at least 1 and not below min_idle_instances "
            f"({spec.min_idle_instances or 0})."
        )
    return spec


def _idle_minutes(minutes: int | None) -> int:
    if minutes is None:
        return DEFAULT_IDLE_MINUTES
    if not 0 <= minutes <= MAX_IDLE_MINUTES:
        raise InvalidParameterValue(
            f"idle_instance_autotermination_minutes is {minutes}; it must be between 0 and {MAX_IDLE_MINUTES}."
        )
    return minutes


def _tags(tags: dict[str, str] | list[ClusterTag] | None) -> dict[str, str] | None:
    if tags is None:
        return None
    found = {tag.key: tag.value for tag in tags} if isinstance(tags, list) else tags
    if len(tags) > MAX_TAGS:
        raise InvalidParameterValue(f"custom_tags has {len(tags)} tags; at most {MAX_TAGS} are allowed.")
    if len(found) < len(tags):
        raise InvalidParameterValue("custom_tags has a key more than once: give each key one value.")
    for key, value in found.items():
        if not 1 <= len(key) <= MAX_TAG_KEY or len(value) > MAX_TAG_VALUE:
            raise InvalidParameterValue(
                f"custom_tags has a bad tag {key[:_SHOWN]!r}: a key has 1 to {MAX_TAG_KEY} characters, a value at most "
                f"{MAX_TAG_VALUE}."
            )
    return found


def _check_refused(request: CreateInstancePool) -> None:
    for path, (refused, why) in REFUSED.items():
        value: Any = request
        for name in path.split("."):
            value = getattr(value, name) if value is not None else None
        if value and refused(value):
            raise InvalidParameterValue(f"{path} is not supported here: {why}.")


def without_effect(spec: PoolSpec) -> list[str]:
    """What of a pool is kept and does nothing here, in sentences."""
    found = []
    if spec.disk_spec is not None and spec.disk_spec.disk_count:
        found.append("disk_spec is stored only: instances use the disks of their machine.")
    for name in _AVAILABILITY:
        attributes, _, field = name.partition(".")
        value = getattr(getattr(spec, attributes), field, None)
        if value in _SPOT:
            found.append(f"{name} {value} is stored only: every instance is on demand.")
    return found


def _check_disks(disks: DiskSpec | None) -> None:
    """Nodes use the machine's own disks, so what is right is kept, and has no effect (`without_effect`)."""
    if disks is None:
        return
    for field in ("disk_count", "disk_size", "disk_iops", "disk_throughput"):
        value = getattr(disks, field)
        if value is not None and value < 0:
            raise InvalidParameterValue(f"disk_spec.{field} is {value}; it must not be negative.")


def _check_clouds(request: CreateInstancePool) -> None:
    for name, attributes in (("aws_attributes", request.aws_attributes), ("gcp_attributes", request.gcp_attributes)):
        check_zone(name, attributes.zone_id if attributes is not None else None)
    percent = (request.aws_attributes.spot_bid_price_percent or 0) if request.aws_attributes is not None else 0
    if not 0 <= percent <= MAX_SPOT_BID_PERCENT:
        raise InvalidParameterValue(
            f"aws_attributes.spot_bid_price_percent is {percent}; it must be between 1 and {MAX_SPOT_BID_PERCENT}."
        )
    price = (request.azure_attributes.spot_bid_max_price or -1) if request.azure_attributes is not None else -1
    if price != -1 and price <= 0:
        raise InvalidParameterValue(f"azure_attributes.spot_bid_max_price is {price}; it must be above 0, or -1 for no limit.")


def _check_runtimes(versions: list[str], runtimes: Collection[str]) -> None:
    if len(versions) > 1:
        raise InvalidParameterValue(f"preloaded_spark_versions has {len(versions)} versions; at most one is possible.")
    for version in versions:
        if version not in runtimes:
            raise InvalidParameterValue(f"Invalid spark version {version[:_SHOWN]}. Use one of: {', '.join(runtimes)}.")
