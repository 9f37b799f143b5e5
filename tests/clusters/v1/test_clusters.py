"""The /v1/clusters API over HTTP: its envelope, its errors, and that it is about the same clusters as the other dialect."""

from __future__ import annotations

import json
from typing import Any

import pytest
import requests
from databricks.sdk import WorkspaceClient
from databricks.sdk.service import compute

from brickyard.providers.nodetypes import cloud_types
from brickyard.providers.simulated import Knobs, SimulatedProvider
from tests.clusters.v1.conftest import Api
from tests.support.patience import PATIENCE_S, until
from tests.support.server import Server

TYPES = {each.node_type_id: each for each in cloud_types()}
PHASES = [
    "validating_configuration",
    "acquiring_instances",
    "restoring_snapshot",
    "updating_configuration",
    "starting_services",
    "health_checks",
]


def test_a_cluster_is_created_listed_shown_stopped_started_and_deleted(api: Api) -> None:
    answer = api.call("POST", "", {"name": "a-cluster", "cpu_cores": 4, "memory_gb": 16, "description": "for tests"})
    assert answer.status_code == 201
    made = answer.json()["data"]
    cluster_id = made["id"]
    assert (made["name"], made["description"], made["status"]) == ("a-cluster", "for tests", "starting")
    assert answer.headers["location"] == f"/v1/clusters/{cluster_id}/operations/{made['operation']['id']}"
    assert int(answer.headers["retry-after"]) >= 1
    running = api.until(cluster_id, "running")
    size = TYPES[running["configuration"]["node_type_id"]]
    assert (size.num_cores, size.memory_mb) >= (4, 16 * 1024)
    assert running["cost"]["current_hourly_rate"] == pytest.approx(size.price_per_hour)
    stopped = api.data("POST", f"/{cluster_id}/stop", {"stop_reason": "lunch", "wait_for_completion": True})
    assert (stopped["status"], stopped["cost"]["current_hourly_rate"]) == ("stopped", 0)
    assert "lunch" in stopped["status_details"]
    started = api.data("POST", f"/{cluster_id}/start", {"wait_for_ready": True, "timeout_minutes": 5})
    assert (started["status"], started["operation"]["status"]) == ("running", "completed")
    assert api.error("DELETE", f"/{cluster_id}", confirm_deletion="DELETE")[:2] == (409, "STATE_CONFLICT")
    assert api.data("DELETE", f"/{cluster_id}", confirm_deletion="DELETE", force="true") == {"id": cluster_id, "deleted": True}
    assert api.error("GET", f"/{cluster_id}") == (404, "RESOURCE_NOT_FOUND", {"resource": "cluster", "id": cluster_id})


def test_what_is_created_here_is_there_and_the_other_way_round(api: Api, w: WorkspaceClient) -> None:
    made = api.stopped(
        name="both-ways",
        environment_variables={"A": "1"},
        tags={"team": "x"},
        auto_terminate={"enabled": True, "idle_minutes": 30},
        gpu_type="t4",
        gpu_count=1,
    )
    there = w.clusters.get(made)
    assert (there.cluster_name, there.autotermination_minutes) == ("both-ways", 30)
    assert there.spark_env_vars == {"A": "1"}
    assert there.custom_tags is not None
    assert there.custom_tags["team"] == "x"
    size = TYPES[str(there.node_type_id)]
    assert (size.num_gpus, size.gpu_model) == (1, "T4")
    edited = compute.UpdateClusterResource(
        cluster_name="other-name", spark_env_vars={"B": "2"}, autotermination_minutes=0, custom_tags={"team": "y"}
    )
    larger = next(each for each in cloud_types() if each.num_gpus == 4 and each.gpu_model == "T4")
    edited.node_type_id = larger.node_type_id
    w.clusters.update(made, "cluster_name,spark_env_vars,autotermination_minutes,custom_tags,node_type_id", cluster=edited)
    here = api.data("GET", f"/{made}")
    assert (here["name"], here["environment"], here["tags"]["team"]) == ("other-name", {"B": "2"}, "y")
    assert (here["auto_terminate"]["enabled"], here["auto_terminate"]["idle_minutes"]) == (False, None)
    assert here["configuration"]["gpu_count"] == 4
    assert here["configuration"]["cpu_cores"] == larger.num_cores
    assert here["owner"] == there.creator_user_name
    w.clusters.start(made).result()
    assert api.data("GET", f"/{made}")["operation"]["status"] == "completed"
    api.data("POST", f"/{made}/stop", {}, expect=202)
    w.clusters.wait_get_cluster_terminated(made)
    kinds = [str(event.type.value) for event in w.clusters.events(made) if event.type is not None]
    assert {"CREATING", "EDITED", "STARTING", "RUNNING", "TERMINATING"} <= set(kinds)
    other = w.clusters.create("17.3.x-scala2.13", cluster_name="made there", node_type_id="i3.xlarge", num_workers=2).result()
    shown = api.data("GET", f"/{other.cluster_id}", include_cost_breakdown="true")
    assert (shown["name"], shown["status"], shown["configuration"]["num_workers"]) == ("made there", "running", 2)
    assert shown["cost"]["total"] >= 0
    assert [phase["name"] for phase in shown["operation"]["phases"]] == PHASES


