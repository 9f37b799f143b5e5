"""Creating clusters in a real browser."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from databricks.sdk import WorkspaceClient
from playwright.sync_api import Route, expect

from tests.support.patience import until
from tests.ui.axe import HOSTILE, violations
from tests.ui.conftest import Session
from tests.ui.editing import RUNTIME, TYPE, accepted, body_of, choose, made_of, opened, paste


@pytest.fixture(scope="module")
def made(w: WorkspaceClient) -> Iterator[dict[str, str]]:
    """A pool, a policy, and two clusters, one of which runs: by name, their ids."""
    yield from made_of(w)


def test_everything_that_a_cluster_can_have_is_created_from_the_form(
    session: Session, w: WorkspaceClient, made: dict[str, str]
) -> None:
    page = session.go("/compute")
    expect(page.get_by_role("heading", name="Compute")).to_be_visible()
    page.keyboard.press("c")
    expect(page.get_by_role("heading", name="Create compute")).to_be_visible()
    page.get_by_label("Name", exact=True).fill(HOSTILE)
    page.get_by_role("radio", name="Dedicated").check()
    choose(page, "Runtime version", re.compile("17.3 LTS"))
    choose(page, "Worker type", re.compile(r"^i3\.xlarge · 4 cores"))
    choose(page, "Driver type", re.compile(r"^i3\.2xlarge · 8 cores"))
    page.get_by_text("Autoscaling", exact=True).click()
    page.get_by_label("Min workers").fill("1")
    page.get_by_label("Max workers").fill("3")
    page.get_by_label("Terminate after").fill("45")
    summary = page.get_by_role("complementary", name="Summary")
    accepted(page)
    expect(summary).to_contain_text("2 – 4")  # noqa: RUF001 - the page's dash; a driver and 1 to 3 workers
    expect(summary).to_contain_text("12 – 20")  # noqa: RUF001 - cores
    expect(summary.get_by_text("$")).to_have_count(1)

    opened(page, "Spot instances")
    choose(page, "Availability", "Spot with fallback to on demand")
    page.get_by_label("First nodes on demand").fill("1")
    tags = opened(page, "Tags")
    tags.get_by_role("button", name="Add a tag").click()
    tags.get_by_label("Key 1").fill("team")
    tags.get_by_label("Value 1").fill("data")
    spark = opened(page, "Spark")
    spark.get_by_role("button", name="Add a setting").click()
    paste(spark.get_by_label("Setting 1"), "spark.a.b 1\nspark.c=two words\n")
    spark.get_by_role("button", name="Add a variable").click()
    paste(spark.get_by_label("Variable 1"), "export A=1\nB=2")
    opened(page, "Log delivery").get_by_text("DBFS", exact=True).click()
    page.get_by_label("Path", exact=True).fill("dbfs:/logs")
    scripts = opened(page, "Init scripts")
    for number, path in enumerate(("/Shared/one.sh", "/Shared/two.sh", "dbfs:/three.sh"), 1):
        scripts.get_by_role("button", name="Add a script").click()
        if path.startswith("dbfs"):
            scripts.get_by_label(f"Kind of script {number}").select_option("dbfs")
        scripts.get_by_label(f"Path of script {number}").fill(path)
    scripts.get_by_role("button", name="Move script 1: arrow keys").press("ArrowDown")
    expect(scripts.get_by_label("Path of script 2")).to_have_value("/Shared/one.sh")
    expect(scripts.locator("[aria-invalid=true]")).to_have_count(3)  # none is there: what says so moves the rows
    scripts.locator(".grip").nth(2).drag_to(scripts.locator(".script").nth(0))
    expect(scripts.get_by_label("Path of script 1")).to_have_value("dbfs:/three.sh")
    libraries = opened(page, "Libraries")
    libraries.get_by_role("button", name="Add a library").click()
    libraries.get_by_label("Library 1", exact=True).fill("simplejson==3.19.2")
    libraries.get_by_role("button", name="Add a library").click()
    libraries.get_by_label("Kind of library 2").select_option("maven")
    libraries.get_by_label("Library 2", exact=True).fill("com.acme:lib:1.0")

    expected = {
        "cluster_name": HOSTILE,
        "spark_version": RUNTIME,
        "node_type_id": TYPE,
        "driver_node_type_id": "i3.2xlarge",
        "data_security_mode": "SINGLE_USER",
        "autoscale": {"min_workers": 1, "max_workers": 3},
        "autotermination_minutes": 45,
        "aws_attributes": {"availability": "SPOT_WITH_FALLBACK", "first_on_demand": 1},
        "custom_tags": {"team": "data"},
        "spark_conf": {"spark.a.b": "1", "spark.c": "two words"},
        "spark_env_vars": {"A": "1", "B": "2"},
        "cluster_log_conf": {"dbfs": {"destination": "dbfs:/logs"}},
        "init_scripts": [
            {"dbfs": {"destination": "dbfs:/three.sh"}},
            {"workspace": {"destination": "/Shared/two.sh"}},
            {"workspace": {"destination": "/Shared/one.sh"}},
        ],
    }
    assert body_of(page) == expected
    accepted(page)
    page.get_by_role("button", name="Create compute").click()
    expect(page.get_by_role("status").filter(has_text="was created and is starting")).to_be_visible()
    ours = [each for each in w.clusters.list() if each.cluster_name == HOSTILE and each.cluster_id != made["hostile"]]
    assert len(ours) == 1
    detail: Any = w.api_client.do("GET", "/api/2.1/clusters/get", query={"cluster_id": ours[0].cluster_id})
    assert detail["spec"] == expected
    installed = [each.library for each in w.libraries.cluster_status(str(ours[0].cluster_id))]
    assert [(each.pypi or each.maven) is not None for each in installed if each] == [True, True]
    expect(page).to_have_title(f"{HOSTILE} - Brickyard")
    session.go("/compute")
    w.clusters.permanent_delete(str(ours[0].cluster_id))
    assert session.said == []


def test_a_policy_locks_fields_and_says_why(session: Session, w: WorkspaceClient, made: dict[str, str]) -> None:
    page = session.go("/compute/create")
    accepted(page)
    page.get_by_label("Name", exact=True).fill("governed")
    choose(page, "Policy", "Small")
    expect(page.get_by_text("Policy Small: The policy sets it to 20.")).to_be_visible()
    expect(page.get_by_label("Terminate after")).to_have_count(0)
    expect(page.get_by_text("Policy: 1 to 3")).to_be_visible()
    page.get_by_label("Worker type", exact=True).first.click()
    expect(page.get_by_role("option")).to_have_count(2)  # those that the policy allows
    page.keyboard.press("Escape")
    page.get_by_label("Workers", exact=True).fill("9")
    expect(page.locator(".mantine-NumberInput-error")).to_contain_text("must be at most 3")
    missing = page.get_by_role("button", name=re.compile("team must be present"))
    missing.click()  # the list of mistakes leads to the field, and opens its section
    tags = opened(page, "Tags")
    expect(tags.get_by_role("button", name="Add a tag")).to_be_visible()
    expect(tags).to_contain_text("matches [a-z]+")
    tags.get_by_role("button", name="Add a tag").click()
    tags.get_by_label("Key 1").fill("team")
    tags.get_by_label("Value 1").fill("data")
    spark = opened(page, "Spark")
    expect(spark).to_contain_text("spark.sql.shuffle.partitions")
    expect(spark).to_contain_text("The policy sets it to 8.")
    expect(spark).not_to_contain_text("unseen")
    expect(opened(page, "Init scripts")).to_contain_text("Not allowed")
    page.get_by_label("Workers", exact=True).fill("2")
    accepted(page)
    assert violations(page) == []
    page.get_by_role("button", name="Create compute").click()
    expect(page.get_by_role("status").filter(has_text="governed was created")).to_be_visible()
    [ours] = [each for each in w.clusters.list() if each.cluster_name == "governed"]
    assert (ours.autotermination_minutes, ours.node_type_id, ours.num_workers) == (20, TYPE, 2)
    assert (ours.spark_conf or {})["spark.sql.shuffle.partitions"] == "8"
    session.go("/compute")
    w.clusters.permanent_delete(str(ours.cluster_id))
    assert session.said == []


def test_nothing_is_said_of_what_is_not_checked_yet(session: Session, made: dict[str, str]) -> None:
    page, held, later = session.page, list[Route](), list[bool]()

    def hold(route: Route) -> None:
        if later or made["policy"] not in (route.request.post_data or ""):
            route.continue_()
        else:
            held.append(route)

    page.route("**/api/2.1/clusters/create", hold)
    session.go("/compute/create")
    accepted(page)
    choose(page, "Policy", "Small")
    summary = page.get_by_role("complementary", name="Summary")
    expect(summary).to_contain_text("Checking")
    until(lambda: page.evaluate("1") and held, "the server is asked")  # the browser's calls come while it is asked something
    expect(summary).not_to_contain_text("Unknown field")
    later.append(True)
    for each in held:
        each.continue_()
    expect(summary).to_contain_text("team must be present")
    assert session.said == []


def test_form_and_json_are_the_same(session: Session, made: dict[str, str]) -> None:
    page = session.go("/compute/create")
    accepted(page)
    page.get_by_role("tab", name="JSON").click()
    text = page.locator(".cm-content")
    spec = {"cluster_name": "typed", "spark_version": RUNTIME, "node_type_id": TYPE, "num_workers": 0, "colour": "red"}

    def type_all(what: str) -> None:
        text.click()
        page.keyboard.press("Control+a")
        page.keyboard.insert_text(what)

    type_all(json.dumps(spec))
    summary = page.get_by_role("complementary", name="Summary")
    expect(summary).to_contain_text("Cluster size must be at least 1 worker")
    type_all(json.dumps(spec | {"num_workers": 2}))
    expect(summary).to_contain_text("Unknown field colour")
    type_all('{"cluster_name": ')
    page.get_by_role("tab", name="Form").click()
    expect(page.get_by_text("The JSON is not valid")).to_be_visible()
    expect(page.get_by_role("button", name="Create compute")).to_be_disabled()
    page.get_by_role("button", name="Back to the JSON").click()
    expect(text).to_contain_text('{"cluster_name": ')  # nothing typed is lost
    type_all(json.dumps(spec | {"num_workers": 2}))
    page.get_by_role("tab", name="Form").click()
    expect(page.get_by_label("Name", exact=True)).to_have_value("typed")
    expect(page.get_by_label("Workers", exact=True)).to_have_value("2")
    page.get_by_text("Single node", exact=True).click()
    found = body_of(page)
    assert found["is_single_node"] is True
    assert "num_workers" not in found
    accepted(page)
    page.get_by_text("Fixed", exact=True).click()
    choose(page, "Pool", re.compile("^warm"))  # it decides the node type, and makes starts warm
    expect(page.get_by_label("Worker type", exact=True)).to_have_count(0)
    expect(summary).to_contain_text("Partly warm")
    expect(summary).to_contain_text("1 warm instance in the pool with this runtime")
    accepted(page)
    assert "node_type_id" not in body_of(page)
    page.get_by_label("Clear pool").click()
    expect(page.get_by_label("Worker type", exact=True).first).to_have_value(re.compile("^i3.xlarge"))
    assert session.said == []


def test_what_the_server_refuses_is_not_shown_as_if_it_worked(session: Session, made: dict[str, str]) -> None:
    page = session.go("/compute/create")
    accepted(page)
    expect(page.get_by_label("Use Photon acceleration")).to_be_disabled()
    expect(page.get_by_text("Photon is not offered")).to_be_visible()
    opened(page, "Spot instances")
    expect(page.get_by_label("Encrypt local disks")).to_be_disabled()
    spark = opened(page, "Spark")
    spark.get_by_role("button", name="Add a setting").click()
    spark.get_by_label("Setting 1").fill("spark.local.dir")
    spark.get_by_label("Value 1").first.fill("/mnt")
    expect(spark.get_by_text("spark_conf.spark.local.dir cannot be set")).to_be_visible()
    opened(page, "Log delivery").get_by_text("S3", exact=True).click()
    page.get_by_label("Path", exact=True).fill("s3://bucket/logs")
    expect(page.get_by_role("button", name=re.compile("give region or endpoint"))).to_be_visible()
    page.get_by_role("button", name="Create compute").click()
    expect(page.get_by_role("alert").filter(has_text="Not saved")).to_contain_text("spark.local.dir")
    assert violations(page) == []
    assert session.said == []
