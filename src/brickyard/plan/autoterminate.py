"""When a cluster stops by itself (`auto_terminate`): which limit is reached first, and what counts as use. Pure.

`idle_minutes` is a specification's `autotermination_minutes`. The other limits are `Cluster.workbench.auto_terminate`. They count
from the start: a restart does not begin them anew.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from brickyard.domain.clock import rfc3339
from brickyard.domain.cluster import Cluster, Instance, Target
from brickyard.domain.samples import SAMPLE_S, Columns
from brickyard.domain.spend import Charge
from brickyard.domain.terminations import TerminationReason, TerminationReasonCode, TerminationReasonType

IDLE, RUNTIME, AT, COST = "idle_minutes", "max_runtime_minutes", "at", "max_cost"
USE_METRICS = ("cpu_cores", "gpu_fraction")
BUSY_CORES = 0.2  # a node that keeps at least this busy, on average over a minute, is in use; Spark itself takes far less
BUSY_GPU = 0.05  # the same, as a share of the time
USED_MS = 30_000  # how old a cluster's record that it is in use may be: a small part of any idle time
MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
CENTURY_MS = 100 * 366 * 24 * HOUR_MS


class Spent(NamedTuple):
    """What a cluster has cost since its start, and what it costs an hour now."""

    amount: float
    per_hour: float


def moments(cluster: Cluster, *, now: int, spent: Spent | None, ahead_ms: int = 0) -> dict[str, int]:
    """When each limit, besides the idle time, is reached: epoch ms, in the past if that is so. A limit that cannot be reached as
    things are is left out. `spent`: only needed with `max_cost`. `ahead_ms`: as in `plan.cluster`."""
    limits = cluster.workbench.auto_terminate
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
            found[COST] = now + math.ceil(max(-CENTURY_MS, min(CENTURY_MS, left / spent.per_hour * HOUR_MS)))
        elif left <= 0:
            found[COST] = now
    return found


def reason_of(cluster: Cluster, limit: str) -> tuple[TerminationReason, str]:
    """Why a limit has ended the cluster, for programs and for people."""
    limits = cluster.workbench.auto_terminate
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


def idle_since(cluster: Cluster, driver: Instance) -> int:
    """Since when nothing has run on the cluster, as far as its row says. If its driver is busy, that is not so."""
    return max(driver.current_status.last_activity_ms, cluster.last_restarted_ms, cluster.used_ms)


def asks_for_use(cluster: Cluster, nodes: Iterable[Instance], *, now: int) -> int:
    """Since when the use of the cluster's machines must be looked at, to decide whether it is idle; 0: it need not be."""
    minutes = cluster.spec.autotermination_minutes or 0
    driver = driver_of(cluster, nodes)
    if not (cluster.up and minutes and cluster.workbench.auto_terminate.counts_use and driver) or driver.current_status.busy:
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


def used_by_run(cluster: Cluster, now: int) -> Cluster | None:
    """A running cluster for which a run waits, unless it is known to be in use: its driver knows nothing of such a task."""
    if not (cluster.up and cluster.spec.autotermination_minutes and now >= cluster.used_ms + USED_MS):
        return None
    return msgspec.structs.replace(cluster, used_ms=now)
