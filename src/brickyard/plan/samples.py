"""How samples become coarser as they age, and the answer to a range query. Pure.

A sample is in one tier at a time. It is written in a small row with whatever arrived in the same moment (tier 0), moves into a
window with the others of its ten minutes, and later into windows of means: of a minute, a quarter of an hour, an hour.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice, pairwise
from operator import lt, mul
from typing import NamedTuple

from brickyard.domain.samples import Columns, NodeAbout, Point, columns

SECOND, MINUTE = 1_000, 60_000
HOUR, DAY = 60 * MINUTE, 24 * 60 * MINUTE
KEPT_MS = 30 * DAY
POINTS = 240  # of an answer, if the caller names no step
MAX_VALUES = 200_000  # of an answer: nodes x metrics x points
MIN_STEP_MS = 5 * SECOND


class Tier(NamedTuple):
    """Rows cover `window_ms` (0: any) with a point for each `step_ms` (0: each sample), and move on `kept_ms` after their end."""

    window_ms: int
    step_ms: int
    kept_ms: int


TIERS = (
    Tier(0, 0, MINUTE),
    Tier(10 * MINUTE, 0, HOUR),
    Tier(6 * HOUR, MINUTE, DAY),
    Tier(2 * DAY, 15 * MINUTE, 7 * DAY),
    Tier(4 * DAY, HOUR, KEPT_MS),
)
LAST = len(TIERS) - 1


def windows(rows: Iterable[Mapping[str, Columns]], tier: Tier) -> dict[int, dict[str, Columns]]:
    """The points of rows, by the windows of a tier (their starts), one for each of its steps. A sample that is there twice counts
    once."""
    found: dict[int, dict[str, list[Columns]]] = {}
    for name, each in joined(rows).items():
        for start_ms, part in _cut(each, tier.window_ms):
            found.setdefault(start_ms, {})[name] = [part]
    return {start_ms: {name: _means(parts, tier.step_ms) for name, parts in each.items()} for start_ms, each in found.items()}


def together(one: Mapping[str, Columns], other: Mapping[str, Columns], tier: Tier) -> dict[str, Columns]:
    """The points of two rows of one window of a tier."""
    if not tier.step_ms:
        return joined([one, other])
    return {
        name: _means([row[name] for row in (one, other) if name in row], tier.step_ms) for name in dict.fromkeys([*one, *other])
    }


def joined(rows: Iterable[Mapping[str, Columns]]) -> dict[str, Columns]:
    """The samples of rows, in order of time. Of two samples of one time the first stays, since they are the same."""
    found: dict[str, list[Columns]] = {}
    for row in rows:
        for name, each in row.items():
            found.setdefault(name, []).append(each)
    return {name: _joined(parts) for name, parts in found.items()}


def _joined(parts: Sequence[Columns]) -> Columns:
    """Moves whole columns: a minute of a large workspace is hundreds of thousands of values."""
    if len(parts) == 1:
        return parts[0]
    times, counts = array("q"), array("f")
    values = {name: array("f") for name in sorted({name for part in parts for name in part.values})}
    for part in parts:
        times.extend(part.times)
        counts.extend(part.counts)
        for name, column in values.items():
            column.extend(part.values.get(name) or array("f", [math.nan]) * len(part.times))
    whole = Columns(parts[0].about, times, counts, values)
    if all(map(lt, times, islice(times, 1, None))):
        return whole
    first: dict[int, int] = {}
    for index, at in enumerate(times):
        first.setdefault(at, index)
    order = [first[at] for at in sorted(first)]
    return Columns(
        whole.about,
        array("q", map(times.__getitem__, order)),
        array("f", map(counts.__getitem__, order)),
        {name: array("f", map(column.__getitem__, order)) for name, column in values.items()},
    )


def _cut(of: Columns, window_ms: int) -> Iterable[tuple[int, Columns]]:
    """The points by windows, each with its start."""
    low = 0
    while low < len(of.times):
        start_ms = of.times[low] - of.times[low] % window_ms
        high = bisect_left(of.times, start_ms + window_ms, low)
        part = {name: column[low:high] for name, column in of.values.items()}
        yield start_ms, Columns(of.about, of.times[low:high], of.counts[low:high], part)
        low = high


def _means(parts: Sequence[Columns], step_ms: int) -> Columns:
    """One point for each step, or the points as they are (0)."""
    if not step_ms:
        return _joined(parts)
    found: dict[int, Point] = {}
    for part in parts:
        for at, point in part.points().items():
            step = at - at % step_ms
            found[step] = _mean(found[step], point) if step in found else point
    return columns(parts[0].about, found)


def _mean(one: Point, other: Point) -> Point:
    weight = one.weight + other.weight
    values = {**one.values, **other.values}
    for name in one.values.keys() & other.values.keys():
        values[name] = (one.values[name] * one.weight + other.values[name] * other.weight) / weight
    return Point(weight, values)


def step_for(start_ms: int, end_ms: int, *, nodes: int, metrics: int, asked_ms: int = 0) -> int:
    """The step of an answer: the one that was asked for, else one that gives a few hundred points, fewer if there are many nodes.
    Raises ValueError if the asked one would give too many values; its argument is the shortest step that does not."""
    most = max(1, MAX_VALUES // max(1, nodes * metrics))
    least = max(MIN_STEP_MS, math.ceil((end_ms - start_ms) / most / SECOND) * SECOND)
    if asked_ms:
        if asked_ms < least:
            raise ValueError(least)
        return asked_ms
    return max(least, math.ceil((end_ms - start_ms) / POINTS / MIN_STEP_MS) * MIN_STEP_MS)


class Answer(NamedTuple):
    """One node's means: a list for each metric that it has, with None for a step without samples."""

    about: NodeAbout
    values: dict[str, list[float | None]]


