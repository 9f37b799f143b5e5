"""Init scripts through the official SDK: what a cluster names, what events say, and global ones."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import pytest
from databricks.sdk import WorkspaceClient
from databricks.sdk.errors import InvalidParameterValue, NotFound
from databricks.sdk.service import compute

from brickyard.providers.simulated import Knobs, SimulatedProvider
from tests.support.golden import Golden
from tests.support.patience import SOON

GLOBAL = "/api/2.0/global-init-scripts"


def _script(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.fixture(autouse=True)
def _fresh(w: WorkspaceClient, machines: SimulatedProvider) -> Iterator[None]:
    yield
    machines.knobs = Knobs()
    for script in w.global_init_scripts.list():
        w.global_init_scripts.delete(str(script.script_id))


def _create(w: WorkspaceClient, *scripts: compute.InitScriptInfo, **more: Any) -> Any:
    return w.clusters.create(
        cluster_name="scripts", spark_version="17.3.x-scala2.13", node_type_id="i3.xlarge", num_workers=1,
        init_scripts=list(scripts), **more,
    )  # fmt: skip


def _dbfs(name: str) -> compute.InitScriptInfo:
    return compute.InitScriptInfo(dbfs=compute.DbfsStorageInfo(f"dbfs:/{name}"))


def _details(w: WorkspaceClient, cluster_id: str, kind: compute.EventType) -> list[compute.InitScriptEventDetails]:
    found = [event.details.init_scripts for event in w.clusters.events(cluster_id) if event.type is kind and event.details]
    return [details for details in found if details is not None]


def test_events_of_a_start(w: WorkspaceClient) -> None:
    w.global_init_scripts.create("proxy", _script("exit 0"), enabled=True)
    w.global_init_scripts.create("off", _script("exit 0"))
    volume = compute.InitScriptInfo(volumes=compute.VolumesStorageInfo("/Volumes/c/s/v/b.sh"))
    cluster = _create(w, _dbfs("a.sh"), volume).result(timeout=SOON)
    assert cluster.init_scripts == [_dbfs("a.sh"), volume]
    (started,) = _details(w, cluster.cluster_id, compute.EventType.INIT_SCRIPTS_STARTED)
    assert [script.status for script in started.cluster or []] == [None, None]
    (finished,) = _details(w, cluster.cluster_id, compute.EventType.INIT_SCRIPTS_FINISHED)
    status = compute.InitScriptExecutionDetailsInitScriptExecutionStatus
    assert finished.reported_for_node == "127.0.0.1"
    assert [(script.dbfs, script.volumes, script.status) for script in finished.cluster or []] == [
        (_dbfs("a.sh").dbfs, None, status.SUCCEEDED),
        (None, volume.volumes, status.SUCCEEDED),
    ]
    (shared,) = finished.global_ or []
    assert shared.file is not None
    assert shared.file.destination.endswith("/proxy")
    kinds = [event.type for event in w.clusters.events(cluster.cluster_id, order=compute.GetEventsOrder.ASC)]
    order = [compute.EventType.CREATING, compute.EventType.INIT_SCRIPTS_STARTED, compute.EventType.INIT_SCRIPTS_FINISHED]
    assert kinds[: len(order) + 1] == [*order, compute.EventType.RUNNING]


@pytest.mark.parametrize(("failing", "code"), [("b.sh", "INIT_SCRIPT_FAILURE"), ("proxy", "GLOBAL_INIT_SCRIPT_FAILURE")])
def test_a_failing_script_ends_the_cluster(w: WorkspaceClient, machines: SimulatedProvider, failing: str, code: str) -> None:
    machines.knobs = Knobs(failing_script=failing)
    w.global_init_scripts.create("proxy", _script("exit 0"), enabled=True)
    waiting = _create(w, _dbfs("a.sh"), _dbfs("b.sh"))
    ended = w.clusters.wait_get_cluster_terminated(waiting.response.cluster_id, timeout=SOON)
    assert ended.termination_reason is not None
    assert ended.termination_reason.code is compute.TerminationReasonCode(code)
    assert ended.termination_reason.type is compute.TerminationReasonType.CLIENT_ERROR
    assert f"{failing}" in str(ended.state_message)
    parameters = ended.termination_reason.parameters or {}
    assert "exit code 1" in parameters["databricks_error_message"]
    ran = w.clusters.events(str(ended.cluster_id), event_types=[compute.EventType.INIT_SCRIPTS_FINISHED])
    assert parameters["instance_id"] in [event.details.instance_id for event in ran if event.details is not None]
    # The worker may have run it too before the driver's failure ended it; then there is an event for each.
    finished, *_ = _details(w, str(ended.cluster_id), compute.EventType.INIT_SCRIPTS_FINISHED)
    failed = [script for script in [*(finished.global_ or []), *(finished.cluster or [])] if script.error_message]
    assert [script.status.value for script in failed if script.status] == ["FAILED_EXECUTION"]
    machines.knobs = Knobs()
    w.clusters.start(str(ended.cluster_id)).result(timeout=SOON)  # nothing of the failure is left


@pytest.mark.parametrize(
    ("scripts", "fields"),
    [
        ([compute.InitScriptInfo()], []),
        ([_dbfs("../a.sh")], [".."]),
        ([compute.InitScriptInfo(s3=compute.S3StorageInfo("s3://bucket/a.sh"))], ["region", "endpoint"]),
        ([_dbfs("a.sh")] * 11, ["10"]),
    ],
)
def test_what_is_refused(w: WorkspaceClient, scripts: list[compute.InitScriptInfo], fields: list[str], golden: Golden) -> None:
    with golden.refused(InvalidParameterValue, *fields):
        _create(w, *scripts)


def test_global_scripts_are_kept_in_order(w: WorkspaceClient) -> None:
    api = w.global_init_scripts
    first = api.create("first", _script("echo 1"), enabled=True).script_id
    last = api.create("last", _script("echo 3")).script_id
    second = api.create("second", _script("echo 2"), position=1).script_id
    assert first and last and second

    def order() -> list[tuple[str | None, int | None]]:
        return [(script.name, script.position) for script in api.list()]

    assert order() == [("first", 0), ("second", 1), ("last", 2)]
    api.update(last, "last", _script("echo 3"), position=0)
    assert order() == [("last", 0), ("first", 1), ("second", 2)]
    w.api_client.do("PATCH", f"{GLOBAL}/{last}", body={"position": 99, "enabled": True})
    assert order() == [("first", 0), ("second", 1), ("last", 2)]
    got = api.get(last)
    assert (got.name, got.script, got.enabled, got.position) == ("last", _script("echo 3"), True, 2)
    assert got.created_by == got.updated_by == w.current_user.me().user_name
    assert got.created_at and got.updated_at and got.updated_at >= got.created_at
    api.delete(first)
    assert order() == [("second", 0), ("last", 1)]
    assert "script" not in w.api_client.do("GET", GLOBAL)["scripts"][0]


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({"name": "a", "script": _script("x" * 65537)}, ["script", "65536"]),
        ({"name": "a", "script": "no base64!"}, ["script", "base64"]),
        ({"name": "a", "script": ""}, ["script"]),
        ({"name": "", "script": _script("x")}, ["name"]),
        ({"name": "a", "script": _script("x"), "position": -1}, ["position"]),
        ({"script": _script("x")}, ["name"]),
    ],
)
def test_bad_global_scripts_are_refused(w: WorkspaceClient, body: dict[str, Any], fields: list[str], golden: Golden) -> None:
    with golden.refused(InvalidParameterValue, *fields):
        w.api_client.do("POST", GLOBAL, body=body)
    assert list(w.global_init_scripts.list()) == []


def test_unknown_global_scripts(w: WorkspaceClient, golden: Golden) -> None:
    for call in (w.global_init_scripts.get, w.global_init_scripts.delete):
        with golden.refused(NotFound, "0123"):
            call("0123")
    with pytest.raises(NotFound):
        w.global_init_scripts.update("0123", "name", _script("x"))
