"""Samples of what nodes use: what agents send, and the compact form in which servers store them."""

from __future__ import annotations

import math
import sys
import zlib
from array import array
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

SAMPLE_S = 5.0  # between two samples of a node

# Every metric. Rates are averages over the time since the sample before. What a node cannot measure is absent, never 0.
METRICS: Mapping[str, str] = {
    "cpu_cores": "processor cores that the node's processes kept busy",
    "memory_bytes": "memory of the node's processes, without file caches",
    "disk_bytes": "size of the node's files; for a driver, with what its cluster's directory has grown by",
    "disk_read_bytes_per_s": "bytes that the node's processes read from disks",
    "disk_write_bytes_per_s": "bytes that the node's processes wrote to disks",
    "network_in_bytes_per_s": "bytes received from the cluster's other nodes; absent where nodes share the machine's network",
    "network_out_bytes_per_s": "bytes sent to the cluster's other nodes; likewise",
    "gc_fraction": "driver: share of the time that the JVM spent on garbage collection",
    "heap_bytes": "driver: used heap of the JVM",
    "executor_gc_fraction": "driver: garbage collection of all executors, in seconds per second, as finished tasks report it",
    "executors": "driver: workers with an executor",
    "tasks_active": "driver: running tasks of the cluster",
    "tasks_waiting": "driver: tasks that wait for a slot",
    "tasks_done_per_s": "driver: tasks that executors finished",
    "gpu_fraction": "share of the time that the node's GPUs were busy, averaged over them",
    "gpu_memory_bytes": "used memory of the node's GPUs",
    "gpu_temperature_c": "temperature of the hottest of the node's GPUs, in degrees Celsius",
    "gpu_power_w": "power that the node's GPUs draw, in watts",
}


class NodeAbout(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What samples refer to. `simulated`: the numbers are made up, by the simulated provider."""

    role: str = ""
    node_type_id: str = ""
    cores: int = 0
    memory_mb: int = 0
    simulated: bool = False


class Sample(msgspec.Struct, frozen=True):
    """One measurement: values of METRICS by name, at a time of the agent's clock."""

    at_ms: int
    values: dict[str, float]


class NodeSamples(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An agent's samples of one cluster's node, oldest first. `earlier`: how many older ones the agent still has,
    which a server has taken already."""

    cluster_id: str
    about: NodeAbout = NodeAbout()
    samples: tuple[Sample, ...] = ()
    earlier: int = 0


class Point(NamedTuple):
    """The mean of `weight` samples."""

    weight: float
    values: Mapping[str, float]


class Columns(NamedTuple):
    """A node's points in order of time, as columns of equal length. A value that is absent is NaN."""

    about: NodeAbout
    times: array[int]
    counts: array[float]
    values: Mapping[str, array[float]]

    def points(self) -> dict[int, Point]:
        """The same by time."""
        found = {}
        for index, at in enumerate(self.times):
            values = {name: column[index] for name, column in self.values.items() if not math.isnan(column[index])}
            found[at] = Point(self.counts[index], values)
        return found


class PackedColumns(msgspec.Struct, array_like=True):
    """The same as they are stored: int64 and float32, little-endian."""

    about: NodeAbout
    times: bytes
    counts: bytes
    values: dict[str, bytes]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(dict[str, PackedColumns]).decode


def columns(about: NodeAbout, points: Mapping[int, Point]) -> Columns:
    """Points by time as columns."""
    times = sorted(points)
    rows = [points[at].values for at in times]
    names = sorted(set().union(*rows))
    return Columns(
        about,
        array("q", times),
        array("f", [points[at].weight for at in times]),
        {name: array("f", [row.get(name, math.nan) for row in rows]) for name in names},
    )


def pack(nodes: Mapping[str, Columns | PackedColumns]) -> bytes:
    """The stored form of nodes' points, by instance id."""
    packed = {name: _packed(each) if isinstance(each, Columns) else each for name, each in nodes.items()}
    return zlib.compress(_encode(packed), 1)


def _packed(each: Columns) -> PackedColumns:
    values = {key: as_bytes(column) for key, column in each.values.items()}
    return PackedColumns(each.about, as_bytes(each.times), as_bytes(each.counts), values)


def unpack(stored: bytes, *, metrics: Iterable[str] = METRICS, instance_id: str = "") -> dict[str, Columns]:
    """The reverse of `pack`, for these metrics and one instance, or all."""
    wanted = frozenset(metrics)
    return {
        name: Columns(
            each.about,
            as_array("q", each.times),
            as_array("f", each.counts),
            {key: as_array("f", column) for key, column in each.values.items() if key in wanted},
        )
        for name, each in _decode(zlib.decompress(stored)).items()
        if instance_id in ("", name)
    }


def as_bytes(values: array[int] | array[float]) -> bytes:
    """Little-endian on every machine."""
    if sys.byteorder == "big":
        values = values[:]
        values.byteswap()
    return values.tobytes()


def as_array(kind: str, stored: bytes) -> array:  # type: ignore[type-arg] # of the kind that is asked for
    found = array(kind, stored)
    if sys.byteorder == "big":
        found.byteswap()
    return found
