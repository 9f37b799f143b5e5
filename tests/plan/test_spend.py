"""Prices of node types and of specifications, and what nodes cost: no moment twice, whatever was killed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brickyard.domain.cluster import Cluster, Instance
from brickyard.domain.errors import InvalidParameterValue
from brickyard.domain.instances import InstanceState
from brickyard.domain.node import Role
from brickyard.domain.nodetypes import Catalogue, NodeType
from brickyard.domain.prices import Prices, parse_prices, priced
from brickyard.domain.spec import AutoScale, ClusterSpec, NodeTypeFlexibility
from brickyard.domain.spend import Charge
from brickyard.features.spend.rules import Sums, days_of, fits, grouped, grouping, midnight_ms, month_of
from brickyard.plan.spend import PriceRange, price_per_hour, settle
from brickyard.providers import pricing
from brickyard.testing.builders import NOW, SMALL, cluster, instance
from tests.support.golden import Golden

TYPES = {
    name: NodeType(node_type_id=name, num_cores=1, memory_mb=1024, category="", price_per_hour=price)
    for name, price in (("cheap", 0.1), ("mid", 0.156), ("dear", 2.5), ("free", 0.0))
}
SPEC = ClusterSpec(node_type_id="mid", driver_node_type_id="cheap", num_workers=3)


def but(**changes: object) -> ClusterSpec:
    return msgspec.structs.replace(SPEC, **changes)


def alternates(*names: str) -> NodeTypeFlexibility:
    return NodeTypeFlexibility(alternate_node_type_ids=list(names))


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (SPEC, PriceRange(0.568, 0.568)),
        (but(num_workers=0), PriceRange(0.1, 0.1)),
        (but(driver_node_type_id=None), PriceRange(0.624, 0.624)),
        (but(num_workers=None, autoscale=AutoScale(min_workers=1, max_workers=4)), PriceRange(0.256, 0.724)),
        (but(worker_node_type_flexibility=alternates("dear")), PriceRange(0.568, 7.6)),
        (but(driver_node_type_flexibility=alternates("free", "gone")), PriceRange(0.468, 0.568)),
        (but(node_type_id="gone"), None),
        (but(driver_node_type_id="gone"), None),
    ],
)
def test_the_price_of_a_specification(spec: ClusterSpec, expected: PriceRange | None) -> None:
    assert price_per_hour(spec, TYPES) == expected


NAMES = st.sampled_from(sorted(TYPES))


@given(st.integers(0, 50), st.integers(0, 50), NAMES, NAMES, NAMES)
def test_a_range_contains_the_price_of_every_size_and_type(least: int, more: int, driver: str, worker: str, other: str) -> None:
    scale = AutoScale(min_workers=least, max_workers=least + more)
    spec = but(
        num_workers=None, autoscale=scale, driver_node_type_id=driver, node_type_id=worker,
        worker_node_type_flexibility=alternates(other),
    )  # fmt: skip
    found = price_per_hour(spec, TYPES)
    assert found is not None
    for size in (least, least + more // 2, least + more):
        for kind in (worker, other):
            one = price_per_hour(ClusterSpec(node_type_id=kind, driver_node_type_id=driver, num_workers=size), TYPES)
            assert one is not None
            assert one.least == one.most
            assert found.least <= one.most + 1e-6
            assert one.most <= found.most + 1e-6


def test_the_workspace_s_prices_replace_list_prices() -> None:
    offered = tuple(TYPES.values())
    ask = priced(lambda: offered, parse_prices('currency = "EUR"\n[per_hour]\nmid = 1\nunknown = 7\n'))
    assert {each.node_type_id: each.price_per_hour for each in ask()} == {"cheap": 0.1, "mid": 1.0, "dear": 2.5, "free": 0.0}
    assert ask() is ask(), "the catalogue compares by identity"
    assert Catalogue(ask).now()["mid"].price_per_hour == 1.0
    assert priced(lambda: offered, Prices())() is offered


@pytest.mark.parametrize(
    "text",
    [
        "per_hour = 1",
        "[per_hour]\nsmall = -1",
        "[per_hour]\nsmall = nan",
        '[per_hour]\nsmall = "much"',
        "[prices]\nsmall = 1",
        'currency = ""',
        "currency",
    ],
)
def test_a_wrong_price_list(text: str, golden: Golden) -> None:
    with pytest.raises(ValueError) as raised:
        parse_prices(text)
    golden(str(raised.value))


def test_a_price_for_a_type_that_does_not_exist(tmp_path: Path, golden: Golden) -> None:
    file = tmp_path / "prices.toml"
    file.write_text('[per_hour]\n"i3.xlarg" = 1\n')
    prices = pricing.read(file)
    with golden.refused(ValueError):
        pricing.check(prices, providers=["local"])
    pricing.check(prices, providers=["kubernetes"])
    pricing.check(parse_prices('[per_hour]\n"brickyard.machine" = 1\n"g5.xlarge" = 2\n'), providers=["local"])
    file.write_bytes(b"\xff")
    with pytest.raises(ValueError, match="UTF-8"):
        pricing.read(file)


# -- charges -------------------------------------------------------------------------------------------------------------

HOUR = 3_600_000
STATES = (
    InstanceState.REQUESTED,
    InstanceState.LAUNCHED,
    InstanceState.REGISTERED,
    InstanceState.TERMINATING,
    InstanceState.GONE,
)


def settled(
    open_charges: Sequence[Charge], nodes: Sequence[Instance], *, now: int, price: float = 1.0, of: Cluster | None = None
) -> tuple[list[Charge], list[Charge]]:
    """The charges that have ended, and those that are open afterwards."""
    types = {"small": msgspec.structs.replace(SMALL, price_per_hour=price)}
    ended, begun = settle(open_charges, of or OURS, nodes, now=now, node_types=types, currency="EUR")
    closed = {(charge.instance_id, charge.started_ms) for charge in ended}
    kept = [charge for charge in open_charges if (charge.instance_id, charge.started_ms) not in closed]
    return list(ended), [*kept, *begun]


OURS = cluster()


def node(name: str, state: InstanceState = InstanceState.REGISTERED, **fields: object) -> Instance:
    made = instance(OURS, role=Role.WORKER)
    return msgspec.structs.replace(made, **{"instance_id": name, "state": state, "launched_ms": NOW, "pool_id": "", **fields})


def test_a_node_costs_from_its_launch_until_it_is_gone() -> None:
    ended, charges = settled([], [node("a", InstanceState.REQUESTED, launched_ms=0)], now=NOW)
    assert (ended, charges) == ([], [])
    ended, charges = settled([], [node("a")], now=NOW + 5)
    assert [(charge.started_ms, charge.price_per_hour, charge.currency) for charge in charges] == [(NOW, 1.0, "EUR")]
    assert settled(charges, [node("a", InstanceState.TERMINATING)], now=NOW + 9) == ([], charges)
    for gone in ([node("a", InstanceState.GONE)], [], [node("a", cluster_id="another")]):
        ended, left = settled(charges, gone, now=NOW + HOUR)
        assert left == []
        assert [charge.amount(0, NOW * 2) for charge in ended] == [1.0]


def test_a_node_of_a_pool_costs_the_cluster_only_while_it_has_it() -> None:
    _, charges = settled([], [node("a", pool_id="p")], now=NOW + HOUR)
    assert charges[0].started_ms == NOW + HOUR


def test_a_new_price_counts_from_now_on_and_so_does_a_new_owner() -> None:
    _, charges = settled([], [node("a")], now=NOW)
    ended, charges = settled(charges, [node("a")], now=NOW + HOUR, price=3.0)
    other = msgspec.structs.replace(OURS, creator_user_name="another@example.com", pool_tags={"team": "b"})
    more, charges = settled(charges, [node("a")], now=NOW + 2 * HOUR, price=3.0, of=other)
    every = [*ended, *more, *charges]
    assert [each.amount(0, NOW + 4 * HOUR) for each in every] == [1.0, 3.0, 6.0]
    by_tag = grouped(every, lambda charge: charge.tags.get("team", ""), start_ms=0, end_ms=NOW + 9 * HOUR, now=NOW + 4 * HOUR)
    assert [(each.key, each.amount, each.price_per_hour) for each in by_tag] == [("b", 6.0, 3.0), ("", 4.0, 0.0)]
    part = grouped(every, lambda charge: "", start_ms=NOW + HOUR, end_ms=NOW + 3 * HOUR, now=NOW + 9 * HOUR)
    assert [(each.amount, each.node_hours, each.price_per_hour) for each in part] == [(6.0, 2.0, 0.0)]


def test_a_type_that_is_no_longer_offered_keeps_its_price() -> None:
    _, charges = settled([], [node("a")], now=NOW, price=2.0)
    assert settle(charges, OURS, [node("a")], now=NOW + 1, node_types={}, currency="USD") == ((), ())


LIVES = st.lists(
    st.tuples(
        st.integers(1, 1000), st.dictionaries(st.sampled_from("abc"), st.sampled_from(STATES)), st.sampled_from([1.0, 2.0])
    ),
    max_size=12,
)


@given(LIVES, st.integers(1, 3))
def test_whatever_happens_no_moment_of_a_node_is_charged_twice(
    lives: list[tuple[int, dict[str, InstanceState], float]], repeated: int
) -> None:
    """Passes at any times see nodes in any states, each pass as often as a crash may repeat it."""
    now, open_charges, every = NOW, list[Charge](), list[Charge]()
    billed: dict[str, int] = {}
    for pause, states, price in lives:
        charged = {charge.instance_id for charge in open_charges}
        for name in charged:
            billed[name] = billed.get(name, 0) + pause
        now += pause
        for _ in range(repeated):
            seen = [node(name, state, launched_ms=now) for name, state in states.items()]
            ended, open_charges = settled(open_charges, seen, now=now, price=price)
            every += ended
        expected = {name for name, state in states.items() if state not in (InstanceState.REQUESTED, InstanceState.GONE)}
        assert {charge.instance_id for charge in open_charges} == expected
        assert len(open_charges) == len(expected)
    found = {name: sum(each.hours(0, now) for each in (*every, *open_charges) if each.instance_id == name) for name in "abc"}
    for name, hours in found.items():
        assert hours * HOUR == pytest.approx(billed.get(name, 0), abs=1e-3)


def charge(start: int, end: int, *, price: float = 1.0, creator: str = "a", tags: dict[str, str] | None = None) -> Charge:
    return Charge(
        cluster_id=creator,
        instance_id=f"{creator}{start}",
        started_ms=start,
        ended_ms=end,
        price_per_hour=price,
        currency="EUR",
        node_type_id="n",
        role="worker",
        creator_user_name=creator,
        tags=tags or {},
    )


BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(("day", "hours"), [(date(2026, 3, 28), 24), (date(2026, 3, 29), 23), (date(2026, 10, 25), 25)])
def test_a_day_goes_from_midnight_to_midnight_of_its_zone(day: date, hours: int) -> None:
    begins, ends = midnight_ms(day, BERLIN), midnight_ms(day + timedelta(days=1), BERLIN)
    assert (ends - begins) / HOUR == hours
    sums = Sums(
        None, start_ms=begins - HOUR, end_ms=ends + HOUR, now=ends + 2 * HOUR, days=days_of(begins - HOUR, ends + HOUR, BERLIN)
    )
    sums.add(charge(begins - 9 * HOUR, ends + 9 * HOUR))
    assert [each.amount for each in sums.groups(1)[0]] == [1.0, float(hours), 1.0]
    assert month_of(begins, BERLIN)[0] == midnight_ms(day.replace(day=1), BERLIN)


@given(
    st.lists(st.tuples(st.integers(0, 400), st.integers(1, 200), st.sampled_from("abcd")), max_size=9),
    st.integers(1, 4),
    st.sampled_from(["UTC", "Europe/Berlin", "Asia/Kathmandu", "Pacific/Apia", "America/St_Johns"]),
)
def test_days_and_the_keys_beyond_the_greatest_add_up_to_the_whole(
    lives: list[tuple[int, int, str]], top: int, zone: str
) -> None:
    start, end = NOW, NOW + 300 * HOUR
    days = days_of(start, end, ZoneInfo(zone))
    assert [each.start_ms for each in days[1:]] == [each.end_ms for each in days[:-1]]
    assert (days[0].start_ms, days[-1].end_ms) == (start, end)
    whole = Sums(None, start_ms=start, end_ms=end, now=end)
    parts = Sums(lambda each: each.creator_user_name, start_ms=start, end_ms=end, now=end, days=days)
    for at, hours, creator in lives:
        for sums in (whole, parts):
            sums.add(charge(NOW + (at - 50) * HOUR, 0 if hours > 150 else NOW + (at - 50 + hours) * HOUR, creator=creator))
    found, left_out = parts.groups(top)
    expected = dict(whole.totals())
    assert sum(each.amount for each in found) == pytest.approx(sum(each.amount for each in expected.values()), abs=1e-3)
    assert sum(each.price_per_hour for each in found) == pytest.approx(sum(each.price_per_hour for each in expected.values()))
    assert len({each.key for each in found if not each.others}) <= top
    assert left_out == 0 or any(each.others for each in found)


def test_what_is_grouped_and_what_fits() -> None:
    assert (grouping("day", 0).key, grouping("day", 0).top) == (None, 10)
    by = grouping("day,tag:a,b", 3)
    assert by.key is not None and by.key(charge(1, 2, tags={"a,b": "x"})) == "x"
    for wrong, top in (("day,", 0), ("day,day", 0), ("", 0), ("cluster,day", 0), ("tag:", 0), ("day,role", 101), ("role", -1)):
        with pytest.raises(InvalidParameterValue):
            grouping(wrong, top)
    assert fits(charge(1, 2, tags={"t": "v=w"}), tag="t=v=w", creator="a")
    assert not fits(charge(1, 2, tags={"t": "v"}), tag="t=")
    assert not fits(charge(1, 2), creator="b")
