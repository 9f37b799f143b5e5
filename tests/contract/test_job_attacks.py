"""Jobs under attack, through the official SDK, on the simulated provider: by another user of the workspace, and by what they are
made of."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from databricks.sdk import WorkspaceClient
from databricks.sdk.errors import BadRequest, InvalidParameterValue, PermissionDenied
from databricks.sdk.service import iam, jobs

from tests.contract.test_kept_jobs_sdk import begin, drivers, job, task
from tests.contract.test_repairs_sdk import ended
from tests.support.patience import SOON
from tests.support.server import Server
from tests.support.tokens import create

__all__ = ("drivers",)  # a fixture of this module too
OWNER, MANAGE, VIEW = (jobs.JobPermissionLevel(each) for each in ("IS_OWNER", "CAN_MANAGE", "CAN_VIEW"))
ALWAYS = jobs.ConditionTask(op=jobs.ConditionTaskOp.EQUAL_TO, left="1", right="1")
HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "'; drop table jobs; --",
    "{{job.id}}",
    "../../etc/passwd",
    "\u202egnp.exe",
    "a\nb: c",
    "💥" * 500,
)


def outsider(server: Server, w: WorkspaceClient, name: str) -> WorkspaceClient:
    w.users.create(user_name=f"{name}@example.com")
    return server.client(create(w, f"{name}@example.com", comment="", days=None))


def test_another_user_reaches_nothing_of_a_job_and_its_runs(server: Server, w: WorkspaceClient) -> None:
    other = outsider(server, w, "job-attacker")
    job_id = job(w, task(w, "a", source="fail"))
    run_id = begin(w, job_id)
    run = ended(w, run_id)
    attempt = (run.tasks or [])[0].run_id or 0
    query: dict[str, Callable[[], object]] = {
        "get": lambda: other.jobs.get(job_id),
        "update": lambda: other.jobs.update(job_id, new_settings=jobs.JobSettings(name="mine")),
        "reset": lambda: other.jobs.reset(job_id, jobs.JobSettings(name="mine")),
        "delete": lambda: other.jobs.delete(job_id),
        "run-now": lambda: other.jobs.run_now(job_id),
        "cancel-all": lambda: other.jobs.cancel_all_runs(job_id=job_id),
        "permissions": lambda: other.jobs.get_permissions(str(job_id)),
        "set-permissions": lambda: other.jobs.set_permissions(
            str(job_id),
            access_control_list=[
                jobs.JobAccessControlRequest(
                    user_name="job-attacker@example.com", permission_level=jobs.JobPermissionLevel.CAN_MANAGE
                )
            ],
        ),
        "runs/get": lambda: other.jobs.get_run(run_id),
        "runs/get of an attempt": lambda: other.jobs.get_run(attempt),
        "runs/get-output": lambda: other.jobs.get_run_output(attempt),
        "runs/export": lambda: other.jobs.export_run(attempt),
        "runs/cells": lambda: other.api_client.do("GET", "/api/2.2/jobs/runs/cells", query={"run_id": attempt}),
        "runs/cancel": lambda: other.jobs.cancel_run(run_id),
        "runs/delete": lambda: other.jobs.delete_run(run_id),
        "runs/repair": lambda: other.jobs.repair_run(run_id, rerun_all_failed_tasks=True),
    }
    for what, call in query.items():
        with pytest.raises(PermissionDenied):
            call()
        assert what
    assert list(other.jobs.list()) == []
    assert list(other.jobs.list(name="nightly")) == []
    assert list(other.jobs.list_runs(job_id=job_id)) == []
    assert list(other.jobs.list_runs()) == []
    assert w.jobs.get_run(run_id).state == run.state


def test_a_job_has_one_owner_who_can_give_it_away(server: Server, w: WorkspaceClient) -> None:
    """An owner's transfer gives nobody's code another's rights; an administrator's takes the rights of the job's runs along."""
    first, second, third = (outsider(server, w, f"job-{each}") for each in ("first", "second", "third"))
    created = first.jobs.create(name="handed over", tasks=[jobs.Task(task_key="a", condition_task=ALWAYS)]).job_id
    assert created

    def given(*levels: tuple[str, jobs.JobPermissionLevel]) -> list[jobs.JobAccessControlRequest]:
        return [jobs.JobAccessControlRequest(user_name=f"job-{who}@example.com", permission_level=level) for who, level in levels]

    def owners() -> list[str | None]:
        acl = w.jobs.get_permissions(str(created)).access_control_list or []
        return [each.user_name for each in acl if any(one.permission_level is OWNER for one in each.all_permissions or ())]

    def refused(error: type[Exception], by: WorkspaceClient, *acl: jobs.JobAccessControlRequest) -> None:
        before = owners()
        with pytest.raises(error):
            by.jobs.update_permissions(str(created), access_control_list=list(acl))
        assert owners() == before

    refused(InvalidParameterValue, first, *given(("first", OWNER), ("second", OWNER)))
    refused(InvalidParameterValue, first, jobs.JobAccessControlRequest(group_name="users", permission_level=OWNER))
    first.jobs.update_permissions(str(created), access_control_list=given(("second", MANAGE)))
    refused(PermissionDenied, second, *given(("second", OWNER)))
    admin = jobs.JobRunAs(user_name=w.current_user.me().user_name)
    with pytest.raises(PermissionDenied):
        second.jobs.update(created, new_settings=jobs.JobSettings(run_as=admin))

    first.jobs.update_permissions(str(created), access_control_list=given(("second", OWNER)))
    assert owners() == ["job-second@example.com"]
    assert [each.job_id for each in second.jobs.list()] == [created]
    run = second.jobs.run_now(created).result(timeout=SOON)
    assert run.creator_user_name == "job-first@example.com"
    assert second.jobs.get_run(run.run_id or 0).run_id == run.run_id
    first.jobs.update(created, new_settings=jobs.JobSettings(name="still mine to manage"))
    second.jobs.set_permissions(str(created), access_control_list=given(("second", OWNER)))
    with pytest.raises(PermissionDenied):
        first.jobs.get(created)
    assert second.jobs.get_run(run.run_id or 0).run_id == run.run_id, "an owner sees the runs whatever a list leaves out"

    w.jobs.set_permissions(str(created), access_control_list=given(("third", OWNER), ("second", VIEW)))
    assert owners() == ["job-third@example.com"]
    assert w.jobs.get(created).run_as_user_name == "job-third@example.com"
    assert third.jobs.run_now(created).result(timeout=SOON).creator_user_name == "job-third@example.com"
    with pytest.raises(PermissionDenied):
        second.jobs.run_now(created)
    third_id = str(third.current_user.me().id)
    w.jobs.update_permissions(str(created), access_control_list=given(("second", OWNER)))
    w.users.patch(
        third_id,
        operations=[iam.Patch(op=iam.PatchOp.REPLACE, value={"active": False})],
        schemas=[iam.PatchSchema.URN_IETF_PARAMS_SCIM_API_MESSAGES_2_0_PATCH_OP],
    )
    refused(InvalidParameterValue, w, *given(("third", OWNER)))


