"""What Ray says of its machines, and what follows from it: node types, room, and the words for both. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from brickyard.domain.nodetypes import NodeType
from brickyard.providers.base import CapacityError

MODEL = "accelerator_type:"
GIB = 1 << 30
MIN_GIB = 2  # smaller pieces of a machine are not offered: Spark does not start in them
PIECES = (1, 2, 4)  # a whole machine, halves and quarters
_HIDDEN = ("node:", "object_store_memory", MODEL)

Resources = Mapping[str, float]


class Machine(msgspec.Struct, frozen=True, gc=False):
    """One of Ray's machines that is alive."""

    id: str
    host: str
    total: dict[str, float]
    free: dict[str, float]


def offered(machines: Iterable[Machine]) -> tuple[NodeType, ...]:
    """Node types for every size of machine that there is: the whole machine and pieces of it, smallest first. GPUs come in whole
    numbers, each with its share of the machine; a quarter of such a machine without any is for drivers."""
    found: dict[str, NodeType] = {}
    for cores, gib, gpus, model in sorted({_size(each.total) for each in machines}):
        whole = [count for count in (1, 2, 4, 8) if count < gpus] + ([gpus] if gpus else [])
        pieces = [(gpus_of / gpus, gpus_of) for gpus_of in whole] if gpus else [(1 / part, 0) for part in PIECES]
        for share, count in [*pieces, (0.25, 0)]:
            if cores * share >= 1 and int(gib * share) >= MIN_GIB:
                made = _node_type(int(cores * share), int(gib * share), count, model if count else "")
                found[made.node_type_id] = made
    return tuple(sorted(found.values(), key=lambda each: (each.num_gpus, each.num_cores, each.memory_mb)))


def model_of(node_type: NodeType, machines: Iterable[Machine]) -> str:
    """Ray's name of that type's GPU, if its machines tell."""
    name = node_type.gpu_model
    return name if node_type.num_gpus and any(MODEL + name in each.total for each in machines) else ""


def short_of(
    wanted: Sequence[Resources], machines: Iterable[Machine], *, waiting: Sequence[Resources], ending: Sequence[Resources] = ()
) -> CapacityError | None:
    """Why these cannot all be placed now, after those that already wait; None if they can. `ending`: what instances that are
    being ended will leave, each on one machine. A cluster that restarts must not be refused because of itself."""
    there = list(machines)
    free = [dict(each.free) for each in there] + [dict(each) for each in ending]
    for each in waiting:
        _place(each, free)
    for each in wanted:
        if not _place(each, free):
            return _refusal(each, there, free)
    return None


def waits(asked: Resources, machines: Sequence[Machine], *, autoscaler: bool) -> str:
    """What an instance that Ray has not placed waits for."""
    if not asked:
        return "waits for Ray to place it"
    fits = any(_holds(each.total, asked) for each in machines)
    if any(_holds(each.free, asked) for each in machines):
        return f"Ray is starting it ({text(asked)})"
    if autoscaler:
        what = "none of its machines is so large yet" if not fits else "all of its machines that are so large are in use"
        return f"waits for Ray's autoscaler to add a machine with {text(asked)}: {what}"
    what = "none of Ray's machines is so large" if not fits else "all of Ray's machines that are so large are in use"
    return f"waits for {text(asked)} on one machine: {what}"


def text(resources: Resources) -> str:
    """For people: "4 cores, 16 GiB, 1 GPU (A100)"."""
    parts = [f"{resources.get('CPU', 0):g} core{'' if resources.get('CPU') == 1 else 's'}"]
    parts.append(f"{round(resources.get('memory', 0) / GIB, 1):g} GiB")
    if gpus := resources.get("GPU", 0):
        model = next((f" ({key.removeprefix(MODEL)})" for key in resources if key.startswith(MODEL)), "")
        parts.append(f"{gpus:g} GPU{'' if gpus == 1 else 's'}{model}")
    others = {key: value for key, value in resources.items() if key not in ("CPU", "memory", "GPU")}
    parts += [f"{value:g} {key}" for key, value in sorted(others.items()) if not key.startswith(_HIDDEN)]
    return ", ".join(parts)


def _size(total: Resources) -> tuple[int, int, int, str]:
    model = next((key.removeprefix(MODEL) for key in sorted(total) if key.startswith(MODEL)), "")
    return int(total.get("CPU", 0)), int(total.get("memory", 0) / GIB), int(total.get("GPU", 0)), model


def _node_type(cores: int, gib: int, gpus: int, model: str) -> NodeType:
    name = f"ray.{cores}c-{gib}g" + (f"-{gpus}x{model or 'gpu'}" if gpus else "")
    return NodeType(
        node_type_id=name,
        num_cores=float(cores),
        memory_mb=gib * 1024,
        category="GPU Accelerated" if gpus else "General Purpose",
        description=f"{cores} core{'' if cores == 1 else 's'}, {gib} GiB" + (f", {gpus} x {model or 'GPU'}" if gpus else ""),
        num_gpus=gpus,
        gpu_model=model or ("GPU" if gpus else ""),
        display_order=cores + 1000 * gpus,
    )


def _holds(room: Resources, asked: Resources) -> bool:
    return all(room.get(key, 0.0) + 1e-6 >= value for key, value in asked.items() if value)


def _place(asked: Resources, free: list[dict[str, float]]) -> bool:
    """Takes the room on the machine that then has the most cores left, as Ray spreads."""
    fitting = [room for room in free if _holds(room, asked)]
    if not fitting:
        return False
    room = max(fitting, key=lambda each: each.get("CPU", 0.0))
    for key, value in asked.items():
        room[key] = room.get(key, 0.0) - value
    return True


def _refusal(asked: Resources, machines: Sequence[Machine], free: Sequence[Mapping[str, float]]) -> CapacityError:
    left = _best(free)
    if any(_holds(each.total, asked) for each in machines):
        remedy = "Terminate a cluster, or add a machine to Ray (ray start)."
    else:
        remedy = (
            f"The largest of Ray's machines has {text(_best([each.total for each in machines]))}. Choose a smaller node type."
        )
    message = (
        f"Ray has no machine with {text(asked)} free; the most that one of its {len(machines)} has is {text(left)}. {remedy}"
    )
    return CapacityError(message, asked=text(asked), left=text(left))


def _best(rooms: Sequence[Mapping[str, float]]) -> Resources:
    """The roomiest: with the most GPUs, then cores, then memory."""
    largest: Resources = max(rooms, key=lambda each: tuple(each.get(key, 0.0) for key in ("GPU", "CPU", "memory")), default={})
    return {key: max(0.0, value) for key, value in largest.items()}
