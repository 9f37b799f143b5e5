"""How long a stop or restart in the /v1/clusters dialect lets finish what runs. Pure."""

from __future__ import annotations

from brickyard.domain.strict import Problem
from brickyard.domain.v1.clusters import RestartV1Cluster, StopV1Cluster

DEFAULT_MINUTES, MOST_MINUTES = 5, 30


def problems_of_grace(request: StopV1Cluster | RestartV1Cluster) -> list[Problem]:
    """What is wrong with the wait that a stop or restart asks for."""
    minutes = request.grace_period_minutes
    if minutes is None:
        return []
    if not 0 <= minutes <= MOST_MINUTES:
        reason = f"it must be between 0 and {MOST_MINUTES}"
    elif request.force and minutes:
        reason = "it has no effect with force; leave one of them out"
    else:
        return []
    return [Problem(field="grace_period_minutes", reason=reason, requested=minutes)]


def minutes_of(request: StopV1Cluster | RestartV1Cluster) -> int:
    """How long the request lets finish what runs."""
    if request.force:
        return 0
    return DEFAULT_MINUTES if request.grace_period_minutes is None else request.grace_period_minutes
