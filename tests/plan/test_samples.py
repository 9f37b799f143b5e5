"""Samples: what is stored is what was sent; nothing counts twice; means stay means as samples become coarser."""

from __future__ import annotations

import itertools
import math
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brickyard.domain.samples import METRICS, Columns, NodeAbout, Point, columns, pack, unpack
from brickyard.plan.samples import (
    DAY,
    MAX_VALUES,
    MINUTE,
    TIERS,
    Tier,
    joined,
    resample,
    step_for,
    together,
    windows,
)  # fmt: skip

ABOUT = NodeAbout(role="driver", node_type_id="small", cores=2, memory_mb=2048)
START = 1_790_000_100_000 - 1_790_000_100_000 % DAY
VALUES = st.floats(0, 2**40, width=32)
TIMES = st.integers(0, 2 * 3600 * 1000).map(lambda offset: START + offset)
MEASURED = st.dictionaries(
    TIMES, st.dictionaries(st.sampled_from(sorted(METRICS)[:3]), VALUES, min_size=1).map(lambda each: Point(1, each)), max_size=40
)


def node(points: dict[int, Point]) -> dict[str, Columns]:
    return {"i-1": columns(ABOUT, points)}


def constant(times: range, value: float = 1.0) -> dict[str, Columns]:
    return node({at: Point(1, {"cpu_cores": value}) for at in times})


@given(MEASURED)
def test_packing_loses_nothing(points: dict[int, Point]) -> None:
    (name, found), *rest = unpack(pack(node(points))).items()
    assert (name, rest, found.about, found.points()) == ("i-1", [], ABOUT, points)
    assert "i-1" not in unpack(pack(node(points)), instance_id="i-2")
    assert set(unpack(pack(node(points)), metrics=["cpu_cores"])["i-1"].values) <= {"cpu_cores"}


@given(MEASURED, MEASURED)
def test_samples_that_arrive_twice_and_in_any_order_are_there_once(one: dict[int, Point], other: dict[int, Point]) -> None:
    other = {at: one.get(at, point) for at, point in other.items()}
    found = joined(windows([node(other), node(one), node(other)], TIERS[1]).values())
    assert (found["i-1"].points() if found else {}) == one | other
    assert list(found["i-1"].times if found else []) == sorted(one | other)


@given(st.dictionaries(TIMES, VALUES.map(lambda value: Point(1, {"cpu_cores": value}))), st.sampled_from(TIERS[1:3]), st.data())
def test_rows_that_move_one_after_the_other_are_as_if_they_had_moved_at_once(
    points: dict[int, Point], tier: Tier, data: st.DataObject
) -> None:
    first = data.draw(st.sets(st.sampled_from(sorted(points)))) if points else set()
    parts = [node({at: point for at, point in points.items() if (at in first) is here}) for here in (True, False)]
    one, other = (windows([part], tier) for part in parts)
    whole = windows([node(points)], tier)
    assert one.keys() | other.keys() == whole.keys()
    for start_ms, expected in whole.items():
        found = together(one.get(start_ms, {}), other.get(start_ms, {}), tier)["i-1"].points()
        assert found.keys() == expected["i-1"].points().keys()
        for at, point in expected["i-1"].points().items():
            assert found[at].weight == point.weight
            assert found[at].values == pytest.approx(point.values, rel=1e-4)


@given(MEASURED)
def test_coarser_means_have_the_weight_and_the_sum_of_what_they_are_made_of(points: dict[int, Point]) -> None:
    fine = windows([node(points)], TIERS[1])
    minutes = windows(fine.values(), TIERS[2])
    quarters = windows(minutes.values(), TIERS[3])
    for coarse in (minutes, quarters):
        every = [point for window in coarse.values() for each in window.values() for point in each.points().values()]
        assert sum(point.weight for point in every) == len(points)
        if all("cpu_cores" in point.values for point in points.values()):
            total = sum(point.weight * point.values["cpu_cores"] for point in every)
            assert math.isclose(total, sum(point.values["cpu_cores"] for point in points.values()), rel_tol=1e-4)


def test_windows_and_steps_do_not_cross() -> None:
    for fine, coarse in itertools.pairwise(TIERS[1:]):
        assert coarse.window_ms % fine.window_ms == 0
        assert fine.window_ms % max(1, fine.step_ms) == 0
        assert coarse.window_ms % coarse.step_ms == 0
    assert TIERS[-1].kept_ms == 30 * DAY


def test_a_range_over_rows_of_all_tiers() -> None:
    """A ramp of one per minute: fine samples, then means, with a hole; samples on edges belong to the step that they begin."""
    rows = [
        (3, node({START: Point(180, {"cpu_cores": 7.0, "memory_bytes": 1.0})})),
        (2, node({START + 15 * MINUTE + n * MINUTE: Point(12, {"cpu_cores": 15.0 + n}) for n in range(5)})),
        (1, node({START + 40 * MINUTE + n * 5_000: Point(1, {"cpu_cores": 40.0}) for n in range(12)})),
    ]
    found = resample(rows, start_ms=START, end_ms=START + 60 * MINUTE, step_ms=10 * MINUTE)["i-1"]
    assert found.about == ABOUT
    assert found.values["cpu_cores"] == [7.0, 17.0, None, None, 40.0, None]
    assert found.values["memory_bytes"] == [1.0, None, None, None, None, None]
    assert resample(rows, start_ms=START - DAY, end_ms=START, step_ms=MINUTE) == {}
    one = resample(rows, start_ms=START + 40 * MINUTE, end_ms=START + 40 * MINUTE + 1, step_ms=MINUTE)["i-1"]
    assert one.values["cpu_cores"] == [40.0]


def test_a_sample_in_two_rows_counts_once() -> None:
    """An agent repeats a report that a killed server had taken: one copy is packed already."""
    double = node({START: Point(1, {"cpu_cores": 4.0}), START + 1000: Point(1, {"cpu_cores": 1.0})})
    rows = [(1, node({START: Point(1, {"cpu_cores": 4.0})})), (0, double), (0, double)]
    found = resample(rows, start_ms=START, end_ms=START + MINUTE, step_ms=MINUTE)["i-1"]
    assert found.values["cpu_cores"] == [2.5]


def test_absent_values_count_for_nothing() -> None:
    points = {START: Point(1, {"cpu_cores": 2.0}), START + 5000: Point(1, {"gpu_fraction": 0.5})}
    found = resample([(1, node(points))], start_ms=START, end_ms=START + MINUTE, step_ms=MINUTE)["i-1"]
    assert found.values == {"cpu_cores": [2.0], "gpu_fraction": [0.5]}
    assert isinstance(node(points)["i-1"].values["cpu_cores"], array)


@pytest.mark.parametrize("nodes", [1, 10, 1000])
@pytest.mark.parametrize("days", [0.04, 1, 30])
def test_an_answer_has_a_bounded_size(nodes: int, days: float) -> None:
    end = START + int(days * DAY)
    step = step_for(START, end, nodes=nodes, metrics=len(METRICS))
    assert nodes * len(METRICS) * math.ceil((end - START) / step) <= MAX_VALUES
    least = step_for(START, end, nodes=nodes, metrics=1, asked_ms=end - START)
    assert least == end - START
    if nodes * days > 100:
        with pytest.raises(ValueError, match=r"^\d+$"):
            step_for(START, end, nodes=nodes, metrics=len(METRICS), asked_ms=5_000)
