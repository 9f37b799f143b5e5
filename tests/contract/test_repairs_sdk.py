"""Repairs of runs through the official SDK, on the simulated provider."""

from __future__ import annotations

import pytest
from databricks.sdk import WorkspaceClient
from databricks.sdk.errors import InvalidParameterValue, PermissionDenied
from databricks.sdk.errors.platform import BadRequest
from databricks.sdk.service import jobs
from databricks.sdk.service._internal import Wait
from databricks.sdk.service.jobs import RunLifeCycleState, RunResultState

from tests.contract.test_jobs_sdk import upload
from tests.contract.test_kept_jobs_sdk import begin, drivers, job, logs, state, task
from tests.support.golden import Golden
from tests.support.patience import SOON, until
from tests.support.server import Server
from tests.support.tokens import create

__all__ = ("drivers",)  # a fixture of this module too


def ended(w: WorkspaceClient, run_id: int) -> jobs.Run:
    """The run once it has ended, whatever its result."""
    over = (RunLifeCycleState.TERMINATED, RunLifeCycleState.INTERNAL_ERROR)
    until(lambda: state(w, run_id) in over, "the run ends")
    return w.jobs.get_run(run_id, include_history=True)


def repair_of(waiter: Wait[jobs.Run]) -> int:
    return int(waiter.response.repair_id)  # type: ignore[attr-defined] # the SDK sets it without a type


def attempts(run: jobs.Run) -> list[tuple[str, int | None, RunResultState | None]]:
    shown = []
    for each in run.tasks or ():
        assert each.state
        shown.append((each.task_key, each.attempt_number, each.state.result_state))
    return shown


def test_failed_tasks_and_those_that_were_skipped_run_again_with_the_job_as_it_is(w: WorkspaceClient, golden: Golden) -> None:
    good, bad, skipped = RunResultState.SUCCESS, RunResultState.FAILED, RunResultState.UPSTREAM_FAILED
    first, broken = task(w, "first"), task(w, "broken", "first", source="fail {{job.parameters.day}}")
    broken.max_retries = 1
    parameters = [jobs.JobParameterDefinition(name="day", default="monday")]
    last = task(w, "last", "broken", parameters=["{{job.parameters.day}}"])
    job_id = job(w, first, broken, last, parameters=parameters)
    run_id = begin(w, job_id, job_parameters={"day": "friday"})
    run = ended(w, run_id)
    assert attempts(run) == [("first", 0, good), ("broken", 0, bad), ("broken", 1, bad), ("last", 0, skipped)]
    original = run.repair_history or []
    assert [(each.type, each.id) for each in original] == [(jobs.RepairHistoryItemType.ORIGINAL, None)]
    with golden.refused(InvalidParameterValue, "rerun_tasks"):
        w.jobs.repair_run(run_id)
    with golden.refused(InvalidParameterValue, "rerun_tasks"):
        w.jobs.repair_run(run_id, rerun_tasks=["nope"])
    with golden.refused(InvalidParameterValue, "latest_repair_id"):
        w.jobs.repair_run(run_id, rerun_all_failed_tasks=True, latest_repair_id=5)
    with golden.refused(InvalidParameterValue, "spark_submit_params"):
        w.jobs.repair_run(run_id, rerun_all_failed_tasks=True, spark_submit_params=["a"])

    again = w.jobs.repair_run(run_id, rerun_all_failed_tasks=True)  # it fails as before, after one retry
    repair_id = repair_of(again)
    run = ended(w, run_id)
    assert attempts(run)[3:5] == [("broken", 2, bad), ("broken", 3, bad)]
    for latest in (None, run_id):
        with golden.refused(InvalidParameterValue, "latest_repair_id"):
            w.jobs.repair_run(run_id, rerun_all_failed_tasks=True, latest_repair_id=latest)

    upload(w, "/jobs/broken-mended.py", "mended")
    assert broken.spark_python_task
    broken.spark_python_task.python_file = "dbfs:/jobs/broken-mended.py"
    w.jobs.update(job_id, new_settings=jobs.JobSettings(tasks=[broken]))
    run = w.jobs.repair_run(run_id, rerun_all_failed_tasks=True, latest_repair_id=repair_id).result(timeout=SOON)
    run = w.jobs.get_run(run_id, include_history=True)
    assert run.state and run.state.result_state is good
    assert attempts(run) == [
        ("first", 0, good),
        *[("broken", number, bad) for number in range(4)],
        ("broken", 4, good),
        ("last", 0, good),
    ]
    history = run.repair_history or []
    kinds = [jobs.RepairHistoryItemType.ORIGINAL, *[jobs.RepairHistoryItemType.REPAIR] * 2]
    assert [each.type for each in history] == kinds
    assert [len(each.task_run_ids or ()) for each in history] == [4, 3, 2]
    assert [each.state and each.state.result_state for each in history] == [bad, bad, good]
    assert len({each for item in history for each in item.task_run_ids or ()}) == 9, "each task run belongs to one of them"
    assert " friday: " in logs(w, run, "last"), "the parameters of the run hold on"
    clusters = {each.cluster_instance.cluster_id for each in run.tasks or () if each.cluster_instance}
    assert len(clusters) == 3, "each repair has a job cluster of its own"


