"""When a cluster stops by itself (`auto_terminate`): which limit is reached first, and what counts as use. Pure.

`idle_minutes` is the `autotermination_minutes` of the other dialect. The other limits are `Cluster.workbench.limits`. They count
from the start: a restart does not begin them anew.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from brickyard.domain.cluster import Cluster, Instance, Limits, Target
from brickyard.domain.gpuclusters import AutoTerminate, AutoTerminateView, Problem, rfc3339
from brickyard.domain.nodetypes import NodeType
from brickyard.domain.samples import SAMPLE_S, Columns
from brickyard.domain.spec import ClusterSpec
from brickyard.domain.spend import Charge
from brickyard.domain.terminations import TerminationReason, TerminationReasonCode, TerminationReasonType
from brickyard.plan.spec import DEFAULT_AUTOTERMINATION_MINUTES

IDLE, RUNTIME, AT, COST = "idle_minutes", "max_runtime_minutes", "at", "max_cost"
MOST_MINUTES = 366 * 24 * 60
MOST_COST = 1e9
USE_METRICS = ("cpu_cores", "gpu_fraction")
BUSY_CORES = 0.2  # a node that keeps at least this busy, on average over a minute, is in use; Spark itself takes far less
BUSY_GPU = 0.05  # the same, as a share of the time
MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
_CENTURY_MS = 100 * 366 * 24 * HOUR_MS
_SHOWN = 60  # characters of the client's value that a problem repeats


class Spent(NamedTuple):
    """What a cluster has cost since its start, and what it costs an hour now."""

    amount: float
    per_hour: float


# -- what a request asks for -----------------------------------------------------------------------------------------


def merged(asked: AutoTerminate | None, before: Limits, *, by: str) -> Limits:
    """The limits, besides the idle time, after a request. `by`: who makes it. What `problems_of` refuses counts as not given."""
    if asked is None:
        return before
    if asked.enabled is False:
        return Limits(counts_use=before.counts_use)
    after = Limits(
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
        elif not now < time < now + _CENTURY_MS:
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


# -- when a cluster stops --------------------------------------------------------------------------------------------


def moments(cluster: Cluster, *, now: int, spent: Spent | None, ahead_ms: int = 0) -> dict[str, int]:
    """When each limit, besides the idle time, is reached: epoch ms, in the past if that is so. A limit that cannot be reached as
    things are is left out. `spent`: only needed with `max_cost`. `ahead_ms`: as in `plan.cluster`."""
    limits = cluster.workbench.limits
    found: dict[str, int] = {}
    if cluster.target is not Target.RUNNING:
        return found
    if limits.max_runtime_minutes:
        found[RUNTIME] = cluster.start_ms + limits.max_runtime_minutes * MINUTE_MS
    if (at := limits.at_ms - ahead_ms) > cluster.start_ms:  # an earlier one was for an earlier start
        found[AT] = at
    if limits.max_cost and spent is not None:
        left = limits.max_cost - spent.amount
        if spent.per_hour > 0:
            found[COST] = now + math.ceil(max(-_CENTURY_MS, min(_CENTURY_MS, left / spent.per_hour * HOUR_MS)))
        elif left <= 0:
            found[COST] = now
    return found


def reason_of(cluster: Cluster, limit: str) -> tuple[TerminationReason, str]:
    """Why a limit has ended the cluster, for programs and for people."""
    limits = cluster.workbench.limits
    value, text = {
        RUNTIME: (str(limits.max_runtime_minutes), f"it was started {limits.max_runtime_minutes} minutes ago"),
        AT: (rfc3339(limits.at_ms), f"it was to stop at {rfc3339(limits.at_ms)}"),
        COST: (f"{limits.max_cost:g}", f"it has cost {limits.max_cost:g} since its start"),
    }[limit]
    reason = TerminationReason(
        code=TerminationReasonCode.USER_REQUEST,
        type=TerminationReasonType.SUCCESS,
        parameters={"username": limits.by, "auto_terminate": limit, limit: value},
    )
    return reason, f"Stopped by auto_terminate.{limit}, which {limits.by} has set: {text}"


def spent_of(charges: Iterable[Charge], cluster: Cluster, *, now: int) -> Spent:
    """What the charges amount to since the cluster's start."""
    known = list(charges)
    return Spent(
        sum(each.amount(cluster.start_ms, now) for each in known),
        sum(each.price_per_hour for each in known if not each.ended_ms),
    )


