"""Samples as agents send them while nobody looks: in the form in which servers store them, and need not take apart.

Numbers are little-endian, as in the stored form (`domain.samples`).
"""

from __future__ import annotations

import itertools
import math
from array import array
from collections.abc import Iterable, Mapping
from functools import lru_cache

import msgspec

from brickyard.domain.samples import METRICS, NodeAbout, NodeSamples, PackedColumns, Point, Sample, as_array, as_bytes

TIME, NUMBER = 8, 4  # bytes
MOST_NAMES = 2_000  # characters


class PackedSamples(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """As NodeSamples, with columns for samples. `times`: epoch ms, int64. `names`: metrics, separated by commas. `numbers`: for
    each metric its value in each sample, float32; NaN where a sample lacks it."""

    cluster_id: str
    about: NodeAbout = NodeAbout()
    times: bytes = b""
    names: str = ""
    numbers: bytes = b""
    earlier: int = 0

    @property
    def count(self) -> int:
        return len(self.times) // TIME

    @property
    def first_ms(self) -> int:
        return int.from_bytes(self.times[:TIME], "little", signed=True)

    @property
    def last_ms(self) -> int:
        return int.from_bytes(self.times[-TIME:], "little", signed=True)


def packed(given: NodeSamples) -> PackedSamples:
    rows = [sample.values for sample in given.samples]
    found = set().union(*rows)
    names = [name for name in METRICS if name in found]
    return PackedSamples(
        cluster_id=given.cluster_id,
        about=given.about,
        times=as_bytes(array("q", [sample.at_ms for sample in given.samples])),
        names=",".join(names),
        numbers=numbers(row.get(name, math.nan) for name in names for row in rows),
        earlier=given.earlier,
    )


def numbers(values: Iterable[float]) -> bytes:
    return as_bytes(array("f", values))


def samples_of(given: PackedSamples) -> list[Sample]:
    """One by one."""
    times, values, names = as_array("q", given.times), as_array("f", given.numbers), names_of(given.names)
    count = len(times)
    rows = [{name: values[column * count + row] for column, name in enumerate(names)} for row in range(count)]
    return [
        Sample(at, {name: value for name, value in row.items() if not math.isnan(value)})
        for at, row in zip(times, rows, strict=True)
    ]


def sound(given: PackedSamples, *, after_ms: int, before_ms: int, most: int) -> PackedSamples | None:
    """The samples of times between these, the newest `most`, in order, with the metrics that are known and finite values: nearly
    always all, as they are. None if there are none, or it does not fit together."""
    if not given.times or len(given.times) % TIME or len(given.names) > MOST_NAMES:
        return None
    names = names_of(given.names)
    if len(given.numbers) != given.count * len(names) * NUMBER:
        return None
    given = last_of(given, most)
    times = as_array("q", given.times)
    ordered = after_ms < times[0] and times[-1] <= before_ms and _rises(times)
    if ordered and METRICS.keys() >= set(names) and math.isfinite(sum(as_array("f", given.numbers))):
        return given
    kept: dict[int, Sample] = {}
    for sample in samples_of(given):
        if after_ms < sample.at_ms <= before_ms:
            good = {name: value for name, value in sample.values.items() if name in METRICS and math.isfinite(value)}
            kept.setdefault(sample.at_ms, Sample(sample.at_ms, good))
    if not kept:
        return None
    left = tuple(kept[at] for at in sorted(kept))
    return packed(NodeSamples(cluster_id=given.cluster_id, about=given.about, samples=left))


def last_of(given: PackedSamples, most: int) -> PackedSamples:
    """Its last samples alone."""
    if given.count <= most:
        return given
    width, left = given.count * NUMBER, most * NUMBER
    last = b"".join([given.numbers[end - left : end] for end in range(width, len(given.numbers) + 1, width)])
    return msgspec.structs.replace(given, times=given.times[-most * TIME :], numbers=last)


def stored(given: PackedSamples) -> PackedColumns:
    """As it is stored."""
    count = given.count
    width = count * NUMBER
    values = {name: given.numbers[at * width : (at + 1) * width] for at, name in enumerate(names_of(given.names))}
    return PackedColumns(given.about, given.times, _ones(count), values)


def points_of(given: Iterable[PackedSamples]) -> Mapping[int, Point]:
    """Of one node, by time."""
    return {sample.at_ms: Point(1, sample.values) for each in given for sample in samples_of(each)}


@lru_cache(maxsize=256)
def names_of(names: str) -> tuple[str, ...]:
    return tuple(names.split(",")) if names else ()


@lru_cache(maxsize=256)
def _ones(count: int) -> bytes:
    return numbers([1.0] * count)


def _rises(times: array[int]) -> bool:
    return all(before < after for before, after in itertools.pairwise(times))