def test_a_start_changes_everything_at_once(api: Api, w: WorkspaceClient) -> None:
    cluster_id = api.stopped(
        environment_variables={"KEPT": "1", "GONE": "2"}, auto_terminate={"enabled": True, "idle_minutes": 20}
    )
    body = {
        "wait_for_ready": True,
        "update_configuration": {"cpu_cores": 16},
        "environment_updates": {"GONE": None, "NEW": "3"},
        "auto_terminate_updates": {"idle_minutes": 45},
    }
    started = api.data("POST", f"/{cluster_id}/start", body)
    assert started["status"] == "running"
    assert started["environment"] == {"KEPT": "1", "NEW": "3"}
    assert started["configuration"]["cpu_cores"] >= 16
    assert (started["auto_terminate"]["enabled"], started["auto_terminate"]["idle_minutes"]) == (True, 45)
    there = w.clusters.get(cluster_id)
    assert (there.spark_env_vars, there.autotermination_minutes) == ({"KEPT": "1", "NEW": "3"}, 45)
    assert there.driver is not None
    again = api.data("POST", f"/{cluster_id}/restart", {"wait_for_ready": True, "environment_updates": {"NEW": None}})
    assert (again["environment"], again["operation"]["kind"]) == ({"KEPT": "1"}, "restart")
    plain = api.data("POST", f"/{cluster_id}/restart", {"wait_for_ready": True, "auto_terminate_updates": {"idle_minutes": None}})
    assert plain["auto_terminate"]["enabled"] is False


def test_a_request_with_bad_parts_lists_all_of_them_and_changes_nothing(api: Api, w: WorkspaceClient) -> None:
    cluster_id = api.stopped(environment_variables={"A": "1"})
    before = w.clusters.get(cluster_id).as_dict()
    body = {
        "timeout_minutes": 31,
        "update_configuration": {"cpu_cores": 100_000, "storage_gb": 0, "docker_image": "x"},
        "restore_from_snapshot": "snap_1",
        "environment_updates": {"A": "2", "SPARK_HOME": "/x"},
        "port_mapping_updates": [{"internal_port": 80}],
        "auto_terminate_updates": {"idle_minutes": 3, "max_cost": -1.5, "at": "2026-01-01T00:00:00Z", "max_runtime_minutes": 0},
    }
    status, code, details = api.error("POST", f"/{cluster_id}/start", body)
    assert (status, code) == (422, "SEMANTIC_ERROR")
    assert {each["field"] for each in details["problems"]} == {
        "timeout_minutes",
        "update_configuration.cpu_cores",
        "update_configuration.storage_gb",
        "update_configuration.docker_image",
        "restore_from_snapshot",
        "port_mapping_updates[0].internal_port",
        "environment_updates",
        "auto_terminate_updates.idle_minutes",
        "auto_terminate_updates.max_cost",
        "auto_terminate_updates.at",
        "auto_terminate_updates.max_runtime_minutes",
    }
    assert w.clusters.get(cluster_id).as_dict() == before
    large = next(each for each in details["problems"] if each["field"] == "update_configuration.cpu_cores")
    assert large["requested"]["cpu_cores"] == 100_000
    assert large["available"][-1]["gpu_count"] == 8


