"""Tasks that run other jobs, and for-each tasks, through the official SDK, on the simulated provider."""

from __future__ import annotations

import json

from databricks.sdk import WorkspaceClient
from databricks.sdk.errors import InvalidParameterValue
from databricks.sdk.service import jobs
from databricks.sdk.service.jobs import RunLifeCycleState, RunResultState

from tests.contract.test_kept_jobs_sdk import begin, drivers, job, state, task
from tests.contract.test_repairs_sdk import ended
from tests.support.golden import Golden
from tests.support.patience import SOON, until
from tests.support.server import Server
from tests.support.tokens import create

__all__ = ("drivers",)  # a fixture of this module too
GOOD, BAD = RunResultState.SUCCESS, RunResultState.FAILED


def runs(job_id: int, key: str = "child", **fields: object) -> jobs.Task:
    asked = jobs.RunJobTask(job_id=job_id, **fields)  # type: ignore[arg-type] # keyword arguments of a dataclass
    return jobs.Task(task_key=key, run_job_task=asked)


def child_of(w: WorkspaceClient, run: jobs.Run, key: str = "child") -> int:
    found = [each for each in run.tasks or () if each.task_key == key][-1]
    assert found.run_id and found.run_job_task
    output = w.jobs.get_run_output(found.run_id).run_job_output
    assert output and output.run_id
    return output.run_id


def loop(w: WorkspaceClient, inputs: str, source: str = "print(1)", **fields: object) -> jobs.Task:
    nested = task(w, "each", source=source, parameters=["{{input}}", "{{input.name}}", "{{task.name}}"])
    nested.max_retries = 1
    asked = jobs.ForEachTask(inputs=inputs, task=nested, **fields)  # type: ignore[arg-type] # keyword arguments of a dataclass
    return jobs.Task(task_key="loop", for_each_task=asked)


def stats(run: jobs.Run) -> jobs.ForEachStats:
    found = next(each.for_each_task for each in run.tasks or () if each.task_key == "loop")
    assert found and found.stats and found.stats.task_run_stats
    return found.stats


def iterations_of(w: WorkspaceClient, run_id: int) -> list[jobs.RunTask]:
    outer = next(each for each in w.jobs.get_run(run_id).tasks or () if each.task_key == "loop")
    return w.jobs.get_run(outer.run_id or 0).iterations or []


def test_a_task_runs_another_job_and_takes_its_result(w: WorkspaceClient) -> None:
    child = job(w, task(w, "a", parameters=["{{job.parameters.day}}"]), parameters=[jobs.JobParameterDefinition("day", "monday")])
    day = jobs.JobParameterDefinition(name="day", default="friday")
    parent = job(w, runs(child, job_parameters={"day": "{{job.parameters.day}}"}), task(w, "after", "child"), parameters=[day])
    run = w.jobs.run_now(parent).result(timeout=SOON)
    assert run.state and run.state.result_state is GOOD
    inner = w.jobs.get_run(child_of(w, run))
    assert (inner.job_id, inner.trigger) == (child, jobs.TriggerType.RUN_JOB_TASK)
    assert inner.trigger_info and inner.trigger_info.run_id == (run.tasks or [])[0].run_id
    assert [(each.name, each.value) for each in inner.job_parameters or ()] == [("day", "friday")]
    assert [each.run_id for each in w.jobs.list_runs(job_id=child)] == [inner.run_id], "it was made once"


def test_a_task_whose_job_fails_or_is_gone_fails_and_makes_a_new_run_for_each_attempt(w: WorkspaceClient, golden: Golden) -> None:
    child = job(w, task(w, "a", source="fail"))
    again = runs(child)
    again.max_retries = 1
    run = ended(w, begin(w, job(w, again)))
    assert [each.attempt_number for each in run.tasks or ()] == [0, 1]
    assert len(list(w.jobs.list_runs(job_id=child))) == 2
    found = (run.tasks or [])[1].state
    assert found and found.result_state is BAD
    golden(found.state_message)
    w.jobs.delete(child)
    lost = ended(w, begin(w, job(w, runs(child)))).state
    assert lost and lost.result_state is BAD
    golden(lost.state_message, "does not exist")


def test_jobs_run_no_circles_and_no_job_that_is_not_theirs_to_run(server: Server, w: WorkspaceClient, golden: Golden) -> None:
    innermost = job(w, task(w, "a"))
    chain = [innermost]
    for _ in range(4):
        chain.append(job(w, runs(chain[-1])))
    deep = ended(w, begin(w, chain[4])).state
    assert deep and deep.result_state is BAD
    golden(deep.state_message, "nested")
    w.jobs.reset(chain[1], jobs.JobSettings(name="circle", tasks=[runs(chain[2])]))
    circle = ended(w, begin(w, chain[1])).state
    assert circle and circle.result_state is BAD
    golden(circle.state_message, "circle")
    with golden.refused(InvalidParameterValue, "circle"):
        w.jobs.reset(chain[1], jobs.JobSettings(name="circle", tasks=[runs(chain[1])]))
    w.users.create(user_name="no-runner@example.com")
    other = server.client(create(w, "no-runner@example.com", comment="", days=None))
    created = other.jobs.create(name="foreign", tasks=[runs(innermost)]).job_id
    assert created
    refused = ended(other, begin(other, created)).state
    assert refused and refused.result_state is BAD
    golden(refused.state_message, "CAN_MANAGE_RUN")


