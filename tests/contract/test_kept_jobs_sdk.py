"""The Jobs API's jobs through the official SDK, on the simulated provider: what they keep, how they run, and who may."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from databricks.sdk import WorkspaceClient
from databricks.sdk.errors import InvalidParameterValue, PermissionDenied, ResourceDoesNotExist
from databricks.sdk.errors.sdk import OperationFailed
from databricks.sdk.service import catalog, compute, jobs
from databricks.sdk.service.jobs import RunLifeCycleState, RunResultState

from brickyard.providers.simulated import SimulatedProvider
from tests.contract.test_jobs_sdk import NEW, upload
from tests.reconcile.runworld import answer
from tests.support.golden import Golden
from tests.support.patience import SOON, until
from tests.support.server import Server
from tests.support.tokens import create

KEY = "small"
CLUSTERS = [jobs.JobCluster(job_cluster_key=KEY, new_cluster=NEW)]


@pytest.fixture(scope="module", autouse=True)
def drivers(machines: SimulatedProvider) -> Iterator[None]:
    """Drivers that answer for the length of this module."""
    machines.kernels.compute = answer
    yield
    machines.kernels.compute = None


def task(w: WorkspaceClient, key: str, *needs: str, source: str = "print(1)", **fields: object) -> jobs.Task:
    file = upload(w, f"/jobs/{key}-{len(source)}.py", source)
    parameters = fields.pop("parameters", [])
    return jobs.Task(
        task_key=key,
        spark_python_task=jobs.SparkPythonTask(python_file=file, parameters=parameters),  # type: ignore[arg-type] # a list
        job_cluster_key=KEY,
        depends_on=[jobs.TaskDependency(task_key=each) for each in needs],
        **fields,  # type: ignore[arg-type] # keyword arguments of a dataclass
    )


def job(w: WorkspaceClient, *tasks: jobs.Task, **fields: object) -> int:
    created = w.jobs.create(name="nightly", tasks=list(tasks), job_clusters=CLUSTERS, **fields)  # type: ignore[arg-type] # fields
    assert created.job_id
    return created.job_id


def logs(w: WorkspaceClient, run: jobs.Run, key: str) -> str:
    found = next(each for each in run.tasks or () if each.task_key == key)
    assert found.run_id
    return w.jobs.get_run_output(found.run_id).logs or ""


def state(w: WorkspaceClient, run_id: int) -> RunLifeCycleState | None:
    found = w.jobs.get_run(run_id).state
    return found.life_cycle_state if found is not None else None


def begin(w: WorkspaceClient, job_id: int, **fields: object) -> int:
    return int(w.jobs.run_now(job_id, **fields).run_id)  # type: ignore[arg-type] # fields


def test_a_job_is_kept_as_it_was_created_and_changed(w: WorkspaceClient) -> None:
    schedule = jobs.CronSchedule(
        quartz_cron_expression="0 0 6 ? * 2-6", timezone_id="Europe/Berlin", pause_status=jobs.PauseStatus.UNPAUSED
    )
    job_id = job(w, task(w, "a"), task(w, "b", "a"), schedule=schedule, tags={"team": "data"}, max_concurrent_runs=3)
    found = w.jobs.get(job_id)
    me = w.current_user.me().user_name
    assert (found.creator_user_name, found.run_as_user_name) == (me, me)
    assert found.settings
    assert found.settings.name == "nightly"
    assert found.settings.tags == {"team": "data"}
    assert found.settings.max_concurrent_runs == 3
    assert found.settings.schedule == schedule
    assert found.settings.format is jobs.Format.MULTI_TASK
    assert [each.task_key for each in found.settings.tasks or ()] == ["a", "b"]
    assert [each.job_cluster_key for each in found.settings.job_clusters or ()] == [KEY]
    w.jobs.update(job_id, new_settings=jobs.JobSettings(name="other", tasks=[task(w, "c", "b")]), fields_to_remove=["schedule"])
    changed = w.jobs.get(job_id).settings
    assert changed
    assert (changed.name, changed.schedule, changed.max_concurrent_runs) == ("other", None, 3)
    assert [each.task_key for each in changed.tasks or ()] == ["a", "b", "c"]
    w.jobs.update(job_id, fields_to_remove=["tasks/c", "tags"])
    changed = w.jobs.get(job_id).settings
    assert changed and [each.task_key for each in changed.tasks or ()] == ["a", "b"] and not changed.tags
    w.jobs.reset(job_id, jobs.JobSettings(name="reset", tasks=[task(w, "only")], job_clusters=CLUSTERS))
    changed = w.jobs.get(job_id).settings
    assert changed and [each.task_key for each in changed.tasks or ()] == ["only"] and changed.max_concurrent_runs == 1
    w.jobs.delete(job_id)
    with pytest.raises(ResourceDoesNotExist):
        w.jobs.get(job_id)


def test_the_older_form_of_one_task_is_answered_to_clients_of_api_2_0(w: WorkspaceClient) -> None:
    """Terraform's `databricks_job` without a `task` creates, reads and resets jobs so."""

    def call(version: str, method: str, **fields: Any) -> Any:
        path = f"/api/{version}/jobs/{method}"
        if method in ("get", "list"):
            return w.api_client.do("GET", path, query=fields)
        return w.api_client.do("POST", path, body=fields)

    file = {"python_file": upload(w, "/jobs/single.py", "print(1)")}
    single: dict[str, Any] = {
        "name": "one task",
        "new_cluster": NEW.as_dict(),
        "spark_python_task": file,
        "max_retries": 2,
        "timeout_seconds": 60,
    }
    job_id = call("2.0", "create", format="MULTI_TASK", **single)["job_id"]
    older = call("2.0", "get", job_id=job_id)["settings"]
    assert {
        **single,
        "new_cluster": older["new_cluster"],
        "format": "SINGLE_TASK",
        "webhook_notifications": {},
    }.items() <= older.items()
    assert single["new_cluster"].items() <= older["new_cluster"].items() and "tasks" not in older
    assert next(each["settings"] for each in call("2.0", "list")["jobs"] if each["job_id"] == job_id) == older
    newer = call("2.2", "get", job_id=job_id)["settings"]
    assert newer["format"] == "MULTI_TASK" and not {"new_cluster", "spark_python_task", "max_retries"} & newer.keys()
    (only,) = newer["tasks"]
    assert (only["task_key"], only["max_retries"], only["spark_python_task"]) == ("one_task", 2, file)

    call("2.0", "update", job_id=job_id, new_settings={"max_retries": 1}, fields_to_remove=["timeout_seconds"])
    changed = call("2.0", "get", job_id=job_id)["settings"]
    assert (changed["format"], changed["max_retries"], changed["timeout_seconds"]) == ("SINGLE_TASK", 1, 0)
    call("2.0", "reset", job_id=job_id, new_settings=older | {"max_retries": 3})
    assert call("2.0", "get", job_id=job_id)["settings"] == older | {"max_retries": 3}

    run = w.jobs.run_now(job_id).result(timeout=SOON)
    assert [each.task_key for each in run.tasks or ()] == ["one_task"]
    call(
        "2.1",
        "update",
        job_id=job_id,
        new_settings={"tasks": [task(w, "two").as_dict()], "job_clusters": [CLUSTERS[0].as_dict()]},
    )
    both = call("2.0", "get", job_id=job_id)["settings"]
    assert both["format"] == "MULTI_TASK" and [each["task_key"] for each in both["tasks"]] == ["one_task", "two"]


