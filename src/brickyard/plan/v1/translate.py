"""Translates between the fields of the /v1/clusters dialect and a specification. Pure.

Both dialects change the same specification: what both know is one field. A cluster asks for GPUs, cores and memory here; the
smallest node type on offer with at least these is its node type.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from brickyard.domain.cluster import AutoTerminateLimits, Cluster, is_single_node
from brickyard.domain.nodetypes import NodeType
from brickyard.domain.runtimes import Runtime
from brickyard.domain.snapshots import ClusterConfiguration
from brickyard.domain.spec import ClusterSpec, Kind
from brickyard.domain.strict import Problem
from brickyard.domain.v1.clusters import CreateV1Cluster, DeleteV1Cluster, RestartV1Cluster, StartV1Cluster, StopV1Cluster
from brickyard.plan.v1.autoterminate import idle_minutes, merged
from brickyard.plan.v1.graceful import problems_of_grace
from brickyard.plan.v1.snapshots import problems_of_saving

MOST_GPUS = 8
MOST_WAIT_START, MOST_WAIT_STOP = 30, 60  # minutes
MAX_DESCRIPTION = 1_000
_NAME = re.compile(r"[A-Za-z0-9-]{3,64}")
_SHOWN = 140  # characters of the client's value that a problem repeats
_LISTED = 20  # how many sizes on offer a problem lists
_NO_CONTAINERS = "nodes run on the machine itself, without containers"
_NO_SSH = "nodes have no SSH server; use execution contexts or Spark Connect"

# What a specification's fields are called in requests of this dialect, for the problems of the whole.
_NAMES = {
    "spark_env_vars": "environment_updates",
    "autotermination_minutes": "auto_terminate_updates.idle_minutes",
    "node_type_id": "update_configuration",
    "driver_node_type_id": "update_configuration",
}
_NAMES_OF_CREATE = {
    "cluster_name": "name",
    "spark_env_vars": "environment_variables",
    "custom_tags": "tags",
    "autotermination_minutes": "auto_terminate.idle_minutes",
    "node_type_id": "cpu_cores",
}


class Size(NamedTuple):
    """The least that a node must have."""

    gpus: int = 0
    cores: float = 0
    memory_gb: float = 0
    gpu_type: str = ""


class Translated(NamedTuple):
    """A specification as it would be sent in the other dialect, and what is wrong with the request."""

    spec: ClusterSpec
    problems: list[Problem]


def created(request: CreateV1Cluster, node_types: Mapping[str, NodeType], runtimes: Iterable[Runtime]) -> Translated:
    """The specification of a new cluster: one node, with the default runtime."""
    problems = _refused_of_create(request)
    if not _NAME.fullmatch(request.name):
        problems.append(
            Problem(field="name", reason="it must have 3 to 64 letters, digits and hyphens", requested=request.name[:_SHOWN])
        )
    if len(request.description or "") > MAX_DESCRIPTION:
        problems.append(Problem(field="description", reason=f"it must have at most {MAX_DESCRIPTION} characters"))
    if request.idempotency_key and request.auto_start is False:
        reason = "it finds clusters that run or are to run; leave it out with auto_start false"
        problems.append(Problem(field="Idempotency-Key", reason=reason))
    gpus = request.gpu_count or 0
    if gpus and not request.gpu_type:
        problems.append(Problem(field="gpu_type", reason="it is needed if gpu_count is above 0"))
    size = Size(gpus, request.cpu_cores or 0, request.memory_gb or 0, request.gpu_type or "")
    found = _chosen("", size, node_types, problems)
    others = merged(request.auto_terminate, AutoTerminateLimits(), by="").any
    minutes = idle_minutes("auto_terminate", request.auto_terminate, None, others=others, problems=problems)
    spec = ClusterSpec(
        cluster_name=request.name,
        spark_version=_default_runtime(runtimes),
        kind=Kind.CLASSIC_PREVIEW,
        is_single_node=True,
        node_type_id=found.node_type_id if found is not None else None,
        spark_env_vars=request.environment_variables or None,
        custom_tags=request.tags or None,
        autotermination_minutes=minutes,
    )
    return Translated(spec, problems)


def updated(cluster: Cluster, request: StartV1Cluster, node_types: Mapping[str, NodeType]) -> Translated:
    """The cluster's specification with the changes of a start or restart. Base is the one that was sent for the cluster."""
    problems = _refused_of_start(request)
    if isinstance(request, RestartV1Cluster):
        problems += problems_of_grace(request) + problems_of_saving(request)
    if request.timeout_minutes is not None:
        _check_wait(
            request.timeout_minutes, MOST_WAIT_START, waits="wait_for_ready" if not request.wait_for_ready else "", to=problems
        )
    changes: dict[str, Any] = _resized(cluster, request, node_types, problems)
    if request.environment_updates:
        variables = {**(cluster.request.spark_env_vars or {}), **request.environment_updates}
        changes["spark_env_vars"] = {name: value for name, value in variables.items() if value is not None} or None
    if request.auto_terminate_updates is not None:
        asked, before = request.auto_terminate_updates, cluster.spec.autotermination_minutes
        others = merged(asked, cluster.workbench.auto_terminate, by="").any
        changes["autotermination_minutes"] = idle_minutes(
            "auto_terminate_updates", asked, before, others=others, problems=problems
        )
    return Translated(msgspec.structs.replace(cluster.request, **changes), problems)


