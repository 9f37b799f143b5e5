"""The SQL editor in a real browser. Nodes are simulated, so the test answers the statements in Spark's place."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator

import pytest
from databricks.sdk import WorkspaceClient
from databricks.sdk.service.sql import State
from playwright.sync_api import Locator, Page, expect

from brickyard.features.statements.model import Query, StatementFailed
from tests.support.server import Server
from tests.support.sqlstandin import Result, SqlStandIn
from tests.ui.axe import HOSTILE, readable
from tests.ui.conftest import Session
from tests.ui.test_sql_catalog import answered

FLIGHTS: Result = (
    {"carrier": "STRING", "delay": "INT", "big": "BIGINT"},
    [["UA", "12", "9007199254740993"], ["B6", None, "2"], [HOSTILE, "3", "9007199254740992"]],
)


class Spark:
    """What the statements of this module mean."""

    def __init__(self) -> None:
        self.go = threading.Event()

    def __call__(self, query: Query) -> Result | None:
        text = query.text
        if "wait" in text:
            return ({"done": "INT"}, [["1"]]) if self.go.is_set() else None
        if "nothing_there" in text:
            line = text[: text.index("nothing_there")].count("\n") + 1
            column = text.split("\n")[line - 1].index("nothing_there")
            raise StatementFailed(f"[TABLE_OR_VIEW_NOT_FOUND] no {HOSTILE}; line {line} pos {column}", sql_state="42P01")
        if text.startswith("CREATE"):
            return {}, []
        if "range" in text:
            return {"id": "BIGINT"}, [[str(number)] for number in range(5000)]
        if query.parameters:
            return {each.name: "STRING" for each in query.parameters}, [
                [f"{each.type}: {each.value}" for each in query.parameters]
            ]
        return FLIGHTS if "flights" in text else ({"statement": "STRING"}, [[text]])


@pytest.fixture
def spark(server: Server) -> Iterator[Spark]:
    made = Spark()
    yield made
    made.go.set()


@pytest.fixture
def sent(server: Server, spark: Spark) -> list[Query]:
    """What reached Spark."""
    return SqlStandIn(server, spark).ran


@pytest.fixture(scope="module")
def warehouse(w: WorkspaceClient) -> Iterator[str]:
    made = str(w.warehouses.create(name=f"sql {HOSTILE}", cluster_size="2X-Small").result().id)
    yield made
    w.warehouses.delete(made)


def opened(session: Session, warehouse: str) -> tuple[Page, Locator]:
    """The editor, and its text."""
    page = session.go("/sql/editor")
    page.get_by_label("Compute", exact=True).select_option(warehouse)
    return page, page.get_by_role("textbox", name="SQL", exact=True)


def write(text: Locator, sql: str) -> None:
    """In place of what is there. Chromium replaces highlighted text by text with a style, which the page's policy refuses."""
    text.press("Control+a")
    text.press("Delete")
    text.fill(sql)


def run_of(page: Page) -> Locator:
    return page.get_by_role("status", name="Run")


def test_statements_run_one_at_the_cursor_the_selection_or_all(session: Session, warehouse: str, sent: list[Query]) -> None:
    page = session.go("/compute")
    page.get_by_role("link", name="SQL editor").click()
    expect(page).to_have_title("SQL editor - Brickyard")
    page, text = opened(session, warehouse)
    write(text, "-- Delays\nSELECT * FROM flights;\nCREATE TABLE made (a INT);\nSELECT ';'")
    steps = page.get_by_label("Results", exact=True).locator("> li")
    text.press("Control+Home")
    text.press("Control+Enter")  # in the comment above the first
    expect(run_of(page)).to_have_text("1 statement succeeded")
    expect(steps).to_have_count(1)
    grid = page.get_by_label("The result")
    expect(grid.locator("td")).to_have_text(["UA", "12", "9007199254740993", "B6", "null", "2", HOSTILE, "3", "9007199254740992"])
    grid.get_by_role("button", name=re.compile("^big")).click()
    grid.get_by_role("button", name=re.compile("^big")).click()
    expect(grid.locator("tbody tr").nth(0)).to_contain_text("9007199254740993")
    page.get_by_role("button", name="Chart", exact=True).click()
    expect(page.get_by_role("img", name=re.compile("^Bar chart by carrier, 3 points"))).to_be_visible()
    readable(page, fits=("html", "main"))
    page.set_viewport_size({"width": 1440, "height": 900})
    expect(page.get_by_role("tab", name="Delays")).to_be_visible()

    text.press("Control+Home")
    text.press("ArrowDown")
    text.press("ArrowDown")
    text.press("Shift+Control+End")
    text.press("Control+Enter")
    expect(run_of(page)).to_have_text("2 statements succeeded")
    text.press("Shift+Enter")
    expect(run_of(page)).to_have_text("3 statements succeeded")
    made = "CREATE TABLE made (a INT)"
    assert [each.text for each in sent] == [
        "SELECT * FROM flights",
        made,
        "SELECT ';'",
        "SELECT * FROM flights",
        made,
        "SELECT ';'",
    ]
    assert {(each.warehouse_id, each.row_limit) for each in sent} == {(warehouse, 1000)}
    steps.nth(1).locator("summary").click()
    expect(steps.nth(1)).to_contain_text("returns no rows")
    assert session.said == []


