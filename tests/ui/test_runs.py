"""The pages of runs, and what the /v1 API has of a cluster beside them."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import pytest
from databricks.sdk import WorkspaceClient
from databricks.sdk.service.compute import ClusterSpec
from databricks.sdk.service.jobs import SparkPythonTask, SubmitTask
from playwright.sync_api import expect

from brickyard.providers.simulated import SimulatedProvider
from tests.ui.axe import SOME_LOOKS, readable
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
    expect(section).to_contain_text('"--day" "1"')
    expect(section.get_by_role("link", name="logs")).to_be_visible()
    readable(page, looks=SOME_LOOKS, shown=section)
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
    readable(page, looks=SOME_LOOKS, shown=row)
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
    readable(page, looks=SOME_LOOKS)
    assert session.said == []
