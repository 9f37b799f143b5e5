"""The administrators' pages, and what everybody has of them: their own tokens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from databricks.sdk import WorkspaceClient
from databricks.sdk.service.iam import ComplexValue, Patch, PatchOp, PatchSchema, User
from playwright.sync_api import Browser, Page, Route, expect

from tests.support.server import Server
from tests.ui.axe import HOSTILE, readable
from tests.ui.conftest import Session


@pytest.fixture(scope="module")
def people(w: WorkspaceClient) -> Iterator[dict[str, User]]:
    """A group, two users in it, one of whom has a name that would like to be markup, and a service principal."""
    group = w.groups.create(display_name="data")
    made = {
        name: w.users.create(user_name=f"{name}@example.com", display_name=shown, groups=[ComplexValue(value=group.id)])
        for name, shown in (("ada", "Ada"), ("eve", HOSTILE))
    }
    program = w.service_principals.create(display_name=HOSTILE)
    yield made
    for user in made.values():
        w.users.delete(str(user.id))
    w.service_principals.delete(str(program.id))
    w.groups.delete(str(group.id))


@pytest.fixture
def other(chromium: Browser, server: Server) -> Iterator[Session]:
    """A second browser, not logged in."""
    context = chromium.new_context(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
    yield Session(context, server)
    context.close()


def row(page: Page, name: str) -> Any:
    return page.locator("tbody tr").filter(has_text=name)


def test_giving_a_colleague_access_is_one_dialog(
    session: Session, other: Session, w: WorkspaceClient, people: dict[str, User]
) -> None:
    page = session.go("/admin")
    page.get_by_role("button", name="Add a user").click()
    page.get_by_label("User name").fill("newcomer@example.com")
    page.get_by_label("Display name").fill("New Comer")
    page.get_by_role("combobox", name="Groups").click()
    page.get_by_role("option", name="data").click()
    page.keyboard.press("Escape")
    page.get_by_label("Create clusters").check()
    page.get_by_role("button", name="Add", exact=True).click()
    dialog = page.get_by_role("dialog", name="newcomer@example.com was added")
    expect(dialog).to_contain_text("It is shown only once")
    token = dialog.locator("code").inner_text()
    dialog.get_by_role("button", name="Done").click()
    expect(row(page, "newcomer@example.com")).to_contain_text("data")
    expect(row(page, "newcomer@example.com")).to_contain_text("Create clusters")
    other.log_in(token)
    theirs = other.go("/admin")
    expect(theirs.get_by_text("Only administrators of this workspace see these pages.")).to_be_visible()
    expect(theirs.get_by_role("link", name="Admin", exact=True)).to_have_count(0)
    other.go("/settings")
    expect(row(theirs, "first token")).to_be_visible()
    expect(theirs.get_by_text("newcomer@example.com")).to_be_visible()
    page.get_by_role("button", name="newcomer@example.com").click()
    page.get_by_role("switch", name="Active").uncheck()
    page.get_by_role("button", name="Save").click()
    expect(row(page, "newcomer@example.com")).to_contain_text("Deactivated")
    other.go("/compute")  # whoever is deactivated is sent to where one logs in, and told why there
    theirs.wait_for_url("**/login?next=*")
    page.get_by_role("button", name="newcomer@example.com").click()
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog", name="Delete newcomer@example.com?").get_by_role("button", name="Delete").click()
    expect(row(page, "newcomer@example.com")).to_have_count(0)
    assert list(w.users.list(filter='userName eq "newcomer@example.com"')) == []
    assert session.said == []


def test_who_is_deactivated_is_told_so(session: Session, other: Session, w: WorkspaceClient) -> None:
    user = w.users.create(user_name="leaver@example.com", entitlements=[ComplexValue(value="workspace-access")])
    token = session.context.request.post(
        f"{session.server.url}/api/2.1/token-management/tokens",
        data={"user_name": "leaver@example.com"},
        headers={"Authorization": f"Bearer {w.config.token}", "Origin": session.server.url},
    ).json()["token_value"]
    other.log_in(token)
    page = other.go("/settings")
    expect(page.get_by_text("leaver@example.com")).to_be_visible()
    page.get_by_role("button", name="Create a token").click()
    create = page.get_by_role("button", name="Create", exact=True)
    expect(create).to_be_visible()
    w.users.patch(
        str(user.id),
        operations=[Patch(op=PatchOp.REPLACE, value={"active": False})],
        schemas=[PatchSchema.URN_IETF_PARAMS_SCIM_API_MESSAGES_2_0_PATCH_OP],
    )
    create.dispatch_event("click")  # what the page asks for by itself may have told them already, over this button
    expect(page.get_by_role("dialog", name="Your session has ended")).to_be_visible()
    w.users.delete(str(user.id))


def test_groups_get_and_lose_members(session: Session, w: WorkspaceClient, people: dict[str, User]) -> None:
    page = session.go("/admin?tab=groups")
    page.get_by_role("button", name="Add a group").click()
    page.get_by_role("textbox", name="Name", exact=True).fill("temporary")
    page.get_by_role("button", name="Add", exact=True).click()
    dialog = page.get_by_role("dialog", name="temporary")
    expect(dialog).to_contain_text("0 members")
    dialog.get_by_role("combobox", name="Add a member").fill("ada")
    page.get_by_role("option", name="ada@example.com").click()
    expect(dialog).to_contain_text("1 member")
    [group] = w.groups.list(filter='displayName eq "temporary"')
    assert [each.value for each in w.groups.get(str(group.id)).members or []] == [people["ada"].id]
    dialog.get_by_role("button", name="Remove Ada").click()
    expect(dialog).to_contain_text("0 members")
    dialog.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog", name="Delete temporary?").get_by_role("button", name="Delete").click()
    expect(row(page, "temporary")).to_have_count(0)
    page.get_by_role("button", name="users").click()
    expect(page.get_by_role("dialog", name="users")).to_contain_text("Everyone is a member of this group")
    assert session.said == []


def test_the_last_administrator_stays(session: Session, people: dict[str, User]) -> None:
    page = session.go("/admin?tab=groups")
    page.get_by_role("button", name="admins").click()
    dialog = page.get_by_role("dialog", name="admins")
    dialog.get_by_role("button", name="Remove ").first.click()
    expect(dialog.get_by_role("alert")).to_contain_text("without an active administrator")


def test_tokens_are_shown_once_and_revoked(session: Session, w: WorkspaceClient, people: dict[str, User]) -> None:
    page = session.go("/settings")
    page.get_by_role("button", name="Create a token").click()
    page.get_by_label("Comment").fill("my laptop")
    page.get_by_role("button", name="Create", exact=True).click()
    secret = page.get_by_role("dialog").locator("code").inner_text()
    page.get_by_role("button", name="Done").click()
    expect(row(page, "my laptop")).to_contain_text("never")
    mine = WorkspaceClient(host=session.server.url, token=secret)
    assert mine.current_user.me().user_name == w.current_user.me().user_name
    assert secret not in page.content()
    page = session.go("/admin?tab=tokens&q=laptop")
    expect(row(page, "my laptop")).to_contain_text("admin@brickyard.local")
    page.get_by_role("button", name="Revoke my laptop").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    expect(row(page, "my laptop")).to_have_count(0)
    page.get_by_label("Clear the search").click()
    page.get_by_role("button", name="Create a token").click()
    page.get_by_role("dialog").get_by_label("Owner").fill("ada@example.com")
    page.get_by_role("button", name="Create", exact=True).click()
    expect(page.get_by_role("dialog")).to_contain_text("New token for ada@example.com")
    page.get_by_role("button", name="Done").click()
    expect(row(page, "ada@example.com")).to_contain_text("created by")
    assert session.said == []


def test_a_service_principal_gets_an_oauth_secret_that_is_shown_once(
    session: Session, w: WorkspaceClient, people: dict[str, User]
) -> None:
    [program] = [each for each in w.service_principals.list() if each.display_name == HOSTILE]
    page = session.go("/admin?tab=service-principals")
    page.get_by_role("button", name=HOSTILE).click()
    secrets = page.get_by_role("dialog").get_by_label("OAuth secrets")
    expect(secrets).to_contain_text("No secrets yet")
    secrets.get_by_role("button", name="Create a secret").click()
    expect(secrets).to_contain_text("It is shown only once")
    secret = secrets.locator("code").inner_text()
    expect(secrets.get_by_role("listitem")).to_have_count(1)

    def as_program() -> WorkspaceClient:
        return WorkspaceClient(host=session.server.url, client_id=program.application_id, client_secret=secret)

    assert as_program().current_user.me().display_name == HOSTILE
    readable(page, shown=page.locator("tbody tr").first)
    page.reload()
    expect(secrets.get_by_role("listitem")).to_have_count(1)
    assert secret not in page.content()
    secrets.get_by_role("button", name="Delete the secret").click()
    page.get_by_role("button", name="Delete the secret", exact=True).last.click()
    expect(secrets.get_by_role("listitem")).to_have_count(0)
    with pytest.raises(Exception, match="invalid_client"):
        as_program().current_user.me()
    assert session.said == []


def test_the_audit_log_is_filtered_by_the_address(session: Session, w: WorkspaceClient, people: dict[str, User]) -> None:
    page = session.go("/admin?tab=audit&operation=users.create")
    expect(page.locator(".audit li").first).to_contain_text("users.create")
    expect(page.locator(".audit li").filter(has_text="groups.create")).to_have_count(0)
    page.locator(".entry-line").first.click()
    expect(page.get_by_label("The entry as JSON")).to_contain_text('"operation": "users.create"')
    page.get_by_role("button", name="Only this user").click()
    expect(page).to_have_url(f"{session.server.url}/admin?tab=audit&operation=users.create&user=admin%40brickyard.local")
    page.get_by_label("Operation").fill("no.such")
    expect(page.get_by_text("No entries match.")).to_be_visible()
    page.get_by_label("Operation").fill("groups.create")
    expect(page.locator(".audit li").first).to_contain_text("groups.create")
    with page.expect_download() as loading:
        page.get_by_role("link", name="JSON").click()
    lines = loading.value.path().read_text().splitlines()
    assert lines and all('"operation":"groups.create"' in line for line in lines)
    assert session.said == []


def test_the_audit_log_names_what_it_is_about(session: Session, w: WorkspaceClient) -> None:
    made = w.clusters.create(
        cluster_name=f"named {HOSTILE}", spark_version="17.3.x-scala2.13", node_type_id="i3.xlarge", num_workers=1
    ).result()
    page = session.go(f"/admin?tab=audit&object={made.cluster_id}")
    line = page.locator(".audit li").first
    expect(line).to_contain_text(f"named {HOSTILE}")
    line.locator(".entry-line").click()
    line.get_by_role("link", name="named").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("named")
    page = session.go("/admin?tab=audit")
    operations = page.locator(f"#{page.get_by_label('Operation').get_attribute('list')} option")
    expect(operations.and_(page.locator("[value='clusters.create']"))).to_have_count(1)
    w.clusters.permanent_delete(str(made.cluster_id))
    assert page.title() != "taken over"
    assert session.said == []


def test_nodes_and_room_are_shown_with_who_has_them(session: Session, w: WorkspaceClient) -> None:
    made = w.clusters.create(
        cluster_name=HOSTILE, spark_version="17.3.x-scala2.13", node_type_id="i3.xlarge", num_workers=2
    ).result()
    page = session.go("/admin?tab=machine")
    expect(row(page, HOSTILE)).to_have_count(3)
    expect(page.get_by_text("3 nodes", exact=False)).to_be_visible()
    expect(page.locator(".meters")).to_contain_text("The workspace's files")
    row(page, HOSTILE).first.get_by_role("link").first.click()
    expect(page).to_have_url(f"{session.server.url}/compute/clusters/{made.cluster_id}")
    page.go_back()
    readable(page, shown=page.locator("tbody tr").first)
    w.clusters.permanent_delete(str(made.cluster_id))
    expect(page.get_by_text("No nodes are running.")).to_be_visible()
    assert session.said == []


def test_runtimes_say_whether_they_are_trained(session: Session) -> None:
    """The server's own answer, with each of the states in which an installed runtime can be."""

    def standing(route: Route) -> None:
        found = route.fetch().json()
        one = found["runtimes"][-1] | {"installed": True, "installed_ms": 1_790_000_000_000, "has_connect": True}
        progress = {"message": f"3 of 5: {HOSTILE}", "share": 0.6}
        states: tuple[dict[str, Any], ...] = (
            {"trained": False},
            {"trained": False, "training": progress},
            {"trained": False, "training_failure": f"no room on the disk {HOSTILE}"},
            {"trained": True},
        )
        found["runtimes"] = [one | {"key": f"{at}.x", "environment": f"e{at}"} | state for at, state in enumerate(states)]
        route.fulfill(json=found)

    session.page.route("**/api/2.1/runtimes", standing)
    page = session.go("/admin?tab=runtimes")
    expect(row(page, "0.x")).to_contain_text("No startup cache yet, so starts are slower")
    expect(row(page, "1.x")).to_contain_text(
        f"Building the startup cache. Until it is ready, starts are slower: 3 of 5: {HOSTILE}"
    )
    expect(row(page, "2.x")).to_contain_text(
        f"Starts are slower, because building the startup cache failed: no room on the disk {HOSTILE}"
    )
    expect(row(page, "3.x")).to_contain_text("Installed")
    expect(row(page, "3.x")).not_to_contain_text("trained")
    readable(page, shown=page.locator("tbody tr").first)
    assert session.said == []


def test_the_chosen_tab_is_in_sight_on_a_telephone(session: Session) -> None:
    session.page.set_viewport_size({"width": 390, "height": 844})
    page = session.go("/admin?tab=machine")
    expect(page.get_by_role("tab", name="Nodes and capacity")).to_be_in_viewport(ratio=0.9)
    expect(page.get_by_role("tab", name="Users")).not_to_be_in_viewport()


@pytest.mark.parametrize(
    "path",
    ["/admin", "/admin?tab=groups", "/admin?tab=service-principals", "/admin?tab=tokens", "/admin?tab=runtimes", "/settings"],
)
def test_everybody_can_read_it(session: Session, people: dict[str, User], path: str) -> None:
    page = session.go(path)
    readable(page, shown=page.locator("tbody tr").first)
    assert session.said == []
