"""How a request changes a cluster's desired state: the changed row and its events, or a refusal. Pure.

Every function takes the current cluster and returns a `Changed`. A refused request changes nothing: it raises InvalidState or
InvalidParameterValue. `clusters.commands` checks whether the caller may make the request, and looks up everything
else.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from brickyard.domain.cluster import Cluster, Target, is_single_node, public_state
from brickyard.domain.errors import Aborted, InvalidParameterValue, InvalidState
from brickyard.domain.events import ClusterEvent, EventDetails, EventDetailsCause, EventType
from brickyard.domain.libraries import ClusterLibrary
from brickyard.domain.policies import PolicyRow
from brickyard.domain.requests import CreateCluster, ResizeCluster
from brickyard.domain.run import Run
from brickyard.domain.spec import AutoScale, ClusterSpec
from brickyard.domain.states import ClusterSource, State
from brickyard.domain.terminations import TerminationReason, TerminationReasonCode, TerminationReasonType
from brickyard.plan import enforcement, graceful
from brickyard.plan.liveedit import restart_fields
from brickyard.plan.policies.governing import ALL_PURPOSE, NOTHING, Choice, compliance
from brickyard.plan.policy import DEFAULT_MAX_NODES
from brickyard.plan.spec import Offered, check_num_workers, check_range
from brickyard.plan.specifying import Specified, specify
from brickyard.plan.starts import STARTING, next_incarnation

MAX_PINNED = 100
MAX_IDEMPOTENCY_TOKEN = 64
_SHOWN = 140  # how many characters of a client's value a message repeats


class Changed(NamedTuple):
    """A cluster after a request, and its events. A request with nothing to do has none; an edit always has one."""

    cluster: Cluster
    events: tuple[ClusterEvent, ...] = ()


class Asked(NamedTuple):
    """Who makes the request, and when (epoch ms)."""

    user: str
    now: int


class Secrets(NamedTuple):
    """The secrets of one incarnation: Spark's authentication secret and the token of its Spark Connect server."""

    spark: str
    connect: str


def check_idempotency_token(token: str) -> None:
    if len(token) > MAX_IDEMPOTENCY_TOKEN:
        raise InvalidParameterValue(
            f"idempotency_token has {len(token)} characters; at most {MAX_IDEMPOTENCY_TOKEN} are allowed."
        )


def create(
    cluster_id: str, request: CreateCluster, asked: Asked, *, specified: Specified, secrets: Secrets, stopped: bool = False
) -> Changed:
    """A new cluster, to be started unless `stopped`."""
    token = request.idempotency_token or ""
    cluster = _new(cluster_id, specified, asked, secrets, source=ClusterSource.API, idempotency_token=token)
    if stopped:  # it has ended already: it never had a node
        cluster = msgspec.structs.replace(
            cluster,
            target=Target.TERMINATED,
            ended=True,
            launch_started_ms=0,
            terminating_ms=asked.now,
            terminated_ms=asked.now,
            termination_reason=_requested(asked),
            state_message="It has not been started yet",
        )
    return Changed(cluster, (_creating(cluster, asked),))


def start(cluster: Cluster, asked: Asked, *, secrets: Secrets) -> Changed:
    """Starts a terminated cluster at its last size."""
    _refuse_job_cluster(cluster, "started")
    _expect(cluster, State.TERMINATED)
    return _started(cluster, asked, secrets)


def restart(cluster: Cluster, asked: Asked, *, secrets: Secrets) -> Changed:
    """Restarts a running cluster. What runs on it ends."""
    _refuse_job_cluster(cluster, "restarted")
    _expect(cluster, State.RUNNING)
    updated, events = enforcement.applied(cluster, now=asked.now)
    restarted = _restarted(updated, asked, secrets)
    return Changed(restarted.cluster, events + restarted.events)


def terminate(cluster: Cluster, asked: Asked, *, why: str = "", grace_ms: int | None = 0) -> Changed:
    """Ends a cluster. `why`: what the user says about it. What runs on it may finish within `grace_ms`.

    If it is terminating already, what waits there waits no longer than that, or, with None, as long as before. Does nothing else
    then, or if it is terminated.
    """
    wait, until_ms = cluster.workbench.graceful, asked.now + (grace_ms or 0)
    if cluster.target is Target.TERMINATED:
        return Changed(cluster if grace_ms is None else graceful.shortened(cluster, until_ms=until_ms, now=asked.now))
    message = f"Termination requested by {asked.user}{f': {why}' if why else ''}"
    ended = terminated(cluster, asked.now, _requested(asked, why=why), message, user=asked.user)
    if not grace_ms or not (cluster.up or wait.pending):
        return ended
    generation = wait.generation if wait.pending else cluster.incarnation  # a restart may have begun to wait
    left_ms = min(grace_ms, wait.until_ms - asked.now) if wait.pending else grace_ms
    waits = graceful.begun(ended.cluster, generation=generation, now=asked.now, grace_ms=left_ms)
    return ended._replace(cluster=waits)


