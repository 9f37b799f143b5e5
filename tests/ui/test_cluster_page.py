"""The page of one cluster in a real browser."""

from __future__ import annotations

import contextlib
import html
import io
import json
import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
from databricks.sdk import WorkspaceClient
from databricks.sdk.errors import BadRequest
from databricks.sdk.service.catalog import VolumeType
from databricks.sdk.service.compute import AutoScale, Library, PythonPyPiLibrary, State
from playwright.sync_api import Browser, Locator, Page, Route, expect

from brickyard.providers.simulated import SimulatedProvider
from brickyard.providers.simulated.kernels import Answer
from tests.support.depth import ALL
from tests.support.patience import until
from tests.support.server import Server
from tests.support.tokens import create
from tests.ui.axe import HOSTILE, LOOKS, readable, violations
from tests.ui.conftest import Session

TABS = ("configuration", "notebooks", "libraries", "events", "spark-ui", "logs", "metrics", "apps", "jdbc", "permissions")
COMMON: dict[str, Any] = {"spark_version": "17.3.x-scala2.13", "node_type_id": "i3.xlarge"}


@pytest.fixture(scope="module")
def cluster(w: WorkspaceClient, machines: SimulatedProvider) -> Iterator[str]:
    """A running cluster whose name, tags and conf would like to be markup; its drivers answer commands."""
    machines.kernels.compute = computed
    made = w.clusters.create(
        cluster_name=f"analytics {HOSTILE}",
        autoscale=AutoScale(min_workers=1, max_workers=3),
        driver_node_type_id="i3.2xlarge",
        autotermination_minutes=45,
        custom_tags={"team": "data", "quote": 'a "b" \' ${c} %{d} é'},
        spark_conf={"spark.sql.shuffle.partitions": "16"},
        spark_env_vars={"GREETING": "it's <b>here</b>"},
        **COMMON,
    ).result()
    yield str(made.cluster_id)
    machines.kernels.compute = None
    w.clusters.permanent_delete(str(made.cluster_id))


def computed(command: str) -> Answer:
    if "SELECT" in command:
        schema = [{"name": "name", "type": '"string"'}, {"name": "amount", "type": '"integer"'}]
        return Answer(results={"resultType": "table", "schema": schema, "data": [[HOSTILE, 42], [None, 7]], "truncated": False})
    if "boom" in command:
        results = {
            "resultType": "error",
            "summary": f"<span class='ansired'>Wrong</span>: {html.escape(HOSTILE, quote=False)}",
            "cause": "the trace",
        }
        return Answer(results=results)
    if "sleep" in command:
        return Answer(results={"resultType": "text", "data": "woke up"}, after_s=3600)
    return Answer(results={"resultType": "text", "data": f"{HOSTILE} printed"})


def opened(session: Session, cluster_id: str, tab: str = "", more: str = "") -> Page:
    query = "&".join(part for part in (tab and f"tab={tab}", more) if part)
    page = session.go(f"/compute/clusters/{cluster_id}" + (f"?{query}" if query else ""))
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    return page


def state(page: Page) -> Locator:
    return page.locator(".head .word")


