"""The page of spend: what a week costs, by whom, and budgets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from databricks.sdk import WorkspaceClient
from playwright.sync_api import expect

from tests.ui.axe import readable
from tests.ui.conftest import Session

RUNTIME, TYPE = "17.3.x-scala2.13", "i3.xlarge"


@pytest.fixture(scope="module")
def spender(w: WorkspaceClient) -> Iterator[str]:
    """A running cluster with a tag."""
    made = w.clusters.create(
        cluster_name="spender", spark_version=RUNTIME, node_type_id=TYPE, num_workers=2, custom_tags={"team": "spend"}
    ).result()
    yield str(made.cluster_id)
    w.clusters.permanent_delete(str(made.cluster_id))


def test_what_a_week_costs_is_one_click_away(session: Session, spender: str) -> None:
    page = session.go("/compute")
    page.get_by_role("link", name="Spend", exact=True).click()
    expect(page.locator(".totals")).to_contain_text("$")
    expect(page.get_by_role("img", name="Spend by day")).to_be_visible()
    page.get_by_label("By", exact=True).select_option("cluster")
    row = page.locator("tbody tr").filter(has_text="spender")
    expect(row).to_contain_text("$0.94")  # three nodes at 0.312 an hour
    page.get_by_role("button", name="spender").click()
    expect(page.get_by_role("button", name="Remove the filter cluster")).to_contain_text("spender")
    assert f"cluster={spender}" in page.url
    page.go_back()
    with page.expect_download() as given:
        page.get_by_role("button", name="CSV").click()
    text = given.value.path().read_text()
    assert text.startswith("day,key,cluster_name,")
    assert session.said == []


def test_by_tag_and_a_budget(session: Session, spender: str) -> None:
    page = session.go("/spend?by=tag&key=team")
    page.get_by_role("button", name="spend", exact=True).click()
    expect(page.get_by_role("button", name="Remove the filter tag")).to_contain_text("team=spend")
    page.get_by_role("button", name="Add a budget").click()
    dialog = page.get_by_role("dialog", name="Add a budget")
    dialog.get_by_label("Name").fill("Team spend")
    dialog.get_by_label("Amount per month").fill("0.000001")
    expect(dialog.get_by_label("Tag")).to_have_value("team=spend")
    dialog.get_by_role("button", name="Add", exact=True).click()
    row = page.locator("tbody tr").filter(has_text="Team spend")
    expect(row).to_contain_text("Exceeded")
    readable(page, shown=row)
    page.set_viewport_size({"width": 1440, "height": 900})
    row.get_by_role("button", name="Edit Team spend").click()
    page.get_by_role("dialog", name="Budget Team spend").get_by_role("button", name="Delete").click()
    page.get_by_role("dialog", name="Delete Team spend?").get_by_role("button", name="Delete").click()
    expect(row).to_have_count(0)
    assert session.said == []
