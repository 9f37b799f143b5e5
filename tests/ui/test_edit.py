"""Editing and cloning clusters in a real browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from databricks.sdk import WorkspaceClient
from databricks.sdk.service.compute import InitScriptInfo, Library, PythonPyPiLibrary, State, WorkspaceStorageInfo
from playwright.sync_api import expect

from tests.support.patience import until
from tests.ui.axe import HOSTILE, readable, violations
from tests.ui.conftest import Session
from tests.ui.editing import RUNTIME, TYPE, accepted, made_of, opened


@pytest.fixture(scope="module")
def made(w: WorkspaceClient) -> Iterator[dict[str, str]]:
    """A pool, a policy, and two clusters, one of which runs: by name, their ids."""
    yield from made_of(w)


def test_an_edit_shows_what_it_changes_and_what_restarts(session: Session, w: WorkspaceClient, made: dict[str, str]) -> None:
    page = session.go("/compute")
    page.get_by_label("Actions on edited").click()
    page.get_by_role("menuitem", name="Edit").click()
    expect(page.get_by_role("heading", name="edited")).to_be_visible()
    save = page.get_by_role("button", name="Review and save")
    expect(save).to_be_disabled()
    page.get_by_label("Workers", exact=True).fill("2")
    save.click()
    review = page.get_by_role("dialog", name="Review the changes")
    expect(review).to_contain_text("1 workers")
    expect(review).to_contain_text("without a restart")
    review.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("status").filter(has_text="is resizing")).to_be_visible()
    until(lambda: (now := w.clusters.get(made["edited"])).state is State.RUNNING and now.num_workers == 2, "it is not resized")

    session.go(f"/compute/clusters/{made['edited']}/edit")
    page.get_by_label("Terminate after").fill("30")
    accepted(page)
    expect(page.get_by_text("restart required")).to_have_count(0)
    page.keyboard.press("Control+Enter")
    expect(review).to_contain_text("The cluster keeps running")
    review.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    until(lambda: w.clusters.get(made["edited"]).autotermination_minutes == 30, "it is not saved")
    assert w.clusters.get(made["edited"]).state is State.RUNNING

    session.go(f"/compute/clusters/{made['edited']}/edit")
    page.get_by_role("radio", name="Standard").click()
    page.get_by_label("Terminate after").fill("40")
    expect(page.get_by_text("restart required")).to_be_visible()
    libraries = opened(page, "Libraries")
    libraries.get_by_role("button", name="Add a library").click()
    libraries.get_by_label("Library 1", exact=True).fill("simplejson")
    accepted(page)
    page.keyboard.press("Control+Enter")
    expect(review).to_contain_text("autotermination_minutes")
    for side in ("old", "new"):  # they are told apart by more than their place
        expect(review.locator(f"td.{side}").first).not_to_have_css("background-color", "rgba(0, 0, 0, 0)")
    expect(review).to_contain_text("PyPI simplejson")
    expect(review).to_contain_text("The cluster restarts")
    assert violations(page) == []
    review.get_by_role("button", name="Save and restart").click()
    expect(page.get_by_role("status").filter(has_text="is restarting")).to_be_visible()
    until(lambda: w.clusters.get(made["edited"]).state is State.RUNNING, "it does not run again")
    assert w.clusters.get(made["edited"]).autotermination_minutes == 40
    assert [each.library for each in w.libraries.cluster_status(made["edited"])] == [
        Library(pypi=PythonPyPiLibrary(package="simplejson"))
    ]
    assert session.said == []


def test_a_clone_has_what_the_other_one_has(session: Session, w: WorkspaceClient, made: dict[str, str]) -> None:
    w.libraries.install(made["hostile"], [Library(pypi=PythonPyPiLibrary(package="tabulate"))])
    page = session.go(f"/compute/create?clone={made['hostile']}")
    expect(page.get_by_role("heading", name="Clone compute")).to_be_visible()
    expect(page.get_by_label("Name", exact=True)).to_have_value(f"{HOSTILE} (copy)")
    expect(opened(page, "Libraries").get_by_label("Library 1", exact=True)).to_have_value("tabulate")
    page.get_by_label("Name", exact=True).fill("the clone")
    accepted(page)
    page.get_by_role("button", name="Create compute").click()
    expect(page.get_by_role("status").filter(has_text="the clone was created")).to_be_visible()
    [ours] = [each for each in w.clusters.list() if each.cluster_name == "the clone"]
    assert [each.library for each in w.libraries.cluster_status(str(ours.cluster_id))] == [
        Library(pypi=PythonPyPiLibrary(package="tabulate"))
    ]
    session.go("/compute")
    w.clusters.permanent_delete(str(ours.cluster_id))


def test_two_people_edit_one_cluster(session: Session, w: WorkspaceClient, made: dict[str, str]) -> None:
    common: dict[str, Any] = {"spark_version": RUNTIME, "node_type_id": TYPE, "num_workers": 1}
    made_here = str(w.clusters.create(cluster_name="shared", autotermination_minutes=60, **common).result().cluster_id)
    w.clusters.delete(made_here).result()
    page = session.go(f"/compute/clusters/{made_here}/edit")
    page.get_by_label("Terminate after").fill("30")
    page.get_by_label("Name", exact=True).fill("mine")
    w.clusters.edit(made_here, cluster_name="shared", autotermination_minutes=90, custom_tags={"by": "them"}, **common)
    theirs = page.get_by_role("alert").filter(has_text="has changed this cluster")
    expect(theirs).to_contain_text("admin")
    expect(theirs).to_contain_text("custom_tags by: not set → them")
    expect(theirs).to_contain_text("You both changed autotermination_minutes")
    expect(opened(page, "Tags").get_by_label("Value 1")).to_have_value("them")
    expect(page.get_by_label("Terminate after")).to_have_value("30 minutes")
    assert violations(page) == []
    theirs.get_by_role("button", name="Use theirs").click()
    expect(page.get_by_label("Terminate after")).to_have_value("90 minutes")
    accepted(page)

    page.route("**/api/2.1/clusters/get*", lambda route: route.abort())  # the page hears of nothing until it saves
    tags = {"by": "them", "and": "more"}
    w.clusters.edit(made_here, cluster_name="shared", autotermination_minutes=90, custom_tags=tags, **common)
    page.get_by_role("button", name="Review and save").click()
    page.get_by_role("dialog").get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("alert").filter(has_text="Someone else saved this cluster first")).to_be_visible()
    page.unroute("**/api/2.1/clusters/get*")
    page.context.set_offline(True)
    page.context.set_offline(False)  # the page reads again what it missed
    expect(theirs).to_contain_text("custom_tags and: not set → more")
    page.get_by_role("button", name="Review and save").click()
    page.get_by_role("dialog").get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("status").filter(has_text="was saved")).to_be_visible()
    found: Any = w.api_client.do("GET", "/api/2.1/clusters/get", query={"cluster_id": made_here})
    assert found["spec"] == common | {
        "cluster_name": "mine", "autotermination_minutes": 90, "custom_tags": tags
    }  # fmt: skip

    session.go(f"/compute/clusters/{made_here}/edit")
    page.get_by_label("Name", exact=True).fill("goes on")
    w.clusters.permanent_delete(made_here)
    gone = page.get_by_role("alert").filter(has_text="no longer exists")
    gone.get_by_role("button", name="Create a new cluster from it").click()
    expect(page.get_by_role("heading", name="Create compute")).to_be_visible()
    expect(page.get_by_label("Name", exact=True)).to_have_value("goes on")


def test_nothing_typed_is_lost(session: Session, made: dict[str, str]) -> None:
    page = session.go("/compute/create")
    accepted(page)
    page.get_by_label("Name", exact=True).fill("precious")
    page.get_by_role("link", name="Compute", exact=True).first.click()
    asked = page.get_by_role("dialog", name="Leave without saving?")
    asked.get_by_role("button", name="Cancel").click()
    expect(page.get_by_label("Name", exact=True)).to_have_value("precious")
    session.context.set_offline(True)
    page.get_by_role("button", name="Create compute").click()
    expect(page.get_by_role("alert").filter(has_text="The server does not answer")).to_be_visible()
    session.context.set_offline(False)
    session.context.clear_cookies()
    # Not a real click: what the page reads again when it is online may have shown the dialog already, above the button.
    page.get_by_role("button", name="Create compute").dispatch_event("click")
    ended = page.get_by_role("dialog", name="Your session has ended")
    expect(ended).to_be_visible()
    session.log_in()
    ended.get_by_role("button", name="Continue").click()
    expect(page.get_by_label("Name", exact=True)).to_have_value("precious")
    page.get_by_role("link", name="Compute", exact=True).first.click()
    asked.get_by_role("button", name="Leave").click()
    expect(page).to_have_url(re.compile("/compute$"))
    expect(asked).to_have_count(0)  # as it closes, it gives the focus back
    expect(page.locator("tr[data-index='0']")).to_be_visible()
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    expect(page.locator("tr[data-index='0'] :focus")).to_have_count(1)


def test_everybody_can_edit(session: Session, w: WorkspaceClient, made: dict[str, str]) -> None:
    scripts = [InitScriptInfo(workspace=WorkspaceStorageInfo(destination=f"/Shared/{name}.sh")) for name in "ab"]
    cluster = w.clusters.create(
        cluster_name="wide", spark_version=RUNTIME, node_type_id=TYPE, num_workers=1, init_scripts=scripts,
        spark_conf={"spark.local.dir.not": "x" * 200}, custom_tags={"team": "data"},
    )  # fmt: skip
    page = session.go(f"/compute/create?clone={cluster.cluster_id}")
    accepted(page)
    for title in ("Spot instances", "Tags", "Spark", "Log delivery", "Init scripts", "Libraries"):
        opened(page, title)
    for tab in ("Form", "JSON"):
        page.get_by_role("tab", name=tab).click()
        readable(page, fits=("main",))
    assert session.said == []
