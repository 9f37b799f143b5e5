"""Builds the effective specification from a request: `RULES` check it and fill in every default. Pure.

All rules are tried, whether a cluster is created, edited or only validated. Messages begin like the ones that Databricks clients
know, name the field, and say what would be correct. Unsupported fields (`plan.refused`), settings that the cluster controls
itself (`plan.owned`) and those that would only seem to protect (`plan.protections`) are refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec

from brickyard.domain.cluster import SINGLE_NODE_PROFILE, is_single_node
from brickyard.domain.errors import InvalidParameterValue
from brickyard.domain.identity import fold_name
from brickyard.domain.node import Role
from brickyard.domain.nodetypes import NodeType
from brickyard.domain.policies import PolicyRow
from brickyard.domain.pools import Pool
from brickyard.domain.runtimes import Runtime, is_photon, photon_key
from brickyard.domain.spec import ISOLATING_MODES, AutoScale, ClusterSpec, DataSecurityMode, Kind, RuntimeEngine
from brickyard.plan.autoscale import check_autoscale, check_window
from brickyard.plan.launching import apart, types_of
from brickyard.plan.layers import check_layers
from brickyard.plan.logconf import log_destination
from brickyard.plan.owned import check_conf, check_variables
from brickyard.plan.policies.governing import Governed
from brickyard.plan.policy import DEFAULT_MAX_NODES
from brickyard.plan.protections import check_protections
from brickyard.plan.refused import check_refused
from brickyard.plan.scripts import check_init_scripts
from brickyard.plan.sparksizes import check_spark_sizes
from brickyard.plan.zones import check_zones

DEFAULT_AUTOTERMINATION_MINUTES = 120  # the Clusters API guide's default; 0 turns it off
MAX_TAGS = 45
MAX_TAG_KEY, MAX_TAG_VALUE = 127, 255
MAX_NAME = 1_000
MAX_SPOT_BID_PERCENT = 10_000
MAX_SPEC = 1024 * 1024  # bytes as JSON: it is sent to every node of the cluster, and every start writes it again
_SINGLE_USER_MODES = (
    DataSecurityMode.SINGLE_USER,
    DataSecurityMode.DATA_SECURITY_MODE_DEDICATED,
    DataSecurityMode.LEGACY_SINGLE_USER,
    DataSecurityMode.LEGACY_SINGLE_USER_STANDARD,
)
_SHOWN = 140  # how many characters of a client's value a message repeats
_PATH = re.compile(r"[a-z_]+(?:\.[a-z_0-9]+)*")


class Offered(msgspec.Struct, frozen=True, kw_only=True):
    """What a specification is checked against. `pools` and `users` are the existing ones among those it names, or its policy;
    runtimes and node types are by key."""

    node_types: Mapping[str, NodeType]
    runtimes: Mapping[str, Runtime]
    photon: bool = False
    max_nodes: int = DEFAULT_MAX_NODES
    pools: Mapping[str, Pool] = {}
    governed: Governed | None = None  # the specification under its policy; None: it names none, or one that does not exist
    users: frozenset[str] = frozenset()

    @property
    def policy(self) -> PolicyRow | None:
        """The policy that governs the specification."""
        return self.governed.policy if self.governed is not None else None


class Mistake(NamedTuple):
    """`field` is its path; "" if the mistake is about no single field."""

    field: str
    message: str


class Checked(NamedTuple):
    """A specification with its defaults, and everything that is wrong with it."""

    spec: ClusterSpec
    mistakes: list[Mistake]


def check(request: ClusterSpec, offered: Offered, *, user: str) -> Checked:
    """Goes through `RULES`. `user` becomes the single user if the mode needs one and none is named. Idempotent: checking the
    result changes nothing. What a rule refuses stays as it is for the rules after it."""
    spec, mistakes = request, []
    for field, rule in RULES:
        try:
            spec = rule(spec, offered, user) or spec
        except InvalidParameterValue as error:
            mistakes.append(Mistake(named(error.message, field), error.message))
    return Checked(spec, mistakes)


def named(message: str, otherwise: str = "") -> str:
    """The field with which a message begins."""
    path = _PATH.match(message)
    return path[0] if path is not None and path[0].partition(".")[0] in ClusterSpec.__struct_fields__ else otherwise


def _check_policy_defaults(spec: ClusterSpec) -> None:
    if spec.apply_policy_default_values and not spec.policy_id:
        raise InvalidParameterValue("apply_policy_default_values needs policy_id: without a policy there are no defaults.")


def _check_logs(spec: ClusterSpec) -> None:
    if spec.cluster_log_conf is not None:
        log_destination(spec.cluster_log_conf)


def _check_conf(spec: ClusterSpec, conf: Mapping[str, str]) -> None:
    check_conf(conf, single=is_single_node(spec))
    check_protections(conf, isolates=spec.data_security_mode in ISOLATING_MODES)


def _check_extent(spec: ClusterSpec) -> None:
    if (size := len(msgspec.json.encode(spec))) > MAX_SPEC:
        extents = {name: len(msgspec.json.encode(getattr(spec, name))) for name in spec.__struct_fields__}
        largest = max(extents, key=lambda name: extents[name])
        raise InvalidParameterValue(
            f"The specification has {size} bytes, {extents[largest]} of them in {largest}; at most {MAX_SPEC} are allowed. Put "
            "large things into files."
        )


def _single_user(spec: ClusterSpec, offered: Offered, user: str) -> ClusterSpec:
    """Sets the single user, who must exist, by the name as it is kept. `user` is known to exist."""
    name = spec.single_user_name
    if spec.data_security_mode not in _SINGLE_USER_MODES:
        if name:
            raise InvalidParameterValue("single_user_name can only be used with data_security_mode SINGLE_USER.")
        return msgspec.structs.replace(spec, single_user_name=None)
    kept = next((each for each in (user, *offered.users) if fold_name(each) == fold_name(name or user)), None)
    if kept is None:
        raise InvalidParameterValue(f"single_user_name {(name or '')[:_SHOWN]} is not a user of this workspace.")
    return msgspec.structs.replace(spec, single_user_name=kept)


def named_pools(spec: ClusterSpec) -> set[str]:
    """Ids of the pools that a specification names."""
    return {spec.instance_pool_id or "", spec.driver_instance_pool_id or ""} - {""}


def _pool_defaults(spec: ClusterSpec, pools: Mapping[str, Pool]) -> ClusterSpec:
    """Sets the pool's node type. A client that sends back what `get` returned names both: then they must agree."""
    if not spec.instance_pool_id:
        if spec.driver_instance_pool_id:
            raise InvalidParameterValue(
                "driver_instance_pool_id needs instance_pool_id: if the driver comes from a pool, the workers must too."
            )
        return spec
    driver_pool_id = spec.driver_instance_pool_id or spec.instance_pool_id
    types: dict[str, str] = {}
    for field, own, pool_id in (
        ("node_type_id", spec.node_type_id, spec.instance_pool_id),
        ("driver_node_type_id", spec.driver_node_type_id, driver_pool_id),
    ):
        pool = pools.get(pool_id)
        if pool is None or not pool.active:
            raise InvalidParameterValue(f"Can't find an instance pool with id: {pool_id[:_SHOWN]}.")
        if own and own != pool.spec.node_type_id:
            raise InvalidParameterValue(
                f"{field} is {own[:_SHOWN]}, but the nodes come from instance pool {pool_id} and are {pool.spec.node_type_id}. "
                f"Leave {field} out when a pool is given."
            )
        types[field] = pool.spec.node_type_id
    return msgspec.structs.replace(spec, driver_instance_pool_id=driver_pool_id, **types)


