"""A start that restores a snapshot, on real Spark, while the server, the node's agent or the whole node is killed (SIGKILL) in
each of its phases: the cluster runs or has ended, its directory is whole, and it can be started again."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import psutil
import pytest

from tests.clusters.v1.conftest import Api
from tests.spark.live import Live, living
from tests.support.patience import until

pytestmark = [pytest.mark.spark, pytest.mark.extended, pytest.mark.timeout(900)]

FILES = 3_000  # so many that restoring them takes a moment
RESTORING, NODE_PHASES = (
    "restoring_snapshot",
    ("acquiring_instances", "updating_configuration", "starting_services", "health_checks"),
)
OVER = ("running", "stopped", "error")


class Place:
    """A cluster whose snapshot holds "saved" in every file, and whose directory holds "later"."""

    def __init__(self, live: Live) -> None:
        self.live = live
        self.api = Api(live.w.config.host or "", live.workspace.stored_token())
        self.cluster_id = self.api.stopped(cpu_cores=1)
        self.top = live.data / "workspaces" / self.cluster_id
        self.current = self.top / "current"
        self.current.mkdir(parents=True, exist_ok=True)
        self.write("saved")
        made = self.api.data("POST", f"/{self.cluster_id}/snapshots", {}, expect=202)
        self.snapshot_id = str(made["id"])
        until(lambda: self._snapshot() == "available", "the snapshot is taken")

    def _snapshot(self) -> str:
        (row,) = self.api.data("GET", f"/{self.cluster_id}/snapshots")["snapshots"]
        return str(row["status"])

    def write(self, text: str) -> None:
        for number in range(FILES):
            (self.current / str(number)).write_text(text)

    def held(self) -> str:
        """What every file of the directory holds. Raises AssertionError unless it is whole, and nothing else is left."""
        found = {path.name: path.read_text() for path in self.current.iterdir()}
        assert found.keys() == {str(number) for number in range(FILES)}
        (text,) = set(found.values())
        assert {path.name for path in self.top.iterdir()} <= {"current", "done", "lock"}
        return text

    def view(self) -> Any:
        return self.api.data("GET", f"/{self.cluster_id}", include_metrics="false", include_cost_breakdown="false")

    def begin(self, verb: str = "start") -> None:
        self.api.data("POST", f"/{self.cluster_id}/{verb}", {"restore_from_snapshot": self.snapshot_id}, expect=202)

    def reaches(self, phase: str) -> None:
        """Until the operation is in that phase, or has just passed it: some take a moment only."""

        def there() -> bool:
            phases = {each["name"]: each["status"] for each in self.view()["operation"]["phases"]}
            assert "failed" not in phases.values(), phases
            return phases[phase] in ("in_progress", "completed")

        until(there, f"the start reaches {phase}")

    def over(self) -> str:
        """The state in which the cluster comes to rest."""

        def rest() -> str | None:  # looked at once: one that runs may have lost its node, and be ending a moment later
            status = str(self.view()["status"])
            return status if status in OVER else None

        return until(rest, "it runs or has ended")

    def stop(self, *, lost: bool = False) -> None:
        """Stop it, and wait until it has stopped. `lost`: it may have ended meanwhile, because its node is lost."""
        answer = self.api.call("POST", f"/{self.cluster_id}/stop", {"wait_for_completion": True})
        assert answer.ok or (lost and answer.json()["details"]["current_state"] == "error"), answer.text

    def agent(self) -> psutil.Process:
        """The agent of its only node."""

        def found() -> psutil.Process | None:
            for file in (self.live.data / "instances").glob("*/agent.pid"):
                with contextlib.suppress(OSError, ValueError, KeyError, psutil.NoSuchProcess):
                    return psutil.Process(json.loads(file.read_bytes())["pid"])
            return None

        return until(found, "its node has an agent")

    def server_again(self) -> None:
        self.live.start()
        self.api = Api(self.live.w.config.host or "", self.live.workspace.stored_token())


@pytest.fixture(scope="module")
def place(live: Live) -> Place:
    return Place(live)


@pytest.mark.parametrize("phase", [RESTORING, *NODE_PHASES])
def test_a_start_goes_on_when_its_server_is_killed(place: Place, phase: str) -> None:
    place.write("later")
    place.begin()
    place.reaches(phase)
    place.live.kill(place.live.server())
    place.server_again()
    assert place.over() == "running"
    assert place.held() == "saved"
    place.stop()


@pytest.mark.parametrize("phase", NODE_PHASES)
@pytest.mark.parametrize("part", ["agent", "node"])
def test_a_start_whose_node_is_killed_ends_whole(place: Place, phase: str, part: str) -> None:
    place.write("later")
    place.begin()
    place.reaches(phase)
    agent = place.agent()
    node = [agent, *agent.children(recursive=True)]
    place.live.kill(*(node if part == "node" else [agent]))
    state = place.over()
    assert place.held() == "saved", "the directory was restored before there was a node"
    if state == "running":  # it was over already, or another node took its place
        place.stop(lost=True)
    until(lambda: not living(node), "nothing is left of the node")


def test_a_restart_of_which_everything_is_killed_goes_on(place: Place) -> None:
    place.api.data("POST", f"/{place.cluster_id}/start", {"wait_for_ready": True})
    place.write("later")
    place.begin("restart")
    place.live.kill(place.live.server(), *place.live.nodes())
    place.server_again()
    state = place.over()
    assert place.held() == ("saved" if state == "running" else "later")
    if state == "running":
        place.stop()
