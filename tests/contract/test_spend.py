"""Spend through HTTP, on the simulated provider at list prices: an i3.xlarge costs 0.312 an hour."""

from __future__ import annotations

from typing import Any

import pytest
from databricks.sdk import WorkspaceClient
from databricks.sdk.errors import InvalidParameterValue

from tests.support.golden import Golden

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


def test_prices(w: WorkspaceClient) -> None:
    found = ask(w, "/prices")
    assert found["currency"] == "USD"
    assert {each["node_type_id"]: each["price_per_hour"] for each in found["node_types"]}[TYPE] == PRICE


def test_wrong_questions(w: WorkspaceClient) -> None:
    for wrong in ({"group_by": "tag:"}, {"group_by": "day"}, {"start_time": 2, "end_time": 1}, {"start_time": 1}):
        with pytest.raises(InvalidParameterValue):
            ask(w, **wrong)
