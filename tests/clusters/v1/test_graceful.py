"""Stops and restarts that let finish what runs: through HTTP, and over each kind of database with a clock that tests move."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from databricks.sdk import WorkspaceClient
from databricks.sdk.errors.base import DatabricksError
from databricks.sdk.service import jobs
from databricks.sdk.service.compute import CommandStatus, Language, State

from brickyard.domain.cluster import Cluster
from brickyard.domain.instances import InstanceState
from brickyard.domain.requests import ClusterId
from brickyard.domain.v1.clusters import RestartV1Cluster, StopV1Cluster
from brickyard.providers.simulated import SimulatedProvider
from brickyard.providers.simulated.kernels import Answer
from brickyard.store.store import Store
from brickyard.store.tx import Tx
from tests.clusters.v1.conftest import Api
from tests.clusters.v1.room import MINUTE, Room
from tests.support.databases import both_databases
from tests.support.desk import ADMIN
from tests.support.golden import Golden
from tests.support.patience import until

ENDLESS = Answer(results={"resultType": "text", "data": "never"}, after_s=3_600)


@pytest.fixture
def endless(machines: SimulatedProvider) -> Iterator[None]:
    """Commands that run until they are cancelled."""
    machines.kernels.compute = lambda _: ENDLESS
    yield
    machines.kernels.compute = None


@pytest.fixture
def busy(api: Api, w: WorkspaceClient, endless: None) -> Iterator[tuple[str, str, str]]:
    """A cluster with a command that runs: ids of cluster, context and command."""
    cluster_id = api.running()
    made: Any = w.command_execution.create(cluster_id=cluster_id, language=Language.PYTHON).response
    context = str(made.id)
    asked: dict[str, Any] = {"cluster_id": cluster_id, "context_id": context, "language": Language.PYTHON}
    ran: Any = w.command_execution.execute(**asked, command="x").response
    yield cluster_id, context, str(ran.id)
    api.data("DELETE", f"/{cluster_id}", confirm_deletion="DELETE", force="true")


def phase(api: Api, cluster_id: str, name: str) -> Any:
    found = api.data("GET", f"/{cluster_id}")["operation"]["phases"]
    return next(each for each in found if each["name"] == name)


def test_what_runs_may_finish_and_nothing_new_begins(
    api: Api, w: WorkspaceClient, busy: tuple[str, str, str], golden: Golden
) -> None:
    cluster_id, context, command = busy
    shown = api.data("POST", f"/{cluster_id}/stop", {"grace_period_minutes": 7, "stop_reason": "night"}, expect=202)
    waits = "waiting up to 7 min for running commands to finish"
    assert shown["status"] == "stopping"
    assert waits in shown["status_details"]
    assert w.clusters.get(cluster_id).state is State.TERMINATING
    assert waits in str(w.clusters.get(cluster_id).state_message)
    until(lambda: phase(api, cluster_id, "notifying_processes")["status"] == "completed", "its driver has told its programs")
    assert phase(api, cluster_id, "waiting_for_graceful_exit")["status"] == "in_progress"
    with golden.refused(DatabricksError):
        _ = w.command_execution.create(cluster_id=cluster_id, language=Language.PYTHON)
    with golden.refused(DatabricksError):
        _ = w.command_execution.execute(cluster_id=cluster_id, context_id=context, language=Language.PYTHON, command="y")
    assert w.command_execution.command_status(cluster_id, context, command).status is CommandStatus.RUNNING
    assert w.command_execution.context_status(cluster_id, context).status is not None
    conflict = {"current_state": "stopping", "required_state": "running"}
    assert api.error("POST", f"/{cluster_id}/restart", {}) == (409, "STATE_CONFLICT", conflict)
    _ = w.command_execution.cancel(cluster_id=cluster_id, context_id=context, command_id=command)  # so it is over
    api.until(cluster_id, "stopped")
    golden(phase(api, cluster_id, "waiting_for_graceful_exit")["message"])


@pytest.mark.parametrize("how", ["force", "delete", "permanent"])
def test_a_wait_is_cut_short(api: Api, w: WorkspaceClient, busy: tuple[str, str, str], how: str, golden: Golden) -> None:
    cluster_id, _, _ = busy
    api.data("POST", f"/{cluster_id}/stop", {}, expect=202)
    again = api.data("POST", f"/{cluster_id}/stop", {}, expect=202)
    golden(again["status_details"])
    if how == "force":
        api.data("POST", f"/{cluster_id}/stop", {"force": True, "wait_for_completion": True})
    elif how == "delete":
        w.clusters.delete(cluster_id).result()
    else:
        other = api.running()
        api.data("POST", f"/{other}/stop", {}, expect=202)
        w.clusters.permanent_delete(other)
        until(lambda: api.call("GET", f"/{other}").status_code == 404, "it is gone")
        api.data("POST", f"/{cluster_id}/stop", {"grace_period_minutes": 0, "wait_for_completion": True})
    golden(phase(api, cluster_id, "waiting_for_graceful_exit")["message"])


def test_force_waits_for_nothing(api: Api, busy: tuple[str, str, str]) -> None:
    cluster_id, _, _ = busy
    shown = api.data("POST", f"/{cluster_id}/stop", {"force": True, "wait_for_completion": True})
    assert shown["status"] == "stopped"
    assert "waiting" not in shown["status_details"]


def test_a_restart_waits_and_the_same_one_with_force_does_not(
    api: Api, w: WorkspaceClient, busy: tuple[str, str, str], golden: Golden
) -> None:
    cluster_id, context, command = busy
    shown = api.data("POST", f"/{cluster_id}/restart", {"grace_period_minutes": 30}, expect=202)
    assert (shown["status"], shown["operation"]["estimated_seconds_left"]) == ("starting", None)
    golden(shown["status_details"])
    assert w.clusters.get(cluster_id).state is State.RESTARTING
    assert w.command_execution.command_status(cluster_id, context, command).status is CommandStatus.RUNNING
    assert phase(api, cluster_id, "stopping_processes")["status"] == "in_progress"
    same = api.data("POST", f"/{cluster_id}/restart", {"grace_period_minutes": 30}, expect=202)
    assert same["operation"]["id"] == shown["operation"]["id"]
    done = api.data("POST", f"/{cluster_id}/restart", {"force": True, "wait_for_ready": True})
    assert (done["status"], done["operation"]["id"]) == ("running", shown["operation"]["id"])
    with golden.refused(DatabricksError):
        w.command_execution.command_status(cluster_id, context, command)


def test_a_task_of_a_run_may_finish(api: Api, w: WorkspaceClient, machines: SimulatedProvider) -> None:
    machines.kernels.compute = lambda _: Answer(results={"resultType": "text", "data": "done"}, after_s=2.0)
    try:
        cluster_id = api.running()
        w.dbfs.put("/task.py", contents="cHJpbnQoMSk=", overwrite=True)
        task = jobs.SubmitTask(
            task_key="a", existing_cluster_id=cluster_id, spark_python_task=jobs.SparkPythonTask(python_file="dbfs:/task.py")
        )
        submitted: Any = w.jobs.submit(tasks=[task]).response
        run_id = int(submitted.run_id)

        def state() -> jobs.RunState:
            found = w.jobs.get_run(run_id).state
            assert found is not None
            return found

        until(lambda: machines.kernels.begun and state().life_cycle_state is jobs.RunLifeCycleState.RUNNING, "the task runs")
        api.data("POST", f"/{cluster_id}/stop", {"wait_for_completion": True})
        until(lambda: state().life_cycle_state is jobs.RunLifeCycleState.TERMINATED, "the run has ended")
        assert state().result_state is jobs.RunResultState.SUCCESS
    finally:
        machines.kernels.compute = None


async def said(room: Room, cluster_id: str, **status: int) -> Cluster:
    """A pass after the driver has said so."""

    def work(tx: Tx) -> None:
        for node in tx.instances.of_cluster(cluster_id):
            if node.role.value != "worker":
                told = msgspec.structs.replace(node.status, **status)
                tx.instances.update(msgspec.structs.replace(node, status=told))

    await room.store.write(work)
    return await room.passes(cluster_id, at_once=2)


async def states(room: Room, cluster_id: str) -> set[InstanceState]:
    return {each.state for each in await room.store.read(lambda tx: tx.instances.of_cluster(cluster_id))}


async def test_a_stop_waits_no_longer_than_its_time_on_any_server(store: Store) -> None:
    room = Room(store)
    cluster_id = await room.running()
    await room.v1.stop(ADMIN, StopV1Cluster(cluster_id=cluster_id, grace_period_minutes=3, save_state=True))
    assert (await room.passes(cluster_id, at_once=2)).workbench.graceful.pending
    await said(room, cluster_id, told_ms=1)
    assert not await room.is_due(cluster_id, in_ms=3 * MINUTE - 1)
    assert await room.is_due(cluster_id, in_ms=3 * MINUTE)
    room.clock.advance(ms=3 * MINUTE - 1)
    row = await room.passes(cluster_id, at_once=2)
    assert row.workbench.graceful.pending
    assert await states(room, cluster_id) == {InstanceState.REGISTERED}
    room.clock.advance(ms=1)
    row = await room.passes(cluster_id, at_once=2)
    assert not row.workbench.graceful.pending
    assert await states(room, cluster_id) == {InstanceState.TERMINATING}
    assert row.workbench.task.pending, "the snapshot comes after that"
    assert not row.workbench.task.ready_ms
    row = await room.end(cluster_id)
    assert row.workbench.task.ready_ms
    assert len(await room.endings(cluster_id)) == 1


async def test_what_ends_a_cluster_by_itself_waits_for_nothing(store: Store) -> None:
    room = Room(store)
    cluster_id = await room.running(max_runtime_minutes=30)
    await room.passes(cluster_id)
    room.clock.advance(ms=10 * MINUTE)
    await room.v1.restart(ADMIN, RestartV1Cluster(cluster_id=cluster_id, grace_period_minutes=30))
    assert (await room.passes(cluster_id)).workbench.graceful.pending
    room.clock.advance(ms=20 * MINUTE)
    row = await room.passes(cluster_id)
    assert not row.workbench.graceful.pending
    assert await states(room, cluster_id) == {InstanceState.TERMINATING}
    again = await room.running()
    await room.desk.service.delete(ADMIN, ClusterId(cluster_id=again))
    await room.passes(again)
    assert await states(room, again) == {InstanceState.TERMINATING}, "a stop of the other dialect is as it was"


@both_databases
async def test_what_is_to_be_done_without_nodes_is_told_when_the_last_one_has_gone(store: Store) -> None:
    """Else nobody would look for it before the next poll."""

    room, told = Room(store), list[bool]()
    cluster_id = await room.running()
    await room.v1.stop(ADMIN, StopV1Cluster(cluster_id=cluster_id, force=True, save_state=True))
    await room.passes(cluster_id)
    store.on_commit(lambda changes: told.append(changes.snapshots))
    assert (await room.end(cluster_id)).workbench.task.due_ms is not None
    assert any(told)
