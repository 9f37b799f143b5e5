"""SCIM as Terraform's provider, the Databricks CLI and the Go SDK write it, which is not always how the RFC has it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import requests
from databricks.sdk import WorkspaceClient
from databricks.sdk.errors import ResourceConflict
from databricks.sdk.service import iam

from tests.support.server import TOKEN, Server

SCIM = "/api/2.0/preview/scim/v2"
NONE: list[Any] = [{}]  # what Go writes for a list with one empty value
PATCH = ["urn:ietf:params:scim:api:messages:2.0:PatchOp"]


@pytest.fixture
def http(server: Server) -> Iterator[requests.Session]:
    with requests.Session() as session:
        session.trust_env = False
        session.headers["Authorization"] = f"Bearer {TOKEN}"
        yield session


@pytest.mark.parametrize("quote", ["", "'", '"'])
def test_the_value_of_a_filter_needs_no_double_quotes(w: WorkspaceClient, quote: str) -> None:
    name = f"sp-{len(quote)}{ord(quote or 'x')}"
    made = w.service_principals.create(display_name=name)
    user = w.users.create(user_name=f"{name}@example.com")
    group = w.groups.create(display_name=name)
    assert made.id and user.id and group.id
    found = [
        *w.service_principals.list(filter=f"displayName eq {quote}{name}{quote}"),
        *w.service_principals.list(filter=f"applicationId eq {quote}{made.application_id}{quote}"),
        *w.service_principals.list(filter=f"id eq {quote}{made.id}{quote}"),
    ]
    assert [each.id for each in found] == [made.id] * 3
    assert [each.id for each in w.users.list(filter=f"userName eq {quote}{name}@example.com{quote}")] == [user.id]
    assert [each.id for each in w.groups.list(filter=f"displayName eq {quote}{name}{quote}")] == [group.id]


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("Users", {"userName": "tf@example.com"}),
        ("ServicePrincipals", {"displayName": "tf"}),
        ("Groups", {"displayName": "tf"}),
    ],
)
def test_what_terraform_sends(server: Server, http: requests.Session, kind: str, names: dict[str, str]) -> None:
    url = f"{server.url}{SCIM}/{kind}"
    lists = {"entitlements": NONE, "roles": [{"value": ""}], "groups": NONE}
    made = http.post(url, json={**names, **lists, "active": True})
    assert made.status_code == 201, made.text
    assert not made.json().keys() & {"entitlements", "roles"}
    one = f"{url}/{made.json()['id']}"
    # As its resources read: without the names that they then use.
    read = http.get(one, params={"attributes": "entitlements"}).json()
    assert {key: read[key] for key in names} == names
    assert ("applicationId" in read) == (kind == "ServicePrincipals")
    change: dict[str, Any] = {
        "op": "replace",
        "path": "entitlements",
        "value": [{"value": "allow-cluster-create"}, {"value": "workspace-consume"}],
    }
    assert http.patch(one, json={"schemas": PATCH, "Operations": [change]}).ok
    assert [each["value"] for each in http.get(one).json()["entitlements"]] == ["allow-cluster-create", "workspace-consume"]
    assert http.patch(one, json={"schemas": PATCH, "Operations": [change | {"value": NONE}]}).ok
    assert "entitlements" not in http.get(one).json()
    assert http.put(one, json={**names, **lists, "active": True}).ok
    if kind != "Groups":
        # `disable_as_user_deletion`
        off: dict[str, Any] = {"op": "replace", "path": "active", "value": [{"value": "false"}]}
        assert http.patch(one, json={"schemas": PATCH, "Operations": [off]}).ok
        assert http.get(one).json()["active"] is False
        assert http.patch(one, json={"schemas": PATCH, "Operations": [off | {"value": NONE}]}).status_code == 400
        assert http.get(one).json()["active"] is False


def test_a_duplicate_has_the_words_that_terraform_compares(w: WorkspaceClient, server: Server, http: requests.Session) -> None:
    w.users.create(user_name="twice@example.com")
    principal = w.service_principals.create(display_name="twice")
    w.groups.create(display_name="twice")
    for kind, body, words in (
        ("Users", {"userName": "Twice@example.com"}, "User with username twice@example.com already exists."),
        (
            "ServicePrincipals",
            {"applicationId": principal.application_id},
            f"Service principal with application ID {principal.application_id} already exists.",
        ),
        ("Groups", {"displayName": "twice"}, "Group with name twice already exists."),
    ):
        answer = http.post(f"{server.url}{SCIM}/{kind}", json=body)
        assert (answer.status_code, answer.json()["detail"], answer.json().get("scimType", "")) == (409, words, "")
    with pytest.raises(ResourceConflict) as caught:
        w.groups.create(display_name="twice")
    assert str(caught.value) == "Group with name twice already exists."  # the SDK prints the type before it


def test_names_of_users_are_in_lower_case(w: WorkspaceClient) -> None:
    made = w.users.create(user_name="Anna.Smith@Example.COM")
    assert made.user_name == "anna.smith@example.com"
    assert w.workspace.get_status("/Users/anna.smith@example.com").object_id
    w.users.update(made.id or "", user_name="Anna.Smith@Example.COM", active=True)
    assert w.users.get(made.id or "").user_name == "anna.smith@example.com"


def test_a_new_user_and_a_service_principal_have_a_home(w: WorkspaceClient, server: Server, http: requests.Session) -> None:
    user = w.users.create(user_name="home@example.com")
    principal = w.service_principals.create(display_name="home")
    homes = {each.path for each in w.workspace.list("/Users")}
    assert homes >= {"/Users/home@example.com", f"/Users/{principal.application_id}"}
    w.workspace.delete("/Users/home@example.com", recursive=True)
    for _ in range(2):  # there already, it stays
        made = http.put(f"{server.url}/api/2.0/workspace/user/{user.id}/homefolder")
        assert made.status_code == 200, made.text
        assert w.workspace.get_status("/Users/home@example.com").object_id
    assert http.put(f"{server.url}/api/2.0/workspace/user/17/homefolder").status_code == 404


def test_a_service_principal_is_found_by_its_user_name(w: WorkspaceClient, server: Server) -> None:
    """Terraform adds its caller to every list by `user_name`, whatever it is."""
    robot = w.service_principals.create(display_name="robot", entitlements=[iam.ComplexValue(value="allow-instance-pool-create")])
    assert robot.application_id
    token = w.token_management.create_obo_token(robot.application_id).token_value
    own = WorkspaceClient(host=server.url, token=token or "")
    me = own.current_user.me().user_name
    assert me == robot.application_id
    pool = own.instance_pools.create(instance_pool_name="robots", node_type_id="i3.xlarge").instance_pool_id or ""
    manage = iam.AccessControlRequest(user_name=me, permission_level=iam.PermissionLevel.CAN_MANAGE)
    users = iam.AccessControlRequest(group_name="users", permission_level=iam.PermissionLevel.CAN_ATTACH_TO)
    own.permissions.set("instance-pools", pool, access_control_list=[manage, users])
    found = own.permissions.get("instance-pools", pool).access_control_list or []
    assert me in [each.service_principal_name for each in found]
    w.permissions.update(
        "authorization",
        "tokens",
        access_control_list=[iam.AccessControlRequest(user_name=me, permission_level=iam.PermissionLevel.CAN_USE)],
    )
    listed = w.permissions.get("authorization", "tokens").access_control_list or []
    admins = next(each for each in listed if each.group_name == "admins")
    assert [(each.permission_level, each.inherited) for each in admins.all_permissions or []] == [
        (iam.PermissionLevel.CAN_MANAGE, False)
    ]


@pytest.mark.parametrize("prefix", ["", "urn:ietf:params:scim:schemas:core:2.0:Group:"])
def test_a_list_has_the_attributes_that_are_asked_for_with_or_without_their_schema(
    w: WorkspaceClient, server: Server, http: requests.Session, prefix: str
) -> None:
    name = f"asked{len(prefix)}"
    user = w.users.create(user_name=f"{name}@example.com")
    w.groups.create(display_name=name, members=[iam.ComplexValue(value=user.id)])
    asked = {"filter": f'displayName eq "{name}"', "attributes": f"{prefix}members"}
    (group,) = http.get(f"{server.url}{SCIM}/Groups", params=asked).json()["Resources"]
    assert [each["value"] for each in group["members"]] == [user.id]
    asked = {"filter": f'displayName eq "{name}"', "excludedAttributes": f"{prefix}members"}
    (group,) = http.get(f"{server.url}{SCIM}/Groups", params=asked).json()["Resources"]
    assert "members" not in group