def check_num_workers(num_workers: int, *, single: bool, max_nodes: int) -> None:
    """Raises InvalidParameterValue unless a cluster of that kind may have that many workers."""
    if num_workers < 0:
        raise InvalidParameterValue(f"num_workers is {num_workers}; it must not be negative.")
    if num_workers > max_nodes:
        raise InvalidParameterValue(f"num_workers is {num_workers}; this workspace allows at most {max_nodes} (max_nodes).")
    if num_workers == 0 and not single:
        raise InvalidParameterValue(
            "NumWorkers could be 0 only for SingleNode clusters. Cluster size must be at least 1 worker, or set "
            f"{SINGLE_NODE_PROFILE} to singleNode and spark.master to local[*] in spark_conf."
        )
    if num_workers and single:
        raise InvalidParameterValue(f"num_workers is {num_workers}; a SingleNode cluster has no workers.")


def check_range(scale: AutoScale, *, single: bool, max_nodes: int) -> None:
    """Raises InvalidParameterValue unless a cluster of that kind may have that range of sizes."""
    if single:
        raise InvalidParameterValue("autoscale cannot be used with a SingleNode cluster: it has no workers. Leave autoscale out.")
    check_autoscale(scale, limit=max_nodes)


def _single_node_defaults(spec: ClusterSpec) -> ClusterSpec:
    """Expands `is_single_node` into the equivalent conf, tag and size [databricks-sdk, `create`], whatever size is given beside
    it."""
    for field in ("is_single_node", "use_ml_runtime"):
        if getattr(spec, field) and spec.kind is not Kind.CLASSIC_PREVIEW:
            raise InvalidParameterValue(f"{field} can only be used with kind CLASSIC_PREVIEW.")
    if not spec.is_single_node:
        return spec
    conf = {**(spec.spark_conf or {}), SINGLE_NODE_PROFILE: "singleNode", "spark.master": "local[*]"}
    tags = {**(spec.custom_tags or {}), "ResourceClass": "SingleNode"}
    return msgspec.structs.replace(spec, num_workers=0, autoscale=None, spark_conf=conf, custom_tags=tags)