def test_whose_rights_it_has_is_read_back_and_stays(w: WorkspaceClient) -> None:
    me = jobs.JobRunAs(user_name=w.current_user.me().user_name)
    created = w.jobs.create(name="mine", run_as=me)
    assert created.job_id
    w.jobs.reset(created.job_id, jobs.JobSettings(name="yours"))  # Databricks keeps it too
    found = w.jobs.get(created.job_id)
    assert found.settings and (found.settings.run_as, found.run_as_user_name) == (me, me.user_name)
    unnamed = w.jobs.create(name="unnamed").job_id
    assert unnamed and (settings := w.jobs.get(unnamed).settings) and settings.run_as is None


def test_a_shared_cluster_ends_although_its_driver_takes_nothing(w: WorkspaceClient, machines: SimulatedProvider) -> None:
    machines.kernels.compute = None
    try:
        with pytest.raises(OperationFailed):
            w.jobs.run_now(job(w, task(w, "a"), task(w, "b", "a"))).result(timeout=SOON)
    finally:
        machines.kernels.compute = answer


def test_jobs_are_listed_by_pages_and_by_name(w: WorkspaceClient) -> None:
    ids = [w.jobs.create(name=f"page {number}", tasks=[]).job_id for number in range(5)]
    found = [each.job_id for each in w.jobs.list(limit=2)]
    assert found[:5] == ids[::-1]
    assert [each.job_id for each in w.jobs.list(name="PAGE 3")] == [ids[3]]
    for job_id in ids:
        assert job_id
        w.jobs.delete(job_id)


