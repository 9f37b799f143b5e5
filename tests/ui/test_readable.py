"""Pages, dialogs and states that no other test reads: in both schemes, and at each width, axe finds nothing, nothing scrolls
sideways, and the console stays empty."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from databricks.sdk import WorkspaceClient
from databricks.sdk.service.compute import State
from playwright.sync_api import Browser, Page, expect

from brickyard.providers.base import TransientError
from brickyard.providers.fleet import Providers
from brickyard.providers.nodetypes import cloud_types
from brickyard.providers.simulated import SimulatedProvider
from tests.support.patience import until
from tests.support.server import Server
from tests.ui.axe import HOSTILE
from tests.ui.axe import readable as everywhere
from tests.ui.conftest import Session
from tests.ui.editing import accepted, made_of

COMMON: dict[str, Any] = {"spark_version": "17.3.x-scala2.13", "num_workers": 1}
readable = partial(everywhere, fits=("html", "main"), looks=(("light", 1440), ("dark", 1440), ("dark", 1024), ("light", 390)))


@pytest.fixture(scope="module")
def made(w: WorkspaceClient, machines: SimulatedProvider) -> Iterator[dict[str, str]]:
    """Those of the editor's tests, a cluster that waits for its instances, and one that has failed: by name, their ids."""
    for ids in made_of(w):
        machines.knobs.full_types = frozenset({"r5.large"})
        failed = str(w.clusters.create(cluster_name=f"failed {HOSTILE}", node_type_id="r5.large", **COMMON).cluster_id)
        until(lambda: w.clusters.get(failed).state is State.TERMINATED, "a start fails")  # noqa: B023 - once
        machines.knobs.full_types = frozenset()
        machines.knobs.register_s, machines.knobs.waits_for = 3600, f"waiting for {HOSTILE}"
        waits = str(w.clusters.create(cluster_name="waits", node_type_id="r5.large", **COMMON).cluster_id)
        yield ids | {"failed": failed, "waits": waits}
        machines.knobs.register_s, machines.knobs.waits_for = 0, ""


@pytest.mark.parametrize(
    "path",
    [
        "/compute?tab=job",
        "/compute/clusters/{failed}",
        "/compute/clusters/{waits}",
        "/compute/clusters/{hostile}?tab=metrics",
        "/compute/clusters/{hostile}?tab=logs",
        "/compute/clusters/{hostile}?tab=notebooks",
        "/compute/clusters/0101-000000-nowhere0",
        "/compute/clusters/{edited}/edit",
        "/compute/create?policy={policy}",
        "/compute/pools/{pool}?tab=clusters",
        "/compute/policies/create",
        "/compute/policies/{policy}?tab=json",
        "/compute/policies/{policy}?tab=permissions",
        "/admin?tab=audit",
        "/admin?tab=machine",
    ],
)
def test_a_page(session: Session, made: dict[str, str], path: str) -> None:
    page = session.go(path.format(**made))
    expect(page.get_by_role("heading").first).to_be_visible()
    expect(page.locator("[aria-busy=true]")).to_have_count(0)
    if path.endswith(("/edit", "{policy}")) and "policies" not in path:
        expect(page.get_by_role("complementary", name="Summary")).to_contain_text("per hour")
    readable(page)
    assert [each for each in session.said if "nowhere0" not in path] == []


def stop(page: Page) -> None:
    page.get_by_role("button", name="Stop", exact=True).click()


def delete(page: Page) -> None:
    page.get_by_label("More actions on edited").click()
    page.get_by_role("menuitem", name="Delete").click()


def review(page: Page) -> None:
    page.get_by_label("Terminate after").fill("30")
    page.get_by_label("Workers", exact=True).fill("3")
    accepted(page)
    page.get_by_role("button", name="Review and save").click()


DIALOGS: dict[str, tuple[str, Callable[[Page], None]]] = {
    "stop": ("/compute/clusters/{edited}", stop),
    "delete": ("/compute/clusters/{edited}", delete),
    "review": ("/compute/clusters/{edited}/edit", review),
    "keys": ("/compute", lambda page: page.keyboard.press("?")),
    "add a user": ("/admin", lambda page: page.get_by_role("button", name="Add a user").click()),
    "add a group": ("/admin?tab=groups", lambda page: page.get_by_role("button", name="Add a group").click()),
    "a token": ("/admin?tab=tokens", lambda page: page.get_by_role("button", name="Create a token").click()),
    "a user": ("/admin", lambda page: page.get_by_role("button", name="admin@brickyard.local", exact=True).click()),
    "a group": ("/admin?tab=groups", lambda page: page.get_by_role("button", name="admins", exact=True).click()),
}


@pytest.mark.parametrize("name", DIALOGS)
def test_a_dialog(session: Session, made: dict[str, str], name: str) -> None:
    path, act = DIALOGS[name]
    page = session.go(path.format(**made))
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    act(page)
    expect(page.get_by_role("dialog")).to_be_visible()
    readable(page)
    assert session.said == []


def test_where_one_logs_in(chromium: Browser, server: Server, w: WorkspaceClient) -> None:
    context = chromium.new_context(reduced_motion="reduce")
    session = Session(context, server)
    page = session.go("/login?next=/compute")
    expect(page.get_by_label("Access token")).to_be_focused()
    readable(page)
    page.get_by_label("Access token").fill("wrong")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_contain_text("This token is not known to the workspace")
    readable(page)
    session.log_in()
    page = session.go("/compute")
    page.get_by_role("button", name="Signed in as").click()
    page.get_by_role("menuitem", name="Log out").click()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    page = session.go("/login/link?code=nothing")
    readable(page)
    context.close()


class Other(SimulatedProvider):
    """A second provider in the same workspace. While `away`, it cannot be asked."""

    name = "ray"
    away = False

    def observe(self) -> Any:
        if self.away:
            raise TransientError("the engine at ray.example:6379 does not answer")
        return super().observe()


def test_nodes_of_two_providers(chromium: Browser, tmp_path: Any) -> None:
    types = cloud_types()
    first, other = SimulatedProvider(node_types=types[:12]), Other(node_types=types[8:])
    with Server.running(tmp_path, instances=Providers(first, other)) as server:
        w = server.client()
        hidden = types[8].node_type_id
        for name, node_type in (("here", types[0]), ("there", types[-1])):
            w.clusters.create(cluster_name=name, node_type_id=node_type.node_type_id, **COMMON).result()
        context = chromium.new_context(reduced_motion="reduce", viewport={"width": 1440, "height": 900})
        session = Session(context, server)
        session.log_in()
        page = session.go("/admin?tab=machine")
        expect(page.get_by_role("heading", name="Provider simulated")).to_be_visible()
        expect(page.get_by_role("heading", name="Provider ray")).to_be_visible()
        expect(page.get_by_text("2 providers, 1 server, 4 nodes.")).to_be_visible()
        expect(
            page.get_by_text("of this provider are hidden, because a provider listed before it offers them too")
        ).to_contain_text(f"{hidden} (simulated)")
        expect(page.locator("tbody tr").filter(has_text="there").first).to_contain_text("provider ray")
        readable(page)
        other.away = True
        expect(page.get_by_role("alert").filter(has_text="Provider ray does not answer")).to_contain_text("ray.example:6379")
        readable(page)
        other.away = False
        expect(page.get_by_role("alert")).to_have_count(0)
        assert session.said == []
        context.close()
