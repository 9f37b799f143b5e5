"""Agents are spread over the servers: nobody gets more than its share, and it comes to rest."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from brickyard.plan.balance import A_ROUND, LEAST, SLACK, moves

COUNTS = st.dictionaries(st.integers(1, 50), st.integers(0, 3_000), min_size=1, max_size=7)


def share_of(agents: dict[int, int]) -> int:
    return -(-sum(agents.values()) // len(agents))


def after_a_round(agents: dict[int, int]) -> dict[int, int]:
    """All servers decide from the same numbers."""
    left = dict(agents)
    for own in agents:
        for other, count in moves(agents, own).items():
            left[own] -= count
            left[other] += count
    return left


@given(COUNTS)
def test_no_server_gives_more_than_it_has_too_much_or_gets_more_than_its_share(agents: dict[int, int]) -> None:
    share = share_of(agents)
    for own, count in agents.items():
        given_away = moves(agents, own)
        assert own not in given_away
        assert all(each > 0 for each in given_away.values())
        assert sum(given_away.values()) <= min(max(0, count - share), A_ROUND)
    for number, count in after_a_round(agents).items():
        assert count <= max(share, agents[number])


@given(COUNTS)
def test_it_comes_to_rest_with_no_server_clearly_above_its_share(agents: dict[int, int]) -> None:
    share, rounds = share_of(agents), 0
    while (changed := after_a_round(agents)) != agents:
        agents, rounds = changed, rounds + 1
        assert rounds <= 30 + 3_000 // A_ROUND * 7
    assert all(count - share < max(LEAST, SLACK * share) for count in agents.values())


def test_a_server_that_joins_gets_its_share() -> None:
    assert moves({1: 30, 2: 30, 3: 0}, 1) == {3: 10}
    assert moves({1: 30, 2: 30, 3: 0}, 2) == {3: 10}
    assert moves({1: 30, 2: 30, 3: 0}, 3) == {}


def test_small_differences_move_nobody() -> None:
    assert moves({1: 1, 2: 0}, 1) == {}
    assert moves({1: 22, 2: 18}, 1) == {}
    assert moves({1: 5}, 1) == {}


def test_a_large_difference_is_made_up_for_in_rounds() -> None:
    assert moves({1: 2_000, 2: 0}, 1) == {2: A_ROUND}
