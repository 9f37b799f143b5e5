"""The planner of runs: tasks that run other jobs, for-each tasks, and repairs; and that each of their runs ends."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from brickyard.domain.run import AttemptPhase, Conclusion, ForEach, NewRun, Run, RunResultState, Task, TerminationCode
from brickyard.domain.tasks import ConditionOp, ConditionTask, ForEachTask, RunJobTask, SubmitTask, TaskDependency
from brickyard.plan.attempts import RETRY_MS, TASK_RETRIES, begun, closed, concluded, run_made
from brickyard.plan.repairs import repaired
from brickyard.plan.run import plan_run
from brickyard.plan.runplan import RunPlan
from brickyard.testing.builders import NOW
from tests.plan.test_run_plan import BAD, GOOD, UP, run_of, task

R = RunResultState
CLUSTERS = {"c": UP}
SAME = ConditionTask(left="{{input}}", op=ConditionOp.EQUAL_TO, right="1")


def loop(*inputs: object, nested: SubmitTask | None = None, concurrency: int = 2, **fields: object) -> SubmitTask:
    asked = ForEachTask(inputs=json.dumps(inputs), task=nested or task("each", existing="c"), concurrency=concurrency)
    return SubmitTask(task_key="loop", for_each_task=asked, **fields)  # type: ignore[arg-type] # fields of the struct


def child(**fields: object) -> SubmitTask:
    return SubmitTask(task_key="child", run_job_task=RunJobTask(job_id=9), **fields)  # type: ignore[arg-type] # fields


def progress(run: Run) -> ForEach:
    last = run.tasks[0].last
    assert last is not None and last.for_each is not None
    return last.for_each


def over(run: Run, task: Task, conclusion: Conclusion = GOOD) -> Run:
    """The driver has run the task's newest attempt and forgotten it."""
    assert task.last is not None
    done = concluded(run, task.last.task_run_id, conclusion, now=NOW)
    return closed(done, task.last.task_run_id)


def followed(run: Run, *, now: int = NOW, children: Mapping[int, Conclusion | None] | None = None) -> RunPlan:
    """The plan of the last pass, after as many as are due at once."""
    while True:
        plan = plan_run(run, CLUSTERS, now=now, children=children or {})
        if plan.due_ms is None or plan.due_ms > now:
            return plan
        run = plan.run


def test_iterations_begin_as_far_as_their_concurrency_allows_and_leave_the_run() -> None:
    plan = followed(run_of(loop(1, 2, 3), task("after", "loop", existing="c")))
    assert [each.iteration and each.iteration.input for each in plan.run.iterations] == [1, 2]
    assert plan.run.tasks[1].last is None
    plan = plan_run(over(plan.run, plan.run.iterations[0], BAD), CLUSTERS, now=NOW)
    assert plan.due_ms == NOW, "the next one does not wait"
    plan = plan_run(plan.run, CLUSTERS, now=NOW)
    assert [each.iteration and each.iteration.number for each in plan.over] == [0]
    assert [each.iteration and each.iteration.input for each in plan.run.iterations] == [2, 3]
    run = plan.run
    for each in plan.run.iterations:
        run = over(run, each)
    plan = followed(run)
    assert (progress(plan.run).succeeded, progress(plan.run).failed, plan.run.iterations) == (2, 1, ())
    assert [each.result for each in plan.run.tasks] == [R.FAILED, R.UPSTREAM_FAILED]
    assert plan.run.ended_ms


def test_what_is_no_array_of_json_fails_the_task() -> None:
    for text in ("", "{}", "[1", "[NaN]", "\ud800", "[" * 100_000, f"[{'0,' * 5_000}0]"):
        asked = ForEachTask(inputs=text, task=task("each", existing="c"))
        run = followed(run_of(SubmitTask(task_key="loop", for_each_task=asked))).run
        assert (run.result, bool(run.ended_ms)) == (R.FAILED, True), text[:9]
    huge = followed(run_of(loop(10**400))).run
    assert msgspec.json.decode(msgspec.json.encode(huge), type=Run) == huge, "what is kept can be read"