def _named_engine(spec: ClusterSpec) -> ClusterSpec:
    """NULL is the SDKs' name for none."""
    return spec if spec.runtime_engine is not RuntimeEngine.NULL else msgspec.structs.replace(spec, runtime_engine=None)


def _check_photon(spec: ClusterSpec, runtimes: Mapping[str, Runtime]) -> None:
    key = spec.spark_version or ""
    if photon_key(key) not in runtimes:
        those = [each for each in runtimes if photon_key(each) in runtimes and not is_photon(each)]
        instead = f"Choose spark_version {' or '.join(those)}, or leave" if those else "Leave"
        raise InvalidParameterValue(f"runtime_engine PHOTON is not offered on {key}. {instead} runtime_engine out.")
    if spec.data_security_mode in ISOLATING_MODES:
        asked = "runtime_engine PHOTON" if spec.runtime_engine is not None else f"spark_version {key}"
        raise InvalidParameterValue(
            f"{asked} cannot be used with data_security_mode {spec.data_security_mode}: native code reads files without the "
            "checks that keep users apart. Choose SINGLE_USER or NONE, or the standard engine."
        )


def _check_runtime(spec: ClusterSpec, runtimes: Mapping[str, Runtime], *, standard: bool) -> None:
    """`standard`: a request for Photon gets Spark's own engine."""
    if not spec.spark_version:
        raise InvalidParameterValue("Missing required field: spark_version")
    if is_photon(spec.spark_version) and spec.runtime_engine is not None:
        raise InvalidParameterValue(f"spark_version {spec.spark_version[:_SHOWN]} cannot be used together with runtime_engine.")
    if spec.spark_version not in runtimes:
        raise InvalidParameterValue(f"Invalid spark version {spec.spark_version[:_SHOWN]}. Use one of: {', '.join(runtimes)}.")
    runtime = runtimes[spec.spark_version]
    if runtime.photon or (spec.runtime_engine is RuntimeEngine.PHOTON and not standard):
        _check_photon(spec, runtimes)
    if spec.data_security_mode in ISOLATING_MODES and not runtime.isolates_users:
        raise InvalidParameterValue(
            f"data_security_mode {spec.data_security_mode} needs the Spark Connect of Spark 4, and {runtime.key} has Spark "
            f"{runtime.spark_version}. Choose a spark_version on Spark 4 (17.3.x-scala2.13 or newer), or "
            "SINGLE_USER or NONE."
        )


