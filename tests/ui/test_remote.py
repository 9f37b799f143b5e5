"""The web page in front of a workspace elsewhere: of Databricks, where our additions are missing, and of another Brickyard."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from databricks.sdk import WorkspaceClient
from databricks.sdk.service.compute import State
from playwright.sync_api import Browser, BrowserContext, Page, Route, expect

from tests.support.patience import until
from tests.support.remote import RemoteUi, StandIn, remote_ui, standing_in
from tests.support.server import TOKEN, Server
from tests.ui.axe import violations, violations_in_both_schemes
from tests.ui.conftest import WAIT_MS

COMMON: dict[str, Any] = {"spark_version": "17.3.x-scala2.13", "node_type_id": "i3.xlarge", "num_workers": 1}
OF_DATABRICKS = ["Configuration", "Notebooks", "Libraries", "Event log", "JDBC/ODBC", "Permissions"]


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text(TOKEN)
    return file


@pytest.fixture
def databricks(server: Server) -> Iterator[StandIn]:
    with standing_in(server.url) as found:
        yield found


@pytest.fixture
def cluster(w: WorkspaceClient) -> Iterator[str]:
    """A running cluster."""
    made = str(w.clusters.create(cluster_name="far away", **COMMON).result().cluster_id)
    yield made
    for each in w.clusters.list():
        w.clusters.permanent_delete(str(each.cluster_id))


class Window:
    """A browser that has followed the link. `said`: what its pages wrote to the console; `seen`: all that was sent to it."""

    def __init__(self, context: BrowserContext, ui: RemoteUi) -> None:
        self.ui = ui
        self.said: list[str] = []
        self.seen: list[str] = []
        self.page = context.new_page()
        self.page.set_default_timeout(WAIT_MS)
        self.page.on("console", lambda message: self.said.append(message.text) if message.type in ("error", "warning") else None)
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("response", lambda answer: self.seen.append(f"{answer.status} {answer.url} {answer.headers}"))
        self.page.goto(ui.link)

    def go(self, path: str) -> Page:
        self.page.goto(self.ui.url + path)
        return self.page


def tabs(page: Page) -> list[str]:
    return page.get_by_role("tablist").get_by_role("tab").all_inner_texts()


@contextlib.contextmanager
def opened(chromium: Browser, ui: RemoteUi) -> Iterator[Window]:
    """A window with the page, closed in the end."""
    context = chromium.new_context(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
    try:
        yield Window(context, ui)
    finally:
        context.close()


def test_a_workspace_of_databricks_is_used_with_what_it_has(
    chromium: Browser, databricks: StandIn, token_file: Path, w: WorkspaceClient, cluster: str
) -> None:
    pool = w.instance_pools.create(instance_pool_name="theirs", node_type_id="i3.xlarge").instance_pool_id
    with remote_ui(databricks.url, token_file) as ui, opened(chromium, ui) as window:
        page = window.page
        row = page.get_by_role("row").filter(has_text="far away")
        expect(row).to_contain_text("RUNNING")
        expect(page.get_by_text("Spend per hour")).to_have_count(0)
        w.clusters.delete(cluster)  # it is seen, although nothing tells the page
        expect(row).to_contain_text("TERMINATED")
        expect(page.get_by_text("The connection to the server is interrupted")).to_have_count(0)
        row.get_by_role("link").first.click()
        expect(page.get_by_role("heading", name="far away")).to_be_visible()
        assert tabs(page) == OF_DATABRICKS
        page.get_by_role("button", name="Start").click()
        expect(page.locator(".head .word")).to_have_text("RUNNING")
        page.get_by_role("tab", name="Notebooks").click()
        expect(page.get_by_role("region", name="Attached")).to_have_count(0)
        assert violations(page) == []

        page = window.go("/admin")
        expect(page.get_by_role("tab", name="Users")).to_be_visible()
        assert tabs(page) == ["Users", "Groups", "Service principals", "Tokens", "Notifications"]
        page = window.go(f"/compute/pools/{pool}")
        expect(page.get_by_role("heading", name="theirs")).to_be_visible()
        assert tabs(page) == ["Clusters", "Permissions"]
        page = window.go("/compute/policies/create")
        expect(page.get_by_label("Name")).to_be_visible()
        expect(page.get_by_text("Try it")).to_have_count(0)

        missing = [line for line in window.seen if re.match(r"[45]\d\d", line)]
        assert missing == []  # what is not there was not asked for
        assert window.said == []
        assert not [line for line in window.seen if TOKEN in line]
        assert TOKEN not in page.content()
    w.instance_pools.delete(str(pool))


def test_what_is_typed_is_only_done_when_it_is_saved(
    chromium: Browser, databricks: StandIn, token_file: Path, w: WorkspaceClient, cluster: str
) -> None:
    with remote_ui(databricks.url, token_file) as ui, opened(chromium, ui) as window:
        page = window.go("/compute/create")
        expect(page.get_by_text("This workspace checks the configuration when you save it.")).to_be_visible()
        expect(page.get_by_text("This server runs it with Spark's own engine.")).to_have_count(0)  # theirs has Photon
        page.get_by_label("Name", exact=True).fill("from here")
        before = {each.cluster_id for each in w.clusters.list()}
        page.get_by_role("button", name="Create compute").click()
        expect(page.get_by_role("heading", name="from here")).to_be_visible()
        assert len({each.cluster_id for each in w.clusters.list()} - before) == 1

        page = window.go(f"/compute/clusters/{cluster}/edit")
        page.get_by_label("Name", exact=True).fill("renamed")
        held: list[Route] = []
        page.route("**/clusters/get*", lambda route: held.append(route))  # noqa: PLW0108 - Playwright takes no built-in method
        w.clusters.edit(cluster, cluster_name="theirs", autotermination_minutes=99, **COMMON)  # somebody else was faster
        page.get_by_role("button", name="Save").click()
        page.unroute("**/clusters/get*")  # until now, or the page would have heard of it and merged it
        page.get_by_role("dialog").get_by_role("button", name=re.compile("Save|Confirm")).click()
        expect(page.get_by_text("Someone else saved this cluster first")).to_be_visible()
        for route in held:
            route.continue_()
        assert w.clusters.get(cluster).cluster_name == "theirs"

        untold = json.dumps({"cluster_id": cluster, "cluster_name": "theirs", "state": "RUNNING"}).encode()
        databricks.answers["/api/2.1/clusters/get"] = (200, {"content-type": "application/json"}, untold)
        page = window.go(f"/compute/clusters/{cluster}/edit")  # nothing is saved over what cannot be seen
        expect(page.get_by_text("does not return the full specification")).to_be_visible()
        expect(page.get_by_role("button", name="Save")).to_have_count(0)

        sent = [heard.body.decode() for heard in databricks.heard if heard.method == "POST"]
        assert not [body for body in sent if "validate_only" in body or "expected_spec" in body]


def test_everybody_can_read_it(chromium: Browser, databricks: StandIn, token_file: Path, cluster: str) -> None:
    tabs_of = ("", "?tab=notebooks", "?tab=libraries", "?tab=events", "?tab=permissions")
    places = (
        *(f"/compute{tab}" for tab in ("", "?tab=job", "?tab=pools", "?tab=policies", "?tab=sql", "/create")),
        *(f"/compute/clusters/{cluster}{tab}" for tab in (*tabs_of, "/edit")),
        *("/compute/pools/create", "/compute/policies/create", "/settings"),
        *(f"/admin{tab}" for tab in ("", "?tab=groups", "?tab=service-principals", "?tab=tokens")),
    )
    with remote_ui(databricks.url, token_file) as ui, opened(chromium, ui) as window:
        for place in places:
            page = window.go(place)
            expect(page.get_by_role("heading", level=1)).to_be_visible()
            expect(page.locator("[aria-busy=true]")).to_have_count(0)
            assert violations_in_both_schemes(page) == [], place
        assert [line for line in window.seen if re.match(r"[45]\d\d", line)] == []  # what is not there was not asked for
        assert window.said == []


def test_another_brickyard_has_everything(
    chromium: Browser, server: Server, token_file: Path, w: WorkspaceClient, cluster: str
) -> None:
    with remote_ui(server.url, token_file) as ui, opened(chromium, ui) as window:
        page = window.page
        expect(page.get_by_text("Spend per hour").first).to_be_visible()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))

        def told() -> bool:  # by the stream, which may open after the list is there
            w.clusters.pin(cluster)
            w.clusters.unpin(cluster)
            page.wait_for_timeout(100)
            return any("/api/2.1/clusters/get" in url for url in asked)

        until(told)
        page = window.go(f"/compute/clusters/{cluster}?tab=metrics")
        expect(page.get_by_role("heading", name="far away")).to_be_visible()
        assert len(tabs(page)) == 10
        page.get_by_role("tab", name="Driver logs").click()
        expect(page.get_by_role("tabpanel")).to_contain_text("of the simulated driver")
        page.get_by_role("tab", name="Spark UI").click()
        link = page.get_by_role("link", name="Open the Spark UI at")
        expect(link).to_have_attribute("href", re.compile(re.escape(server.url)))
        page.get_by_role("button", name="Stop").click()
        page.get_by_role("button", name="Stop the cluster").click()
        until(lambda: w.clusters.get(cluster).state is State.TERMINATED)
        expect(page.locator(".head .word")).to_have_text("TERMINATED")
        assert window.said == []

        page.get_by_role("button", name=re.compile("Signed in as")).click()
        expect(page.get_by_text(f"at {server.url}")).to_be_visible()
        page.get_by_role("menuitem", name="Log out").click()
        expect(page.get_by_text("You are logged out here")).to_be_visible()
        page = window.go("/compute")
        expect(page.get_by_text("Press Enter where")).to_be_visible()
