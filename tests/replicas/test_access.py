"""Who may do what is changed on one server and counts on every other within a second (docs/dev/access.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from databricks.sdk.errors import NotFound, PermissionDenied, Unauthenticated
from databricks.sdk.errors.base import DatabricksError
from databricks.sdk.service.compute import ClusterAccessControlRequest, ClusterPermissionLevel
from databricks.sdk.service.iam import ComplexValue, Patch, PatchOp
from requests import Session

from tests.replicas.people import KEY, NODE
from tests.replicas.servers import Replicas
from tests.support.patience import Stopwatch, until
from tests.support.postgres import Postgres
from tests.support.sdk import WorkspaceClient

SECOND, SLACK_S = 1.0, 2.0  # what is promised, and more for a busy machine


@pytest.fixture(scope="module")
def replicas(tmp_path_factory: pytest.TempPathFactory, postgres: Postgres) -> Iterator[Replicas]:
    home = tmp_path_factory.mktemp("access")
    with Replicas.running(home, postgres.new_database(), count=2, provider="simulated") as running:
        yield running


def client(replicas: Replicas, number: int, token: str) -> WorkspaceClient:
    return WorkspaceClient(host=replicas.all[number].url, token=token, auth_type="pat")


def outcome(call: Callable[[], object]) -> type[DatabricksError] | None:
    """The error of a call; None if it succeeds."""
    try:
        call()
    except DatabricksError as error:
        return type(error)
    return None


def soon(call: Callable[[], object], expected: type[DatabricksError] | None) -> None:
    """The call has that outcome within a second."""
    watch = Stopwatch()
    until(lambda: outcome(call) is expected, f"{expected}")
    assert watch.took_s < SECOND + SLACK_S


def test_what_is_changed_on_one_server_counts_on_the_other(replicas: Replicas) -> None:
    admin = client(replicas, 0, replicas.token)
    user = admin.users.create(user_name="ada@example.com")
    assert user.id is not None
    made = admin.api_client.do("POST", "/api/2.1/token-management/tokens", body={"user_name": "ada@example.com"})
    assert isinstance(made, dict)
    hers = client(replicas, 1, made["token_value"])
    soon(hers.current_user.me, None)
    shared = admin.clusters.create(KEY, cluster_name="shared", node_type_id=NODE, num_workers=1)
    cluster_id = str(shared.response.cluster_id)  # type: ignore[attr-defined] # the SDK leaves its type open

    # A grant and its end.
    assert outcome(lambda: hers.clusters.get(cluster_id)) in (NotFound, PermissionDenied)
    grant = ClusterAccessControlRequest(user_name="ada@example.com", permission_level=ClusterPermissionLevel.CAN_ATTACH_TO)
    admin.clusters.set_permissions(cluster_id, access_control_list=[grant])
    soon(lambda: hers.clusters.get(cluster_id), None)
    assert [each.cluster_id for each in hers.clusters.list()] == [cluster_id]
    admin.clusters.set_permissions(cluster_id, access_control_list=[])
    soon(lambda: hers.clusters.get(cluster_id), PermissionDenied)

    # A policy, its rules and the permission to use it.
    rules = '{"num_workers": {"type": "range", "maxValue": %d}}'
    policy_id = admin.cluster_policies.create(name="small", definition=rules % 2).policy_id
    assert policy_id is not None

    def create() -> None:
        cluster = hers.clusters.create(KEY, cluster_name="hers", node_type_id=NODE, num_workers=2, policy_id=policy_id)
        hers.clusters.permanent_delete(cluster.response.cluster_id)  # type: ignore[attr-defined] # as above

    assert outcome(create) is PermissionDenied
    body = {"access_control_list": [{"user_name": "ada@example.com", "permission_level": "CAN_USE"}]}
    admin.api_client.do("PUT", f"/api/2.0/permissions/cluster-policies/{policy_id}", body=body)
    soon(create, None)
    admin.cluster_policies.edit(policy_id, name="small", definition=rules % 1)
    refused = outcome(create)
    assert refused is not None
    assert refused is not PermissionDenied

    # A browser session that began on one server ends on the other with the token that was entered.
    browser = Session()
    form = {"token": made["token_value"], "next": ""}
    assert browser.post(f"{replicas.all[0].url}/login", data=form, allow_redirects=False).status_code in (302, 303)
    cookie = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())

    def page() -> int:
        return browser.get(f"{replicas.all[1].url}/login/session", headers={"Cookie": cookie}).status_code

    until(lambda: page() == 200, "the session")

    # A revoked token, and a deactivated user with another one.
    other = admin.api_client.do("POST", "/api/2.1/token-management/tokens", body={"user_name": "ada@example.com"})
    assert isinstance(other, dict)
    hers_too = client(replicas, 1, other["token_value"])
    soon(hers_too.current_user.me, None)
    admin.token_management.delete(made["token_info"]["token_id"])
    soon(hers.current_user.me, Unauthenticated)
    watch = Stopwatch()
    until(lambda: page() == 401, "the session has ended")
    assert watch.took_s < SECOND + SLACK_S
    assert outcome(hers_too.current_user.me) is None
    admin.users.patch(user.id, operations=[Patch(op=PatchOp.REPLACE, value={"active": False})])
    soon(hers_too.current_user.me, Unauthenticated)

    # The administrator's rights come and go with the group.
    boss = admin.users.create(user_name="grace@example.com")
    token = admin.api_client.do("POST", "/api/2.1/token-management/tokens", body={"user_name": "grace@example.com"})
    assert isinstance(token, dict)
    hers = client(replicas, 1, token["token_value"])
    soon(lambda: hers.clusters.get(cluster_id), PermissionDenied)
    (admins,) = admin.groups.list(filter='displayName eq "admins"')
    added = Patch(op=PatchOp.ADD, path="members", value=[ComplexValue(value=boss.id).as_dict()])
    admin.groups.patch(admins.id or "", operations=[added])
    soon(lambda: hers.clusters.get(cluster_id), None)
    member = f'members[value eq "{boss.id}"]'
    admin.groups.patch(admins.id or "", operations=[Patch(op=PatchOp.REMOVE, path=member)])
    soon(lambda: hers.clusters.get(cluster_id), PermissionDenied)