def test_an_error_does_not_repeat_what_is_long(api: Api) -> None:
    body = {"name": "x" * 100_000, "gpu_type": "y" * 100_000, "gpu_count": 1, "port_mappings": [{"id": "z" * 100_000}]}
    answer = api.call("POST", "", {**body, "docker_image": "i" * 100_000})
    assert answer.status_code == 422
    assert len(answer.content) < 20_000


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"wait_for_ready": "perhaps"}, "wait_for_ready"),
        ({"update_configuration": {"cores": 3}}, "update_configuration.cores"),
        ({"wait": True}, "wait"),
        ({"environment_updates": {"A": 3.5}}, "environment_updates"),
    ],
)
def test_malformed_requests(api: Api, body: Any, field: str) -> None:
    cluster_id = api.stopped()
    status, code, details = api.error("POST", f"/{cluster_id}/start", body)
    assert (status, code) == (400, "VALIDATION_ERROR")
    assert details["field"].startswith(field)
    assert field in details["reason"]
    assert api.data("GET", f"/{cluster_id}")["status"] == "stopped"


@pytest.mark.parametrize(
    "field",
    [
        {"name": "no spaces"},
        {"name": "ab"},
        {"storage_gb": 0},
        {"storage_gb": 1_000_000_000},
        {"region": "eu"},
        {"project_id": "p"},
        {"template_id": "t"},
        {"docker_image": "d"},
        {"ssh_enabled": True},
        {"ssh_public_keys": ["k"]},
        {"gpu_count": 9, "gpu_type": "T4"},
        {"gpu_count": 1},
        {"gpu_count": 1, "gpu_type": "none such"},
        {"memory_gb": -1},
        {"description": "x" * 1_001},
        {"environment_variables": {"not a name": "1"}},
        {"tags": {"": "x"}},
        {"auto_terminate": {"enabled": False, "idle_minutes": 20}},
        {"auto_terminate": {"at": "18:00"}},
    ],
    ids=str,
)
def test_what_cannot_be_created_is_refused_by_name(api: Api, w: WorkspaceClient, field: dict[str, Any]) -> None:
    before = len(list(w.clusters.list()))
    status, code, details = api.error("POST", "", {"name": "refused", "cpu_cores": 1, **field})
    assert (status, code) == (422, "SEMANTIC_ERROR")
    named = {each["field"].partition(".")[0] for each in details["problems"]}
    assert named & {*field, "gpu_type", "gpu_count"}, details
    assert len(list(w.clusters.list())) == before


def test_states_that_do_not_allow_it(api: Api) -> None:
    running = api.running()
    conflict = {"current_state": "running", "required_state": "stopped"}
    assert api.error("POST", f"/{running}/start", {}) == (409, "STATE_CONFLICT", conflict)
    api.data("POST", f"/{running}/stop", {"wait_for_completion": True})
    conflict = {"current_state": "stopped", "required_state": "running"}
    assert api.error("POST", f"/{running}/stop", {}) == (409, "STATE_CONFLICT", conflict)
    assert api.error("POST", f"/{running}/restart", {}) == (409, "STATE_CONFLICT", conflict)
    wrong = ({"force": True, "grace_period_minutes": 5}, {"grace_period_minutes": 31}, {"grace_period_minutes": -1})
    for field in (*wrong, {"snapshot_name": "without save_state"}):
        assert api.error("POST", f"/{running}/stop", field)[:2] == (422, "SEMANTIC_ERROR")
    contradiction = {"confirm_deletion": "DELETE", "delete_snapshots": "true", "create_final_snapshot": "true"}
    for query in ({}, {"confirm_deletion": "yes"}, contradiction):
        assert api.error("DELETE", f"/{running}", **query)[:2] == (422, "SEMANTIC_ERROR")


def test_a_deletion_may_say_what_it_wants_in_its_body(api: Api) -> None:
    """The query takes precedence, as does the path."""
    cluster_id, other = api.stopped(), api.stopped()
    assert api.error("DELETE", f"/{cluster_id}", {"confirm_deletion": "no"})[:2] == (422, "SEMANTIC_ERROR")
    assert api.error("DELETE", f"/{cluster_id}", {"confirm": "DELETE"})[2]["field"] == "confirm"
    assert api.error("DELETE", f"/{cluster_id}", {"confirm_deletion": "DELETE"}, confirm_deletion="no")[0] == 422
    gone = api.data("DELETE", f"/{cluster_id}", {"confirm_deletion": "DELETE", "cluster_id": other, "force": True})
    assert gone == {"id": cluster_id, "deleted": True}
    assert api.call("GET", f"/{cluster_id}").status_code == 404
    assert api.data("GET", f"/{other}")["status"] == "stopped"