def shut_down(cluster: Cluster, *, why: str, now: int) -> Changed:
    """Ends a cluster because the server is stopping, which ends every node. `why` is a phrase."""
    if cluster.target is Target.TERMINATED:
        return Changed(cluster)
    reason = TerminationReason(
        code=TerminationReasonCode.CLOUD_PROVIDER_SHUTDOWN,
        type=TerminationReasonType.CLOUD_FAILURE,
        parameters={"databricks_error_message": why},
    )
    message = f"The workspace's server was stopped ({why}), and its nodes with it. Start the cluster again."
    return terminated(cluster, now, reason, message)


def permanently_delete(cluster: Cluster, asked: Asked) -> Changed:
    """Removes a cluster for good, ending it first if necessary."""
    if cluster.pinned_ms:
        raise InvalidParameterValue(
            f"Cluster {cluster.cluster_id} is pinned and cannot be permanently deleted: unpin the cluster first."
        )
    ended = terminate(cluster, asked)
    return ended._replace(cluster=msgspec.structs.replace(ended.cluster, deleted_ms=asked.now))


def check_expected(cluster: Cluster, expected: ClusterSpec | None) -> None:
    """Raises Aborted if the specification is no longer the one that a client has begun with; None: it does not say."""
    if expected is not None and expected != cluster.request:
        raise Aborted(
            f"The specification of cluster {cluster.cluster_id} has changed since: it is not expected_spec any more. Get it"
            " again, and repeat your changes."
        )


def edit(
    cluster: Cluster, requested: ClusterSpec, offered: Offered, asked: Asked, *, secrets: Secrets, unless_same: bool = False
) -> Changed:
    """Changes the specification. A running cluster restarts if a field has changed that needs it (`plan.liveedit`); a terminated
    one uses it at its next start.

    `unless_same`: if the specification is already in effect, only record it as the one that was sent.
    """
    _refuse_job_cluster(cluster, "edited")
    state = public_state(cluster)
    if state not in (State.RUNNING, State.TERMINATED):
        raise _unexpected(cluster)
    specified = _specified_anew(cluster, requested, offered, asked)
    edited = msgspec.structs.replace(cluster, spec=specified.spec, request=requested, pool_tags=specified.pool_tags)
    if unless_same and specified.spec == cluster.spec:
        return Changed(edited)
    edited = msgspec.structs.replace(edited, enforcement=None)  # the edit complies too, and is newer
    told = Changed(edited, (enforcement.edited(cluster, edited.spec, user=asked.user, now=asked.now),))
    if state is State.TERMINATED or not restart_fields(cluster.spec, edited.spec):
        return told
    restarted = _restarted(edited, asked, secrets)
    return Changed(restarted.cluster, told.events + restarted.events)


def defer(cluster: Cluster, requested: ClusterSpec, offered: Offered, asked: Asked) -> Changed:
    """Changes the specification when the cluster terminates or restarts. It is checked now."""
    _refuse_job_cluster(cluster, "edited")
    specified = _specified_anew(cluster, requested, offered, asked)
    done, event = enforcement.deferred(cluster, specified.spec, specified.pool_tags, user=asked.user, now=asked.now)
    return Changed(done, (event,))


def resize(
    cluster: Cluster,
    request: ResizeCluster,
    asked: Asked,
    *,
    policy: PolicyRow | None = None,
    choice: Choice = NOTHING,
    max_nodes: int = DEFAULT_MAX_NODES,
) -> Changed:
    """Sets another number of workers for a running cluster, or a range in which it follows its load. `policy` is the one that
    governs it, unless that was deleted: the new size must comply."""
    scale = request.autoscale if request.autoscale != AutoScale() else None
    if scale is None and request.num_workers is None:
        raise InvalidParameterValue("Missing required field: size")
    if scale is not None and request.num_workers:
        raise InvalidParameterValue("num_workers and autoscale are both given: a cluster has a size or a range. Leave one out.")
    _expect(cluster, State.RUNNING)
    resized = _resized(cluster, request.num_workers, scale, max_nodes=max_nodes)
    if resized.spec == cluster.spec and not cluster.grow_failures:
        return Changed(cluster)
    if policy is not None:
        _check_size(policy, cluster.spec, resized.spec, choice)
    wanted, cause = resized.num_workers, EventDetailsCause.USER_REQUEST
    if wanted == cluster.num_workers and not cluster.grow_failures:
        return Changed(resized)
    details = EventDetails(current_num_workers=cluster.ready_workers, target_num_workers=wanted, cause=cause, user=asked.user)
    resized = msgspec.structs.replace(
        resized, sized=False, resize_cause=cause, grow_failures=0, grow_after_ms=0, state_message=""
    )
    return Changed(resized, (_event(cluster, asked.now, EventType.RESIZING, details),))


