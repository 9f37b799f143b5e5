"""The groups API from before SCIM, as databricks-cli 0.18 calls it: arguments of GET in the query, of POST in the body."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import requests
from databricks.sdk import WorkspaceClient

from tests.support.server import TOKEN, Server


class Groups:
    """Calls of `databricks_cli.sdk.GroupsService`: fields that are None are left out."""

    def __init__(self, url: str, token: str = TOKEN) -> None:
        self.url = f"{url}/api/2.0/groups/"
        self.session = requests.Session()
        self.session.trust_env = False
        self.session.headers["Authorization"] = f"Bearer {token}"

    def get(self, verb: str, **fields: str) -> Any:
        return self.session.get(self.url + verb, params=fields).json()

    def post(self, verb: str, **fields: str) -> Any:
        return self.session.post(self.url + verb, json=fields).json()


@pytest.fixture
def groups(server: Server) -> Iterator[Groups]:
    client = Groups(server.url)
    with client.session:
        yield client


def code(answer: dict[str, str]) -> str:
    assert answer["message"]
    return answer["error_code"]


def test_groups_by_name(groups: Groups, w: WorkspaceClient) -> None:
    """They are the groups of SCIM."""
    anna = w.users.create(user_name="anna.groups@example.com")
    robot = w.service_principals.create(display_name="robot")
    assert groups.post("create", group_name="Gryffindor") == {"group_name": "Gryffindor"}
    assert groups.post("create", group_name="Students") == {"group_name": "Students"}
    assert code(groups.post("create", group_name="gryffindor")) == "RESOURCE_ALREADY_EXISTS"
    assert groups.get("list") == {"group_names": ["admins", "users", "Gryffindor", "Students"]}
    for member in (
        {"user_name": "Anna.Groups@example.com"},
        {"group_name": "Students"},
        {"user_name": robot.application_id or ""},
    ):
        for _again in range(2):
            assert groups.post("add-member", parent_name="Gryffindor", **member) == {}
    told = groups.get("list-members", group_name="Gryffindor")["members"]
    assert told == [
        *sorted([{"user_name": anna.user_name}, {"user_name": robot.application_id}], key=lambda each: str(each["user_name"])),
        {"group_name": "Students"},
    ]
    assert groups.get("list-members", group_name="Students") == {"members": []}
    assert groups.get("list-parents", user_name="anna.groups@example.com") == {"group_names": ["Gryffindor", "users"]}
    assert groups.get("list-parents", group_name="Students") == {"group_names": ["Gryffindor"]}
    assert groups.get("list-parents", group_name="Gryffindor") == {"group_names": []}
    assert {"user_name": anna.user_name} in groups.get("list-members", group_name="users")["members"]
    scim = next(iter(w.groups.list(filter='displayName eq "Gryffindor"')))
    assert {each.value for each in scim.members or []} >= {anna.id, robot.id}

    assert code(groups.post("add-member", parent_name="Students", group_name="Gryffindor")) == "INVALID_PARAMETER_VALUE", (
        "a circle"
    )
    assert groups.post("remove-member", parent_name="Gryffindor", user_name="anna.groups@example.com") == {}
    again = groups.post("remove-member", parent_name="Gryffindor", user_name="anna.groups@example.com")
    assert code(again) == "RESOURCE_DOES_NOT_EXIST"
    assert groups.post("delete", group_name="Gryffindor") == {}
    assert groups.get("list-parents", group_name="Students") == {"group_names": []}
    assert groups.post("delete", group_name="Students") == {}
    w.users.delete(anna.id or "")
    w.service_principals.delete(robot.id or "")


def test_what_is_refused(groups: Groups, server: Server, w: WorkspaceClient) -> None:
    for verb, fields in (
        ("add-member", {"parent_name": "nowhere", "group_name": "admins"}),
        ("add-member", {"parent_name": "admins", "user_name": "nobody@example.com"}),
        ("add-member", {"parent_name": "admins", "group_name": "nowhere"}),
        ("remove-member", {"parent_name": "nowhere", "group_name": "admins"}),
        ("delete", {"group_name": "nowhere"}),
    ):
        assert code(groups.post(verb, **fields)) == "RESOURCE_DOES_NOT_EXIST", (verb, fields)
    assert code(groups.get("list-members", group_name="nowhere")) == "RESOURCE_DOES_NOT_EXIST"
    assert code(groups.get("list-parents", user_name="nobody@example.com")) == "RESOURCE_DOES_NOT_EXIST"
    me = w.current_user.me().user_name or ""
    for verb, fields in (
        ("create", {"group_name": " "}),
        ("create", {"group_name": "a\nb"}),
        ("add-member", {"parent_name": "admins"}),
        ("add-member", {"parent_name": "admins", "user_name": me, "group_name": "users"}),
        ("add-member", {"parent_name": "users", "user_name": me}),
        ("remove-member", {"parent_name": "users", "user_name": me}),
        ("delete", {"group_name": "admins"}),
    ):
        assert code(groups.post(verb, **fields)) == "INVALID_PARAMETER_VALUE", (verb, fields)
    assert code(groups.get("list-parents")) == "INVALID_PARAMETER_VALUE"
    assert code(groups.post("remove-member", parent_name="admins", user_name=me)) == "INVALID_STATE", "the last administrator"
    ben = w.users.create(user_name="ben.groups@example.com")
    body = {"user_name": ben.user_name, "lifetime_seconds": 600}
    made = groups.session.post(f"{server.url}/api/2.1/token-management/tokens", json=body).json()
    stranger = Groups(server.url, made["token_value"])
    with stranger.session:
        assert code(stranger.post("add-member", parent_name="admins", user_name="ben.groups@example.com")) == "PERMISSION_DENIED"
        assert code(stranger.get("list")) == "PERMISSION_DENIED"
    w.users.delete(ben.id or "")


def test_two_who_create_one_group_at_once(groups: Groups) -> None:
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: groups.post("create", group_name="race"), range(4)))
    assert sorted(each.get("error_code", "") for each in answers) == ["", *["RESOURCE_ALREADY_EXISTS"] * 3]
    assert groups.post("delete", group_name="race") == {}
    told = groups.session.get(groups.url.replace("groups/", "audit-logs"), params={"operation": "named_groups.delete"}).json()
    assert told["entries"][0]["objects"] == {"group_name": "race"}
