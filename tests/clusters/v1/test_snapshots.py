"""Snapshots over HTTP, with simulated nodes and real directories."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from brickyard.providers.simulated import Knobs, SimulatedProvider
from tests.clusters.v1.conftest import Api
from tests.support.golden import Golden
from tests.support.patience import PATIENCE_S, until
from tests.support.server import Server


class Workspaces:
    """The workspace directories of a server's clusters, as their nodes see them; and calls about snapshots."""

    def __init__(self, api: Api, top: Path) -> None:
        self.api = api
        self.top = top

    def of(self, cluster_id: str) -> Path:
        directory = self.top / "workspaces" / cluster_id / "current"
        directory.mkdir(parents=True, exist_ok=True)
        return directory

    def call(self, method: str, snapshot_id: str) -> Any:
        return self.api._session.request(method, f"{self.api.url}/v1/snapshots/{snapshot_id}", timeout=PATIENCE_S)

    def get(self, snapshot_id: str) -> Any:
        return self.call("GET", snapshot_id).json()["data"]

    def take(self, cluster_id: str, name: str = "a name") -> Any:
        made = self.api.data("POST", f"/{cluster_id}/snapshots", {"name": name}, expect=202)
        assert (made["status"], made["name"]) == ("creating", name)
        until(lambda: self.get(made["id"])["status"] != "creating", f"the end of {made['id']}")
        return self.get(made["id"])

    def chunks(self) -> int:
        walked = os.walk(self.top / "snapshots" / "chunks")  # which goes on where a directory is removed meanwhile
        return sum(name != "lock" for _, _, files in walked for name in files)


@pytest.fixture(scope="module")
def here(server: Server, api: Api) -> Workspaces:
    return Workspaces(api, server.data_dir)


@pytest.fixture
def cluster_id(api: Api) -> Iterator[str]:
    made = api.stopped()
    yield made
    api.call("DELETE", f"/{made}", confirm_deletion="DELETE", force="true", delete_snapshots="true")


def phases(view: Any) -> dict[str, str]:
    return {each["name"]: each["status"] for each in view["operation"]["phases"]}


def test_what_a_stop_saves_a_start_restores(api: Api, here: Workspaces, cluster_id: str) -> None:
    api.data("POST", f"/{cluster_id}/start", {"wait_for_ready": True})
    (here.of(cluster_id) / "model").write_text("checkpoint 1")
    stopped = api.data("POST", f"/{cluster_id}/stop", {"save_state": True, "snapshot_name": "one", "wait_for_completion": True})
    assert phases(stopped)["creating_snapshot"] == stopped["operation"]["status"] == "completed"
    page = api.data("GET", f"/{cluster_id}/snapshots")
    (snapshot,) = page["snapshots"]
    assert (snapshot["name"], snapshot["status"], snapshot["size_bytes"], snapshot["files"]) == ("one", "available", 12, 1)
    assert snapshot["configuration"]["cpu_cores"] == stopped["configuration"]["cpu_cores"]
    assert page["pagination"]["total"] == 1
    (here.of(cluster_id) / "model").write_text("spoilt")
    (here.of(cluster_id) / "more").touch()
    started = api.data("POST", f"/{cluster_id}/start", {"restore_from_snapshot": snapshot["id"], "wait_for_ready": True})
    assert phases(started)["restoring_snapshot"] == "completed"
    names = {path.name: path.read_text() for path in here.of(cluster_id).iterdir()}
    assert names == {"model": "checkpoint 1"}
    (here.of(cluster_id) / "model").write_text("spoilt again")
    again = api.data("POST", f"/{cluster_id}/restart", {"restore_from_snapshot": snapshot["id"], "wait_for_ready": True})
    assert phases(again)["restoring_snapshot"] == "completed"
    assert (here.of(cluster_id) / "model").read_text() == "checkpoint 1"
    gone = api.data("POST", f"/{cluster_id}/stop", {"preserve_data": False, "wait_for_completion": True})
    assert (gone["status"], list(here.of(cluster_id).iterdir())) == ("stopped", [])


