"""The limits of `auto_terminate`: which one stops a cluster, what counts as use, and how a request changes them."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from brickyard.domain.clock import rfc3339
from brickyard.domain.cluster import AutoTerminateLimits, Cluster, Instance, Target
from brickyard.domain.events import EventType
from brickyard.domain.node import Role
from brickyard.domain.samples import NodeAbout, Point, columns
from brickyard.domain.terminations import TerminationReasonCode, TerminationReasonType
from brickyard.domain.v1.clusters import AutoTerminate, StartV1Cluster
from brickyard.plan.autoterminate import AT, COST, IDLE, RUNTIME, Spent, asks_for_use, deadlines, last_use, moments
from brickyard.plan.cluster import Plan, plan
from brickyard.plan.cluster.ending import LOOK_MS
from brickyard.plan.policy import Policy
from brickyard.plan.starts import next_incarnation
from brickyard.plan.v1.autoterminate import merged, problems_of
from brickyard.plan.v1.translate import updated
from brickyard.testing.builders import NOW, SIZES, SMALL, cluster, instance, up
from tests.support.golden import Golden

MINUTE = 60_000
LIMITS = st.builds(
    AutoTerminateLimits,
    max_runtime_minutes=st.integers(0, 1000),
    at_ms=st.just(0) | st.integers(NOW - 10**8, NOW + 10**8),
    max_cost=st.just(0.0) | st.floats(0.01, 100),
    by=st.just("someone"),
)
SPENT = st.builds(Spent, st.floats(0, 200), st.just(0.0) | st.floats(0.01, 100))


def limited(limits: AutoTerminateLimits, *, idle: int = 0, running: bool = True) -> Cluster:
    of = cluster(single=True)
    of = msgspec.structs.replace(of, spec=msgspec.structs.replace(of.spec, autotermination_minutes=idle))
    of = msgspec.structs.replace(of, workbench=msgspec.structs.replace(of.workbench, auto_terminate=limits))
    return up(of) if running else of


def decide(of: Cluster, driver: Instance, now: int, spent: Spent | None = None, *, used_ms: int = 0) -> Plan:
    return plan(of, [driver], now=now, sizes=SIZES, policy=Policy(), spent=spent, used_ms=used_ms)


@given(LIMITS, SPENT, st.integers(0, 10**8), st.booleans())
def test_a_cluster_stops_at_its_first_limit_and_not_before(
    limits: AutoTerminateLimits, spent: Spent, late: int, running: bool
) -> None:
    of, now = limited(limits, running=running), NOW + late
    decided = decide(of, instance(of, role=Role.SINGLE), now, spent)
    found = moments(of, now=now, spent=spent)
    ended = decided.cluster.target is Target.TERMINATED
    over = {
        RUNTIME: bool(limits.max_runtime_minutes) and late >= limits.max_runtime_minutes * MINUTE,
        AT: NOW < limits.at_ms <= now,
        COST: bool(limits.max_cost) and spent.amount >= limits.max_cost,
    }
    assert ended == any(over.values()) or (not running and not any(over.values()))  # a start has its own deadline
    if any(over.values()):
        reason = decided.cluster.termination_reason
        assert reason is not None and reason.parameters is not None
        name = reason.parameters["auto_terminate"]
        assert over[name] and found[name] == min(found.values())
        assert (reason.code, reason.type) == (TerminationReasonCode.USER_REQUEST, TerminationReasonType.SUCCESS)
        assert reason.parameters["username"] == "someone" and reason.parameters[name]
        assert name in decided.cluster.state_message
        told = [each for each in decided.events if each.type is EventType.TERMINATING]
        assert [each.details.reason for each in told] == [reason]
        again = decide(decided.cluster, instance(of, role=Role.SINGLE), now + 1, spent)
        assert again.cluster.termination_reason == reason and not again.events
    elif found and not ended:
        assert decided.due_ms is not None and decided.due_ms <= min(found.values())


@given(LIMITS, SPENT)
def test_the_pass_comes_back_in_time_and_then_the_cluster_has_ended(limits: AutoTerminateLimits, spent: Spent) -> None:
    of = limited(limits)
    driver = instance(of, role=Role.SINGLE)
    decided = decide(of, driver, NOW, spent)
    if decided.cluster.target is not Target.RUNNING or not (found := moments(of, now=NOW, spent=spent)):
        return
    looks = {NOW + LOOK_MS} if AT in found else set()  # the clock on the wall may be set
    assert decided.due_ms == min({*found.values(), *looks})
    if decided.due_ms in looks:
        return
    hours = (decided.due_ms - NOW) / 3_600_000
    by_then = Spent(spent.amount + hours * spent.per_hour, spent.per_hour)
    later = decide(of, driver, decided.due_ms, by_then)
    assert later.cluster.target is Target.TERMINATED or (later.due_ms or 0) <= decided.due_ms + 1, "rounding costs a moment"


def test_a_restart_does_not_begin_the_limits_anew_and_a_start_does() -> None:
    of = limited(AutoTerminateLimits(max_runtime_minutes=60, at_ms=NOW + 30 * MINUTE, by="someone"))
    again = next_incarnation(of, now=NOW + 50 * MINUTE, secret="s", connect_token="c", restarting=True)
    assert moments(again, now=NOW, spent=None)[RUNTIME] == NOW + 60 * MINUTE
    started = next_incarnation(of, now=NOW + 50 * MINUTE, secret="s", connect_token="c", restarting=False)
    assert moments(started, now=NOW, spent=None) == {RUNTIME: NOW + 110 * MINUTE}, "the time of the last start has passed"


# -- idleness --------------------------------------------------------------------------------------------------------


def samples(cores: dict[int, float], gpu: dict[int, float] | None = None, *, simulated: bool = False) -> dict[str, object]:
    """Columns of one node; times are seconds after NOW."""
    times = {NOW + at * 1000: {"cpu_cores": value} for at, value in cores.items()}
    for at, value in (gpu or {}).items():
        times.setdefault(NOW + at * 1000, {})["gpu_fraction"] = value
    points = {at: Point(1, values) for at, values in times.items()}
    return {"i-1": columns(NodeAbout(simulated=simulated), points)}


def used(*rows: tuple[int, dict[str, object]], since: int = 0, until: int = 10_000) -> int:
    found = last_use(rows, since_ms=NOW + since * 1000, now=NOW + until * 1000)  # type: ignore[arg-type] # the columns above
    return (found - NOW) // 1000 if found else -1


def test_a_busy_minute_is_use_and_a_burst_is_not() -> None:
    first = -(NOW // 1000) % 60  # where a minute begins
    minute = [first + 600 + each for each in range(0, 60, 5)]
    assert used((0, samples(dict.fromkeys(minute, 1.0)))) == first + 660
    assert used((0, samples(dict.fromkeys(minute, 0.05)))) == -1
    assert used((0, samples({minute[0]: 2.0}))) == -1, "2 cores for 5 seconds"
    assert used((0, samples({}, dict.fromkeys(minute, 0.9)))) == first + 660
    assert used((0, samples(dict.fromkeys(minute, 1.0), simulated=True))) == -1
    assert used((0, samples(dict.fromkeys(minute, 1.0))), since=first + 700) == -1, "that was known"
    halves = samples(dict.fromkeys(minute[:6], 0.5)), samples(dict.fromkeys(minute[6:], 0.5))
    assert used((0, halves[0]), (0, halves[1])) == first + 660, "a minute may be in two rows"
    assert used((3_600_000, {"i-1": columns(NodeAbout(), {NOW: Point(700, {"cpu_cores": 1.0})})})) > 0


def test_use_of_the_machine_defers_the_end_of_an_idle_cluster() -> None:
    of = limited(AutoTerminateLimits(counts_use=True), idle=10)
    driver = instance(of, role=Role.SINGLE)
    assert asks_for_use(of, [driver], now=NOW + 10 * MINUTE - 1) == 0, "it is not needed before"
    assert asks_for_use(of, [driver], now=NOW + 10 * MINUTE) == NOW
    decided = decide(of, driver, NOW + 10 * MINUTE, used_ms=NOW + 7 * MINUTE)
    assert decided.cluster.target is Target.RUNNING
    assert (decided.cluster.used_ms, decided.due_ms) == (NOW + 7 * MINUTE, NOW + 17 * MINUTE)
    assert asks_for_use(decided.cluster, [driver], now=NOW + 17 * MINUTE) == NOW + 7 * MINUTE
    ended = decide(decided.cluster, driver, NOW + 17 * MINUTE)
    assert ended.cluster.termination_reason is not None
    assert ended.cluster.termination_reason.code is TerminationReasonCode.INACTIVITY


def test_the_other_dialect_counts_commands_only() -> None:
    of = limited(AutoTerminateLimits(), idle=10)
    assert asks_for_use(of, [instance(of, role=Role.SINGLE)], now=NOW + 60 * MINUTE) == 0


# -- requests --------------------------------------------------------------------------------------------------------


@given(
    before=LIMITS,
    minutes=st.none() | st.just(UNSET) | st.integers(1, 1000),
    at=st.none() | st.just(UNSET) | st.integers(NOW + 1000, NOW + 10**8),
    cost=st.none() | st.just(UNSET) | st.floats(0.01, 100),
)
def test_updates_merge_and_null_removes(before: AutoTerminateLimits, minutes: object, at: object, cost: object) -> None:
    asked = AutoTerminate(
        max_runtime_minutes=minutes,  # type: ignore[arg-type] # one of the field's types
        at=rfc3339(at) if isinstance(at, int) else at,  # type: ignore[arg-type] # likewise
        max_cost=cost,  # type: ignore[arg-type] # likewise
    )
    assert not problems_of("x", asked, now=NOW, wanted=[])
    after = merged(asked, before, by="other")
    for given_, old, new in (
        (minutes, before.max_runtime_minutes, after.max_runtime_minutes),
        (at, before.at_ms, after.at_ms),
        (cost, before.max_cost, after.max_cost),
    ):
        assert new == (old if given_ is UNSET else given_ or 0)
    changed = (before.max_runtime_minutes, before.at_ms, before.max_cost) != (
        after.max_runtime_minutes,
        after.at_ms,
        after.max_cost,
    )
    assert after.by == ("other" if changed else "someone")
    assert not merged(AutoTerminate(enabled=False), before, by="other").any
    assert merged(None, before, by="other") == before


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"max_runtime_minutes": 0}, "max_runtime_minutes"),
        ({"max_runtime_minutes": -5}, "max_runtime_minutes"),
        ({"max_runtime_minutes": 10**9}, "max_runtime_minutes"),
        ({"at": "tomorrow"}, "at"),
        ({"at": "2026-09-30T18:00:00"}, "at"),
        ({"at": "2026-01-01T00:00:00Z"}, "at"),
        ({"at": "9999-01-01T00:00:00Z"}, "at"),
        ({"at": "0001-01-01T00:00:00+23:00"}, "at"),
        ({"max_cost": 0}, "max_cost"),
        ({"max_cost": float("inf")}, "max_cost"),
        ({"max_cost": float("nan")}, "max_cost"),
        ({"max_cost": 5}, "max_cost"),
        ({"enabled": False, "max_cost": 5}, "max_cost"),
        ({"enabled": False, "idle_minutes": 50}, "idle_minutes"),
    ],
    ids=str,
)
def test_what_cannot_be_honoured_is_refused_with_the_rule(asked: dict[str, object], field: str, golden: Golden) -> None:
    limits = AutoTerminate(**asked)  # type: ignore[arg-type] # keyword arguments of a struct
    free = msgspec.structs.replace(SMALL, price_per_hour=0.0)
    (problem,) = problems_of("auto_terminate", limits, now=NOW, wanted=[free])
    assert problem.field == f"auto_terminate.{field}"
    golden(problem.reason)


def test_enabled_without_a_limit_means_the_usual_idle_time() -> None:
    def idle_after(before: AutoTerminateLimits, **asked: object) -> int | None:
        limits = AutoTerminate(**asked)  # type: ignore[arg-type] # keyword arguments of a struct
        request = StartV1Cluster(cluster_id="c", auto_terminate_updates=limits)
        return updated(limited(before), request, SIZES).spec.autotermination_minutes

    assert idle_after(AutoTerminateLimits(), enabled=True) == 120
    assert idle_after(AutoTerminateLimits(max_runtime_minutes=5), enabled=True) == 0
    assert idle_after(AutoTerminateLimits(), enabled=True, max_cost=3) == 0
    assert idle_after(AutoTerminateLimits(max_cost=3), enabled=True, max_cost=None) == 120


def test_the_time_that_is_left_is_shown() -> None:
    of = limited(AutoTerminateLimits(max_runtime_minutes=60, at_ms=NOW + 30 * MINUTE, max_cost=2, by="x"), idle=10)
    driver = instance(of, role=Role.SINGLE)
    now = NOW + 4 * MINUTE
    ends = deadlines(of, [driver], now=now, spent=Spent(1.5, 1.0))
    assert ends is not None
    assert ends.seconds_left(now) == {RUNTIME: 56 * 60, AT: 26 * 60, COST: 1800, IDLE: 6 * 60}
    busy = msgspec.structs.replace(driver, status=msgspec.structs.replace(driver.status, busy=True))
    ends = deadlines(of, [busy], now=now, spent=None)
    assert ends is not None
    assert [ends.seconds_left(at)[IDLE] for at in (now, now + MINUTE)] == [600, 600]
    stopped = msgspec.structs.replace(of, target=Target.TERMINATED)
    assert deadlines(stopped, [driver], now=now, spent=None) is None
