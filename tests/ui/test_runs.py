"""The pages of runs, and what the /v1 API has of a cluster beside them."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import pytest
from databricks.sdk import WorkspaceClient
from databricks.sdk.service.compute import ClusterSpec
from databricks.sdk.service.jobs import NotebookTask, SparkPythonTask, SubmitTask
from playwright.sync_api import expect

from brickyard.providers.simulated import SimulatedProvider
from brickyard.providers.simulated.kernels import Answer
from tests.ui.axe import HOSTILE, readable, violations_in_both_schemes
from tests.ui.conftest import Session

RUNTIME, TYPE = "17.3.x-scala2.13", "i3.xlarge"


@pytest.fixture
def slow(machines: SimulatedProvider) -> Iterator[None]:
    """No machine comes."""
    before = machines.knobs.register_s
    machines.knobs.register_s = 3600
    yield
    machines.knobs.register_s = before


@pytest.mark.usefixtures("slow")
def test_a_run_is_followed_and_cancelled(session: Session, w: WorkspaceClient) -> None:
    w.dbfs.put("/load.py", contents=base64.b64encode(b"print(1)\n").decode(), overwrite=True)
    task = SubmitTask(
        task_key="load",
        new_cluster=ClusterSpec(num_workers=1, spark_version=RUNTIME, node_type_id=TYPE),
        spark_python_task=SparkPythonTask(python_file="dbfs:/load.py", parameters=["--day", "1"]),
    )
    run = w.jobs.submit(run_name="nightly load", tasks=[task])
    page = session.go("/compute")
    page.get_by_role("link", name="Jobs", exact=True).click()
    page.get_by_role("link", name="Job runs").click()
    expect(page.get_by_role("heading", name="Job runs")).to_be_visible()
    page.get_by_label("Search by name or id").fill("nightly")
    page.get_by_role("link", name="nightly load").click()
    section = page.get_by_label("Task load")
    expect(section).to_contain_text("dbfs:/load.py")
    expect(section).to_contain_text("--day 1")
    expect(section.get_by_role("link", name="logs")).to_be_visible()
    readable(page, shown=section)
    page.set_viewport_size({"width": 1440, "height": 900})
    page.get_by_role("button", name="Cancel", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel the run").click()
    expect(page.get_by_text("Cancelled").first).to_be_visible()
    state = w.jobs.get_run(run.run_id).state
    assert state is not None and state.result_state is not None and state.result_state.value == "CANCELED"
    page.get_by_role("button", name="Delete", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    page.wait_for_url("**/jobs/runs")
    expect(page.get_by_role("link", name="nightly load")).to_have_count(0)
    session.forgets()


SVG = f"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>{HOSTILE}"
DOT = "iVBORw0KGgoAAAANSUhEUgAAAAoAAAAKCAIAAAACUFjqAAAAEklEQVR4nGNgYPiPB41KY0UANUdjnX67pIgAAAAASUVORK5CYII="
SCHEMA = [{"name": "carrier", "type": '"string"'}, {"name": "flights", "type": '"long"'}]
ERROR = {"resultType": "error", "summary": "<span>ValueError</span>: no rows", "cause": "Traceback ...\nValueError: no rows"}


def shown_cells() -> list[dict[str, Any]]:
    """A notebook that fails in its last cell but one, as a driver tells it."""
    outputs: list[tuple[str, str, list[dict[str, Any]]]] = [
        ("markdown", "%md\n# Flights", [{"resultType": "text", "isHtml": True, "data": f"<h1>Flights</h1><p>by day</p>{SVG}"}]),
        ("python", "rows = 2  # of them\nprint('read', rows)", [{"resultType": "text", "data": "read 2\n"}]),
        ("sql", "%sql\nSELECT carrier, count(*) AS flights FROM f", [
            {"resultType": "table", "schema": SCHEMA, "data": [["UA", 9], ["B6", 10]], "truncated": False}]),
        ("python", "plt.plot(rows)", [
            {"resultType": "image", "fileName": f"data:image/png;base64,{DOT}"},
            {"resultType": "text", "isHtml": True, "data": f"<b>bold</b>{SVG}"}]),
        ("python", "check(rows)", [{"resultType": "text", "data": f"{HOSTILE}\n"}, ERROR]),
        ("python", "never()", []),
    ]  # fmt: skip
    states = ["FINISHED"] * 4 + ["ERROR", "SKIPPED"]
    return [
        {"number": at, "version": at + 1, "source": source, "language": language, "state": states[at], "results": results,
         "start_time": 1_000 if at < 5 else 0, "end_time": 2_500 if at < 5 else 0,
         "widgets": {"day": "monday"} if at == 1 else {}}
        for at, (language, source, results) in enumerate(outputs)
    ]  # fmt: skip


def test_a_notebook_shows_its_cells(session: Session, w: WorkspaceClient, machines: SimulatedProvider) -> None:
    machines.kernels.compute = lambda _command: Answer(results=ERROR, cells=shown_cells())
    task = SubmitTask(
        task_key="report",
        new_cluster=ClusterSpec(num_workers=1, spark_version=RUNTIME, node_type_id=TYPE),
        notebook_task=NotebookTask(notebook_path="/Shared/report", base_parameters={"day": "monday"}),
    )
    run = w.jobs.submit(run_name="report", tasks=[task])
    page = session.go(f"/jobs/runs/{run.run_id}")
    section = page.get_by_label("Task report")
    expect(section).to_contain_text("/Shared/report")
    cells = section.get_by_role("list", name="Cells of the notebook")
    expect(cells.get_by_role("listitem", name="Cell", exact=False)).to_have_count(6)
    expect(cells.get_by_role("heading", name="Flights")).to_be_visible()
    expect(cells.locator(".tok-comment")).to_have_text("# of them")
    expect(cells).to_contain_text("day = monday")
    cells.get_by_role("button", name="flights").click()
    cells.get_by_role("button", name="flights").click()
    expect(cells.get_by_role("gridcell", name="10").first).to_be_visible()
    expect(cells.get_by_role("img", name="Result 1 of the command")).to_be_visible()
    expect(cells.frame_locator("iframe").locator("b")).to_have_text("bold")
    expect(cells).to_contain_text("ValueError: no rows")
    expect(cells.get_by_label("What the command printed").last).to_contain_text("Traceback")
    section.get_by_role("button", name="Go to the failed cell").click()
    expect(cells).to_contain_text(HOSTILE)
    assert page.title() != "taken over"
    readable(page, shown=cells)
    with page.expect_download() as saving:
        section.get_by_role("button", name="Save as HTML").click()
    saved = saving.value.path().read_text()
    assert saving.value.suggested_filename == "report.html" and "ValueError: no rows" in saved
    blocked = [each for each in session.said if "Blocked script" in each or "img-src" in each or "Executing inline" in each]
    assert session.said == blocked, "users' HTML only is refused what it tries"
    alone = session.context.new_page()  # as a file of its own
    alone.set_content(saved)
    expect(alone.frame_locator("iframe").locator("b")).to_have_text("bold")
    expect(alone.get_by_role("heading", name="Flights")).to_be_visible()
    assert alone.title() == "report"
    assert violations_in_both_schemes(alone) == []


def test_schedules_snapshots_and_limits_of_a_cluster(session: Session, w: WorkspaceClient) -> None:
    cluster_id = str(
        w.clusters.create(cluster_name="timed", spark_version=RUNTIME, node_type_id=TYPE, num_workers=1).result().cluster_id
    )
    page = session.go(f"/schedules?cluster={cluster_id}")
    page.get_by_role("button", name="Add a schedule").click()
    page.get_by_role("dialog").get_by_label("Action").select_option("stop")
    page.get_by_role("dialog").get_by_role("button", name="Add", exact=True).click()
    row = page.locator("tbody tr").filter(has_text="0 8 * * MON-FRI")
    expect(row).to_contain_text("Stop")
    row.get_by_role("button", name="Pause").click()
    expect(row).to_contain_text("Paused")
    readable(page, shown=row)
    page.set_viewport_size({"width": 1440, "height": 900})
    row.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(row).to_have_count(0)
    page.get_by_role("tab", name="Limits").click()
    expect(page.get_by_role("cell", name="Highest cost")).to_be_visible()
    page.get_by_role("button", name="Restart with other limits").click()
    page.get_by_label("Cost since the start").fill("5")
    page.get_by_role("dialog").get_by_role("button", name="Restart", exact=True).click()
    expect(page.locator("tbody tr").filter(has_text="Highest cost")).to_contain_text("5")
    page.get_by_role("tab", name="Snapshots").click()
    expect(page.get_by_text("No snapshots yet.")).to_be_visible()
    page.get_by_role("textbox", name="Name").fill("epoch 12")
    page.get_by_role("button", name="Take a snapshot").click()
    row = page.locator("tbody tr").filter(has_text="epoch 12")
    expect(row).to_contain_text("available")
    w.clusters.wait_get_cluster_running(cluster_id)
    row.get_by_role("button", name="Restore epoch 12").click()
    with page.expect_response(f"**/v1/clusters/{cluster_id}/restart") as answer:
        page.get_by_role("dialog").get_by_role("button", name="Restore and restart").click()
    assert answer.value.ok
    assert (answer.value.request.post_data_json or {}).keys() == {"restore_from_snapshot"}
    expect(page.get_by_text("The cluster is restarting with the files of epoch 12.")).to_be_visible()
    w.clusters.permanent_delete(cluster_id)
    assert session.said == []


def test_each_page_leads_to_its_documentation(session: Session) -> None:
    for path in ("/spend", "/files", "/jobs/runs", "/schedules"):
        page = session.go(path)
        page.get_by_role("link", name="Documentation of this page").click()
        expect(page.locator("article h1")).to_be_visible()
    readable(page)
    assert session.said == []
