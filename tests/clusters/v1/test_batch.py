"""The seed's scheduled batch, on a whole server: a schedule starts the cluster, a run works on it, a schedule stops it."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from databricks.sdk import WorkspaceClient
from databricks.sdk.service import compute, jobs

from brickyard.features.schedules.rows import ScheduleRows
from brickyard.providers.simulated import SimulatedProvider
from tests.clusters.v1.conftest import Api
from tests.reconcile.runworld import answer
from tests.support.patience import until
from tests.support.server import Server


@pytest.fixture(autouse=True)
def drivers(machines: SimulatedProvider) -> Iterator[None]:
    """Drivers that answer."""
    machines.kernels.compute = answer
    yield
    machines.kernels.compute = None


def test_a_scheduled_batch(api: Api, server: Server, w: WorkspaceClient) -> None:
    cluster_id = api.stopped()
    path = f"/{cluster_id}/schedules"
    limits = {"idle_minutes": 15, "max_runtime_minutes": 120}
    start = {"environment_updates": {"MODE": "batch"}, "auto_terminate_updates": limits}
    zone = {"timezone": "Europe/Berlin"}
    morning = api.data("POST", path, {"action": "start", "cron": "0 6 * * MON-FRI", "start": start, **zone})
    evening = api.data("POST", path, {"action": "stop", "cron": "0 9 * * MON-FRI", **zone})
    assert [each["id"] for each in api.data("GET", path)["schedules"]] == [morning["id"], evening["id"]]

    comes(server, morning["id"])
    running = api.until(cluster_id, "running")
    assert (running["environment"], running["auto_terminate"]["max_runtime_minutes"]) == ({"MODE": "batch"}, 120)
    assert api.data("GET", f"{path}/{morning['id']}")["last_run"]["result"] == "started"
    task = jobs.SubmitTask(
        task_key="batch",
        existing_cluster_id=cluster_id,
        spark_python_task=jobs.SparkPythonTask(python_file="dbfs:/batch.py"),
    )
    w.dbfs.upload("/batch.py", io.BytesIO(b"print(1)"), overwrite=True)
    done = w.jobs.submit(run_name="batch", tasks=[task]).result()
    assert done.state is not None and done.state.result_state is jobs.RunResultState.SUCCESS

    comes(server, evening["id"])
    api.until(cluster_id, "stopped")
    assert api.data("GET", f"{path}/{evening['id']}")["last_run"]["result"] == "stopped"
    kinds = [each.type for each in w.clusters.events(cluster_id)]
    assert kinds.count(compute.EventType.STARTING) == 1
    assert kinds.count(compute.EventType.TERMINATING) == 1
    entries = w.api_client.do("GET", "/api/2.0/audit-logs", query={"operation": "gpu_schedules.run"})["entries"]
    assert {each["objects"]["schedule_id"] for each in entries} == {morning["id"], evening["id"]}
    assert api.data("DELETE", f"{path}/{morning['id']}") == {"id": morning["id"], "deleted": True}
    assert api.error("GET", f"{path}/{morning['id']}")[:2] == (404, "RESOURCE_NOT_FOUND")
    wrong = api.error("POST", path, {"action": "start", "cron": "* * * * *", "timezone": "Mars/Olympus"})
    assert wrong[:2] == (422, "SEMANTIC_ERROR")
    assert api.error("PATCH", f"{path}/{evening['id']}", {"cron": 5})[:2] == (400, "VALIDATION_ERROR")


def comes(server: Server, schedule_id: str) -> None:
    """Lets the schedule's time come, and waits until it has run."""

    def now(tx: Any) -> None:
        row = tx.rows(ScheduleRows).get(schedule_id)
        tx.rows(ScheduleRows).update(msgspec.structs.replace(row, next_ms=row.created_ms + 1))

    server.store.write_sync(now)

    def has_run() -> bool:
        row = server.store.read_sync(lambda tx: tx.rows(ScheduleRows).get(schedule_id))
        return row is not None and row.last is not None

    until(has_run, f"{schedule_id} to run")