def _size(spec: ClusterSpec, max_nodes: int) -> ClusterSpec:
    """Sets either the number of workers or the range."""
    single = is_single_node(spec)
    if spec.spark_conf:
        check_window(spec.spark_conf)
    if spec.autoscale is not None and spec.autoscale != AutoScale():
        check_range(spec.autoscale, single=single, max_nodes=max_nodes)
        if spec.num_workers:  # some clients send a zero for an absent value
            raise InvalidParameterValue(
                f"num_workers ({spec.num_workers}) and autoscale are both given: a cluster has a size or a range. Leave one out."
            )
        return msgspec.structs.replace(spec, num_workers=None)
    # Some clients (Go's) cannot send a zero: for a cluster that can have no workers, an absent number means zero.
    num_workers = 0 if spec.num_workers is None and single else spec.num_workers
    if num_workers is None:
        raise InvalidParameterValue("Missing required field: size")
    check_num_workers(num_workers, single=single, max_nodes=max_nodes)
    return msgspec.structs.replace(spec, num_workers=num_workers, autoscale=None)


def _node_types(spec: ClusterSpec, node_types: Mapping[str, NodeType]) -> ClusterSpec:
    """Sets the driver's node type."""
    if not spec.node_type_id and spec.instance_pool_id:
        return spec  # the pool, which sets it, was refused
    if not spec.node_type_id:
        raise InvalidParameterValue("Missing required field 'node_type_id'")
    driver = spec.driver_node_type_id or spec.node_type_id
    for field, value in (("node_type_id", spec.node_type_id), ("driver_node_type_id", driver)):
        if value not in node_types:
            raise InvalidParameterValue(
                f"{field} {value[:_SHOWN]} is not supported here. Choose one of list-node-types; GPU types need a GPU in the "
                "machine."
            )
    for field, alternates, own in (
        ("driver_node_type_flexibility", types_of(spec, Role.DRIVER), node_types[driver]),
        ("worker_node_type_flexibility", types_of(spec, Role.WORKER), node_types[spec.node_type_id]),
    ):
        if alternates[1:] and spec.instance_pool_id:
            raise InvalidParameterValue(f"{field} cannot be used with a pool, which sets the node type. Leave it out.")
        for name in alternates[1:]:
            _check_alternate(f"{field}.alternate_node_type_ids", name, node_types.get(name), own)
    if why := apart(spec, node_types):
        raise InvalidParameterValue(why)
    return msgspec.structs.replace(spec, driver_node_type_id=driver)


def _check_alternate(field: str, name: str, alternate: NodeType | None, own: NodeType) -> None:
    """Checks that an executor, which is sized for the workers' own type, fits on an alternate type. Drivers adapt to theirs."""
    if alternate is None:
        raise InvalidParameterValue(f"{field} has {name[:_SHOWN]!r}, which is not supported here. Choose from list-node-types.")
    if alternate.num_gpus != own.num_gpus:
        raise InvalidParameterValue(
            f"{field} has {name!r} with {alternate.num_gpus} GPUs, and {own.node_type_id} has {own.num_gpus}: they must be equal."
        )
    smaller = alternate.num_cores < own.num_cores or alternate.memory_mb < own.memory_mb
    if smaller and field.startswith("worker"):
        raise InvalidParameterValue(
            f"{field} has {name!r}, which is smaller than {own.node_type_id}: an executor would not fit. Choose types with at"
            f" least {own.num_cores:g} cores and {own.memory_mb} MiB."
        )


def _check_autotermination(spec: ClusterSpec) -> None:
    minutes = spec.autotermination_minutes
    if minutes is not None and minutes != 0 and not 10 <= minutes <= 10_000:
        raise InvalidParameterValue(
            f"autotermination_minutes is {minutes}; it must be between 10 and 10000, or 0 to never terminate."
        )


def _check_name_and_tags(spec: ClusterSpec) -> None:
    if len(spec.cluster_name or "") > MAX_NAME:
        raise InvalidParameterValue(
            f"cluster_name has {len(spec.cluster_name or '')} characters; at most {MAX_NAME} are allowed."
        )
    tags = spec.custom_tags or {}
    if len(tags) > MAX_TAGS:
        raise InvalidParameterValue(f"custom_tags has {len(tags)} tags; at most {MAX_TAGS} are allowed.")
    for key, value in tags.items():
        if not 1 <= len(key) <= MAX_TAG_KEY or len(value) > MAX_TAG_VALUE:
            raise InvalidParameterValue(
                f"custom_tags has a bad tag {key[:_SHOWN]!r}: a key has 1 to {MAX_TAG_KEY} characters, a value at most "
                f"{MAX_TAG_VALUE}."
            )