def test_an_iteration_is_tried_again_before_it_counts() -> None:
    plan = followed(run_of(loop(1, nested=task("each", existing="c", max_retries=1))))
    plan = followed(over(plan.run, plan.run.iterations[0], BAD))
    assert [len(each.attempts) for each in plan.run.iterations] == [2]
    assert progress(plan.run).failed == 0
    ids = [each.task_run_id for each in plan.run.iterations[0].attempts]
    assert len({*ids, plan.run.tasks[0].task_run_id}) == 3
    assert followed(over(plan.run, plan.run.iterations[0])).run.result is R.SUCCESS


def test_a_for_each_task_that_is_stopped_stops_its_iterations_and_waits_for_them() -> None:
    plan = followed(run_of(loop(1, 2, 3, timeout_seconds=10), task("after", "loop", existing="c")))
    running = begun(plan.run, plan.run.iterations[0].task_run_id, now=NOW)
    late = NOW + 10_000
    plan = plan_run(running, CLUSTERS, now=late)
    assert [each.result for each in plan.run.iterations] == [R.CANCELED, R.CANCELED]
    assert plan.run.tasks[0].result is R.TIMEDOUT
    assert plan.run.tasks[0].attempts[0].phase is AttemptPhase.CLOSING
    run = plan.run
    for each in run.iterations:
        run = closed(run, each.task_run_id)
    plan = followed(run, now=late)
    assert (plan.run.result, plan.run.iterations, progress(plan.run).failed) == (R.FAILED, (), 2)
    assert plan.run.ended_ms


def test_the_cost_of_a_pass_does_not_grow_with_the_inputs() -> None:
    nested = SubmitTask(task_key="each", condition_task=SAME)
    run, passes = run_of(loop(*range(1_000), nested=nested, concurrency=100)), 0
    sizes = set()
    while not run.ended_ms:
        plan = plan_run(run, {}, now=NOW)
        run, passes = plan.run, passes + 1
        sizes.add(len(run.iterations))
    assert (run.result, progress(run).succeeded, passes) == (R.SUCCESS, 1_000, 11)
    assert max(sizes) == 100


def test_a_run_of_another_job_is_made_awaited_and_cancelled() -> None:
    plan = plan_run(run_of(child()), {}, now=NOW)
    (attempt,) = plan.make
    again = plan_run(plan.run, {}, now=NOW)
    assert again.make == [attempt], "until it is recorded"
    waiting = run_made(plan.run, attempt.task_run_id, 77, now=NOW)
    assert not plan_run(waiting, {}, now=NOW, children={77: None}).make
    done = plan_run(waiting, {}, now=NOW, children={77: GOOD})
    assert (done.run.result, bool(done.run.ended_ms)) == (R.SUCCESS, True)
    lost = plan_run(waiting, {}, now=NOW, children={})
    assert lost.run.result is R.FAILED and "deleted" in lost.run.message
    cancelled = plan_run(msgspec.structs.replace(waiting, cancelled_ms=NOW), {}, now=NOW, children={77: None})
    assert [each.child_run_id for each in cancelled.cancel] == [77]
    assert not cancelled.run.ended_ms, "it waits for the other run's end"
    stopped = Conclusion(R.CANCELED, TerminationCode.CANCELED, "")
    assert plan_run(cancelled.run, {}, now=NOW, children={77: stopped}).run.ended_ms


