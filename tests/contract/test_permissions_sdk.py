"""The Permissions API through databricks-sdk: what Terraform and scripts send, and what they read back."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
import requests
from databricks.sdk import WorkspaceClient
from databricks.sdk.errors import BadRequest, InvalidParameterValue, NotFound, Unauthenticated
from databricks.sdk.service.iam import AccessControlRequest, ComplexValue, ObjectPermissions, Patch, PatchOp, PermissionLevel
from databricks.sdk.service.settings import TokenAccessControlRequest, TokenPermissionLevel
from databricks.sdk.service.workspace import ImportFormat

from brickyard.domain.identity import UserRow
from tests.support.golden import Golden
from tests.support.patience import PATIENCE_S
from tests.support.server import Server

ANNA = UserRow(user_name="anna@example.com", user_id="4711", display_name="Anna")


@pytest.fixture(scope="module")
def pool_id(server: Server, w: WorkspaceClient) -> str:
    server.store.write_sync(lambda tx: tx.users.put(ANNA))
    made = w.instance_pools.create(instance_pool_name=f"p-{uuid.uuid4().hex[:6]}", node_type_id="i3.xlarge")
    return made.instance_pool_id or ""


def shown(found: ObjectPermissions) -> dict[str, list[tuple[str, bool]]]:
    """Each principal's levels, and whether they are inherited."""
    return {
        each.user_name or each.group_name or "": [
            (level.permission_level.value if level.permission_level else "", bool(level.inherited))
            for level in each.all_permissions or ()
        ]
        for each in found.access_control_list or ()
    }


def test_grants_are_replaced_merged_and_removed(w: WorkspaceClient, pool_id: str) -> None:
    me = w.current_user.me().user_name or ""
    fixed = {me: [("CAN_MANAGE", False)], "admins": [("CAN_MANAGE", True)]}
    anna = AccessControlRequest(user_name="Anna@example.com", permission_level=PermissionLevel.CAN_ATTACH_TO)
    users = AccessControlRequest(group_name="users", permission_level=PermissionLevel.CAN_ATTACH_TO)
    found = w.permissions.set("instance-pools", pool_id, access_control_list=[anna])
    assert (found.object_id, found.object_type) == (f"/instance-pools/{pool_id}", "instance-pool")
    assert shown(found) == fixed | {"anna@example.com": [("CAN_ATTACH_TO", False)]}
    entry = next(each for each in found.access_control_list or () if each.user_name == "anna@example.com")
    assert entry.display_name == "Anna"
    admins = next(each for each in found.access_control_list or () if each.group_name == "admins")
    assert admins.all_permissions and admins.all_permissions[0].inherited_from_object == ["/instance-pools/"]
    found = w.permissions.update("instance-pools", pool_id, access_control_list=[users])
    assert shown(found) == shown(w.permissions.get("instance-pools", pool_id))
    assert set(shown(found)) == {me, "admins", "anna@example.com", "users"}
    higher = AccessControlRequest(user_name="anna@example.com", permission_level=PermissionLevel.CAN_MANAGE)
    found = w.permissions.update("instance-pools", pool_id, access_control_list=[anna, higher])
    assert shown(found)["anna@example.com"] == [("CAN_MANAGE", False)], "the last of several counts"
    assert shown(w.permissions.set("instance-pools", pool_id, access_control_list=[])) == fixed


def test_what_was_granted_to_administrators_is_shown_beside_what_they_inherit(w: WorkspaceClient, pool_id: str) -> None:
    """Bundles compare the list that they have sent with what is not inherited."""
    admins = AccessControlRequest(group_name="admins", permission_level=PermissionLevel.CAN_MANAGE)
    both = [("CAN_MANAGE", False), ("CAN_MANAGE", True)]
    assert sorted(shown(w.permissions.set("instance-pools", pool_id, access_control_list=[admins]))["admins"]) == both
    assert sorted(shown(w.permissions.get("instance-pools", pool_id))["admins"]) == both
    directory = str(w.workspace.get_status("/Shared").object_id)
    assert len(shown(w.permissions.update("directories", directory, access_control_list=[admins]))["admins"]) == 2
    w.permissions.set("directories", directory, access_control_list=[])
    assert shown(w.permissions.set("instance-pools", pool_id, access_control_list=[]))["admins"] == [("CAN_MANAGE", True)]


def test_what_does_not_exist_or_cannot_be_is_refused_by_name(w: WorkspaceClient, pool_id: str, golden: Golden) -> None:
    me = w.current_user.me().user_name
    attach = PermissionLevel.CAN_ATTACH_TO
    for principal in ({"user_name": "nobody@example.com"}, {"group_name": "nobodies"}, {"service_principal_name": "x"}):
        with golden.refused(NotFound):
            entry = AccessControlRequest(permission_level=attach, **principal)
            w.permissions.set("instance-pools", pool_id, access_control_list=[entry])
    restart = AccessControlRequest(group_name="users", permission_level=PermissionLevel.CAN_RESTART)
    with golden.refused(InvalidParameterValue, "CAN_ATTACH_TO", "CAN_MANAGE"):
        w.permissions.update("instance-pools", pool_id, access_control_list=[restart])
    for given in ({"user_name": me}, {"group_name": "admins"}):
        with golden.refused(InvalidParameterValue):
            lower = AccessControlRequest(permission_level=attach, **given)
            w.permissions.set("instance-pools", pool_id, access_control_list=[lower])
    with golden.refused(InvalidParameterValue):
        both = AccessControlRequest(user_name="anna@example.com", group_name="users", permission_level=attach)
        w.permissions.set("instance-pools", pool_id, access_control_list=[both])
    with pytest.raises(NotFound):
        w.permissions.get("instance-pools", "0000-000000-none-pool-00000000")
    with pytest.raises(NotFound):
        w.permissions.get("clusters", "0000-000000-none")
    assert "anna@example.com" not in shown(w.permissions.get("instance-pools", pool_id)), "nothing of it was kept"


