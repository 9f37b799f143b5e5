"""The state of a cluster in the /v1/clusters dialect, and its last operation: a total function of its row. Pure.

Nothing is written for an operation, so it is the same on every server and after every kill, whichever dialect began it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from brickyard.domain.clock import rfc3339
from brickyard.domain.cluster import Cluster, StartProgress, Target, public_state
from brickyard.domain.states import State
from brickyard.domain.terminations import TerminationReasonType
from brickyard.domain.v1.clusters import Operation, OperationKind, OperationPhase, PhaseStatus, V1ClusterState
from brickyard.plan.starts import begun_ms

_STATES = {
    State.PENDING: V1ClusterState.STARTING,
    State.RESTARTING: V1ClusterState.STARTING,
    State.RUNNING: V1ClusterState.RUNNING,
    State.RESIZING: V1ClusterState.RUNNING,
    State.TERMINATING: V1ClusterState.STOPPING,
    State.TERMINATED: V1ClusterState.STOPPED,
}


class _Step(NamedTuple):
    """A phase, and when it ended (epoch ms; 0: it has not). `said`: what is shown of it then. `failure`: why it failed, although
    the operation went on."""

    name: str
    ended: int
    said: str = ""
    failure: str = ""


def state_of(cluster: Cluster) -> V1ClusterState:
    """`error`: it ended although nobody asked for it."""
    state = _STATES[public_state(cluster)]
    return V1ClusterState.ERROR if state is V1ClusterState.STOPPED and failed(cluster) else state


def states_of(state: V1ClusterState) -> tuple[State, ...]:
    """The public states among which the clusters of a state are."""
    wanted = V1ClusterState.STOPPED if state is V1ClusterState.ERROR else state
    return tuple(public for public, shown in _STATES.items() if shown is wanted)


def failed(cluster: Cluster) -> bool:
    """Whether it has ended, or is ending, for a reason that is no success."""
    reason = cluster.termination_reason
    return cluster.target is Target.TERMINATED and reason is not None and reason.type is not TerminationReasonType.SUCCESS


def operation_of(cluster: Cluster, *, now: int, usual_ms: int | None = None) -> Operation | None:
    """The cluster's last operation; None if it was never started. `usual_ms`: how long starts of its kind usually take, if that
    is known.

    A start that failed is still a start; the end that it came to is a part of it.
    """
    if not cluster.launch_started_ms:
        return None
    up = cluster.ready_incarnation == cluster.incarnation
    if cluster.target is Target.TERMINATED and (up or not failed(cluster)):
        return _stop(cluster, now)
    begun, restart = cluster.launch_started_ms, cluster.start_ms != cluster.launch_started_ms
    broken = (cluster.terminating_ms or now) if cluster.target is Target.TERMINATED else 0
    left = None
    if not up and not broken and usual_ms is not None and not cluster.workbench.graceful.pending:
        left = max(1, round((usual_ms - (now - begun_ms(cluster))) / 1000))
    kind = OperationKind.RESTART if restart else OperationKind.START
    return _operation(cluster, kind, begun, _starting(cluster, begun, up=up, restart=restart), broken=broken, left=left)


def _starting(cluster: Cluster, begun: int, *, up: bool, restart: bool) -> Sequence[_Step]:
    progress = cluster.progress if cluster.progress.incarnation == cluster.incarnation else StartProgress()
    ready = cluster.last_restarted_ms if up else 0
    task = cluster.workbench.task
    mine = task.incarnation == cluster.incarnation and bool(task.number)
    restores, saves = mine and bool(task.restore), mine and restart and not task.restore
    waited = cluster.workbench.graceful.said if restart else ""
    acquired = progress.acquired_ms or ready  # a cluster that came up before these times were kept has none of them
    nodes = [_Step("acquiring_instances", acquired)]
    if restores:  # before there is a node
        restore = _Step("restoring_snapshot", 0 if task.failure else task.ended_ms)
        first = [_Step("stopping_processes", task.ready_ms, waited)] if restart else [_Step("validating_configuration", begun)]
        first += [restore, *nodes]
    elif saves:  # before there is a node of the new start
        said = f"Snapshot {task.save}" if task.save else "No checkpoint was asked for"
        saved = _Step("creating_checkpoint", 0 if task.failure else task.ended_ms, said)
        first = [_Step("stopping_processes", task.ready_ms, waited), saved, *nodes]
    elif restart:
        stopping = _Step("stopping_processes", acquired, waited)
        first = [stopping, _Step("creating_checkpoint", acquired, "No checkpoint was asked for")]
    else:
        first = [
            _Step("validating_configuration", begun),
            *nodes,
            _Step("restoring_snapshot", acquired, "No snapshot to restore"),
        ]
    return [
        *first,
        _Step("updating_configuration", progress.configured_ms or ready),
        _Step("starting_services", progress.served_ms or ready),
        _Step("health_checks", ready),
    ]


def _stop(cluster: Cluster, now: int) -> Operation:
    ended = cluster.terminated_ms if cluster.ended else 0
    begun = cluster.terminating_ms or ended or now
    task = cluster.workbench.task
    mine = task.incarnation == cluster.incarnation and not task.restore and bool(task.number)
    mine = mine and not 0 < task.ended_ms < begun  # else it was that of a restart
    wait = cluster.workbench.graceful
    if wait.generation and wait.since_ms >= begun:
        told, left, said = wait.told_ms or wait.over_ms, wait.over_ms, wait.said
    else:  # everything ended at once, when the nodes did
        told, left, said = begun, task.ready_ms if mine else ended, ""
    saved = _Step("creating_snapshot", left, "No snapshot was asked for")
    if mine and task.save:
        saved = _Step("creating_snapshot", task.ended_ms, f"Snapshot {task.save}", task.failure)
    steps = [
        _Step("notifying_processes", told),
        _Step("waiting_for_graceful_exit", left, said),
        saved,
        _Step("terminating_resources", ended),
        _Step("cleaning_up", ended),
    ]
    return _operation(cluster, OperationKind.STOP, begun, steps)


def _operation(
    cluster: Cluster, kind: OperationKind, begun: int, steps: Sequence[_Step], *, broken: int = 0, left: int | None = None
) -> Operation:
    """`broken`: when the operation failed, else 0."""
    phases, since = [], begun
    for step in steps:
        phases.append(_phase(cluster, step, since, broken))
        since = step.ended
    finished = broken or steps[-1].ended
    failed_at = broken or (finished if any(step.failure for step in steps) else 0)
    return Operation(
        id=f"{kind.value}-{cluster.cluster_id}-{cluster.incarnation}",
        kind=kind,
        status=PhaseStatus.FAILED if failed_at else PhaseStatus.COMPLETED if finished else PhaseStatus.IN_PROGRESS,
        started_at=rfc3339(begun),
        finished_at=rfc3339(finished) if finished else None,
        phases=phases,
        progress_percent=100 * sum(bool(step.ended) for step in steps) // len(steps),
        estimated_seconds_left=left,
    )


def _phase(cluster: Cluster, step: _Step, since: int, broken: int) -> OperationPhase:
    """The phase as it is shown. It began at `since` (0: it has not begun)."""
    status, finished, message = PhaseStatus.PENDING, step.ended, ""
    if step.ended:
        status, message = PhaseStatus.FAILED if step.failure else PhaseStatus.COMPLETED, step.failure or step.said
    elif since:
        status, finished = (PhaseStatus.FAILED, broken) if broken else (PhaseStatus.IN_PROGRESS, 0)
        message = cluster.state_message
    return OperationPhase(
        name=step.name,
        status=status,
        started_at=rfc3339(since) if since else None,
        finished_at=rfc3339(finished) if finished else None,
        message=message,
    )