def resample(rows: Sequence[tuple[int, Mapping[str, Columns]]], *, start_ms: int, end_ms: int, step_ms: int) -> dict[str, Answer]:
    """Means for each step from `start_ms`, of rows with the number of their tier."""
    about: dict[str, NodeAbout] = {}
    sums: dict[str, dict[str, _Sums]] = {}
    for node in _distinct(rows):
        for name, each in node.items():
            about[name] = each.about
            _add(sums.setdefault(name, {}), each, range(start_ms, end_ms, step_ms))
    return {
        name: Answer(about[name], {metric: each.means() for metric, each in found.items() if each.any})
        for name, found in sums.items()
        if any(each.any for each in found.values())
    }


def _distinct(rows: Sequence[tuple[int, Mapping[str, Columns]]]) -> Iterable[Mapping[str, Columns]]:
    """The rows, with those of tier 0 as one: without samples that are there twice, because an agent sent them to two servers."""
    yield from (row for tier, row in rows if tier)
    fresh = joined(row for tier, row in rows if not tier)
    for name, each in fresh.items():
        moved = {at for tier, row in rows if tier == 1 and name in row for at in row[name].times}
        if not moved.isdisjoint(each.times):
            fresh[name] = columns(each.about, {at: point for at, point in each.points().items() if at not in moved})
    yield fresh


class _Sums:
    """Of one metric of one node, for each step."""

    def __init__(self, size: int) -> None:
        self._sums = [0.0] * size
        self._weights = [0.0] * size
        self.any = False

    def add(self, values: array[float], of: _Cut) -> None:
        """Adds values. This has no loop over values in Python, since an answer is made of hundreds of thousands."""
        totals, weights = of.sums(values), of.weights
        if math.isnan(sum(totals)):  # some are absent
            known = array("d", [0.0 if math.isnan(value) else value for value in values])
            weights = of.sums(array("d", [0.0 if math.isnan(value) else 1.0 for value in values]))
            totals = of.sums(known)
        all_sums, all_weights = self._sums, self._weights
        for step, total, weight in zip(of.steps, totals, weights, strict=True):
            all_sums[step] += total
            all_weights[step] += weight
        self.any = self.any or any(weights)

    def means(self) -> list[float | None]:
        return [total / weight if weight else None for total, weight in zip(self._sums, self._weights, strict=True)]


class _Cut(NamedTuple):
    """How a row's points fall into steps: points `cuts[n]` to `cuts[n + 1]` belong to step `steps[n]`, with their weights."""

    steps: Sequence[int]
    cuts: Sequence[int]
    counts: Sequence[float]
    even: float  # the weight of every point, or 0 if they differ
    weights: Sequence[float]  # of each step

    def sums(self, values: array[float]) -> list[float]:
        """The weighted sums of the values of each step."""
        if self.even:
            return [total * self.even for total in _between(values, self.cuts)]
        return _between(array("d", map(mul, values, self.counts)), self.cuts)


def _between(values: array[float], cuts: Sequence[int]) -> list[float]:
    """The sums of the values between each two cuts."""
    return [sum(values[low:high]) for low, high in pairwise(cuts)]


def _add(sums: dict[str, _Sums], of: Columns, steps: range) -> None:
    """Adds a node's points to the sums of the steps that they belong to."""
    times = of.times
    first, last = bisect_left(times, steps.start), bisect_left(times, steps.stop)
    cuts, which = [first], []
    while cuts[-1] < last:
        step = (times[cuts[-1]] - steps.start) // steps.step
        which.append(step)
        cuts.append(bisect_left(times, steps[step] + steps.step, cuts[-1], last))
    if not which:
        return
    counts = of.counts[first:last]
    here = [cut - first for cut in cuts]
    even = counts[0] if min(counts) == max(counts) else 0.0
    cut = _Cut(which, here, counts, even, _between(counts, here))
    for name, column in of.values.items():
        if name not in sums:
            sums[name] = _Sums(len(steps))
        sums[name].add(column if len(column) == len(counts) else column[first:last], cut)