def test_the_configuration_can_be_read_and_copied_as_code_that_works(
    session: Session, server: Server, w: WorkspaceClient, cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = opened(session, cluster)
    expect(state(page)).to_have_text("RUNNING")
    expect(page.get_by_role("heading", name=f"analytics {HOSTILE}")).to_be_visible()
    expect(page.get_by_label("Compute", exact=True)).to_contain_text("45 minutes of inactivity")
    expect(page.get_by_label("Environment variables")).to_contain_text("it's <b>here</b>")
    asked: Any = w.api_client.do("GET", "/api/2.1/clusters/get", query={"cluster_id": cluster})
    page.get_by_text("JSON", exact=True).click()
    expect(page).to_have_url(f"{server.url}/compute/clusters/{cluster}?as=json")
    code = page.locator(".code")
    assert json.loads(code.inner_text()) == asked["spec"]
    page.get_by_text("CLI", exact=True).click()
    expect(code).to_contain_text("databricks clusters create")
    assert json.loads(shlex.split(code.inner_text())[-1]) == asked["spec"]
    page.get_by_text("Terraform", exact=True).click()
    expect(code).to_contain_text('resource "databricks_cluster"')
    expect(code).to_contain_text("autoscale {")
    expect(code).to_contain_text(r'"quote" = "a \"b\" \' $${c} %%{d} é"'.replace(r"\'", "'"))
    page.get_by_text("SDK", exact=True).click()
    expect(code).to_contain_text("w.clusters.create(")
    monkeypatch.setenv("DATABRICKS_HOST", server.url)
    monkeypatch.setenv("DATABRICKS_TOKEN", str(w.config.token))
    before = {each.cluster_id for each in w.clusters.list()}
    exec(compile(code.inner_text(), "copied", "exec"), {})  # noqa: S102 - this is what people do with it
    (copy,) = {str(each.cluster_id) for each in w.clusters.list()} - before
    again: Any = w.api_client.do("GET", "/api/2.1/clusters/get", query={"cluster_id": copy})
    w.clusters.permanent_delete(copy)
    assert again["spec"] == asked["spec"]
    assert session.said == []


def test_a_start_shows_what_it_waits_for_and_a_failure_what_to_do(
    session: Session, w: WorkspaceClient, machines: SimulatedProvider
) -> None:
    common = {**COMMON, "node_type_id": "r5.large"}
    machines.knobs.register_s, machines.knobs.waits_for = 3600, "waiting for Ray: {CPU: 4}"
    made = w.clusters.create(cluster_name="slow", num_workers=1, **common)
    page = opened(session, made.cluster_id)
    expect(state(page)).to_have_text("PENDING")
    timeline = page.get_by_label("Start: its phases")
    expect(timeline.locator("[aria-current=step]")).to_contain_text("Acquire instances")
    expect(timeline.get_by_role("status")).to_contain_text("Waiting for Ray: {CPU: 4} for ")
    machines.knobs.register_s, machines.knobs.waits_for = 0, ""
    page.get_by_role("button", name="Stop").click()
    page.get_by_role("button", name="Stop the cluster").click()
    expect(state(page)).to_have_text("TERMINATED")
    machines.knobs.full_types = frozenset({"r5.large"})
    page.get_by_role("button", name="Start", exact=True).click()
    failure = page.get_by_role("alert").filter(has_text="The cluster failed: CLOUD_PROVIDER_RESOURCE_STOCKOUT")
    expect(failure).to_contain_text("there are no instances of r5.large now")
    expect(failure.locator(".remedy")).to_contain_text("choose a smaller node type")
    expect(failure.get_by_role("button", name="Logs")).to_have_count(0)  # there was no node
    expect(failure.get_by_role("link", name="Edit")).to_have_attribute("href", f"/compute/clusters/{made.cluster_id}/edit")
    failure.get_by_role("button", name="Event log").click()
    expect(page.locator(".events .word.bad").first).to_be_visible()
    machines.knobs.full_types = frozenset()
    failure.get_by_role("button", name="Start again").click()
    expect(state(page)).to_have_text("RUNNING")
    expect(failure).to_have_count(0)
    w.clusters.permanent_delete(made.cluster_id)
    expect(page.get_by_text("This cluster was deleted.")).to_be_visible()
    expect(page.get_by_role("heading", name="slow")).to_be_visible()
    expect(page.get_by_role("button", name="Stop")).to_have_count(0)
    session.forgets()


FAILED = {
    "state_message": "The driver failed: the driver's JVM ended with code 1: no such class a.B. Check the setting spark.plugins."
    "\nLast lines of its log:\nError: no such class a.B",
    "termination_reason": {
        "code": "SPARK_STARTUP_FAILURE",
        "type": "CLIENT_ERROR",
        "parameters": {"log_tail": "INFO it begins\nError: no such class a.B\n  at main"},
    },
}


def test_a_failed_driver_s_log_is_one_click_away_at_its_error(
    session: Session, w: WorkspaceClient, machines: SimulatedProvider
) -> None:
    """The card as the server's answer for a Spark that did not start makes it."""
    made = w.clusters.create(cluster_name="broken", num_workers=1, **COMMON).result()
    driver = str(getattr(w.clusters.get(str(made.cluster_id)).driver, "instance_id", ""))
    lines = [f"line {number}" for number in range(400)]
    lines[100] = "ERROR Error: no such class a.B"
    machines.logs.write(driver, "log4j-active.log", ("\n".join(lines) + "\n").encode())

    def answer(route: Route) -> None:
        found = route.fetch().json() | FAILED | {"state": "TERMINATED"}
        found["termination_reason"]["parameters"]["instance_id"] = driver
        route.fulfill(json=found)

    session.page.route("**/api/2.1/clusters/get?*", answer)
    page = opened(session, str(made.cluster_id))
    failure = page.get_by_role("alert").filter(has_text="SPARK_STARTUP_FAILURE")
    expect(failure.locator(".remedy")).to_have_text("What to do: Check the setting spark.plugins.")
    expect(failure).not_to_contain_text("Check the Spark configuration")
    tail = failure.get_by_label("Last lines of the log")
    expect(tail).to_have_count(0)
    failure.get_by_role("button", name="Last lines of the log").click()
    expect(tail).to_contain_text("INFO it begins")
    assert violations(page) == []
    readable(page)
    failure.get_by_role("button", name="Logs").click()
    expect(page.get_by_label("The log", exact=True).locator(".line.current")).to_contain_text("no such class a.B")
    session.page.unroute("**/api/2.1/clusters/get?*")
    session.go("/compute")
    w.clusters.permanent_delete(str(made.cluster_id))


def test_values_are_changed_where_they_stand(session: Session, w: WorkspaceClient) -> None:
    made = w.clusters.create(
        cluster_name="in place", num_workers=1, autotermination_minutes=30, custom_tags={"team": "a"}, **COMMON
    ).result()
    name = str(made.cluster_id)
    page = opened(session, name)

    def change(label: str, text: str) -> None:
        page.get_by_role("button", name=re.compile(f"^(Change {label}:|{label}$)")).click()
        field = page.get_by_role("textbox", name=label, exact=True)
        expect(field).to_be_focused()
        field.fill(text)
        field.press("Enter")

    change("Terminates after", "5")
    expect(page.get_by_role("alert")).to_contain_text("autotermination_minutes")
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Change Terminates after")).to_be_focused()
    change("Terminates after", "45")
    expect(page.get_by_label("Compute", exact=True)).to_contain_text("45 minutes of inactivity")
    change("Tag team", "b")
    expect(page.get_by_role("button", name="Change Tag team: b")).to_be_visible()
    change("Add a tag", "cost: 12")
    expect(page.get_by_role("button", name="Change Tag cost: 12")).to_be_visible()
    change("Tag team", "")
    expect(page.get_by_role("button", name="Change Tag team")).to_have_count(0)
    change("Name", "renamed")
    expect(page.get_by_role("heading", name="renamed")).to_be_visible()
    assert violations(page) == []
    readable(page)
    change("Workers", "2")
    until(lambda: (now := w.clusters.get(name)).state is State.RUNNING and now.num_workers == 2, "it is not resized")
    found = w.clusters.get(name)
    assert (found.cluster_name, found.autotermination_minutes, found.custom_tags) == ("renamed", 45, {"cost": "12"})
    assert found.spark_context_id == made.spark_context_id, "it has not restarted"
    page.get_by_role("button", name="Change Name: renamed").click()
    w.clusters.edit(name, num_workers=2, cluster_name="theirs", **COMMON)
    expect(page.get_by_role("heading", name="theirs")).to_be_visible()
    page.keyboard.press("Escape")
    assert session.said == [] or all("400" in each for each in session.said)
    session.go("/compute")
    w.clusters.permanent_delete(name)


def test_a_library_is_found_in_a_volume_and_installed_by_enter(session: Session, w: WorkspaceClient, cluster: str) -> None:
    with contextlib.suppress(BadRequest):
        w.volumes.create("main", "default", "wheels", VolumeType.MANAGED)
    w.files.upload("/Volumes/main/default/wheels/builds/mine-1.0-py3-none-any.whl", io.BytesIO(b"x"), overwrite=True)
    page = opened(session, cluster, "libraries")
    field = page.get_by_role("combobox", name="Package")
    field.fill("/Volumes/main/default/wh")
    page.get_by_role("option", name="/Volumes/main/default/wheels/").click()
    page.get_by_role("option", name="/Volumes/main/default/wheels/builds/").click()
    page.get_by_role("option", name="mine-1.0-py3-none-any.whl").click()
    expect(page.get_by_label("Source")).to_have_value("Wheel")
    page.get_by_role("combobox", name="File").fill("org.jsoup:jsoup:1.18.1")
    expect(page.get_by_label("Source")).to_have_value("Maven")
    field.fill("tabulate")
    field.press("Enter")
    expect(page.locator("tbody tr").filter(has_text="tabulate")).to_contain_text("PyPI")


def test_events_are_filtered_read_on_and_told_live(session: Session, w: WorkspaceClient, cluster: str) -> None:
    for _ in range(60):
        w.clusters.pin(cluster)
        w.clusters.unpin(cluster)
    page = opened(session, cluster, "events")
    rows = page.locator(".events > li")
    expect(rows).to_have_count(100)
    rows.last.scroll_into_view_if_needed()
    expect(rows.filter(has_text="CREATING")).to_have_count(1)
    page.get_by_role("button", name="Type").click()
    page.get_by_label("RUNNING", exact=True).check()
    page.keyboard.press("Escape")
    expect(page).to_have_url(f"{session.server.url}/compute/clusters/{cluster}?tab=events&type=%5B%22RUNNING%22%5D")
    expect(rows).to_have_count(1)
    rows.first.get_by_role("button").click()
    expect(page.get_by_label("The event as JSON")).to_contain_text(f'"cluster_id": "{cluster}"')
    opened(session, cluster, "events")
    page.mouse.move(0, 0)
    expect(rows.first).to_contain_text("UNPINNED")
    w.clusters.pin(cluster)
    expect(rows.first.get_by_text("PINNED", exact=True)).to_be_visible()
    rows.nth(1).hover()
    w.clusters.unpin(cluster)
    expect(page.get_by_role("button", name="1 new event")).to_be_visible()
    expect(rows.first.get_by_text("PINNED", exact=True)).to_be_visible()
    page.mouse.move(0, 0)
    expect(rows.first.get_by_text("UNPINNED", exact=True)).to_be_visible()
    assert session.said == []


def test_a_log_is_followed_searched_and_downloaded(
    session: Session, machines: SimulatedProvider, w: WorkspaceClient, cluster: str
) -> None:
    driver = str(getattr(w.clusters.get(cluster).driver, "instance_id", ""))
    page = opened(session, cluster, "logs")
    log = page.get_by_label("The log", exact=True)
    expect(log).to_contain_text("log4j-active.log of the simulated driver")
    machines.logs.write(driver, "log4j-active.log", f"\x1b[31mred\x1b[0m {HOSTILE}\n".encode())
    expect(log.locator(".a-red")).to_have_text("red")
    expect(log).to_contain_text(HOSTILE)
    machines.logs.write(driver, "log4j-active.log", b"".join(b"line %d\n" % number for number in range(500)))
    expect(log.get_by_text("line 499", exact=True)).to_be_visible()
    log.hover()
    page.mouse.wheel(0, -2000)
    expect(page.get_by_role("button", name="Follow", exact=True)).to_be_visible()
    machines.logs.write(driver, "log4j-active.log", b"one more\nand another\n")
    expect(page.get_by_role("button", name="Follow: 2 new lines")).to_be_visible()
    page.get_by_label("Search the log").fill("line 12")
    expect(page.get_by_text("of 11 lines")).to_be_visible()
    page.keyboard.press("Enter")
    expect(log.locator(".line.current .hit")).to_have_text("line 12")
    page.get_by_role("button", name="Next match").click()
    expect(page.get_by_text("2 of 11 lines")).to_be_visible()
    page.get_by_role("button", name="Follow").click()
    expect(log.get_by_text("and another", exact=True)).to_be_visible()
    with page.expect_download() as begun:
        page.get_by_role("button", name="Download").click()
    text = begun.value.path().read_text()
    assert text.startswith("log4j-active.log of")
    assert text.endswith("line 499\none more\nand another\n")
    assert session.said == []


def test_libraries_are_installed_and_uninstalled(session: Session, w: WorkspaceClient, cluster: str) -> None:
    w.libraries.install(cluster, [Library(pypi=PythonPyPiLibrary(package="already"))])
    page = opened(session, cluster, "libraries")
    package = page.get_by_role("combobox", name="Package")
    package.fill("--index-url=http://elsewhere x")
    page.get_by_role("button", name="Install", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("package")
    expect(package).to_have_value("--index-url=http://elsewhere x")
    package.fill("requests==2.32.3")
    page.reload()
    expect(package).to_have_value("requests==2.32.3")
    page.get_by_role("button", name="Install", exact=True).click()
    row = page.locator("tbody tr").filter(has_text="requests==2.32.3")
    expect(row).to_contain_text("INSTALLED")
    page.get_by_label("Uninstall requests==2.32.3").click()
    page.get_by_role("dialog").get_by_role("button", name="Uninstall").click()
    expect(row).to_contain_text("UNINSTALL_ON_RESTART")
    expect(page.get_by_text("Restart required")).to_be_visible()
    page.get_by_role("button", name="Restart").last.click()
    page.get_by_role("button", name="Restart the cluster").click()
    expect(row).to_have_count(0)
    expect(page.locator("tbody tr").filter(has_text="already")).to_contain_text("INSTALLED")
    expect(state(page)).to_have_text("RUNNING")


def test_metrics_are_drawn_for_all_nodes_and_for_one(session: Session, w: WorkspaceClient, cluster: str) -> None:
    page = opened(session, cluster, "metrics", "range=15m")
    cpu = page.get_by_role("img", name="CPU in cores: used last")
    expect(cpu).to_be_visible()
    expect(page.get_by_text("GPU temperature, GPU power.")).to_be_visible()
    expect(page.get_by_text("The simulated provider makes up")).to_be_visible()
    driver = str(getattr(w.clusters.get(cluster).driver, "instance_id", ""))
    page.get_by_label("Node", exact=True).select_option(driver)
    expect(page).to_have_url(f"{session.server.url}/compute/clusters/{cluster}?tab=metrics&range=15m&node={driver}")
    until(lambda: "available last 8" in (cpu.get_attribute("aria-label") or ""), "the driver's 8 cores")
    box = cpu.bounding_box()
    assert box is not None
    page.get_by_label("Node", exact=True).select_option("each")
    expect(page.get_by_role("img", name="CPU in cores: driver last")).to_have_attribute("aria-label", re.compile("worker 1 last"))
    page.get_by_label("Node", exact=True).select_option(driver)
    page.mouse.move(box["x"] + box["width"] * 0.9, box["y"] + 60)
    crosshairs = page.locator(".u-cursor-x")
    expect(crosshairs.nth(3)).to_be_visible()
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.97, box["y"] + 70, steps=4)
    page.mouse.up()
    expect(page.get_by_role("button", name="Back to 15 min")).to_be_visible()
    assert "from=" in page.url
    page.get_by_role("button", name="Back to 15 min").click()
    expect(page.get_by_role("button", name="Back to 15 min")).to_have_count(0)
    opened(session, cluster, "metrics")
    expect(page.get_by_role("radio", name="Last run")).to_be_checked()
    assert session.said == []


def test_permissions_are_given_changed_and_taken(session: Session, w: WorkspaceClient, cluster: str) -> None:
    w.users.create(user_name="guest@example.com")
    page = opened(session, cluster, "permissions")
    page.get_by_role("combobox", name="Name").fill("nobody@example.com")
    page.get_by_role("button", name="Add").click()
    expect(page.get_by_role("alert")).to_contain_text("nobody@example.com) does not exist")
    page.get_by_role("combobox", name="Name").fill("guest@example.com")
    page.get_by_role("button", name="Add").click()
    row = page.locator("tbody tr").filter(has_text="guest@example.com")
    expect(row).to_contain_text("direct")
    group = w.groups.create(display_name="Marvellous people")
    page.get_by_role("combobox", name="Name").fill("rv")
    page.get_by_role("option", name="Marvellous people").click()
    expect(page.get_by_label("Kind")).to_have_value("group_name")
    page.get_by_role("button", name="Add").click()
    expect(page.locator("tbody tr").filter(has_text="Marvellous people")).to_contain_text("Group")
    w.groups.delete(str(group.id))
    expect(page.locator("tbody tr").filter(has_text="admins")).to_contain_text("inherited")
    page.get_by_label("Level of guest@example.com").select_option("CAN_RESTART")
    until(lambda: level_of(w, cluster) == "CAN_RESTART", "the new level")
    page.get_by_label("Remove guest@example.com").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(row).to_have_count(0)
    assert level_of(w, cluster) == ""


def level_of(w: WorkspaceClient, cluster: str) -> str:
    found = w.permissions.get("clusters", cluster).access_control_list or []
    mine = [each.all_permissions or [] for each in found if each.user_name == "guest@example.com"]
    return str(getattr(mine[0][0].permission_level, "value", "")) if mine else ""


def test_who_may_only_attach_is_offered_no_more(chromium: Browser, server: Server, w: WorkspaceClient, cluster: str) -> None:
    w.users.create(user_name="viewer@example.com")
    w.api_client.do(
        "PATCH",
        f"/api/2.0/permissions/clusters/{cluster}",
        body={"access_control_list": [{"user_name": "viewer@example.com", "permission_level": "CAN_ATTACH_TO"}]},
    )
    context = chromium.new_context()
    viewer = Session(context, server)
    viewer.log_in(create(w, "viewer@example.com", comment="", days=None))
    page = opened(viewer, cluster, "libraries")
    expect(page.get_by_role("button", name="Stop")).to_be_disabled()
    expect(page.get_by_role("button", name="Install", exact=True)).to_have_count(0)
    page.get_by_role("tab", name="Configuration").click()
    expect(page.get_by_label("Compute", exact=True)).to_contain_text("45 minutes of inactivity")
    expect(page.get_by_role("button", name="Change")).to_have_count(0)
    page.get_by_role("tab", name="Driver logs").click()
    expect(page.get_by_role("alert")).to_contain_text("Could not read the list of logs")
    context.close()


def test_the_spark_ui_cannot_act_for_the_user(session: Session, cluster: str) -> None:
    """The frame's page stands for one that a cluster's code has made."""
    attack = """<body>tried<script>
      const say = text => { document.body.textContent = text };
      let seen = "nothing";
      try { seen = parent.document.title } catch (error) { seen = "no parent" }
      fetch("/api/2.0/clusters/list", {credentials: "include"})
        .then(answer => answer.json()).then(() => say("read the API"), () => say(seen + ", no API, " + origin));
    </script></body>"""
    session.page.route("**/spark-ui/**", lambda route: route.fulfill(body=attack, content_type="text/html"))
    page = opened(session, cluster, "spark-ui")
    expect(page.frame_locator("iframe").locator("body")).to_have_text("no parent, no API, null")
    session.page.unroute("**/spark-ui/**")
    page.reload()
    expect(page.get_by_role("alert")).to_contain_text("has left no event log")


def test_apps_are_added_and_removed(session: Session, cluster: str) -> None:
    page = opened(session, cluster, "apps")
    page.get_by_label("Port on the driver").fill("80")
    page.get_by_role("button", name="Add").click()
    expect(page.get_by_role("alert")).to_contain_text("ports below 1024 are privileged")
    page.get_by_label("Port on the driver").fill("8888")
    page.get_by_label("Description").fill("JupyterLab")
    page.get_by_role("button", name="Add").click()
    row = page.locator("tbody tr").filter(has_text="JupyterLab")
    expect(row).to_contain_text("active")
    expect(row.get_by_role("link")).to_have_attribute("href", f"/ports/{cluster}/8888/")
    page.get_by_label("Remove port 8888").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(row).to_have_count(0)


def test_everybody_can_use_every_tab(session: Session, cluster: str) -> None:
    page = opened(session, cluster)
    for number, tab in enumerate(TABS):
        opened(session, cluster, tab)
        expect(page.get_by_role("tabpanel")).to_be_visible()
        expect(page.locator("[aria-busy=true]")).to_have_count(0)
        readable(page, looks=LOOKS if ALL else [LOOKS[number % len(LOOKS)]])
    assert page.title() == f"analytics {HOSTILE} - Brickyard"
