"""IP access lists and the workspace's settings through the official SDK."""

from __future__ import annotations

import pytest
from databricks.sdk import WorkspaceClient
from databricks.sdk.errors import InvalidParameterValue, NotFound, PermissionDenied
from databricks.sdk.service.iam import AccessControlRequest, PermissionLevel
from databricks.sdk.service.settings import ListType

from tests.support.browser import Browser
from tests.support.golden import Golden
from tests.support.server import TOKEN, Server


def test_ip_access_lists(w: WorkspaceClient, golden: Golden) -> None:
    made = w.ip_access_lists.create("home", ListType.BLOCK, ip_addresses=["1.0.0.0/16", "2001:db8::1"]).ip_access_list
    assert made is not None
    assert made.list_id is not None
    assert (made.label, made.list_type, made.enabled, made.address_count) == ("home", ListType.BLOCK, True, 2)
    assert made.created_by == made.updated_by == int(w.current_user.me().id or "")
    w.ip_access_lists.replace(made.list_id, "new", ListType.ALLOW, False, ip_addresses=["1.0.0.0/24"])
    found = w.ip_access_lists.get(made.list_id).ip_access_list
    assert found is not None
    assert (found.label, found.list_type, found.enabled, found.ip_addresses) == ("new", ListType.ALLOW, False, ["1.0.0.0/24"])
    w.ip_access_lists.update(made.list_id, label="newer")
    assert [each.label for each in w.ip_access_lists.list()] == ["newer"]
    with golden.refused(InvalidParameterValue, "ip_addresses"):
        w.ip_access_lists.update(made.list_id, ip_addresses=["1.0.0.0/99"])
    w.ip_access_lists.delete(made.list_id)
    assert list(w.ip_access_lists.list()) == []
    with pytest.raises(NotFound):
        w.ip_access_lists.get(made.list_id)


def test_workspace_conf(server: Server, w: WorkspaceClient, golden: Golden) -> None:
    keys = "enableIpAccessLists,enableTokensConfig,maxTokenLifetimeDays,enableDeprecatedGlobalInitScripts"
    assert w.workspace_conf.get_status(keys) == {
        "enableIpAccessLists": "false",
        "enableTokensConfig": "true",
        "maxTokenLifetimeDays": None,
        "enableDeprecatedGlobalInitScripts": "false",
    }
    token = str(w.tokens.create(comment="before").token_value)
    w.workspace_conf.set_status({"enableTokensConfig": "false", "maxTokenLifetimeDays": "90"})
    try:
        with golden.refused(Exception, "token"):
            server.client(token).current_user.me()
        assert server.client(TOKEN).workspace_conf.get_status("maxTokenLifetimeDays") == {"maxTokenLifetimeDays": "90"}
    finally:
        w.workspace_conf.set_status({"enableTokensConfig": "true", "maxTokenLifetimeDays": ""})
    server.client(token).current_user.me()
    with golden.refused(InvalidParameterValue):
        w.workspace_conf.get_status("nonsense")


def test_a_switch_is_kept_in_the_letters_in_which_it_was_sent(server: Server, w: WorkspaceClient) -> None:
    """Terraform compares them, and its provider's own tests expect so."""
    w.workspace_conf.set_status({"enableTokensConfig": "FALSE", "enableDeprecatedGlobalInitScripts": "False"})
    try:
        assert w.workspace_conf.get_status("enableTokensConfig") == {"enableTokensConfig": "FALSE"}
        with pytest.raises(PermissionDenied):
            w.tokens.create()
    finally:
        w.workspace_conf.set_status({"enableTokensConfig": "TRue"})
    w.tokens.delete(str(w.tokens.create().token_info.token_id))  # type: ignore[union-attr]  # it was made


def test_results_of_commands_can_be_kept_from_being_downloaded(server: Server, w: WorkspaceClient) -> None:
    browser = Browser(server.url)
    with browser.http:
        browser.log_in()
        for value in (True, False):
            w.workspace_conf.set_status({"enableResultsDownloading": str(value).lower()})
            assert browser.get("/login/session").json()["results_download"] is value
        assert w.workspace_conf.get_status("enableResultsDownloading") == {"enableResultsDownloading": "false"}
        for wrong in ("maybe", ""):
            with pytest.raises(InvalidParameterValue):
                w.workspace_conf.set_status({"enableResultsDownloading": wrong})
        w.workspace_conf.set_status({"enableResultsDownloading": "true"})


def test_who_may_use_passwords(w: WorkspaceClient) -> None:
    def granted() -> list[tuple[str | None, list[PermissionLevel | None]]]:
        acl = w.permissions.get("authorization", "passwords").access_control_list or []
        return [(each.group_name, [level.permission_level for level in each.all_permissions or []]) for each in acl]

    can_use = PermissionLevel.CAN_USE
    assert granted() == [("admins", [can_use])]
    w.permissions.set("authorization", "passwords", access_control_list=[_group("users")])
    assert granted() == [("users", [can_use])]
    w.permissions.update("authorization", "passwords", access_control_list=[_group("admins")])
    assert sorted(granted(), key=str) == [("admins", [can_use]), ("users", [can_use])]
    levels = w.permissions.get_permission_levels("authorization", "passwords").permission_levels or []
    assert len(levels) == 1
    w.permissions.set("authorization", "passwords", access_control_list=[])
    assert granted() == [("admins", [can_use])]


def _group(name: str) -> AccessControlRequest:
    return AccessControlRequest(group_name=name, permission_level=PermissionLevel.CAN_USE)
