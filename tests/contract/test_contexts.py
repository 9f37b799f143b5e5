"""Execution contexts through databricks-sdk: each is its user's alone, and ends when that user may no longer run code there."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest
from databricks.sdk import WorkspaceClient
from databricks.sdk.errors import PermissionDenied, Unauthenticated
from databricks.sdk.errors.base import DatabricksError
from databricks.sdk.service.compute import CommandExecutionAPI, CommandStatus, ContextStatus, Language
from databricks.sdk.service.iam import AccessControlRequest, Patch, PatchOp, PatchSchema, PermissionLevel

from brickyard.providers.simulated import SimulatedProvider
from brickyard.providers.simulated.kernels import Answer
from tests.support.golden import Golden
from tests.support.patience import until
from tests.support.server import Server
from tests.support.tokens import create

ENDLESS = Answer(results={"resultType": "text", "data": "kept"}, after_s=3600.0)


@pytest.fixture(scope="module", autouse=True)
def _computing(machines: SimulatedProvider) -> Iterator[None]:
    machines.kernels.compute = lambda _: ENDLESS
    yield
    machines.kernels.compute = None


@pytest.fixture(scope="module")
def cluster_id(w: WorkspaceClient) -> str:
    """A running cluster."""
    made = w.clusters.create(cluster_name="shared", spark_version="17.3.x-scala2.13", node_type_id="i3.xlarge", num_workers=1)
    return made.result().cluster_id or ""


class Person:
    """A user who may attach to the cluster and runs an endless command there."""

    def __init__(self, server: Server, w: WorkspaceClient, cluster_id: str) -> None:
        self.name = f"{uuid.uuid4().hex[:8]}@example.com"
        self.id = w.users.create(user_name=self.name).id or ""
        self.grant = AccessControlRequest(user_name=self.name, permission_level=PermissionLevel.CAN_ATTACH_TO)
        w.permissions.update("clusters", cluster_id, access_control_list=[self.grant])
        self.commands = server.client(create(w, self.name, comment="", days=None)).command_execution
        self.cluster_id = cluster_id
        self.context_id = self.commands.create(cluster_id=cluster_id, language=Language.PYTHON).result().id or ""
        self.command_id = self.begin(self.context_id)

    def begin(self, context_id: str) -> str:
        made = self.commands.execute(
            cluster_id=self.cluster_id, context_id=context_id, language=Language.PYTHON, command="while True: pass"
        )
        return str(made.command_id)

    @property
    def state(self) -> CommandStatus | None:
        return self.commands.command_status(self.cluster_id, self.context_id, self.command_id).status


def deactivate(w: WorkspaceClient, person: Person, active: bool = False) -> None:
    change = Patch(op=PatchOp.REPLACE, path="active", value=str(active))  # the SDK drops False
    w.users.patch(person.id, operations=[change], schemas=[PatchSchema.URN_IETF_PARAMS_SCIM_API_MESSAGES_2_0_PATCH_OP])


@pytest.fixture
def anna(server: Server, w: WorkspaceClient, cluster_id: str) -> Person:
    return Person(server, w, cluster_id)


@pytest.fixture
def bob(server: Server, w: WorkspaceClient, cluster_id: str) -> Person:
    return Person(server, w, cluster_id)


def test_nobody_else_runs_code_in_a_context(w: WorkspaceClient, anna: Person, bob: Person, golden: Golden) -> None:
    """Not even an administrator: what runs there reads secrets in its user's name."""
    at = (anna.cluster_id, anna.context_id)
    calls: tuple[Callable[[CommandExecutionAPI], object], ...] = (
        lambda other: other.context_status(*at),
        lambda other: other.destroy(*at),
        lambda other: other.command_status(*at, anna.command_id),
        lambda other: other.cancel(cluster_id=at[0], context_id=at[1], command_id=anna.command_id),
        lambda other: other.execute(cluster_id=at[0], context_id=at[1], language=Language.PYTHON, command="1"),
    )
    for other in (bob.commands, w.command_execution):
        for call in calls:
            with golden.refused(DatabricksError, anna.context_id):
                call(other)
    assert anna.state is CommandStatus.RUNNING


def test_what_runs_ends_with_the_permission(
    w: WorkspaceClient, machines: SimulatedProvider, anna: Person, bob: Person, golden: Golden
) -> None:
    w.permissions.set("clusters", anna.cluster_id, access_control_list=[bob.grant])
    with pytest.raises(PermissionDenied):
        anna.commands.context_status(anna.cluster_id, anna.context_id)
    driver = machines.kernels.begun[-1][0]
    until(lambda: machines.kernels.users(driver) == (bob.name,), "the end of what runs")
    w.permissions.update("clusters", anna.cluster_id, access_control_list=[anna.grant])
    told = anna.commands.command_status(anna.cluster_id, anna.context_id, anna.command_id)
    assert told.status is CommandStatus.ERROR
    assert told.results
    golden(told.results.summary, "CAN_ATTACH_TO")
    assert anna.commands.context_status(anna.cluster_id, anna.context_id).status is ContextStatus.ERROR
    assert bob.state is CommandStatus.RUNNING


def test_what_runs_ends_with_its_user(
    w: WorkspaceClient, machines: SimulatedProvider, anna: Person, bob: Person, golden: Golden
) -> None:
    driver = machines.kernels.begun[-1][0]
    deactivate(w, anna)
    until(lambda: anna.name not in machines.kernels.users(driver), "the end of what runs")
    with pytest.raises(Unauthenticated):
        anna.commands.context_status(anna.cluster_id, anna.context_id)
    deactivate(w, anna, active=True)
    told = anna.commands.command_status(anna.cluster_id, anna.context_id, anna.command_id)
    assert told.results
    golden(told.results.summary)
    assert bob.state is CommandStatus.RUNNING
