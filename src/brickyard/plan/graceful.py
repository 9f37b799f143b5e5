"""A stop or restart that lets finish what runs on the cluster, for some minutes at most. Pure.

The cluster is stopping, or starting again, from the request on: nothing new begins on it. Its nodes go on until the driver says
that nothing runs any more, or the time is over. The cluster's pass waits for that (`plan/cluster/ending.py`), so a server may be
killed meanwhile. Whatever ends the cluster at once, also ends the wait.
"""

from __future__ import annotations

import math

import msgspec

from brickyard.domain.cluster import Cluster, GracefulStop

_MINUTE_MS = 60_000


def begun(cluster: Cluster, *, generation: int, now: int, grace_ms: int) -> Cluster:
    """The cluster, whose nodes of that incarnation go on for so long at most."""
    before = cluster.state_message
    wait = GracefulStop(generation=generation, since_ms=now, until_ms=now + grace_ms, before=before)
    return _with(cluster, wait)


def shortened(cluster: Cluster, *, until_ms: int, now: int) -> Cluster:
    """The cluster, whose wait ends at that time at the latest. It gets no longer."""
    wait = cluster.workbench.graceful
    if not wait.pending or until_ms >= wait.until_ms:
        return cluster
    if until_ms <= now:
        return over(cluster, now=now, said="The wait was cut short")
    return _with(cluster, msgspec.structs.replace(wait, until_ms=until_ms))


def told(cluster: Cluster, *, now: int) -> Cluster:
    """The cluster, whose users' programs have been told."""
    wait = cluster.workbench.graceful
    return cluster if wait.told_ms else _with(cluster, msgspec.structs.replace(wait, told_ms=now))


def over(cluster: Cluster, *, now: int, said: str, message: str = "") -> Cluster:
    """The cluster, whose nodes need not go on. `message`: added to the cluster's own."""
    wait = cluster.workbench.graceful
    ended = msgspec.structs.replace(wait, over_ms=now, said=said)
    shown = wait.before + (f"; {message}" if message else "")
    return msgspec.structs.replace(
        cluster, workbench=msgspec.structs.replace(cluster.workbench, graceful=ended), state_message=shown
    )


def late(wait: GracefulStop) -> str:
    """What is said of a wait whose time is over."""
    return f"commands still running after {_length(wait)} were ended"


def _with(cluster: Cluster, wait: GracefulStop) -> Cluster:
    """The cluster with this wait, which its message names."""
    message = f"waiting up to {_length(wait)} for running commands to finish"
    stops = wait.generation == cluster.incarnation  # else it restarts, and its message is about the nodes that come then
    message = f"{wait.before}; {message}" if stops else message.capitalize()
    workbench = msgspec.structs.replace(cluster.workbench, graceful=wait)
    return msgspec.structs.replace(cluster, workbench=workbench, state_message=message)


def _length(wait: GracefulStop) -> str:
    minutes = max(1, math.ceil((wait.until_ms - wait.since_ms) / _MINUTE_MS))
    return f"{minutes} min"
