"""Who gives way when the machine runs out of memory or of disk: decided by every agent for itself, and by all alike."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from brickyard.agent.shortages import on_full_disk
from brickyard.domain.node import Failure
from brickyard.machine.disk import FULL, INODES_KEPT, MIB, STEP, Amount, Disk, Lack
from brickyard.machine.pressure import (
    FEWEST,
    SLACK,
    SMALLEST,
    STALE_S,
    Memory,
    Usage,
    disk_offender,
    exceeds_disk,
    fair_share,
    holders,
    memory_offender,
    most_inodes,
    node_memory_limit,
)

GIB = 1 << 30
NOW_S = 1000.0
sizes = st.integers(0, 64 * GIB)
counts = st.integers(0, 1_000_000)
amounts = st.builds(Amount, sizes, counts)
disks = st.builds(lambda one, other: Disk(total=one.at_least(other), free=one), amounts, amounts)
usages = st.lists(
    st.builds(
        Usage,
        instance_id=st.text("abcdef", min_size=1, max_size=3),
        at_s=st.floats(NOW_S - 3 * STALE_S, NOW_S + 3 * STALE_S),
        memory=sizes,
        memory_share=st.integers(1, 64 * GIB),
        disk=sizes,
        written=sizes,
        inodes=counts,
        made=counts,
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
    for lack in Lack:
        assert disk_offender(found, now_s=NOW_S, lack=lack) == disk_offender(mixed, now_s=NOW_S, lack=lack)


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


@given(usages, st.sampled_from(Lack))
def test_the_one_that_takes_most_of_the_disk_is_named(found: list[Usage], lack: Lack) -> None:
    """Of what is lacking: who holds many bytes is not ended for want of inodes."""
    named, least = disk_offender(found, now_s=NOW_S, lack=lack), {Lack.SIZE: SMALLEST, Lack.INODES: FEWEST}[lack]
    size = {usage.instance_id: usage.disk + usage.written for usage in fresh(found)}
    inodes = {usage.instance_id: usage.inodes + usage.made for usage in fresh(found)}
    taken = size if lack is Lack.SIZE else inodes
    if named is None:
        assert max(taken.values(), default=0) < least
    else:
        assert taken[named] == max(taken.values()) >= least


@given(disks, amounts)
def test_a_disk_lacks_what_less_is_free_of_and_bytes_and_inodes_alike(disk: Disk, needed: Amount) -> None:
    lack = disk.lack(needed)
    short = disk.free.size < needed.size, bool(disk.total.inodes) and disk.free.inodes < needed.inodes
    assert (lack is None) == (not any(short))
    assert lack is None or short[list(Lack).index(lack)]
    assert bool(disk.shortage(needed)) == any(short)


@given(disks, st.integers(0, 64 * GIB))
def test_what_stays_free_of_a_disk_is_a_small_part_of_it(disk: Disk, asked: int) -> None:
    floor = disk.floor(asked)
    assert floor.size <= min(asked, disk.total.size / 20)
    assert floor.inodes <= min(INODES_KEPT, disk.total.inodes / 20)
    assert asked or floor == Amount(), "nobody keeps anything free where the settings do not"


@given(disks, disks)
def test_files_are_counted_early_when_bytes_or_inodes_go(disk: Disk, before: Disk) -> None:
    lost = before.free.size - disk.free.size >= STEP.size, before.free.inodes - disk.free.inodes >= STEP.inodes
    assert disk.has_lost(before) == any(lost)


def test_a_file_system_without_a_number_of_inodes_never_lacks_them() -> None:
    btrfs = Disk(total=Amount(GIB, 0), free=Amount(GIB, 0))
    assert btrfs.lack(Amount(MIB, 1)) is None and btrfs.floor(GIB).inodes == 0
    assert most_inodes(0, 2_000_000) == 2_000_000
    assert most_inodes(20_000, 2_000_000) == 10_000


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
    sizes = [Disk(total=Amount(total * GIB), free=Amount()).floor(GIB).size for total in (1000, 10)]
    assert sizes == [GIB, GIB // 2]


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


@given(st.sampled_from(["SPARK_ERROR", "DRIVER_OUT_OF_MEMORY"]), st.booleans(), st.booleans(), disks)
def test_a_failure_on_a_full_disk_names_the_disk(code: str, driver: bool, said: bool, disk: Disk) -> None:
    failure = Failure(code=code, message="it failed", log_tail="java.io.IOException: No space left on device" if said else "")
    floor = disk.floor(GIB)
    told = on_full_disk(failure, disk, floor=floor, driver=driver)
    full = disk.lack(FULL) is not None or (said and disk.lack(floor) is not None)
    if full and code == "SPARK_ERROR":
        assert told.code == ("DRIVER_OUT_OF_DISK" if driver else code)
        assert "are free" in told.message and told.message.endswith(failure.message)
    else:
        assert told == failure