def test_tasks_share_a_cluster_that_ends_with_the_last_of_them(w: WorkspaceClient) -> None:
    job_id = job(w, task(w, "a"), task(w, "b", "a"), task(w, "c", "a"), tags={"team": "data"})
    run = w.jobs.run_now(job_id).result(timeout=SOON)
    assert run.state and run.state.result_state is RunResultState.SUCCESS
    assert (run.job_id, run.run_type) == (job_id, jobs.RunType.JOB_RUN)
    clusters = {each.cluster_instance.cluster_id for each in run.tasks or () if each.cluster_instance}
    assert len(clusters) == 1
    cluster = w.clusters.get(str(clusters.pop()))
    assert cluster.state is compute.State.TERMINATED
    assert cluster.termination_reason and cluster.termination_reason.code is compute.TerminationReasonCode.JOB_FINISHED
    assert cluster.custom_tags and cluster.custom_tags["team"] == "data"
    assert [each.run_id for each in w.jobs.list_runs(job_id=job_id)] == [run.run_id]


def test_a_shared_cluster_serves_a_retry_and_the_tasks_after_a_failure(w: WorkspaceClient) -> None:
    job_id = job(
        w,
        task(w, "fails", source="fail", max_retries=1),
        task(w, "after", "fails", run_if=jobs.RunIf.ALL_DONE),
    )
    run = w.jobs.run_now(job_id).result(timeout=SOON)
    assert [(each.task_key, each.attempt_number) for each in run.tasks or ()] == [("fails", 0), ("fails", 1), ("after", 0)]
    assert len({each.cluster_instance.cluster_id for each in run.tasks or () if each.cluster_instance}) == 1
    assert run.state and run.state.result_state is RunResultState.SUCCESS_WITH_FAILURES


def test_parameters_and_references_reach_the_tasks(w: WorkspaceClient) -> None:
    references = ["{{job.id}}", "{{ task.name }}", "{{job.parameters.day}}", "{{tasks.a.result_state}}", "{{start_date}}"]
    job_id = job(
        w,
        task(w, "a"),
        task(w, "b", "a", parameters=references),
        parameters=[jobs.JobParameterDefinition(name="day", default="monday")],
    )
    run = w.jobs.run_now(job_id, job_parameters={"day": "friday"}).result(timeout=SOON)
    today = datetime.now(UTC).date().isoformat()
    assert logs(w, run, "b").split(": ")[0].split()[1:] == [str(job_id), "b", "friday", "success", today]
    assert [each.as_dict() for each in run.job_parameters or ()] == [{"name": "day", "default": "monday", "value": "friday"}]
    run = w.jobs.run_now(job_id, python_params=["x"], only=["a"]).result(timeout=SOON)
    assert [each.task_key for each in run.tasks or ()] == ["a"]
    assert logs(w, run, "a").split(": ")[0].endswith(" x")


