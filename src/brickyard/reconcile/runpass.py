"""One pass over one run, inside a transaction: read, plan, write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from brickyard.domain.clock import Ids
from brickyard.domain.cluster import Cluster, Instance, public_state
from brickyard.domain.identity import task_token_id
from brickyard.domain.run import Attempt, AttemptPhase, Conclusion, Run, Task, TriggerType
from brickyard.plan.attach import driver_instance, finishing_driver
from brickyard.plan.autoterminate import used_by_run
from brickyard.plan.changes import Changed, Secrets, create_for_run, end_for_run, start_for_run
from brickyard.plan.childruns import conclusion_of
from brickyard.plan.libraries import governed, known, statuses
from brickyard.plan.runfacts import ClusterFacts
from brickyard.plan.runplan import RunPlan
from brickyard.plan.submit import libraries
from brickyard.reconcile.notices import told
from brickyard.reconcile.runrights import Rights, plan_rightly
from brickyard.store.tx import Tx

_CONTINUOUS = (TriggerType.CONTINUOUS, TriggerType.CONTINUOUS_RESTART)


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt that its driver is to be called about."""

    run: Run
    task: Task
    attempt: Attempt
    driver: Instance


class ChildCall(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt whose run of another job is to be made or cancelled."""

    run: Run
    attempt: Attempt


class Calls(msgspec.Struct, frozen=True, kw_only=True):
    """What remains to be done once the pass is committed. `clusters` are those whose loop must look at them now."""

    begin: tuple[Call, ...] = ()
    look: tuple[Call, ...] = ()
    end: tuple[Call, ...] = ()
    make: tuple[ChildCall, ...] = ()
    cancel: tuple[ChildCall, ...] = ()
    clusters: tuple[str, ...] = ()
    runs: tuple[int, ...] = ()  # another run of the job, whose turn has come, and the one that waits for this one
    follows: frozenset[str] = frozenset()  # clusters whose changes concern the run
    due_ms: int | None = None


def pass_over_run(tx: Tx, run_id: int, *, now: int, ids: Ids, rights: Rights) -> Calls:
    """The rows of the run and its clusters stay locked until the commit, so nothing changes between the read and the write.
    Clusters are locked in the order of their ids, so two runs that share some cannot deadlock."""
    run = tx.runs.get(run_id)
    if run is None or run.ended_ms:
        return _over(tx, run, now)
    clusters: dict[str, Cluster] = {}
    drivers: dict[str, Instance] = {}
    facts: dict[str, ClusterFacts] = {}
    for cluster_id in sorted(_concerned(run)):
        cluster = tx.clusters.get(cluster_id)
        if cluster is None or cluster.deleted_ms:
            continue
        clusters[cluster_id] = cluster
        nodes = list(tx.instances.of_cluster(cluster_id))
        if (driver := finishing_driver(cluster, nodes) or driver_instance(cluster, nodes)) is not None:
            drivers[cluster_id] = driver
        facts[cluster_id] = _facts(cluster, driver, nodes)
    turn = run.queued and not run.cancelled_ms and tx.runs.active_before(run) < run.max_concurrent
    waiting = msgspec.structs.replace(run, queued=False, dequeued_ms=now) if turn else run
    decided = plan_rightly(tx, waiting, facts, clusters, rights, now=now, children=_children(tx, run))
    for new in decided.create:
        wanted = known(tuple(dict.fromkeys(each for task in new.users for each in libraries(task.spec))))
        made = create_for_run(new.cluster_id, new.specified, decided.run, now, secrets=_secrets(ids), libraries=wanted)
        _record(tx, _governed(tx, made), new=True)
    for cluster_id in decided.start:
        _record(tx, _governed(tx, start_for_run(clusters[cluster_id], decided.run, now, secrets=_secrets(ids))))
    for cluster_id in decided.release:
        _record(tx, end_for_run(clusters[cluster_id], now))
    for cluster_id in decided.wait:
        if (used := used_by_run(clusters[cluster_id], now)) is not None:
            tx.clusters.update(used)
    decided.run, warning_ms = told(tx, decided.run, now=now)
    decided.due_ms = min((each for each in (decided.due_ms, warning_ms) if each is not None), default=None)
    if decided.run != run:
        _write(tx, run, decided)
    tx.runs.schedule(run_id, decided.due_ms)
    calls = _calls(decided, drivers)
    if decided.run.ended_ms:
        _rest(tx, decided.run)
        waiting_for_it = (run.parent.run_id,) if run.parent is not None else ()
        following = tx.runs.first_waiting(run) if run.max_concurrent else None
        if following is not None:
            tx.runs.wake(following)
        calls = msgspec.structs.replace(calls, runs=(*waiting_for_it, *((following,) if following is not None else ())))
    return calls


def _over(tx: Tx, run: Run | None, now: int) -> Calls:
    """A run that was over before it began may have something to tell, too."""
    if run is not None:
        if (after := told(tx, run, now=now)[0]) != run:
            tx.runs.update(after)
        _rest(tx, run)
    return Calls()


def _rest(tx: Tx, ended: Run) -> None:
    """Looks at a run no more, and has its job begin another one if there is always one."""
    tx.runs.schedule(ended.run_id, None)
    if ended.trigger in _CONTINUOUS:
        tx.runs.wake_job(ended.job_id)


def _children(tx: Tx, run: Run) -> dict[int, Conclusion | None]:
    """The runs that the run's attempts wait for, and how the attempts end if those have ended. They are not locked: only a repair
    makes one active again, and then the attempt goes on waiting."""
    attempts = [each for task in run.all_tasks for each in task.attempts if each.phase is not AttemptPhase.DONE]
    ended = tx.runs.ended_among([each.child_run_id for each in attempts if each.child_run_id])
    return {run_id: None if child is None else conclusion_of(child) for run_id, child in ended.items()}


def _concerned(run: Run) -> set[str]:
    live = {each.cluster_id for task in run.all_tasks for each in task.attempts if each.phase is not AttemptPhase.DONE}
    coming = {task.spec.work.existing_id for task in run.tasks if task.result is None}
    shared = {each.cluster_id for each in run.shared}
    return (live | coming | shared) - {""}


def _facts(cluster: Cluster, driver: Instance | None, nodes: Sequence[Instance]) -> ClusterFacts:
    wait = cluster.workbench.graceful
    return ClusterFacts(
        state=public_state(cluster),
        incarnation=cluster.incarnation,
        driver_id=driver.instance_id if driver is not None else "",
        message=cluster.state_message,
        libraries=tuple(statuses(cluster, nodes)) if cluster.libraries else (),
        finishing=wait.generation if wait.pending and driver is not None else 0,
    )


def _write(tx: Tx, before: Run, decided: RunPlan) -> None:
    known = {task.task_run_id for task in before.all_tasks}
    known |= {each.task_run_id for task in before.all_tasks for each in task.attempts}
    after = (*decided.run.all_tasks, *decided.over)
    made = [each.task_run_id for task in after for each in task.attempts if each.task_run_id not in known]
    tx.runs.insert_attempts(before.run_id, made)
    tx.runs.keep_iterations(decided.over)
    tx.runs.update(decided.run)
    for each in decided.done:
        tx.tokens.delete(task_token_id(each))


def _calls(decided: RunPlan, drivers: Mapping[str, Instance]) -> Calls:
    tasks = {each.task_run_id: task for task in decided.run.all_tasks for each in task.attempts}

    def calls(attempts: list[Attempt]) -> tuple[Call, ...]:
        return tuple(
            Call(run=decided.run, task=tasks[each.task_run_id], attempt=each, driver=drivers[each.cluster_id])
            for each in attempts
        )

    def child_calls(attempts: list[Attempt]) -> tuple[ChildCall, ...]:
        return tuple(ChildCall(run=decided.run, attempt=each) for each in attempts)

    made = {new.cluster_id for new in decided.create}
    return Calls(
        begin=calls(decided.begin),
        look=calls(decided.look),
        end=calls(decided.end),
        make=child_calls(decided.make),
        cancel=child_calls(decided.cancel),
        clusters=(*made, *decided.start, *decided.release),
        follows=frozenset() if decided.run.ended_ms else frozenset(_concerned(decided.run)),
        due_ms=decided.due_ms,
    )


def _governed(tx: Tx, started: Changed) -> Changed:
    """A cluster that starts, with the libraries of its policy. A default policy that nobody has edited has none, and no row."""
    policy_id = started.cluster.spec.policy_id
    return started._replace(cluster=governed(started.cluster, tx.policies.get(policy_id) if policy_id else None))


def _record(tx: Tx, changed: Changed, *, new: bool = False) -> None:
    """Writes a changed cluster, and wakes its loop."""
    if new:
        tx.clusters.insert(changed.cluster)
    else:
        tx.clusters.update(changed.cluster)
        tx.clusters.wake(changed.cluster.cluster_id)
    for event in changed.events:
        tx.events.append(event)


def _secrets(ids: Ids) -> Secrets:
    return Secrets(spark=ids.secret(), connect=ids.secret())