def test_who_cancels_a_run_cancels_those_that_its_tasks_have_made(w: WorkspaceClient) -> None:
    child = job(w, task(w, "a", source="slow"))
    run_id = begin(w, job(w, runs(child)))
    until(lambda: [each.run_id for each in w.jobs.list_runs(job_id=child)], "the job of the task runs")
    w.jobs.cancel_run(run_id)
    run = ended(w, run_id)
    assert run.state and run.state.result_state is RunResultState.CANCELED
    inner = w.jobs.get_run(child_of(w, run)).state
    assert inner and inner.life_cycle_state is RunLifeCycleState.TERMINATED, "it ends before the task does"
    assert inner.result_state is RunResultState.CANCELED


def test_a_nested_task_runs_for_each_input(w: WorkspaceClient) -> None:
    items = [{"name": "a"}, "b", 3, None]
    after = task(w, "after", "loop")
    run = w.jobs.run_now(job(w, loop(w, json.dumps(items), concurrency=3), after)).result(timeout=SOON)
    assert run.state and run.state.result_state is GOOD
    assert stats(run).as_dict()["task_run_stats"] == {
        "total_iterations": 4,
        "scheduled_iterations": 4,
        "active_iterations": 0,
        "failed_iterations": 0,
        "completed_iterations": 4,
        "succeeded_iterations": 4,
    }
    outer = next(each for each in run.tasks or () if each.task_key == "loop")
    found = w.jobs.get_run(outer.run_id or 0)
    printed = [w.jobs.get_run_output(each.run_id or 0).logs or "" for each in found.iterations or ()]
    texts = [each.split(": print")[0].split(" ", 1)[1] for each in printed]
    assert texts == ['{"name": "a"} a each', "b {{input.name}} each", "3 {{input.name}} each", "null {{input.name}} each"]
    one = (found.iterations or [])[1]
    assert one.run_id and w.jobs.get_run(one.run_id).run_name == "each"
    every = (*(found.iterations or ()), *(run.tasks or ()))
    clusters = {each.cluster_instance.cluster_id for each in every if each.cluster_instance}
    assert len(clusters) == 1, "they share the job cluster"


def test_iterations_fail_and_are_tried_again_each_for_itself(w: WorkspaceClient, golden: Golden) -> None:
    run = ended(w, begin(w, job(w, loop(w, "[1, 2, 3]", source="fail", concurrency=2))))
    found = stats(run).as_dict()
    assert (found["task_run_stats"]["failed_iterations"], found["error_message_stats"][0]["count"]) == (3, 3)
    outer = next(each for each in run.tasks or () if each.task_key == "loop")
    assert outer.state
    golden(outer.state.state_message, "3 of 3")
    iterations = w.jobs.get_run(outer.run_id or 0).iterations or []
    assert [each.attempt_number for each in iterations] == [0, 1] * 3
    cancelled = begin(w, job(w, loop(w, "[1, 2, 3]", source="slow", concurrency=2)))
    until(lambda: iterations_of(w, cancelled), "iterations begin")
    w.jobs.cancel_run(cancelled)
    assert ended(w, cancelled).state
    assert state(w, cancelled) is RunLifeCycleState.TERMINATED


def test_inputs_come_from_other_tasks_and_are_paged(w: WorkspaceClient, golden: Golden) -> None:
    condition = jobs.ConditionTask(op=jobs.ConditionTaskOp.EQUAL_TO, left="{{input}}", right="{{input}}")
    nested = jobs.Task(task_key="each", condition_task=condition)
    asked = jobs.ForEachTask(inputs="{{job.parameters.all}}", task=nested, concurrency=100)
    outer = jobs.Task(task_key="loop", for_each_task=asked)
    parameter = jobs.JobParameterDefinition(name="all", default="[]")
    created = w.jobs.create(name="many", tasks=[outer], parameters=[parameter]).job_id
    assert created
    run = w.jobs.run_now(created, job_parameters={"all": json.dumps(list(range(250)))}).result(timeout=SOON)
    found = (run.tasks or [])[0]
    assert found.run_id
    assert len(w.jobs.get_run(found.run_id).iterations or ()) == 250
    empty = w.jobs.run_now(created).result(timeout=SOON)
    assert empty.state and empty.state.result_state is GOOD
    failed = ended(w, begin(w, created, job_parameters={"all": "no array"}))
    assert failed.state
    golden(failed.state.state_message, "inputs")


def test_what_for_each_tasks_cannot_have_is_refused(w: WorkspaceClient, golden: Golden) -> None:
    good = task(w, "each")
    for wrong, field in (
        (jobs.ForEachTask(inputs="[1]", task=good, concurrency=101), "concurrency"),
        (jobs.ForEachTask(inputs="{}", task=good), "inputs"),
        (jobs.ForEachTask(inputs="{{tasks.no.values.x}}", task=good), "{{tasks.no.values.x}}"),
        (jobs.ForEachTask(inputs="[1]", task=loop(w, "[1]")), "nested"),
        (jobs.ForEachTask(inputs="[1]", task=task(w, "each", "other")), "depends_on"),
    ):
        with golden.refused(InvalidParameterValue, field):
            job(w, jobs.Task(task_key="loop", for_each_task=wrong))
    with golden.refused(InvalidParameterValue, "{{input}}"):
        job(w, task(w, "a", parameters=["{{input}}"]))
    with golden.refused(InvalidParameterValue, "run_job_task.spark_submit_params"):
        job(w, runs(1, spark_submit_params=["a"]))