def test_notebooks_take_parameters_show_their_cells_and_pass_values_on(w: WorkspaceClient, golden: Golden) -> None:
    def notebook(key: str, *needs: str, **parameters: str) -> jobs.Task:
        return jobs.Task(
            task_key=key,
            job_cluster_key=KEY,
            notebook_task=jobs.NotebookTask(notebook_path=f"/Workspace/Users/me/{key}", base_parameters=parameters),
            depends_on=[jobs.TaskDependency(task_key=each) for each in needs],
        )

    job_id = job(
        w,
        notebook("first", day="monday", who="me"),
        notebook("second", "first", path="{{tasks.first.values.path}}"),
        parameters=[jobs.JobParameterDefinition(name="shared", default="{{job.id}}")],
    )
    run = w.jobs.run_now(job_id, notebook_params={"day": "friday"}).result(timeout=SOON)
    outputs = {}
    for each in run.tasks or ():
        assert each.run_id and each.notebook_task
        output = w.jobs.get_run_output(each.run_id).notebook_output
        assert output and output.result
        outputs[each.task_key] = json.loads(output.result)
    shared = {"shared": str(job_id), "day": "friday"}
    assert outputs == {"first": {**shared, "who": "me"}, "second": {**shared, "path": "/Users/me/first"}}
    first = int((run.tasks or [])[0].run_id or 0)
    told = w.api_client.do("GET", "/api/2.2/jobs/runs/cells", query={"run_id": first})
    assert isinstance(told, dict) and told["over"] and not told["has_more"]
    assert [(each["number"], each["state"]) for each in told["cells"]] == [(2, "SKIPPED"), (0, "FINISHED"), (1, "CANCELLED")]
    assert told["cells"][2]["results"][0]["data"] == [[1]] and told["cells"][2]["widgets"] == {"day": "monday"}
    later = w.api_client.do("GET", "/api/2.1/jobs/runs/cells", query={"run_id": first, "after": 4})
    assert isinstance(later, dict) and [each["number"] for each in later["cells"]] == [1]
    (view,) = w.jobs.export_run(first, views_to_export=jobs.ViewsToExport.ALL).views or [jobs.ViewItem()]
    assert (view.name, view.type) == ("first", jobs.ViewType.NOTEBOOK)
    assert view.content and "<td>1</td>" in view.content and "__DATABRICKS_NOTEBOOK_MODEL = '" in view.content
    assert not w.jobs.export_run(first, views_to_export=jobs.ViewsToExport.DASHBOARDS).views
    with golden.refused(InvalidParameterValue):
        w.jobs.export_run(int(run.run_id or 0))
    plain = w.jobs.run_now(job(w, task(w, "plain"))).result(timeout=SOON)
    with golden.refused(InvalidParameterValue):
        w.jobs.export_run(int((plain.tasks or [])[0].run_id or 0))


def test_a_condition_decides_which_tasks_run(w: WorkspaceClient) -> None:
    condition = jobs.Task(
        task_key="big",
        condition_task=jobs.ConditionTask(op=jobs.ConditionTaskOp.GREATER_THAN, left="{{job.parameters.rows}}", right="10"),
    )

    def branch(key: str, outcome: str) -> jobs.Task:
        made = task(w, key)
        made.depends_on = [jobs.TaskDependency(task_key="big", outcome=outcome)]
        return made

    parameters = [jobs.JobParameterDefinition(name="rows", default="9.5")]
    job_id = job(w, condition, branch("yes", "true"), branch("no", "false"), parameters=parameters)
    for given, ran, excluded in (("100", "yes", "no"), ("9.5", "no", "yes")):
        run = w.jobs.run_now(job_id, job_parameters={"rows": given}).result(timeout=SOON)
        results = {each.task_key: each.state and each.state.result_state for each in run.tasks or ()}
        assert results == {"big": RunResultState.SUCCESS, ran: RunResultState.SUCCESS, excluded: RunResultState.EXCLUDED}
        found = next(each for each in run.tasks or () if each.task_key == "big")
        assert found.condition_task and found.condition_task.outcome == ("true" if ran == "yes" else "false")
    with pytest.raises(OperationFailed):
        w.jobs.run_now(job_id, job_parameters={"rows": "many"}).result(timeout=SOON)