def test_it_stops_at_the_first_error_which_is_marked(session: Session, warehouse: str, sent: list[Query]) -> None:
    page, text = opened(session, warehouse)
    write(text, "SELECT 1;\n\nSELECT *\nFROM nothing_there;\nSELECT 3")
    text.press("Shift+Enter")
    expect(run_of(page)).to_have_text("Failed")
    steps = page.get_by_label("Results", exact=True).locator("> li")
    expect(steps.locator(".word")).to_have_text(["Succeeded", "Failed", "Not run"])
    expect(page.get_by_role("alert")).to_contain_text("TABLE_OR_VIEW_NOT_FOUND")
    expect(page.locator(".cm-mistake")).to_have_text("nothing_there")
    assert len(sent) == 2
    readable(page, fits=("html", "main"))
    page.get_by_role("button", name="Go to line 4").click()
    assert page.evaluate("String(getSelection())") == "nothing_there"
    page.keyboard.type("flights")  # the mistake is selected
    expect(page.locator(".cm-mistake")).to_have_count(0)
    text.press("Control+Enter")
    expect(run_of(page)).to_have_text("1 statement succeeded")
    assert sent[-1].text == "SELECT *\nFROM flights"
    assert session.said == []


def test_cancel_limits_and_parameters(session: Session, warehouse: str, sent: list[Query], w: WorkspaceClient) -> None:
    page, text = opened(session, warehouse)
    write(text, "SELECT 'wait'; SELECT 2")
    text.press("Shift+Enter")
    expect(run_of(page)).to_have_text("Running statement 1 of 2")
    readable(page, fits=("html", "main"))
    page.set_viewport_size({"width": 1440, "height": 900})
    page.get_by_role("link", name="Files", exact=True).click()  # it goes on
    page.get_by_role("link", name="SQL editor").click()
    page.get_by_role("button", name="Cancel").click()
    expect(run_of(page)).to_have_text("Canceled")
    assert [each.text for each in sent] == ["SELECT 'wait'"]
    assert str(w.statement_execution.get_statement(sent[0].statement_id).status.state.value) == "CANCELED"  # type: ignore[union-attr] # it has one

    write(text, "SELECT id FROM range(5000)")
    page.get_by_label("Row limit").select_option("100")
    text.press("Control+Enter")
    expect(page.get_by_text("100 rows", exact=True)).to_be_visible()
    expect(page.get_by_text("The row limit of 100 was reached.", exact=False)).to_be_visible()

    write(text, "SELECT :day, :n, :none -- :not\n; SELECT 5")
    fields = page.get_by_role("group", name="Parameters")
    expect(fields.get_by_role("textbox")).to_have_count(3)
    fields.get_by_label(":day", exact=True).fill("2026-01-31")
    fields.get_by_label(":n", exact=True).fill("7")
    fields.get_by_label("Type of :n", exact=True).select_option("INT")
    fields.get_by_label("Type of :none").select_option("DATE")
    page.mouse.move(0, 0)
    readable(page, fits=("html", "main"))
    text.press("Shift+Enter")
    expect(run_of(page)).to_have_text("2 statements succeeded")
    given = [(each.name, each.type, each.value) for each in sent[-2].parameters]
    assert given == [("day", "STRING", "2026-01-31"), ("n", "INT", "7"), ("none", "DATE", None)]
    assert list(sent[-1].parameters) == []
    assert session.said == []