def renamed(field: str, *, creating: bool) -> str:
    """What a field of a specification is called here."""
    first, dot, rest = field.partition(".")
    return (_NAMES_OF_CREATE if creating else _NAMES).get(first, first) + dot + rest


def reworded(message: str, *, creating: bool) -> str:
    """A message about a specification, in the words of this dialect."""
    names = _NAMES_OF_CREATE if creating else _NAMES
    return re.sub(r"^[a-z_]+", lambda first: names.get(first[0], first[0]), message)


def problems_of_stop(request: StopV1Cluster) -> list[Problem]:
    """What cannot be honoured of a stop."""
    found: list[Problem] = []
    found += problems_of_grace(request)
    found += problems_of_saving(request)
    if request.timeout_minutes is not None:
        waits = "" if request.wait_for_completion else "wait_for_completion"
        _check_wait(request.timeout_minutes, MOST_WAIT_STOP, waits=waits, to=found)
    return found


def wanted_types(cluster: Cluster, spec: ClusterSpec, node_types: Mapping[str, NodeType]) -> list[NodeType]:
    """The types of the nodes that a cluster would need with this specification, at its smallest. Of pools: none, since the pool
    may have them. A type that is not on offer is left out."""
    if spec.instance_pool_id:
        return []
    single = is_single_node(spec) or is_single_node(cluster.spec)
    fewest = 0 if single else (cluster.spec.autoscale.min_workers or 0) if cluster.spec.autoscale else cluster.num_workers
    worker = spec.node_type_id or cluster.spec.node_type_id or ""
    names = [spec.driver_node_type_id or worker, *[worker] * fewest]
    return [node_types[name] for name in names if name in node_types]


def problems_of_delete(request: DeleteV1Cluster) -> list[Problem]:
    """What cannot be honoured of a deletion."""
    found: list[Problem] = []
    if request.confirm_deletion != "DELETE":
        found.append(
            Problem(
                field="confirm_deletion",
                reason='it must be "DELETE"',
                requested=request.confirm_deletion[:_SHOWN],
                available="DELETE",
            )
        )
    return found + problems_of_saving(request)


def configuration(cluster: Cluster, node_types: Mapping[str, NodeType]) -> ClusterConfiguration:
    """The size of the cluster's nodes. A type that is no longer on offer has unknown sizes: 0."""
    spec = cluster.spec
    size = node_types.get(spec.node_type_id or "")
    return ClusterConfiguration(
        gpu_type=size.gpu_model if size is not None else "",
        gpu_count=size.num_gpus if size is not None else 0,
        cpu_cores=size.num_cores if size is not None else 0,
        memory_gb=size.memory_mb / 1024 if size is not None else 0,
        node_type_id=spec.node_type_id or "",
        num_workers=cluster.num_workers,
        runtime=spec.spark_version or "",
        storage_gb=cluster.workbench.storage_gb or None,
    )