def test_runs_beyond_the_maximum_are_skipped_or_wait_for_their_turn(w: WorkspaceClient) -> None:
    job_id = job(w, task(w, "a", source="slow"))
    first = w.jobs.run_now(job_id)
    skipped = w.jobs.run_now(job_id, queue=jobs.QueueSettings(enabled=False))
    found = w.jobs.get_run(skipped.run_id).state
    assert found and found.life_cycle_state is RunLifeCycleState.SKIPPED
    assert found.result_state is RunResultState.MAXIMUM_CONCURRENT_RUNS_REACHED
    queued = [w.jobs.run_now(job_id).run_id for _ in range(2)]
    assert [state(w, each) for each in queued] == [RunLifeCycleState.QUEUED] * 2
    w.jobs.cancel_run(first.run_id)
    until(lambda: state(w, queued[0]) in (RunLifeCycleState.PENDING, RunLifeCycleState.RUNNING), "the oldest has its turn")
    assert state(w, queued[1]) is RunLifeCycleState.QUEUED
    w.jobs.cancel_all_runs(job_id=job_id, all_queued_runs=True)
    until(lambda: state(w, queued[1]) is RunLifeCycleState.TERMINATED, "a queued run is cancelled")
    assert state(w, queued[0]) is not RunLifeCycleState.TERMINATED
    w.jobs.delete(job_id)
    until(lambda: state(w, queued[0]) is RunLifeCycleState.TERMINATED, "a deleted job's runs are cancelled")


def test_api_2_2_queues_the_runs_of_jobs_by_default(w: WorkspaceClient) -> None:
    def queue(job_id: object) -> jobs.QueueSettings | None:
        settings = w.jobs.get(int(str(job_id))).settings
        return settings.queue if settings else None

    for version, default in (("2.2", True), ("2.1", None), ("2.0", None)):
        made = w.api_client.do("POST", f"/api/{version}/jobs/create", body={"name": "q", "tasks": []})
        assert isinstance(made, dict)
        assert queue(made["job_id"]) == (jobs.QueueSettings(enabled=True) if default else None)
        body = {"job_id": made["job_id"], "new_settings": {"name": "q"}}
        for reset, expected in (("2.1", None), ("2.2", jobs.QueueSettings(enabled=True))):
            w.api_client.do("POST", f"/api/{reset}/jobs/reset", body=body)
            assert queue(made["job_id"]) == expected
    off = job(w, task(w, "a"), queue=jobs.QueueSettings(enabled=False))
    assert queue(off) == jobs.QueueSettings(enabled=False)
    assert queue(job(w, task(w, "a"), continuous=jobs.Continuous(pause_status=jobs.PauseStatus.PAUSED))) is None


def test_a_token_makes_one_run(w: WorkspaceClient) -> None:
    job_id = job(w, task(w, "a"), max_concurrent_runs=5)
    first = begin(w, job_id, idempotency_token="once")
    assert begin(w, job_id, idempotency_token="once") == first
    assert begin(w, job_id, idempotency_token="twice") != first


def test_who_may_see_run_and_change_a_job(server: Server, w: WorkspaceClient) -> None:
    clients = {}
    for name in ("job-viewer", "job-runner", "job-stranger"):
        w.users.create(user_name=f"{name}@example.com")
        clients[name] = server.client(create(w, f"{name}@example.com", comment="", days=None))
    job_id = job(
        w,
        task(w, "a"),
        access_control_list=[
            jobs.JobAccessControlRequest(user_name="job-viewer@example.com", permission_level=jobs.JobPermissionLevel.CAN_VIEW)
        ],
    )
    w.jobs.update_permissions(
        str(job_id),
        access_control_list=[
            jobs.JobAccessControlRequest(
                user_name="job-runner@example.com", permission_level=jobs.JobPermissionLevel.CAN_MANAGE_RUN
            )
        ],
    )
    assert [each.job_id for each in clients["job-viewer"].jobs.list()] == [job_id]
    assert list(clients["job-stranger"].jobs.list()) == []
    for name in ("job-viewer", "job-stranger"):
        with pytest.raises(PermissionDenied):
            clients[name].jobs.run_now(job_id)
    with pytest.raises(PermissionDenied):
        clients["job-stranger"].jobs.get(job_id)
    with pytest.raises(PermissionDenied):
        clients["job-runner"].jobs.update(job_id, new_settings=jobs.JobSettings(name="mine"))
    run = clients["job-runner"].jobs.run_now(job_id).result(timeout=SOON)
    assert run.creator_user_name == w.current_user.me().user_name  # a run has the rights of the job
    assert run.run_id
    assert clients["job-viewer"].jobs.get_run(run.run_id).run_id == run.run_id
    w.jobs.delete_run(run.run_id)
    assert clients["job-viewer"].jobs.get(job_id).job_id == job_id, "grants outlive a run"
    acl = w.jobs.get_permissions(str(job_id)).access_control_list or ()
    owner = next(each for each in acl if each.user_name == run.creator_user_name)
    assert owner.all_permissions and owner.all_permissions[0].permission_level is jobs.JobPermissionLevel.IS_OWNER