def test_a_repeated_request_finds_its_own_start(api: Api, machines: SimulatedProvider, knobs: Knobs) -> None:
    del knobs
    cluster_id = api.stopped()
    machines.turn(Knobs(start_s=600))
    body = {"environment_updates": {"A": "1"}}
    first = api.data("POST", f"/{cluster_id}/start", body, expect=202)
    again = api.data("POST", f"/{cluster_id}/start", body, expect=202)
    assert again["operation"]["id"] == first["operation"]["id"]
    assert api.error("POST", f"/{cluster_id}/start", {"environment_updates": {"A": "2"}})[:2] == (409, "STATE_CONFLICT")
    machines.turn(Knobs())
    api.data("POST", f"/{cluster_id}/stop", {"wait_for_completion": True})
    keyed = api.data("POST", f"/{cluster_id}/start", body, key="k1", expect=202)
    assert keyed["operation"]["id"] != first["operation"]["id"]
    api.until(cluster_id, "running")
    assert api.error("POST", f"/{cluster_id}/start", body)[:2] == (409, "STATE_CONFLICT"), "a later start is another one"
    late = api.data("POST", f"/{cluster_id}/start", {**body, "wait_for_ready": True}, key="k1")
    assert (late["operation"]["id"], late["status"]) == (keyed["operation"]["id"], "running")
    made = api.data("POST", "", {"name": "with-a-key"}, key="create-1", expect=201)
    assert api.data("POST", "", {"name": "with-a-key"}, key="create-1", expect=201)["id"] == made["id"]


def test_progress_is_shown_while_a_start_goes_on(api: Api, machines: SimulatedProvider, knobs: Knobs) -> None:
    del knobs
    cluster_id = api.running()  # so that it is known how long such a start takes
    api.data("POST", f"/{cluster_id}/stop", {"wait_for_completion": True})
    machines.turn(Knobs(start_s=600))
    view = api.data("POST", f"/{cluster_id}/start", {}, expect=202)

    def there() -> bool:
        phases = {each["name"]: each["status"] for each in api.data("GET", f"/{cluster_id}")["operation"]["phases"]}
        return bool(phases["acquiring_instances"] == "completed")

    until(there)
    operation = api.data("GET", f"/{cluster_id}/operations/{view['operation']['id']}")
    assert (operation["status"], operation["finished_at"]) == ("in_progress", None)
    assert 0 < operation["progress_percent"] < 100
    assert operation["estimated_seconds_left"] >= 1
    assert api.error("GET", f"/{cluster_id}/operations/start-other-1")[:2] == (404, "RESOURCE_NOT_FOUND")
    with requests.get(
        f"{api.url}/v1/clusters/{cluster_id}/progress", headers=api.headers, stream=True, timeout=PATIENCE_S
    ) as stream:
        assert stream.headers["content-type"] == "text/event-stream"
        lines = (line.decode() for line in stream.iter_lines())
        first = json.loads(next(line for line in lines if line.startswith("data: "))[6:])
        assert first["status"] == "in_progress"
        api.data("POST", f"/{cluster_id}/stop", {}, expect=202)
        said = [json.loads(line[6:]) for line in lines if line.startswith("data: ")]
    assert (said[-1]["kind"], said[-1]["status"]) == ("stop", "completed"), "the stream ends with what the start came to"


def test_who_waits_learns_that_the_start_failed(api: Api, machines: SimulatedProvider, knobs: Knobs) -> None:
    del knobs
    cluster_id = api.stopped()
    machines.turn(Knobs(node_failure=1))
    status, code, details = api.error("POST", f"/{cluster_id}/start", {"wait_for_ready": True})
    assert (status, code) == (500, "CLUSTER_START_FAILED")
    failed = api.until(cluster_id, "error")
    assert details["operation"] == failed["operation"]["id"]
    assert failed["operation"]["status"] == "failed"
    assert [each["status"] for each in failed["operation"]["phases"]].count("failed") == 1
    machines.turn(Knobs())
    assert api.data("POST", f"/{cluster_id}/start", {"wait_for_ready": True})["status"] == "running"