class _Sorted:
    """Node types from the smallest one on. They are sorted once: a catalogue is the same object until it changes."""

    def __init__(self) -> None:
        self._known: tuple[Mapping[str, NodeType], Sequence[NodeType]] = ({}, ())

    def __call__(self, node_types: Mapping[str, NodeType]) -> Sequence[NodeType]:
        of, found = self._known
        if of is not node_types:
            found = sorted(node_types.values(), key=_order)
            self._known = (node_types, found)
        return found


_in_order = _Sorted()


def smallest(size: Size, node_types: Mapping[str, NodeType]) -> NodeType | None:
    """The smallest type with at least this: fewest GPUs, then cores, then memory."""
    fitting = (
        each
        for each in _in_order(node_types)
        if each.num_gpus >= size.gpus
        and each.num_cores >= size.cores
        and each.memory_mb >= size.memory_gb * 1024
        and not each.is_deprecated
        and same_model(size.gpu_type, each.gpu_model)
    )
    return next(fitting, None)


def _order(each: NodeType) -> tuple[Any, ...]:
    return each.num_gpus, each.num_cores, each.memory_mb, each.price_per_hour, each.display_order, each.node_type_id


def same_model(asked: str, model: str) -> bool:
    """Whether a GPU is of the type that somebody asks for: "nvidia-a100" is part of "NVIDIA A100-SXM4-40GB"."""
    return not asked or _plain(asked) in _plain(model)


@functools.lru_cache(512)
def _plain(model: str) -> str:
    return re.sub(r"[^a-z0-9]", "", model.lower())


def _default_runtime(runtimes: Iterable[Runtime]) -> str:
    """The newest with long-term support that isolates users; else the newest."""
    known = list(runtimes)
    return next((each.key for each in reversed(known) if each.lts and each.isolates_users), known[-1].key if known else "")


def _chosen(prefix: str, size: Size, node_types: Mapping[str, NodeType], problems: list[Problem]) -> NodeType | None:
    """The node type for a size. `prefix`: of the fields that problems name."""
    before = len(problems)
    if not 0 <= size.gpus <= MOST_GPUS:
        problems.append(Problem(field=f"{prefix}gpu_count", reason=f"it must be between 0 and {MOST_GPUS}", requested=size.gpus))
    if size.cores < 0:
        problems.append(Problem(field=f"{prefix}cpu_cores", reason="it must be above 0", requested=size.cores))
    if size.memory_gb < 0:
        problems.append(Problem(field=f"{prefix}memory_gb", reason="it must be above 0", requested=size.memory_gb))
    if len(problems) > before:
        return None
    if (found := smallest(size, node_types)) is None:
        requested = {
            "gpu_type": size.gpu_type[:_SHOWN],
            "gpu_count": size.gpus,
            "cpu_cores": size.cores,
            "memory_gb": size.memory_gb,
        }
        available = [_sizes(each) for each in _in_order(node_types)[-_LISTED:] if not each.is_deprecated]
        field, reason = shortage(size, node_types)
        problems.append(Problem(field=prefix + field, reason=reason, requested=requested, available=available))
    return found


def shortage(size: Size, node_types: Mapping[str, NodeType]) -> tuple[str, str]:
    """The field of a size that no node type meets, and what is wrong with it."""
    alone = {
        "gpu_type": Size(gpu_type=size.gpu_type),
        "gpu_count": Size(gpus=size.gpus, gpu_type=size.gpu_type),
        "cpu_cores": Size(cores=size.cores),
        "memory_gb": Size(memory_gb=size.memory_gb),
    }
    for field, least in alone.items():
        if smallest(least, node_types) is None:
            return field, _none_has(field, size, node_types)
    return "gpu_count" if size.gpus else "cpu_cores", "no node type on offer has all of that together"


