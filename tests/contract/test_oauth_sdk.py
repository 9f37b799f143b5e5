"""OAuth for service principals, through the official SDK and by hand."""

from __future__ import annotations

import base64
import itertools
from typing import Any

import pytest
import requests
from databricks.sdk import WorkspaceClient
from databricks.sdk.errors import InvalidParameterValue, NotFound, PermissionDenied, ResourceDoesNotExist, Unauthenticated

from brickyard.domain.identity import IdentityKind, UserRow
from tests.support.golden import Golden
from tests.support.patience import PATIENCE_S
from tests.support.server import Server

numbers = itertools.count(1)


@pytest.fixture
def principal(server: Server) -> UserRow:
    """A service principal."""
    number = next(numbers)
    row = UserRow(user_name=f"app-{number}", user_id=f"70{number}", kind=IdentityKind.SERVICE_PRINCIPAL)
    server.store.write_sync(lambda tx: tx.users.put(row))
    return row


def post(server: Server, auth: tuple[str, str] | None = None, /, **form: str) -> requests.Response:
    return requests.post(f"{server.url}/oidc/v1/token", data=form, auth=auth, timeout=PATIENCE_S)


def refusal(answer: requests.Response) -> tuple[int, str]:
    body = answer.json()
    assert set(body) == {"error", "error_description"}
    assert body["error_description"]
    return answer.status_code, body["error"]


def secret_of(w: WorkspaceClient, principal: UserRow, **more: Any) -> tuple[str, str]:
    made = w.service_principal_secrets_proxy.create(principal.user_id, **more)
    assert made.id
    assert made.secret
    return made.id, made.secret


def test_a_client_with_an_id_and_a_secret(server: Server, w: WorkspaceClient, principal: UserRow, golden: Golden) -> None:
    secret_id, secret = secret_of(w, principal)
    app = WorkspaceClient(host=server.url, client_id=principal.user_name, client_secret=secret)
    assert app.config.auth_type == "oauth-m2m"
    assert app.current_user.me().user_name == principal.user_name
    assert app.get_workspace_id() == w.get_workspace_id()
    w.service_principal_secrets_proxy.delete(principal.user_id, secret_id)
    with pytest.raises(Unauthenticated):
        app.current_user.me()
    fresh = WorkspaceClient(host=server.url, client_id=principal.user_name, client_secret=secret)
    with golden.refused(ValueError, "invalid_client"):
        fresh.current_user.me()


def test_secrets_are_listed_without_their_values(w: WorkspaceClient, principal: UserRow, golden: Golden) -> None:
    secret_id, secret = secret_of(w, principal, lifetime="3600s")
    listed = list(w.service_principal_secrets_proxy.list(principal.user_id))
    assert [each.id for each in listed] == [secret_id]
    assert secret not in str(listed)
    for lifetime in ("0s", "x", "63072001s", "-1s"):
        with golden.refused(InvalidParameterValue, "lifetime"):
            w.service_principal_secrets_proxy.create(principal.user_id, lifetime=lifetime)
    with pytest.raises(NotFound):
        w.service_principal_secrets_proxy.delete(principal.user_id, "0" * 32)
    me = w.current_user.me()
    with pytest.raises(ResourceDoesNotExist):
        w.service_principal_secrets_proxy.create(me.id or "")


