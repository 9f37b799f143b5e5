"""Silence is judged by time in which something could have been heard, and by nothing else."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from brickyard.plan.silence import Silence

AFTER_S, PAUSE_S = 60.0, 10.0
NAMES = ("a", "b", "c")


class Look:
    """A look: how long after the one before, whose marks are new, whether a new judge takes over, and what comes of clocks."""

    def __init__(self, drawn: tuple[float, frozenset[str], bool, int]) -> None:
        self.after_s, self.heard, self.fresh_judge, self.step = drawn


# Whole and half seconds, so that sums are exact; mostly short looks, now and then a pause; marks that jump either way.
gaps = st.one_of(st.integers(1, 20).map(lambda halves: halves / 2), st.integers(20, 400).map(lambda halves: halves / 2))
looks = st.lists(
    st.tuples(gaps, st.frozensets(st.sampled_from(NAMES)), st.sampled_from([False] * 19 + [True]), st.integers(-1000, 1000)).map(
        Look
    ),
    max_size=60,
)


@settings(deadline=None)
@given(looks)
def test_who_is_silent_was_not_heard_of_in_all_of_the_time_that_one_judge_watched_without_a_pause(seen: list[Look]) -> None:
    judge, now = Silence(after_s=AFTER_S, pause_s=PAUSE_S), 0.0
    marks = dict.fromkeys(NAMES, 10**6)
    watched = dict.fromkeys(NAMES, 0.0)  # without a break and without a word; the oracle, which knows no marks
    before = -math.inf
    for look in seen:
        now += look.after_s
        if look.fresh_judge:
            judge, before = Silence(after_s=AFTER_S, pause_s=PAUSE_S), -math.inf
        for name in look.heard:
            marks[name] += look.step or 1  # the database's clock may go back
        gap = now - before
        for name in NAMES:
            watched[name] = 0.0 if name in look.heard or gap > PAUSE_S else watched[name] + gap
        before = now
        silent = judge.look(NAMES, marks, now_s=now)
        assert silent == {name for name in NAMES if watched[name] > AFTER_S}


def test_one_without_a_mark_has_the_full_time_and_no_more() -> None:
    judge = Silence(after_s=AFTER_S, pause_s=PAUSE_S)
    for second in range(0, 61, 5):
        assert judge.look(["a"], {}, now_s=second) == frozenset()
    assert judge.look(["a"], {}, now_s=61) == {"a"}
    assert judge.look([], {}, now_s=62) == frozenset()
    assert judge.look(["a"], {}, now_s=63) == frozenset()  # it came back: another one of the same name


def test_what_is_forgotten_gives_everybody_the_full_time() -> None:
    judge = Silence(after_s=AFTER_S, pause_s=PAUSE_S)
    for second in range(0, 60, 5):
        judge.look(["a"], {"a": 1}, now_s=second)
    judge.forget()
    for second in range(60, 121, 5):
        assert judge.look(["a"], {"a": 1}, now_s=second) == frozenset()
    assert judge.look(["a"], {"a": 1}, now_s=121) == {"a"}
