"""Creates runs, from submitted tasks and from jobs, within the caller's transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec

from brickyard.access import Authorizer
from brickyard.access.objects import of_cluster
from brickyard.clusters.missing import existing_cluster
from brickyard.clusters.policies import check_room, find_policy
from brickyard.domain.access import Permission, Principal
from brickyard.domain.clock import Clock, Ids
from brickyard.domain.cluster import Cluster
from brickyard.domain.errors import InvalidParameterValue, InvalidState, PermissionDenied
from brickyard.domain.notifications import Notifying
from brickyard.domain.run import NewRun, Run, RunResultState, RunType, SharedCluster, Task
from brickyard.domain.spec import ClusterSpec
from brickyard.domain.states import ClusterSource
from brickyard.domain.tasks import SubmitTask
from brickyard.features.runs.rights import client_of
from brickyard.features.runs.taskfiles import TaskFiles
from brickyard.plan.attach import Client, attach_refusal, cluster_refusal
from brickyard.plan.libraries import check_enforced, install
from brickyard.plan.repairs import repaired, with_clusters
from brickyard.plan.runids import child_run_id, task_run_id
from brickyard.plan.specifying import Specified
from brickyard.plan.submit import UNTITLED, libraries, task_file
from brickyard.store.tx import Tx

Specify = Callable[[Tx, Principal, ClusterSpec], Specified]  # ClusterCommands.specify
SKIPPED = "The job has max_concurrent_runs active runs, and its runs are not queued."


class Receivers(Protocol):
    """Those who know how people and programs are told of runs (`features.notifications`)."""

    def check(self, tx: Tx, notifying: Notifying) -> None:
        """Raises InvalidParameterValue unless all that are named can be told."""
        ...


class RunMaker:
    """One per server. Methods raise ApiError."""

    def __init__(
        self,
        *,
        clock: Clock,
        ids: Ids,
        authorizer: Authorizer,
        specify: Specify,
        files: TaskFiles,
        receivers: Receivers,
    ) -> None:
        self._clock = clock
        self._ids = ids
        self._authorizer = authorizer
        self._specify = specify
        self._files = files
        self._receivers = receivers

    def check(self, tx: Tx, principal: Principal, new: NewRun) -> None:
        """Raises if the run could not be made now with the principal's rights. The clusters that exist need not exist yet."""
        self._check_files(new)
        self.check_receivers(tx, new)
        self._specified(tx, principal, new, "job")

    def check_receivers(self, tx: Tx, new: NewRun) -> None:
        """Raises unless those who are to hear of the run can be told."""
        for notifying in (new.notifying, *new.tasks):
            self._receivers.check(tx, notifying)

    def make(self, tx: Tx, principal: Principal, new: NewRun) -> Run:
        """Inserts a run with the principal's rights, due at once. A job's run beyond `max_concurrent` waits or is skipped."""
        # Lock existing clusters before the pools of job clusters, as everywhere: different lock orders would deadlock.
        self._check_files(new)
        self._check_all_existing(tx, principal, new)
        run = self._run(principal.user_name, new)
        owned, shared = self._specified(tx, principal, new, f"job-{run.job_id}-run-{run.run_id}")
        run = msgspec.structs.replace(
            run,
            shared=_shared(shared),
            tasks=tuple(_on(task, own) for task, own in zip(run.tasks, owned, strict=True)),
        )
        active = 0
        if new.job_id:
            active, at_ms = self._turn(tx, new.job_id)
            run = msgspec.structs.replace(run, created_ms=at_ms)
        if new.job_id and active >= new.max_concurrent:
            reached = RunResultState.MAXIMUM_CONCURRENT_RUNS_REACHED
            run = msgspec.structs.replace(run, queued=True) if new.queue and new.max_concurrent else _over(run, reached, SKIPPED)
        if not (run.queued or run.ended_ms):
            self._check_room(tx, run)
        tx.runs.insert(run)
        return run

    def repair(self, tx: Tx, principal: Principal, run: Run, new: NewRun) -> int:
        """Begins the run anew with the tasks of `new`, which are some of its own, and returns the id of the repair."""
        self._check_files(new)
        self._check_all_existing(tx, principal, new)
        repair_id = self._ids.number()
        owned, shared = self._specified(tx, principal, new, f"job-{run.job_id}-run-{run.run_id}")
        active, at_ms = self._turn(tx, run.job_id)
        run = repaired(run, new, repair_id=repair_id, at_ms=at_ms)
        on = {task.task_key: own for task, own in zip(new.tasks, owned, strict=True)}
        tasks = tuple(_on(task, on[task.spec.task_key]) if task.spec.task_key in on else task for task in run.tasks)
        run = with_clusters(msgspec.structs.replace(run, tasks=tasks), _shared(shared))
        if new.job_id and active >= new.max_concurrent:
            if not (new.queue and new.max_concurrent):
                raise InvalidState(f"The run cannot be repaired now. {SKIPPED}")
            run = msgspec.structs.replace(run, queued=True)
        else:
            self._check_room(tx, run)
        tx.runs.insert_attempts(run.run_id, (task.task_run_id for task in run.tasks if task.spec.task_key in on))
        tx.runs.update(run)
        tx.runs.wake(run.run_id)
        return repair_id

    def fail(self, tx: Tx, user_name: str, new: NewRun, message: str) -> Run:
        """Inserts a run of the user that has failed before it began."""
        run = _over(self._run(user_name, new), RunResultState.FAILED, message)
        tx.runs.insert(run)
        return run

    def made(self, tx: Tx, user_name: str, token: str, *, job_id: int = 0) -> int | None:
        """The run of the user with that idempotency token: one of the job, or, without one, a submitted run. Of two concurrent
        calls, the second one finds the row of the first. The token of a deleted run is refused, as Databricks documents."""
        tx.lock(f"run-idempotency/{user_name}/{token}")
        if (same := tx.runs.by_idempotency_token(token, user_name, job_id)) is not None:
            return same
        if (deleted := tx.runs.spent(token, user_name, job_id)) is not None:
            raise InvalidParameterValue(
                f"idempotency_token {token!r} belongs to run {deleted}, which was deleted. Submit with another token to run the "
                "tasks again."
            )
        return None

    # -- inside ------------------------------------------------------------------------------------------------------

    def _run(self, user_name: str, new: NewRun) -> Run:
        """A run without its job clusters."""
        run_id = child_run_id(new.parent.task_run_id) if new.parent is not None else self._ids.number()
        return Run(
            run_id=run_id,
            job_id=new.job_id or self._ids.number(),
            run_name=new.run_name or UNTITLED,
            creator_user_name=user_name,
            created_ms=self._clock.now_ms(),
            type=RunType.JOB_RUN if new.job_id else RunType.SUBMIT_RUN,
            trigger=new.trigger,
            parent=new.parent,
            triggered_by=new.triggered_by,
            notifying=new.notifying,
            parameters=new.parameters,
            overrides=new.overrides,
            max_concurrent=new.max_concurrent,
            description=new.description,
            timeout_seconds=new.timeout_seconds,
            task_retries=new.task_retries,
            idempotency_token=new.idempotency_token,
            tasks=tuple(Task(task_run_id=task_run_id(run_id, number, 0), spec=task) for number, task in enumerate(new.tasks)),
        )

    def _turn(self, tx: Tx, job_id: int) -> tuple[int, int]:
        """How many runs of the job are active, and the time of a new one's turn: clocks of several servers may not agree."""
        active, newest = tx.runs.turns(job_id)
        return active, max(self._clock.now_ms(), newest + 1)

    def _specified(
        self, tx: Tx, principal: Principal, new: NewRun, prefix: str
    ) -> tuple[list[Specified | None], dict[str, Specified]]:
        """The job cluster of each task, and those that tasks share by their keys."""
        used = {task.work.job_cluster_key for task in new.tasks if task.work.new_cluster is None}
        requested = {each.job_cluster_key: each.new_cluster for each in new.job_clusters if each.job_cluster_key in used}
        shared = {
            key: self._job_cluster(tx, principal, _named(spec, f"{prefix}-{key}", new.tags), f"Job cluster {key}")
            for key, spec in requested.items()
        }
        found: list[Specified | None] = []
        for task in new.tasks:
            where, work = f"Task {task.task_key}", task.work
            if work.new_cluster is not None:
                named = _named(work.new_cluster, f"{prefix}-{task.task_key}", new.tags)
                own: Specified | None = self._job_cluster(tx, principal, named, where)
            else:
                own = shared.get(work.job_cluster_key) if work.job_cluster_key else None
            if own is not None:
                check_enforced(libraries(task), find_policy(tx, own.spec.policy_id))
            found.append(own)
        return found, shared

    def _job_cluster(self, tx: Tx, principal: Principal, asked: ClusterSpec, where: str) -> Specified:
        """The specification of a job cluster. It ends with its run, so it needs no autotermination."""
        specified = self._specify(tx, principal, asked)
        name = asked.cluster_name or ""
        if why := attach_refusal(specified.spec, cluster_id=name, user_name=principal.user_name, client=Client.JOBS):
            raise InvalidParameterValue(f"{where}: {why}")
        return specified

    def _check_room(self, tx: Tx, run: Run) -> None:
        """Raises QuotaExceeded if the tasks that begin at once would have more clusters under a policy than it allows."""
        policies = {task.cluster.policy_id for task in run.tasks if task.cluster is not None}
        for policy_id in sorted(each for each in policies if each):
            if more := run.clusters_to_come(policy_id):
                check_room(tx, find_policy(tx, policy_id), run.creator_user_name, more=more)

    def _check_files(self, new: NewRun) -> None:
        for task in new.tasks:
            if (python := task.work.spark_python_task) is not None:
                self._files.check(task_file(python.python_file))

    def _check_all_existing(self, tx: Tx, principal: Principal, new: NewRun) -> None:
        for task in (each.work for each in new.tasks):
            if task.existing_id:
                self._check_existing(tx, principal, task)
            if task.dbt_task is not None and task.dbt_task.warehouse_id:
                warehouse = _warehouse(tx, task.dbt_task.warehouse_id)
                self._authorizer.require(tx, principal, Permission.CAN_USE, of_cluster(warehouse), to="run dbt on")

    def _check_existing(self, tx: Tx, principal: Principal, task: SubmitTask) -> None:
        """Raises unless the principal's task may run on its existing cluster or warehouse; then has it install what it wants."""
        cluster_id, wanted = task.existing_id, libraries(task)
        cluster = existing_cluster(tx, cluster_id) if not task.on_warehouse else _warehouse(tx, cluster_id)
        if cluster.source is ClusterSource.JOB:
            raise InvalidParameterValue(
                f"Cluster {cluster_id} is a job cluster: it only accepts the run that it was created for."
            )
        # What is stopped is started.
        needed = (Permission.CAN_USE,) if task.on_warehouse else (Permission.CAN_ATTACH_TO, Permission.CAN_RESTART)
        for permission in needed:
            self._authorizer.require(tx, principal, permission, of_cluster(cluster), to="run tasks on")
        if why := cluster_refusal(cluster, user_name=principal.user_name, client=client_of(task)):
            raise PermissionDenied(why)
        if wanted:
            self._authorizer.require(tx, principal, Permission.CAN_MANAGE, of_cluster(cluster), to="install libraries on")
            nodes = list(tx.instances.of_cluster(cluster_id))
            changed = install(cluster, wanted, nodes, find_policy(tx, cluster.spec.policy_id)).cluster
            if changed != cluster:
                tx.clusters.update(changed)
                tx.clusters.wake(cluster_id)


