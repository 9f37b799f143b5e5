"""The planner of runs: cases, and what holds of every run whatever happens to its clusters and drivers."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brickyard.domain.run import AttemptPhase, Conclusion, Run, RunResultState, SharedCluster, Task, TerminationCode
from brickyard.domain.spec import ClusterSpec
from brickyard.domain.states import State
from brickyard.domain.tasks import ConditionOp, ConditionTask, RunIf, SparkPythonTask, SubmitTask, TaskDependency
from brickyard.plan.attempts import AGAIN_MS, AT_ONCE, NO_CLUSTER_MS, begun, closed, concluded
from brickyard.plan.run import STOP_MS, plan_run
from brickyard.plan.runfacts import ClusterFacts
from brickyard.plan.runids import task_run_id
from brickyard.plan.runif import outcome, released
from brickyard.plan.runplan import RunPlan
from brickyard.testing.builders import NOW
from tests.support.golden import Golden

R = RunResultState
UP = ClusterFacts(state=State.RUNNING, incarnation=1, driver_id="i-1")
GOOD = Conclusion(R.SUCCESS, TerminationCode.SUCCESS, "")
NO_RIGHT = Conclusion(R.FAILED, TerminationCode.UNAUTHORIZED_ERROR, "u is no longer an active user of the workspace.")
BAD = Conclusion(R.FAILED, TerminationCode.RUN_EXECUTION_ERROR, "Workload failed, see run output for details")
SCRIPT = SparkPythonTask(python_file="dbfs:/a.py")


def task(key: str, *needs: str, existing: str | None = None, **fields: object) -> SubmitTask:
    return SubmitTask(
        task_key=key,
        spark_python_task=SCRIPT,
        existing_cluster_id=existing,
        new_cluster=None if existing else ClusterSpec(),
        depends_on=[TaskDependency(task_key=each) for each in needs] or None,
        **fields,  # type: ignore[arg-type] # keyword arguments of a struct
    )


def run_of(*specs: SubmitTask, **fields: object) -> Run:
    tasks = tuple(
        Task(task_run_id=task_run_id(7, number, 0), spec=spec, cluster=spec.new_cluster) for number, spec in enumerate(specs)
    )
    values = {"run_id": 7, "job_id": 8, "run_name": "r", "creator_user_name": "u", "created_ms": NOW, "tasks": tasks, **fields}
    return Run(**values)  # type: ignore[arg-type] # keyword arguments of a struct


def test_nothing_is_made_or_started_for_a_task_that_is_barred(golden: Golden) -> None:
    run = run_of(task("a", max_retries=-1), task("b", existing="c", max_retries=-1))
    plan = plan_run(run, {"c": ended(1)}, now=NOW, barred={"a": NO_RIGHT, "b": NO_RIGHT})
    assert not (plan.create or plan.start or plan.begin)
    assert [each.result for each in plan.run.tasks] == [R.FAILED, R.FAILED], "and never tried again"
    assert plan.run.ended_ms == NOW
    golden(plan.run.message, NO_RIGHT.message)
    waits = step(run, {"c": ended(1)})
    assert (len(waits.create), waits.start) == (1, ["c"])
    clusters = {"c": ended(1), waits.create[0].cluster_id: ClusterFacts(state=State.PENDING, incarnation=1)}
    lost = plan_run(waits.run, clusters, now=NOW, barred={"a": NO_RIGHT, "b": NO_RIGHT})
    assert lost.release == [waits.create[0].cluster_id], "it is not needed any more"


def test_without_a_cluster_a_task_is_tried_again_after_a_while() -> None:
    plan = step(run_of(task("a", existing="gone", max_retries=-1)), {})
    again = step(plan.run, {}, plan.due_ms or 0)
    assert plan.due_ms == NOW + NO_CLUSTER_MS
    assert [len(each.run.tasks[0].attempts) for each in (plan, again)] == [1, 2]


def test_what_follows_a_task_that_fails_at_once_is_decided_too() -> None:
    plan = step(run_of(task("a", existing="gone"), task("b", "a"), task("c", "a", run_if=RunIf.ALL_DONE)), {})
    assert [each.result for each in plan.run.tasks] == [R.FAILED, R.UPSTREAM_FAILED, None]
    assert [each.task.spec.task_key for each in plan.create] == ["c"]


def test_what_follows_a_task_whose_last_retry_fails_at_once_is_decided_too() -> None:
    plan = step(run_of(task("a", existing="gone", max_retries=1), task("b", "a"), task("c", "b")), {})
    assert [each.result for each in plan.run.tasks] == [None, None, None]
    plan = step(plan.run, {}, plan.due_ms or 0)
    assert [each.result for each in plan.run.tasks] == [R.FAILED, R.UPSTREAM_FAILED, R.UPSTREAM_FAILED]
    assert plan.run.ended_ms


def step(run: Run, clusters: Mapping[str, ClusterFacts], now: int = NOW) -> RunPlan:
    return plan_run(run, clusters, now=now)


def test_a_task_goes_from_its_cluster_to_its_driver_and_leaves_both() -> None:
    plan = step(run_of(task("a")), {})
    (new,) = plan.create
    run, name = plan.run, new.cluster_id
    plan = step(run, {name: ClusterFacts(state=State.PENDING, incarnation=1)})
    assert not plan.begin and plan.due_ms is not None
    plan = step(plan.run, {name: UP})
    (attempt,) = plan.begin
    assert (attempt.phase, attempt.generation, attempt.driver_id) == (AttemptPhase.STARTING, 1, "i-1")
    again = step(plan.run, {name: UP})
    assert [each.task_run_id for each in again.begin] == [attempt.task_run_id], "until the driver has answered"
    run = begun(plan.run, attempt.task_run_id, now=NOW + 5)
    plan = step(run, {name: UP}, NOW + 6)
    assert [each.task_run_id for each in plan.look] == [attempt.task_run_id]
    run = concluded(plan.run, attempt.task_run_id, GOOD, now=NOW + 9)
    plan = step(run, {name: UP})
    assert plan.release == [name]
    assert plan.run.result is R.SUCCESS and not plan.run.ended_ms
    plan = step(plan.run, {name: ClusterFacts(state=State.TERMINATING, incarnation=1)})
    assert not plan.release and not plan.run.ended_ms
    plan = step(plan.run, {name: ClusterFacts(state=State.TERMINATED, incarnation=1)}, NOW + 20)
    assert plan.run.ended_ms == NOW + 20 and plan.due_ms is None
    assert step(plan.run, {}).run == plan.run


def test_an_existing_cluster_is_started_when_it_is_stopped_and_left_running() -> None:
    down = ClusterFacts(state=State.TERMINATED, incarnation=3)
    plan = step(run_of(task("a", existing="c"), task("b", existing="c")), {"c": down})
    assert plan.start == ["c"], "once for both"
    coming = ClusterFacts(state=State.PENDING, incarnation=4)
    up = ClusterFacts(state=State.RUNNING, incarnation=4, driver_id="i-9")
    plan = step(step(plan.run, {"c": coming}).run, {"c": up})
    assert len(plan.begin) == 2
    run = plan.run
    for attempt in plan.begin:
        run = concluded(run, attempt.task_run_id, GOOD, now=NOW)
    plan = step(run, {"c": up})
    assert len(plan.end) == 2 and not plan.release
    run = plan.run
    for attempt in plan.end:
        run = closed(run, attempt.task_run_id)
    assert step(run, {"c": up}).run.ended_ms


def test_a_cluster_that_does_not_start_fails_the_task_with_its_reason() -> None:
    plan = step(run_of(task("a", existing="c")), {"c": ClusterFacts(state=State.TERMINATED, incarnation=1)})
    ended = ClusterFacts(state=State.TERMINATED, incarnation=2, message="no room")
    plan = step(plan.run, {"c": ended})
    (attempt,) = plan.run.tasks[0].attempts
    assert attempt.code is TerminationCode.CLUSTER_ERROR and "no room" in attempt.message
    assert not plan.start, "it is not tried for ever"
    assert plan.run.ended_ms


def test_a_stopped_task_leaves_its_driver_before_its_own_cluster_ends_but_not_for_ever() -> None:
    plan = step(run_of(task("a")), {})
    name = plan.create[0].cluster_id
    run = msgspec.structs.replace(step(plan.run, {name: UP}).run, cancelled_ms=NOW)
    plan = step(run, {name: UP})
    assert len(plan.end) == 1 and not plan.release
    assert step(plan.run, {name: UP}, NOW + STOP_MS).release == [name]
    plan = step(closed(plan.run, plan.end[0].task_run_id), {name: UP})
    assert plan.release == [name] and not plan.end


@pytest.mark.parametrize(
    "facts",
    [
        None,
        ClusterFacts(state=State.TERMINATING, incarnation=1, driver_id=""),
        ClusterFacts(state=State.RUNNING, incarnation=2, driver_id="i-1"),
        ClusterFacts(state=State.RESTARTING, incarnation=2),
    ],
)
def test_a_driver_that_is_gone_or_new_fails_the_attempt_and_is_not_asked(facts: ClusterFacts | None) -> None:
    run = step(run_of(task("a", existing="c")), {"c": UP}).run
    plan = step(run, {} if facts is None else {"c": facts})
    assert plan.run.tasks[0].result is R.FAILED
    assert not (plan.begin or plan.look or plan.end)


@pytest.mark.parametrize("state", [State.TERMINATING, State.RESTARTING])
def test_what_a_cluster_lets_finish_is_followed_and_leaves_before_it_ends(state: State) -> None:
    incarnation = 2 if state is State.RESTARTING else 1
    waits = ClusterFacts(state=state, incarnation=incarnation, driver_id="i-1", finishing=1)
    plan = step(step(run_of(task("a", existing="c")), {"c": UP}).run, {"c": UP})
    (attempt,) = plan.begin
    plan = step(plan.run, {"c": waits})
    assert [each.task_run_id for each in plan.begin] == [attempt.task_run_id], "a node refuses it unless it has begun it"
    plan = step(begun(plan.run, attempt.task_run_id, now=NOW), {"c": waits})
    assert [each.task_run_id for each in plan.look] == [attempt.task_run_id]
    plan = step(concluded(plan.run, attempt.task_run_id, GOOD, now=NOW), {"c": waits})
    assert [each.task_run_id for each in plan.end] == [attempt.task_run_id]
    assert not plan.run.ended_ms
    plan = step(closed(plan.run, attempt.task_run_id), {"c": waits})
    assert plan.run.result is R.SUCCESS and plan.run.ended_ms and not plan.release


def test_a_job_cluster_that_is_stopped_lets_its_task_leave_first() -> None:
    plan = step(run_of(task("a")), {})
    name = plan.create[0].cluster_id
    waits = ClusterFacts(state=State.TERMINATING, incarnation=1, driver_id="i-1", finishing=1)
    plan = step(step(plan.run, {name: UP}).run, {name: waits})
    plan = step(concluded(plan.run, plan.begin[0].task_run_id, GOOD, now=NOW), {name: waits})
    assert len(plan.end) == 1 and not plan.release
    plan = step(closed(plan.run, plan.end[0].task_run_id), {name: waits})
    assert not plan.end and not plan.release and not plan.run.ended_ms
    assert step(plan.run, {name: ended(1)}).run.ended_ms


def test_a_shared_cluster_ends_although_its_driver_does_not_let_go_of_a_task() -> None:
    spec = ClusterSpec()
    of_key = SubmitTask(task_key="a", spark_python_task=SCRIPT, job_cluster_key="k")
    run = run_of(of_key, shared=(SharedCluster(key="k", requested=spec, cluster=spec),))
    begins = step(run, {})
    clusters = {begins.create[0].cluster_id: UP}
    starts = step(begins.run, clusters)
    over = step(concluded(starts.run, starts.begin[0].task_run_id, BAD, now=NOW), clusters)
    assert (len(over.end), over.release) == (1, [])
    assert step(over.run, clusters, NOW + STOP_MS).release == [begins.create[0].cluster_id]


def test_retries_wait_their_time_and_stop_at_success_or_at_their_number(golden: Golden) -> None:
    run = run_of(task("a", existing="c", max_retries=2, min_retry_interval_millis=1000))
    plan = step(run, {"c": UP})
    plan = step(concluded(plan.run, plan.begin[0].task_run_id, BAD, now=NOW + 10), {"c": UP}, NOW + 10)
    assert len(plan.run.tasks[0].attempts) == 1 and plan.run.tasks[0].result is None
    plan = step(plan.run, {"c": UP}, NOW + 1000)
    assert len(plan.run.tasks[0].attempts) == 2
    plan = step(concluded(plan.run, plan.begin[0].task_run_id, BAD, now=NOW + 1500), {"c": UP}, NOW + 2500)
    third = plan.run.tasks[0].attempts[-1]
    assert third.number == 2
    plan = step(concluded(plan.run, third.task_run_id, BAD, now=NOW + 2600), {"c": UP}, NOW + 9000)
    assert plan.run.tasks[0].result is R.FAILED
    assert plan.run.result is R.FAILED
    golden(plan.run.message)


def test_retries_that_fail_at_once_do_not_follow_each_other_for_ever() -> None:
    never = ConditionTask(left="a", op=ConditionOp.GREATER_THAN, right="1")
    run = run_of(SubmitTask(task_key="a", condition_task=never, max_retries=-1, min_retry_interval_millis=1))
    now = NOW
    for _ in range(100):
        plan = step(run, {}, now)
        run, now = plan.run, max(now, plan.due_ms or now)
    starts = [each.start_ms for each in run.tasks[0].attempts]
    assert starts[: AT_ONCE + 1] == [NOW + number for number in range(AT_ONCE + 1)], "the first ones are as asked for"
    assert {after - before for before, after in pairwise(starts[AT_ONCE:])} == {AGAIN_MS}


def test_a_retry_of_what_ran_for_a_while_comes_at_once() -> None:
    run = run_of(task("a", existing="c", max_retries=-1))
    plan = step(run, {"c": UP})
    for number in range(1, 10):
        later = NOW + number * AGAIN_MS
        plan = step(concluded(plan.run, plan.begin[0].task_run_id, BAD, now=later), {"c": UP}, later)
        assert len(plan.begin) == 1


@pytest.mark.parametrize(("retry", "attempts"), [(False, 1), (True, 2)])
def test_a_timeout_is_retried_only_on_request(retry: bool, attempts: int) -> None:
    run = run_of(task("a", existing="c", timeout_seconds=5, max_retries=1, retry_on_timeout=retry))
    plan = step(step(run, {"c": UP}).run, {"c": UP}, NOW + 5000)
    assert len(plan.run.tasks[0].attempts) == attempts
    assert plan.run.tasks[0].attempts[0].result is R.TIMEDOUT


def test_a_cancelled_run_ends_what_runs_and_begins_nothing() -> None:
    run = run_of(task("a", existing="c", max_retries=5), task("b", "a", existing="c"))
    run = msgspec.structs.replace(step(run, {"c": UP}).run, cancelled_ms=NOW, cancelled_by="me")
    plan = step(run, {"c": UP})
    assert [each.result for each in plan.run.tasks] == [R.CANCELED, R.CANCELED]
    assert len(plan.end) == 1 and not plan.begin
    assert plan.run.result is R.CANCELED


def test_the_runs_own_timeout_ends_it() -> None:
    run = run_of(task("a", existing="c"), task("b", "a", existing="c"), timeout_seconds=10)
    plan = step(step(run, {"c": UP}).run, {"c": UP}, NOW + 10_000)
    assert plan.run.result is R.TIMEDOUT
    assert [each.result for each in plan.run.tasks] == [R.TIMEDOUT, R.CANCELED]


@pytest.mark.parametrize(
    ("run_if", "results", "verdict"),
    [
        (None, [], None),
        (None, [R.SUCCESS], None),
        (None, [R.SUCCESS, R.FAILED], R.UPSTREAM_FAILED),
        (None, [R.FAILED, R.CANCELED], R.UPSTREAM_CANCELED),
        (None, [R.SUCCESS, R.EXCLUDED], None),
        (None, [R.EXCLUDED, R.DISABLED], R.EXCLUDED),
        (RunIf.ALL_DONE, [R.FAILED, R.CANCELED], None),
        (RunIf.AT_LEAST_ONE_FAILED, [R.SUCCESS, R.TIMEDOUT], None),
        (RunIf.AT_LEAST_ONE_FAILED, [R.SUCCESS], R.EXCLUDED),
        (RunIf.ALL_FAILED, [R.FAILED, R.UPSTREAM_FAILED], None),
        (RunIf.ALL_FAILED, [R.FAILED, R.SUCCESS], R.EXCLUDED),
        (RunIf.AT_LEAST_ONE_SUCCESS, [R.SUCCESS, R.FAILED], None),
        (RunIf.AT_LEAST_ONE_SUCCESS, [R.EXCLUDED, R.FAILED], R.UPSTREAM_FAILED),
        (RunIf.NONE_FAILED, [R.SUCCESS, R.EXCLUDED], None),
        (RunIf.NONE_FAILED, [R.SUCCESS, R.FAILED], R.UPSTREAM_FAILED),
    ],
)
def test_when_a_task_runs(run_if: RunIf | None, results: list[R], verdict: R | None) -> None:
    assert released(run_if, results) is verdict


def test_the_leaves_decide_what_became_of_a_run() -> None:
    assert outcome({"a": R.FAILED, "b": R.SUCCESS}, frozenset("b")) is R.SUCCESS_WITH_FAILURES
    assert outcome({"a": R.SUCCESS, "b": R.UPSTREAM_FAILED}, frozenset("b")) is R.FAILED
    assert outcome({"a": R.SUCCESS, "b": R.EXCLUDED}, frozenset("b")) is R.SUCCESS


@st.composite
def runs(draw: st.DrawFn) -> Run:
    count = draw(st.integers(1, 4))
    specs = []
    for number in range(count):
        needs = draw(st.lists(st.sampled_from([f"t{n}" for n in range(number)]), unique=True)) if number else []
        specs.append(
            task(
                f"t{number}",
                *needs,
                existing=draw(st.sampled_from(["c", None])),
                run_if=draw(st.sampled_from([None, *RunIf])),
                max_retries=draw(st.sampled_from([None, 0, 1, 2])),
                retry_on_timeout=draw(st.booleans()),
                timeout_seconds=draw(st.sampled_from([None, 20])),
                disabled=draw(st.sampled_from([None, None, True])),
            )
        )
    return run_of(*specs, timeout_seconds=draw(st.sampled_from([0, 0, 60])))


class Simulated:
    """Clusters and drivers that do what a drawn stream of numbers says; checks every plan."""

    def __init__(self, run: Run, luck: st.DataObject) -> None:
        self.run = run
        self.luck = luck
        self.now = NOW
        self.clusters: dict[str, ClusterFacts] = {
            "c": luck.draw(st.sampled_from([UP, ended(1), ClusterFacts(state=State.PENDING, incarnation=1)]))
        }
        self.begun: set[int] = set()

    def turn(self) -> None:
        before = self.run
        barred = {each.spec.task_key: NO_RIGHT for each in before.tasks if self.luck.draw(st.integers(0, 9)) == 7}
        plan = plan_run(before, self.clusters, now=self.now, barred=barred)
        self.run = plan.run
        assert not barred.keys() & {each.task.spec.task_key for each in plan.create}
        assert not plan.start or any(each.spec.existing_cluster_id and each.spec.task_key not in barred for each in before.tasks)
        self.check(before, plan)
        for new in plan.create:
            self.clusters[new.cluster_id] = ClusterFacts(state=State.PENDING, incarnation=1)
        for name in plan.start:
            self.clusters[name] = ClusterFacts(state=State.PENDING, incarnation=self.clusters[name].incarnation + 1)
        for name in plan.release:
            self.clusters[name] = msgspec.structs.replace(self.clusters[name], state=State.TERMINATING, driver_id="")
        for attempt in plan.begin:
            if self.lucky():
                self.begun.add(attempt.task_run_id)
                self.run = begun(self.run, attempt.task_run_id, now=self.now)
        for attempt in plan.look:
            assert attempt.task_run_id in self.begun
            if self.lucky():
                conclusion = self.luck.draw(st.sampled_from([GOOD, BAD]))
                self.run = concluded(self.run, attempt.task_run_id, conclusion, now=self.now)
        for attempt in plan.end:
            if self.lucky():
                self.run = closed(self.run, attempt.task_run_id)
        for name in list(self.clusters):
            self.clusters[name] = self.moved(self.clusters[name])
        self.now += 3_000

    def lucky(self) -> bool:
        return self.luck.draw(st.booleans())

    def moved(self, facts: ClusterFacts) -> ClusterFacts:
        """Clusters come up, end, and now and then fail by themselves."""
        if facts.state is State.PENDING and self.lucky():
            return msgspec.structs.replace(facts, state=State.RUNNING, driver_id=f"i-{facts.incarnation}")
        if facts.state is State.RUNNING and self.luck.draw(st.integers(0, 30)) == 7:
            return msgspec.structs.replace(facts, state=State.TERMINATING, driver_id="")
        if facts.state is State.RUNNING and self.luck.draw(st.integers(0, 30)) == 7:
            return msgspec.structs.replace(facts, state=State.TERMINATING, finishing=facts.incarnation)
        if facts.state is State.TERMINATING and self.lucky():
            return msgspec.structs.replace(facts, state=State.TERMINATED, driver_id="", finishing=0)
        return facts

    def check(self, before: Run, plan: RunPlan) -> None:
        results = {each.spec.task_key: each.result for each in plan.run.tasks}
        for was, each in zip(before.tasks, plan.run.tasks, strict=True):
            assert len(each.attempts) <= (each.spec.max_retries or 0) + 1
            assert all(attempt.decided for attempt in each.attempts[:-1])
            assert [a.result for a in was.attempts if a.decided] == [a.result for a in each.attempts][
                : sum(a.decided for a in was.attempts)
            ]
            if each.attempts:
                assert all(results[need.task_key] is not None for need in each.spec.depends_on or ())
                assert not each.spec.disabled
        for attempt in (*plan.begin, *plan.look):
            facts = self.clusters[attempt.cluster_id]
            assert not attempt.decided
            assert (facts.incarnation, facts.driver_id) == (attempt.generation, attempt.driver_id)
        if before.cancelled_ms or before.timed_out:
            assert not (plan.create or plan.start or plan.begin)
        assert plan.run.ended_ms or plan.due_ms is not None, "somebody will look at it again"


def ended(incarnation: int) -> ClusterFacts:
    return ClusterFacts(state=State.TERMINATED, incarnation=incarnation)


@settings(max_examples=150, deadline=None)
@given(runs(), st.data())
def test_every_run_ends_and_leaves_no_cluster_of_its_own(run: Run, luck: st.DataObject) -> None:
    world = Simulated(run, luck)
    cancel = luck.draw(st.sampled_from([None, None, 2, 5]))
    for turn in range(200):
        if turn == cancel and world.run.result is None:
            world.run = msgspec.structs.replace(world.run, cancelled_ms=world.now)
        world.turn()
        if world.run.ended_ms:
            break
        if turn > 60:  # from then on everybody is lucky
            world.lucky = lambda: True  # type: ignore[method-assign] # the test's own world
    assert world.run.ended_ms, "it came to its end"
    assert all(each.result is not None for each in world.run.tasks)
    own = {name for name in world.clusters if name != "c"}
    assert all(world.clusters[name].state is State.TERMINATED for name in own)
    made = [a.cluster_id for each in world.run.tasks for a in each.attempts if each.spec.new_cluster is not None]
    names = [name for name in made if name]  # an attempt without the right to a cluster has none
    assert len(set(names)) == len(names), "a job cluster is made for one attempt"
