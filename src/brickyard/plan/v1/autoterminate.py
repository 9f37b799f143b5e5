"""`auto_terminate` in the /v1/clusters dialect: what a request makes of it, what is wrong with that, how it is shown. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import UNSET

from brickyard.domain.clock import rfc3339
from brickyard.domain.cluster import AutoTerminateLimits
from brickyard.domain.nodetypes import NodeType
from brickyard.domain.spec import ClusterSpec
from brickyard.domain.strict import Problem
from brickyard.domain.v1.clusters import AutoTerminate, AutoTerminateView
from brickyard.plan.autoterminate import AT, CENTURY_MS, COST, IDLE, RUNTIME
from brickyard.plan.spec import DEFAULT_AUTOTERMINATION_MINUTES

MOST_MINUTES = 366 * 24 * 60
MOST_COST = 1e9
_SHOWN = 60  # characters of the client's value that a problem repeats


def merged(asked: AutoTerminate | None, before: AutoTerminateLimits, *, by: str) -> AutoTerminateLimits:
    """The limits, besides the idle time, after a request. `by`: who makes it. What `problems_of` refuses counts as not given."""
    if asked is None:
        return before
    if asked.enabled is False:
        return AutoTerminateLimits(counts_use=before.counts_use)
    after = AutoTerminateLimits(
        max_runtime_minutes=_merged(asked.max_runtime_minutes, before.max_runtime_minutes),
        at_ms=before.at_ms if asked.at is UNSET else _time(asked.at) or 0,
        max_cost=_merged(asked.max_cost, before.max_cost),
        by=before.by,
        counts_use=before.counts_use or asked.idle_minutes is not UNSET or bool(asked.enabled),
    )
    same = msgspec.structs.replace(after, counts_use=before.counts_use) == before
    return after if same else msgspec.structs.replace(after, by=by)


def idle_minutes(
    prefix: str, asked: AutoTerminate | None, before: int | None, *, others: bool, problems: list[Problem]
) -> int | None:
    """The minutes of inactivity after which the cluster ends; 0: never. `before`: those of now, None for a new cluster.
    `others`: it has another limit."""
    if asked is None:
        return before
    if asked.enabled is False:
        return 0
    if asked.idle_minutes is None:
        return 0
    if asked.idle_minutes is not UNSET:
        if asked.idle_minutes == 0:
            problems.append(Problem(field=f"{prefix}.{IDLE}", reason="it must be between 10 and 10000, or null", requested=0))
        return asked.idle_minutes
    if asked.enabled and not before and not others:
        return DEFAULT_AUTOTERMINATION_MINUTES
    return before


def problems_of(prefix: str, asked: AutoTerminate | None, *, now: int, wanted: Sequence[NodeType]) -> list[Problem]:
    """What is wrong with the limits of a request. `wanted`: the types of the nodes that the cluster will have; if known."""
    if asked is None:
        return []
    found: list[Problem] = []

    def refuse(field: str, reason: str) -> None:
        value = getattr(asked, field)
        found.append(Problem(field=f"{prefix}.{field}", reason=reason, requested=value[:_SHOWN] if field == AT else value))

    if asked.enabled is False:
        for field in (IDLE, RUNTIME, AT, COST):
            if getattr(asked, field) not in (UNSET, None):
                refuse(field, "it has no effect with enabled false; leave one out")
        return found
    minutes, at, cost = asked.max_runtime_minutes, asked.at, asked.max_cost
    if isinstance(minutes, int) and not 1 <= minutes <= MOST_MINUTES:
        refuse(RUNTIME, f"it must be between 1 and {MOST_MINUTES}, or null")
    if isinstance(at, str):
        if (time := _time(at)) is None:
            refuse(AT, "it must be an RFC 3339 time with an offset from UTC, like 2026-03-01T18:00:00Z, or null")
        elif not now < time < now + CENTURY_MS:
            refuse(AT, f"it must be in the future; it is {rfc3339(now)} now")
    if isinstance(cost, float | int):
        if not (math.isfinite(cost) and 0 < cost <= MOST_COST):
            refuse(COST, f"it must be above 0 and at most {MOST_COST:g}, or null")
        elif wanted and not any(each.price_per_hour for each in wanted):
            refuse(COST, "the nodes of this cluster cost nothing, so it would never be reached; set their prices (node_prices)")
    return found


def _merged(asked: Any, before: Any) -> Any:
    return before if asked is UNSET else asked or 0


def _time(text: object) -> int | None:
    """Epoch ms of an RFC 3339 time."""
    try:
        at = datetime.fromisoformat(str(text))
        return int(at.timestamp() * 1000) if at.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None


def view(spec: ClusterSpec, limits: AutoTerminateLimits) -> AutoTerminateView:
    """When the cluster ends by itself, as its row says."""
    minutes = spec.autotermination_minutes or None
    return AutoTerminateView(
        enabled=bool(minutes or limits.any),
        idle_minutes=minutes,
        max_runtime_minutes=limits.max_runtime_minutes or None,
        at=rfc3339(limits.at_ms) if limits.at_ms else None,
        max_cost=limits.max_cost or None,
        cost_since_start=None,
        remaining_seconds=None,
    )
