"""Users, groups and service principals through the official SDK, and as Entra ID and Okta send them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import requests
from databricks.sdk import WorkspaceClient
from databricks.sdk.errors import BadRequest, NotFound, ResourceConflict
from databricks.sdk.service import iam

from tests.support.golden import Golden
from tests.support.patience import PATIENCE_S
from tests.support.server import TOKEN, Server

SCIM = "/api/2.0/scim/v2"
PATCH = "urn:ietf:params:scim:api:messages:2.0:PatchOp"


class Provider:
    """An identity provider's client."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.session = requests.Session()
        self.session.trust_env = False
        self.session.headers["Authorization"] = f"Bearer {TOKEN}"

    def get(self, path: str, params: dict[str, str] | None = None) -> requests.Response:
        return self.session.get(self.url + path, params=params)

    def post(self, path: str, json: Any) -> requests.Response:
        return self.session.post(self.url + path, json=json, headers={"Content-Type": "application/scim+json"})

    def put(self, path: str, json: Any) -> requests.Response:
        return self.session.put(self.url + path, json=json)

    def patch(self, path: str, *operations: dict[str, Any]) -> requests.Response:
        return self.session.patch(self.url + path, json={"schemas": [PATCH], "Operations": list(operations)})

    def delete(self, path: str) -> requests.Response:
        return self.session.delete(self.url + path)


@pytest.fixture
def http(server: Server) -> Iterator[Provider]:
    provider = Provider(server.url + SCIM)
    with provider.session:
        yield provider


def test_users(w: WorkspaceClient, golden: Golden) -> None:
    made = w.users.create(
        user_name="anna@example.com",
        display_name="Anna O",
        external_id="e-1",
        emails=[iam.ComplexValue(value="anna@example.com", type="work", primary=True)],
        entitlements=[iam.ComplexValue(value="allow-cluster-create")],
    )
    assert made.id and made.active
    with golden.refused(ResourceConflict):
        w.users.create(user_name="ANNA@example.com")
    with golden.refused(BadRequest, "anna"):
        w.users.create(user_name="anna")
    got = w.users.get(made.id)
    assert (got.display_name, got.external_id) == ("Anna O", "e-1")
    assert [each.display for each in got.groups or []] == ["users"]
    assert [each.id for each in w.users.list(filter='userName eq "Anna@Example.com"')] == [made.id]
    assert [each.id for each in w.users.list(filter='displayName co "na o" and active eq true')] == [made.id]
    assert next(iter(w.users.list(filter=f'id eq "{made.id}"', attributes="userName"))).as_dict() == {
        "schemas": [iam.UserSchema.URN_IETF_PARAMS_SCIM_SCHEMAS_CORE_2_0_USER.value, _extension()],
        "id": made.id,
        "userName": "anna@example.com",
        "displayName": "Anna O",
    }
    with golden.refused(BadRequest, "invalidFilter"):
        list(w.users.list(filter='userName = "x"'))
    w.users.patch(
        made.id,
        operations=[iam.Patch(op=iam.PatchOp.REPLACE, path="active", value="false")],
        schemas=[iam.PatchSchema.URN_IETF_PARAMS_SCIM_API_MESSAGES_2_0_PATCH_OP],
    )
    assert w.users.get(made.id).active is False
    with golden.refused(BadRequest, "active"):  # the SDK drops False
        dropped = iam.Patch(op=iam.PatchOp.REPLACE, path="active", value=False)
        w.users.patch(made.id, schemas=[iam.PatchSchema.URN_IETF_PARAMS_SCIM_API_MESSAGES_2_0_PATCH_OP], operations=[dropped])
    w.users.update(made.id, user_name="anna@example.com", display_name="Anna P", active=True)
    after = w.users.get(made.id)
    assert (after.display_name, after.active, after.external_id, after.entitlements or []) == ("Anna P", True, None, [])
    w.users.delete(made.id)
    with golden.refused(NotFound):
        w.users.get(made.id or "")
    with golden.refused(NotFound):
        w.users.delete(made.id or "")


def _extension() -> str:
    return iam.UserSchema.URN_IETF_PARAMS_SCIM_SCHEMAS_EXTENSION_WORKSPACE_2_0_USER.value