def _none_has(field: str, size: Size, node_types: Mapping[str, NodeType]) -> str:
    """Why no type meets one field of a size."""
    if field == "gpu_type":
        return "no node type on offer has that type of GPU"
    gpu_type = size.gpu_type if field == "gpu_count" else ""
    offered = [
        _sizes(each)[field] for each in node_types.values() if not each.is_deprecated and same_model(gpu_type, each.gpu_model)
    ]
    return f"no node type on offer has that much; the most is {max(offered, default=0):g}"


def _sizes(each: NodeType) -> dict[str, Any]:
    return {
        "node_type_id": each.node_type_id,
        "gpu_type": each.gpu_model,
        "gpu_count": each.num_gpus,
        "cpu_cores": each.num_cores,
        "memory_gb": each.memory_mb / 1024,
    }


def _resized(
    cluster: Cluster, request: StartV1Cluster, node_types: Mapping[str, NodeType], problems: list[Problem]
) -> dict[str, Any]:
    """The changes of the node type."""
    update = request.update_configuration
    if update is None or (update.gpu_count is None and update.cpu_cores is None and update.memory_gb is None):
        return {}
    if cluster.spec.instance_pool_id:
        reason = f"the nodes come from instance pool {cluster.spec.instance_pool_id}, which sets their size"
        problems.append(Problem(field="update_configuration", reason=reason))
        return {}
    now = node_types.get(cluster.spec.node_type_id or "")
    gpus = now.num_gpus if update.gpu_count is None and now is not None else update.gpu_count or 0
    size = Size(
        gpus,
        update.cpu_cores if update.cpu_cores is not None else now.num_cores if now is not None else 0,
        update.memory_gb if update.memory_gb is not None else now.memory_mb / 1024 if now is not None else 0,
        now.gpu_model if now is not None and gpus else "",
    )
    for field in ("cpu_cores", "memory_gb"):
        if getattr(update, field) == 0:
            problems.append(Problem(field=f"update_configuration.{field}", reason="it must be above 0", requested=0))
            return {}
    found = _chosen("update_configuration.", size, node_types, problems)
    if found is None:
        return {}
    follows = cluster.spec.driver_node_type_id in (None, cluster.spec.node_type_id)  # both had one size: they keep that
    return {"node_type_id": found.node_type_id, **({"driver_node_type_id": None} if follows else {})}


def _check_wait(minutes: int, most: int, *, waits: str, to: list[Problem]) -> None:
    """`waits`: the field without which there is no wait, if it is not set."""
    if not 1 <= minutes <= most:
        to.append(Problem(field="timeout_minutes", reason=f"it must be between 1 and {most}", requested=minutes))
    if waits:
        to.append(Problem(field="timeout_minutes", reason=f"it has an effect only with {waits}; leave it out, or set that"))


def _refused_of_create(request: CreateV1Cluster) -> list[Problem]:
    found: list[Problem] = []
    _refuse(found, "region", request.region, "all machines are in one place; leave it out")
    _refuse(found, "project_id", request.project_id, "there are no projects; use tags")
    _refuse(found, "template_id", request.template_id, "there are no templates; use cluster policies")
    _refuse(found, "docker_image", request.docker_image, _NO_CONTAINERS)
    _refuse(found, "ssh_enabled", request.ssh_enabled, _NO_SSH)
    _refuse(found, "ssh_public_keys", request.ssh_public_keys, _NO_SSH)
    for field in ("cpu_cores", "memory_gb"):
        if getattr(request, field) == 0:
            found.append(Problem(field=field, reason="it must be above 0; leave it out for the smallest", requested=0))
    return found


def _refused_of_start(request: StartV1Cluster) -> list[Problem]:
    found: list[Problem] = []
    update = request.update_configuration
    if update is not None:
        _refuse(found, "update_configuration.docker_image", update.docker_image, _NO_CONTAINERS)
    return found


def _refuse(found: list[Problem], field: str, value: Any, why: str) -> None:
    """Refuses a field that is set: absent, false and empty mean the same. Only short values are repeated."""
    if value:
        shown = value[:_SHOWN] if isinstance(value, str) else value if isinstance(value, int | float) else None
        found.append(Problem(field=field, reason=f"it is not supported here: {why}", requested=shown))
