"""Instance pools in a real browser: the list, the form, and the instances as a picture."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from databricks.sdk import WorkspaceClient
from playwright.sync_api import Browser, Page, expect

from brickyard.providers.simulated import SimulatedProvider
from tests.support.patience import until
from tests.support.server import Server
from tests.support.tokens import create
from tests.ui.axe import HOSTILE, readable
from tests.ui.conftest import Session

RUNTIME = "17.3.x-scala2.13"


@pytest.fixture(scope="module")
def pool(w: WorkspaceClient) -> Iterator[str]:
    """A pool with two warm instances, whose name and tags would like to be markup."""
    made = w.instance_pools.create(
        instance_pool_name=f"warm {HOSTILE}",
        node_type_id="i3.xlarge",
        min_idle_instances=2,
        max_capacity=6,
        preloaded_spark_versions=[RUNTIME],
        custom_tags={"team": HOSTILE},
    )
    pool_id = str(made.instance_pool_id)
    until(lambda: stats(w, pool_id) == (2, 0), "two instances are idle")
    yield pool_id
    w.instance_pools.delete(pool_id)


def stats(w: WorkspaceClient, pool_id: str) -> tuple[int, int]:
    """How many are idle and used."""
    found = w.instance_pools.get(pool_id).stats
    assert found is not None
    return found.idle_count or 0, found.used_count or 0


def bricks(page: Page, state: str) -> int:
    return page.locator(f".brick[data-state={state}]").count()


def test_the_list_is_searched_sorted_and_in_the_address(session: Session, server: Server, w: WorkspaceClient, pool: str) -> None:
    other = w.instance_pools.create(
        instance_pool_name="bare", node_type_id="r5.large", idle_instance_autotermination_minutes=0
    ).instance_pool_id
    page = session.go("/compute")
    page.get_by_role("tab", name="Pools").click()
    expect(page).to_have_url(f"{server.url}/compute?tab=pools")
    row = page.get_by_role("row").filter(has_text=pool)
    expect(row).to_contain_text(f"warm {HOSTILE}")
    expect(row).to_contain_text("i3.xlarge")
    expect(row).to_contain_text("17.3 LTS")
    expect(row).to_contain_text("2 (2 warm)")
    expect(row).to_contain_text(f"team: {HOSTILE}")
    expect(row).to_contain_text("admin@brickyard.local")
    bare = page.get_by_role("row").filter(has_text=other)
    expect(bare).to_contain_text("at once")
    expect(bare).to_contain_text("no limit")
    page.get_by_role("button", name="Node type").click()
    page.get_by_role("button", name="Node type").click()
    expect(page).to_have_url(f"{server.url}/compute?tab=pools&sort=-type")
    expect(page.locator("tbody tr").first).to_contain_text("r5.large")
    page.keyboard.press("/")
    page.keyboard.type("bare")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.reload()
    expect(page.get_by_label("Search by name or id")).to_have_value("bare")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{server.url}/compute/pools/{other}")
    expect(page.get_by_text("The pool has no instances.")).to_be_visible()
    w.instance_pools.delete(str(other))
    expect(page.get_by_text("This pool was deleted.")).to_be_visible()
    session.forgets()
    assert page.title() != "taken over"


def test_instances_are_a_picture_that_follows_them(
    session: Session, w: WorkspaceClient, machines: SimulatedProvider, pool: str
) -> None:
    page = session.go(f"/compute/pools/{pool}")
    expect(page.locator(".brick[data-state=WARM]")).to_have_count(2)
    expect(page.locator(".brick")).to_have_count(6)
    expect(page.get_by_label("How many")).to_contain_text("4 free of 6")
    ids = page.locator(".brick[data-state=WARM] .mono").all_inner_texts()
    machines.knobs.register_s = 3600
    made = w.clusters.create(cluster_name=f"tenant {HOSTILE}", spark_version=RUNTIME, instance_pool_id=pool, num_workers=1)
    used = page.locator(".brick[data-state=USED]")
    expect(used).to_have_count(2)
    expect(used.first.get_by_role("link")).to_have_text(f"tenant {HOSTILE}")
    expect(page.locator(".brick[data-state=LAUNCHING]")).to_have_count(2)
    expect(page.locator(".brick")).to_have_count(6)
    states = page.locator(".brick").evaluate_all("all => all.map(each => each.dataset.state ?? 'free')")
    assert states == ["USED", "USED", "LAUNCHING", "LAUNCHING", "free", "free"], "each stays where it was"
    machines.knobs.register_s = 0  # of those that are launched from now on
    page.get_by_role("tab", name="Clusters").click()
    expect(page.get_by_role("row").filter(has_text=f"tenant {HOSTILE}")).to_contain_text("RUNNING")
    page.get_by_role("tab", name="Instances").click()
    used.first.get_by_role("link").click()
    expect(page.get_by_role("heading", name=f"tenant {HOSTILE}")).to_be_visible()
    page.get_by_role("link", name=f"warm {HOSTILE}").first.click()
    expect(used).to_have_count(2)
    w.clusters.permanent_delete(made.cluster_id)
    expect(page.locator(".brick[data-state=WARM] .mono")).to_have_text(ids)
    assert session.said == []
    assert page.title() != "taken over"


def test_a_pool_is_created_edited_and_deleted_from_the_page(session: Session, server: Server, w: WorkspaceClient) -> None:
    page = session.go("/compute/pools/create")
    page.get_by_label("Name").fill(HOSTILE)
    page.get_by_label("Min idle instances").fill("3")
    page.get_by_label("Max capacity").fill("2")
    page.get_by_role("button", name="Add a tag").click()
    page.get_by_label("Key 1").fill("team")
    page.get_by_label("Value 1").fill("data")
    page.get_by_role("button", name="Create pool").click()
    expect(page.get_by_text("max_capacity is 2; it must be at least 1 and not below min_idle_instances (3).")).to_be_visible()
    page.get_by_label("Max capacity").fill("3")
    page.get_by_label("Min idle instances").fill("1")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("heading", name=HOSTILE)).to_be_visible()
    pool_id = page.url.rpartition("/")[2]
    made = w.instance_pools.get(pool_id)
    assert (made.min_idle_instances, made.max_capacity, made.custom_tags) == (1, 3, {"team": "data"})
    assert made.preloaded_spark_versions, "the newest long-term runtime"
    page.get_by_role("button", name="Edit").click()
    expect(page.get_by_role("combobox", name="Node type")).to_be_disabled()
    page.get_by_label("Terminate idle instances after").fill("5")
    page.get_by_role("button", name="Remove team").click()
    w.instance_pools.edit(
        instance_pool_id=pool_id, instance_pool_name="theirs", node_type_id=str(made.node_type_id), max_capacity=4
    )
    page.get_by_label("Max capacity").fill("5")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Someone else saved this pool first.")).to_be_visible()
    page.get_by_role("link", name="Pools").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Save").click()
    expect(page).to_have_url(f"{server.url}/compute/pools/{pool_id}")
    saved = w.instance_pools.get(pool_id)
    assert (saved.max_capacity, saved.idle_instance_autotermination_minutes, saved.custom_tags) == (5, 5, {})
    cluster = w.clusters.create(
        cluster_name="attached", spark_version=RUNTIME, instance_pool_id=pool_id, num_workers=1
    ).cluster_id
    expect(page.locator(".brick[data-state=USED], .brick[data-state=PENDING_USED]")).to_have_count(2)
    page.get_by_role("button", name="Delete").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Used by attached. Running clusters keep running but cannot grow")
    dialog.get_by_role("button", name="Delete the pool").click()
    expect(page).to_have_url(f"{server.url}/compute?tab=pools")
    expect(page.get_by_role("row").filter(has_text=pool_id)).to_have_count(0)
    w.clusters.permanent_delete(cluster)
    assert all("status of 40" in said for said in session.said), "what the server refused, and what was deleted"


def test_who_may_not_manage_a_pool_is_told_so(chromium: Browser, server: Server, w: WorkspaceClient, pool: str) -> None:
    """And sees which instances others use, but not by which cluster."""
    name = "reader.of.pools@example.com"
    w.users.create(user_name=name)
    context = chromium.new_context(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
    stranger = Session(context, server)
    stranger.log_in(create(w, name, comment="", days=None))
    page = stranger.go(f"/compute/pools/{pool}")
    expect(page.get_by_role("alert")).to_contain_text("Could not read the pool")
    admin = w.api_client
    admin.do(
        "PATCH",
        f"/api/2.0/permissions/instance-pools/{pool}",
        body={"access_control_list": [{"user_name": name, "permission_level": "CAN_ATTACH_TO"}]},
    )
    cluster = w.clusters.create(cluster_name="private", spark_version=RUNTIME, instance_pool_id=pool, num_workers=1).result()
    expect(page.get_by_role("button", name="Delete")).to_be_disabled()
    expect(page.locator(".brick[data-state=USED]").first).to_contain_text("a cluster that you cannot see")
    expect(page.get_by_text("private")).to_have_count(0)
    page.get_by_role("tab", name="Permissions").click()
    expect(page.get_by_role("row").filter(has_text=name)).to_contain_text("CAN_ATTACH_TO")
    w.clusters.permanent_delete(str(cluster.cluster_id))
    context.close()


@pytest.mark.parametrize(
    "path", ["?tab=pools", "?tab=sql", "/pools/{}", "/pools/{}?tab=permissions", "/pools/create", "/pools/{}/edit"]
)
def test_everybody_can_read_it(session: Session, pool: str, path: str) -> None:
    page = session.go(f"/compute{path.format(pool)}")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(page.locator("[aria-busy=true]")).to_have_count(0)
    readable(page, fits=("main",))
    assert session.said == []
