"""Who is found to write to files whose room is used up."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from brickyard.machine.growth import LOOKS, Growth, OpenFile


def file(pid: int, inode: int = 1) -> OpenFile:
    return OpenFile(pid, 1, inode)


def looks(*seen: tuple[dict[OpenFile, int], dict[int, int]]) -> list[set[int]]:
    growth = Growth()
    return [growth.look(sizes, sent) for sizes, sent in seen]


def test_a_file_must_grow_again_and_again() -> None:
    grows = [({file(7): size}, {7: size}) for size in (100, 200, 300, 400)]
    assert looks(*grows) == [set(), set(), {7}, {7}]
    once = [({file(7): size}, {7: size}) for size in (100, 200, 200, 300, 300)]
    assert looks(*once) == [set()] * 5, "a write that had begun, or one that failed"


def test_who_only_holds_the_file_of_its_child_is_spared() -> None:
    both = [({file(7): size, file(8): size}, {7: 0, 8: size}) for size in (100, 200, 300)]
    assert looks(*both)[-1] == {8}
    mapped = [({file(7): size, file(8): size}, {7: 0, 8: 0}) for size in (100, 200, 300)]
    assert looks(*mapped)[-1] == {7, 8}, "it grows, and nobody has called write"
    apart = [({file(7, 1): size, file(8, 2): 5}, {7: size, 8: size}) for size in (100, 200, 300)]
    assert looks(*apart)[-1] == {7}


def test_there_is_room_in_between() -> None:
    growth = Growth()
    growth.look({file(7): 1}, {7: 1})
    growth.look({file(7): 2}, {7: 2})
    growth.forget()
    assert not growth.look({file(7): 3}, {7: 3})
    assert not growth.look({file(7): 4}, {7: 4})
    assert growth.look({file(7): 5}, {7: 5}) == {7}


@given(st.lists(st.dictionaries(st.builds(file, st.integers(1, 3), st.integers(1, 2)), st.integers(0, 5)), max_size=8))
def test_only_who_has_a_growing_file_open_is_named(seen: list[dict[OpenFile, int]]) -> None:
    growth = Growth()
    for index, sizes in enumerate(seen):
        named = growth.look(sizes, {each.pid: 0 for each in sizes})
        last = seen[max(0, index - LOOKS) : index + 1]
        for pid in named:
            assert len(last) == LOOKS + 1
            assert any(
                all(each in earlier and earlier[each] < later.get(each, -1) for earlier, later in pairwise(last))
                for each in sizes
                if each.pid == pid
            )
