"""How SQL clients connect: the tab JDBC/ODBC of a cluster's page in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from databricks.sdk import WorkspaceClient
from playwright.sync_api import Page, Route, expect

from tests.support.server import TOKEN
from tests.ui.axe import readable
from tests.ui.conftest import Session

COMMON: dict[str, Any] = {"spark_version": "17.3.x-scala2.13", "node_type_id": "i3.xlarge", "num_workers": 1}


@pytest.fixture(scope="module")
def cluster(w: WorkspaceClient) -> Iterator[str]:
    made = str(w.clusters.create(cluster_name="connected", **COMMON).result().cluster_id)
    yield made
    w.clusters.permanent_delete(made)


def details(page: Page) -> dict[str, str]:
    shown = page.get_by_label("Connection details", exact=True)
    expect(shown).to_be_visible()
    return dict(zip(shown.locator("dt").all_inner_texts(), shown.locator("dd .mono").all_inner_texts(), strict=True))


def lines(page: Page, client: str) -> str:
    page.get_by_role("radiogroup", name="Client").get_by_text(client, exact=True).click()
    return page.get_by_label(f"Lines for {client}").inner_text()


def test_the_address_is_that_of_the_page(session: Session, w: WorkspaceClient, cluster: str) -> None:
    page = session.go(f"/compute/clusters/{cluster}?tab=jdbc")
    path = f"/sql/protocolv1/o/{w.get_workspace_id()}/{cluster}"
    url = urlsplit(session.server.url)
    assert details(page) == {
        "Server hostname": url.hostname,
        "Port": str(url.port),
        "Protocol": "HTTP",
        "HTTP path": path,
        "JDBC URL": f"jdbc:databricks://{url.netloc}/default;transportMode=http;ssl=0;AuthMech=3;httpPath={path};",
    }
    program = compile(lines(page, "Python"), "copied", "exec")
    assert session.server.url + path in program.co_consts
    profile = yaml.safe_load(lines(page, "dbt"))["brickyard"]["outputs"]["dev"]
    assert profile["http_path"] == path
    assert profile["connection_parameters"] == {"_connection_uri": session.server.url + path}
    assert "ssl=0" in lines(page, "JDBC") and "ssl=0" in lines(page, "DBeaver")
    page.get_by_role("radiogroup", name="Client").get_by_text("Power BI", exact=True).click()
    expect(page.get_by_label("Lines for Power BI")).to_have_count(0)
    expect(page.get_by_label("Clients", exact=True)).to_contain_text("--tls")
    assert TOKEN not in page.content()
    readable(page, fits=("html", "main"))
    assert session.said == []


def test_an_external_url_is_what_clients_get(session: Session, cluster: str) -> None:
    def answer(route: Route) -> None:
        route.fulfill(json=route.fetch().json() | {"external_url": "https://data.example.com"})

    session.page.route("**/login/session", answer)
    page = session.go(f"/compute/clusters/{cluster}?tab=jdbc")
    shown = details(page)
    assert (shown["Server hostname"], shown["Port"], shown["Protocol"]) == ("data.example.com", "443", "HTTPS")
    assert "ssl=1" in shown["JDBC URL"]
    assert "_connection_uri" not in lines(page, "Python") and "connection_parameters" not in lines(page, "dbt")
    assert shown["HTTP path"] in lines(page, "Power BI")
