"""Cluster policies in a real browser: the list, the editor with its checks, and what does not comply."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from databricks.sdk import WorkspaceClient
from playwright.sync_api import Page, expect

from tests.support.server import Server
from tests.ui.axe import HOSTILE, readable
from tests.ui.conftest import Session

RULES = {"num_workers": {"type": "range", "maxValue": 2}, "autotermination_minutes": {"type": "fixed", "value": 20}}


@pytest.fixture(scope="module")
def policy(w: WorkspaceClient) -> Iterator[str]:
    made = str(w.cluster_policies.create(name=f"small {HOSTILE}", description=HOSTILE, definition=json.dumps(RULES)).policy_id)
    yield made
    w.cluster_policies.delete(made)


def type_all(page: Page, label: str, what: str) -> None:
    page.get_by_role("textbox", name=label, exact=True).click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(what)


def test_the_list_leads_to_a_policy_and_its_rules(session: Session, server: Server, policy: str) -> None:
    page = session.go("/compute")
    page.get_by_role("tab", name="Policies").click()
    expect(page).to_have_url(f"{server.url}/compute?tab=policies")
    row = page.get_by_role("row").filter(has_text=policy)
    expect(row).to_contain_text("custom")
    expect(page.get_by_role("row").filter(has_text="Personal Compute")).to_contain_text("default")
    page.keyboard.press("/")
    page.keyboard.type(policy)
    expect(page.locator("tbody tr")).to_have_count(1)
    row.get_by_role("link").first.click()
    expect(page.get_by_role("heading", name=f"small {HOSTILE}")).to_be_visible()
    expect(page.get_by_role("row").filter(has_text="autotermination_minutes")).to_contain_text("is 20")
    page.get_by_role("tab", name="JSON").click()
    expect(page).to_have_url(f"{server.url}/compute/policies/{policy}?tab=json")
    assert json.loads(page.locator(".code").inner_text()) == RULES
    page.get_by_role("tab", name="Permissions").click()
    expect(page.get_by_role("definition").filter(has_text="olic").first).to_be_visible()
    session.go("/compute?tab=policies")
    page.get_by_role("button", name="Actions on Personal Compute").click()
    page.get_by_role("menuitem", name="Delete").click()
    page.get_by_role("button", name="Delete the policy").click()
    expect(page.get_by_text("The default policy Personal Compute cannot be deleted.")).to_be_visible()
    assert all("status of 400" in said for said in session.said), "the server has refused to delete a default policy"
    assert page.title() != "taken over"


def test_what_others_do_to_policies_is_shown_at_once(session: Session, w: WorkspaceClient, policy: str) -> None:
    page = session.go("/compute?tab=policies")
    expect(page.get_by_role("row").filter(has_text=policy)).to_be_visible()
    made = str(w.cluster_policies.create(name="made elsewhere", definition="{}").policy_id)
    row = page.get_by_role("row").filter(has_text=made)
    expect(row).to_contain_text("made elsewhere")
    w.cluster_policies.edit(policy_id=made, name=f"renamed {HOSTILE}", definition="{}")
    expect(row).to_contain_text(f"renamed {HOSTILE}")
    w.cluster_policies.delete(made)
    expect(row).to_have_count(0)
    assert session.said == []


def test_a_policy_is_checked_and_tried_while_it_is_typed(session: Session, server: Server, w: WorkspaceClient) -> None:
    page = session.go("/compute/policies/create")
    answer = page.get_by_label("The server's answer")
    expect(answer).to_contain_text("Accepted")
    expect(answer).to_contain_text("per hour")
    expect(page.get_by_label("Locks")).to_contain_text("autotermination_minutes is 60")
    page.get_by_label("Name", exact=True).fill(HOSTILE)
    mistakes = page.get_by_label("Errors in the policy")
    type_all(page, "Definition", json.dumps({"nonsense": {"type": "fixed", "value": 1}, "num_workers": {"type": "huge"}}))
    expect(mistakes.get_by_role("listitem")).to_have_count(2)
    expect(mistakes).to_contain_text("nonsense")
    expect(answer).to_contain_text("The policy has errors")
    mistakes.get_by_role("button", name="num_workers: ").click()
    assert page.evaluate("getSelection().toString()") == '"num_workers"'
    page.get_by_role("button", name="Create policy").click()
    expect(page.get_by_role("alert").filter(has_text="Not saved")).to_contain_text("definition is malformed")
    rules = {"num_workers": {"type": "range", "maxValue": 2}, "init_scripts": {"type": "forbidden"}}
    type_all(page, "Definition", json.dumps(rules))
    expect(mistakes.get_by_role("listitem")).to_have_count(0)
    expect(page.get_by_label("Forbids")).to_contain_text("init_scripts")
    spec = {"spark_version": "17.3.x-scala2.13", "node_type_id": "i3.xlarge", "num_workers": 9}
    type_all(page, "Specification to try", json.dumps(spec))
    expect(page.get_by_label("Refuses")).to_contain_text("the value must be at most 2")
    type_all(page, "Definition", json.dumps(rules | {"cluster_type": {"type": "fixed", "value": "job"}}))
    type_all(page, "Specification to try", json.dumps(spec | {"num_workers": 1}))
    expect(page.get_by_label("Refuses")).to_contain_text("cluster_type")
    page.get_by_text("Job", exact=True).click()
    expect(answer).to_contain_text("Accepted")
    type_all(page, "Definition", json.dumps(rules))
    page.get_by_label("Clusters per user").fill("4")
    page.get_by_role("button", name="Add a library").click()
    page.get_by_label("Library 1", exact=True).fill("simplejson==3.19.2")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("heading", name=HOSTILE)).to_be_visible()
    policy_id = page.url.rpartition("/")[2]
    saved = w.cluster_policies.get(policy_id)
    assert json.loads(str(saved.definition)) == rules
    assert saved.max_clusters_per_user == 4
    assert [each.pypi and each.pypi.package for each in saved.libraries or []] == ["simplejson==3.19.2"]
    page.get_by_role("button", name="Clone").click()
    expect(page.get_by_label("Name", exact=True)).to_have_value(f"{HOSTILE} (copy)")
    page.get_by_role("button", name="Create policy").click()
    expect(page.get_by_role("heading", name=f"{HOSTILE} (copy)")).to_be_visible()
    copy = page.url.rpartition("/")[2]
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("button", name="Delete the policy").click()
    expect(page).to_have_url(f"{server.url}/compute?tab=policies")
    expect(page.get_by_role("row").filter(has_text=copy)).to_have_count(0)
    w.cluster_policies.delete(policy_id)
    assert all("status of 40" in said for said in session.said), "what the server has refused, and what was deleted"
    assert page.title() != "taken over"


def test_a_family_with_overrides(session: Session, w: WorkspaceClient) -> None:
    page = session.go("/compute/policies/create?family=shared-compute")
    page.get_by_label("Name", exact=True).fill("shared by us")
    overrides = {"custom_tags.by": {"type": "fixed", "value": "us"}}
    type_all(page, "Overrides", json.dumps(overrides))
    expect(page.get_by_label("Locks")).to_contain_text("custom_tags.by is us")
    page.get_by_role("button", name="Create policy").click()
    expect(page.get_by_role("row").filter(has_text="custom_tags.by")).to_contain_text("is us")
    policy_id = page.url.rpartition("/")[2]
    made = w.cluster_policies.get(policy_id)
    w.cluster_policies.delete(policy_id)
    assert made.policy_family_id == "shared-compute"
    assert json.loads(str(made.policy_family_definition_overrides)) == overrides


def test_what_does_not_comply_is_shown_and_made_to(session: Session, w: WorkspaceClient, policy: str) -> None:
    made = str(
        w.clusters.create(
            cluster_name=f"governed {HOSTILE}",
            spark_version="17.3.x-scala2.13",
            node_type_id="i3.xlarge",
            num_workers=1,
            policy_id=policy,
            autotermination_minutes=20,
        )
        .result()
        .cluster_id
    )
    changed = RULES | {"autotermination_minutes": {"type": "fixed", "value": 30}}
    w.cluster_policies.edit(policy_id=policy, name=f"small {HOSTILE}", definition=json.dumps(changed))
    page = session.go(f"/compute/policies/{policy}?tab=clusters")
    row = page.get_by_role("row").filter(has_text=f"governed {HOSTILE}")
    expect(row).to_contain_text("the value must be 30")
    row.get_by_role("button", name="Enforce").click()
    dialog = page.get_by_role("dialog")
    change = dialog.get_by_role("row").filter(has_text="autotermination_minutes")
    expect(change).to_contain_text("20")
    expect(change).to_contain_text("30")
    dialog.get_by_label("When it terminates").check()
    dialog.get_by_role("button", name="Enforce").click()
    expect(row).to_contain_text("Will be changed when it terminates")
    row.get_by_role("button", name="Cancel enforcement").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel the enforcement").click()
    row.get_by_role("button", name="Enforce").click()
    dialog.get_by_role("button", name="Enforce").click()
    expect(row).to_contain_text("Yes")
    row.get_by_role("link").click()
    expect(page.get_by_role("link", name=f"small {HOSTILE}")).to_be_visible()
    assert w.clusters.get(made).autotermination_minutes == 30
    assert session.said == []
    w.clusters.permanent_delete(made)


@pytest.mark.parametrize("path", ["?tab=policies", "/policies/{}", "/policies/{}?tab=clusters", "/policies/{}/edit"])
def test_everybody_can_read_it(session: Session, policy: str, path: str) -> None:
    page = session.go(f"/compute{path.format(policy)}")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(page.locator("[aria-busy=true]")).to_have_count(0)
    if path.endswith("/edit"):
        expect(page.get_by_label("The server's answer")).to_contain_text("per hour")
    readable(page, fits=("main",))
    assert session.said == []