def test_snapshots_are_taken_listed_shown_and_deleted_and_their_room_is_given_back(
    api: Api, here: Workspaces, cluster_id: str
) -> None:
    until(lambda: here.chunks() == 0, "what earlier tests have left is removed")
    (here.of(cluster_id) / "data").write_bytes(b"1" * 3_000_000)
    first = here.take(cluster_id)
    assert (first["status"], first["size_bytes"]) == ("available", 3_000_000)
    assert len(first["sha256"]) == 64
    had = here.chunks()
    (here.of(cluster_id) / "data").write_bytes(b"2" * 2_000_000)
    second = here.take(cluster_id, "second")
    assert here.chunks() > had
    listed = api.data("GET", f"/{cluster_id}/snapshots", limit=1)
    assert ([each["id"] for each in listed["snapshots"]], listed["pagination"]["total_pages"]) == ([second["id"]], 2)
    beyond = api.data("GET", f"/{cluster_id}/snapshots", page=2**63 - 1, limit=100)
    assert (beyond["snapshots"], beyond["pagination"]["total"]) == ([], 2)
    assert here.call("DELETE", second["id"]).json()["data"] == {"id": second["id"], "deleted": True}
    assert here.call("GET", second["id"]).status_code == 404
    until(lambda: here.chunks() == had, "the chunks of the second are removed")
    started = api.data("POST", f"/{cluster_id}/start", {"restore_from_snapshot": first["id"], "wait_for_ready": True})
    assert started["status"] == "running", "those of the first are there"
    assert (here.of(cluster_id) / "data").read_bytes() == b"1" * 3_000_000


def test_what_cannot_be_restored_changes_nothing(api: Api, here: Workspaces, cluster_id: str) -> None:
    (here.of(cluster_id) / "mine").write_text("kept")
    other = api.stopped()
    for wanted in ("none such", here.take(other)["id"]):
        problem = api.error("POST", f"/{cluster_id}/start", {"restore_from_snapshot": wanted, "timeout_minutes": 99})
        assert problem[:2] == (422, "SEMANTIC_ERROR")
        fields = {each["field"] for each in problem[2]["problems"]}
        assert fields == {"restore_from_snapshot", "timeout_minutes"}, "all of them together"
    damaged = here.take(cluster_id)
    (here.of(cluster_id) / "mine").write_text("still kept")
    shutil.rmtree(here.top / "snapshots" / "chunks")
    said = api.error("POST", f"/{cluster_id}/start", {"restore_from_snapshot": damaged["id"], "wait_for_ready": True})
    assert said[:2] == (500, "CLUSTER_START_FAILED")
    failed = api.until(cluster_id, "error")
    assert phases(failed)["restoring_snapshot"] == "failed"
    assert "damaged" in failed["status_details"]
    assert (here.of(cluster_id) / "mine").read_text() == "still kept"
    assert api.data("POST", f"/{cluster_id}/start", {"wait_for_ready": True})["status"] == "running"


def test_a_snapshot_that_cannot_be_taken_is_told_and_costs_no_data(
    api: Api, here: Workspaces, cluster_id: str, golden: Golden
) -> None:
    api.data("POST", f"/{cluster_id}/start", {"wait_for_ready": True})
    with (here.of(cluster_id) / "huge").open("wb") as file:
        file.truncate(10 << 30)  # without taking room: larger than snapshot_gb
    asked = {"save_state": True, "preserve_data": False, "wait_for_completion": True}
    assert api.error("POST", f"/{cluster_id}/stop", asked)[:2] == (500, "SNAPSHOT_FAILED")
    stopped = api.data("GET", f"/{cluster_id}")
    assert (stopped["status"], phases(stopped)["creating_snapshot"]) == ("stopped", "failed")
    assert (here.of(cluster_id) / "huge").exists(), "nothing is discarded that was not saved"
    query: dict[str, Any] = {"confirm_deletion": "DELETE", "create_final_snapshot": "true"}
    api.data("DELETE", f"/{cluster_id}", **query)
    until(lambda: api.call("GET", f"/{cluster_id}").status_code == 200, "it is there again")
    golden(api.data("GET", f"/{cluster_id}")["status_details"])
    (here.of(cluster_id) / "huge").unlink()
    api.data("DELETE", f"/{cluster_id}", **query)
    until(lambda: not (here.top / "workspaces" / cluster_id).exists(), "the workspace directory goes with the cluster")
    kept = api.data("GET", f"/{cluster_id}/snapshots")["snapshots"]
    assert sorted(each["status"] for each in kept) == ["available", "failed", "failed"]


