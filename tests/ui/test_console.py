"""The console of a cluster in a real browser: cells, what they show, and what outlives tabs and reloads."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from databricks.sdk import WorkspaceClient
from databricks.sdk.service.compute import DataSecurityMode
from playwright.sync_api import Locator, Page, expect

from brickyard.providers.simulated import SimulatedProvider
from brickyard.providers.simulated.kernels import Answer
from tests.support.patience import until
from tests.ui.axe import HOSTILE, readable
from tests.ui.conftest import Session

COMMON: dict[str, Any] = {"spark_version": "17.3.x-scala2.13", "node_type_id": "i3.xlarge"}
MANY = 10_000
JOB = {"job_id": 7, "tasks": 200, "completed_tasks": 50, "active_tasks": 4, "failed_tasks": 0, "stages": 3, "completed_stages": 1}
SHARP = "<p id=seen>from a notebook</p><script>top.document.title='taken over'</script><form action='/logout' method=post></form>"


@pytest.fixture(scope="module")
def cluster(w: WorkspaceClient, machines: SimulatedProvider) -> Iterator[str]:
    """A running cluster whose drivers answer commands."""
    machines.kernels.compute = computed
    made = w.clusters.create(cluster_name="for the console", num_workers=1, **COMMON).result()
    yield str(made.cluster_id)
    machines.kernels.compute = None
    w.clusters.permanent_delete(str(made.cluster_id))


def table(names: dict[str, str], rows: list[list[Any]]) -> Answer:
    schema = [{"name": name, "type": f'"{kind}"'} for name, kind in names.items()]
    return Answer(results={"resultType": "table", "schema": schema, "data": rows, "truncated": False})


def computed(command: str) -> Answer:
    if "many" in command:
        return table({"id": "long", "name": "string"}, [[MANY - at, f"row {at}"] for at in range(MANY)])
    if "SELECT" in command:
        return table({"name": "string", "amount": "integer"}, [[HOSTILE, 42], [None, 7], ["b10", 100], ["b9", 9]])
    if "boom" in command:
        summary = f"<span class='ansired'>Wrong</span>: {html.escape(HOSTILE, quote=False)}"
        return Answer(results={"resultType": "error", "summary": summary, "cause": "the trace", "data": "printed before"})
    if "sharp" in command:
        return Answer(results={"resultType": "text", "data": SHARP, "isHtml": True, "summary": "beside it"})
    if "sleep" in command:
        progress = {"printed": f"{HOSTILE} so far\n", "jobs": [JOB]}
        return Answer(results={"resultType": "text", "data": "woke up"}, after_s=3600, progress=progress)
    return Answer(results={"resultType": "text", "data": f"{HOSTILE} printed"})


Open = Callable[..., Page]


@pytest.fixture
def opened(session: Session, cluster: str) -> Open:
    def go(tab: str = "notebooks") -> Page:
        page = session.go(f"/compute/clusters/{cluster}?tab={tab}")
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        return page

    return go


def code(page: Page, number: int = 1) -> Locator:
    return page.get_by_label("Code" if number == 1 else f"Code {number}", exact=True)


def cells(page: Page) -> Locator:
    return page.get_by_label("Cells", exact=True).locator("> li")


def run(page: Page, text: str, number: int = 1, language: str = "") -> Locator:
    """Types a command into a cell and runs it; the cell."""
    cell = cells(page).nth(number - 1)
    if language:
        cell.get_by_role("combobox").select_option(language)
    code(page, number).fill(text)
    code(page, number).press("Control+Enter")
    return cell


def test_what_a_cell_shows_is_text(opened: Open, session: Session) -> None:
    page = opened()
    expect(page.get_by_label("Language", exact=True).locator("option")).to_have_text(["Python", "SQL"])
    first = run(page, "print('hello')")
    expect(first).to_contain_text(f"{HOSTILE} printed")
    expect(first.get_by_role("status")).to_have_text("Finished")
    expect(page.get_by_label("Attached", exact=True)).to_contain_text("Context")
    wrong = run(page, "boom")
    expect(wrong.get_by_role("alert")).to_have_text(f"Wrong: {HOSTILE}")
    expect(wrong.get_by_text("the trace", exact=True)).to_have_count(0)
    wrong.get_by_role("button", name="Show the traceback").click()
    expect(wrong.get_by_text("the trace", exact=True)).to_be_visible()
    readable(page)
    page.get_by_role("button", name="End the session").click()
    expect(page.get_by_text("Nothing is attached")).to_be_visible()
    assert session.said == []


def test_html_of_a_command_cannot_act_for_the_user(opened: Open, session: Session) -> None:
    page = opened()
    cell = run(page, "sharp")
    frame = cell.locator("iframe")
    expect(frame).to_have_attribute("sandbox", "")
    expect(page.frame_locator("iframe.html").locator("#seen")).to_have_text("from a notebook")
    expect(cell).to_contain_text("beside it")
    assert page.title() != "taken over"
    assert all("script" in each for each in session.said)  # what the browser says of the script that it did not run
    cell.get_by_role("button", name="Show as text").click()
    expect(frame).to_have_count(0)
    expect(cell).to_contain_text("from a notebook")


def test_a_table_is_sorted_widened_saved_and_drawn(opened: Open, session: Session) -> None:
    page = opened()
    cell = run(page, "SELECT * FROM sales", language="sql")
    grid = cell.get_by_label("The result")
    heads, rows = grid.locator("th"), grid.locator("tbody tr")
    expect(heads.nth(1)).to_contain_text("amount integer")
    expect(rows.nth(0).locator("td")).to_have_text([HOSTILE, "42"])
    heads.nth(1).get_by_role("button").click()
    expect(heads.nth(1)).to_have_attribute("aria-sort", "ascending")
    expect(rows.locator("td:nth-child(2)")).to_have_text(["7", "9", "42", "100"])
    heads.nth(0).get_by_role("button").press("Enter")
    expect(rows.locator("td:nth-child(1)")).to_have_text([HOSTILE, "b9", "b10", "null"])
    before = heads.nth(0).evaluate("head => head.clientWidth")
    heads.nth(0).get_by_role("button").press("Shift+ArrowRight")
    until(lambda: heads.nth(0).evaluate("head => head.clientWidth") > before, "the wider column")
    with page.expect_download() as started:
        cell.get_by_role("button", name="CSV").click()
    saved = Path(started.value.path()).read_text()
    assert saved.splitlines()[0] == "name,amount" and saved.splitlines()[-1] == ",7"

    cell.get_by_role("button", name="Chart").click()
    expect(cell.get_by_role("img", name=re.compile(r"^Bar chart by name, 4 points: amount from 7 to 100$"))).to_be_visible()
    cell.get_by_label("Chart", exact=True).select_option("scatter")
    cell.get_by_label("X axis").select_option(label="amount")
    expect(cell.get_by_role("img", name=re.compile("^Scatter chart by amount"))).to_be_visible()
    cell.get_by_label("amount", exact=True).uncheck()
    expect(cell.get_by_text("Choose a column of numbers.")).to_be_visible()
    cell.get_by_label("amount", exact=True).check()
    readable(page)
    cell.get_by_role("button", name="Table").click()
    expect(grid).to_be_visible()
    assert session.said == []


def test_ten_thousand_rows_are_drawn_as_far_as_they_are_seen(opened: Open) -> None:
    page = opened()
    cell = run(page, "many")
    grid = cell.get_by_label("The result")
    expect(cell).to_contain_text(f"{MANY:,} rows")
    assert grid.locator("tbody tr").count() < 100
    grid.locator("th").nth(0).get_by_role("button").click()
    expect(grid.locator("tbody td").first).to_have_text("1")
    grid.evaluate("element => element.parentElement.scrollTo(0, element.scrollHeight)")
    expect(grid.get_by_role("gridcell", name=str(MANY), exact=True)).to_be_visible()
    reached = grid.locator("[aria-selected=true]")
    for key, (row, column) in {"Control+Home": (1, 1), "ArrowRight": (1, 2), "End": (1, 2), "Control+End": (MANY, 2)}.items():
        grid.press(key)
        expect(reached).to_have_text(str(row) if column == 1 else f"row {MANY - row}")
        expect(reached).to_be_in_viewport()
    grid.press("PageUp")
    grid.press("Home")
    until(lambda: MANY - 30 < int(reached.inner_text()) < MANY, "a page above the end")
    page.reload()  # the result is larger than what the browser keeps: the session still has it
    expect(grid.locator("tbody tr").nth(2)).to_be_visible()


def test_what_runs_outlives_tabs_and_reloads_and_can_be_cancelled(opened: Open, session: Session) -> None:
    page = opened()
    run(page, "print('kept')")
    expect(cells(page).nth(0)).to_contain_text("printed")
    code(page).press("Shift+Enter")
    expect(cells(page)).to_have_count(2)
    expect(code(page, 2)).to_be_focused()
    running = run(page, "sleep", number=2)
    expect(running).to_contain_text(f"{HOSTILE} so far")
    expect(running.get_by_role("progressbar", name="Spark job 7")).to_have_attribute("value", "50")
    expect(running).to_contain_text("50 of 200 tasks, 4 running; stage 2 of 3")
    page.get_by_role("tab", name="Libraries").click()
    page.get_by_role("tab", name="Notebooks").click()
    expect(running.get_by_role("status")).to_have_text("Running")
    page.reload()
    expect(cells(page)).to_have_count(2)
    expect(cells(page).nth(0)).to_contain_text("printed")
    expect(code(page)).to_have_text("print('kept')")
    expect(running).to_contain_text("so far")
    readable(page)
    running.get_by_role("button", name="Cancel").click()
    expect(running.get_by_role("status")).to_have_text("Cancelled")
    assert session.said == []


# The colour around an element, and that of the focus.
RING = """element => {
  const probe = element.appendChild(document.createElement("i"));
  probe.style.color = "var(--b-focus)";
  const colours = [getComputedStyle(element).outlineColor, getComputedStyle(probe).color];
  probe.remove();
  return colours;
}"""


def test_keys_are_those_of_notebooks(opened: Open) -> None:
    page = opened()
    code(page).fill("one = 1")
    code(page).press("Escape")
    expect(cells(page).nth(0)).to_be_focused()
    page.keyboard.press("b")
    expect(cells(page)).to_have_count(2)
    expect(cells(page).nth(1)).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.type("two = 2")
    page.keyboard.press("Escape")
    page.keyboard.press("Alt+ArrowUp")
    expect(code(page)).to_have_text("two = 2")
    page.keyboard.press("a")
    expect(cells(page)).to_have_count(3)
    page.keyboard.press("d")
    page.keyboard.press("d")
    expect(cells(page)).to_have_count(2)
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("Shift+Enter")
    expect(cells(page)).to_have_count(3)
    expect(code(page, 3)).to_be_focused()
    ring, focus = page.locator(".cm-focused").evaluate(RING)
    assert ring == focus, "the colour of the accent would look like an error"
    page.keyboard.press("ArrowUp")  # an empty cell recalls what was run
    expect(code(page, 3)).to_have_text("one = 1")
    page.keyboard.press("ArrowDown")
    expect(code(page, 3)).to_have_text("spark.range(10).toPandas()")  # the hint of an empty one
    cells(page).nth(2).get_by_role("button", name="More actions on cell 3").click()
    page.get_by_role("menuitem", name="Delete the cell").click()
    expect(cells(page)).to_have_count(2)


def test_completion_offers_words_of_spark_and_of_the_catalog(opened: Open) -> None:
    page = opened()
    page.route(
        "**/api/2.1/unity-catalog/**",
        lambda route: route.fulfill(json=catalog(route.request.url)),
    )
    options = page.get_by_role("option")
    code(page).press_sequentially("spark.createDa")
    expect(options.filter(has_text="createDataFrame")).to_be_visible()
    page.keyboard.press("Escape")
    code(page).fill("yearly_total = 1")
    page.keyboard.press("Escape")
    page.keyboard.press("b")
    page.keyboard.press("Enter")
    page.keyboard.type("yearl")
    expect(options.filter(has_text="yearly_total")).to_be_visible()  # a name of another cell
    page.keyboard.press("Escape")
    code(page).fill("")
    page.get_by_label("Language", exact=True).select_option("sql")
    code(page).press_sequentially("SELECT s.am")
    code(page).fill("SELECT s. FROM main.shop.sales s")
    for _ in range(len(" FROM main.shop.sales s")):
        page.keyboard.press("ArrowLeft")
    page.keyboard.press("Control+Space")
    expect(options.filter(has_text="amount")).to_be_visible()
    expect(options.filter(has_text="odd name")).to_be_visible()
    page.keyboard.press("Escape")
    code(page).fill("")
    code(page).press_sequentially("SELECT * FROM main.shop.sa")
    expect(options.filter(has_text="sales")).to_be_visible()
    options.filter(has_text="sales").click()
    expect(code(page)).to_have_text("SELECT * FROM main.shop.sales")


def catalog(url: str) -> dict[str, Any]:
    if "/tables/" in url:
        return {"columns": [{"name": "amount", "type_text": "int"}, {"name": "odd name", "type_text": "string"}]}
    if "/tables" in url:
        return {"tables": [{"name": "sales"}]}
    return {"schemas": [{"name": "shop"}]} if "/schemas" in url else {"catalogs": [{"name": "main"}]}


def test_nothing_typed_is_lost_when_the_session_ends_or_the_server_is_away(opened: Open, session: Session) -> None:
    page = opened()
    button = cells(page).nth(0).get_by_role("button", name="Run")
    code(page).fill("precious = 1")
    session.context.clear_cookies()
    button.click()
    expect(page.get_by_role("dialog", name="Your session has ended")).to_be_visible()
    session.log_in()
    page.get_by_role("button", name="Continue").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(code(page)).to_have_text("precious = 1")
    session.context.set_offline(True)
    button.click()
    expect(cells(page).nth(0).get_by_role("alert")).to_be_visible()
    expect(code(page)).to_have_text("precious = 1")
    session.context.set_offline(False)
    button.click()
    expect(cells(page).nth(0).get_by_role("status")).to_have_text("Finished")


def test_the_drawer_is_below_every_tab_and_remembered(opened: Open, session: Session) -> None:
    page = opened("libraries")
    drawer = page.get_by_label("Console drawer")
    expect(drawer.get_by_role("button", name="Console", exact=False).first).to_have_attribute("aria-expanded", "false")
    page.keyboard.press("Control+`")
    expect(code(page)).to_be_focused()
    page.keyboard.type("print('drawn')")
    page.keyboard.press("Control+Enter")
    expect(cells(page).nth(0)).to_contain_text("printed")
    inside = drawer.locator(".inside")
    before = inside.evaluate("element => element.clientHeight")
    drawer.get_by_label("Height of the console").press("ArrowUp")
    until(lambda: inside.evaluate("element => element.clientHeight") > before, "the higher drawer")
    page.get_by_role("tab", name="Event log").click()
    expect(cells(page).nth(0)).to_contain_text("printed")
    page.reload()
    expect(cells(page).nth(0)).to_contain_text("printed")
    readable(page)
    page.set_viewport_size({"width": 1440, "height": 900})
    page.get_by_role("tab", name="Notebooks").click()
    expect(drawer).to_have_count(0)
    expect(cells(page).nth(0)).to_contain_text("printed")
    page.get_by_role("tab", name="Libraries").click()
    page.keyboard.press("Control+`")
    expect(cells(page)).to_have_count(0)
    assert session.said == []


def test_what_stopped_clusters_and_other_users_get(session: Session, w: WorkspaceClient, machines: SimulatedProvider) -> None:
    stopped = str(w.clusters.create(cluster_name="stopped", num_workers=1, **COMMON).result().cluster_id)
    w.clusters.delete(stopped).result()
    page = session.go(f"/compute/clusters/{stopped}?tab=notebooks")
    code(page).fill("print(1)")
    expect(cells(page).nth(0).get_by_role("button", name="Run")).to_be_disabled()
    page.get_by_role("button", name="Start the cluster").click()
    until(lambda: str(w.clusters.get(stopped).state) != "State.TERMINATED", "the start")
    w.clusters.permanent_delete(stopped)

    w.users.create(user_name="owner@example.com")
    single = w.clusters.create(
        cluster_name="of one user",
        num_workers=1,
        single_user_name="owner@example.com",
        data_security_mode=DataSecurityMode.SINGLE_USER,
        **COMMON,
    ).result()
    page = session.go(f"/compute/clusters/{single.cluster_id}?tab=notebooks")
    expect(page.get_by_label("Console", exact=True).get_by_role("alert")).to_contain_text("owner@example.com")
    expect(cells(page).nth(0).get_by_role("button", name="Run")).to_be_disabled()
    w.clusters.permanent_delete(str(single.cluster_id))
