"""The pages of jobs in a real browser: the list, a job with its runs, and the form."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from databricks.sdk import WorkspaceClient
from databricks.sdk.service import jobs
from databricks.sdk.service.jobs import RunLifeCycleState
from playwright.sync_api import Browser, Page, expect

from brickyard.providers.simulated import SimulatedProvider
from tests.contract.test_kept_jobs_sdk import CLUSTERS, KEY, state, task
from tests.reconcile.runworld import answer
from tests.support.patience import SOON, until
from tests.support.server import Server
from tests.support.tokens import create
from tests.ui.axe import HOSTILE, readable
from tests.ui.conftest import Session

DAILY = jobs.CronSchedule(
    quartz_cron_expression="0 0 6 ? * 2-6", timezone_id="Europe/Berlin", pause_status=jobs.PauseStatus.UNPAUSED
)
NAME = f"nightly {HOSTILE}"


@pytest.fixture(scope="module", autouse=True)
def drivers(machines: SimulatedProvider) -> Iterator[None]:
    """Drivers that answer for the length of this module."""
    machines.kernels.compute = answer
    yield
    machines.kernels.compute = None


@pytest.fixture(scope="module")
def job(w: WorkspaceClient) -> Iterator[int]:
    """A job whose names would like to be markup: a file, a condition, and what depends on its outcome. It has run once."""
    condition = jobs.Task(
        task_key="big",
        depends_on=[jobs.TaskDependency(task_key="load")],
        condition_task=jobs.ConditionTask(op=jobs.ConditionTaskOp.GREATER_THAN, left="{{job.parameters.rows}}", right="10"),
    )
    report = task(w, "report", parameters=[HOSTILE], max_retries=2)
    report.depends_on = [jobs.TaskDependency(task_key="big", outcome="true")]
    job_id = w.jobs.create(
        name=NAME,
        description=HOSTILE,
        tags={"team": HOSTILE},
        tasks=[task(w, "load"), condition, report],
        job_clusters=CLUSTERS,
        parameters=[jobs.JobParameterDefinition(name="rows", default="5")],
        schedule=DAILY,
        max_concurrent_runs=3,
    ).job_id
    assert job_id
    w.jobs.run_now(job_id).result(timeout=SOON)
    yield job_id
    w.jobs.delete(job_id)


def row_of(page: Page, job_id: int | None) -> str:
    return f"tbody tr:has-text('{job_id}')"


def test_jobs_are_listed_searched_sorted_and_run(session: Session, server: Server, w: WorkspaceClient, job: int) -> None:
    other = w.jobs.create(name="bare", tasks=[task(w, "only")], job_clusters=CLUSTERS).job_id
    page = session.go("/compute")
    page.get_by_role("link", name="Jobs", exact=True).click()
    expect(page).to_have_url(f"{server.url}/jobs")
    row = page.locator(row_of(page, job))
    expect(row).to_contain_text(NAME)
    expect(row).to_contain_text(f"team: {HOSTILE}")
    expect(row).to_contain_text("Monday to Friday at 06:00 (Europe/Berlin)")
    expect(row).to_contain_text("admin@brickyard.local")
    expect(row.locator(".runmark.good")).to_have_count(1)
    bare = page.locator(row_of(page, other))
    expect(bare.get_by_text("None")).to_have_count(2)
    page.get_by_role("button", name="Name", exact=True).click()
    expect(page).to_have_url(f"{server.url}/jobs?sort=name")
    expect(page.locator("tbody tr").first).to_contain_text("bare")
    page.get_by_role("button", name="Run bare now").click()
    expect(page.get_by_text("A run of bare was started.")).to_be_visible()
    expect(bare.locator(".runmark")).to_have_count(1)
    expect(bare.locator(".runmark.good")).to_have_count(1)
    bare.locator(".runmark").click()
    expect(page.get_by_label("Task only")).to_be_visible()
    page.get_by_role("link", name="bare", exact=True).click()
    expect(page).to_have_url(f"{server.url}/jobs/{other}")
    page.get_by_role("link", name="Jobs", exact=True).first.click()
    page.keyboard.press("/")
    page.keyboard.type("team:")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.reload()
    expect(page.get_by_label("Search by")).to_have_value("team:")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.locator("h1").click()
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{server.url}/jobs/{job}")
    expect(page.get_by_role("heading", level=1)).to_have_text(NAME)
    w.jobs.delete(int(other or 0))
    assert session.said == []
    assert page.title() != "taken over"


def test_a_search_reads_all_pages(session: Session, w: WorkspaceClient) -> None:
    ids = [w.jobs.create(name=f"many {number}", tasks=[]).job_id for number in range(104)]
    page = session.go("/jobs?q=many 0")
    expect(page.locator("tbody tr")).to_have_count(1)
    for job_id in ids:
        w.jobs.delete(int(job_id or 0))
    assert session.said == []


def test_a_job_shows_its_runs_tasks_and_settings(session: Session, job: int) -> None:
    page = session.go(f"/jobs/{job}")
    matrix = page.get_by_role("region", name="Last runs by task")
    expect(matrix.get_by_role("rowheader")).to_have_text(["load", "big", "report"])
    row = matrix.get_by_role("row").filter(has_text="report")
    expect(row.get_by_role("link", name="report: Skipped")).to_be_visible()
    page.get_by_role("tab", name="Tasks").click()
    graph = page.get_by_label("Order of the tasks")
    expect(graph.get_by_role("listitem")).to_have_text(
        ["loadPython file", "bigCondition after load", "reportPython file after big (true)"]
    )
    expect(graph.locator("path")).to_have_count(2)
    shown = page.locator("tbody tr")
    expect(shown.nth(1)).to_contain_text("{{job.parameters.rows}} GREATER_THAN 10")
    expect(shown.last).to_contain_text(HOSTILE.replace('"', '\\"'))
    expect(shown.last).to_contain_text("big (true)")
    expect(shown.last).to_contain_text(f"Job cluster {KEY}")
    page.get_by_role("tab", name="Settings").click()
    expect(page.get_by_label("Settings", exact=True).first).to_contain_text("Monday to Friday at 06:00")
    expect(page.get_by_label("Job parameters").first).to_contain_text("rows")
    expect(page.get_by_label("Job clusters")).to_contain_text("i3.xlarge")
    page.get_by_role("tab", name="Permissions").click()
    expect(page.locator("tbody tr").filter(has_text="admin@brickyard.local")).to_contain_text("IS_OWNER")
    page.go_back()
    expect(page.get_by_role("tab", name="Settings")).to_have_attribute("aria-selected", "true")
    assert session.said == []


def test_a_job_is_run_with_parameters_and_its_run_shows_them(session: Session, w: WorkspaceClient, job: int) -> None:
    page = session.go(f"/jobs/{job}")
    page.get_by_role("button", name="Run now with parameters").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("rows")).to_have_value("5")
    dialog.get_by_label("rows").fill("100")
    page.keyboard.press("Enter")
    expect(dialog).to_have_count(0)
    matrix = page.get_by_role("region", name="Last runs by task")
    expect(matrix.get_by_role("link", name="report: Succeeded")).to_be_visible()
    matrix.get_by_role("link", name="report: Succeeded").press("Enter")
    expect(page.get_by_role("definition").filter(has_text="100 (default: 5)")).to_be_visible()
    expect(page.get_by_label("Task big")).to_contain_text("Outcome: true")
    expect(page.get_by_label("Task report")).to_contain_text("on the job cluster")
    expect(page.get_by_label("Parameters and job clusters")).to_contain_text(f"Job cluster {KEY}")
    node = page.get_by_label("Order of the tasks").get_by_role("listitem").filter(has_text="report")
    expect(node).to_contain_text("Succeeded")
    node.get_by_role("link").click()
    expect(page.get_by_label("Task report")).to_be_in_viewport()
    readable(page, fits=("main",))
    page.set_viewport_size({"width": 1440, "height": 900})
    page.get_by_role("link", name=NAME, exact=True).click()
    expect(page.get_by_role("tab", name="Runs")).to_be_visible()
    whole = next(iter(w.jobs.list_runs(job_id=job, expand_tasks=True)))
    only = next(each for each in whole.tasks or [] if each.task_key == "report")
    page = session.go(f"/jobs/runs/{only.run_id}")
    expect(page.get_by_role("button", name="Delete")).to_have_count(0)  # it would delete the whole run
    expect(page.get_by_label("Order of the tasks")).to_have_count(0)
    page.locator("header").get_by_role("link", name=NAME).click()
    expect(page).to_have_url(re.compile(f"/jobs/runs/{whole.run_id}$"))
    assert session.said == []


def test_runs_wait_are_skipped_and_cancelled(session: Session, w: WorkspaceClient) -> None:
    off = jobs.QueueSettings(enabled=False)
    made = w.jobs.create(name="one at a time", tasks=[task(w, "a", source="slow")], job_clusters=CLUSTERS, queue=off)
    job_id = int(made.job_id or 0)
    first = w.jobs.run_now(job_id).run_id
    skipped = w.jobs.run_now(job_id).run_id
    queued = w.jobs.run_now(job_id, queue=jobs.QueueSettings(enabled=True)).run_id
    page = session.go(f"/jobs/runs/{skipped}")
    expect(page.get_by_text("This run was skipped.")).to_be_visible()
    page = session.go(f"/jobs/runs/{queued}")
    expect(page.locator("header").get_by_text("Queued", exact=True)).to_be_visible()
    page.get_by_role("link", name="one at a time").click()
    expect(page.get_by_role("cell", name="Queued", exact=True)).to_be_visible()
    page.get_by_role("button", name="Cancel all runs").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel all runs").click()
    for each in (first, queued):
        until(lambda: state(w, each) is RunLifeCycleState.TERMINATED, "it is cancelled")  # noqa: B023 - at once
    expect(page.get_by_role("button", name="Cancel all runs")).to_have_count(0)
    expect(page.get_by_role("button", name="Pause schedule")).to_have_count(0)
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete the job").click()
    page.wait_for_url("**/jobs")
    expect(page.locator(row_of(page, job_id))).to_have_count(0)
    session.forgets()


def test_a_job_is_created_and_edited(session: Session, server: Server, w: WorkspaceClient) -> None:
    page = session.go("/jobs/create")
    page.get_by_label("Name", exact=True).fill(HOSTILE)
    page.get_by_label("Schedule", exact=True).last.select_option("cron")
    page.get_by_label("Quartz expression").fill("0 0 6 * *")
    page.get_by_role("button", name="Add a parameter").click()
    page.keyboard.type("day")
    page.keyboard.press("Tab")
    page.keyboard.type("monday")
    with page.expect_response("**/jobs/create"):
        page.get_by_role("button", name="Create job").click()
    expect(page.get_by_label("Quartz expression")).to_have_attribute("aria-invalid", "true")
    page.get_by_label("Quartz expression").fill("0 30 6 ? * MON")
    expect(page.get_by_text("On Monday at 06:30")).to_be_visible()
    page.get_by_role("combobox", name="Time zone").fill("Europe/Ber")
    page.get_by_role("option", name="Europe/Berlin").click()
    editor = page.get_by_role("textbox", name="Tasks and job clusters")
    expect(editor).to_contain_text("spark_python_task")
    editor.press("Control+a")
    page.keyboard.insert_text('{"tasks": [{"task_key": "load"}')
    page.get_by_role("button", name="Create job").click()
    wrong = page.get_by_role("region", name="Tasks and job clusters").get_by_role("alert")
    expect(wrong).to_be_visible()
    editor.press("Control+a")
    page.keyboard.insert_text('{"tasks": [{"task_key": "load"}]}')
    with page.expect_response("**/jobs/create"):
        page.get_by_role("button", name="Create job").click()
    expect(wrong).to_contain_text("Task load")
    expect(editor).to_be_focused()
    good = '{"tasks": [{"task_key": "load", "new_cluster": {"spark_version": "17.3.x-scala2.13", "node_type_id": "i3.xlarge",'
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(good + ' "num_workers": 1}, "spark_python_task": {"python_file": "dbfs:/load.py"}}]}')
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(HOSTILE)
    job_id = int(page.url.rpartition("/")[2])
    made = w.jobs.get(job_id).settings
    assert made and made.schedule and made.schedule.timezone_id == "Europe/Berlin"
    assert [each.as_dict() for each in made.parameters or ()] == [{"name": "day", "default": "monday"}]
    assert made.queue and made.queue.enabled
    page.get_by_role("button", name="Pause schedule").click()
    expect(page.get_by_role("button", name="Resume schedule")).to_be_visible()
    page.get_by_role("button", name="Edit").click()
    expect(page.get_by_label("Paused")).to_be_checked()
    page.get_by_label("Max concurrent runs").fill("4")
    w.jobs.update(job_id, new_settings=jobs.JobSettings(name="theirs", timeout_seconds=60))
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Someone else saved this job first.")).to_be_visible()
    page.get_by_label("Schedule", exact=True).last.select_option("none")
    page.get_by_role("button", name="Save").click()
    expect(page).to_have_url(f"{server.url}/jobs/{job_id}")
    saved = w.jobs.get(job_id).settings
    assert saved and (saved.name, saved.max_concurrent_runs, saved.schedule) == (HOSTILE, 4, None)
    assert saved.timeout_seconds == 60, "what the form does not show stays"
    assert [each.task_key for each in saved.tasks or ()] == ["load"]
    w.jobs.delete(job_id)
    assert all("status of 40" in said for said in session.said), "what the server refused, and what was deleted"
    assert page.title() != "taken over"


def test_a_job_of_a_bundle_is_not_edited_here(session: Session, w: WorkspaceClient) -> None:
    deployment = jobs.JobDeployment(kind=jobs.JobDeploymentKind.BUNDLE, metadata_file_path="/Workspace/b/metadata.json")
    job_id = int(w.jobs.create(name="bundled", deployment=deployment, edit_mode=jobs.JobEditMode.UI_LOCKED).job_id or 0)
    page = session.go(f"/jobs/{job_id}")
    expect(page.get_by_role("note")).to_contain_text("managed by a bundle")
    expect(page.get_by_role("button", name="Delete")).to_be_enabled()
    expect(page.get_by_role("button", name="Edit")).to_have_count(0)
    page = session.go(f"/jobs/{job_id}/edit")
    page.get_by_role("link", name="Back to the job").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("bundled")
    w.jobs.delete(job_id)
    expect(page.get_by_text("This job was deleted.")).to_be_visible(timeout=30_000)
    session.forgets()


def test_who_may_only_see_a_job_is_told_so(chromium: Browser, server: Server, w: WorkspaceClient, job: int) -> None:
    name = "reader.of.jobs@example.com"
    w.users.create(user_name=name)
    context = chromium.new_context(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
    stranger = Session(context, server)
    stranger.log_in(create(w, name, comment="", days=None))
    page = stranger.go(f"/jobs/{job}")
    expect(page.get_by_role("alert")).to_contain_text("Could not read the job")
    page = stranger.go("/jobs")
    expect(page.get_by_text("No jobs yet, or none that you have access to.")).to_be_visible()
    grant = jobs.JobAccessControlRequest(user_name=name, permission_level=jobs.JobPermissionLevel.CAN_VIEW)
    w.jobs.update_permissions(str(job), access_control_list=[grant])
    page = stranger.go(f"/jobs/{job}")
    for label in ("Run now", "Run now with parameters", "Pause schedule", "Edit", "Delete"):
        expect(page.get_by_role("button", name=label, exact=True)).to_be_disabled()
    expect(page.get_by_role("region", name="Last runs by task")).to_be_visible()
    context.close()


@pytest.mark.parametrize(
    "path", ["", "/{}", "/{}?tab=tasks", "/{}?tab=settings", "/{}?tab=permissions", "/create", "/{}/edit", "/runs"]
)
def test_everybody_can_read_it(session: Session, job: int, path: str) -> None:
    page = session.go(f"/jobs{path.format(job)}")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(page.locator("[aria-busy=true]")).to_have_count(0)
    readable(page, fits=("main",))
    assert session.said == []


def test_triggers_and_notifications_are_set_in_the_form(session: Session, server: Server, w: WorkspaceClient) -> None:
    page = session.go("/admin?tab=notifications")
    page.get_by_role("button", name="Create a destination").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("textbox", name="Name", exact=True).fill(HOSTILE)
    dialog.get_by_label("URL").fill("https://example.com/hook")
    dialog.get_by_role("button", name="Create", exact=True).click()
    expect(dialog.get_by_text("signing secret")).to_be_visible()
    dialog.get_by_role("button", name="Done").click()
    expect(page.locator("tbody tr").filter(has_text=HOSTILE)).to_contain_text("Nothing sent yet")
    readable(page)
    [made] = w.notification_destinations.list()
    job_id = w.jobs.create(name="inbox", tasks=[task(w, "only")], job_clusters=CLUSTERS).job_id
    page = session.go(f"/jobs/{job_id}/edit")
    page.get_by_label("Schedule", exact=True).last.select_option("files")
    page.get_by_label("Directory").fill("s3://bucket/")
    page.get_by_role("button", name="Add a notification").click()
    page.get_by_role("combobox", name="Receiver 1").fill(HOSTILE)
    page.get_by_role("option", name=HOSTILE).click()
    page.get_by_label("Duration warning after seconds").fill("600")
    with page.expect_response("**/jobs/update"):
        page.get_by_role("button", name="Save").click()
    expect(page.get_by_label("Directory")).to_have_attribute("aria-invalid", "true")
    page.get_by_label("Directory").fill("dbfs:/inbox/")
    readable(page, looks=(("light", 390),))
    page.get_by_role("button", name="Save").click()
    expect(page).to_have_url(f"{server.url}/jobs/{job_id}")
    expect(page.get_by_text("When files arrive in dbfs:/inbox/").first).to_be_visible()
    saved = w.jobs.get(int(job_id or 0)).settings
    assert saved and saved.trigger and saved.trigger.file_arrival and saved.webhook_notifications and saved.health
    assert [each.id for each in saved.webhook_notifications.on_failure or ()] == [made.id]
    w.jobs.delete(int(job_id or 0))
    page = session.go("/admin?tab=notifications")
    page.get_by_role("button", name=f"Delete {HOSTILE}").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete", exact=True).click()
    expect(page.get_by_text("No destinations yet.")).to_be_visible()
    session.forgets()
    assert page.title() != "taken over"


def test_tasks_of_each_kind_are_added_in_the_form(session: Session, server: Server, w: WorkspaceClient, job: int) -> None:
    created = w.jobs.create(name="added to", tasks=[task(w, "only")], job_clusters=CLUSTERS).job_id
    page = session.go(f"/jobs/{created}/edit")
    kind, add = page.get_by_label("Kind of task"), page.get_by_role("button", name="Add task")
    kind.select_option("condition")
    expect(add).to_be_disabled()
    page.get_by_label("Left value").fill("{{job.parameters.day}}")
    page.get_by_label("Comparison").select_option("NOT_EQUAL")
    page.get_by_label("Right value").fill(HOSTILE)
    add.click()
    kind.select_option("run-job")
    page.get_by_label("Job", exact=True).select_option(str(job))
    add.click()
    kind.select_option("notebook")
    page.get_by_label("Path of the notebook").fill("/Shared/nightly")
    add.click()
    kind.select_option("for-each")
    page.get_by_label("Task to repeat").select_option("notebook")
    page.get_by_label("Inputs").fill('["a", "b"]')
    readable(page, looks=(("light", 390),))
    add.click()
    page.get_by_role("button", name="Add a parameter").click()
    page.get_by_role("textbox", name="Parameter 1").fill("day")
    page.get_by_label("Run as").fill("nobody@example.com")
    with page.expect_response("**/jobs/update"):
        page.get_by_role("button", name="Save").click()
    expect(page.get_by_label("Run as")).to_have_attribute("aria-invalid", "true")
    me = w.current_user.me().user_name or ""
    page.get_by_label("Run as").fill(me)
    page.get_by_role("button", name="Save").click()
    expect(page).to_have_url(f"{server.url}/jobs/{created}")
    saved = w.jobs.get(int(created or 0)).settings
    assert saved and saved.run_as and saved.run_as.user_name == me
    by_key = {each.task_key: each for each in saved.tasks or ()}
    assert list(by_key) == ["only", "condition", "run_job", "for_each"]
    condition, run_job, loop = (by_key[key] for key in ("condition", "run_job", "for_each"))
    assert condition.condition_task and condition.condition_task.right == HOSTILE
    assert run_job.run_job_task and run_job.run_job_task.job_id == job
    assert loop.for_each_task and loop.for_each_task.inputs == '["a", "b"]'
    assert loop.for_each_task.task.notebook_task and loop.for_each_task.task.job_cluster_key
    session.go("/jobs")
    w.jobs.delete(int(created or 0))
    session.forgets()


def test_a_run_has_the_address_that_the_api_gives_it(session: Session, w: WorkspaceClient, job: int) -> None:
    run = next(iter(w.jobs.list_runs(job_id=job)))
    url = w.jobs.get_run(run.run_id or 0).run_page_url or ""
    assert url.endswith(f"/jobs/{job}/runs/{run.run_id}")
    page = session.go(url.partition(w.config.host)[2])
    expect(page.get_by_role("heading", level=1)).to_have_text(run.run_name or "")