def test_groups_and_service_principals(w: WorkspaceClient, golden: Golden) -> None:
    ben = w.users.create(user_name="ben@example.com")
    robot = w.service_principals.create(display_name="robot")
    assert robot.application_id and len(robot.application_id) == 36
    inner = w.groups.create(display_name="inner", members=[iam.ComplexValue(value=ben.id)])
    outer = w.groups.create(
        display_name="outer",
        members=[iam.ComplexValue(value=inner.id), iam.ComplexValue(value=robot.id)],
        entitlements=[iam.ComplexValue(value="allow-instance-pool-create")],
    )
    assert outer.id and inner.id and ben.id and robot.id
    found = w.groups.get(outer.id)
    assert sorted((each.value, each.ref) for each in found.members or []) == sorted(
        [(inner.id, f"Groups/{inner.id}"), (robot.id, f"ServicePrincipals/{robot.id}")]
    )
    groups = {each.display: each.type for each in w.users.get(ben.id).groups or []}
    assert groups == {"inner": "direct", "outer": "indirect", "users": "direct"}
    assert [each.display_name for each in w.groups.list(filter=f'members eq "{ben.id}"')] == ["inner"]
    assert [each.display for each in w.groups.get(inner.id).groups or []] == ["outer"]
    with golden.refused(BadRequest, "outer"):
        w.groups.patch(inner.id or "", operations=[iam.Patch(op=iam.PatchOp.ADD, path="members", value=[{"value": outer.id}])])
    with golden.refused(ResourceConflict):
        w.groups.create(display_name="INNER")
    with golden.refused(BadRequest, "7"):
        w.groups.create(display_name="x", members=[iam.ComplexValue(value="7")])
    w.groups.patch(outer.id, operations=[iam.Patch(op=iam.PatchOp.REMOVE, path=f'members[value eq "{robot.id}"]')])
    assert [each.value for each in w.groups.get(outer.id).members or []] == [inner.id]
    w.groups.update(outer.id, display_name="outer 2", members=[iam.ComplexValue(value=robot.id)])
    found = w.groups.get(outer.id)
    assert (found.display_name, [each.value for each in found.members or []], found.entitlements or []) == (
        "outer 2",
        [robot.id],
        [],
    )
    w.service_principals.patch(robot.id, operations=[iam.Patch(op=iam.PatchOp.REPLACE, path="displayName", value="robot 2")])
    assert [each.display_name for each in w.service_principals.list(filter=f'applicationId eq "{robot.application_id}"')] == [
        "robot 2"
    ]
    for delete, id in ((w.groups.delete, inner.id), (w.users.delete, ben.id), (w.service_principals.delete, robot.id)):
        delete(id)
    assert not w.groups.get(outer.id).members
    w.groups.delete(outer.id)


def test_the_workspace_keeps_an_administrator_and_its_groups(w: WorkspaceClient, golden: Golden) -> None:
    me = w.current_user.me()
    admins = next(iter(w.groups.list(filter='displayName eq "admins"')))
    assert me.id and admins.id
    with golden.refused(BadRequest):
        w.users.delete(me.id or "")
    deactivate = iam.Patch(op=iam.PatchOp.REPLACE, value={"active": False})
    with golden.refused(BadRequest):
        w.users.patch(me.id or "", operations=[deactivate])
    with golden.refused(BadRequest):
        w.users.update(me.id or "", user_name=me.user_name, active=False)
    remove = iam.Patch(op=iam.PatchOp.REMOVE, path="members")
    with golden.refused(BadRequest):
        w.groups.patch(admins.id or "", operations=[remove])
    with golden.refused(BadRequest):
        w.groups.update(admins.id or "", display_name="admins")
    with golden.refused(BadRequest):
        w.groups.delete(admins.id or "")
    rename = iam.Patch(op=iam.PatchOp.REPLACE, path="displayName", value="root")
    with golden.refused(BadRequest, "admins"):
        w.groups.patch(admins.id or "", operations=[rename])
    everyone = next(iter(w.groups.list(filter='displayName eq "users"')))
    add = iam.Patch(op=iam.PatchOp.ADD, path="members", value=[{"value": me.id}])
    with golden.refused(BadRequest, "users"):
        w.groups.patch(everyone.id or "", operations=[add])
    add = iam.Patch(op=iam.PatchOp.ADD, path="members", value=[{"value": everyone.id}])
    with golden.refused(BadRequest):
        w.groups.patch(admins.id or "", operations=[add])
    assert "admins" in [each.display for each in w.current_user.me().groups or []]