def test_an_owner_sees_the_runs_of_a_job_that_runs_as_somebody_else(server: Server, w: WorkspaceClient) -> None:
    owner, admin = outsider(server, w, "job-owner"), str(w.current_user.me().user_name)
    created = owner.jobs.create(name="lent", tasks=[jobs.Task(task_key="a", condition_task=ALWAYS)]).job_id
    assert created
    w.jobs.update(created, new_settings=jobs.JobSettings(run_as=jobs.JobRunAs(user_name=admin)))
    run = owner.jobs.run_now(created).result(timeout=SOON)
    assert run.creator_user_name == admin
    assert [each.run_id for each in owner.jobs.list_runs(job_id=created)] == [run.run_id]
    acl = owner.jobs.set_permissions(str(created), access_control_list=[]).access_control_list or []
    shown = [[one.permission_level for one in each.all_permissions or ()] for each in acl if each.user_name]
    assert shown == [[OWNER]]
    owner.jobs.delete_run(run.run_id or 0)


def test_hostile_names_are_kept_as_they_are_or_refused(w: WorkspaceClient) -> None:
    for name in HOSTILE:
        created = w.jobs.create(name=name, description=name, tags={"k": name[:40]}, tasks=[]).job_id
        assert created
        found = w.jobs.get(created).settings
        assert found and (found.name, found.description) == (name, name)
        assert [each.job_id for each in w.jobs.list(name=name)] == [created]
        w.jobs.delete(created)
        with pytest.raises(InvalidParameterValue):
            w.jobs.create(name="x", tasks=[jobs.Task(task_key=name, condition_task=ALWAYS)])
    with pytest.raises(BadRequest):
        w.jobs.create(name="a\0b", tasks=[])


