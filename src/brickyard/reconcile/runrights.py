"""What a run's owner may still have done for the run when a task's turn comes. Decided in the run's pass.

A run is checked when it is submitted, and may wait for hours: for other tasks, for its cluster, to be tried again. Until then its
owner may have been deactivated, or have lost a permission. Then no machine may start for it, not only no code run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

from brickyard.domain.cluster import Cluster
from brickyard.domain.run import AttemptPhase, Conclusion, Run, RunResultState, Task, TerminationCode
from brickyard.domain.states import State
from brickyard.plan.run import plan_run
from brickyard.plan.runfacts import ClusterFacts
from brickyard.plan.runplan import RunPlan
from brickyard.store.tx import Tx


class Rights(Protocol):
    """What is asked of those who know identities and policies."""

    def refused(self, tx: Tx, run: Run, task: Task, cluster: Cluster | None) -> str:
        """Why the run's owner may not have the task's cluster made (None), or started and used; "" if they may."""
        ...

    def full(self, tx: Tx, run: Run, policy_id: str, *, more: int, ending: int) -> str:
        """Why the run's owner cannot have so many more clusters under the policy, when `ending` of theirs do not count; "" if
        they can."""
        ...


def plan_rightly(
    tx: Tx,
    run: Run,
    facts: Mapping[str, ClusterFacts],
    clusters: Mapping[str, Cluster],
    rights: Rights,
    *,
    now: int,
    children: Mapping[int, Conclusion | None] = MappingProxyType({}),
) -> RunPlan:
    """The plan for a run, with tasks that fail because their clusters must not be made or used for its owner.

    A task that fails may let others begin, so it is planned again until every task that needs a cluster has been looked at.
    """
    barred: dict[str, Conclusion] = {}
    seen: set[str] = set()
    refused: dict[tuple[int, str], str] = {}
    made: Counter[str] = Counter()
    locked = False
    while True:
        decided = plan_run(run, facts, now=now, barred=barred, children=children)
        new = [task for task in decided.run.all_tasks if _needs_cluster(task) and task.key not in seen]
        if not new:
            return decided
        if decided.create and not locked:
            _lock_policies(tx, decided.run)
            locked = True
        creates = {each.task.task_run_id for each in decided.create}
        for task in new:
            seen.add(task.key)
            of, cluster_id = task.iteration.of if task.iteration else task.task_run_id, task.last.cluster_id if task.last else ""
            cluster = clusters.get(cluster_id)
            on = cluster_id if cluster is not None else ""
            if (of, on) not in refused:  # iterations of one task have the same rights
                refused[of, on] = rights.refused(tx, run, task, cluster)
            if why := refused[of, on]:
                barred[task.key] = _failed(TerminationCode.UNAUTHORIZED_ERROR, why)
            elif task.task_run_id in creates and (policy_id := _unreserved(run, task)):
                ending = _ending(decided.run, policy_id, facts)
                if why := rights.full(tx, run, policy_id, more=made[policy_id] + 1, ending=ending):
                    barred[task.key] = _failed(TerminationCode.INVALID_CLUSTER_REQUEST, why)
                else:
                    made[policy_id] += 1


def _failed(code: TerminationCode, why: str) -> Conclusion:
    return Conclusion(RunResultState.FAILED, code, why)


def _needs_cluster(task: Task) -> bool:
    return task.last is not None and task.last.phase is AttemptPhase.PENDING


def _unreserved(run: Run, task: Task) -> str:
    """The policy of the cluster that is about to be made. "" if it has none, or had its room since the run was made."""
    first = task.last is not None and task.last.number == 0
    begins_at_once = first and task.iteration is None and not task.spec.depends_on and not run.dequeued_ms
    return "" if begins_at_once or task.cluster is None else task.cluster.policy_id or ""


def _ending(run: Run, policy_id: str, facts: Mapping[str, ClusterFacts]) -> int:
    """Clusters of earlier tasks and attempts, which are about to be gone: without this, a run of tasks one after the other would
    need room for two."""
    needed = {task.spec.work.job_cluster_key for task in run.tasks if task.result is None}
    stays = {each.cluster_id for each in run.shared if each.key in needed}
    ending = {
        attempt.cluster_id
        for task in run.all_tasks
        if task.cluster is not None and task.cluster.policy_id == policy_id
        for attempt in task.attempts
        if attempt.decided and attempt.cluster_id in facts and facts[attempt.cluster_id].state is not State.TERMINATED
    }
    return len(ending - stays)


def _lock_policies(tx: Tx, run: Run) -> None:
    """Others who count the owner's clusters under these policies take turns with this pass. In order: no two passes wait for each
    other."""
    waiting = (task.cluster.policy_id for task in run.tasks if task.cluster is not None and task.result is None)
    for policy_id in sorted({each for each in waiting if each}):
        tx.lock(f"policy/{policy_id}/{run.creator_user_name}")