# -- idleness --------------------------------------------------------------------------------------------------------


def idle_since(cluster: Cluster, driver: Instance) -> int:
    """Since when nothing has run on the cluster, as far as its row says. If its driver is busy, that is not so."""
    return max(driver.current_status.last_activity_ms, cluster.last_restarted_ms, cluster.used_ms)


def asks_for_use(cluster: Cluster, nodes: Iterable[Instance], *, now: int) -> int:
    """Since when the use of the cluster's machines must be looked at, to decide whether it is idle; 0: it need not be."""
    minutes = cluster.spec.autotermination_minutes or 0
    driver = driver_of(cluster, nodes)
    if not (cluster.up and minutes and cluster.workbench.limits.counts_use and driver) or driver.current_status.busy:
        return 0
    since = idle_since(cluster, driver)
    return since if now >= since + minutes * MINUTE_MS else 0


def driver_of(cluster: Cluster, nodes: Iterable[Instance]) -> Instance | None:
    """The driver of the present incarnation."""
    own = (each for each in nodes if each.live and not each.releasing_ms and each.generation == cluster.incarnation)
    return next((each for each in own if each.role.value != "worker"), None)


def last_use(rows: Iterable[tuple[int, Mapping[str, Columns]]], *, since_ms: int, now: int) -> int:
    """When a node was last in use: the end of the last minute in which its processors or GPUs were busy on average. 0: never.

    `rows` are pieces of the nodes' samples with the length of their steps (0: single samples). A short burst is no use. Made-up
    samples do not count.
    """
    sums: dict[tuple[str, int], list[float]] = {}
    last = 0
    for step_ms, nodes in rows:
        length = max(step_ms, MINUTE_MS)
        for name, node in nodes.items():
            for at, point in {} if node.about.simulated else node.points().items():
                if not since_ms <= at <= now:
                    continue
                start = at - at % length
                total = sums.setdefault((name, start), [0.0, 0.0, 0.0])
                total[0] += point.weight
                total[1] += point.weight * point.values.get("cpu_cores", 0.0)
                total[2] += point.weight * point.values.get("gpu_fraction", 0.0)
                whole = max(total[0], MINUTE_MS / 1000 / SAMPLE_S)
                if total[1] / whole >= BUSY_CORES or total[2] / whole >= BUSY_GPU:
                    last = max(last, min(now, start + length))
    return last


# -- as it is shown --------------------------------------------------------------------------------------------------


def view(spec: ClusterSpec, limits: Limits) -> AutoTerminateView:
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


class Deadlines(NamedTuple):
    """When limits are reached at the earliest (epoch ms, by name). `idle_ms`: so long after the driver ceases to be busy."""

    at: Mapping[str, int]
    idle_ms: int = 0

    def seconds_left(self, now: int) -> dict[str, int]:
        """The time until each limit."""
        times = {**self.at, IDLE: now + self.idle_ms} if self.idle_ms else self.at
        return {name: max(0, math.ceil((at - now) / 1000)) for name, at in times.items()}


def deadlines(
    cluster: Cluster, nodes: Iterable[Instance], *, now: int, spent: Spent | None, ahead_ms: int = 0
) -> Deadlines | None:
    """When a cluster ends by itself; None unless it runs or starts. Without `max_cost`, that does not depend on `now`.
    `ahead_ms`: as in `plan.cluster`."""
    if cluster.target is not Target.RUNNING:
        return None
    times = moments(cluster, now=now, spent=spent, ahead_ms=ahead_ms)
    minutes, driver = cluster.spec.autotermination_minutes or 0, driver_of(cluster, nodes)
    if not (cluster.up and minutes and driver is not None):
        return Deadlines(times)
    if driver.current_status.busy:
        return Deadlines(times, minutes * MINUTE_MS)
    return Deadlines({**times, IDLE: idle_since(cluster, driver) + minutes * MINUTE_MS})
