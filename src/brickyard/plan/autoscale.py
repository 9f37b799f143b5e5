"""How many workers a cluster needs for its load. Pure.

Growth is quick: tasks that wait for `up_after_ms` bring as many workers as they can use, from min to max in at most two steps.
Shrinking is gentle: workers that were idle for the whole window go, a share of the cluster at a time, and only while no tasks
wait. A worker that runs tasks is never chosen; chosen workers are decommissioned, so that the data they hold moves to others.
Workers that have not come yet go before them: some may never come, and must not keep idle ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from brickyard.domain.cluster import Cluster, Instance
from brickyard.domain.errors import InvalidParameterValue
from brickyard.domain.node import Load, WorkerLoad
from brickyard.domain.spec import AutoScale
from brickyard.domain.states import ClusterSource

WINDOW_CONF = "spark.databricks.aggressiveWindowDownS"  # per cluster: seconds that a worker must have been idle
MAX_WINDOW_S = 600


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """When to grow and when to shrink. Milliseconds."""

    up_after_ms: int = 1_000
    down_after_ms: int = 150_000  # Databricks' window for all-purpose clusters
    down_after_job_ms: int = 40_000  # and for job clusters, unless `down_after_ms` is shorter
    down_share: float = 0.25  # the share of the cluster that may go at once; at least one worker
    down_pause_ms: int = 10_000  # between two steps down
    stuck_ms: int = 10_000  # tasks wait although a worker has been idle for this long: more workers would not help
    unknown_ms: int = 5_000  # when to check again while the driver's load is unknown


class Decision(NamedTuple):
    """The size to have, and when to decide again if nothing happens before."""

    target: int
    due_ms: int | None = None


class Situation(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster at one moment. `idle_since_ms` has one entry for every idle worker that is not leaving."""

    low: int
    high: int
    present: int  # the currently wanted size
    pending: int
    running: int
    backlog_since_ms: int
    slots: int  # how many tasks one worker runs at once
    idle_since_ms: Sequence[int]
    growing: bool = False  # some of the wanted workers are still missing
    shrinking: bool = False  # some workers are leaving
    scaled_ms: int = 0  # when autoscaling last changed the size
    not_before_ms: int = 0  # do not grow before this time: the last attempt met a shortage


def decide(at: Situation, *, now: int, rules: Rules, window_ms: int) -> Decision:
    """The size for a situation, always within `low` and `high`. `window_ms` is how long a worker must be idle before it goes."""
    present = min(max(at.present, at.low), at.high)
    if at.pending:
        return _up(at, present, now=now, rules=rules)
    if at.shrinking or present <= at.low or not at.idle_since_ms:
        return Decision(present)
    due = max(min(at.idle_since_ms) + window_ms, at.scaled_ms + rules.down_pause_ms)
    if now < due:
        return Decision(present, due)
    idle = len([since for since in at.idle_since_ms if since <= now - window_ms])
    return Decision(present - min(idle, present - at.low, max(1, math.ceil(present * rules.down_share))))


def _up(at: Situation, present: int, *, now: int, rules: Rules) -> Decision:
    if at.growing or present >= at.high:
        return Decision(present)
    due = max(at.backlog_since_ms + rules.up_after_ms, at.not_before_ms)
    if now < due:
        return Decision(present, due)
    stuck = min(at.idle_since_ms, default=now) + rules.stuck_ms <= now
    if stuck:
        return Decision(present)
    useful = math.ceil((at.pending + at.running) / max(1, at.slots))
    half = at.low + math.ceil((at.high - at.low) / 2)
    return Decision(max(present, min(useful, half if present < half else at.high)))


def situation(
    cluster: Cluster, load: Load, staying: Iterable[Instance], *, cores: int, growing: bool, shrinking: bool = False
) -> Situation:
    """The situation of a cluster with a range of sizes, given its driver's load. `cores` per worker, if none reports its slots.

    A worker without an executor counts as idle since it became ready.
    """
    scale = cluster.spec.autoscale or AutoScale()
    since_of, running, slots = {}, 0, 0
    for worker in load.workers:
        since_of[worker.address] = worker.idle_since_ms
        running += worker.running
        slots = max(slots, worker.slots)
    idle = []
    for node in staying:
        if ready_ms := node.ready_ms:
            since = since_of.get(node.status.worker_address, ready_ms)
            if since:
                idle.append(since if since > ready_ms else ready_ms)
    return Situation(
        low=scale.min_workers or 0,
        high=scale.max_workers or 0,
        present=cluster.num_workers,
        pending=load.pending,
        running=running,
        backlog_since_ms=load.backlog_since_ms,
        slots=slots or cores,
        idle_since_ms=idle,
        growing=growing,
        shrinking=shrinking,
        scaled_ms=cluster.scaled_ms,
        not_before_ms=cluster.grow_after_ms,
    )


def loads_of(load: Load | None) -> dict[str, WorkerLoad]:
    """The workers' loads by address."""
    return {worker.address: worker for worker in load.workers} if load is not None else {}


def weight(node: Instance, load: WorkerLoad | None) -> tuple[bool, bool, int, int, str]:
    """What losing a worker would cost: the cheapest goes first."""
    return (node.ready, bool(load and load.running), load.held_mb if load else 0, -node.created_ms, node.instance_id)


def window_ms(cluster: Cluster, rules: Rules) -> int:
    """How long a worker of the cluster must be idle before it goes, from the cluster's conf or the rules."""
    asked = (cluster.spec.spark_conf or {}).get(WINDOW_CONF)
    if asked is not None:
        return int(asked) * 1000
    job = cluster.source is ClusterSource.JOB
    return min(rules.down_after_ms, rules.down_after_job_ms) if job else rules.down_after_ms


def check_autoscale(scale: AutoScale, *, limit: int) -> None:
    """Raises InvalidParameterValue unless a cluster may have that range of sizes."""
    low, high = scale.min_workers, scale.max_workers
    if low is None or high is None:
        raise InvalidParameterValue(f"Missing required field: autoscale.{'min' if low is None else 'max'}_workers")
    if low < 1:
        raise InvalidParameterValue(f"autoscale.min_workers is {low}; it must be at least 1: the driver runs no tasks.")
    if high <= low:
        raise InvalidParameterValue(f"autoscale.max_workers is {high}; it must be strictly greater than min_workers, {low}.")
    if high > limit:
        raise InvalidParameterValue(f"autoscale.max_workers is {high}; this workspace allows at most {limit} (max_nodes).")


def check_window(conf: Mapping[str, str]) -> None:
    """Raises InvalidParameterValue unless the window in the conf, if any, is a whole number of seconds within its limits."""
    asked = conf.get(WINDOW_CONF)
    if asked is not None and not (asked.isascii() and asked.isdigit() and len(asked) < 5 and 1 <= int(asked) <= MAX_WINDOW_S):
        raise InvalidParameterValue(
            f"spark_conf.{WINDOW_CONF} is {asked[:60]!r}; it must be a whole number of seconds from 1 to {MAX_WINDOW_S}."
        )
