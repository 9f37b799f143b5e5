"""What the page does by itself: it keeps choices, keeps rows in their places, tells times as the reader's clock does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from databricks.sdk import WorkspaceClient
from databricks.sdk.service.compute import State
from playwright.sync_api import Browser, Locator, Page, Route, expect

from tests.support.server import Server
from tests.support.tokens import create
from tests.ui.axe import violations_in_both_schemes
from tests.ui.conftest import Session

COMMON: dict[str, Any] = {"spark_version": "17.3.x-scala2.13", "node_type_id": "i3.xlarge", "num_workers": 1}


@pytest.fixture(scope="module")
def made(w: WorkspaceClient) -> Iterator[dict[str, str]]:
    """Three clusters, of which the last has ended: by name, their ids."""
    waits = {name: w.clusters.create(cluster_name=name, **COMMON) for name in ("aaa", "bbb", "ccc")}
    ids = {name: str(wait.result().cluster_id) for name, wait in waits.items()}
    w.clusters.delete(ids["ccc"]).result()
    yield ids
    for each in ids.values():
        w.clusters.permanent_delete(each)


def row(page: Page, name: str) -> Locator:
    return page.locator("tbody tr").filter(has_text=name)


def names(page: Page) -> list[str]:
    return [text.split("\n")[0] for text in page.locator("td[data-label='Name']").all_inner_texts()]


def test_rows_keep_their_places_under_the_pointer(session: Session, w: WorkspaceClient, made: dict[str, str]) -> None:
    page = session.go("/compute?sort=-name")
    expect(page.locator("tbody tr")).to_have_count(3)
    assert names(page) == ["ccc", "bbb", "aaa"]
    row(page, "bbb").hover()
    w.clusters.edit(made["ccc"], cluster_name="0 ccc", **COMMON)
    expect(row(page, "0 ccc")).to_be_visible()  # what has changed is shown
    assert names(page) == ["0 ccc", "bbb", "aaa"], "in the place where it was"
    page.mouse.move(0, 0)
    expect(page.locator("tbody tr").last).to_contain_text("0 ccc")
    assert names(page) == ["bbb", "aaa", "0 ccc"]
    w.clusters.edit(made["ccc"], cluster_name="ccc", **COMMON)
    expect(page.locator("tbody tr").first).to_contain_text("ccc")
    assert session.said == []


def test_who_types_and_leaves_at_once_is_not_led_back(session: Session, made: dict[str, str]) -> None:
    page = session.page
    session.changed = True  # the clock stays an hour ahead
    page.clock.install()
    page.clock.pause_at(datetime.now(UTC) + timedelta(hours=1))
    session.go("/compute")
    expect(page.locator("tbody tr")).to_have_count(3)
    held: list[Route] = []

    def hold(route: Route) -> None:  # the code of the next page is on its way for long
        held.append(route)

    page.route("**/assets/*.js", hold)
    page.get_by_role("textbox", name="Search by name or id").fill("aaa")
    row(page, "aaa").get_by_role("link").first.click()
    page.clock.run_for(1000)
    page.clock.resume()
    for each in held:
        each.continue_()
    page.unroute_all()
    expect(page.get_by_role("heading", name="aaa")).to_be_visible()
    expect(page).to_have_url(f"{session.server.url}/compute/clusters/{made['aaa']}")
    assert session.said == []


def test_the_height_of_rows_and_the_colours_are_kept(session: Session, made: dict[str, str]) -> None:
    page = session.go("/compute")
    tall = row(page, "aaa").evaluate("element => element.getBoundingClientRect().height")
    page.get_by_label("Compact rows").click()
    page.get_by_label("Use dark colours").click()
    page.reload()
    expect(page.get_by_label("Compact rows")).to_have_attribute("aria-pressed", "true")
    assert row(page, "aaa").evaluate("element => element.getBoundingClientRect().height") < tall
    expect(page.locator("html")).to_have_attribute("data-mantine-color-scheme", "dark")
    assert session.said == []


def test_counters_tell_what_the_tab_has(session: Session, w: WorkspaceClient, made: dict[str, str]) -> None:
    page = session.go("/compute?q=nothing-has-this-name")
    counters = page.locator(".counters")
    expect(counters).to_contain_text("Running 2")
    expect(counters).to_contain_text("Terminated 1")
    expect(counters).to_contain_text("Failed 0")
    expect(counters).to_contain_text(re.compile(r"Spend per hour \$\d+\.\d\d"))
    w.clusters.delete(made["bbb"]).result()
    expect(counters).to_contain_text("Running 1")
    w.clusters.start(made["bbb"]).result()
    expect(counters).to_contain_text("Running 2")


def test_many_are_stopped_and_started_and_one_is_cloned(session: Session, w: WorkspaceClient, made: dict[str, str]) -> None:
    page, bar = session.go("/compute"), session.page.get_by_role("toolbar")
    for action, done in (("Stop", "TERMINATED"), ("Start", "RUNNING")):
        for name in ("aaa", "bbb"):
            page.get_by_label(f"Select {name}").check()
        bar.get_by_role("button", name=action, exact=True).click()
        if action == "Stop":
            dialog = page.get_by_role("dialog", name="Stop 2 clusters?")
            assert violations_in_both_schemes(page) == []
            dialog.get_by_role("button", name="Stop 2 clusters").click()
        for name in ("aaa", "bbb"):
            expect(row(page, name)).to_contain_text(done)
        expect(page.get_by_role("status").filter(has_text=f"{action}: 2 of 2 clusters.").last).to_be_visible()
    assert w.clusters.get(made["aaa"]).state is State.RUNNING
    page.get_by_label("Actions on aaa").click()
    page.get_by_role("menuitem", name="Clone").click()
    expect(page.get_by_label("Name", exact=True)).to_have_value("aaa (copy)")
    assert session.said == []


@pytest.mark.parametrize("zone", ["Asia/Kolkata", "America/New_York"])
def test_times_are_those_of_the_readers_zone(
    chromium: Browser, server: Server, w: WorkspaceClient, made: dict[str, str], zone: str
) -> None:
    context = chromium.new_context(timezone_id=zone, locale="en-GB")
    session = Session(context, server)
    session.log_in()
    page = session.go("/compute")
    expect(row(page, "ccc")).to_be_visible()
    told = row(page, "ccc").locator("[data-label='State'] .soft").get_attribute("title") or ""
    ended = datetime.fromtimestamp((w.clusters.get(made["ccc"]).terminated_time or 0) / 1000, tz=ZoneInfo(zone))
    assert f"{ended:%H:%M:%S}" in told
    context.close()


def test_the_page_asks_where_it_is_told_nothing(session: Session, w: WorkspaceClient, made: dict[str, str]) -> None:
    page = session.page
    page.route("**/api/2.1/changes*", lambda route: route.fulfill(status=503, body=""))
    session.go("/compute")
    lost = page.get_by_text("The connection to the server is interrupted.")
    expect(lost).to_be_visible()
    assert violations_in_both_schemes(page) == []
    w.clusters.start(made["ccc"]).result()
    expect(row(page, "ccc")).to_contain_text("RUNNING")  # it has asked
    page.unroute("**/api/2.1/changes*")
    expect(lost).to_have_count(0)
    w.clusters.delete(made["ccc"]).result()
    expect(row(page, "ccc")).to_contain_text("TERMINATED")
    assert all("status of 503" in said or "EventSource" in said for said in session.said)


def test_an_empty_list_says_how_to_begin(chromium: Browser, server: Server, w: WorkspaceClient) -> None:
    user = w.users.create(user_name="sees.nothing@example.com")
    context = chromium.new_context(reduced_motion="reduce")
    session = Session(context, server)
    session.log_in(create(w, "sees.nothing@example.com", comment="", days=None))
    page = session.go("/compute")
    expect(page.get_by_text("No clusters yet, or none that you have access to.")).to_be_visible()
    expect(page.locator("main pre")).to_contain_text("w.clusters.create(")
    assert violations_in_both_schemes(page) == []
    assert session.said == []
    context.close()
    w.users.delete(str(user.id))


def test_nothing_turns_where_no_motion_is_wanted(chromium: Browser, server: Server, made: dict[str, str]) -> None:
    for motion, turning in (("no-preference", "turn"), ("reduce", "none")):
        context = chromium.new_context(reduced_motion="reduce" if motion == "reduce" else "no-preference")
        session = Session(context, server)
        session.log_in()
        page = session.go("/compute")
        expect(row(page, "aaa")).to_be_visible()
        page.evaluate("document.querySelector('.word.good').className = 'word wait'")
        assert page.evaluate("getComputedStyle(document.querySelector('.word.wait'), '::before').animationName") == turning
        context.close()


def test_a_page_of_an_older_version_says_so(session: Session, made: dict[str, str]) -> None:
    """After an upgrade of the server, code that an open page has not loaded yet is gone."""
    page = session.go("/compute")
    expect(row(page, "aaa")).to_be_visible()
    page.route(re.compile("/assets/"), lambda route: route.fulfill(status=404))
    page.get_by_role("tab", name="Pools").click()
    expect(page.get_by_role("main").get_by_text("Something went wrong on this page")).to_be_visible()
    again = page.get_by_role("button", name="Reload the page")
    expect(again).to_have_count(1)  # the files are not there, but the server's page is still this one

    def newer(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(
            response=answer, body=re.sub(r"/assets/index-[^\"]+\.js", "/assets/index-of-another-version.js", answer.text())
        )

    page.route(re.compile(r"/compute(\?|$)"), newer)
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("status").filter(has_text="A newer version of this page is available")).to_be_visible()
    page.unroute_all()
    page.get_by_role("status").get_by_role("button", name="Reload the page").click()
    expect(page.get_by_text("No pools yet")).to_be_visible()
    expect(page.get_by_text("A newer version")).to_have_count(0)
    session.said.clear()  # of files that were not there