def test_a_repair_counts_retries_and_the_timeout_anew() -> None:
    run = run_of(task("a", existing="c", max_retries=1), task("b", "a", existing="c"), timeout_seconds=60)
    for _ in range(2):
        plan = followed(run)
        run = over(plan.run, plan.run.tasks[0], BAD)
    run = followed(run).run
    assert (run.result, [len(each.attempts) for each in run.tasks]) == (R.FAILED, [2, 0])
    later = NOW + 100_000
    new = NewRun(tasks=tuple(each.spec for each in run.tasks), timeout_seconds=60)
    run = repaired(run, new, repair_id=5, at_ms=later)
    assert [each.result for each in run.tasks] == [None, None]
    plan = followed(run, now=later)
    assert plan.run.result is None and plan.begin, "its time has begun anew"
    plan = followed(over(plan.run, plan.run.tasks[0], BAD), now=later)
    assert [each.number for each in plan.run.tasks[0].attempts] == [0, 1, 2, 3]
    plan = followed(over(plan.run, plan.run.tasks[0]), now=later)
    plan = followed(over(plan.run, plan.run.tasks[1]), now=later)
    assert plan.run.result is R.SUCCESS
    periods = [set(each.task_run_ids) for each in (*plan.run.history, plan.run.period)]
    assert [len(each) for each in periods] == [3, 3] and not periods[0] & periods[1]


def test_a_repair_runs_the_iterations_that_have_not_succeeded() -> None:
    def again(run: Run, spec: SubmitTask, repair_id: int) -> Run:
        return followed(repaired(run, NewRun(tasks=(spec,)), repair_id=repair_id, at_ms=NOW)).run

    def inputs(run: Run) -> list[object]:
        return [each.iteration and each.iteration.input for each in run.iterations]

    spec = loop("a", "b", "c", "d", concurrency=4)
    run = followed(run_of(spec)).run
    for each, bad in zip(run.iterations, (False, True, False, True), strict=True):
        run = over(run, each, BAD if bad else GOOD)
    run = followed(run).run
    assert run.result is R.FAILED
    mended = again(run, spec, 5)
    assert inputs(mended) == ["b", "d"]
    mended = over(over(mended, mended.iterations[0]), mended.iterations[1], BAD)
    mended = followed(mended).run
    assert (mended.result, progress(mended).before, progress(mended).succeeded) == (R.FAILED, 2, 1)
    stopped = again(mended, spec, 6)
    assert inputs(stopped) == ["d"]
    stopped = followed(msgspec.structs.replace(stopped, cancelled_ms=NOW)).run
    stopped = followed(closed(stopped, stopped.iterations[0].attempts[0].task_run_id)).run
    last = again(stopped, spec, 7)
    assert inputs(last) == ["d"], "what was cancelled has not succeeded"
    assert followed(over(last, last.iterations[0])).run.result is R.SUCCESS
    for changed in (loop("a", "b", "c", "x", concurrency=4), loop("a", "b", "c", concurrency=4)):
        assert len(inputs(again(run, changed, 8))) == len(json.loads(str(changed.for_each_task and changed.for_each_task.inputs)))
    old = msgspec.structs.replace(progress(run), failures=())  # of an earlier version
    last_attempt = msgspec.structs.replace(run.tasks[0].attempts[0], for_each=old)
    run = msgspec.structs.replace(run, tasks=(msgspec.structs.replace(run.tasks[0], attempts=(last_attempt,)),))
    assert inputs(again(run, spec, 9)) == ["a", "b", "c", "d"]


def test_a_continuous_run_retries_a_task_while_another_is_at_its_first_attempt() -> None:
    def at(run: Run, now: int) -> RunPlan:
        return followed(run, now=now)

    run = at(run_of(task("a", existing="c"), task("b", existing="c"), task_retries=TASK_RETRIES), NOW).run
    run = concluded(run, run.tasks[0].attempts[0].task_run_id, BAD, now=NOW)
    retried = at(run, NOW)
    assert retried.run.tasks[0].retry_at_ms == NOW + RETRY_MS
    both = at(closed(retried.run, run.tasks[0].attempts[0].task_run_id), NOW + RETRY_MS).run
    assert [len(each.attempts) for each in both.tasks] == [2, 1]
    ended = concluded(both, both.tasks[1].attempts[0].task_run_id, BAD, now=NOW + RETRY_MS)
    ended = at(ended, NOW + RETRY_MS).run
    assert [each.result for each in ended.tasks] == [R.CANCELED, R.FAILED], "no other task is at its first attempt"
    for each in ended.tasks:
        for attempt in each.attempts:
            ended = closed(ended, attempt.task_run_id)
    ended = at(ended, NOW + RETRY_MS).run
    assert (ended.result, bool(ended.ended_ms)) == (R.FAILED, True), "so the job's next run begins after a pause"


