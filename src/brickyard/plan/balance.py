"""How agents are spread over the servers of a workspace."""

from __future__ import annotations

from collections.abc import Mapping

SLACK = 0.2  # of its share: a server keeps that much more than its share
LEAST = 2  # agents: smaller differences are not worth a move
A_ROUND = 100  # moves that one server asks for at a time


def moves(agents: Mapping[int, int], own: int) -> dict[int, int]:
    """How many agents of the server `own` should call which other servers instead. `agents`: how many call each server now.

    Every server decides this for itself, at about the same time and from about the same numbers. Each fills only its part of
    what others lack, so that all of them together give no server more than its share.
    """
    share = -(-sum(agents.values()) // len(agents))
    excess = agents[own] - share
    if excess < max(LEAST, SLACK * share):
        return {}
    gaps = {number: share - count for number, count in agents.items() if count < share}
    lacking = sum(gaps.values())
    given = {number: excess * gap // lacking for number, gap in gaps.items()}
    if own == min(number for number, count in agents.items() if count > share):  # one of them gives what rounding has left
        for number in [number for number, gap in gaps.items() if excess * gap % lacking][: excess - sum(given.values())]:
            given[number] += 1
    if (total := sum(given.values())) > A_ROUND:
        given = {number: count * A_ROUND // total for number, count in given.items()}
    return {number: count for number, count in sorted(given.items()) if count}
