"""Node types from what Slurm's partitions have, and what a job of a type asks for. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from brickyard.domain.nodetypes import NodeType
from brickyard.providers.base import InvalidError
from brickyard.providers.slurm.jobs import Kind, minutes
from brickyard.providers.slurm.section import SlurmSection

UNTOLD_MB = 2048  # per CPU, where Slurm was not told how much memory its machines have


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """A node type, and what makes Slurm give a machine of it."""

    node_type: NodeType
    partition: str
    memory_mb: int | None  # as in `jobs.Ask`
    gres: str
    limit_minutes: int | None


def offers(kinds: Sequence[Kind], section: SlurmSection) -> tuple[Offer, ...]:
    """What machines there are, those of the default partition first, without GPUs first, small ones first. Of machines with
    several GPUs, also the share of one GPU: that is what most users want, and what Slurm can give alone."""
    wanted = section.wanted_partitions
    merged: dict[str, Kind] = {}
    for kind in kinds:
        if not wanted or kind.partition in wanted:
            key = _id(kind)
            known = merged.get(key)
            merged[key] = msgspec.structs.replace(known, count=known.count + kind.count) if known else kind
    found = [Offer(node_type=_type(kind), partition=kind.partition, memory_mb=_memory(kind), gres=_gres(kind.gpus),
                   limit_minutes=kind.limit_minutes) for kind in merged.values()]  # fmt: skip
    for kind in merged.values():
        if kind.gpus[0] > 1 and "+" not in kind.gpus[1]:
            share = _share(kind)
            if _id(share) not in merged:
                memory_mb = share.memory_mb if share.memory_mb > 1 else None
                found.append(Offer(node_type=_type(share, of=kind), partition=kind.partition, memory_mb=memory_mb,
                                   gres=_gres(share.gpus), limit_minutes=kind.limit_minutes))  # fmt: skip
    default = {kind.partition for kind in kinds if kind.default}

    def rank(offer: Offer) -> tuple[object, ...]:
        node = offer.node_type
        return offer.partition not in default, node.num_gpus, node.num_cores, node.memory_mb, node.node_type_id

    ranked = sorted(found, key=rank)
    return tuple(
        msgspec.structs.replace(each, node_type=msgspec.structs.replace(each.node_type, display_order=index))
        for index, each in enumerate(ranked)
    )


def named(section: SlurmSection, kinds: Sequence[Kind]) -> tuple[Offer, ...]:
    """The node types of the settings."""
    found = []
    for node_type in section.named_types():
        options = section.options(node_type.node_type_id)
        gres = options.gres or _gres((node_type.num_gpus, node_type.gpu_model))
        found.append(
            Offer(
                node_type=node_type,
                partition=options.partition,
                memory_mb=node_type.memory_mb if options.memory else None,
                gres=gres,
                limit_minutes=_longest(options.partition, kinds),
            )
        )
    return tuple(found)


def limit(offer: Offer, section: SlurmSection) -> int | None:
    """The job's time limit: the settings', else the longest that the partition allows, since its default may be short."""
    given = minutes(section.options(offer.node_type.node_type_id).time_limit)
    return offer.limit_minutes if given is None else given


def find(node_type_id: str, known: Sequence[Offer]) -> Offer:
    """Raises InvalidError."""
    for each in known:
        if each.node_type.node_type_id == node_type_id:
            return each
    raise InvalidError(f"Slurm has no machines of node type {node_type_id} any more, and the settings do not name it")


def _longest(partition: str, kinds: Sequence[Kind]) -> int | None:
    found = [each.limit_minutes for each in kinds if (each.partition == partition if partition else each.default)]
    return found[0] if found else None


def _id(kind: Kind) -> str:
    count, model = kind.gpus
    gpus = f".{count}{model or 'gpu'}" if count else ""
    return f"slurm.{kind.partition}.{kind.cpus}c{max(1, round(_memory_mb(kind) / 1024))}g{gpus}"


def _memory_mb(kind: Kind) -> int:
    return kind.memory_mb if kind.memory_mb > 1 else UNTOLD_MB * kind.cpus


def _memory(kind: Kind) -> int | None:
    """A whole machine's: all that Slurm hands out of it, which can be less than it has."""
    return 0 if kind.memory_mb > 1 else None


def _gres(gpus: tuple[int, str]) -> str:
    """One model is asked for by name if Slurm knows it; different ones only by number."""
    count, model = gpus
    if not count:
        return ""
    return f"gpu:{model}:{count}" if model and "+" not in model and " " not in model else f"gpu:{count}"


def _share(kind: Kind) -> Kind:
    count, model = kind.gpus
    memory_mb = kind.memory_mb // count if kind.memory_mb > 1 else kind.memory_mb
    gres = f"gpu:{model}:1" if model else "gpu:1"
    return msgspec.structs.replace(kind, cpus=max(1, kind.cpus // count), memory_mb=memory_mb, gres=gres)


def _type(kind: Kind, of: Kind | None = None) -> NodeType:
    count, model = kind.gpus
    memory_mb = _memory_mb(kind)
    size = f"{kind.cpus} CPUs, {memory_mb / 1024:.0f} GiB" + (f", {count} x {model or 'GPU'}" if count else "")
    place = (
        f"a share of a machine in partition {kind.partition}" if of else f"{_machines(kind.count)} in partition {kind.partition}"
    )
    features = f" ({kind.features.replace(',', ', ')})" if kind.features else ""
    return NodeType(
        node_type_id=_id(kind),
        num_cores=float(kind.cpus),
        memory_mb=memory_mb,
        num_gpus=count,
        gpu_model=model,
        category="GPU Accelerated" if count else "General Purpose",
        description=f"{size}: {place}{features}{_for(kind.limit_minutes)}",
    )


def _for(limit_minutes: int) -> str:
    """How long a partition's jobs may take."""
    if limit_minutes <= 0:
        return ""
    hours, minutes = divmod(limit_minutes, 60)
    return f", for at most {f'{minutes} min' if not hours else f'{hours} h' + (f' {minutes} min' if minutes else '')}"


def _machines(count: int) -> str:
    return "one machine" if count == 1 else f"{count} machines"
