"""Secrets through the official SDK."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import requests
from databricks.sdk import WorkspaceClient
from databricks.sdk.errors import BadRequest, InvalidParameterValue, NotFound, PermissionDenied, ResourceAlreadyExists
from databricks.sdk.service.compute import ClusterDetails, State
from databricks.sdk.service.workspace import (
    AclPermission,
    AzureKeyVaultSecretScopeMetadata,
    ScopeBackendType,
    SecretScope,
)

from brickyard.domain.secrets import SecretName, malformed, references
from brickyard.nodes.tokens import InstanceTokens
from tests.support.golden import Golden
from tests.support.patience import until
from tests.support.server import TOKEN, WORKSPACE_KEY, Server


@pytest.fixture
def scope(w: WorkspaceClient) -> Iterator[str]:
    w.secrets.create_scope("sdk")
    yield "sdk"
    with contextlib.suppress(NotFound):
        w.secrets.delete_scope("sdk")


def test_scopes(w: WorkspaceClient, scope: str, golden: Golden) -> None:
    assert list(w.secrets.list_scopes()) == [SecretScope(backend_type=ScopeBackendType.DATABRICKS, name=scope)]
    with pytest.raises(ResourceAlreadyExists):
        w.secrets.create_scope(scope)
    w.secrets.create_scope("all", initial_manage_principal="users", scope_backend_type=ScopeBackendType.DATABRICKS)
    assert [(acl.principal, acl.permission) for acl in w.secrets.list_acls("all")] == [("users", AclPermission.MANAGE)]
    w.secrets.delete_scope("all")
    with golden.refused(NotFound):
        w.secrets.delete_scope("all")
    vault = AzureKeyVaultSecretScopeMetadata(dns_name="https://x.vault.azure.net/", resource_id="r")
    with golden.refused(InvalidParameterValue, "AZURE_KEYVAULT"):
        w.secrets.create_scope("azure", scope_backend_type=ScopeBackendType.AZURE_KEYVAULT, backend_azure_keyvault=vault)


def test_secrets(w: WorkspaceClient, scope: str, golden: Golden) -> None:
    assert list(w.secrets.list_secrets(scope)) == []
    w.secrets.put_secret(scope, "text", string_value="grün")
    w.secrets.put_secret(scope, "bytes", bytes_value=base64.b64encode(b"\0\1").decode())
    found = {each.key: each.last_updated_timestamp for each in w.secrets.list_secrets(scope)}
    assert set(found) == {"text", "bytes"}
    assert all(found.values())
    assert base64.b64decode(w.secrets.get_secret(scope, "bytes").value or "") == b"\0\1"
    assert w.dbutils.secrets.get(scope, "text") == "grün"
    assert w.dbutils.secrets.getBytes(scope, "bytes") == b"\0\1"
    assert [each.key for each in w.dbutils.secrets.list(scope)] == ["bytes", "text"]
    assert [each.name for each in w.dbutils.secrets.listScopes()] == [scope]
    w.secrets.delete_secret(scope, "text")
    with golden.refused(NotFound, "sdk"):
        w.secrets.get_secret(scope, "text")
    with golden.refused(BadRequest):
        w.secrets.put_secret(scope, "text")


def test_names_with_slashes(w: WorkspaceClient, scope: str) -> None:
    """As Terraform's provider takes them. In a reference the scope ends at the first slash."""
    w.secrets.put_secret(scope, "db/prod/@password", string_value="1")
    assert [each.key for each in w.secrets.list_secrets(scope)] == ["db/prod/@password"]
    assert w.dbutils.secrets.get(scope, "db/prod/@password") == "1"
    assert references(f"{{{{secrets/{scope}/db/prod/@password}}}}") == [SecretName(scope, "db/prod/@password")]
    assert not malformed(f"x{{{{secrets/{scope}/db/prod}}}}") and malformed("{{secrets/a}}")
    reference = f"{{{{secrets/{scope}/db/prod/@password}}}}"
    assert _started(w, spark_env_vars={"PASSWORD": reference}).state is State.RUNNING
    w.secrets.create_scope("team/a")
    w.secrets.put_secret("team/a", "k", string_value="2")
    assert w.dbutils.secrets.get("team/a", "k") == "2"
    w.secrets.delete_scope("team/a")
    w.secrets.delete_secret(scope, "db/prod/@password")


def test_permissions(w: WorkspaceClient, scope: str) -> None:
    me = w.current_user.me().user_name or ""
    assert w.secrets.get_acl(scope, me).permission is AclPermission.MANAGE
    w.secrets.put_acl(scope, "users", AclPermission.READ)
    w.secrets.put_acl(scope, "users", AclPermission.WRITE)
    assert {(acl.principal, acl.permission) for acl in w.secrets.list_acls(scope)} == {
        (me, AclPermission.MANAGE),
        ("users", AclPermission.WRITE),
    }
    w.secrets.delete_acl(scope, "users")
    with pytest.raises(NotFound):
        w.secrets.delete_acl(scope, "users")
    with pytest.raises(InvalidParameterValue):
        w.secrets.put_acl(scope, "strangers", AclPermission.READ)