def test_a_start_without_room_says_so_before_it_takes_anything_down(
    api: Api, machines: SimulatedProvider, knobs: Knobs, w: WorkspaceClient
) -> None:
    del knobs
    stopped, running = api.stopped(), api.running()
    machines.turn(Knobs(max_instances=len(machines.observe())))
    status, code, details = api.error("POST", f"/{stopped}/start", {"environment_updates": {"A": "1"}})
    assert (status, code) == (422, "SEMANTIC_ERROR")
    assert (details["requested"], details["available"]) == ("1 instances", "0 instances")
    assert w.clusters.get(stopped).spark_env_vars is None
    machines.turn(Knobs(full_types=frozenset(TYPES)))
    driver = w.clusters.get(running).driver
    assert api.error("POST", f"/{running}/restart", {"update_configuration": {"cpu_cores": 32}})[0] == 422
    now = w.clusters.get(running)
    assert (now.driver, now.state) == (driver, compute.State.RUNNING), "it was not taken down"


def test_lists_are_paged_filtered_searched_and_ordered(api: Api) -> None:
    made = [
        api.stopped(name=f"listed-{name}", description=text, **size)
        for name, text, size in (
            ("b", "", {"gpu_type": "T4", "gpu_count": 1}),
            ("a", "the needle", {}),
            ("c", "", {"gpu_type": "A100", "gpu_count": 8}),
        )
    ]
    one, two, three = made

    def ids(**query: Any) -> list[str]:
        return [each["id"] for each in api.data("GET", "", search="listed-", **query)["clusters"]]

    assert ids() == [three, two, one]
    assert ids(sort_order="asc") == [one, two, three]
    assert ids(sort_by="name", sort_order="asc") == [two, one, three]
    assert ids(sort_by="gpu_count") == [three, one, two]
    assert set(ids(sort_by="cost")) == set(ids(sort_by="status")) == set(made)
    assert ids(gpu_type="a100") == [three]
    assert ids(min_gpu_count=1, max_gpu_count=4) == [one]
    assert ids(status="stopped") == [three, two, one]
    assert ids(status="running") == ids(status="error") == ids(status="pending") == []
    page = api.data("GET", "", search="listed-", limit=2, page=2)
    assert [each["id"] for each in page["clusters"]] == [one]
    assert page["pagination"] == {"page": 2, "limit": 2, "total": 3, "total_pages": 2}
    assert api.data("GET", "", limit=1, page=1)["pagination"]["total"] >= 3
    assert [each["id"] for each in api.data("GET", "", search="NEEDLE")["clusters"]] == [two]
    created = api.data("GET", f"/{two}")["created_at"]
    assert ids(created_after=created) == [three]
    assert ids(created_before=created) == [one]
    for wrong in ({"page": 0}, {"limit": 101}, {"sort_by": "size"}, {"created_after": "soon"}, {"filter": "x"}):
        assert api.error("GET", "", **wrong)[:2] == (400, "VALIDATION_ERROR")


def test_errors_of_the_edge_are_in_the_envelope(api: Api, server: Server) -> None:
    assert Api(server.url, "wrong").error("GET")[:2] == (401, "UNAUTHORIZED")
    there_is_none = {"resource": "endpoint", "id": "GET /v1/clusters/x/nothing"}
    assert api.error("GET", "/x/nothing") == (404, "RESOURCE_NOT_FOUND", there_is_none)
    stranger = server.client().users.create(user_name="stranger@example.com")
    assert stranger.id
    token = server.client().api_client.do("POST", "/api/2.1/token-management/tokens", body={"user_name": "stranger@example.com"})
    other, cluster_id = Api(server.url, str(token["token_value"])), api.stopped()
    status, code, details = other.error("POST", f"/{cluster_id}/start", {})
    assert (status, code) == (403, "FORBIDDEN")
    assert details == {"required_permission": "CAN_RESTART", "current_permissions": []}
    assert other.data("GET")["clusters"] == []
    w = server.client()
    may_restart = compute.ClusterAccessControlRequest(
        user_name="stranger@example.com", permission_level=compute.ClusterPermissionLevel.CAN_RESTART
    )
    w.clusters.update_permissions(cluster_id, access_control_list=[may_restart])
    details = other.error("POST", f"/{cluster_id}/start", {"environment_updates": {"A": "1"}})[2]
    assert details == {"required_permission": "CAN_MANAGE", "current_permissions": ["CAN_ATTACH_TO", "CAN_RESTART"]}
    assert other.data("POST", f"/{cluster_id}/start", {"wait_for_ready": True})["status"] == "running"
