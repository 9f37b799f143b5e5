"""Spend through HTTP, on the simulated provider at list prices: an i3.xlarge costs 0.312 an hour."""

from __future__ import annotations

from typing import Any

import pytest
from databricks.sdk import WorkspaceClient
from databricks.sdk.errors import InvalidParameterValue, NotFound
from databricks.sdk.service.iam import ComplexValue

from tests.support.golden import Golden
from tests.support.server import Server
from tests.support.tokens import create

RUNTIME, TYPE, PRICE = "17.3.x-scala2.13", "i3.xlarge", 0.312


def ask(w: WorkspaceClient, path: str = "", **query: Any) -> Any:
    return w.api_client.do("GET", f"/api/2.1/spend{path}", query=query)


def groups(w: WorkspaceClient, group_by: str) -> dict[str, Any]:
    return {each["key"]: each for each in ask(w, group_by=group_by)["groups"]}


def test_a_cluster_s_price_and_what_it_has_cost(w: WorkspaceClient, golden: Golden) -> None:
    made = w.clusters.create(
        cluster_name="dear", spark_version=RUNTIME, node_type_id=TYPE, num_workers=2, custom_tags={"team": "spend"}
    ).result()
    cluster_id = str(made.cluster_id)
    (now,) = ask(w, "/cluster", cluster_id=cluster_id)["groups"]
    assert now["price_per_hour"] == pytest.approx(3 * PRICE)
    assert (now["currency"], now["cluster_name"], now["creator_user_name"]) == ("USD", "dear", made.creator_user_name)
    w.clusters.delete(cluster_id).result()
    (ended,) = ask(w, "/cluster", cluster_id=cluster_id)["groups"]
    assert ended["price_per_hour"] == 0
    assert ended["amount"] == pytest.approx(ended["node_hours"] * PRICE, abs=2e-6)
    assert ended["node_hours"] > 0
    assert ask(w, "/cluster", cluster_id=cluster_id)["groups"] == [ended], "nothing is added any more"
    w.clusters.permanent_delete(cluster_id)
    with golden.refused(InvalidParameterValue):
        ask(w, "/cluster", cluster_id=cluster_id)
    assert groups(w, "cluster")[cluster_id]["amount"] == ended["amount"]
    assert groups(w, "tag:team")["spend"]["amount"] == ended["amount"]
    assert groups(w, "creator")[str(made.creator_user_name)]["amount"] >= ended["amount"]
    assert groups(w, "node_type")[TYPE]["amount"] >= ended["amount"]
    assert set(groups(w, "role")) >= {"driver", "worker"}


def test_days_a_top_and_others(w: WorkspaceClient) -> None:
    made = [
        w.clusters.create(cluster_name=f"day {n}", spark_version=RUNTIME, node_type_id=TYPE, num_workers=n + 1).result()
        for n in range(2)
    ]
    for each in made:
        w.clusters.delete(str(each.cluster_id)).result()
    found = ask(w, group_by="day,cluster", top=1, time_zone="Asia/Tokyo")
    assert found["scope"] == "workspace"
    assert found["left_out"] >= 1
    assert {each["others"] for each in found["groups"]} == {True, False}
    [total] = found["totals"]
    assert sum(each["amount"] for each in found["groups"]) == pytest.approx(total["amount"], abs=1e-5)
    days = [each["day"] for each in ask(w, group_by="day")["groups"]]
    assert days == sorted(days) and len(days[-1]) == 10
    [only] = ask(w, cluster_id=str(made[1].cluster_id))["groups"]
    assert only["cluster_name"] == "day 1"


def test_users_see_what_their_own_clusters_cost(w: WorkspaceClient, server: Server) -> None:
    w.users.create(
        user_name="frugal@example.com",
        entitlements=[ComplexValue(value="workspace-access"), ComplexValue(value="allow-cluster-create")],
    )
    theirs = server.client(create(w, "frugal@example.com", comment="t", days=1))
    made = theirs.clusters.create(cluster_name="mine", spark_version=RUNTIME, node_type_id=TYPE, num_workers=1).result()
    theirs.clusters.delete(str(made.cluster_id)).result()
    found = ask(theirs)
    assert found["scope"] == "own"
    assert [each["key"] for each in found["groups"]] == [made.cluster_id]
    assert ask(theirs, creator_user_name=str(w.current_user.me().user_name))["groups"] == []


def test_a_budget_alerts_and_is_exceeded(w: WorkspaceClient) -> None:
    made = w.clusters.create(
        cluster_name="budgeted", spark_version=RUNTIME, node_type_id=TYPE, num_workers=1, custom_tags={"team": "b=1"}
    ).result()
    do = w.api_client.do
    budget = do("POST", "/api/2.1/budgets", body={"display_name": "Team b", "amount": 1e-9, "tag": "team=b=1"})
    path = f"/api/2.1/budgets/{budget['budget_id']}"
    [shown] = do("GET", "/api/2.1/budgets")["budgets"]
    assert (shown["state"], shown["currency"], shown["tag"]) == ("EXCEEDED", "USD", "team=b=1")
    assert shown["forecast"] >= shown["spent"] > 0
    do("PUT", path, body={"display_name": "Team b", "amount": 1e6, "tag": "team=b=1"})
    [shown] = do("GET", "/api/2.1/budgets", query={"time_zone": "Europe/Berlin"})["budgets"]
    assert (shown["state"], shown["amount"]) == ("OK", 1e6)
    for wrong in ({"amount": 0}, {"amount": 1, "alert_percent": 101}, {"amount": 1, "tag": "team"}):
        with pytest.raises(InvalidParameterValue):
            do("POST", "/api/2.1/budgets", body={"display_name": "x", **wrong})
    do("DELETE", path)
    with pytest.raises(NotFound):
        do("DELETE", path)
    w.clusters.delete(str(made.cluster_id)).result()


def test_prices(w: WorkspaceClient) -> None:
    found = ask(w, "/prices")
    assert found["currency"] == "USD"
    assert {each["node_type_id"]: each["price_per_hour"] for each in found["node_types"]}[TYPE] == PRICE


def test_wrong_questions(w: WorkspaceClient) -> None:
    for wrong in (
        {"group_by": "tag:"},
        {"group_by": "week"},
        {"time_zone": "Mars"},
        {"tag": "team"},
        {"top": 10_001},
        {"start_time": 2, "end_time": 1},
        {"start_time": 1},
    ):
        with pytest.raises(InvalidParameterValue):
            ask(w, **wrong)
