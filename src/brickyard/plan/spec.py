"""From the specification that was sent to the one that holds: every rule checked, every default filled in. Pure.

Messages follow the ones that Databricks clients know (see `_require_size` and its neighbours), and name the field and the rule.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

import msgspec

from brickyard.domain.cluster import SINGLE_NODE_PROFILE, is_single_node
from brickyard.domain.errors import InvalidParameterValue
from brickyard.domain.nodetypes import NodeType
from brickyard.domain.spec import ClusterSpec, DataSecurityMode, Kind
from brickyard.plan.refused import check_refused

DEFAULT_AUTOTERMINATION_MINUTES = 120  # the seed's default; 0 switches it off
MAX_WORKERS = 100_000
MAX_TAGS = 45
MAX_NAME = 1_000
_SINGLE_USER_MODES = (DataSecurityMode.SINGLE_USER, DataSecurityMode.DATA_SECURITY_MODE_DEDICATED)
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

# The zones that clients may name. All of them are this machine: a zone places nothing here, and is echoed.
ZONES = (
    "auto",
    *(f"us-west-2{letter}" for letter in "abcd"),
    *(f"us-east-1{letter}" for letter in "abcdef"),
    *(f"eu-west-1{letter}" for letter in "abc"),
    *(f"eu-central-1{letter}" for letter in "abc"),
    *(f"us-central1-{letter}" for letter in "abcf"),
    *(f"europe-west1-{letter}" for letter in "bcd"),
)

# Settings by which a node keeps its cluster apart from others, and those that its role decides.
OWNED_CONF = (
    "spark.authenticate",
    "spark.driver.host",
    "spark.driver.bindAddress",
    "spark.driver.port",
    "spark.connect.grpc.binding",
    "spark.connect.authenticate",
    "spark.ui.filters",
    "spark.deploy.",
    "spark.worker.",
    "spark.local.dir",
    "spark.network.crypto.saslFallback",
)


def normalise(request: ClusterSpec, *, user: str, node_types: Mapping[str, NodeType], runtimes: Collection[str]) -> ClusterSpec:
    """The effective specification. `user` is who asks; `runtimes` are the keys on offer. Raises InvalidParameterValue."""
    spec = _single_node_defaults(request)
    check_refused(spec)
    _check_runtime(spec, runtimes)
    _check_size(spec)
    spec = _with_node_types(spec, node_types)
    _check_texts(spec)
    _check_conf(spec)
    minutes = spec.autotermination_minutes
    if minutes is None:
        minutes = DEFAULT_AUTOTERMINATION_MINUTES
    elif minutes != 0 and not 10 <= minutes <= 10_000:
        raise InvalidParameterValue(
            f"autotermination_minutes is {minutes}; it must be between 10 and 10000, or 0 to never terminate."
        )
    changes: dict[str, object] = {
        "num_workers": spec.num_workers or 0,
        "autotermination_minutes": minutes,
        "cluster_name": spec.cluster_name or "",
        "enable_elastic_disk": True if spec.enable_elastic_disk is None else spec.enable_elastic_disk,
    }
    if spec.data_security_mode in _SINGLE_USER_MODES and not spec.single_user_name:
        changes["single_user_name"] = user
    return msgspec.structs.replace(spec, **changes)


def _single_node_defaults(spec: ClusterSpec) -> ClusterSpec:
    """`is_single_node` stands for the conf, the tag and the size that say the same [databricks-sdk, `create`]."""
    if spec.is_single_node and spec.kind is not Kind.CLASSIC_PREVIEW:
        raise InvalidParameterValue("is_single_node can only be used with kind CLASSIC_PREVIEW.")
    if not spec.is_single_node:
        return spec
    if spec.num_workers:
        raise InvalidParameterValue(f"num_workers is {spec.num_workers}; a cluster with is_single_node has none.")
    conf = {**(spec.spark_conf or {}), SINGLE_NODE_PROFILE: "singleNode", "spark.master": "local[*]"}
    tags = {**(spec.custom_tags or {}), "ResourceClass": "SingleNode"}
    return msgspec.structs.replace(spec, num_workers=0, spark_conf=conf, custom_tags=tags)


def _check_runtime(spec: ClusterSpec, runtimes: Collection[str]) -> None:
    if not spec.spark_version:
        raise InvalidParameterValue("Missing required field: spark_version")
    if spec.spark_version not in runtimes:
        raise InvalidParameterValue(f"Invalid spark version {spec.spark_version}. Offered are: {', '.join(runtimes)}.")


def _check_size(spec: ClusterSpec) -> None:
    if spec.num_workers is None:
        raise InvalidParameterValue("Missing required field: size")
    check_num_workers(spec.num_workers, single=is_single_node(spec))


def check_num_workers(num_workers: int, *, single: bool) -> None:
    """Raise InvalidParameterValue unless a cluster of that kind may have that many workers."""
    if num_workers < 0:
        raise InvalidParameterValue(f"num_workers is {num_workers}; it must not be negative.")
    if num_workers > MAX_WORKERS:
        raise InvalidParameterValue(f"num_workers is {num_workers}; at most {MAX_WORKERS} are possible.")
    if num_workers == 0 and not single:
        raise InvalidParameterValue(
            "NumWorkers could be 0 only for SingleNode clusters. Cluster size must be at least 1 worker, or set "
            f"{SINGLE_NODE_PROFILE} to singleNode and spark.master to local[*] in spark_conf."
        )
    if num_workers and single:
        raise InvalidParameterValue(f"num_workers is {num_workers}; a SingleNode cluster has no workers.")


def _with_node_types(spec: ClusterSpec, node_types: Mapping[str, NodeType]) -> ClusterSpec:
    if not spec.node_type_id:
        raise InvalidParameterValue("Missing required field 'node_type_id'")
    driver = spec.driver_node_type_id or spec.node_type_id
    for field, value in (("node_type_id", spec.node_type_id), ("driver_node_type_id", driver)):
        if value not in node_types:
            raise InvalidParameterValue(
                f"{field} {value} is not supported here. Choose one of list-node-types; GPU types need a GPU in the machine."
            )
    return msgspec.structs.replace(spec, driver_node_type_id=driver)


def _check_texts(spec: ClusterSpec) -> None:
    if len(spec.cluster_name or "") > MAX_NAME:
        raise InvalidParameterValue(
            f"cluster_name has {len(spec.cluster_name or '')} characters; at most {MAX_NAME} are allowed."
        )
    tags = spec.custom_tags or {}
    if len(tags) > MAX_TAGS:
        raise InvalidParameterValue(f"custom_tags has {len(tags)} tags; at most {MAX_TAGS} are allowed.")
    for key, value in tags.items():
        if not 1 <= len(key) <= 127 or len(value) > 255:
            raise InvalidParameterValue(
                f"custom_tags has a bad tag {key[:140]!r}: a key has 1 to 127 characters, a value at most 255."
            )
    for name, value in (spec.spark_env_vars or {}).items():
        if not _ENV_NAME.fullmatch(name):
            raise InvalidParameterValue(
                f"spark_env_vars has a bad name {name[:140]!r}: use letters, digits and _, no digit first."
            )
        if "\0" in value:
            raise InvalidParameterValue(f"spark_env_vars.{name} has a NUL character, which no environment can hold.")
    for attributes, name in ((spec.aws_attributes, "aws_attributes"), (spec.gcp_attributes, "gcp_attributes")):
        zone = attributes.zone_id if attributes is not None else None
        if zone and zone not in ZONES:
            raise InvalidParameterValue(f"{name}.zone_id is {zone!r}; choose one of list-zones.")
    if spec.aws_attributes is not None and not 0 <= (spec.aws_attributes.spot_bid_price_percent or 0) <= 10_000:
        raise InvalidParameterValue("aws_attributes.spot_bid_price_percent must be between 1 and 10000.")


def _check_conf(spec: ClusterSpec) -> None:
    single = is_single_node(spec)
    for key, value in (spec.spark_conf or {}).items():
        if not key.strip() or any(character in key for character in "\n\r\0="):
            raise InvalidParameterValue(f"spark_conf has a bad key {key[:140]!r}: it is empty, or has a line break or '='.")
        if "\0" in value:
            raise InvalidParameterValue(f"spark_conf.{key} has a NUL character.")
        if key == "spark.master" and not (single and re.fullmatch(r"local(\[(\*|\d+)(,\s*(\*|\d+))?\])?", value)):
            raise InvalidParameterValue(
                f"spark_conf.spark.master is {value!r}: a cluster has a master of its own; only a SingleNode cluster may set it, "
                "to local[*]."
            )
        if key.startswith(OWNED_CONF):
            raise InvalidParameterValue(f"spark_conf.{key} cannot be set: it is what keeps this cluster apart from others.")
