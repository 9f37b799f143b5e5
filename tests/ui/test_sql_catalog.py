"""The catalogue browser in a real browser. Tables are made by Spark alone, so here their API is answered by the test."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from databricks.sdk import WorkspaceClient
from playwright.sync_api import Page, Route, expect

from brickyard.features.statements.model import Query
from tests.support.server import Server
from tests.support.sqlstandin import Result, SqlStandIn
from tests.ui.axe import HOSTILE, readable
from tests.ui.conftest import Session

COMMON: dict[str, Any] = {"spark_version": "17.3.x-scala2.13", "node_type_id": "i3.xlarge", "num_workers": 1}
FLIGHTS: dict[str, Any] = {
    "name": "flights",
    "catalog_name": "main",
    "schema_name": "default",
    "full_name": "main.default.flights",
    "table_id": "t1",
    "table_type": "MANAGED",
    "data_source_format": "DELTA",
    "comment": f"All flights {HOSTILE}",
    "storage_location": "dbfs:/user/hive/warehouse/flights",
    "properties": {"delta.minReaderVersion": "3"},
    "created_at": 1_790_000_000_000,
    "updated_at": 1_790_000_000_000,
    "columns": [
        {"name": "carrier", "type_text": "string", "position": 0, "nullable": True, "comment": f"Code {HOSTILE}"},
        {"name": "day", "type_text": "date", "position": 1, "nullable": False, "partition_index": 0},
        {"name": "legs", "type_text": "array<struct<origin:string,destination:string>>", "position": 2, "nullable": True},
    ],
}
VIEW = FLIGHTS | {
    "name": "late",
    "full_name": "main.default.late",
    "table_type": "VIEW",
    "comment": "",
    "data_source_format": "",
    "view_definition": "SELECT * FROM flights WHERE delay > 0",
}


def answered(page: Page) -> None:
    """The tables of main.default are those of this module."""

    def tables(route: Route) -> None:
        listed = [{key: value for key, value in each.items() if key != "columns"} for each in (FLIGHTS, VIEW)]
        route.fulfill(json={"tables": listed})

    page.route("**/api/2.1/unity-catalog/tables?*", tables)
    page.route("**/api/2.1/unity-catalog/tables/main.default.flights", lambda route: route.fulfill(json=FLIGHTS))
    page.route("**/api/2.1/unity-catalog/tables/main.default.late", lambda route: route.fulfill(json=VIEW))


def computed(query: Query) -> Result | None:
    """What the stand-in answers: the statement that it was sent. That of the view runs until it is canceled."""
    return None if "late" in query.text else ({"statement": "STRING"}, [[query.text]])


@pytest.fixture(scope="module")
def cluster(w: WorkspaceClient) -> Iterator[str]:
    made = str(w.clusters.create(cluster_name="queries", **COMMON).result().cluster_id)
    yield made
    w.clusters.permanent_delete(made)


def test_from_the_catalogs_to_the_columns_of_a_table(session: Session) -> None:
    answered(session.page)
    page = session.go("/compute")
    page.get_by_role("link", name="Catalog", exact=True).click()
    expect(page).to_have_title("Catalog - Brickyard")
    page.get_by_role("link", name="main", exact=True).click()
    expect(page.get_by_role("link", name="default", exact=True)).to_be_visible()
    readable(page, fits=("html", "main"))
    page.get_by_role("link", name="default", exact=True).click()
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(2)
    page.keyboard.press("/")
    page.keyboard.type("fli")
    expect(rows).to_have_count(1)
    assert "q=fli" in page.url
    readable(page, fits=("html", "main"))
    page.get_by_role("link", name="flights", exact=True).click()
    expect(page).to_have_title("flights - Brickyard")
    expect(rows).to_have_count(3)
    expect(rows.nth(0)).to_contain_text(f"Code {HOSTILE}")
    expect(rows.nth(1).locator("td")).to_have_text(["day", "date", "no", "Partition column. "])
    readable(page, fits=("html", "main"))
    page.get_by_role("tab", name="Details").click()
    expect(page.get_by_role("tabpanel")).to_contain_text("delta.minReaderVersion")
    page.get_by_label("Breadcrumb").get_by_role("link", name="default").click()
    page.get_by_role("link", name="late", exact=True).click()
    page.get_by_role("tab", name="Details").click()
    expect(page.get_by_label("The view's definition")).to_have_text(VIEW["view_definition"])
    assert session.said == []


def test_rows_and_the_history_of_a_delta_table_are_read_by_statements(session: Session, cluster: str, server: Server) -> None:
    stand_in = SqlStandIn(server, computed)
    answered(session.page)
    page = session.go("/catalog?catalog=main&schema=default&table=flights&tab=sample")
    page.get_by_label("Compute", exact=True).select_option(cluster)
    page.get_by_role("button", name="Read rows").click()
    grid = page.get_by_label("The result")
    expect(grid.locator("td")).to_have_text(["SELECT * FROM main.default.flights LIMIT 100"])
    page.mouse.move(0, 0)
    readable(page, fits=("html", "main"))
    page.set_viewport_size({"width": 1440, "height": 900})
    page.get_by_role("tab", name="History").click()
    page.get_by_role("button", name="Read the history").click()
    expect(grid.locator("td")).to_have_text(["DESCRIBE HISTORY main.default.flights"])
    assert {each.cluster_id for each in stand_in.ran} == {cluster}
    page.goto(session.server.url + "/catalog?catalog=main&schema=default&table=late&tab=sample")
    expect(page.get_by_role("tab", name="History")).to_have_count(0)  # a view has none
    page.get_by_role("button", name="Read rows").click()
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_text("Canceled.")).to_be_visible()
    page.get_by_role("button", name="Open in the editor").click()
    text = page.get_by_role("textbox", name="SQL", exact=True)
    expect(text).to_have_text("SELECT * FROM main.default.late LIMIT 100")
    assert session.said == []


def test_without_compute_the_page_says_what_statements_need(session: Session) -> None:
    answered(session.page)
    session.page.route(re.compile(r"/api/2\.0/sql/warehouses(\?|$)"), lambda route: route.fulfill(json={"warehouses": []}))
    session.page.route(re.compile(r"/api/2\.\d/clusters/list(\?|$)"), lambda route: route.fulfill(json={"clusters": []}))
    page = session.go("/catalog?catalog=main&schema=default&table=flights&tab=history")
    expect(page.get_by_role("link", name="Create SQL warehouse")).to_be_visible()
    expect(page.get_by_role("button", name="Read the history")).to_have_count(0)
    readable(page, fits=("html", "main"))
    assert session.said == []