def test_what_clients_ask_before_they_begin(server: Server, http: Provider) -> None:
    """As they do without a token, too (RFC 7644, 4); and the account's addresses, which Databricks' own tools use."""
    for prefix in ("/api/2.0/preview/scim/v2", "/api/2.0/scim/v2", "/api/2.0/account/scim/v2"):
        config = requests.get(f"{server.url}{prefix}/ServiceProviderConfig", timeout=PATIENCE_S).json()
        assert (config["patch"]["supported"], config["bulk"]["supported"], config["filter"]["maxResults"]) == (True, False, 1000)
        types = requests.get(f"{server.url}{prefix}/ResourceTypes", timeout=PATIENCE_S).json()["Resources"]
        assert [each["endpoint"] for each in types] == ["/Users", "/Groups", "/ServicePrincipals"]
        schemas = requests.get(f"{server.url}{prefix}/Schemas", timeout=PATIENCE_S).json()
        assert schemas["totalResults"] == len(schemas["Resources"]) == 4
        listed = {each["id"]: {attribute["name"] for attribute in each["attributes"]} for each in schemas["Resources"]}
        for each in types:
            assert requests.get(f"{server.url}{prefix}/ResourceTypes/{each['id']}", timeout=PATIENCE_S).json() == each
            one = requests.get(f"{server.url}{prefix}/Schemas/{each['schema']}", timeout=PATIENCE_S).json()
            assert one in schemas["Resources"]
            found = http.session.get(f"{server.url}{prefix}{each['endpoint']}?count=1")
            assert found.status_code == 200
            common = {"schemas", "id", "externalId", "meta"}
            for resource in found.json()["Resources"]:
                assert each["schema"] in resource["schemas"] and set(resource["schemas"]) <= listed.keys()
                assert resource.keys() - common <= listed[each["schema"]], "every attribute of a fresh resource is in its schema"
        for unknown in ("Schemas/urn:nothing", "ResourceTypes/Robot"):
            answer = requests.get(f"{server.url}{prefix}/{unknown}", timeout=PATIENCE_S)
            assert (answer.status_code, answer.json()["status"]) == (404, "404")
        assert requests.get(f"{server.url}{prefix}/Users", timeout=PATIENCE_S).status_code == 401


def test_pages_and_order(http: Provider) -> None:
    ids = [http.post("/Users", json={"userName": f"page{n}@example.com", "title": f"t{9 - n}"}).json()["id"] for n in range(5)]
    try:
        query = {"filter": 'userName sw "page"', "count": "2"}
        pages = [http.get("/Users", params={**query, "startIndex": str(start)}).json() for start in (1, 3, 5, 7)]
        assert [page["totalResults"] for page in pages] == [5] * 4
        assert [(page["startIndex"], page["itemsPerPage"]) for page in pages] == [(1, 2), (3, 2), (5, 1), (7, 0)]
        assert [each["id"] for page in pages for each in page["Resources"]] == ids
        ordered = http.get("/Users", params={"filter": 'userName sw "page"', "sortBy": "title", "sortOrder": "ascending"}).json()
        assert [each["id"] for each in ordered["Resources"]] == ids[::-1]
        query = {"count": "1", "excludedAttributes": "emails,groups,meta,name"}
        without = http.get("/Users", params=query).json()["Resources"][0]
        assert not {"emails", "groups", "meta", "name"} & without.keys()
        total = http.get("/Users", params={"count": "0"}).json()["totalResults"]
        plain = [http.get("/Users", params={"startIndex": str(total - back), "count": "3"}).json() for back in (4, 1)]
        assert [each["id"] for page in plain for each in page["Resources"]] == ids, "in the order in which they were created"
        assert http.get("/Users", params={"count": "0"}).json()["Resources"] == []
    finally:
        for id in ids:
            assert http.delete(f"/Users/{id}").status_code == 204


