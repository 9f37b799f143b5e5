"""Tokens through the official SDK: a user's own, and everybody's."""

from __future__ import annotations

import pytest
from databricks.sdk import WorkspaceClient
from databricks.sdk.common.types.fieldmask import FieldMask
from databricks.sdk.errors import InvalidParameterValue, NotFound, PermissionDenied, Unauthenticated
from databricks.sdk.service.settings import PublicTokenInfo, TokenInfo

from tests.support.golden import Golden
from tests.support.server import Server


def mask(*fields: str) -> FieldMask:
    return FieldMask(list(fields))  # type: ignore[no-untyped-call] # of the SDK


def test_own_tokens(server: Server, w: WorkspaceClient, golden: Golden) -> None:
    made = w.tokens.create(comment="first", lifetime_seconds=600)
    assert made.token_value and made.token_info and made.token_info.token_id
    token_id = made.token_info.token_id
    w.tokens.update(token_id, PublicTokenInfo(comment="second", token_id=token_id), mask("comment"))
    listed = {each.token_id: each for each in w.tokens.list()}
    assert listed[token_id].comment == "second"
    assert listed[token_id].expiry_time == listed[token_id].creation_time + 600_000  # type: ignore[operator]
    with golden.refused(InvalidParameterValue):
        w.tokens.update(token_id, PublicTokenInfo(expiry_time=-1), mask("expiry_time"))
    with golden.refused(InvalidParameterValue, "scopes"):
        w.tokens.create(scopes=["sql"])
    with golden.refused(InvalidParameterValue, "autoscope"):
        w.tokens.create(autoscope_enabled=True)
    w.tokens.delete(token_id)
    with pytest.raises(NotFound):
        w.tokens.delete(token_id)


def test_everybodys_tokens(server: Server, w: WorkspaceClient) -> None:
    me = w.current_user.me()
    made = w.tokens.create(comment="managed")
    assert made.token_value and made.token_info and made.token_info.token_id
    token_id = made.token_info.token_id
    server.client(made.token_value).current_user.me()
    for listed in (
        w.token_management.list(),
        w.token_management.list(created_by_username=me.user_name),
        w.token_management.list(created_by_id=int(me.id or "")),
    ):
        assert token_id in [each.token_id for each in listed]
    assert list(w.token_management.list(created_by_username="nobody@example.com")) == []
    found = w.token_management.get(token_id).token_info
    assert found
    assert (found.created_by_username, found.owner_id, found.comment) == (me.user_name, int(me.id or ""), "managed")
    assert found.workspace_id == w.get_workspace_id()
    assert w.token_management.update_token_management(token_id, TokenInfo(comment="new"), mask("comment")).comment == "new"
    w.token_management.delete(token_id)
    with pytest.raises((Unauthenticated, PermissionDenied)):
        server.client(made.token_value).current_user.me()
    with pytest.raises(NotFound):
        w.token_management.get(token_id)