def _check_clouds(spec: ClusterSpec) -> None:
    """Checks what a cloud would check. Without a spot market all nodes are on demand: any bid and `first_on_demand` is valid."""
    check_zones(spec)
    for name in ("aws_attributes", "azure_attributes", "gcp_attributes"):
        attributes = getattr(spec, name)
        if attributes is not None and (attributes.first_on_demand or 0) < 0:
            raise InvalidParameterValue(f"{name}.first_on_demand is {attributes.first_on_demand}; it must not be negative.")
    percent = (spec.aws_attributes.spot_bid_price_percent or 0) if spec.aws_attributes is not None else 0
    if not 0 <= percent <= MAX_SPOT_BID_PERCENT:
        raise InvalidParameterValue(
            f"aws_attributes.spot_bid_price_percent is {percent}; it must be between 1 and {MAX_SPOT_BID_PERCENT}."
        )
    price = (spec.azure_attributes.spot_bid_max_price or -1) if spec.azure_attributes is not None else -1
    if price != -1 and price <= 0:
        raise InvalidParameterValue(f"azure_attributes.spot_bid_max_price is {price}; it must be above 0, or -1 for no limit.")


def _defaults(spec: ClusterSpec) -> ClusterSpec:
    """Fills in what no rule is about."""
    minutes = spec.autotermination_minutes
    return msgspec.structs.replace(
        spec,
        autotermination_minutes=DEFAULT_AUTOTERMINATION_MINUTES if minutes is None else minutes,
        cluster_name=spec.cluster_name or "",
        enable_elastic_disk=True if spec.enable_elastic_disk is None else spec.enable_elastic_disk,
    )


# (the specification so far, what there is, the user) -> the specification from here on; None: it stays. Raises
# InvalidParameterValue.
Rule = Callable[[ClusterSpec, Offered, str], ClusterSpec | None]

# (the field that a rule is about unless its message says another; "": no single one, the rule), in the order of the refusals.
RULES: tuple[tuple[str, Rule], ...] = (
    ("apply_policy_default_values", lambda spec, _offered, _user: _check_policy_defaults(spec)),
    ("", lambda spec, _offered, _user: _check_extent(spec)),
    ("runtime_engine", lambda spec, _offered, _user: _named_engine(spec)),
    ("is_single_node", lambda spec, _offered, _user: _single_node_defaults(spec)),
    ("", lambda spec, _offered, _user: check_refused(spec)),
    ("spark_version", lambda spec, offered, _user: _check_runtime(spec, offered.runtimes, standard=offered.photon)),
    ("num_workers", lambda spec, offered, _user: _size(spec, offered.max_nodes)),
    ("instance_pool_id", lambda spec, offered, _user: _pool_defaults(spec, offered.pools)),
    ("node_type_id", lambda spec, offered, _user: _node_types(spec, offered.node_types)),
    ("custom_tags", lambda spec, _offered, _user: _check_name_and_tags(spec)),
    ("aws_attributes", lambda spec, _offered, _user: _check_clouds(spec)),
    ("init_scripts", lambda spec, _offered, _user: check_init_scripts(spec.init_scripts) if spec.init_scripts else None),
    ("cluster_log_conf", lambda spec, _offered, _user: _check_logs(spec)),
    ("spark_env_vars", lambda spec, _offered, _user: check_variables(spec.spark_env_vars) if spec.spark_env_vars else None),
    ("spark_conf", lambda spec, _offered, _user: _check_conf(spec, spec.spark_conf) if spec.spark_conf else None),
    ("spark_conf", lambda spec, offered, _user: check_spark_sizes(spec, offered.node_types) if spec.spark_conf else None),
    ("spark_conf", lambda spec, of, _user: check_layers(spec, of.runtimes)),
    ("autotermination_minutes", lambda spec, _offered, _user: _check_autotermination(spec)),
    ("single_user_name", _single_user),
    ("", lambda spec, _offered, _user: _defaults(spec)),
)
