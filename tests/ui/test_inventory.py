"""What the cluster editor's specification lists, row by row, where the other tests of the page do not go through all of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from databricks.sdk import WorkspaceClient
from databricks.sdk.service.compute import ClusterSpec, DataSecurityMode, State
from databricks.sdk.service.jobs import SparkPythonTask, SubmitTask
from playwright.sync_api import Locator, Page, Route, expect

from brickyard.providers.simulated import SimulatedProvider
from tests.support.patience import until
from tests.support.server import Server
from tests.support.tokens import create
from tests.ui.conftest import Session
from tests.ui.editing import accepted, body_of, choose, made_of, opened

RUNTIME, TYPE = "17.3.x-scala2.13", "i3.xlarge"
COMMON: dict[str, Any] = {"spark_version": RUNTIME, "num_workers": 1}


@pytest.fixture(scope="module")
def made(w: WorkspaceClient) -> Iterator[dict[str, str]]:
    """A pool, a policy, and two clusters, one of which runs: by name, their ids."""
    yield from made_of(w)


@pytest.fixture(scope="module")
def team(server: Server, w: WorkspaceClient, made: dict[str, str]) -> Iterator[dict[str, str]]:
    """One more cluster, of another user, that differs in everything that is filtered by; its id."""
    user = w.users.create(user_name="filtered@example.com")
    w.api_client.do(
        "PATCH",
        f"/api/2.0/permissions/instance-pools/{made['pool']}",
        body={"access_control_list": [{"user_name": "filtered@example.com", "permission_level": "CAN_ATTACH_TO"}]},
    )
    w.api_client.do(
        "PATCH",
        f"/api/2.0/permissions/cluster-policies/{made['policy']}",
        body={"access_control_list": [{"user_name": "filtered@example.com", "permission_level": "CAN_USE"}]},
    )
    w.cluster_policies.edit(made["policy"], name="Small", definition='{"num_workers": {"type": "range", "maxValue": 3}}')
    ada = server.client(create(w, "filtered@example.com", comment="", days=None))
    cluster = ada.clusters.create(
        cluster_name="of ada",
        spark_version="16.4.x-scala2.12",
        instance_pool_id=made["pool"],
        policy_id=made["policy"],
        data_security_mode=DataSecurityMode.SINGLE_USER,
        num_workers=1,
        custom_tags={"cost-centre": "7"},
    ).result()
    yield {"id": str(cluster.cluster_id)}
    w.clusters.permanent_delete(str(cluster.cluster_id))
    w.users.delete(str(user.id))


def row(page: Page, name: str) -> Locator:
    return page.locator("tbody tr").filter(has_text=name)


def test_every_column_shows_its_value(
    session: Session, w: WorkspaceClient, machines: SimulatedProvider, made: dict[str, str], team: dict[str, str]
) -> None:
    driver = str(getattr(w.clusters.get(made["edited"]).driver, "instance_id", ""))
    machines.set_activity(driver, busy=False, last_activity_ms=1_790_000_000_000)
    session.prepare(
        "localStorage.setItem('brickyard.columns', JSON.stringify({access: true, tags: true, policy: true, pool: true}))"
    )
    page = session.go("/compute")
    until(lambda: "ago" in cell(page, "edited", "Last activity") or "on " in cell(page, "edited", "Last activity"), "it is told")
    assert cell(page, "edited", "State").startswith("RUNNING")
    assert cell(page, "edited", "Driver") == TYPE
    assert cell(page, "edited", "Workers") == "1 / 1"
    assert cell(page, "edited", "Runtime") == "17.3 LTS"
    assert cell(page, "edited", "Access mode") == "No isolation shared"
    assert cell(page, "edited", "Creator").startswith("admin")
    assert re.fullmatch(r"\$0\.[1-9]\d", cell(page, "edited", "Spend per hour"))
    assert cell(page, "edited", "Tags") == "team: data"
    assert cell(page, "of ada", "Access mode") == "Dedicated"
    assert cell(page, "of ada", "Runtime") == "16.4 LTS"
    assert cell(page, "of ada", "Creator") == "filtered@example.com"
    assert (cell(page, "of ada", "Policy"), cell(page, "of ada", "Pool")) == ("Small", "warm")
    assert cell(page, "<img", "Last activity") == "", "a cluster that has ended tells none"
    page.get_by_role("columnheader", name="Runtime").get_by_role("button").click()
    expect(page).to_have_url(f"{session.server.url}/compute?sort=runtime")
    expect(page.locator("tbody tr").first).to_contain_text("of ada")
    page.get_by_role("columnheader", name="Runtime").get_by_role("button").click()
    expect(page.get_by_role("columnheader", name="Runtime")).to_have_attribute("aria-sort", "descending")
    expect(page.locator("tbody tr").last).to_contain_text("of ada")
    assert session.said == []


def cell(page: Page, name: str, label: str) -> str:
    return row(page, name).locator(f"td[data-label='{label}']").inner_text().strip()


@pytest.mark.parametrize(
    ("chip", "value"),
    [
        ("Access mode", "Dedicated (1)"),
        ("Runtime", "16.4.x-scala2.12 (1)"),
        ("Creator", "filtered@example.com (1)"),
        ("Policy", "Small (1)"),
        ("Pool", "warm (1)"),
        ("Tag", "cost-centre: 7 (1)"),
    ],
)
def test_every_filter_narrows_the_list(session: Session, team: dict[str, str], chip: str, value: str) -> None:
    page = session.go("/compute")
    expect(row(page, "edited")).to_be_visible()
    page.get_by_role("search").get_by_role("button", name=chip).click()
    page.get_by_label(value).check()
    page.keyboard.press("Escape")
    expect(row(page, "edited")).to_have_count(0)
    expect(row(page, "of ada")).to_be_visible()
    page.reload()  # it is in the address
    expect(row(page, "of ada")).to_be_visible()
    expect(row(page, "edited")).to_have_count(0)


def test_mine_are_mine(session: Session, team: dict[str, str]) -> None:
    page = session.go("/compute?mine=true")
    expect(row(page, "edited")).to_be_visible()
    expect(row(page, "of ada")).to_have_count(0)


def test_a_row_restarts_and_is_deleted_as_many_are(session: Session, w: WorkspaceClient, made: dict[str, str]) -> None:
    first, second, third = (
        str(w.clusters.create(cluster_name=f"brief {at}", node_type_id=TYPE, **COMMON).result().cluster_id) for at in (1, 2, 3)
    )
    before = w.clusters.get(first).last_restarted_time
    page = session.go("/compute")
    page.get_by_label("Actions on brief 1").click()
    page.get_by_role("menuitem", name="Restart").click()
    page.get_by_role("button", name="Restart the cluster").click()
    until(lambda: (w.clusters.get(first).last_restarted_time or 0) > (before or 0), "it has restarted")
    expect(row(page, "brief 1")).to_contain_text("RUNNING")
    page.get_by_label("Actions on brief 1").click()
    expect(page.get_by_role("menuitem")).to_have_text(
        ["Stop", "Restart", "Pin", "Edit", "Clone", "Watch", "Copy the id", "Delete"]
    )
    page.keyboard.press("Escape")
    page.get_by_label("Actions on brief 3").click()
    page.get_by_role("menuitem", name="Delete").click()
    page.get_by_role("button", name="Delete the cluster").click()
    expect(row(page, "brief 3")).to_have_count(0)
    page.get_by_placeholder("Search by name or id").fill("brief")
    page.get_by_label("Select all clusters shown").check()
    expect(page.get_by_role("toolbar")).to_contain_text("2 selected")
    page.get_by_role("toolbar").get_by_role("button", name="Delete").click()
    page.get_by_role("button", name="Delete 2 clusters").click()
    expect(page.get_by_text("No clusters match.")).to_be_visible()
    assert not [each for each in w.clusters.list() if each.cluster_id in (first, second, third)]


def test_shift_selects_all_rows_between(session: Session, made: dict[str, str], team: dict[str, str]) -> None:
    page = session.go("/compute?sort=name")
    ticks = page.locator("tbody").get_by_role("checkbox")
    expect(ticks).to_have_count(3)
    ticks.nth(0).click()
    ticks.nth(2).click(modifiers=["Shift"])
    expect(page.get_by_role("toolbar")).to_contain_text("3 selected")
    ticks.nth(1).click()
    expect(page.get_by_role("toolbar")).to_contain_text("2 selected")


def test_states_are_shown_as_they_pass(
    session: Session, w: WorkspaceClient, machines: SimulatedProvider, made: dict[str, str]
) -> None:
    cluster = str(w.clusters.create(cluster_name="passing", node_type_id="r5.large", **COMMON).result().cluster_id)
    page = session.go("/compute?q=passing")
    state = row(page, "passing").locator(".word")
    expect(state).to_have_text("RUNNING")
    machines.knobs.start_s, machines.knobs.stop_s = 3600.0, 4.0
    try:
        w.clusters.restart(cluster)
        expect(state).to_have_text("RESTARTING")
        w.clusters.delete(cluster)
        expect(state).to_have_text("TERMINATING")
        expect(state).to_have_text("TERMINATED")
        machines.knobs.start_s = machines.knobs.stop_s = 0.0
        w.clusters.start(cluster).result()
        expect(state).to_have_text("RUNNING")
        machines.knobs.start_s = 3600.0
        w.clusters.resize(cluster, num_workers=2)
        expect(state).to_have_text("RESIZING")
        expect(row(page, "passing")).to_contain_text("1 / 2")
    finally:
        machines.knobs.start_s = machines.knobs.stop_s = 0.0
    w.clusters.permanent_delete(cluster)
    expect(row(page, "passing")).to_have_count(0)


def test_clusters_of_jobs(session: Session, w: WorkspaceClient) -> None:
    task = SubmitTask(
        task_key="one",
        new_cluster=ClusterSpec(node_type_id=TYPE, **COMMON),
        spark_python_task=SparkPythonTask(python_file="dbfs:/one.py"),
    )
    run = w.jobs.submit(run_name="nightly", tasks=[task])
    page = session.go("/compute")
    page.get_by_role("tab", name="Job").click()
    expect(page.locator("tbody tr").filter(has_text=TYPE)).to_have_count(1)
    expect(page.get_by_role("link", name="Create compute")).to_have_count(0)
    w.jobs.cancel_run(run.run_id)
    ended = page.locator("tbody tr").filter(has_text="TERMINATED")
    expect(ended).to_have_count(1)
    expect(ended.get_by_label(re.compile("^Start "))).to_have_count(0)  # a run's cluster ends with it, and the server starts none


def test_every_kind_of_library_script_and_destination(session: Session, made: dict[str, str]) -> None:
    page = session.go("/compute/create")
    accepted(page)
    page.get_by_role("radio", name="Standard").check()
    libraries = opened(page, "Libraries")
    kinds = {
        "pypi": "a==1",
        "maven": "a:b:1",
        "whl": "/Volumes/m/d/l/a-1-py3-none-any.whl",
        "jar": "dbfs:/a.jar",
        "cran": "forecast",
    }
    for number, (kind, value) in enumerate(kinds.items(), 1):
        libraries.get_by_role("button", name="Add a library").click()
        libraries.get_by_label(f"Kind of library {number}").select_option(kind)
        libraries.get_by_label(f"Library {number}", exact=True).fill(value)
    scripts = opened(page, "Init scripts")
    places = {
        "workspace": "/Shared/a.sh",
        "volumes": "/Volumes/m/d/s/a.sh",
        "dbfs": "dbfs:/a.sh",
        "s3": "s3://bucket/a.sh",
        "abfss": "abfss://c@a.dfs.core.windows.net/a.sh",
    }
    for number, (place, path) in enumerate(places.items(), 1):
        scripts.get_by_role("button", name="Add a script").click()
        scripts.get_by_label(f"Kind of script {number}").select_option(place)
        scripts.get_by_label(f"Path of script {number}").fill(path)
    opened(page, "Log delivery").get_by_text("Volume", exact=True).click()
    page.get_by_label("Path", exact=True).fill("/Volumes/m/d/logs")
    choose(page, "Worker type", re.compile("GPU"))
    found = body_of(page)
    assert found["init_scripts"] == [{place: {"destination": path}} for place, path in places.items()]
    assert found["cluster_log_conf"] == {"volumes": {"destination": "/Volumes/m/d/logs"}}
    assert found["data_security_mode"] == "USER_ISOLATION"
    opened(page, "Log delivery").get_by_text("S3", exact=True).click()
    page.get_by_label("Path", exact=True).fill("s3://bucket/logs")
    page.get_by_label("Region", exact=True).last.fill("eu-central-1")
    assert body_of(page)["cluster_log_conf"] == {"s3": {"destination": "s3://bucket/logs", "region": "eu-central-1"}}


@pytest.mark.parametrize(
    ("node_type", "field", "names"),
    [
        ("i3.xlarge", "aws_attributes", ("SPOT_WITH_FALLBACK", "SPOT")),
        pytest.param(
            "Standard_DS3_v2", "azure_attributes", ("SPOT_WITH_FALLBACK_AZURE", "SPOT_AZURE"), marks=pytest.mark.extended
        ),
    ],
)
def test_the_spot_mix_has_the_words_of_its_cloud(
    session: Session, made: dict[str, str], node_type: str, field: str, names: tuple[str, str]
) -> None:
    page = session.go("/compute/create")
    accepted(page)
    choose(page, "Worker type", re.compile(f"^{re.escape(node_type)} "))
    opened(page, "Spot instances")
    choose(page, "Availability", "Spot only")
    page.get_by_label("First nodes on demand").fill("2")
    assert body_of(page)[field] == {"availability": names[1], "first_on_demand": 2}
    choose(page, "Availability", "Spot with fallback to on demand")
    assert body_of(page)[field]["availability"] == names[0]


def test_a_quota_that_is_used_up_is_said_where_one_creates(session: Session, made: dict[str, str]) -> None:
    refusal = {"error_code": "QUOTA_EXCEEDED", "message": "The quota of cores for the family DSv2 is used up."}
    page = session.go("/compute/create")
    accepted(page)
    page.route(
        "**/api/2.1/clusters/create",
        lambda route: (
            route.continue_() if "validate_only" in (route.request.post_data or "") else route.fulfill(status=400, json=refusal)
        ),
    )
    page.get_by_label("Name", exact=True).fill("too much")
    page.get_by_role("button", name="Create compute").click()
    expect(page.get_by_role("alert").filter(has_text="Not saved")).to_contain_text("The quota of cores for the family DSv2")
    expect(page.get_by_label("Name", exact=True)).to_have_value("too much")


def test_metrics_logs_and_reasons_are_all_there(session: Session, w: WorkspaceClient, made: dict[str, str]) -> None:
    page = session.go(f"/compute/clusters/{made['edited']}?tab=metrics&range=15m")
    for chart in ("CPU in", "Memory in", "Network between nodes in", "Disk traffic in", "Garbage collection in", "Executors in"):
        expect(page.get_by_role("img", name=re.compile(f"^{chart}")).first).to_be_visible()
    page = session.go(f"/compute/clusters/{made['edited']}?tab=logs")
    page.get_by_label("Log", exact=True).first.click()
    for name in ("stdout", "stderr", "log4j-active.log"):
        expect(page.get_by_role("option", name=re.compile(f"^{name} ")).first).to_be_visible()
    page = session.go(f"/compute/clusters/{made['hostile']}?tab=events")
    expect(page.locator(".events > li").filter(has_text="TERMINATING")).to_contain_text("USER_REQUEST")
    assert w.clusters.get(made["hostile"]).state is State.TERMINATED


def test_what_is_typed_before_the_palette_is_there_is_not_lost(session: Session, made: dict[str, str]) -> None:
    page, held = session.page, list[Route]()

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/dialogs-*.js", hold)  # the palette's code is on its way
    with page.expect_request("**/dialogs-*.js"):
        session.go("/compute")
    expect(row(page, "edited")).to_be_visible()
    page.keyboard.press("Control+k")
    page.keyboard.type("editedx")
    page.keyboard.press("Backspace")
    held[0].continue_()
    field = page.get_by_label("Name of a cluster, pool, policy, page or action")
    expect(field).to_have_value("edited")
    expect(field).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="edited")).to_be_visible()


def test_a_clone_where_no_specification_is_told(session: Session, w: WorkspaceClient, made: dict[str, str]) -> None:
    """A workspace may show a cluster without `spec`, as it was asked for: then the values in effect are taken."""

    def without(route: Any) -> None:
        found = route.fetch().json()
        route.fulfill(json={**found, "spec": None})

    session.page.route("**/api/2.1/clusters/get*", without)
    page = session.go(f"/compute/create?clone={made['edited']}")
    expect(page.get_by_label("Name", exact=True)).to_have_value("edited (copy)")
    found = body_of(page)
    assert (found["spark_version"], found["node_type_id"]) == (RUNTIME, TYPE)
    assert found["custom_tags"] == {"team": "data"}
    assert not {"cluster_id", "state", "driver", "default_tags", "cluster_cores"} & set(found)
    accepted(page)