def test_the_token_endpoint(server: Server, w: WorkspaceClient, principal: UserRow) -> None:
    _, secret = secret_of(w, principal)
    by_form = post(server, grant_type="client_credentials", client_id=principal.user_name, client_secret=secret, scope="all-apis")
    by_header = post(server, (principal.user_name, secret), grant_type="client_credentials")
    for answer in (by_form, by_header):
        assert answer.headers["cache-control"] == "no-store"
        body = answer.json()
        assert (body["token_type"], body["scope"]) == ("Bearer", "all-apis")
        assert server.client(body["access_token"]).current_user.me().user_name == principal.user_name
    assert by_form.json()["access_token"] != by_header.json()["access_token"]
    assert by_form.json()["expires_in"] == 3600
    _, short = secret_of(w, principal, lifetime="600s")
    answer = post(server, (principal.user_name, short), grant_type="client_credentials")
    assert 500 < answer.json()["expires_in"] <= 600, "a token ends with its secret"


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ({}, (400, "unsupported_grant_type")),
        ({"grant_type": "password"}, (400, "unsupported_grant_type")),
        ({"grant_type": "client_credentials"}, (401, "invalid_client")),
        ({"grant_type": "client_credentials", "scope": "sql"}, (400, "invalid_scope")),
        ({"grant_type": "client_credentials", "assume_group": "admins"}, (400, "invalid_request")),
        ({"grant_type": "client_credentials", "client_id": "\x00"}, (400, "invalid_request")),
    ],
)
def test_what_the_token_endpoint_refuses(server: Server, form: dict[str, str], expected: tuple[int, str]) -> None:
    assert refusal(post(server, None, **form)) == expected


def test_nothing_else_is_a_client_secret(server: Server, w: WorkspaceClient, principal: UserRow) -> None:
    _, secret = secret_of(w, principal)
    access = post(server, (principal.user_name, secret), grant_type="client_credentials").json()["access_token"]
    personal = w.token_management.create_obo_token(principal.user_name).token_value or ""
    for client_id, given in (
        (principal.user_name, access),
        (principal.user_name, personal),
        (principal.user_name, secret[:-1]),
        ("admin@brickyard.local", secret),
        (w.config.token or "", ""),
    ):
        assert refusal(post(server, (client_id, given), grant_type="client_credentials")) == (401, "invalid_client")
    with pytest.raises((Unauthenticated, PermissionDenied)):
        server.client(secret).current_user.me()
    for header in ("Basic %%%", "Basic " + base64.b64encode(b"\xff\xfe").decode()):
        answer = requests.post(
            f"{server.url}/oidc/v1/token",
            data={"grant_type": "client_credentials"},
            headers={"Authorization": header},
            timeout=PATIENCE_S,
        )
        assert refusal(answer) == (401, "invalid_client")


def test_a_deactivated_service_principal_is_out(server: Server, w: WorkspaceClient, principal: UserRow) -> None:
    _, secret = secret_of(w, principal)
    app = WorkspaceClient(host=server.url, client_id=principal.user_name, client_secret=secret)
    app.current_user.me()
    off = UserRow(user_name=principal.user_name, user_id=principal.user_id, kind=principal.kind, active=False)
    server.store.write_sync(lambda tx: tx.users.put(off))
    with pytest.raises(Unauthenticated):
        app.current_user.me()
    assert refusal(post(server, (principal.user_name, secret), grant_type="client_credentials")) == (401, "invalid_client")


def test_tokens_on_behalf_of_a_service_principal(server: Server, w: WorkspaceClient, principal: UserRow) -> None:
    made = w.token_management.create_obo_token(principal.user_name, comment="for it", lifetime_seconds=600)
    assert made.token_value
    assert made.token_info
    assert made.token_info.created_by_username == w.current_user.me().user_name
    assert made.token_info.owner_id == int(principal.user_id)
    app = server.client(made.token_value)
    assert app.current_user.me().user_name == principal.user_name
    with pytest.raises(PermissionDenied):
        app.token_management.create_obo_token(principal.user_name)
    with pytest.raises(ResourceDoesNotExist):
        w.token_management.create_obo_token("admin@brickyard.local")


def test_discovery_leads_to_the_token_endpoint(server: Server) -> None:
    config = requests.get(f"{server.url}/.well-known/databricks-config", timeout=PATIENCE_S).json()
    metadata = requests.get(config["oidc_endpoint"] + "/.well-known/oauth-authorization-server", timeout=PATIENCE_S).json()
    assert metadata["issuer"] == config["oidc_endpoint"] == f"{server.url}/oidc"
    assert metadata["token_endpoint"] == f"{server.url}/oidc/v1/token"
