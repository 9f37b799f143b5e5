"""The run planner: decides what to do next about a run, given its tasks and the clusters they are on.

`plan_run` is a pure function that runs inside the transaction that reads its inputs and writes its result. The same transaction
creates, starts and releases clusters. Calls to drivers are recorded in the phase of an attempt and made after the commit,
repeatedly until the driver has answered: each call is idempotent, and `begun`, `concluded` and `closed` record its
result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import msgspec

from brickyard.domain.run import Attempt, AttemptPhase, Conclusion, Run, RunResultState, Task, TerminationCode
from brickyard.domain.spec import ClusterSpec
from brickyard.domain.states import State
from brickyard.plan.attempts import abandoned, decided, is_stopped, why_stopped
from brickyard.plan.childruns import deleted
from brickyard.plan.conditions import evaluated
from brickyard.plan.iterations import conclusion, is_over, iteration, left_over, opened, orphans
from brickyard.plan.runfacts import USABLE, ClusterFacts, failed_library, has_left, has_libraries
from brickyard.plan.runids import job_cluster_id, task_run_id
from brickyard.plan.runif import outcomes_hold, released, verdict
from brickyard.plan.runplan import NewCluster, RunPlan
from brickyard.plan.specifying import Specified
from brickyard.plan.submit import libraries

QUEUE_MS = 30_000  # a queued run is woken when it is its turn; this is for a wakeup that was lost
WAIT_MS = 2_000  # for a cluster; its every change wakes the run anyway
REPEAT_MS = 1_000  # before repeating a call that the driver did not answer
STOP_MS = 15_000  # how long a task that is over may take to leave the driver of a job cluster, which then ends
CHILD_MS = 5_000  # for a run of another job; its end wakes the run that waits for it, if that is followed by the same server
LOOK_MIN_MS, LOOK_MAX_MS = 200, 2_000  # between two checks of a running attempt: a tenth of its age
FAILED = "Workload failed, see run output for details"
_ENDED = (State.TERMINATING, State.TERMINATED)
_GONE = deleted(0)
_STOPPED = (RunResultState.CANCELED, RunResultState.TIMEDOUT)


def plan_run(
    run: Run,
    clusters: Mapping[str, ClusterFacts],
    *,
    now: int,
    barred: Mapping[str, Conclusion] = MappingProxyType({}),
    children: Mapping[int, Conclusion | None] = MappingProxyType({}),
) -> RunPlan:
    """Decides about one run. `clusters` holds the existing ones among its attempts' and its tasks' `existing_id`. `barred`: tasks
    for which nothing may be made or started (by `Task.key`), and how their attempts end that have no cluster yet. `children`: the
    existing ones among the runs that its attempts have made; None while they are active."""
    tasks, plan = list(run.all_tasks), RunPlan(run=run)
    return _Pass(run=run, clusters=clusters, now=now, barred=barred, children=children, tasks=tasks, plan=plan).go()


class _Pass(msgspec.Struct, kw_only=True):
    """One pass. Every phase leaves `tasks` consistent for the next: those of the run, then iterations of them."""

    run: Run
    clusters: Mapping[str, ClusterFacts]
    now: int
    barred: Mapping[str, Conclusion]
    children: Mapping[int, Conclusion | None]
    tasks: list[Task]
    plan: RunPlan
    deadlines: list[int] = []

    def go(self) -> RunPlan:
        if not self.run.ended_ms:
            self._stop()
            if self.run.queued and not is_stopped(self.run):
                self.deadlines.append(self.now + QUEUE_MS)
                return self._planned()
            for number in range(len(self.tasks)):
                self._follow(number)
            self._release()
            self._iterate()
            for number in range(len(self.tasks)):
                self._close(number)
            self._end_shared()
            self._finish()
        return self._planned()

    def _planned(self) -> RunPlan:
        own, iterations = self.tasks[: len(self.run.tasks)], self.tasks[len(self.run.tasks) :]
        self.plan.run = msgspec.structs.replace(self.run, tasks=tuple(own), iterations=tuple(iterations))
        self.plan.due_ms = None if self.run.ended_ms else min(self.deadlines, default=None)
        return self.plan

    # -- phases ------------------------------------------------------------------------------------------------------

    def _stop(self) -> None:
        """If the run was cancelled, its time is over or a failure ends it, ends everything that is not over, and lets nothing new
        begin."""
        self.run = abandoned(self.run, self.tasks)
        limit = self.run.timeout_seconds * 1000
        if limit and not self.run.queued and not self.run.cancelled_ms and not self.run.timed_out:
            over = (self.run.dequeued_ms or self.run.began_ms) + limit
            if self.now >= over and any(task.result is None for task in self.tasks):
                self.run = msgspec.structs.replace(self.run, timed_out=True)
            else:
                self.deadlines.append(over)
        if not is_stopped(self.run):
            return
        for number, task in enumerate(self.tasks):
            last = task.last
            if last is None and task.skipped is None:
                self._skip(number, RunResultState.CANCELED)
            elif task.retry_at_ms:
                self._set(number, retry_at_ms=0)
            elif last is not None and not last.decided:
                self._conclude(number, why_stopped(self.run))

    def _follow(self, number: int) -> None:
        """Takes the newest attempt at a task as far as its cluster allows."""
        task, last = self.tasks[number], self.tasks[number].last
        if last is None or last.decided:
            return
        limit = (task.spec.timeout_seconds or 0) * 1000
        if limit and self.now >= last.start_ms + limit:
            message = f"The task's timeout of {task.spec.timeout_seconds} s has expired."
            self._decide(number, RunResultState.TIMEDOUT, TerminationCode.CANCELED, message)
            return
        if limit:
            self.deadlines.append(last.start_ms + limit)
        if task.spec.for_each_task is not None:
            return  # its iterations are tasks
        if task.spec.run_job_task is not None:
            self._await_run(number, last)
            return
        facts = self.clusters.get(last.cluster_id)
        if last.phase is AttemptPhase.PENDING:
            self._await_cluster(number, last, facts)
        else:
            self._call_driver(number, last, facts)

    def _await_cluster(self, number: int, attempt: Attempt, facts: ClusterFacts | None) -> None:
        if (barred := self.barred.get(self.tasks[number].key)) is not None:
            self._conclude(number, barred)
        elif facts is None:
            message = f"Cluster {attempt.cluster_id} does not exist or was deleted."
            self._decide(number, RunResultState.FAILED, TerminationCode.INVALID_CLUSTER_REQUEST, message)
        elif facts.state in USABLE and (why := failed_library(libraries(self.tasks[number].spec), facts)):
            self._decide(number, RunResultState.FAILED, TerminationCode.LIBRARY_INSTALLATION_ERROR, why)
        elif facts.state in USABLE and facts.driver_id and has_libraries(libraries(self.tasks[number].spec), facts):
            self._set_attempt(
                number,
                phase=AttemptPhase.STARTING,
                awaited=facts.incarnation,
                generation=facts.incarnation,
                driver_id=facts.driver_id,
                starting_ms=self.now,
            )
            self._call_driver(number, self._last(number), facts)
        elif facts.state not in _ENDED:
            if facts.state in USABLE:
                self.plan.wait.add(attempt.cluster_id)
            self._set_attempt(number, awaited=facts.incarnation)
            self.deadlines.append(self.now + WAIT_MS)
        elif attempt.awaited >= facts.incarnation:
            message = f"Cluster {attempt.cluster_id} did not start, or ended: {facts.message or facts.state.title()}"
            self._decide(number, RunResultState.FAILED, TerminationCode.CLUSTER_ERROR, message)
        else:
            # It was already ending when this attempt needed it: it starts again once it has ended completely.
            if facts.state is State.TERMINATED:
                if attempt.cluster_id not in self.plan.start:
                    self.plan.start.append(attempt.cluster_id)
                self._set_attempt(number, awaited=facts.incarnation + 1)
            self.deadlines.append(self.now + WAIT_MS)

    def _call_driver(self, number: int, attempt: Attempt, facts: ClusterFacts | None) -> None:
        if facts is None or not facts.runs(attempt.generation):
            why = (facts.message or facts.state.title()) if facts is not None else "it no longer exists"
            if facts is not None and facts.incarnation != attempt.generation:
                why = "it was restarted"
            message = f"Cluster {attempt.cluster_id} ended while the task ran: {why}"
            self._decide(number, RunResultState.FAILED, TerminationCode.CLUSTER_ERROR, message)
            return
        if attempt.phase is AttemptPhase.STARTING:
            self.plan.wait.add(attempt.cluster_id)
        if facts.driver_id == attempt.driver_id:
            (self.plan.begin if attempt.phase is AttemptPhase.STARTING else self.plan.look).append(attempt)
        age = self.now - attempt.begun_ms if attempt.begun_ms else REPEAT_MS * 10
        self.deadlines.append(self.now + max(LOOK_MIN_MS, min(LOOK_MAX_MS, age // 10)))

    def _await_run(self, number: int, attempt: Attempt) -> None:
        """Has the attempt's run of another job made, and waits for its end."""
        if attempt.phase is AttemptPhase.STARTING:
            self.plan.make.append(attempt)
            self.deadlines.append(self.now + REPEAT_MS)
        elif (conclusion := self.children.get(attempt.child_run_id, deleted(attempt.child_run_id))) is not None:
            self._conclude(number, conclusion)
        else:
            self.deadlines.append(self.now + CHILD_MS)

    def _iterate(self) -> None:
        """Lets iterations that are over leave the run, begins others as far as their concurrency allows, and decides for-each
        tasks that have none left. What that means for other tasks is for the next pass."""
        self.tasks, self.plan.over = left_over(self.tasks)
        for number in orphans(self.tasks):
            if self.tasks[number].retry_at_ms:
                self._set(number, retry_at_ms=0)
            else:
                self._decide(number, RunResultState.CANCELED, TerminationCode.CANCELED, "The for-each task was stopped.")
        live = Counter(task.iteration.of for task in self.tasks if task.iteration is not None)
        for number, task in enumerate(self.run.tasks):
            last, asked = self.tasks[number].last, task.spec.for_each_task
            if asked is None or last is None or last.decided or (progress := last.for_each) is None:
                continue
            left, going = len(progress.numbers) - progress.begun, live[last.task_run_id]
            for _ in range(min(left, (asked.concurrency or 1) - going)):
                self.tasks.append(iteration(task, last, progress))
                progress = msgspec.structs.replace(progress, begun=progress.begun + 1)
                self._begin_attempt(len(self.tasks) - 1)
            self._set_attempt(number, for_each=progress)
            if not left and not going:
                self._conclude(number, conclusion(progress))
                self.deadlines.append(self.now)

    def _release(self) -> None:
        """Begins tasks whose turn has come and marks those that will never run; what is decided may decide the next task."""
        progress = True
        while progress:
            progress = False
            keys = {task.key: task for task in self.tasks}
            for number, task in enumerate(self.tasks):
                if task.retry_at_ms:
                    if self.now >= task.retry_at_ms:
                        self._set(number, retry_at_ms=0)
                        self._begin_attempt(number)
                        progress = progress or self.tasks[number].result is not None  # an attempt may be over at once
                elif task.last is None and task.skipped is None and not is_stopped(self.run):
                    found = [keys[each.task_key].result for each in task.spec.depends_on or ()]
                    known = [result for result in found if result is not None]
                    if len(known) < len(found):
                        continue
                    verdict = RunResultState.DISABLED if task.spec.disabled else released(task.spec.run_if, known)
                    if verdict is None and not outcomes_hold(task, keys):
                        verdict = RunResultState.EXCLUDED
                    if verdict is None:
                        self._begin_attempt(number)
                    else:
                        self._skip(number, verdict)
                    progress = progress or self.tasks[number].result is not None
        self.deadlines.extend(task.retry_at_ms for task in self.tasks if task.retry_at_ms)

    def _begin_attempt(self, number: int) -> None:
        task, count = self.tasks[number], len(self.tasks[number].attempts)
        another = task_run_id(self.run.repair_id or self.run.run_id, number, count)
        if task.iteration is not None:
            another = task_run_id(task.iteration.of, task.iteration.number, count)
        attempt_id = task.task_run_id if count == task.repaired else another
        attempt = Attempt(task_run_id=attempt_id, number=count, start_ms=self.now)
        self._set(number, attempts=(*task.attempts, attempt))
        barred = self.barred.get(task.key)
        if barred is not None:
            self._conclude(number, barred)
        elif task.spec.condition_task is not None:
            outcome, conclusion = evaluated(task.spec.condition_task, self.run, task, attempt)
            self._set_attempt(number, outcome=outcome, begun_ms=self.now)
            self._conclude(number, conclusion)
        elif task.spec.for_each_task is not None:
            progress = opened(task.spec.for_each_task, self.run, task, attempt)
            if isinstance(progress, Conclusion):
                self._conclude(number, progress)
            else:
                self._set_attempt(number, phase=AttemptPhase.RUNNING, begun_ms=self.now, for_each=progress)
        elif task.spec.run_job_task is not None:
            self._set_attempt(number, phase=AttemptPhase.STARTING, starting_ms=self.now)
            self._follow(number)
        elif task.spec.new_cluster is not None:
            cluster_id = job_cluster_id(str(attempt.task_run_id), self.now)
            self._set_attempt(number, cluster_id=cluster_id, awaited=1)
            self._create(cluster_id, number, task.spec.new_cluster, (task,))
        elif task.spec.job_cluster_key:
            self._set_attempt(number, cluster_id=self._shared_cluster(number, task.spec.job_cluster_key), awaited=1)
            if self._last(number).cluster_id in self.clusters:
                self._follow(number)
        else:
            self._set_attempt(number, cluster_id=task.spec.existing_id)
            self._follow(number)

    def _create(self, cluster_id: str, number: int, requested: ClusterSpec, users: Sequence[Task]) -> None:
        task = self.tasks[number]
        specified = Specified(task.cluster or requested, task.pool_tags, requested)
        new = NewCluster(cluster_id=cluster_id, task=task, specified=specified, users=tuple(users))
        self.plan.create.append(new)
        self.deadlines.append(self.now + WAIT_MS)

    def _shared_cluster(self, number: int, key: str) -> str:
        """The cluster that the tasks with this key share, which is created if there is none or it has ended."""
        shared = next(each for each in self.run.shared if each.key == key)
        facts = self.clusters.get(shared.cluster_id)
        created = any(each.cluster_id == shared.cluster_id for each in self.plan.create)
        if created or (facts is not None and facts.state not in _ENDED):
            return shared.cluster_id
        cluster_id = job_cluster_id(f"{self.run.run_id}/{key}/{shared.made}", self.now)
        self._create(cluster_id, number, shared.requested, _users(self.tasks, key))
        made = msgspec.structs.replace(shared, cluster_id=cluster_id, made=shared.made + 1)
        self.run = msgspec.structs.replace(self.run, shared=tuple(made if each is shared else each for each in self.run.shared))
        return cluster_id

    def _close(self, number: int) -> None:
        """Ends the contexts and clusters of decided attempts. A stopped attempt leaves its driver in the regular way even if the
        cluster ends with it, because its output is still there."""
        for attempt in self.tasks[number].attempts:
            if attempt.phase is not AttemptPhase.CLOSING:
                continue
            if self._has_more(attempt):
                self.deadlines.append(self.now + REPEAT_MS)
                continue
            facts = self.clusters.get(attempt.cluster_id)
            own = self.tasks[number].spec.new_cluster is not None
            there = facts is not None and not has_left(attempt, facts)
            if facts is None or facts.state is State.TERMINATED or not (own or there):
                done = msgspec.structs.replace(attempt, phase=AttemptPhase.DONE, ended_ms=self.now)
                self._replace(number, done)
                if self.tasks[number].spec.dbt_task is not None:
                    self.plan.done.append(attempt.task_run_id)
                continue
            late = attempt.result not in _STOPPED or self.now >= attempt.decided_ms + STOP_MS
            if own and (late or not there) and not facts.finishing:
                if facts.state is not State.TERMINATING:
                    self.plan.release.append(attempt.cluster_id)
            elif facts.driver_id == attempt.driver_id and not attempt.left:
                self.plan.end.append(attempt)
            self.deadlines.append(self.now + REPEAT_MS)

    def _has_more(self, attempt: Attempt) -> bool:
        """Whether the attempt waits for iterations, or for a run of another job, to end."""
        if attempt.child_run_id and self.children.get(attempt.child_run_id, _GONE) is None:
            self.plan.cancel.append(attempt)
            return True
        return attempt.for_each is not None and any(
            task.iteration.of == attempt.task_run_id for task in self.tasks[len(self.run.tasks) :] if task.iteration is not None
        )

    def _end_shared(self) -> None:
        """Releases each shared cluster whose tasks are all over, once its driver has let go of them, or does not in time."""
        for shared in self.run.shared:
            facts, users = self.clusters.get(shared.cluster_id), _users(self.tasks, shared.key)
            if facts is None or facts.state in _ENDED or facts.finishing or any(task.result is None for task in users):
                continue
            left = [each for task in users for each in task.attempts if each.phase is not AttemptPhase.DONE]
            if all(self.now >= each.decided_ms + STOP_MS for each in left):
                self.plan.release.append(shared.cluster_id)
            self.deadlines.append(self.now + REPEAT_MS)

    def _finish(self) -> None:
        iterations = self.tasks[len(self.run.tasks) :]
        if any(map(is_over, iterations)):
            self.deadlines.append(self.now)  # the next pass counts them
        if any(task.result is None for task in self.tasks):
            return
        if self.run.result is None:
            result, message = verdict(self.run, self.tasks[: len(self.run.tasks)])
            self.run = msgspec.structs.replace(self.run, result=result, message=message)
        facts = [self.clusters.get(each.cluster_id) for each in self.run.shared]
        if any(each is not None and each.state is not State.TERMINATED for each in facts):
            self.deadlines.append(self.now + WAIT_MS)
        elif not iterations and all(attempt.phase is AttemptPhase.DONE for task in self.tasks for attempt in task.attempts):
            self.run = msgspec.structs.replace(self.run, ended_ms=self.now)

    # -- changes -----------------------------------------------------------------------------------------------------

    def _last(self, number: int) -> Attempt:
        return self.tasks[number].attempts[-1]

    def _set(self, number: int, **fields: object) -> None:
        self.tasks[number] = msgspec.structs.replace(self.tasks[number], **fields)

    def _set_attempt(self, number: int, **fields: object) -> None:
        self._replace(number, msgspec.structs.replace(self._last(number), **fields))

    def _replace(self, number: int, attempt: Attempt) -> None:
        task = self.tasks[number]
        attempts = tuple(attempt if each.task_run_id == attempt.task_run_id else each for each in task.attempts)
        self._set(number, attempts=attempts)

    def _skip(self, number: int, result: RunResultState) -> None:
        self._set(number, skipped=result, skipped_ms=self.now)

    def _decide(self, number: int, result: RunResultState, code: TerminationCode, message: str) -> None:
        self._conclude(number, Conclusion(result, code, message))

    def _conclude(self, number: int, conclusion: Conclusion) -> None:
        self.tasks[number] = decided(self.run, self.tasks[number], conclusion, self.now)


def _users(tasks: Sequence[Task], key: str) -> list[Task]:
    work = ((task, task.spec.work) for task in tasks)
    return [task for task, spec in work if spec.job_cluster_key == key and spec.new_cluster is None]