def test_a_start_that_is_stopped_while_it_restores_leaves_everything_as_it_was(
    api: Api, here: Workspaces, cluster_id: str, machines: SimulatedProvider, knobs: Knobs
) -> None:
    del knobs
    (here.of(cluster_id) / "a").write_text("1")
    snapshot = here.take(cluster_id)
    (here.of(cluster_id) / "a").write_text("2")
    view = api.data("POST", f"/{cluster_id}/start", {"restore_from_snapshot": snapshot["id"]}, expect=202)
    api.data("POST", f"/{cluster_id}/stop", {"wait_for_completion": True})
    assert view["status"] == "starting"
    assert (here.of(cluster_id) / "a").read_text() in ("1", "2")
    found = sorted(path.name for path in here.of(cluster_id).parent.iterdir())
    assert set(found) <= {"current", "done", "lock"}
    machines.turn(Knobs())


def test_of_two_starts_at_once_that_restore_one_starts(api: Api, here: Workspaces, cluster_id: str) -> None:
    """Each with another snapshot: the directory is that of the one that was taken, and of no other."""
    taken = {}
    for name in ("one", "two"):
        (here.of(cluster_id) / "model").write_text(name)
        taken[here.take(cluster_id, name)["id"]] = name
    answers = dict[str, int]()

    def start(snapshot_id: str) -> None:
        said = requests.post(
            f"{api.url}/v1/clusters/{cluster_id}/start",
            json={"restore_from_snapshot": snapshot_id, "wait_for_ready": True},
            headers=api.headers,
            timeout=PATIENCE_S,
        )
        answers[snapshot_id] = said.status_code

    threads = [threading.Thread(target=start, args=(each,)) for each in taken]
    for each in threads:
        each.start()
    for each in threads:
        each.join(PATIENCE_S)
    assert sorted(answers.values()) == [200, 409]
    (begun,) = (each for each, status in answers.items() if status == 200)
    assert (here.of(cluster_id) / "model").read_text() == taken[begun]
    assert api.data("GET", f"/{cluster_id}")["status"] == "running"


def test_a_restart_saves_between_its_nodes_of_before_and_those_that_come(
    api: Api, here: Workspaces, cluster_id: str, golden: Golden
) -> None:
    api.data("POST", f"/{cluster_id}/start", {"wait_for_ready": True})
    (here.of(cluster_id) / "model").write_text("checkpoint 1")
    asked = {"save_state": True, "snapshot_name": "between", "wait_for_ready": True}
    done = api.data("POST", f"/{cluster_id}/restart", asked)
    (snapshot,) = api.data("GET", f"/{cluster_id}/snapshots")["snapshots"]
    assert (snapshot["name"], snapshot["status"], snapshot["size_bytes"]) == ("between", "available", 12)
    saved = done["operation"]["phases"][1]
    assert (saved["name"], saved["status"], saved["message"]) == (
        "creating_checkpoint",
        "completed",
        f"Snapshot {snapshot['id']}",
    )
    times = [each["finished_at"] for each in done["operation"]["phases"]]
    assert times == sorted(times)
    assert (here.of(cluster_id) / "model").read_text() == "checkpoint 1"
    emptied = api.data("POST", f"/{cluster_id}/restart", {"preserve_data": False, "wait_for_ready": True})
    assert (emptied["status"], list(here.of(cluster_id).iterdir())) == ("running", [])
    plain = api.data("POST", f"/{cluster_id}/restart", {"wait_for_ready": True})
    golden(plain["operation"]["phases"][1]["message"])
    stopped = api.data("POST", f"/{cluster_id}/stop", {"wait_for_completion": True})
    golden(stopped["operation"]["phases"][2]["message"])


def test_a_restart_that_cannot_save_changes_no_file(api: Api, here: Workspaces, cluster_id: str, golden: Golden) -> None:
    api.data("POST", f"/{cluster_id}/start", {"wait_for_ready": True})
    both = {"restore_from_snapshot": "x", "save_state": True, "preserve_data": False}
    status, code, details = api.error("POST", f"/{cluster_id}/restart", both)
    assert (status, code) == (422, "SEMANTIC_ERROR")
    assert {"save_state", "preserve_data"} <= {each["field"] for each in details["problems"]}
    with (here.of(cluster_id) / "huge").open("wb") as file:
        file.truncate(10 << 30)  # without taking room: larger than snapshot_gb
    asked = {"save_state": True, "preserve_data": False, "wait_for_ready": True}
    assert api.error("POST", f"/{cluster_id}/restart", asked)[:2] == (500, "CLUSTER_START_FAILED")
    failed = api.until(cluster_id, "error")
    assert phases(failed)["creating_checkpoint"] == "failed"
    golden(failed["status_details"])
    assert (here.of(cluster_id) / "huge").exists()
