"""Many tabs of one browser: it has six connections to a server (HTTP/1.1), and calls need them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from databricks.sdk import WorkspaceClient
from playwright.sync_api import Browser, Locator, Page, expect

from brickyard.providers.simulated import SimulatedProvider
from tests.support.patience import PATIENCE_S, until
from tests.support.server import Server
from tests.ui.conftest import Session

TABS = 8
HIDE = """hidden => {
    Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
    Object.defineProperty(document, "visibilityState", { configurable: true, get: () => (hidden ? "hidden" : "visible") });
    document.dispatchEvent(new Event("visibilitychange"));
}"""


def row(page: Page, name: str) -> Locator:
    """The cluster's row in the list."""
    return page.locator("tbody tr").filter(has_text=name)


def streams(server: Server) -> int:
    """How many streams of changes this server sends."""
    assert server.application is not None
    return len(server.application.parts.services.changes._watchers)


@pytest.fixture
def cluster(w: WorkspaceClient) -> Iterator[str]:
    made = w.clusters.create(
        cluster_name="tabs", spark_version="17.3.x-scala2.13", node_type_id="i3.xlarge", num_workers=1
    ).result()
    yield str(made.cluster_id)
    w.clusters.permanent_delete(str(made.cluster_id))


@pytest.fixture
def session(chromium: Browser, server: Server) -> Iterator[Session]:
    context = chromium.new_context(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
    opened = Session(context, server)
    opened.log_in()
    yield opened
    context.close()
    until(lambda: streams(server) == 0)


def tabs(session: Session, path: str, count: int = TABS) -> list[Page]:
    pages = [session.page, *(session.open() for _ in range(count - 1))]
    for page in pages:
        page.goto(session.server.url + path)
    return pages


def answers(page: Page) -> int:
    """The status of a call that this tab makes now."""
    found = page.evaluate("fetch('/api/2.1/clusters/list-zones').then(answer => answer.status)")
    assert isinstance(found, int)
    return found


def test_eight_lists_share_one_stream(session: Session, server: Server, w: WorkspaceClient, cluster: str) -> None:
    pages = tabs(session, "/compute")
    for page in pages:
        expect(row(page, "tabs")).to_contain_text("RUNNING")
        assert answers(page) == 200
    until(lambda: streams(server) == 1)
    w.clusters.delete(cluster).result()
    for page in pages:
        expect(row(page, "tabs")).to_contain_text("TERMINATED")
        expect(page.get_by_text("The connection to the server is interrupted.")).to_have_count(0)
    pages.pop(0).close()  # the one that has led
    w.clusters.start(cluster).result()
    for page in pages:
        expect(row(page, "tabs")).to_contain_text("RUNNING")
    until(lambda: streams(server) == 1)
    assert session.said == []


def test_there_is_no_stream_while_nobody_looks(session: Session, server: Server, w: WorkspaceClient, cluster: str) -> None:
    pages = tabs(session, "/compute", 3)
    for page in pages:
        expect(row(page, "tabs")).to_contain_text("RUNNING")
    for page in session.context.pages:
        page.evaluate(HIDE, True)
    until(lambda: streams(server) == 0)
    w.clusters.delete(cluster).result()
    pages[1].evaluate(HIDE, False)
    expect(row(pages[1], "tabs")).to_contain_text("TERMINATED")
    until(lambda: streams(server) == 1)
    pages[2].evaluate(HIDE, False)
    expect(row(pages[2], "tabs")).to_contain_text("TERMINATED")
    assert streams(server) == 1
    assert session.said == []


def test_without_web_locks_each_visible_tab_has_its_own(session: Session, server: Server, cluster: str) -> None:
    """As on plain HTTP beyond this machine."""
    session.prepare("delete Navigator.prototype.locks")
    first, second = session.page, session.open()
    for page in (first, second):
        page.goto(f"{server.url}/compute")
        expect(row(page, "tabs")).to_contain_text("RUNNING")
    until(lambda: streams(server) == 2)
    second.evaluate(HIDE, True)
    until(lambda: streams(server) == 1)


@pytest.mark.extended  # as eight lists are
def test_eight_logs_are_followed_at_once(session: Session, machines: SimulatedProvider, w: WorkspaceClient, cluster: str) -> None:
    driver = str(getattr(w.clusters.get(cluster).driver, "instance_id", ""))
    pages = tabs(session, f"/compute/clusters/{cluster}?tab=logs")
    logs = [page.get_by_label("The log", exact=True) for page in pages]
    for log in logs:
        # Eight pages that load at once are slow where others use the processors, too.
        expect(log).to_contain_text("log4j-active.log of the simulated driver", timeout=PATIENCE_S * 1000)
    machines.logs.write(driver, "log4j-active.log", b"for all of them\n")
    for page, log in zip(pages, logs, strict=True):
        expect(log).to_contain_text("for all of them")
        assert answers(page) == 200
    pages[0].evaluate(HIDE, True)
    machines.logs.write(driver, "log4j-active.log", b"and while it was hidden\n")
    expect(logs[1]).to_contain_text("and while it was hidden")
    pages[0].evaluate(HIDE, False)
    expect(logs[0]).to_contain_text("and while it was hidden")
    assert session.said == []