def _check_size(policy: PolicyRow, before: ClusterSpec, after: ClusterSpec, choice: Choice) -> None:
    """Raises InvalidParameterValue for what the new size violates, and the size before did not."""
    old = {each.path: each for each in compliance(policy, before, choice, cluster_type=ALL_PURPOSE)}
    new = compliance(policy, after, choice, cluster_type=ALL_PURPOSE)
    if found := [str(each) for each in new if each != old.get(each.path)]:
        raise InvalidParameterValue("; ".join(found))


def pin(cluster: Cluster, asked: Asked, *, pinned: int) -> Changed:
    """Pins a cluster, so that it stays in the list however long it has been terminated. `pinned`: how many are pinned."""
    if cluster.pinned_ms:
        return Changed(cluster)
    if pinned >= MAX_PINNED:
        raise InvalidParameterValue(f"{MAX_PINNED} clusters are pinned, which is the maximum. Unpin one first.")
    event = _event(cluster, asked.now, EventType.PINNED, EventDetails(user=asked.user))
    return Changed(msgspec.structs.replace(cluster, pinned_ms=asked.now), (event,))


def unpin(cluster: Cluster, asked: Asked) -> Changed:
    """Undoes a pin."""
    if not cluster.pinned_ms:
        return Changed(cluster)
    event = _event(cluster, asked.now, EventType.UNPINNED, EventDetails(user=asked.user))
    return Changed(msgspec.structs.replace(cluster, pinned_ms=0, unpinned_ms=asked.now), (event,))


def with_schedules(cluster: Cluster, schedules: int, now: int) -> Cluster:
    """The cluster with so many schedules. It is kept as long as it has some; its retention begins when the last one goes."""
    workbench = msgspec.structs.replace(cluster.workbench, schedules=schedules)
    kept = cluster.unpinned_ms if schedules else now
    return msgspec.structs.replace(cluster, workbench=workbench, unpinned_ms=kept)


def change_owner(cluster: Cluster, owner: str, *, exists: bool) -> Changed:
    """Gives a terminated cluster to another user. `exists`: whether that is an active user."""
    _expect(cluster, State.TERMINATED)
    if not exists:
        raise InvalidParameterValue(f"owner_username {owner} is not an active user of this workspace.")
    return Changed(msgspec.structs.replace(cluster, creator_user_name=owner))


# -- for runs --------------------------------------------------------------------------------------------------------


def create_for_run(
    cluster_id: str, specified: Specified, run: Run, now: int, *, secrets: Secrets, libraries: tuple[ClusterLibrary, ...] = ()
) -> Changed:
    """A new job cluster of a run."""
    asked = Asked(run.creator_user_name, now)
    job = {"source": ClusterSource.JOB, "job_id": run.job_id, "run_name": run.run_name, "libraries": libraries}
    cluster = _new(cluster_id, specified, asked, secrets, **job)
    return Changed(cluster, (_creating(cluster, asked, run=run),))


def start_for_run(cluster: Cluster, run: Run, now: int, *, secrets: Secrets) -> Changed:
    """Starts a terminated cluster because a task is to run on it."""
    return _started(cluster, Asked(run.creator_user_name, now), secrets, run=run)


def end_for_run(cluster: Cluster, now: int) -> Changed:
    """Ends a cluster because the run it was created for is over."""
    reason = TerminationReason(code=TerminationReasonCode.JOB_FINISHED, type=TerminationReasonType.SUCCESS)
    return terminated(cluster, now, reason, "The run this cluster was created for has ended")