def _warehouse(tx: Tx, warehouse_id: str) -> Cluster:
    found = tx.clusters.get(warehouse_id)
    if found is None or found.deleted_ms or found.warehouse is None:
        raise InvalidParameterValue(f"SQL warehouse {warehouse_id[:140]} does not exist.")
    return found


def _named(asked: ClusterSpec, name: str, tags: dict[str, str]) -> ClusterSpec:
    """With the job's tags, which its clusters inherit."""
    return msgspec.structs.replace(asked, cluster_name=name, custom_tags={**tags, **(asked.custom_tags or {})} or None)


def _shared(specified: Mapping[str, Specified]) -> tuple[SharedCluster, ...]:
    return tuple(
        SharedCluster(key=key, requested=each.requested, cluster=each.spec, pool_tags=each.pool_tags)
        for key, each in specified.items()
    )


def _on(task: Task, own: Specified | None) -> Task:
    """The task on the job cluster that was specified for it, if any."""
    return msgspec.structs.replace(task, cluster=own and own.spec, pool_tags=own.pool_tags if own else {})


def _over(run: Run, result: RunResultState, message: str) -> Run:
    """The run, which never begins."""
    now = run.created_ms
    tasks = tuple(msgspec.structs.replace(each, skipped=RunResultState.CANCELED, skipped_ms=now) for each in run.tasks)
    return msgspec.structs.replace(run, tasks=tasks, result=result, message=message, ended_ms=now)