def test_what_cannot_be_honoured_is_refused(w: WorkspaceClient, golden: Golden) -> None:
    good = task(w, "a")
    for wrong, field in (
        ({"schedule": jobs.CronSchedule(quartz_cron_expression="* * *", timezone_id="UTC")}, "quartz_cron_expression"),
        ({"schedule": jobs.CronSchedule(quartz_cron_expression="0 0 6 * * *", timezone_id="UTC")}, "?"),
        ({"schedule": jobs.CronSchedule(quartz_cron_expression="* * 6 ? * *", timezone_id="UTC")}, "schedule"),
        ({"schedule": jobs.CronSchedule(quartz_cron_expression="0 0 6 ? * *", timezone_id="Mars/Base")}, "timezone_id"),
        ({"max_concurrent_runs": 1001}, "max_concurrent_runs"),
        ({"run_as": jobs.JobRunAs(user_name="nobody@example.com")}, "run_as"),
        ({"parameters": [jobs.JobParameterDefinition(name="a b", default="")]}, "parameters"),
        ({"tasks": [task(w, "b", parameters=["{{job.nonsense}}"])]}, "{{job.nonsense}}"),
        ({"tasks": [task(w, "b", parameters=["{{tasks.a.run_id}}"])]}, "{{tasks.a.run_id}}"),
        ({"job_clusters": []}, KEY),
        ({"tasks": [good, good]}, "Task key"),
    ):
        with golden.refused(InvalidParameterValue, field):
            w.jobs.create(**({"name": "bad", "tasks": [good], "job_clusters": CLUSTERS} | wrong))
    job_id = job(w, good)
    for asked, field in (({"only": ["z"]}, "only"), ({"spark_submit_params": ["a"]}, "spark_submit_params")):
        with golden.refused(InvalidParameterValue, field):
            w.jobs.run_now(job_id, **asked)  # type: ignore[arg-type] # one of several fields


def test_files_and_a_continuous_trigger_begin_runs(w: WorkspaceClient, golden: Golden) -> None:
    w.volumes.create("main", "default", "inbox", catalog.VolumeType.MANAGED)
    inbox = "/Volumes/main/default/inbox/"
    arrival = jobs.FileArrivalTriggerConfiguration(url=inbox, min_time_between_triggers_seconds=60)
    trigger = jobs.TriggerSettings(file_arrival=arrival, pause_status=jobs.PauseStatus.UNPAUSED)
    told = task(w, "told", parameters=["{{job.trigger.type}}", "{{job.trigger.file_arrival.location}}"])
    by_file = job(w, told, trigger=trigger)
    w.files.upload(f"{inbox}new.csv", io.BytesIO(b"x"))
    always = job(w, task(w, "slow", source="slow"), continuous=jobs.Continuous(pause_status=jobs.PauseStatus.UNPAUSED))
    [run] = until(lambda: list(w.jobs.list_runs(job_id=by_file, completed_only=True, expand_tasks=True)))
    assert run.trigger is jobs.TriggerType.FILE_ARRIVAL
    assert f"file_arrival {inbox}" in logs(w, w.jobs.get_run(int(run.run_id or 0)), "told")
    found = w.jobs.get(by_file)
    assert found.settings and found.settings.trigger == trigger
    assert found.trigger_state and found.trigger_state.file_arrival
    first = until(lambda: list(w.jobs.list_runs(job_id=always, active_only=True)))[0]
    assert first.trigger is jobs.TriggerType.CONTINUOUS
    second = begin(w, always)
    until(lambda: state(w, int(first.run_id or 0)) is RunLifeCycleState.TERMINATED)
    assert [each.run_id for each in w.jobs.list_runs(job_id=always, active_only=True)] == [second]
    with golden.refused(InvalidParameterValue, "schedule", "trigger"):
        schedule = jobs.CronSchedule(quartz_cron_expression="0 0 6 ? * 2-6", timezone_id="UTC")
        job(w, told, trigger=trigger, schedule=schedule)
    for job_id in (by_file, always):
        w.jobs.delete(job_id)
