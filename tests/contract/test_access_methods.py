"""Every method of the SDK's services for access is called once and answers; and the calls of tools around them."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import requests
from databricks.sdk import WorkspaceClient
from databricks.sdk.common.types.fieldmask import FieldMask
from databricks.sdk.errors import NotFound
from databricks.sdk.service import compute, iam, settings

from tests.support.patience import PATIENCE_S
from tests.support.server import TOKEN, Server

SERVICES = (
    "users", "groups", "service_principals", "permissions", "current_user", "tokens", "token_management", "cluster_policies",
    "policy_families", "policy_compliance_for_clusters", "service_principal_secrets_proxy",
)  # fmt: skip
# There are no passwords here (docs/parity.md).
ABSENT = {f"users.{verb}" for verb in ("get_permission_levels", "get_permissions", "set_permissions", "update_permissions")}
PATCH_SCHEMA = [iam.PatchSchema.URN_IETF_PARAMS_SCIM_API_MESSAGES_2_0_PATCH_OP]


class Recorded:
    """The services of a client. `called` has the methods that were used."""

    def __init__(self, w: WorkspaceClient) -> None:
        self.w = w
        self.called: set[str] = set()

    def __call__(self, name: str, /, *given: Any, **fields: Any) -> Any:
        service, _, method = name.partition(".")
        self.called.add(name)
        found = getattr(getattr(self.w, service), method)(*given, **fields)
        return list(found) if isinstance(found, Iterator) else found


@pytest.fixture(scope="module")
def every(w: WorkspaceClient) -> Iterator[Recorded]:
    """When the module is done, nothing may be missing."""
    recorded = Recorded(w)
    yield recorded
    there = {
        f"{service}.{name}"
        for service in SERVICES
        for name, _ in inspect.getmembers(type(getattr(w, service)), inspect.isfunction)
        if not name.startswith("_")
    }
    assert there - recorded.called == ABSENT


def mask(field: str) -> FieldMask:
    return FieldMask([field])  # type: ignore[no-untyped-call] # of the SDK


def test_identities(every: Recorded) -> None:
    change = {"operations": [iam.Patch(op=iam.PatchOp.REPLACE, path="displayName", value="Second")], "schemas": PATCH_SCHEMA}
    resources: tuple[tuple[str, dict[str, str], str], ...] = (
        ("users", {"user_name": "first@example.com"}, 'userName eq "first@example.com"'),
        ("groups", {"display_name": "first"}, 'displayName eq "Second"'),
        ("service_principals", {"display_name": "first"}, 'displayName eq "Second"'),
    )
    for service, named, found_by in resources:
        made = every(f"{service}.create", **named)
        every(f"{service}.patch", made.id, **change)
        assert [each.id for each in every(f"{service}.list", filter=found_by)] == [made.id]
        assert every(f"{service}.get", made.id).display_name == "Second"
        kept = {"application_id": made.application_id} if service == "service_principals" else named
        every(f"{service}.update", made.id, **kept | {"display_name": "Third"})
        assert every(f"{service}.get", made.id).display_name == "Third"
        every(f"{service}.delete", made.id)
        with pytest.raises(NotFound):
            every(f"{service}.get", made.id)
    assert every("current_user.me").user_name


def test_tokens_and_secrets(every: Recorded) -> None:
    own = every("tokens.create", comment="a").token_info.token_id
    every("tokens.update", own, settings.PublicTokenInfo(comment="b", token_id=own), mask("comment"))
    assert {each.token_id: each.comment for each in every("tokens.list")}[own] == "b"
    every("tokens.delete", own)
    robot = every("service_principals.create", display_name="robot")
    behalf = every("token_management.create_obo_token", robot.application_id, comment="c").token_info.token_id
    every("token_management.update_token_management", behalf, settings.TokenInfo(comment="d"), mask("comment"))
    assert every("token_management.get", behalf).token_info.comment == "d"
    assert behalf in [each.token_id for each in every("token_management.list")]
    every("token_management.delete", behalf)
    secret = every("service_principal_secrets_proxy.create", robot.id)
    assert [each.id for each in every("service_principal_secrets_proxy.list", robot.id)] == [secret.id]
    every("service_principal_secrets_proxy.delete", robot.id, secret.id)
    every("service_principals.delete", robot.id)


def test_policies_their_permissions_and_compliance(every: Recorded, w: WorkspaceClient) -> None:
    made = every("cluster_policies.create", name="first", definition="{}").policy_id
    users = compute.ClusterPolicyAccessControlRequest(
        group_name="users", permission_level=compute.ClusterPolicyPermissionLevel.CAN_USE
    )
    found = every("cluster_policies.set_permissions", made, access_control_list=[users])
    assert "users" in [each.group_name for each in found.access_control_list]
    assert every("cluster_policies.update_permissions", made, access_control_list=[users]) == found
    assert every("cluster_policies.get_permissions", made) == found
    levels = every("cluster_policies.get_permission_levels", made).permission_levels
    assert [each.permission_level.value for each in levels] == ["CAN_USE"]
    assert made in [each.policy_id for each in every("cluster_policies.list")]
    wanted = {"cluster_name": "c", "spark_version": "17.3.x-scala2.13", "node_type_id": "i3.xlarge", "num_workers": 1}
    cluster: Any = w.clusters.create(policy_id=made, **wanted).response  # type: ignore[arg-type] # the SDK's own
    rules = {"custom_tags.team": {"type": "fixed", "value": "x"}}
    every("cluster_policies.edit", made, name="second", definition=json.dumps(rules))
    assert every("cluster_policies.get", made).name == "second"
    compliance = "policy_compliance_for_clusters"
    assert every(f"{compliance}.get_compliance", cluster.cluster_id).is_compliant is False
    assert [each.cluster_id for each in every(f"{compliance}.list_compliance", made)] == [cluster.cluster_id]
    assert every(f"{compliance}.enforce_compliance", cluster.cluster_id, validate_only=True).has_changes
    every(f"{compliance}.cancel_pending_cluster_enforcement", cluster.cluster_id, allow_missing=True)
    w.clusters.permanent_delete(cluster.cluster_id)
    every("cluster_policies.delete", made)
    families = every("policy_families.list")
    assert len(families) == 5
    assert every("policy_families.get", families[0].policy_family_id) == families[0]


def test_permissions_of_objects_and_of_tokens(every: Recorded) -> None:
    made = every("cluster_policies.create", name="shared", definition="{}").policy_id
    users = iam.AccessControlRequest(group_name="users", permission_level=iam.PermissionLevel.CAN_USE)
    found = every("permissions.set", "cluster-policies", made, access_control_list=[users])
    assert every("permissions.update", "cluster-policies", made, access_control_list=[users]) == found
    assert every("permissions.get", "cluster-policies", made) == found
    assert every("permissions.get_permission_levels", "cluster-policies", made).permission_levels
    before = every("token_management.get_permissions")
    asked = settings.TokenAccessControlRequest(group_name="users", permission_level=settings.TokenPermissionLevel.CAN_USE)
    now = every("token_management.update_permissions", access_control_list=[asked])
    assert every("token_management.set_permissions", access_control_list=[asked]) == now
    assert [each.permission_level.value for each in every("token_management.get_permission_levels").permission_levels]
    if "users" not in [each.group_name for each in before.access_control_list]:
        every("token_management.set_permissions", access_control_list=[])
    every("cluster_policies.delete", made)


Ask = Callable[..., requests.Response]


@pytest.fixture
def ask(server: Server) -> Iterator[Ask]:
    with requests.Session() as session:
        session.trust_env = False
        session.headers["Authorization"] = f"Bearer {TOKEN}"

        def call(method: str, path: str, **sent: Any) -> requests.Response:
            answer = session.request(method, server.url + path, timeout=PATIENCE_S, **sent)
            assert answer.ok, (method, path, answer.text)
            return answer

        yield call


def test_what_terraform_does(ask: Ask) -> None:
    """Its resources user, group, group_member, entitlements, cluster_policy and permissions: created, read back, imported by
    their ids, changed and destroyed."""
    scim = "/api/2.0/preview/scim/v2"
    group = ask("POST", f"{scim}/Groups", json={
        "schemas": ["urn:ietf:params:scim:schemas:core:2.0:Group"], "displayName": "terraformed",
        "entitlements": [{"value": "allow-cluster-create"}],
    }).json()["id"]  # fmt: skip
    user = ask("POST", f"{scim}/Users", json={
        "schemas": ["urn:ietf:params:scim:schemas:core:2.0:User"], "userName": "tf@example.com", "active": True,
    }).json()["id"]  # fmt: skip
    member = {"op": "add", "path": "members", "value": [{"value": user}]}
    patch = {"schemas": ["urn:ietf:params:scim:api:messages:2.0:PatchOp"]}
    ask("PATCH", f"{scim}/Groups/{group}", json=patch | {"Operations": [member]})
    read = ask("GET", f"{scim}/Groups/{group}", params={"attributes": "displayName,externalId,entitlements"}).json()
    assert (read["displayName"], read["entitlements"]) == ("terraformed", [{"value": "allow-cluster-create"}])
    assert "members" not in read
    read = ask("GET", f"{scim}/Users/{user}", params={"attributes": "userName,displayName,active,externalId,entitlements,groups"})
    assert {each["value"] for each in read.json()["groups"]} >= {group}
    entitlements = {"op": "replace", "path": "entitlements", "value": [{"value": "workspace-access"}]}
    ask("PATCH", f"{scim}/Users/{user}", json=patch | {"Operations": [entitlements]})
    read = ask("GET", f"{scim}/Users", params={"filter": 'userName eq "tf@example.com"', "excludedAttributes": "roles"}).json()
    assert [each["entitlements"] for each in read["Resources"]] == [[{"value": "workspace-access"}]]

    policy = ask("POST", "/api/2.0/policies/clusters/create", json={"name": "tf", "definition": "{}"}).json()["policy_id"]
    place = f"/api/2.0/permissions/cluster-policies/{policy}"
    ask("PUT", place, json={"access_control_list": [{"group_name": "terraformed", "permission_level": "CAN_USE"}]})
    imported, me = ask("GET", place).json(), ask("GET", f"{scim}/Me").json()["userName"]
    assert imported["object_id"] == f"/cluster-policies/{policy}"
    direct = [
        (entry.get("group_name"), each["permission_level"])
        for entry in imported["access_control_list"]
        for each in entry["all_permissions"]
        if not each.get("inherited") and entry.get("user_name") != me  # who calls is left out there, too
    ]
    assert direct == [("terraformed", "CAN_USE")]
    ask("PUT", place, json={"access_control_list": []})
    assert "terraformed" not in ask("GET", place).text
    remove = {"op": "remove", "path": f'members[value eq "{user}"]'}
    ask("PATCH", f"{scim}/Groups/{group}", json=patch | {"Operations": [remove]})
    for path in (f"{scim}/Users/{user}", f"{scim}/Groups/{group}"):
        ask("DELETE", path)
    ask("POST", "/api/2.0/policies/clusters/delete", json={"policy_id": policy})


def test_what_the_older_cli_calls(ask: Ask) -> None:
    """databricks-cli 0.18: `cluster-policies` and `tokens`; `groups` is in test_named_groups.py. GET with its arguments in the
    query, POST with everything that the user left out as it was."""
    policies, tokens = "/api/2.0/policies/clusters", "/api/2.0/token"
    made = ask("POST", f"{policies}/create", json={"name": "old", "definition": "{}"}).json()["policy_id"]
    ask("POST", f"{policies}/edit", json={"policy_id": made, "name": "older", "definition": "{}"})
    assert ask("GET", f"{policies}/get", params={"policy_id": made}).json()["name"] == "older"
    assert made in ask("GET", f"{policies}/list").text
    ask("POST", f"{policies}/delete", json={"policy_id": made})
    token = ask("POST", f"{tokens}/create", json={"lifetime_seconds": 600, "comment": "old"}).json()["token_info"]["token_id"]
    assert token in ask("GET", f"{tokens}/list").text
    ask("POST", f"{tokens}/delete", json={"token_id": token})
    assert token not in ask("GET", f"{tokens}/list").text