def test_what_entra_id_sends(http: Provider) -> None:
    enterprise = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User"
    user = {
        "schemas": ["urn:ietf:params:scim:schemas:core:2.0:User", enterprise],
        "externalId": "0a21f0f2-8d2a-4f8e-bf98-7363c4aed4ef",
        "userName": "Test_User@testuser.com",
        "active": True,
        "displayName": "lennay",
        "emails": [{"primary": True, "type": "work", "value": "Test_User@testuser.com"}],
        "meta": {"resourceType": "User"},
        "name": {"formatted": "givenName familyName", "familyName": "familyName", "givenName": "givenName"},
        "roles": [],
        enterprise: {"department": "Sales"},
    }
    created = http.post("/Users", json=user)
    assert created.status_code == 201
    id = created.json()["id"]
    assert http.get("/Users", params={"filter": 'userName eq "non-existent"'}).json()["totalResults"] == 0
    assert http.get("/Users", params={"filter": f'externalId eq "{user["externalId"]}"'}).json()["Resources"][0]["id"] == id
    changed = http.patch(
        f"/Users/{id}",
        {"op": "Replace", "path": 'emails[type eq "work"].value', "value": "updated@example.com"},
        {"op": "Replace", "path": "name.familyName", "value": "updated"},
        {"op": "Add", "path": f"{enterprise}:costCenter", "value": "42"},
    ).json()
    assert (changed["emails"][0]["value"], changed["name"]["familyName"]) == ("updated@example.com", "updated")
    assert changed[enterprise] == {"department": "Sales", "costCenter": "42"}
    disabled = http.patch(f"/Users/{id}", {"op": "Replace", "path": "active", "value": "False"})
    assert (disabled.status_code, disabled.json()["active"]) == (200, False)
    group = http.post(
        "/Groups", json={"displayName": "Entra", "externalId": "8aa1a0c0", "meta": {"resourceType": "Group"}, "members": []}
    )
    group_id = group.json()["id"]
    member = {"op": "Add", "path": "members", "value": [{"$ref": None, "value": id}]}
    assert http.patch(f"/Groups/{group_id}", member).status_code == 204
    assert http.patch(f"/Groups/{group_id}", member).status_code == 204, "again"
    query = {"filter": f'id eq "{group_id}" and members eq "{id}"', "excludedAttributes": "members"}
    assert [set(each) & {"id", "members"} for each in http.get("/Groups", params=query).json()["Resources"]] == [{"id"}]
    remove = {"op": "Remove", "path": "members", "value": [{"$ref": None, "value": id}]}
    assert http.patch(f"/Groups/{group_id}", remove).status_code == 204
    assert "members" not in http.get(f"/Groups/{group_id}").json()
    for path in (f"/Groups/{group_id}", f"/Users/{id}"):
        assert http.delete(path).status_code == 204
        assert http.get(path).status_code == 404


def test_what_okta_sends(http: Provider) -> None:
    user = {
        "schemas": ["urn:ietf:params:scim:schemas:core:2.0:User"],
        "userName": "test.user@okta.local",
        "name": {"givenName": "Test", "familyName": "User"},
        "emails": [{"primary": True, "value": "test.user@okta.local", "type": "work"}],
        "displayName": "Test User",
        "locale": "en-US",
        "externalId": "00ujl29u0le5T6Aj10h7",
        "groups": [],
        "password": "1mz050nq",
        "active": True,
    }
    created = http.post("/Users", json=user).json()
    assert created["locale"] == "en-US"
    assert "1mz050nq" not in str(created)
    whole = http.get(f"/Users/{created['id']}").json() | {"active": False, "displayName": "Another"}
    replaced = http.put(f"/Users/{created['id']}", json=whole).json()
    assert (replaced["active"], replaced["displayName"], replaced["locale"]) == (False, "Another", "en-US")
    changed = http.patch(f"/Users/{created['id']}", {"op": "replace", "value": {"active": True}})
    assert changed.json()["active"] is True
    group = http.post(
        "/Groups", json={"displayName": "Test SCIMv2", "members": [{"value": created["id"], "display": "x"}]}
    ).json()
    renamed = {"op": "replace", "value": {"id": group["id"], "displayName": "Test SCIMv0"}}
    assert http.patch(f"/Groups/{group['id']}", renamed).status_code == 204
    replaced = {"op": "replace", "path": "members", "value": [{"value": created["id"], "display": "x"}]}
    assert http.patch(f"/Groups/{group['id']}", replaced).status_code == 204
    found = http.get(f"/Groups/{group['id']}").json()
    assert (found["displayName"], [each["value"] for each in found["members"]]) == ("Test SCIMv0", [created["id"]])
    for path in (f"/Groups/{group['id']}", f"/Users/{created['id']}"):
        assert http.delete(path).status_code == 204


def test_errors_are_scims(http: Provider) -> None:
    body = http.post("/Users", [1]).json()
    assert body["schemas"] == ["urn:ietf:params:scim:api:messages:2.0:Error"]
    for answer, status, kind in (
        (http.get("/Users/1"), 404, "notFound"),
        (http.get("/Groups", params={"filter": "x"}), 400, "invalidFilter"),
        (http.post("/Users", json={}), 400, "invalidValue"),
        (http.post("/Groups", json={"displayName": "admins"}), 409, ""),
        (http.patch("/Users/1", {"op": "x"}), 400, "invalidSyntax"),
        (requests.get(http.url + "/Users", timeout=PATIENCE_S), 401, "unauthenticated"),
    ):
        assert (answer.status_code, answer.json()["scimType"], answer.json()["status"]) == (status, kind, str(status))
