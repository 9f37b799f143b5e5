"""Compares a cold and a warm start: creates the same cluster twice on an instance pool, using only the official SDK.

The pool begins empty, so the first cluster starts its instances and JVMs. The instances it returns become warm, and the second
cluster takes them. The pool stays, and empties itself when unused. Slow to import.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import NamedTuple

from databricks.sdk import WorkspaceClient
from databricks.sdk.errors.base import DatabricksError
from databricks.sdk.service.compute import ClusterDetails, EventType, GetInstancePool, State

from brickyard.cli.interrupts import held_back
from brickyard.cli.progress import Say

NAME = "quickstart"
NODES = 2  # a driver and a worker
IDLE_MINUTES = 10
LIMIT_S = 600.0
_LOOK_S = 0.05


class Starts(NamedTuple):
    """Seconds from request to RUNNING; `cold_s` is None if the pool was warm already. `remark`: the warm cluster's message."""

    cold_s: float | None
    warm_s: float
    remark: str


class NotShown(Exception):
    """The machine has no room for it or cannot prepare it; the message says why."""


class WarmPool:
    """Creates the pool and the two clusters, and removes them on request."""

    def __init__(self, w: WorkspaceClient, *, runtime: str, node_type: str, say: Say) -> None:
        self._w = w
        self._runtime = runtime
        self._node_type = node_type
        self._say = say
        self._pool_id = ""
        self._made_pool = False
        self._cluster_id = ""

    def show(self) -> Starts:
        """Performs both starts. Raises NotShown."""
        self._have_pool()
        cold_s = None
        if (self._pool().stats.idle_count or 0) < NODES:  # type: ignore[union-attr] # `get` always has stats
            cold_s, _ = self._start("cold")
        self._become_warm()
        warm_s, remark = self._start("warm")
        return Starts(cold_s, warm_s, remark)

    def take_back(self) -> None:
        """Removes what this run created and would leave behind."""
        with contextlib.suppress(DatabricksError, OSError):
            if self._cluster_id:
                self._w.clusters.permanent_delete(self._cluster_id)
        with contextlib.suppress(DatabricksError, OSError):
            if self._made_pool:
                self._w.instance_pools.delete(self._pool_id)

    def _have_pool(self) -> None:
        for each in self._w.instance_pools.list():
            same = (each.node_type_id, each.preloaded_spark_versions) == (self._node_type, [self._runtime])
            if each.instance_pool_name == self._name and same:
                self._pool_id = str(each.instance_pool_id)
                self._say(f"  instance pool {self._pool_id} is there")
                return
        with held_back():
            made = self._w.instance_pools.create(
                instance_pool_name=self._name,
                node_type_id=self._node_type,
                max_capacity=NODES,
                idle_instance_autotermination_minutes=IDLE_MINUTES,
                preloaded_spark_versions=[self._runtime],
            )
            self._pool_id, self._made_pool = str(made.instance_pool_id), True
        self._say(f"  created instance pool {self._name!r} of {NODES} {self._node_type}, preloading {self._runtime}")

    @property
    def _name(self) -> str:
        return f"{NAME} {self._runtime} {self._node_type}"

    def _pool(self) -> GetInstancePool:
        return self._w.instance_pools.get(self._pool_id)

    def _start(self, kind: str) -> tuple[float, str]:
        """Creates a cluster on the pool, waits until it runs, and removes it; returns the seconds and its message."""
        began = time.monotonic()
        with held_back():
            self._cluster_id = str(
                self._w.clusters.create(
                    cluster_name=f"{NAME} ({kind})",
                    spark_version=self._runtime,
                    instance_pool_id=self._pool_id,
                    num_workers=NODES - 1,
                    autotermination_minutes=IDLE_MINUTES,
                ).cluster_id
            )
        self._until(lambda: self._runs(self._w.clusters.get(self._cluster_id)))
        seconds = time.monotonic() - began
        self._say(f"  {kind} start: {seconds:.2f} s")
        running = next((each for each in self._w.clusters.events(self._cluster_id) if each.type is EventType.RUNNING), None)
        remark = (running.details.driver_state_message if running and running.details else None) or ""
        self._w.clusters.permanent_delete(self._cluster_id)
        self._cluster_id = ""
        self._until(lambda: not self._pool().stats.used_count)  # type: ignore[union-attr] # `get` always has stats
        return seconds, remark

    def _become_warm(self) -> None:
        self._say("  the instances go back to the pool and prepare Spark again")

        def warm() -> bool:
            found = self._pool()
            if found.status and found.status.pending_instance_errors:
                raise NotShown(found.status.pending_instance_errors[0].message or "an instance could not be prepared")
            return (found.stats.idle_count or 0) >= NODES  # type: ignore[union-attr] # `get` always has stats

        self._until(warm)

    def _runs(self, found: ClusterDetails) -> bool:
        if found.state in (State.TERMINATED, State.TERMINATING, State.ERROR):
            raise NotShown(found.state_message or "the cluster did not start")
        return found.state is State.RUNNING

    def _until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + LIMIT_S
        while not condition():
            if time.monotonic() > deadline:
                raise NotShown(f"it took more than {LIMIT_S:.0f} s")
            time.sleep(_LOOK_S)
