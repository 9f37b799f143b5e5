"""The list of clusters in a real browser."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from typing import Any

import pytest
from databricks.sdk import WorkspaceClient
from databricks.sdk.service.compute import AutoScale, State
from databricks.sdk.service.iam import ComplexValue
from playwright.sync_api import Browser, Page, Route, expect

from brickyard.api.webpage import BUNDLE
from brickyard.providers.simulated import SimulatedProvider
from tests.support.patience import until
from tests.support.server import Server
from tests.support.tokens import create
from tests.ui.axe import HOSTILE, readable, violations, violations_in_both_schemes
from tests.ui.conftest import Session

MAX_SCRIPTS = 160 * 1024  # bytes, compressed


@pytest.fixture(scope="module")
def clusters(w: WorkspaceClient) -> Iterator[dict[str, str]]:
    """Running ones, a terminated one, and one with a name that would like to be markup: by name, their ids."""
    common: dict[str, Any] = {"spark_version": "17.3.x-scala2.13", "node_type_id": "i3.xlarge"}
    waits = {
        "etl": w.clusters.create(cluster_name="etl", num_workers=2, custom_tags={"team": "data"}, **common),
        "adhoc": w.clusters.create(cluster_name="adhoc", autoscale=AutoScale(min_workers=1, max_workers=4), **common),
        HOSTILE: w.clusters.create(cluster_name=HOSTILE, num_workers=1, **common),
    }
    made = {name: str(wait.result().cluster_id) for name, wait in waits.items()}
    w.clusters.delete(made["adhoc"]).result()
    yield made
    for cluster_id in made.values():
        w.clusters.unpin(cluster_id)
        w.clusters.permanent_delete(cluster_id)


def row(page: Page, name: str) -> Any:
    return page.locator("tbody tr").filter(has_text=name)


def test_the_list_shows_what_is_there_and_follows_it(session: Session, w: WorkspaceClient, clusters: dict[str, str]) -> None:
    page = session.go("/")
    expect(page).to_have_url(f"{session.server.url}/compute")
    expect(row(page, "etl")).to_contain_text("RUNNING")
    expect(row(page, "etl")).to_contain_text("2 / 2")
    expect(row(page, "adhoc")).to_contain_text("TERMINATED")
    expect(row(page, "adhoc")).to_contain_text("1–4")  # noqa: RUF001 - the page's dash
    expect(row(page, "<img")).to_be_visible()
    assert page.title() == "Compute - Brickyard"
    made = w.clusters.create(
        cluster_name="born-later", spark_version="17.3.x-scala2.13", node_type_id="i3.xlarge", num_workers=1
    ).result()
    expect(row(page, "born-later")).to_contain_text("RUNNING")  # nothing was reloaded
    assert session.said == []
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    w.clusters.permanent_delete(str(made.cluster_id))
    expect(row(page, "born-later")).to_have_count(0)
    asked.clear()
    session.forgets()
    assert not [url for url in asked if str(made.cluster_id) in url]


def test_a_second_visit_draws_what_changes_rarely_as_it_was_and_asks_again(
    session: Session, w: WorkspaceClient, clusters: dict[str, str]
) -> None:
    page = session.go("/compute")
    expect(row(page, "etl")).to_contain_text("17.3 LTS")
    page.goto("about:blank")
    w.clusters.pin(clusters["etl"])
    held: list[Route] = []
    page.route("**/spark-versions", lambda route: held.append(route))  # noqa: PLW0108 - Playwright takes no built-in method
    session.go("/compute")
    expect(row(page, "etl")).to_contain_text("17.3 LTS")
    expect(row(page, "etl").get_by_label("Pinned")).to_be_visible()  # which came afterwards
    page.unroute_all(behavior="ignoreErrors")
    w.clusters.unpin(clusters["etl"])
    expect(row(page, "etl").get_by_label("Pinned")).to_have_count(0)


def test_filters_are_in_the_address_and_columns_are_kept(session: Session, clusters: dict[str, str]) -> None:
    page = session.go("/compute")
    expect(row(page, "etl")).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type("adh")
    expect(row(page, "etl")).to_have_count(0)
    expect(page).to_have_url(f"{session.server.url}/compute?q=adh")
    page.get_by_label("Clear the search").click()
    page.get_by_role("search").get_by_role("button", name="State").click()
    page.get_by_label("TERMINATED (1)").check()
    page.keyboard.press("Escape")
    expect(row(page, "etl")).to_have_count(0)
    expect(row(page, "adhoc")).to_be_visible()
    page.reload()
    expect(row(page, "adhoc")).to_be_visible()
    expect(row(page, "etl")).to_have_count(0)
    page.get_by_label("Choose columns").click()
    page.get_by_label("Creator").uncheck()
    page.keyboard.press("Escape")
    session.go("/compute?active=true")
    expect(row(page, "etl")).to_be_visible()
    expect(row(page, "adhoc")).to_have_count(0)
    expect(page.get_by_role("columnheader", name="Creator")).to_have_count(0)
    session.go("/compute?q=nothing-has-this-name")
    expect(page.get_by_text("No clusters match.")).to_be_visible()
    session.go("/compute?tab=job")
    expect(page.get_by_text("No job clusters")).to_be_visible()
    assert session.said == []


def test_actions_do_what_they_say_and_ask_before_they_end_something(
    session: Session, w: WorkspaceClient, clusters: dict[str, str]
) -> None:
    page = session.go("/compute")
    page.get_by_label("Start adhoc").click()
    expect(row(page, "adhoc")).to_contain_text("RUNNING")
    page.get_by_label("Stop adhoc").click()
    expect(page.get_by_role("dialog")).to_contain_text("Everything that runs on it is stopped")
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.get_by_label("Select adhoc").check()
    page.get_by_label("Select etl").check()
    bar = page.get_by_role("toolbar")
    expect(bar).to_contain_text("2 selected")
    bar.get_by_role("button", name="Pin", exact=True).click()
    expect(row(page, "etl").get_by_label("Pinned")).to_be_visible()
    page.get_by_label("Stop adhoc").click()
    page.get_by_role("button", name="Stop the cluster").click()
    expect(row(page, "adhoc")).to_contain_text("TERMINATED")
    page.get_by_label("Actions on etl").click()
    page.get_by_role("menuitem", name="Unpin").click()
    expect(row(page, "etl").get_by_label("Pinned")).to_have_count(0)
    assert session.said == []


def test_a_refusal_is_shown_in_the_servers_words(session: Session, w: WorkspaceClient, clusters: dict[str, str]) -> None:
    page = session.go("/compute")
    expect(row(page, "adhoc")).to_contain_text("TERMINATED")
    page.route("**/api/2.1/clusters/start", lambda route: route.continue_(post_data='{"cluster_id": "0101-000000-nowhere0"}'))
    page.get_by_label("Start adhoc").click()
    expect(page.get_by_role("status").filter(has_text="Could not start adhoc: Cluster 0101-000000-nowhere0")).to_be_visible()


def test_everybody_can_read_it(session: Session, clusters: dict[str, str]) -> None:
    page = session.go("/compute")
    readable(page, fits=("html", ".scroller"), shown=row(page, "etl"))
    assert session.said == []


def test_keys_open_what_they_say(session: Session, clusters: dict[str, str]) -> None:
    page = session.go("/compute")
    expect(row(page, "etl")).to_be_visible()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    assert violations(page) == []
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.keyboard.press("Control+k")
    page.keyboard.type("adhoc")
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{session.server.url}/compute/clusters/{clusters['adhoc']}")
    expect(page.get_by_role("heading", name="adhoc")).to_be_visible()


def test_the_palette_is_a_combobox_that_also_acts(session: Session, w: WorkspaceClient, clusters: dict[str, str]) -> None:
    page = session.go("/compute")
    expect(row(page, "adhoc")).to_contain_text("TERMINATED")
    page.keyboard.press("Control+k")
    field = page.get_by_role("combobox", name="Name of a cluster")
    chosen = page.get_by_role("option", selected=True)
    expect(field).to_be_focused()
    for key, name in (("ArrowDown", "Compute: job clusters"), ("ArrowUp", "Compute: all-purpose clusters")):
        field.press(key)
        expect(chosen).to_have_text(name)
        expect(chosen).to_have_id(str(field.get_attribute("aria-activedescendant")))
    field.fill("start adhoc")
    expect(page.get_by_role("option")).to_have_text(["Start adhoc"])
    field.press("Enter")
    expect(row(page, "adhoc")).to_contain_text("RUNNING")
    for what in ("Stop adhoc", "Edit adhoc", "Log out", "Use dark colours"):
        page.keyboard.press("Control+k")
        field.fill(" ".join(reversed(what.lower().split())))
        expect(page.get_by_role("option")).to_have_text([what])
        page.keyboard.press("Escape")
        expect(field).to_have_count(0)
    page.keyboard.press("Control+k")
    field.fill("stop adhoc")
    field.press("Enter")
    page.get_by_role("dialog", name="Stop adhoc?").get_by_role("button", name="Stop the cluster").click()
    expect(row(page, "adhoc")).to_contain_text("TERMINATED")
    assert session.said == []


def test_the_palette_leads_to_pools_and_policies(session: Session, w: WorkspaceClient) -> None:
    pool = w.instance_pools.create(instance_pool_name=f"warm {HOSTILE}", node_type_id="i3.xlarge").instance_pool_id
    policy = str(w.cluster_policies.create(name=f"small {HOSTILE}", definition="{}").policy_id)
    page = session.go("/compute")
    for text, path in (
        (f"pool: warm {HOSTILE}", f"pools/{pool}"),
        (policy, f"policies/{policy}"),
        ("compute: pol", "?tab=policies"),
    ):
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        page.keyboard.press("Control+k")
        page.get_by_role("combobox", name="Name of a cluster").fill(text)
        expect(page.get_by_role("listbox").get_by_role("option")).to_have_count(1)
        assert violations_in_both_schemes(page) == []
        page.keyboard.press("Enter")
        expect(page).to_have_url(re.compile(re.escape(path) + "$"))
    w.cluster_policies.delete(policy)
    w.instance_pools.delete(str(pool))
    assert page.title() != "taken over"


def test_watched_clusters_are_told_of_on_every_page(
    session: Session, w: WorkspaceClient, machines: SimulatedProvider, clusters: dict[str, str]
) -> None:
    page = session.go("/compute")
    page.get_by_label("Actions on adhoc").click()
    page.get_by_role("menuitem", name="Watch").click()
    session.go(f"/compute/clusters/{clusters['adhoc']}")
    watch = page.get_by_role("button", name="Watch adhoc")
    expect(watch).to_have_attribute("aria-pressed", "true")
    session.go(f"/compute/clusters/{clusters[HOSTILE]}")
    page.get_by_role("button", name=f"Watch {HOSTILE}").click()
    page.get_by_role("link", name="Admin", exact=True).click()
    told = page.get_by_role("status")
    w.clusters.delete(clusters[HOSTILE]).result()
    expect(told.filter(has_text=f"{HOSTILE} is TERMINATED.")).to_be_visible()
    w.clusters.start(clusters["adhoc"]).result()
    expect(told.filter(has_text="adhoc is RUNNING.")).to_be_visible()
    assert violations_in_both_schemes(page) == []
    page.goto("about:blank")
    w.clusters.delete(clusters["adhoc"]).result()
    machines.knobs.full_types = frozenset({"i3.xlarge"})
    w.clusters.start(clusters["adhoc"])
    until(lambda: w.clusters.get(clusters["adhoc"]).state is State.TERMINATED, "the start has failed")
    machines.knobs.full_types = frozenset()
    session.go("/compute")  # what happened while no page was open is told now
    expect(told.filter(has_text="adhoc has failed: CLOUD_PROVIDER_RESOURCE_STOCKOUT")).to_be_visible()
    page.get_by_label("Actions on adhoc").click()
    page.get_by_role("menuitem", name="Stop watching").click()
    w.clusters.start(clusters["adhoc"]).result()
    expect(row(page, "adhoc")).to_contain_text("RUNNING")
    expect(told.filter(has_text="adhoc is RUNNING.")).to_have_count(0)
    w.clusters.delete(clusters["adhoc"]).result()
    w.clusters.start(clusters[HOSTILE]).result()
    assert page.title() != "taken over"


def test_a_watched_cluster_that_fails_is_told_with_its_reason(
    session: Session, w: WorkspaceClient, machines: SimulatedProvider
) -> None:
    machines.knobs.register_s = 3600
    fields: dict[str, Any] = {"spark_version": "17.3.x-scala2.13", "node_type_id": "r5.large", "num_workers": 1}
    made = w.clusters.create(cluster_name="will fail", **fields)
    page = session.go(f"/compute/clusters/{made.cluster_id}")
    page.get_by_role("button", name="Watch will fail").click()
    w.clusters.delete(made.cluster_id).result()
    machines.knobs.register_s = 0
    machines.knobs.full_types = frozenset({"r5.large"})
    w.clusters.start(made.cluster_id)
    failure = page.get_by_role("status").filter(has_text="will fail has failed: CLOUD_PROVIDER_RESOURCE_STOCKOUT")
    expect(failure).to_be_visible()
    machines.knobs.full_types = frozenset()
    w.clusters.permanent_delete(made.cluster_id)
    expect(page.get_by_role("status").filter(has_text="will fail was deleted.")).to_be_visible()


def ten_thousand(session: Session, state: str) -> Page:
    """The list of so many clusters."""
    one = {"cluster_id": "", "cluster_name": "", "state": state, "num_workers": 1, "spark_version": "17.3.x-scala2.13"}
    many = [one | {"cluster_id": f"0101-000000-c{at:07d}", "cluster_name": f"c{at}"} for at in range(10_000)]
    session.page.route("**/api/2.0/clusters/list", lambda route: route.fulfill(json={"clusters": many}))
    return session.go("/compute")


# Answers the calls that stop clusters within the page: how many there were, and how many at once at most.
STOPS = """
window.stops = {all: 0, now: 0, most: 0};
const asks = window.fetch;
window.fetch = async (request, more) => {
  if (!(request.url ?? String(request)).endsWith("/clusters/delete")) return asks(request, more);
  stops.all += 1;
  stops.most = Math.max(stops.most, ++stops.now);
  await new Promise(done => setTimeout(done));
  stops.now -= 1;
  return Response.json({});
};
"""


@pytest.mark.extended  # stopping a few asks in the same dialog
def test_ten_thousand_are_stopped_once_their_number_is_typed(session: Session, clusters: dict[str, str]) -> None:
    session.page.add_init_script(STOPS)
    page = ten_thousand(session, "RUNNING")
    page.get_by_label("Select all clusters shown").check()
    bar = page.get_by_role("toolbar")
    expect(bar).to_contain_text("10,000 selected")
    bar.get_by_role("button", name="Stop", exact=True).click()
    dialog = page.get_by_role("dialog", name="Stop 10,000 clusters?")
    button = dialog.get_by_role("button", name="Stop 10,000 clusters")
    expect(dialog.get_by_label("Type 10000 to confirm")).to_be_focused()
    expect(button).to_be_disabled()
    assert violations_in_both_schemes(page) == []
    page.keyboard.type("1000")
    page.keyboard.press("Enter")
    expect(button).to_be_disabled()
    page.keyboard.type("0")
    page.keyboard.press("Enter")
    told = page.get_by_role("status")
    expect(told.filter(has_text=re.compile(r"Stop: [\d,]+ of 10,000 clusters")).first).to_be_visible()
    expect(told.filter(has_text="Stop: 10,000 of 10,000 clusters.")).to_be_visible(timeout=120_000)
    stops = page.evaluate("stops")
    assert stops["all"] == 10_000
    assert stops["most"] <= 4
    assert session.said == []


def test_ten_thousand_clusters_are_not_all_drawn(session: Session, clusters: dict[str, str]) -> None:
    page = ten_thousand(session, "TERMINATED")
    expect(page.get_by_text("10,000 clusters")).to_be_visible()
    assert page.locator("tbody tr").count() < 100
    page.locator(".scroller").evaluate("element => element.scrollTo(0, element.scrollHeight)")
    expect(row(page, "c9999")).to_be_visible()


def test_a_session_that_ends_takes_nothing_along(session: Session, clusters: dict[str, str], w: WorkspaceClient) -> None:
    other = w.users.create(user_name="other@example.com", entitlements=[ComplexValue(value="workspace-access")])
    page = session.go("/compute")
    expect(row(page, "etl")).to_be_visible()
    page.get_by_label("Search by name or id").fill("et")
    ended: list[Route] = []  # what the page reads of itself could be the first to learn it, and a dialog cover the buttons
    page.route("**/api/**", lambda route: ended.append(route) if route.request.method == "GET" else route.continue_())
    session.context.clear_cookies()
    page.get_by_label("Stop etl").click()
    page.get_by_role("button", name="Stop the cluster").click()
    ended_dialog = page.get_by_role("dialog", name="Your session has ended")
    expect(ended_dialog).to_be_visible()
    session.log_in(create(w, "other@example.com"))
    page.get_by_role("button", name="Continue").click()
    expect(ended_dialog.get_by_role("alert")).to_contain_text("other@example.com")
    w.users.delete(str(other.id))
    session.log_in()
    page.unroute("**/api/**")
    page.get_by_role("button", name="Continue").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_label("Search by name or id")).to_have_value("et")
    expect(row(page, "etl")).to_contain_text("RUNNING")  # it was not stopped


def test_a_server_that_is_away_is_said_in_words(session: Session, clusters: dict[str, str]) -> None:
    page = session.go("/compute")
    expect(row(page, "etl")).to_be_visible()
    session.context.set_offline(True)
    page.get_by_label("Start adhoc").click()
    expect(page.get_by_role("status").filter(has_text="The server does not answer")).to_be_visible()
    session.context.set_offline(False)
    expect(row(page, "etl")).to_be_visible()


def test_counters_filter_and_ways_back_keep_filters(
    session: Session, w: WorkspaceClient, machines: SimulatedProvider, clusters: dict[str, str]
) -> None:
    machines.knobs.full_types = frozenset({"r5.large"})
    fields: dict[str, Any] = {"spark_version": "17.3.x-scala2.13", "node_type_id": "r5.large", "num_workers": 1}
    failed = str(w.clusters.create(cluster_name="no room", **fields).cluster_id)
    until(lambda: w.clusters.get(failed).state is State.TERMINATED, "the start has failed")
    machines.knobs.full_types = frozenset()
    page = session.go("/compute")
    counter = page.get_by_role("button", name="Failed 1", exact=True)
    expect(row(page, "no room").locator(".reason")).to_contain_text("CLOUD_PROVIDER_RESOURCE_STOCKOUT: ")
    counter.click()
    expect(counter).to_have_attribute("aria-pressed", "true")
    expect(page.locator("tbody tr[data-index]")).to_have_count(1)
    page.get_by_role("search").get_by_role("button", name="State: Failed").click()
    expect(page.get_by_label("Failed (1)", exact=True)).to_be_checked()
    page.keyboard.press("Escape")
    page.get_by_label("Search by name or id").fill("no ro")
    expect(page).to_have_url(re.compile(r"q=no"))
    listed = page.url
    row(page, "no room").get_by_role("link", name="no room", exact=True).click()
    page.get_by_role("navigation", name="Breadcrumb").get_by_role("link").click()
    expect(page).to_have_url(listed)
    page.get_by_role("tab", name="Pools").click()
    expect(page).to_have_url(f"{session.server.url}/compute?tab=pools")
    page.get_by_role("tab", name="All-purpose").click()
    expect(page).to_have_url(listed)
    page.get_by_label("Edit no room").click()
    page.get_by_role("button", name="Cancel").click()
    expect(page).to_have_url(listed)
    counter.click()
    expect(page).to_have_url(f"{session.server.url}/compute?q=no+ro")
    session.go("/compute/create")  # one came from nowhere
    page.get_by_role("button", name="Cancel").click()
    expect(page).to_have_url(f"{session.server.url}/compute")
    w.clusters.permanent_delete(failed)
    assert session.said == []


def test_keys_act_on_the_row_that_has_the_focus(session: Session, clusters: dict[str, str]) -> None:
    for key, path in (("e", f"clusters/{clusters['etl']}/edit"), ("c", f"create?clone={clusters['etl']}")):
        page = session.go("/compute?q=etl")
        expect(page.locator("tbody tr[data-index]")).to_have_count(1)
        page.keyboard.press("j")
        page.keyboard.press(key)
        expect(page).to_have_url(f"{session.server.url}/compute/{path}")
    page = session.go("/compute?q=etl")
    expect(page.locator("tbody tr[data-index]")).to_have_count(1)
    page.keyboard.press("j")
    page.keyboard.press("r")
    expect(page.get_by_role("dialog", name="Restart etl?")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.get_by_role("heading", name="Compute").click()
    page.keyboard.press("c")
    expect(page).to_have_url(f"{session.server.url}/compute/create")
    assert session.said == []


def test_another_page_gets_the_focus_and_is_said(session: Session, clusters: dict[str, str]) -> None:
    page = session.go("/compute")
    said = page.get_by_role("status", name="Page")
    row(page, "etl").get_by_role("link", name="etl", exact=True).click()
    expect(said).to_have_text("etl")
    expect(page.locator("main")).to_be_focused()
    page.get_by_role("link", name="Admin", exact=True).press("Enter")
    expect(said).to_have_text("Admin")
    expect(page.locator("main")).to_be_focused()
    page.go_back()
    expect(said).to_have_text("etl")
    assert session.said == []


@pytest.mark.parametrize(
    ("typed", "leads"),
    [
        ("/clusters", "/compute"),
        ("/clusters/{etl}", "/compute/clusters/{etl}"),
        ("/compute/clusters", "/compute"),
        ("/pools", "/compute?tab=pools"),
        ("/policies", "/compute?tab=policies"),
    ],
)
def test_addresses_that_people_type_lead_to_their_page(
    session: Session, clusters: dict[str, str], typed: str, leads: str
) -> None:
    page = session.go(typed.format(**clusters))
    expect(page).to_have_url(session.server.url + leads.format(**clusters))
    expect(page.get_by_role("heading", level=1)).to_be_visible()


@pytest.mark.parametrize(("width", "height"), [(1440, 900), (900, 700), (720, 450), (640, 400), (390, 844)])
def test_names_can_be_read_and_tabs_stay_in_any_window(
    session: Session, clusters: dict[str, str], width: int, height: int
) -> None:
    """Half as many pixels are a window at 200 %."""
    page = session.page
    page.set_viewport_size({"width": width, "height": height})
    session.go("/compute")
    name = row(page, "etl").locator("td[data-label='Name']")
    expect(name).to_be_visible()
    assert name.evaluate("element => element.clientWidth") >= 150
    assert page.get_by_role("tab", name="Pools").evaluate("element => element.parentElement.clientHeight") >= 30
    assert not page.evaluate("document.documentElement.scrollWidth > innerWidth")
    scroller = page.locator(".scroller")
    wide = scroller.evaluate("element => (element.scrollTo(1000, 0), element.scrollLeft)")
    assert (wide > 0) == (width == 900)
    left = name.evaluate("element => element.getBoundingClientRect().left")
    assert left >= scroller.evaluate("element => element.getBoundingClientRect().left")
    assert violations(page) == []


def test_a_window_that_is_narrowed_is_measured_again(session: Session) -> None:
    page = ten_thousand(session, "TERMINATED")
    scroller = page.locator(".scroller")
    for width in (1440, 700, 390, 1440):
        page.set_viewport_size({"width": width, "height": 900})
        scroller.evaluate("element => element.scrollTo(0, 0)")
        expect(row(page, "c0").first).to_be_visible()
        until(lambda: page.evaluate(TOUCH), "each row begins where the one before ends")
        until(lambda: page.evaluate(AT_THE_END), "the last row ends where the list does")


TOUCH = """() => {
  const rows = [...document.querySelectorAll("tbody tr[data-index]")].map(row => row.getBoundingClientRect());
  return rows.every((row, at) => at === 0 || Math.abs(row.top - rows[at - 1].bottom) <= 1);
}"""
AT_THE_END = """() => {
  const list = document.querySelector(".scroller");
  list.scrollTo(0, list.scrollHeight);
  const last = document.querySelector("tbody tr[data-index='9999']");
  return last !== null && Math.abs(last.getBoundingClientRect().bottom - list.getBoundingClientRect().bottom) <= 20;
}"""


def test_who_is_not_logged_in_comes_back_where_they_wanted_to_go(chromium: Browser, server: Server) -> None:
    context = chromium.new_context()
    session = Session(context, server)
    page = session.go("/compute?active=true")
    page.wait_for_url("**/login?next=*")
    page.get_by_label("Access token").fill("dapi" + "0" * 32)
    page.get_by_role("button", name="Log in").click()
    expect(page).to_have_url(f"{server.url}/compute?active=true")
    expect(page.get_by_role("heading", name="Compute")).to_be_visible()
    context.close()


def test_a_link_logs_in_once(chromium: Browser, server: Server, w: WorkspaceClient) -> None:
    made: Any = w.api_client.do("POST", "/api/2.1/login-links")
    context = chromium.new_context()
    page = context.new_page()
    page.goto(made["url"])
    expect(page.get_by_role("heading", name="Compute")).to_be_visible()
    context.clear_cookies()
    page.goto(made["url"])
    expect(page.get_by_text("This link was used before")).to_be_visible()
    context.close()


def test_addresses_that_clients_print_lead_to_their_pages(session: Session) -> None:
    """Terraform's `url` of a job and a cluster, and what the Jobs API answers on Databricks."""
    leads = {
        "/#job/7": "/jobs/7",
        "/?o=1#job/7/run/8": "/jobs/runs/8",
        "/#setting/clusters/0101-1-abc/configuration": "/compute/clusters/0101-1-abc",
        "/jobs/7/runs/8": "/jobs/7/runs/8",
        "/": "/compute",
    }
    for address, path in leads.items():
        session.page.goto("about:blank")
        page = session.go(address)
        page.wait_for_url(re.compile(rf"//[^/]+{path}(\?|$)"))


def test_scripts_are_small_and_nothing_else_may_run(session: Session) -> None:
    loaded: list[str] = []
    session.page.add_init_script("window.requestIdleCallback = () => 0")  # what comes when the browser is idle does not count
    session.page.on("response", lambda answer: loaded.append(answer.url.rpartition("/")[2]))
    page = session.go("/compute")
    expect(page.get_by_role("heading", name="Compute")).to_be_visible()
    scripts = {name for name in loaded if name.endswith(".js")}
    assert scripts
    assert sum(len(gzip.compress((BUNDLE / name).read_bytes())) for name in scripts) <= MAX_SCRIPTS
    policy = page.evaluate("fetch('/compute').then(answer => answer.headers.get('content-security-policy'))")
    assert "script-src 'self';" in policy
    assert "unsafe" not in policy
    page.evaluate(
        "() => { const e = document.createElement('script'); e.textContent = 'window.ran = 1'; document.body.append(e) }"
    )
    until(lambda: any("Content Security Policy" in said for said in session.said))
    assert page.evaluate("window.ran") is None