def test_five_thousand_inputs_are_bounded_in_their_size(w: WorkspaceClient) -> None:
    nested = jobs.Task(task_key="each", condition_task=ALWAYS)

    def loop(inputs: str) -> jobs.Task:
        return jobs.Task(task_key="loop", for_each_task=jobs.ForEachTask(inputs=inputs, task=nested, concurrency=100))

    for wrong in (json.dumps(["x" * 1000] * 5_000), json.dumps(list(range(5_001))), "[" * 100_000, '["' + "\\ud800" * 10 + '"]'):
        with pytest.raises(InvalidParameterValue):
            w.jobs.create(name="bad", tasks=[loop(wrong)])
    created = w.jobs.create(name="wide", tasks=[loop("{{job.parameters.all}}")], parameters=[
        jobs.JobParameterDefinition(name="all", default="[]")
    ]).job_id  # fmt: skip
    assert created
    with pytest.raises(InvalidParameterValue):
        w.jobs.run_now(created, job_parameters={"all": json.dumps(["x" * 1000] * 5_000)})


def test_a_job_of_a_thousand_tasks_is_paged_and_runs(w: WorkspaceClient) -> None:
    def condition(number: int) -> jobs.Task:
        needs = [jobs.TaskDependency(task_key=f"t{number // 2}", outcome="true")] if number else []
        return jobs.Task(task_key=f"t{number}", condition_task=ALWAYS, depends_on=needs)

    tasks = [condition(number) for number in range(1_000)]
    parameters = [jobs.JobParameterDefinition(name=f"p{number}", default="") for number in range(100)]
    created = w.jobs.create(name="thousand", tasks=tasks, parameters=parameters).job_id
    assert created
    found = w.jobs.get(created).settings  # all pages
    assert found and [each.task_key for each in found.tasks or ()] == [each.task_key for each in tasks]
    assert len(found.parameters or ()) == 100
    shown = w.api_client.do("GET", "/api/2.2/jobs/get", query={"job_id": created})
    assert isinstance(shown, dict)
    assert (len(shown["settings"]["tasks"]), len(shown["settings"]["parameters"])) == (100, 100)
    later = w.api_client.do("GET", "/api/2.2/jobs/get", query={"job_id": created, "page_token": shown["next_page_token"]})
    assert isinstance(later, dict)
    assert [each["task_key"] for each in later["settings"]["tasks"]] == [f"t{number}" for number in range(100, 200)]
    assert "parameters" not in later["settings"]
    listed = w.api_client.do("GET", "/api/2.2/jobs/list", query={"name": "thousand", "expand_tasks": "true"})
    assert isinstance(listed, dict)
    assert (len(listed["jobs"][0]["settings"]["tasks"]), listed["jobs"][0]["has_more"]) == (100, True)
    run = w.jobs.run_now(created).result(timeout=SOON)
    assert run.run_id and run.state and run.state.result_state is jobs.RunResultState.SUCCESS
    whole = w.jobs.get_run(run.run_id)
    assert len(whole.tasks or ()) == 1_000
    first = w.api_client.do("GET", "/api/2.2/jobs/runs/get", query={"run_id": run.run_id})
    assert isinstance(first, dict)
    assert len(first["tasks"]) == len(first["job_parameters"]) == 100
    some = w.api_client.do("GET", "/api/2.2/jobs/runs/list", query={"job_id": created, "expand_tasks": "true"})
    assert isinstance(some, dict)
    assert (len(some["runs"][0]["tasks"]), some["runs"][0]["has_more"]) == (100, True)
    w.jobs.delete(created)
    with pytest.raises(InvalidParameterValue):
        w.jobs.create(name="more", tasks=[condition(number) for number in range(1_001)])


def test_limits_of_pages(w: WorkspaceClient) -> None:
    def listed(path: str, **query: object) -> object:
        return w.api_client.do("GET", path, query=query)

    for path, wrong in (
        ("/api/2.2/jobs/list", (0, -1, 101)),
        ("/api/2.2/jobs/runs/list", (-1, 1_001)),
    ):
        for limit in wrong:
            with pytest.raises(InvalidParameterValue):
                listed(path, limit=limit)
        with pytest.raises(InvalidParameterValue):
            listed(path, offset=-1)
    for limit in (0, 1, 25, 26, 1_000):  # of the 2.0 API, too
        assert isinstance(listed("/api/2.1/jobs/runs/list", limit=limit), dict)


def test_a_job_always_says_who_hears_of_its_runs(w: WorkspaceClient) -> None:
    created = w.jobs.create(name="quiet", tasks=[]).job_id
    for path, query in (("get", {"job_id": created}), ("list", {"name": "quiet"})):
        shown = w.api_client.do("GET", f"/api/2.2/jobs/{path}", query=query)
        assert isinstance(shown, dict)
        settings = (shown["jobs"][0] if path == "list" else shown)["settings"]
        assert (settings["webhook_notifications"], settings["email_notifications"]) == ({}, {})
