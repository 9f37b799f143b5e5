"""Permissions on a cluster that does not exist yet, in a real browser."""

from __future__ import annotations

from databricks.sdk import WorkspaceClient
from playwright.sync_api import expect

from tests.ui.axe import HOSTILE, violations_in_both_schemes
from tests.ui.conftest import Session
from tests.ui.editing import accepted, opened


def test_permissions_are_given_with_the_cluster_and_a_wrong_one_loses_nothing(session: Session, w: WorkspaceClient) -> None:
    guest = w.users.create(user_name="with-it@example.com")
    group = w.groups.create(display_name=HOSTILE)
    page = session.go("/compute/create")
    accepted(page)
    page.get_by_label("Name", exact=True).fill("shared from the start")
    part = opened(page, "Permissions")
    wanted = (
        ("user_name", "with-it@example.com", "CAN_RESTART"),
        ("group_name", HOSTILE, "CAN_MANAGE"),
        ("user_name", "no@one", ""),
    )
    for number, (kind, name, level) in enumerate(wanted, 1):
        part.get_by_role("button", name="Add a permission").click()
        part.get_by_label(f"Kind of permission {number}").select_option(kind)
        part.get_by_label(f"Who has permission {number}").fill(name)
        part.get_by_label(f"Level of permission {number}").select_option(level or "CAN_ATTACH_TO")
    assert violations_in_both_schemes(page) == []
    page.get_by_role("button", name="Create compute").click()
    expect(page.get_by_role("heading", name="shared from the start")).to_be_visible()
    expect(page.get_by_role("tab", name="Permissions")).to_have_attribute("aria-selected", "true")
    refused = page.get_by_role("status").filter(has_text="was created without this permission: CAN_ATTACH_TO for no@one")
    expect(refused).to_be_visible()
    rows = page.locator("tbody tr")
    expect(rows.filter(has_text="with-it@example.com").get_by_role("combobox")).to_have_value("CAN_RESTART")
    expect(rows.filter(has_text=HOSTILE).get_by_role("combobox")).to_have_value("CAN_MANAGE")
    assert page.title() == "shared from the start - Brickyard"
    w.clusters.permanent_delete(page.url.partition("/clusters/")[2].partition("?")[0])
    w.users.delete(str(guest.id))
    w.groups.delete(str(group.id))
