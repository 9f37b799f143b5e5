"""SQL warehouses in a real browser: the list, the form, a warehouse's page, and the query history."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from databricks.sdk import WorkspaceClient
from databricks.sdk.service.sql import State
from msgspec.structs import replace
from playwright.sync_api import expect

from brickyard.features.queries.model import QueryRow
from brickyard.features.queries.rows import QueryRows
from brickyard.features.warehouses.rules import SIZES
from brickyard.store.tx import Tx
from tests.support.server import Server
from tests.ui.axe import HOSTILE, Look, readable
from tests.ui.conftest import Session

WIDTHS: tuple[Look, ...] = (("light", 1440), ("dark", 1440), ("dark", 900), ("light", 390))
SQL = f"SELECT count(*) AS n -- {HOSTILE}\nFROM main.default.flights"
PAGE_SIZE = 50  # of the history


@pytest.fixture(scope="module")
def warehouse(w: WorkspaceClient) -> Iterator[str]:
    made = str(w.warehouses.create(name=f"reports {HOSTILE}", cluster_size="2X-Small", auto_stop_mins=20).result().id)
    yield made
    w.warehouses.delete(made)


@pytest.fixture(scope="module")
def history(server: Server, w: WorkspaceClient, warehouse: str) -> list[str]:
    """Statements as the gateway reports them: a page of ended ones, one that failed, and one that runs. Newest last."""
    me, now = w.current_user.me(), int(time.time() * 1000)
    ids = [f"00000000-0000-4000-8000-{number:012}" for number in range(PAGE_SIZE + 2)]
    common: dict[str, Any] = {"user_name": str(me.user_name), "user_id": str(me.id), "cluster_id": warehouse}
    common |= {"warehouse_id": warehouse, "session_id": "s1", "source": "THRIFT", "client_application": "harlequin"}
    common |= {"beat_ms": now + 3_600_000}  # the server that runs them speaks

    def work(tx: Tx) -> None:
        tx.rows(QueryRows).forget(now + 1)  # those of other tests on this server are newer
        for number, query_id in enumerate(ids):
            began = now - 600_000 + number * 1000
            row = QueryRow(query_id=query_id, text=SQL, started_ms=began, **common)
            if number < PAGE_SIZE:
                row = replace(row, text=f"SELECT {number}", status="FINISHED", ended_ms=began + 70, rows_produced=7)
            elif number == PAGE_SIZE:
                row = replace(row, status="FAILED", ended_ms=began + 90_000, error=f"[TABLE_OR_VIEW_NOT_FOUND] {HOSTILE}")
                row = replace(row, sql_state="42P01")
            tx.rows(QueryRows).put(row)

    server.store.write_sync(work)
    return ids


def test_sizes_are_those_of_the_server() -> None:
    source = (Path(__file__).parents[2] / "ui" / "src" / "warehouses" / "draft.ts").read_text()
    block = source.split("export const SIZES = {")[1].split("}")[0]
    assert {name: int(workers) for name, workers in re.findall(r'^\s*"?([\w-]+)"?: (\d+),', block, re.M)} == SIZES


def test_from_nothing_to_a_warehouse_and_back(session: Session, w: WorkspaceClient) -> None:
    page = session.go("/compute")
    page.get_by_role("tab", name="SQL warehouses").click()
    page.get_by_role("link", name="Create SQL warehouse").first.click()
    summary = page.get_by_role("complementary", name="Summary")
    expect(summary).to_contain_text("A driver and 1 worker")
    page.get_by_label("Size").select_option("Small")
    expect(summary).to_contain_text("A driver and 4 workers")
    expect(summary).to_contain_text("$")
    readable(page, fits=("html", "main"), looks=WIDTHS)
    page.set_viewport_size({"width": 1440, "height": 900})
    page.get_by_label("Name", exact=True).fill("etl")
    page.get_by_label("Auto stop after").fill("3")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_text("auto_stop_mins")).to_be_visible()  # beside its field, in the server's words
    page.get_by_label("Auto stop after").fill("15")
    page.get_by_role("button", name="Add a tag").click()
    page.get_by_label("Key 1").fill("team")
    page.get_by_label("Value 1").fill("data")
    page.keyboard.press("Control+Enter")
    expect(page).to_have_url(re.compile(r"/compute/warehouses/[\w-]+$"))
    [made] = [each for each in w.warehouses.list() if each.name == "etl"]
    assert (made.cluster_size, made.auto_stop_mins) == ("Small", 15)
    head = page.locator("header.head")
    expect(head.locator(".word")).to_have_text("RUNNING")
    page.get_by_role("button", name="Edit").click()
    page.get_by_label("Auto stop after").fill("0")
    page.get_by_role("button", name="Save").click()
    expect(head).to_contain_text("never")
    page.get_by_role("button", name="Stop", exact=True).click()
    page.get_by_role("button", name="Stop the warehouse").click()
    expect(head.locator(".word")).to_have_text("STOPPED")
    page.get_by_role("button", name="Delete", exact=True).click()
    page.get_by_role("button", name="Delete the warehouse").click()
    expect(page).to_have_url(re.compile(r"/compute\?tab=sql"))
    assert "etl" not in [each.name for each in w.warehouses.list()]
    assert [each for each in session.said if "status of 400" not in each] == []  # the mistake was refused


def test_the_list_acts_and_its_clusters_are_not_among_the_others(session: Session, w: WorkspaceClient, warehouse: str) -> None:
    page = session.go("/compute?tab=sql")
    listed = page.get_by_role("row").filter(has_text=warehouse)
    expect(listed).to_contain_text(f"reports {HOSTILE}")
    expect(listed).to_contain_text("2X-Small")
    expect(listed).to_contain_text("20 min")
    expect(listed).to_contain_text("admin@brickyard.local")
    readable(page, fits=("html", "main"), looks=WIDTHS)
    page.set_viewport_size({"width": 1440, "height": 900})
    page.keyboard.press("/")
    page.keyboard.type("nothing like it")
    expect(page.get_by_text("No SQL warehouses match.")).to_be_visible()
    page.get_by_role("button", name="Clear the search").first.click()
    listed.get_by_label("Actions on").click()
    page.get_by_role("menuitem", name="Stop").click()
    page.get_by_role("button", name="Stop the warehouse").click()
    expect(listed.locator(".word").first).to_have_text("STOPPED")
    listed.get_by_label("Actions on").click()
    page.get_by_role("menuitem", name="Start").click()
    expect(listed.locator(".word").first).to_have_text("RUNNING")
    assert w.warehouses.get(warehouse).state is State.RUNNING
    page.get_by_role("tab", name="All-purpose").click()
    expect(page.get_by_role("row").filter(has_text=warehouse)).to_have_count(0)
    assert session.said == []
    page.goto(f"{session.server.url}/compute/clusters/{warehouse}")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    for refused in ("Edit", "Stop", "Restart"):
        expect(page.get_by_role("button", name=refused, exact=True)).to_have_count(0)
    page.get_by_role("tab", name="Permissions").click()
    expect(page.get_by_role("tabpanel")).to_contain_text("IS_OWNER")
    assert session.said == []


@pytest.mark.parametrize("tab", ["overview", "connection", "monitoring", "permissions"])
def test_the_page_of_a_warehouse(session: Session, warehouse: str, history: list[str], tab: str) -> None:
    page = session.go(f"/compute/warehouses/{warehouse}" + ("" if tab == "overview" else f"?tab={tab}"))
    panel = page.get_by_role("tabpanel")
    shown = {
        "overview": "i3.xlarge",
        "connection": f"/sql/1.0/warehouses/{warehouse}",
        "monitoring": "RUNNING",
        "permissions": "IS_OWNER",
    }
    expect(panel).to_contain_text(shown[tab])
    readable(page, fits=("html", "main"), looks=WIDTHS)
    assert session.said == []


def test_the_query_history(session: Session, warehouse: str, history: list[str]) -> None:
    page = session.go("/compute")
    page.get_by_role("link", name="Query history").click()
    rows = page.locator("tbody tr")
    expect(rows.nth(0)).to_contain_text("RUNNING")
    expect(rows.nth(1)).to_contain_text("FAILED")
    expect(rows.nth(1)).to_contain_text("1 m 30 s")
    expect(rows.nth(2)).to_contain_text("70 ms")
    expect(rows).to_have_count(PAGE_SIZE)
    readable(page, fits=("html", "main"), looks=WIDTHS)
    page.set_viewport_size({"width": 1440, "height": 900})
    rows.last.scroll_into_view_if_needed()  # older ones are read when the end comes into sight
    expect(rows).to_have_count(len(history))
    page.get_by_role("combobox", name="State", exact=True).select_option("FAILED")
    expect(rows).to_have_count(1)
    assert "state=FAILED" in page.url
    rows.nth(0).get_by_role("button").click()
    drawer = page.get_by_role("dialog", name="Statement")
    expect(drawer.get_by_label("The statement", exact=True)).to_have_text(SQL)
    for said in ("42P01", "harlequin", "JDBC/ODBC", history[PAGE_SIZE], f"reports {HOSTILE}", "TABLE_OR_VIEW_NOT_FOUND"):
        expect(drawer).to_contain_text(said)
    readable(page, looks=WIDTHS)
    page.keyboard.press("Escape")
    expect(drawer).to_have_count(0)
    page.set_viewport_size({"width": 1440, "height": 900})
    page.get_by_role("combobox", name="User", exact=True).fill("nobody@example.com")
    page.keyboard.press("Enter")
    expect(page.get_by_text("No statements match.")).to_be_visible()
    page.get_by_role("button", name="Clear the filters").click()
    page.get_by_role("combobox", name="Compute", exact=True).select_option(warehouse)
    expect(rows).to_have_count(PAGE_SIZE)
    assert session.said == []


def test_a_statement_is_opened_by_its_address(session: Session, history: list[str]) -> None:
    page = session.go(f"/sql/history?statement={history[0]}")
    drawer = page.get_by_role("dialog", name="Statement")
    expect(drawer.get_by_label("The statement", exact=True)).to_have_text("SELECT 0")
    page.goto(f"{session.server.url}/sql/history?statement=00000000-0000-4000-8000-ffffffffffff")
    expect(drawer).to_contain_text("no longer has this statement")
    assert session.said == []