def test_levels(w: WorkspaceClient, pool_id: str) -> None:
    found = w.permissions.get_permission_levels("instance-pools", pool_id).permission_levels or []
    assert [each.permission_level and each.permission_level.value for each in found] == ["CAN_ATTACH_TO", "CAN_MANAGE"]
    assert all(each.description for each in found)


def test_directories_pass_on_what_was_granted(w: WorkspaceClient, pool_id: str) -> None:
    w.workspace.mkdirs("/Team/project")
    w.workspace.upload("/Team/project/notes.txt", b"x", format=ImportFormat.AUTO, overwrite=True)
    top = w.workspace.get_status("/Team").object_id
    file = w.workspace.get_status("/Team/project/notes.txt").object_id
    read = AccessControlRequest(user_name="anna@example.com", permission_level=PermissionLevel.CAN_READ)
    w.permissions.update("directories", str(top), access_control_list=[read])
    found = w.permissions.get("files", str(file))
    assert (found.object_id, found.object_type) == (f"/files/{file}", "file")
    entry = next(each for each in found.access_control_list or () if each.user_name == "anna@example.com")
    assert entry.all_permissions and entry.all_permissions[0].inherited_from_object == [f"/directories/{top}"]
    with pytest.raises(NotFound):
        w.permissions.get("notebooks", str(file))
    w.workspace.delete("/Team", recursive=True)
    w.workspace.mkdirs("/Team")
    assert "anna@example.com" not in shown(w.permissions.get("directories", str(top)))


def test_tokens(w: WorkspaceClient, pool_id: str) -> None:
    before = w.token_management.get_permissions()
    assert (before.object_id, before.object_type) == ("/authorization/tokens", "tokens")
    anna = TokenAccessControlRequest(user_name="anna@example.com", permission_level=TokenPermissionLevel.CAN_USE)
    users = TokenAccessControlRequest(group_name="users", permission_level=TokenPermissionLevel.CAN_USE)
    try:
        found = w.token_management.set_permissions(access_control_list=[anna])
        assert {each.user_name or each.group_name for each in found.access_control_list or ()} == {"anna@example.com", "admins"}
    finally:
        w.token_management.set_permissions(access_control_list=[users])


def test_who_may_not_use_tokens_any_more_loses_them(w: WorkspaceClient, server: Server, pool_id: str, golden: Golden) -> None:
    """Databricks: tokens of users who lose the permission are revoked. Who loses it through a group cannot use them meanwhile."""
    zoe = w.users.create(user_name="zoe@example.com")
    team = w.groups.create(display_name="token users", members=[ComplexValue(value=zoe.id)])

    def new(name: str) -> WorkspaceClient:
        made: Any = w.api_client.do("POST", "/api/2.1/token-management/tokens", body={"user_name": name})
        return server.client(made["token_value"])

    def gets_in(client: WorkspaceClient) -> bool:
        try:
            return bool(client.current_user.me())
        except Unauthenticated:
            return False

    hers, annas = new("zoe@example.com"), new("anna@example.com")
    browser = requests.Session()
    form = {"token": hers.config.token, "next": ""}
    assert browser.post(f"{server.url}/login", data=form, allow_redirects=False, timeout=PATIENCE_S).status_code in (302, 303)
    session = f"{server.url}/login/session"
    levels = TokenPermissionLevel.CAN_USE
    try:
        of_team = TokenAccessControlRequest(group_name="token users", permission_level=levels)
        assert gets_in(hers) and gets_in(annas) and browser.get(session, timeout=PATIENCE_S).ok
        w.token_management.set_permissions(access_control_list=[of_team])
        assert gets_in(hers) and not gets_in(annas) and gets_in(w)
        with golden.refused(BadRequest):
            new("anna@example.com")
        leave = Patch(op=PatchOp.REMOVE, path=f'members[value eq "{zoe.id}"]')
        w.groups.patch(team.id or "", operations=[leave])
        assert not gets_in(hers)
        assert browser.get(session, timeout=PATIENCE_S).status_code == 401
        w.groups.patch(team.id or "", operations=[Patch(op=PatchOp.ADD, path="members", value=[{"value": zoe.id}])])
        assert gets_in(hers)
    finally:
        everyone = TokenAccessControlRequest(group_name="users", permission_level=levels)
        w.token_management.set_permissions(access_control_list=[everyone])
    assert not gets_in(annas), "it is gone"
    w.users.delete(zoe.id or "")
    w.groups.delete(team.id or "")
