"""One pass over one run, inside a transaction: read, plan, write."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from brickyard.domain.clock import Ids
from brickyard.domain.cluster import Cluster, Instance, public_state
from brickyard.domain.events import ClusterEvent, ClusterSize, EventDetails, EventType
from brickyard.domain.run import Attempt, Phase, Run, Task
from brickyard.domain.spec import ClusterSpec
from brickyard.domain.states import ClusterSource
from brickyard.plan.attach import driver_instance
from brickyard.plan.run import ClusterFacts, NewCluster, RunPlan, plan_run
from brickyard.plan.starts import STARTING, job_finished, next_incarnation
from brickyard.store.tx import Tx


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt about which its driver is to be called."""

    run: Run
    task: Task
    attempt: Attempt
    driver: Instance


class Calls(msgspec.Struct, frozen=True, kw_only=True):
    """What is left to do once the pass is committed. `clusters` are those whose loop must look at them now."""

    begin: tuple[Call, ...] = ()
    look: tuple[Call, ...] = ()
    end: tuple[Call, ...] = ()
    clusters: tuple[str, ...] = ()
    follows: frozenset[str] = frozenset()  # clusters whose changes concern the run
    due_ms: int | None = None


def pass_over_run(tx: Tx, run_id: int, *, now: int, ids: Ids) -> Calls:
    """The rows of the run and of its clusters stay locked until the commit, so nothing comes between what was read and what is
    written. Clusters are locked in the order of their ids, so two runs that share some cannot wait for each other."""
    run = tx.runs.get(run_id)
    if run is None or run.ended_ms:
        if run is not None:
            tx.runs.schedule(run_id, None)
        return Calls()
    clusters: dict[str, Cluster] = {}
    drivers: dict[str, Instance] = {}
    for cluster_id in sorted(_concerned(run)):
        cluster = tx.clusters.get(cluster_id)
        if cluster is None or cluster.deleted_ms:
            continue
        clusters[cluster_id] = cluster
        if (driver := driver_instance(cluster, tx.instances.of_cluster(cluster_id))) is not None:
            drivers[cluster_id] = driver
    facts = {key: _facts(cluster, drivers.get(key)) for key, cluster in clusters.items()}
    decided = plan_run(run, facts, now=now)
    for new in decided.create:
        _create(tx, decided.run, new, now=now, ids=ids)
    for cluster_id in decided.start:
        _start(tx, clusters[cluster_id], decided.run, now=now, ids=ids)
    for cluster_id in decided.release:
        _release(tx, clusters[cluster_id], now=now)
    if decided.run != run:
        _write(tx, run, decided.run)
    tx.runs.schedule(run_id, decided.due_ms)
    return _calls(decided, drivers)


def _concerned(run: Run) -> set[str]:
    live = {each.cluster_id for task in run.tasks for each in task.attempts if each.phase is not Phase.DONE}
    coming = {task.spec.existing_cluster_id or "" for task in run.tasks if task.result is None}
    return (live | coming) - {""}


def _facts(cluster: Cluster, driver: Instance | None) -> ClusterFacts:
    return ClusterFacts(
        state=public_state(cluster),
        incarnation=cluster.incarnation,
        driver_id=driver.instance_id if driver is not None else "",
        message=cluster.state_message,
    )


def _write(tx: Tx, before: Run, after: Run) -> None:
    known = {task.task_run_id for task in before.tasks} | {each.task_run_id for task in before.tasks for each in task.attempts}
    made = [each.task_run_id for task in after.tasks for each in task.attempts if each.task_run_id not in known]
    tx.runs.insert_attempts(after.run_id, made)
    tx.runs.update(after)


def _calls(decided: RunPlan, drivers: Mapping[str, Instance]) -> Calls:
    tasks = {each.task_run_id: task for task in decided.run.tasks for each in task.attempts}

    def calls(attempts: list[Attempt]) -> tuple[Call, ...]:
        return tuple(
            Call(run=decided.run, task=tasks[each.task_run_id], attempt=each, driver=drivers[each.cluster_id])
            for each in attempts
        )

    made = {new.cluster_id for new in decided.create}
    return Calls(
        begin=calls(decided.begin),
        look=calls(decided.look),
        end=calls(decided.end),
        clusters=(*made, *decided.start, *decided.release),
        follows=frozenset() if decided.run.ended_ms else frozenset(_concerned(decided.run)),
        due_ms=decided.due_ms,
    )


def _create(tx: Tx, run: Run, new: NewCluster, *, now: int, ids: Ids) -> None:
    task = new.task
    spec, request = task.cluster or ClusterSpec(), task.spec.new_cluster or ClusterSpec()
    cluster = Cluster(
        cluster_id=new.cluster_id,
        creator_user_name=run.creator_user_name,
        source=ClusterSource.JOB,
        created_ms=now,
        start_ms=now,
        launch_started_ms=now,
        spec=spec,
        request=request,
        pool_tags=task.pool_tags,
        job_id=run.job_id,
        run_name=run.run_name,
        secret=ids.secret(),
        connect_token=ids.secret(),
        state_message=STARTING,
    )
    tx.clusters.insert(cluster)
    details = EventDetails(
        cluster_size=ClusterSize(num_workers=spec.num_workers, autoscale=spec.autoscale),
        attributes=msgspec.structs.replace(spec, num_workers=None, autoscale=None),
        job_run_name=run.run_name,
        user=run.creator_user_name,
    )
    _event(tx, new.cluster_id, EventType.CREATING, details, now)


def _start(tx: Tx, cluster: Cluster, run: Run, *, now: int, ids: Ids) -> None:
    details = EventDetails(job_run_name=run.run_name, user=run.creator_user_name)
    _event(tx, cluster.cluster_id, EventType.STARTING, details, now)
    started = next_incarnation(cluster, now=now, secret=ids.secret(), connect_token=ids.secret(), restarting=False)
    tx.clusters.update(started)
    tx.clusters.wake(cluster.cluster_id)


def _release(tx: Tx, cluster: Cluster, *, now: int) -> None:
    finished = job_finished(cluster)
    _event(tx, cluster.cluster_id, EventType.TERMINATING, EventDetails(reason=finished.termination_reason), now)
    tx.clusters.update(finished)
    tx.clusters.wake(cluster.cluster_id)


def _event(tx: Tx, cluster_id: str, kind: EventType, details: EventDetails, now: int) -> None:
    tx.events.append(ClusterEvent(cluster_id=cluster_id, timestamp=now, type=kind, details=details))