def test_a_continuous_run_of_one_task_retries_it_three_times() -> None:
    run, now = run_of(task("a", existing="c"), task_retries=TASK_RETRIES), NOW
    for pause in (RETRY_MS, 2 * RETRY_MS, 4 * RETRY_MS):
        run = followed(run, now=now).run
        run = concluded(run, run.tasks[0].attempts[-1].task_run_id, BAD, now=now)
        assert run.tasks[0].retry_at_ms == now + pause
        run, now = closed(run, run.tasks[0].attempts[-1].task_run_id), now + pause
    run = followed(run, now=now).run
    run = concluded(run, run.tasks[0].attempts[-1].task_run_id, BAD, now=now)
    run = followed(closed(run, run.tasks[0].attempts[-1].task_run_id), now=now).run
    assert (run.result, len(run.tasks[0].attempts)) == (R.FAILED, 1 + TASK_RETRIES)


def answered(run: Run, plan: RunPlan, lucky: Callable[[], bool], luck: st.DataObject, now: int) -> Run:
    """What drivers have answered."""
    for attempt in plan.begin:
        run = begun(run, attempt.task_run_id, now=now) if lucky() else run
    for attempt in plan.look:
        if lucky():
            run = concluded(run, attempt.task_run_id, luck.draw(st.sampled_from([GOOD, BAD])), now=now)
    for attempt in plan.end:
        run = closed(run, attempt.task_run_id) if lucky() else run
    return run


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_every_run_of_these_kinds_ends_whatever_happens(luck: st.DataObject) -> None:
    def lucky() -> bool:
        return luck.draw(st.booleans())

    limits = st.sampled_from([None, 15])
    nested = luck.draw(st.sampled_from([task("each", existing="c", max_retries=1), child(max_retries=1)]))
    first = loop(*range(luck.draw(st.integers(0, 5))), nested=nested, timeout_seconds=luck.draw(limits), max_retries=1)
    second = msgspec.structs.replace(child(timeout_seconds=luck.draw(limits)), depends_on=[TaskDependency(task_key="loop")])
    retries = luck.draw(st.sampled_from([0, TASK_RETRIES]))
    run = run_of(first, second, timeout_seconds=luck.draw(st.sampled_from([0, 30])), task_retries=retries)
    children: dict[int, Conclusion | None] = {}
    made: list[int] = []
    repairs = 0
    turn = 0

    def sooner_or_later() -> bool:
        return turn > 100 or lucky()

    for turn in range(300):
        now = NOW + turn * 1_000
        plan = plan_run(run, CLUSTERS, now=now, children=children)
        assert len(plan.run.iterations) <= 2 * len(plan.run.tasks[0].attempts)
        run = plan.run
        if run.ended_ms:
            assert all(value is not None for value in children.values()), "no run of another job is left"
            assert not run.iterations
            if run.result is R.SUCCESS or repairs:
                break
            repairs += 1
            specs = tuple(each.spec for each in run.tasks if each.result is not R.SUCCESS)
            run = repaired(run, NewRun(tasks=specs, timeout_seconds=run.timeout_seconds), repair_id=5, at_ms=now)
            continue
        run = answered(run, plan, sooner_or_later, luck, now)
        for attempt in plan.make:
            if sooner_or_later():
                made.append(attempt.task_run_id)
                children[len(made)] = None
                run = run_made(run, attempt.task_run_id, len(made), now=now)
        for attempt in plan.cancel:
            children[attempt.child_run_id] = Conclusion(R.CANCELED, TerminationCode.CANCELED, "") if sooner_or_later() else None
        for each, value in children.items():
            if value is None and (sooner_or_later()):
                children[each] = luck.draw(st.sampled_from([GOOD, BAD]))
        if turn == 5 and lucky() and run.result is None:
            run = msgspec.structs.replace(run, cancelled_ms=now)
    assert run.ended_ms
    assert len(made) == len(set(made)), "an attempt makes one run"
