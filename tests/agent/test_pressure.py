"""Who gives way when the machine runs out of memory or of disk: decided by every agent for itself, and by all alike."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from brickyard.agent.pressure import (
    MIB,
    SLACK,
    SMALLEST,
    STALE_S,
    Memory,
    Usage,
    disk_floor,
    disk_offender,
    exceeds_disk,
    fair_share,
    holders,
    memory_offender,
    node_memory_limit,
)

GIB = 1 << 30
NOW_S = 1000.0
sizes = st.integers(0, 64 * GIB)
usages = st.lists(
    st.builds(
        Usage,
        instance_id=st.text("abcdef", min_size=1, max_size=3),
        at_s=st.floats(NOW_S - 3 * STALE_S, NOW_S + 3 * STALE_S),
        memory=sizes,
        memory_share=st.integers(1, 64 * GIB),
        disk=sizes,
        written=sizes,
    ),
    max_size=8,
    unique_by=lambda usage: usage.instance_id,
)


def fresh(found: list[Usage]) -> list[Usage]:
    return [usage for usage in found if abs(NOW_S - usage.at_s) <= STALE_S]


@given(usages, st.randoms(), st.integers(1 * GIB, 64 * GIB))
def test_all_agents_name_the_same_one(found: list[Usage], random: object, total: int) -> None:
    mixed = found.copy()
    random.shuffle(mixed)  # type: ignore[attr-defined]
    named = [memory_offender(each, now_s=NOW_S, total=total, least=0.5) for each in (found, mixed)]
    assert named[0] == named[1]
    assert disk_offender(found, now_s=NOW_S) == disk_offender(mixed, now_s=NOW_S)


@given(usages, st.integers(1 * GIB, 64 * GIB), st.floats(0, 1))
def test_nobody_within_its_share_gives_way_to_one_above_it(found: list[Usage], total: int, least: float) -> None:
    """Nor does anybody who takes less than the least part of it, whatever the others take."""
    named = memory_offender(found, now_s=NOW_S, total=total, least=least)
    shares = sum(usage.memory_share for usage in fresh(found))
    taking = [usage for usage in fresh(found) if usage.memory >= least * fair_share(usage, shares, total)]
    there = {usage.instance_id: usage for usage in taking if usage.memory >= SMALLEST}
    assert (named is None) == (not there), "somebody is named, unless nobody takes enough"
    if named is not None:
        above = {name: usage.memory - fair_share(usage, shares, total) for name, usage in there.items()}
        assert above[named] == max(above.values())
        assert sum(fair_share(usage, shares, total) for usage in fresh(found)) <= total * 1.001, "shares fit into the machine"


def test_an_idle_node_is_not_ended_for_what_other_programs_hold() -> None:
    idle = Usage(instance_id="idle", at_s=NOW_S, memory=450 * MIB, memory_share=8 * GIB)
    memory = Memory(total=24 * GIB, available=100 * MIB)
    assert memory.low
    assert memory_offender([idle], now_s=NOW_S, total=memory.total, least=0.5) is None
    assert memory_offender([idle], now_s=NOW_S, total=memory.total, least=0.0) == "idle"
    assert holders([idle], memory, now_s=NOW_S) == (450 * MIB, 24 * GIB - 550 * MIB)


@given(usages)
def test_the_one_that_takes_most_of_the_disk_is_named(found: list[Usage]) -> None:
    named = disk_offender(found, now_s=NOW_S)
    taken = {usage.instance_id: usage.disk + usage.written for usage in fresh(found)}
    if named is None:
        assert max(taken.values(), default=0) < SMALLEST
    else:
        assert taken[named] == max(taken.values()) >= SMALLEST


@given(st.integers(64 * MIB, 4096 * GIB), st.integers(0, 8192 * GIB), st.floats(0, 100))
def test_a_machine_with_room_is_left_alone(total: int, available: int, stalled: float) -> None:
    memory = Memory(total=total, available=min(available, total), stalled=stalled)
    assert memory.floor <= GIB
    if memory.available >= 3 * memory.floor:
        assert not memory.low, "waiting alone ends nothing"
    if memory.low and memory.available >= memory.floor:
        assert stalled > 0


def test_a_node_leaves_the_machine_something() -> None:
    assert node_memory_limit(31 * GIB, 8 * GIB) < 7.5 * GIB
    assert node_memory_limit(2 * GIB, 8 * GIB) == 2 * GIB
    assert disk_floor(1000 * GIB, GIB) == GIB
    assert disk_floor(10 * GIB, GIB) == GIB // 2


@given(own=sizes, shared=sizes, found=sizes, limit=st.integers(64 * MIB, 64 * GIB))
def test_a_cluster_whose_directory_is_full_can_start_and_no_other_may_exceed_the_limit(
    own: int, shared: int, found: int, limit: int
) -> None:
    assert not exceeds_disk(own=min(own, limit // 10), shared=found, found=found, limit=limit)
    assert exceeds_disk(own=own, shared=0, found=0, limit=limit) == (own > limit)
    if exceeds_disk(own=own, shared=shared, found=found, limit=limit):
        assert own + shared > limit
    else:
        assert own + shared <= limit + limit // 10 or shared <= found + SLACK
        assert own <= limit