def terminated(cluster: Cluster, now: int, reason: TerminationReason, message: str, *, user: str | None = None) -> Changed:
    """The cluster, which ends for that reason. `user`: who has asked for it."""
    event = _event(cluster, now, EventType.TERMINATING, EventDetails(reason=reason, user=user))
    ended = msgspec.structs.replace(
        graceful.shortened(cluster, until_ms=now, now=now),
        target=Target.TERMINATED,
        ended=False,
        restarting=False,
        terminating_ms=now,
        termination_reason=reason,
        state_message=message,
    )
    return Changed(ended, (event,))


# -- inside ----------------------------------------------------------------------------------------------------------


def _specified_anew(cluster: Cluster, requested: ClusterSpec, offered: Offered, asked: Asked) -> Specified:
    """The effective specification of an existing cluster. A single-user cluster keeps its user, whoever edits it."""
    offered = msgspec.structs.replace(offered, users=offered.users | {asked.user})
    return specify(requested, offered, user=cluster.spec.single_user_name or asked.user)


def _new(cluster_id: str, specified: Specified, asked: Asked, secrets: Secrets, **fields: Any) -> Cluster:
    return Cluster(
        cluster_id=cluster_id,
        creator_user_name=asked.user,
        created_ms=asked.now,
        start_ms=asked.now,
        launch_started_ms=asked.now,
        spec=specified.spec,
        request=specified.requested,
        pool_tags=specified.pool_tags,
        secret=secrets.spark,
        connect_token=secrets.connect,
        state_message=STARTING,
        **fields,
    )


def _creating(cluster: Cluster, asked: Asked, *, run: Run | None = None) -> ClusterEvent:
    details = EventDetails(
        cluster_size=enforcement.size_of(cluster.spec),
        attributes=enforcement.attributes_of(cluster.spec),
        job_run_name=_name(run),
        user=asked.user,
    )
    return _event(cluster, asked.now, EventType.CREATING, details)


def _started(cluster: Cluster, asked: Asked, secrets: Secrets, *, run: Run | None = None) -> Changed:
    event = _event(cluster, asked.now, EventType.STARTING, EventDetails(job_run_name=_name(run), user=asked.user))
    return Changed(_next(cluster, asked, secrets, restarting=False), (event,))


def _name(run: Run | None) -> str | None:
    return run.run_name if run is not None else None


def _restarted(cluster: Cluster, asked: Asked, secrets: Secrets) -> Changed:
    event = _event(cluster, asked.now, EventType.RESTARTING, EventDetails(user=asked.user))
    return Changed(_next(cluster, asked, secrets, restarting=True), (event,))


def _next(cluster: Cluster, asked: Asked, secrets: Secrets, *, restarting: bool) -> Cluster:
    return next_incarnation(cluster, now=asked.now, secret=secrets.spark, connect_token=secrets.connect, restarting=restarting)


def _requested(asked: Asked, *, why: str = "") -> TerminationReason:
    said = {"stop_reason": why} if why else {}
    return TerminationReason(
        code=TerminationReasonCode.USER_REQUEST, type=TerminationReasonType.SUCCESS, parameters={"username": asked.user, **said}
    )


def _resized(cluster: Cluster, num_workers: int | None, scale: AutoScale | None, *, max_nodes: int) -> Cluster:
    """The cluster with another size, or with a range, to which its current size is clamped."""
    single = is_single_node(cluster.spec)
    if scale is not None:
        check_range(scale, single=single, max_nodes=max_nodes)
        num_workers = None
    elif num_workers is not None:
        check_num_workers(num_workers, single=single, max_nodes=max_nodes)
    return msgspec.structs.replace(
        cluster,
        spec=msgspec.structs.replace(cluster.spec, num_workers=num_workers, autoscale=scale),
        request=msgspec.structs.replace(cluster.request, num_workers=num_workers, autoscale=scale),
        target_workers=cluster.num_workers if scale is not None else 0,
    )


def _refuse_job_cluster(cluster: Cluster, verb: str) -> None:
    if cluster.source is ClusterSource.JOB:
        raise InvalidState(
            f"Cluster {cluster.cluster_id} is a job cluster: it was created for one run, ends with it, and cannot be {verb}."
            " Submit another run, or create your own cluster."
        )


def _expect(cluster: Cluster, state: State) -> None:
    if public_state(cluster) is not state:
        raise _unexpected(cluster)


def _unexpected(cluster: Cluster) -> InvalidState:
    return InvalidState(f"Cluster {cluster.cluster_id} is in unexpected state {public_state(cluster).value.capitalize()}.")


def _event(cluster: Cluster, now: int, kind: EventType, details: EventDetails) -> ClusterEvent:
    return ClusterEvent(cluster_id=cluster.cluster_id, timestamp=now, type=kind, details=details)