def test_drafts_outlive_a_reload_and_keys_reach_all_of_it(session: Session, warehouse: str, sent: list[Query]) -> None:
    page, text = opened(session, warehouse)
    write(text, "-- First one\nSELECT 1")
    page.get_by_role("button", name="New tab").click()
    expect(page.get_by_role("tab")).to_have_text(["First one", "Query 2"])
    write(text, "SELECT :a")
    page.get_by_label(":a", exact=True).fill("kept")
    page.reload()
    expect(text).to_have_text("SELECT :a")
    expect(page.get_by_label(":a", exact=True)).to_have_value("kept")
    expect(page.get_by_label("Compute", exact=True)).to_have_value(warehouse)
    page.get_by_role("tab", name="Query 2").focus()
    page.keyboard.press("ArrowLeft")
    expect(text).to_have_text("-- First oneSELECT 1")
    text.focus()
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Run", exact=True)).to_be_focused()
    page.keyboard.press("Enter")
    expect(run_of(page)).to_have_text("1 statement succeeded")
    page.get_by_role("tab", name="Query 2").click()
    page.get_by_role("button", name="Close tab").click()
    page.get_by_role("button", name="Close the tab").click()
    expect(page.get_by_role("tab")).to_have_text(["First one"])
    other = session.open()
    other.goto(session.server.url + "/sql/editor")
    write(other.get_by_role("textbox", name="SQL", exact=True), "SELECT 'from there'")
    expect(text).to_have_text("SELECT 'from there'")
    assert session.said == []


def test_names_are_completed(session: Session, warehouse: str) -> None:
    answered(session.page)
    page, text = opened(session, warehouse)
    write(text, "SELECT 1;\nSELECT  FROM main.default.flights f; SELECT 2 FROM late")
    text.press("Control+Home")
    text.press("ArrowDown")
    for _ in range(7):
        text.press("ArrowRight")
    text.press_sequentially("f.")
    options = page.locator(".cm-tooltip-autocomplete li")
    expect(options.filter(has_text="carrier")).to_be_visible()
    text.press_sequentially("da")
    expect(options.first).to_have_text("daydate")
    text.press("Tab")
    expect(text).to_contain_text("SELECT f.day FROM main.default.flights")
    assert session.said == []


def test_a_stopped_warehouse_starts_with_the_first_statement(
    session: Session, w: WorkspaceClient, warehouse: str, spark: Spark, sent: list[Query]
) -> None:
    w.warehouses.stop(warehouse).result()
    page, text = opened(session, warehouse)
    expect(page.get_by_role("status").filter(has_text="STOPPED")).to_be_visible()
    write(text, "SELECT 'wait'")
    text.press("Control+Enter")
    expect(page.get_by_label("Results", exact=True)).to_contain_text("The statement runs once it is RUNNING.")
    readable(page, fits=("html", "main"))
    w.warehouses.start(warehouse).result()
    assert w.warehouses.get(warehouse).state is State.RUNNING
    spark.go.set()
    expect(run_of(page)).to_have_text("1 statement succeeded")
    expect(page.get_by_role("status").filter(has_text="STOPPED")).to_have_count(0)
    assert session.said == []


def test_from_the_history_and_back(session: Session, warehouse: str, sent: list[Query], w: WorkspaceClient) -> None:
    page, text = opened(session, warehouse)
    write(text, "SELECT 'wait for me'")
    text.press("Control+Enter")
    expect(run_of(page)).to_have_text("Running statement 1 of 1")
    page.get_by_role("link", name="My query history").click()
    me = str(w.current_user.me().user_name)
    expect(page.get_by_role("combobox", name="User", exact=True)).to_have_value(me)
    listed = page.locator("tbody tr").filter(has_text="wait for me")
    expect(listed).to_contain_text("RUNNING")
    listed.get_by_role("button").click()
    drawer = page.get_by_role("dialog", name="Statement")
    drawer.get_by_role("button", name="Cancel", exact=True).click()
    page.get_by_role("button", name="Cancel the statement").click()
    expect(drawer.locator(".word")).to_have_text("CANCELED")
    expect(drawer.get_by_role("button", name="Cancel", exact=True)).to_have_count(0)
    assert str(w.statement_execution.get_statement(sent[0].statement_id).status.state.value) == "CANCELED"  # type: ignore[union-attr] # it has one
    readable(page)
    page.set_viewport_size({"width": 1440, "height": 900})
    drawer.get_by_role("button", name="Open in the editor").click()
    expect(page.get_by_role("tab")).to_have_count(2)
    expect(text).to_have_text("SELECT 'wait for me'")
    expect(page.get_by_label("Compute", exact=True)).to_have_value(warehouse)
    assert len(sent) == 1  # it is opened, and not run
    assert session.said == []
