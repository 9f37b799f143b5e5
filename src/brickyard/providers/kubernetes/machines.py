"""The machines of the Kubernetes cluster: which node types they make, and what is free on them. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from brickyard.domain.nodetypes import NodeType
from brickyard.providers.base import CapacityError
from brickyard.providers.capacity import Hardware
from brickyard.providers.kubernetes.objects import Machine, Pod, Resources, Taint
from brickyard.providers.kubernetes.pods import INSTANCE, OF_MACHINES, PRODUCT
from brickyard.providers.kubernetes.section import GPU, Template
from brickyard.providers.kubernetes.telling import ENDED

KIND = "node.kubernetes.io/instance-type"
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
_HARD = ("NoSchedule", "NoExecute")
_SUFFIX = {
    "n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50, "Ei": 2.0**60,
}  # fmt: skip
_SMALL = (("small", 1, 2), ("medium", 2, 4), ("large", 4, 16))  # cores, GiB


class Snapshot(msgspec.Struct, frozen=True):
    """The machines and what runs on them, at one moment. `pods` is None where we may not list those of all namespaces."""

    machines: tuple[Machine, ...]
    pods: tuple[Pod, ...] | None


def quantity(text: str) -> float:
    """A number as Kubernetes writes it: "3920m", "15Gi", "1e3". 0 if it is none."""
    match = re.fullmatch(r"\s*([+-]?[0-9.]+(?:[eE][+-]?\d+)?)([numkMGTPE]|[KMGTPE]i)?\s*", text)
    try:
        return float(match[1]) * _SUFFIX[match[2] or ""] if match else 0.0
    except ValueError:
        return 0.0


def amount(of: Mapping[str, str] | None) -> Hardware:
    given = of or {}
    memory = quantity(given.get("memory", "0")) / 2**20
    return Hardware(quantity(given.get("cpu", "0")), int(memory), int(quantity(given.get(GPU, "0"))))


def requests(pod: Pod) -> Hardware:
    """What the scheduler counts for a pod: its containers and sidecars, or its largest init container, and the overhead."""

    def asked(resources: Resources | None) -> Hardware:
        return amount(resources.requests if resources is not None else None)

    first = pod.spec.init_containers or ()
    lasting = (*(pod.spec.containers or ()), *(each for each in first if each.restart_policy == "Always"))
    total = _sum([asked(each.resources) for each in lasting])
    for each in first:
        one = asked(each.resources)
        total = Hardware(max(total.cores, one.cores), max(total.memory_mb, one.memory_mb), max(total.gpus, one.gpus))
    return _sum([total, amount(pod.spec.overhead)])


def _sum(parts: Iterable[Hardware]) -> Hardware:
    cores, memory_mb, gpus = 0.0, 0, 0
    for each in parts:
        cores, memory_mb, gpus = cores + each.cores, memory_mb + each.memory_mb, gpus + each.gpus
    return Hardware(cores, memory_mb, gpus)


def node_types(snapshot: Snapshot | None) -> Sequence[NodeType]:
    """Three small ones, and one for each kind of machine: all of it that is left beside its DaemonSets."""
    small = [_small(name, cores, gib, index) for index, (name, cores, gib) in enumerate(_SMALL)]
    found: dict[str, NodeType] = {}
    for machine in snapshot.machines if snapshot is not None else ():
        if (made := _whole(machine, snapshot)) is not None:
            known = found.get(made.node_type_id, made)
            smallest = {"num_cores": min(known.num_cores, made.num_cores), "memory_mb": min(known.memory_mb, made.memory_mb)}
            found[made.node_type_id] = msgspec.structs.replace(known, **smallest)
    whole = sorted(found.values(), key=lambda each: (each.num_gpus, each.num_cores, each.memory_mb, each.node_type_id))
    return (*small, *(msgspec.structs.replace(each, description=_described(each)) for each in whole))


def _small(name: str, cores: int, gib: int, index: int) -> NodeType:
    return NodeType(
        node_type_id=OF_MACHINES + name, num_cores=float(cores), memory_mb=gib * 1024, category="General Purpose",
        description=f"{cores} core{'s' if cores > 1 else ''}, {gib} GiB", display_order=index,
    )  # fmt: skip


def _whole(machine: Machine, snapshot: Snapshot | None) -> NodeType | None:
    total = amount(machine.status.allocatable)
    pods = snapshot.pods if snapshot is not None else None
    if pods is None:
        left = Hardware(total.cores * 0.95, int(total.memory_mb * 0.95), total.gpus)  # for the DaemonSets that we cannot see
    else:
        left = total.without(requests(pod) for pod in pods if pod.spec.node_name == machine.metadata.name and _stays(pod))
    cores, memory_mb = int(left.cores * 2) / 2, left.memory_mb // 256 * 256
    if cores < 1 or memory_mb < 1024 or machine.spec.unschedulable:
        return None
    labels = machine.metadata.labels or {}
    model = labels.get(PRODUCT, "") if total.gpus else ""
    kind = labels.get(KIND) or f"{total.cores:.3g}c-{total.memory_mb / 1024:.0f}g"
    gpus = f"-{total.gpus}x{model or 'gpu'}" if total.gpus and KIND not in labels else ""
    return NodeType(
        node_type_id=f"{OF_MACHINES}{kind}{gpus}", num_cores=cores, memory_mb=memory_mb, num_gpus=total.gpus, gpu_model=model,
        category="GPU Accelerated" if total.gpus else "General Purpose", display_order=len(_SMALL),
    )  # fmt: skip


def _described(kind: NodeType) -> str:
    text = f"A machine of the Kubernetes cluster: {kind.num_cores:g} cores, {kind.memory_mb / 1024:g} GiB"
    return text + (f", {kind.num_gpus} x {kind.gpu_model or 'GPU'}" if kind.num_gpus else "")


def _stays(pod: Pod) -> bool:
    """Whether it is part of its machine: of a DaemonSet, or a static pod."""
    return any(each.kind in ("DaemonSet", "Node") for each in pod.metadata.owner_references or ())


class Room:
    """What is free on each machine. Changed by `take`."""

    def __init__(self, snapshot: Snapshot, *, freed: Collection[str] = ()) -> None:
        used: dict[str, list[Hardware]] = {}
        waiting: list[Hardware] = []
        for pod in snapshot.pods or ():
            # One that is ending makes room: a cluster that restarts must not be refused because of itself.
            ending = pod.status.phase in ENDED or pod.metadata.deletion_timestamp
            instance_id = (pod.metadata.labels or {}).get(INSTANCE)
            if ending or instance_id in freed:
                continue
            if pod.spec.node_name:
                used.setdefault(pod.spec.node_name, []).append(requests(pod))
            elif instance_id:
                waiting.append(requests(pod))
        able = (each for each in snapshot.machines if not each.spec.unschedulable)
        self._machines = [each for each in able if each.status.ready.status not in ("False", "Unknown")]
        self.total = {each.metadata.name: amount(each.status.allocatable) for each in self._machines}
        self.left = {name: _without(total, used.get(name, ())) for name, total in self.total.items()}
        for need in waiting:
            self._fill(need, self.left)

    def take(self, kind: NodeType, templates: Sequence[Template]) -> None:
        """Raises CapacityError if no machine has room for a node of this type."""
        need = Hardware(kind.num_cores, kind.memory_mb, kind.num_gpus)
        able = [each.metadata.name for each in self._machines if _may_run(each, kind, templates)]
        if self._fill(need, able):
            return
        most = max((self.left[name] for name in able), key=lambda each: (each.gpus, each.cores), default=Hardware(0.0, 0))
        if not any(self.total[name].holds(need) for name in able):
            why = "no machine of the Kubernetes cluster that may run it is large enough. Choose a smaller node type, or add one."
        else:
            why = "no machine of the Kubernetes cluster has that free. End a cluster, choose a smaller node type, or add one."
        if not need.gpus:
            most = Hardware(most.cores, most.memory_mb)
        raise CapacityError(
            f"{kind.node_type_id} needs {need.text}; {why} The most that one has left: {most.text}.",
            asked=need.text,
            left=most.text,
        )

    def _fill(self, need: Hardware, able: Iterable[str]) -> bool:
        """Takes the room on the first machine that has it."""
        for name in able:
            if self.left[name].holds(need):
                self.left[name] = _without(self.left[name], [need])
                return True
        return False


def _without(total: Hardware, used: Iterable[Hardware]) -> Hardware:
    """What is left, in whole thousandths of a core, as Kubernetes counts."""
    left = total.without(used)
    return Hardware(round(left.cores, 3), left.memory_mb, left.gpus)


def _may_run(machine: Machine, kind: NodeType, templates: Sequence[Template]) -> bool:
    """As far as we look: selectors, taints and the GPU's model. What affinity says is the scheduler's to know."""
    labels = machine.metadata.labels or {}
    wanted = {key: value for each in templates for key, value in each.spec.node_selector.items()}
    if kind.node_type_id.startswith(OF_MACHINES) and kind.gpu_model:  # elsewhere the model is a name for people
        wanted[PRODUCT] = kind.gpu_model
    tolerations = [one for each in templates for one in each.spec.tolerations]
    if kind.num_gpus:  # the admission plugin ExtendedResourceToleration, or the template, adds the usual one
        tolerations.append({"key": GPU, "operator": "Exists"})
    hard = [taint for taint in machine.spec.taints or () if taint.effect in _HARD]
    fits = all(labels.get(key) == value for key, value in wanted.items())
    return fits and all(any(_tolerates(one, taint) for one in tolerations) for taint in hard)


def _tolerates(toleration: Mapping[str, Any], taint: Taint) -> bool:
    if toleration.get("effect") not in (None, "", taint.effect):
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return toleration.get("key") in (None, "", taint.key)
    return toleration.get("key") == taint.key and (toleration.get("value") or "") == (taint.value or "")
