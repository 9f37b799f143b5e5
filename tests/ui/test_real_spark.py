"""The whole way of one cluster in a real browser, on real Spark: create, watch, run code, read logs, see metrics, terminate."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.support.patience import PATIENCE_S
from tests.support.server import Server
from tests.ui.conftest import Session

# The page's other tests have the same server with simulated nodes, and tests/spark/ the same calls on real ones.
pytestmark = [pytest.mark.spark, pytest.mark.extended, pytest.mark.timeout(900)]

PATIENCE_MS = PATIENCE_S * 1000  # a busy machine starts Spark slowly
PROGRAM = """import sys
print("on stderr, from the browser", file=sys.stderr)
spark.sparkContext._jvm.org.slf4j.LoggerFactory.getLogger("page").error("logged from the browser")
print("sum", spark.range(1000).selectExpr("sum(id)").first()[0])"""
SLOW = """print("this comes first")
spark.sql("select sum(hash(sha2(cast(id as string), 256))) from range(1000000000000)").collect()"""
QUERY = "SELECT id, concat('<b>', id, '</b>') AS marked FROM range(3) ORDER BY id"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One with the nodes of this machine."""
    with Server.running(tmp_path_factory.mktemp("live") / "workspace", connect_port=0) as running:
        yield running


def choose(page: Page, label: str, option: re.Pattern[str]) -> None:
    page.get_by_label(label, exact=True).first.click()
    page.get_by_role("option", name=option).first.click()


def test_a_cluster_lives_from_the_editor_to_its_end(session: Session, server: Server) -> None:
    page = session.go("/compute/create")
    page.get_by_label("Name", exact=True).fill("by hand")
    choose(page, "Runtime version", re.compile("17.3 LTS"))
    choose(page, "Worker type", re.compile(r"^brickyard\.small "))
    page.get_by_label("Workers", exact=True).fill("1")
    expect(page.get_by_text("The configuration is valid.")).to_be_visible()
    page.get_by_role("button", name="Create compute").click()

    expect(page.get_by_role("heading", name="by hand", level=1)).to_be_visible()
    state, steps = page.locator(".head .word"), page.get_by_label("Start: its phases")
    expect(state).to_have_text("PENDING")
    expect(steps.locator("[aria-current=step]")).to_contain_text("Start Spark", timeout=PATIENCE_MS)
    expect(steps.get_by_role("listitem").filter(has_text="Acquire instances")).to_contain_text("done")
    expect(state).to_have_text("RUNNING", timeout=PATIENCE_MS)
    expect(steps).to_have_count(0)

    page.get_by_role("tab", name="Notebooks").click()
    cells = page.get_by_label("Cells", exact=True).locator("> li")
    code, second = page.get_by_label("Code", exact=True), page.get_by_label("Code 2", exact=True)
    code.fill(PROGRAM)
    code.press("Shift+Enter")
    expect(cells.nth(0)).to_contain_text("sum 499500", timeout=PATIENCE_MS)
    page.get_by_label("Language of cell 2").select_option("sql")
    second.fill(QUERY)
    second.press("Shift+Enter")
    grid = page.get_by_label("The result")
    expect(grid.locator("th").nth(0)).to_contain_text("id long", timeout=PATIENCE_MS)
    expect(grid.locator("tbody tr")).to_have_count(3)
    expect(grid.locator("tbody tr").nth(2)).to_contain_text("<b>2</b>")
    cells.nth(1).get_by_role("button", name="Chart").click()
    expect(cells.nth(1).get_by_role("img", name=re.compile("^Bar chart by marked, 3 points: id from 0 to 2$"))).to_be_visible()
    cells.nth(1).get_by_role("button", name="Table").click()
    page.get_by_label("Language of cell 3").select_option("python")
    page.get_by_label("Code 3", exact=True).fill(SLOW)
    page.get_by_label("Code 3", exact=True).press("Control+Enter")
    expect(cells.nth(2).get_by_role("progressbar").first).to_be_visible(timeout=PATIENCE_MS)
    expect(cells.nth(2)).to_contain_text("this comes first")
    page.reload()  # what ran is kept, and what runs is followed again
    expect(grid.locator("tbody tr")).to_have_count(3)
    expect(cells.nth(2).get_by_role("progressbar").first).to_be_visible(timeout=PATIENCE_MS)
    cells.nth(2).get_by_role("button", name="Cancel").click()
    expect(cells.nth(2).get_by_role("status")).to_have_text("Cancelled", timeout=PATIENCE_MS)
    expect(page.get_by_label("Attached", exact=True)).to_contain_text("Context")

    page.get_by_role("tab", name="Driver logs").click()
    page.get_by_label("Search the log").fill("logged from the browser")
    expect(page.get_by_text("of 1 line", exact=False)).to_be_visible(timeout=PATIENCE_MS)
    page.get_by_role("button", name="Next match").click()
    expect(page.get_by_label("The log", exact=True).locator(".line.current .hit")).to_have_text("logged from the browser")

    page.get_by_role("tab", name="Spark UI").click()
    spark_ui = page.frame_locator("iframe")
    expect(spark_ui.get_by_text("Completed Jobs").first).to_be_visible(timeout=PATIENCE_MS)
    spark_ui.get_by_role("link", name="Executors").click()
    expect(spark_ui.locator("#active-executors-table")).to_contain_text("driver", timeout=PATIENCE_MS)
    expect(spark_ui.get_by_text("Loading Executors Page")).to_be_hidden()

    page.get_by_role("tab", name="Metrics").click()
    expect(page.get_by_role("img", name=re.compile("^CPU in cores: .*used last"))).to_be_visible(timeout=PATIENCE_MS)
    expect(page.get_by_role("img", name=re.compile("^Memory"))).to_be_visible()
    expect(page.get_by_text("The simulated provider makes up")).to_have_count(0)

    page.get_by_role("tab", name="Event log").click()
    expect(page.locator(".events > li").filter(has_text="RUNNING").first).to_be_visible()
    page.get_by_role("button", name="Stop", exact=True).click()
    page.get_by_role("button", name="Stop the cluster").click()
    expect(state).to_have_text("TERMINATED", timeout=PATIENCE_MS)
    expect(page.locator(".events > li").filter(has_text="TERMINATING").first).to_be_visible()

    page.get_by_role("tab", name="Spark UI").click()  # what it has left, by a history server
    expect(spark_ui.get_by_text("Completed Jobs").first).to_be_visible(timeout=PATIENCE_MS)
    page.get_by_role("tab", name="Metrics").click()
    expect(page.get_by_role("img", name=re.compile("^CPU in cores"))).to_be_visible(timeout=PATIENCE_MS)
    expect(page.get_by_role("img", name=re.compile("^Memory"))).to_be_visible()
    assert session.said == []
