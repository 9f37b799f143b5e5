"""The JSON of the Clusters API guide: request bodies are posted as they stand, and what its responses name is in ours."""

from __future__ import annotations

import json
from typing import Any

import pytest
from databricks.sdk.service.compute import State

from brickyard.plan.refused import REFUSED
from tests.seeds.guide import CLUSTER_ID, EXAMPLES, NODE_TYPE, RUNTIME, Guide, body, read
from tests.support.patience import SOON

UP, DOWN = State.RUNNING, State.TERMINATED

# Request body -> the call it is for, and the state that the guide's cluster has before it.
POSTED = {
    "15_start_cluster_request_body.json": ("start", DOWN),
    "18_restart_cluster_request_body.json": ("restart", UP),
    "21_terminate_cluster_request_body.json": ("delete", UP),
    "24_edit_cluster_request_body.json": ("edit", DOWN),
    "27_resize_cluster_request_body.json": ("resize", UP),
    "28_resize_cluster_request_body_2.json": ("resize", UP),
    "31_pin_cluster_request_body.json": ("pin", UP),
    "33_unpin_cluster_request_body.json": ("unpin", UP),
    "39_get_cluster_events_request_body.json": ("events", UP),
}
CREATED = {
    "02_create_cluster_request_body_examples_single_node_cluster.json",
    "03_create_cluster_request_body_examples_standard_multi_node_cluster.json",
    "04_create_cluster_request_body_examples_autoscaling_cluster.json",
}
ANSWERED = {
    "07_create_cluster_response.json",
    "08_create_cluster_error_responses.json",
    "11_get_cluster_response.json",
    "14_list_clusters_response.json",
}


def test_every_json_of_the_guide_is_tried() -> None:
    assert set(POSTED) | CREATED | ANSWERED == {path.name for path in EXAMPLES.glob("*.json")}


@pytest.mark.parametrize("name", POSTED)
def test_a_request_body_is_accepted_as_it_stands(guide: Guide, name: str) -> None:
    verb, before = POSTED[name]
    guide.bring_to(before)
    status, answer = guide.call("POST", verb, body=read(name))
    if "autoscale" in body(name) and "autoscale" in REFUSED:
        assert (status, answer["error_code"]) == (400, "INVALID_PARAMETER_VALUE")
        assert "autoscale" in answer["message"]
    else:
        assert status == 200, answer
    guide.reset()


@pytest.mark.parametrize("name", sorted(CREATED))
def test_a_cluster_is_created_from_a_body_as_it_stands(guide: Guide, name: str) -> None:
    asked = body(name)
    status, answer = guide.call("POST", "create", body=read(name))
    if "autoscale" in asked and "autoscale" in REFUSED:
        assert (status, answer["error_code"]) == (400, "INVALID_PARAMETER_VALUE")
        return
    assert status == 200, answer
    same_shape(body("07_create_cluster_response.json"), answer)
    guide.w.clusters.wait_get_cluster_running(answer["cluster_id"], timeout=SOON)
    _, found = guide.call("GET", "get", cluster_id=answer["cluster_id"])
    assert {key: found[key] for key in asked} == asked
    guide.w.clusters.permanent_delete(answer["cluster_id"])


def test_get_has_every_field_of_the_guides_response(guide: Guide) -> None:
    expected = body("11_get_cluster_response.json")
    given = (
        "cluster_name",
        "spark_version",
        "node_type_id",
        "num_workers",
        "autotermination_minutes",
        "spark_conf",
        "custom_tags",
    )
    asked = {key: expected[key] for key in (*given, "aws_attributes")}
    _, made = guide.call("POST", "create", body=json.dumps(asked))
    guide.w.clusters.wait_get_cluster_running(made["cluster_id"], timeout=SOON)
    status, found = guide.call("GET", "get", cluster_id=made["cluster_id"])
    assert status == 200
    same_shape(expected, found)
    ours = {"cluster_id": made["cluster_id"], "start_time": found["start_time"], "creator_user_name": found["creator_user_name"]}
    assert {key: found[key] for key in expected} == expected | ours
    guide.w.clusters.permanent_delete(made["cluster_id"])


def test_get_has_them_for_a_cluster_that_says_little_about_itself(guide: Guide) -> None:
    _, made = guide.call(
        "POST", "create", body=json.dumps({"spark_version": RUNTIME, "node_type_id": NODE_TYPE, "num_workers": 1})
    )
    _, found = guide.call("GET", "get", cluster_id=made["cluster_id"])
    for field, value in body("11_get_cluster_response.json").items():
        assert type(found[field]) is type(value), field
    assert found["aws_attributes"].keys() == {"availability", "zone_id"}
    guide.w.clusters.permanent_delete(made["cluster_id"])


def test_list_has_every_field_of_the_guides_response(guide: Guide) -> None:
    guide.bring_to(UP)
    other = guide.w.clusters.create(RUNTIME, node_type_id=NODE_TYPE, num_workers=4, cluster_name="another").result(timeout=SOON)
    assert other.cluster_id
    guide.w.clusters.delete(other.cluster_id).result(timeout=SOON)
    expected, (status, found) = body("14_list_clusters_response.json"), guide.call("GET", "list")
    assert status == 200
    ours = {each["cluster_id"]: each for each in found["clusters"]}
    for theirs, name in zip(expected["clusters"], (CLUSTER_ID, other.cluster_id), strict=True):
        same_shape(theirs, ours[name])
        assert {key: ours[name][key] for key in ("state", "num_workers")} == {
            key: theirs[key] for key in ("state", "num_workers")
        }
    guide.w.clusters.permanent_delete(other.cluster_id)


def test_an_error_has_the_guides_fields_code_and_wording(guide: Guide) -> None:
    expected = body("08_create_cluster_error_responses.json")
    asked = {"cluster_name": "none", "spark_version": RUNTIME, "node_type_id": NODE_TYPE, "num_workers": 0}
    status, found = guide.call("POST", "create", body=json.dumps(asked))
    assert status == 400
    same_shape(expected, found)
    assert found["error_code"] == expected["error_code"]
    assert expected["message"] in found["message"]


def same_shape(theirs: dict[str, Any], ours: dict[str, Any]) -> None:
    """Every field of theirs is in ours, with a value of the same type, at every depth."""
    for key, value in theirs.items():
        assert key in ours, f"{key} is missing"
        assert type(ours[key]) is type(value), f"{key} is {ours[key]!r}, and not such as {value!r}"
        if isinstance(value, dict):
            same_shape(value, ours[key])