def test_what_each_permission_lets_another_user_do(w: WorkspaceClient, scope: str, golden: Golden) -> None:
    w.secrets.put_secret(scope, "password", string_value="hunter2")
    robot = w.service_principals.create(display_name="robot", active=True).application_id or ""
    other = WorkspaceClient(host=w.config.host, token=w.token_management.create_obo_token(robot).token_value)
    calls: dict[AclPermission, Callable[[], object]] = {
        AclPermission.READ: lambda: other.secrets.get_secret(scope, "password"),
        AclPermission.WRITE: lambda: other.secrets.put_secret(scope, "new", string_value="value"),
        AclPermission.MANAGE: lambda: other.secrets.put_acl(scope, "users", AclPermission.READ),
    }
    for count in range(len(calls) + 1):
        given = list(calls)[:count]
        if given:
            w.secrets.put_acl(scope, robot, given[-1])
        for permission, call in calls.items():
            if permission in given:
                call()
            else:
                with golden.refused(PermissionDenied, permission.value):
                    call()
    w.secrets.delete_acl(scope, "users")
    w.secrets.delete_acl(scope, robot)
    with pytest.raises(PermissionDenied):
        list(other.secrets.list_secrets(scope))


@pytest.mark.parametrize("value", [["hunter2"], {"hunter2": 1}, 20_02])
def test_errors_repeat_no_value(server: Server, scope: str, value: object) -> None:
    body: Any = {"scope": scope, "key": "k", "string_value": value}
    headers = {"Authorization": f"Bearer {TOKEN}"}
    answer = requests.post(f"{server.url}/api/2.0/secrets/put", json=body, headers=headers, timeout=60)
    assert answer.status_code in (200, 400)
    assert "hunter2" not in answer.text
    assert "2002" not in answer.text


def _started(w: WorkspaceClient, **fields: Any) -> ClusterDetails:
    """A cluster once it runs or has ended."""
    made = w.clusters.create(
        cluster_name="c", spark_version="17.3.x-scala2.13", node_type_id="i3.xlarge", num_workers=1, **fields
    ).response
    try:

        def settled() -> ClusterDetails | None:
            found = w.clusters.get(str(made.cluster_id))  # type: ignore[attr-defined] # the SDK leaves the type open
            return found if found.state in (State.RUNNING, State.TERMINATED) else None

        return until(settled)
    finally:
        w.clusters.permanent_delete(str(made.cluster_id))  # type: ignore[attr-defined] # as above


def test_a_cluster_refers_to_secrets(w: WorkspaceClient, scope: str) -> None:
    w.secrets.put_secret(scope, "k", string_value="hunter2")
    found = _started(w, spark_env_vars={"A": "{{secrets/sdk/k}}"}, spark_conf={"spark.a": "x{{ secrets/SDK/K }}"})
    assert found.state is State.RUNNING, found.state_message
    assert found.spark_env_vars == {"A": "{{secrets/sdk/k}}"}
    assert "hunter2" not in repr(found.as_dict())


def test_a_missing_secret_ends_the_start_with_its_name(w: WorkspaceClient, scope: str, golden: Golden) -> None:
    found = _started(w, spark_env_vars={"A": "{{secrets/sdk/missing}}"})
    assert found.state is State.TERMINATED
    reason = found.termination_reason
    assert reason is not None
    assert reason.code is not None and reason.code.value == "SECRET_RESOLUTION_ERROR"
    assert reason.type is not None and reason.type.value == "CLIENT_ERROR"
    golden(found.state_message, "missing", "sdk")
    with golden.refused(NotFound, "nowhere"):
        _started(w, spark_env_vars={"A": "{{secrets/nowhere/k}}"})
    with golden.refused(InvalidParameterValue):
        _started(w, spark_env_vars={"A": "{{secrets/sdk}}"})


def test_an_agent_asks_in_the_name_of_a_contexts_user(w: WorkspaceClient, server: Server, scope: str) -> None:
    w.secrets.put_secret(scope, "k", string_value="hunter2")
    tokens, user = InstanceTokens(key=WORKSPACE_KEY), w.current_user.me().user_name or ""
    body = {
        "instance_id": "i-1",
        "context_id": "c",
        "user": user,
        "ticket": tokens.ticket("i-1", "c", user),
        "scope": scope,
        "key": "k",
    }

    def ask(bearer: str, **changes: str) -> Any:
        headers = {"Authorization": f"Bearer {bearer}"}
        return requests.post(f"{server.url}/agent/v1/secrets", json={**body, **changes}, headers=headers, timeout=60)

    answer = ask(tokens.agent_token("i-1")).json()
    assert base64.b64decode(answer["value"]) == b"hunter2"
    assert answer["server_token"] == tokens.server_token("i-1")
    assert ask(tokens.agent_token("i-1"), key="").json()["names"] == ["k"]
    assert ask(tokens.agent_token("i-1"), key="missing").json()["error_code"] == "RESOURCE_DOES_NOT_EXIST"
    assert ask(tokens.agent_token("i-1"), context_id="other").json()["error_code"] == "PERMISSION_DENIED"
    for bearer in (TOKEN, tokens.agent_token("i-2")):
        refused = ask(bearer)
        assert refused.status_code == 401
        assert "hunter2" not in refused.text
