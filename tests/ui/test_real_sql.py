"""The SQL editor and a Delta table's history in a real browser, on real Spark."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.spark.layers import with_layers
from tests.support.patience import PATIENCE_S
from tests.support.runtimes import SPARK_4
from tests.support.server import Server
from tests.ui.conftest import Session

pytestmark = [pytest.mark.spark, pytest.mark.extended, pytest.mark.timeout(900)]

PATIENCE_MS = PATIENCE_S * 1000
SINGLE = {"spark.databricks.cluster.profile": "singleNode", "spark.master": "local[*]"}
SCRIPT = """CREATE TABLE trips USING delta AS SELECT 1 AS id;
INSERT INTO trips VALUES (2), (:third);
SELECT count(*) AS n, sum(id) AS total FROM trips;
SELECT *
FROM trips WHERE nowhere = 1;
SELECT 'never'"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One with the nodes of this machine."""
    with Server.running(tmp_path_factory.mktemp("live") / "workspace", connect_port=0) as running:
        yield running


def test_statements_wait_for_their_cluster_and_run_once_each(session: Session, server: Server) -> None:
    with_layers(SPARK_4)
    made = server.client().clusters.create(
        cluster_name="sql", spark_version=SPARK_4, node_type_id="brickyard.small", num_workers=0, spark_conf=SINGLE,
        custom_tags={"ResourceClass": "SingleNode"},
    )  # fmt: skip
    page = session.go("/sql/editor")
    page.get_by_label("Compute", exact=True).select_option(str(made.cluster_id))
    text = page.get_by_role("textbox", name="SQL", exact=True)
    text.fill(SCRIPT)
    page.get_by_label(":third", exact=True).fill("3")
    page.get_by_label("Type of :third").select_option("INT")
    text.press("Shift+Enter")
    steps = page.get_by_label("Results", exact=True).locator("> li")
    expect(steps.nth(0)).to_contain_text("The statement runs once it is RUNNING.")
    expect(page.get_by_role("status", name="Run")).to_have_text("Failed", timeout=PATIENCE_MS)
    states = ["Succeeded", "Succeeded", "Succeeded", "Failed", "Not run"]
    expect(steps.locator("summary > .word")).to_have_text(states)
    expect(page.locator(".cm-mistake")).to_have_text("nowhere")
    expect(page.get_by_role("button", name="Go to line 5")).to_be_visible()
    steps.nth(2).locator("summary").click()
    expect(steps.nth(2).locator("td")).to_have_text(["3", "6"])  # with a row limit, too, an INSERT is done once
    page.goto(f"{server.url}/catalog?catalog=main&schema=default&table=trips&tab=history")
    page.get_by_role("button", name="Read the history").click()
    rows = page.get_by_label("The result").locator("tbody tr")
    expect(rows).to_have_count(2, timeout=PATIENCE_MS)
    expect(rows.nth(0)).to_contain_text("WRITE")
    page.get_by_role("tab", name="Sample data").click()
    page.get_by_role("button", name="Read rows").click()
    expect(rows).to_have_count(3, timeout=PATIENCE_MS)
    assert session.said == []