def test_chosen_tasks_and_those_after_them_run_again_even_if_they_succeeded(w: WorkspaceClient, golden: Golden) -> None:
    job_id = job(w, task(w, "a"), task(w, "b", "a"), task(w, "c", "b"), task(w, "d"))
    run_id = w.jobs.run_now(job_id, python_params=["x"]).result(timeout=SOON).run_id
    assert run_id
    with golden.refused(InvalidParameterValue, "no task"):
        w.jobs.repair_run(run_id, rerun_all_failed_tasks=True)
    run = w.jobs.repair_run(run_id, rerun_tasks=["b"], rerun_dependent_tasks=True, python_params=["y"]).result(timeout=SOON)
    assert [(key, number) for key, number, _ in attempts(run)] == [("a", 0), ("b", 0), ("b", 1), ("c", 0), ("c", 1), ("d", 0)]
    newest = [each for each in run.tasks or () if each.task_key == "c"][-1]
    assert newest.run_id and newest.run_id != newest.attempt_number
    assert " y: " in (w.jobs.get_run_output(newest.run_id).logs or "")
    assert run.overriding_parameters and run.overriding_parameters.python_params == ["y"]


def test_a_repair_waits_for_its_turn_and_needs_the_right_to_run(server: Server, w: WorkspaceClient, golden: Golden) -> None:
    job_id = job(w, task(w, "a", source="slow"), queue=jobs.QueueSettings(enabled=False))
    run_id = begin(w, job_id)
    with golden.refused(BadRequest, "active"):
        w.jobs.repair_run(run_id, rerun_tasks=["a"])
    w.jobs.cancel_run(run_id)
    ended(w, run_id)
    w.users.create(user_name="no-repair@example.com")
    stranger = server.client(create(w, "no-repair@example.com", comment="", days=None))
    with pytest.raises(PermissionDenied):
        stranger.jobs.repair_run(run_id, rerun_tasks=["a"])
    other = begin(w, job_id)
    with golden.refused(BadRequest, "max_concurrent_runs"):
        w.jobs.repair_run(run_id, rerun_tasks=["a"])
    w.jobs.update(job_id, new_settings=jobs.JobSettings(queue=jobs.QueueSettings(enabled=True)))
    repair_id = repair_of(w.jobs.repair_run(run_id, rerun_all_failed_tasks=True))
    assert state(w, run_id) is RunLifeCycleState.QUEUED, "though it is older than the run that is active"
    w.jobs.cancel_run(other)
    until(lambda: state(w, run_id) in (RunLifeCycleState.PENDING, RunLifeCycleState.RUNNING), "its turn comes")
    w.jobs.delete(job_id)
    ended(w, run_id)
    with golden.refused(InvalidParameterValue, "does not exist"):
        w.jobs.repair_run(run_id, rerun_tasks=["a"], latest_repair_id=repair_id)
