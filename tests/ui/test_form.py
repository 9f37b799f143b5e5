"""The cluster form's own help: sections, node types, drafts, and what is chosen from what exists, in a real browser."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator

import pytest
from databricks.sdk import WorkspaceClient
from databricks.sdk.service.compute import Library, PythonPyPiLibrary
from databricks.sdk.service.workspace import ImportFormat
from playwright.sync_api import Page, Route, expect

from tests.ui.axe import violations
from tests.ui.conftest import Session
from tests.ui.editing import RUNTIME, TYPE, accepted, body_of, made_of, opened

SETTLE_MS = 600  # until a field has looked if its path exists
SIZES = ((390, 844), (640, 900), (900, 900), (1440, 900), (720, 450))  # the last: 1440 by 900 at 200 %


@pytest.fixture(scope="module")
def made(w: WorkspaceClient) -> Iterator[dict[str, str]]:
    yield from made_of(w)


def sideways(page: Page) -> bool:
    return bool(page.evaluate("document.documentElement.scrollWidth > innerWidth"))


def test_a_list_of_sections_leads_to_each_and_shows_where_one_is(session: Session) -> None:
    page = session.go("/compute/create")
    accepted(page)
    sections = page.get_by_role("navigation", name="Sections of the form")
    current = sections.locator("[aria-current]")
    expect(current).to_have_text("Basics")
    sections.get_by_role("link", name="Permissions").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name=re.compile("^Permissions"))).to_be_focused()
    expect(page.get_by_role("button", name="Add a permission")).to_be_in_viewport()  # it is opened
    expect(current).to_have_text("Permissions")
    page.get_by_label("Workers", exact=True).fill("0")
    expect(sections.get_by_role("link", name="Nodes")).to_contain_text("1 mistake")
    assert violations(page) == []
    page.set_viewport_size({"width": 1024, "height": 800})
    expect(sections).to_be_hidden()
    assert session.said == []


def test_node_types_are_a_table_that_is_used_by_keyboard(session: Session) -> None:
    page = session.page

    def room(route: Route) -> None:
        found = route.fetch().json()
        total = {"cores_total": 64.0, "cores_left": 9.0, "memory_mb_total": 1 << 20, "memory_mb_left": 1 << 20}
        found["providers"][0]["room"] = total
        route.fulfill(json=found)

    page.route("**/api/2.1/machine", room)
    session.go("/compute/create")
    accepted(page)
    field = page.get_by_role("combobox", name="Worker type")
    field.focus()
    page.keyboard.press("ArrowDown")
    table = page.get_by_role("listbox", name="Worker type")
    expect(table).to_be_visible()
    field.press("Control+a")
    page.keyboard.type("i3 4 cores")
    expect(table.get_by_role("option")).not_to_have_count(0)
    expect(table.get_by_role("option").first).to_contain_text("i3")
    page.keyboard.press("Control+a")
    page.keyboard.type("gpu")
    expect(table.get_by_role("option").first).to_have_accessible_name(re.compile("1 GPU"))
    page.keyboard.press("Control+a")
    page.keyboard.type("i3.")
    page.keyboard.press("Tab")  # to the heads, while the table stays
    expect(page.get_by_role("button", name="Sort by name")).to_be_focused()
    page.get_by_role("button", name="Sort by cores").press("Enter")
    first = table.get_by_role("option").first
    expect(first).to_have_accessible_name(re.compile(r"^i3\.16xlarge · 64 cores .* 0 free now$"))
    page.get_by_role("button", name="Sort by cores").press("Enter")
    expect(first).to_have_accessible_name(re.compile(r"^i3\.large · 2 cores .* · 4 free now$"))
    expect(page.get_by_text("cpu_overcommit")).to_be_visible()
    assert violations(page) == []
    page.keyboard.press("Escape")
    expect(table).to_be_hidden()
    expect(field).to_be_focused()
    page.keyboard.press("Control+a")
    page.keyboard.type("i3.2xlarge")
    page.keyboard.press("Enter")
    expect(field).to_have_value(re.compile(r"^i3\.2xlarge · 8 cores"))
    assert body_of(page)["node_type_id"] == "i3.2xlarge"
    assert session.said == []


def test_a_draft_outlives_a_reload_without_what_may_be_secret(session: Session, made: dict[str, str]) -> None:
    page = session.go("/compute/create")
    accepted(page)
    page.get_by_label("Name", exact=True).fill("half filled")
    page.get_by_label("Workers", exact=True).fill("3")
    spark = opened(page, "Spark")
    spark.get_by_role("button", name="Add a variable").click()
    spark.get_by_label("Variable 1").fill("TOKEN")
    spark.get_by_label("Value 1").fill("hunter2")
    accepted(page)
    page.on("dialog", lambda dialog: dialog.accept())  # the browser asks whether to leave
    page.reload()
    expect(page.get_by_label("Name", exact=True)).to_have_value("half filled")
    expect(page.get_by_label("Workers", exact=True)).to_have_value("3")
    back = page.get_by_role("status").filter(has_text="Your unsaved changes are back")
    expect(back).to_contain_text("spark_env_vars TOKEN")
    assert "hunter2" not in page.evaluate("JSON.stringify(sessionStorage)")
    assert violations(page) == []
    back.get_by_role("button", name="Discard draft").click()
    expect(page.get_by_label("Name", exact=True)).not_to_have_value("half filled")
    expect(back).to_be_hidden()

    session.go(f"/compute/clusters/{made['edited']}/edit")
    page.get_by_label("Name", exact=True).fill("renamed here")
    accepted(page)
    page.reload()
    expect(page.get_by_label(re.compile("^Name"))).to_have_value("renamed here")  # with the badge of what restarts
    expect(page.get_by_role("button", name="Review and save")).to_be_enabled()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("dialog").get_by_role("button", name="Leave").click()
    expect(page.get_by_role("button", name="Review and save")).to_have_count(0)
    session.go(f"/compute/clusters/{made['edited']}/edit")  # what is left on purpose is gone
    expect(page.get_by_label("Name", exact=True)).to_have_value("edited")
    assert session.said == []


def test_a_cluster_like_the_last_one_and_back_to_where_one_came_from(
    session: Session, w: WorkspaceClient, made: dict[str, str]
) -> None:
    last = w.clusters.create(cluster_name="last (copy)", spark_version=RUNTIME, node_type_id=TYPE, num_workers=2).result()
    w.libraries.install(str(last.cluster_id), [Library(pypi=PythonPyPiLibrary(package="simplejson"))])
    page = session.go("/compute?q=edited")
    page.get_by_role("link", name="Like my last").click()
    expect(page.get_by_role("heading", name="Create compute")).to_be_visible()
    expect(page.get_by_label("Name", exact=True)).to_have_value("last (copy 2)")
    expect(page.get_by_label("Workers", exact=True)).to_have_value("2")
    expect(page.get_by_role("button", name=re.compile("^Libraries"))).to_contain_text("1 library")
    page.get_by_role("button", name="Cancel").click()
    expect(page).to_have_url(re.compile(r"/compute\?q=edited$"))
    page.keyboard.press("Shift+C")
    expect(page.get_by_label("Name", exact=True)).to_have_value("last (copy 2)")
    session.go("/compute/create")
    page.get_by_role("link", name="last (copy)", exact=True).click()
    expect(page.get_by_label("Name", exact=True)).to_have_value("last (copy 2)")
    w.clusters.permanent_delete(str(last.cluster_id))
    assert session.said == []


def test_scripts_and_people_are_chosen_from_what_exists_and_checked(session: Session, w: WorkspaceClient) -> None:
    w.workspace.mkdirs("/Shared/scripts")
    content = base64.b64encode(b"echo hello").decode()
    w.workspace.import_("/Shared/scripts/setup.sh", content=content, format=ImportFormat.RAW, overwrite=True)
    w.users.create(user_name="zoe@example.com", display_name="Zoe Zimmer")
    w.groups.create(display_name="form-testers")
    page = session.go("/compute/create")
    accepted(page)
    scripts = opened(page, "Init scripts")
    scripts.get_by_role("button", name="Add a script").click()
    path = scripts.get_by_label("Path of script 1")
    path.fill("/Shared/scripts/")
    page.get_by_role("option", name="/Shared/scripts/setup.sh").click()
    accepted(page)
    path.fill("/Shared/scripts/missing.sh")
    expect(scripts.get_by_text("/Workspace/Shared/scripts/missing.sh does not exist.")).to_be_visible()
    summary = page.get_by_role("complementary", name="Summary")
    expect(summary).to_contain_text("would fail to start")
    path.fill("/Shared/scripts/setup.sh")
    expect(summary).not_to_contain_text("would fail to start")

    grants = opened(page, "Permissions")
    grants.get_by_role("button", name="Add a permission").click()
    who = grants.get_by_label("Who has permission 1")
    who.fill("zo")
    page.get_by_role("option", name=re.compile("zoe@example.com")).click()
    expect(who).to_have_value("zoe@example.com")
    who.fill("nobody@example.com")
    expect(grants.get_by_text("No user has this name.")).to_be_visible()
    grants.get_by_label("Kind of permission 1").select_option("group_name")
    who.fill("form-te")
    page.get_by_role("option", name="form-testers").click()
    expect(grants.get_by_text(re.compile("^No .* has this name"))).to_be_hidden()
    page.get_by_role("radio", name="Dedicated").check()
    page.get_by_label("User", exact=True).first.fill("zo")
    page.get_by_role("option", name="zoe@example.com").click()
    accepted(page)
    assert violations(page) == []
    assert session.said == []


def test_a_message_that_appears_under_a_press_takes_no_click(session: Session) -> None:
    page = session.go("/compute/create")
    libraries = opened(page, "Libraries")
    add = libraries.get_by_role("button", name="Add a library")
    add.click()
    libraries.get_by_label("Kind of library 1").select_option("jar")
    with page.expect_response(re.compile("/dbfs/list")):
        libraries.get_by_label("Library 1", exact=True).fill("dbfs:/none.jar")
    page.wait_for_timeout(SETTLE_MS)
    add.scroll_into_view_if_needed()
    add.hover()
    page.mouse.down()
    page.wait_for_timeout(SETTLE_MS)
    message = libraries.get_by_text("dbfs:/none.jar does not exist.")
    expect(message).to_have_count(0)  # it would move the button away from under the pointer
    page.mouse.up()
    expect(libraries.get_by_label("Kind of library 2")).to_be_visible()
    expect(message).to_be_visible()


def test_what_the_policy_gives_is_shown_beside_a_mistake(session: Session, w: WorkspaceClient) -> None:
    rules = {
        "node_type_id": {"type": "fixed", "value": "i3.2xlarge"},
        "num_workers": {"type": "fixed", "value": 4},
        "custom_tags.team": {"type": "regex", "pattern": "[a-z]+"},
    }
    policy = str(w.cluster_policies.create(name="Given", definition=json.dumps(rules)).policy_id)
    page = session.go("/compute?tab=policies")
    page.get_by_role("link", name="Create compute with Given").click()
    summary = page.get_by_role("complementary", name="Summary")
    expect(summary).to_contain_text("team must be present")
    expect(summary.locator("dd").nth(0)).to_have_text("5")  # nodes: of the policy
    expect(summary.locator("dd").nth(1)).to_have_text("40")  # cores
    session.go("/compute")
    w.cluster_policies.delete(policy)
    assert session.said == []


def test_what_others_do_is_said_where_one_works(session: Session, w: WorkspaceClient) -> None:
    made_here = str(
        w.clusters.create(cluster_name="shared", spark_version=RUNTIME, node_type_id=TYPE, num_workers=1).result().cluster_id
    )
    page = session.go(f"/compute/clusters/{made_here}/edit")
    opened(page, "Init scripts").get_by_role("button", name="Add a script").scroll_into_view_if_needed()
    page.get_by_role("button", name="Add a script").focus()
    w.clusters.edit(made_here, cluster_name="theirs", spark_version=RUNTIME, node_type_id=TYPE, num_workers=1)
    notice = page.get_by_role("alert").filter(has_text="has changed this cluster")
    expect(notice).to_be_in_viewport()
    notice.get_by_role("button", name="cluster_name").click()
    expect(page.get_by_label("Name", exact=True)).to_be_focused()
    expect(page.get_by_label("Name", exact=True)).to_be_in_viewport()
    expect(notice).to_be_in_viewport()
    for width, height in SIZES:
        page.set_viewport_size({"width": width, "height": height})
        assert not sideways(page), width
        assert violations(page) == [], width
    session.go("/compute")
    w.clusters.permanent_delete(made_here)
    assert session.said == []


@pytest.mark.parametrize("path", ["/compute/create", "/compute/pools/create", "/compute/policies/create"])
def test_forms_fit_any_window(session: Session, path: str) -> None:
    page = session.go(path)
    expect(page.get_by_role("button", name=re.compile("^Create ")).first).to_be_visible()
    for width, height in SIZES:
        page.set_viewport_size({"width": width, "height": height})
        assert not sideways(page), width
        if path != "/compute/policies/create":
            field = page.get_by_role("combobox", name=re.compile("^(Worker|Node) type"))
            field.click()
            expect(page.get_by_role("listbox")).to_be_visible()
            assert not sideways(page), width
            page.keyboard.press("Escape")
        assert violations(page) == [], width
    assert session.said == []
