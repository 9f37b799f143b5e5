"""Stops and restarts that let finish what runs, on real Spark: users' code is told, saves what it has, and is waited for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from databricks.sdk.errors.base import DatabricksError
from databricks.sdk.service.compute import DataSecurityMode, Kind, State

from tests.clusters.v1.conftest import Api
from tests.spark.live import Live
from tests.support.golden import Golden
from tests.support.patience import until
from tests.support.runtimes import SPARK_4

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

# Trains until it is told; then saves a checkpoint. Signals reach a command in its handler, while Spark works for it too.
TRAINING = """
import json, pathlib, signal, time
told = []
signal.signal(signal.SIGTERM, lambda *_: told.append(time.time()))
step = 0
while not told:
    step += spark.range(1000).count() // 1000
    pathlib.Path("/workspace/begun").touch()
time.sleep(2)  # saving takes a moment
pathlib.Path("/workspace/checkpoint.json").write_text(json.dumps({"step": step}))
print("saved")
"""
# A program that outlives the command and the shell that have started it, and says which signal it got.
PROGRAM = """
import pathlib, signal, sys, time
def save(number, _frame):
    time.sleep(2)
    pathlib.Path("/workspace/program").write_text(str(number))
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
pathlib.Path("/workspace/program-begun").touch()
time.sleep(3600)
"""
BACKGROUND = f"""
import pathlib, subprocess, sys
pathlib.Path("/workspace/program.py").write_text({PROGRAM!r})
subprocess.run(f"nohup {{sys.executable}} /workspace/program.py > /dev/null 2>&1 &", shell=True, check=True)
print("begun")
"""
# A forked process has the usual handler: users' own `terminate` works.
FORKED = """
import multiprocessing, time
child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,))
child.start()
child.terminate()
child.join(30)
print(child.exitcode)
"""
ENDLESS = """
import pathlib, time
pathlib.Path("/workspace/begun").touch()
while True:
    time.sleep(0.1)
"""


class Place:
    def __init__(self, live: Live, mode: DataSecurityMode | None) -> None:
        self.live = live
        self.api = Api(live.w.config.host or "", live.workspace.stored_token())
        self.id = live.create("graceful", SPARK_4, is_single_node=True, kind=Kind.CLASSIC_PREVIEW, data_security_mode=mode)
        live.wait(self.id, State.RUNNING)
        self.workspace = live.data / "workspaces" / self.id / "current"

    def begin(self, code: str, *, until_there: str = "") -> tuple[str, str]:
        context = self.live.context(self.id)
        command = self.live.begin(self.id, context, code)
        if until_there:
            until(lambda: self.file(until_there).exists(), f"the command has made {until_there}")
        return context, command

    def file(self, name: str) -> Path:
        return self.workspace / name

    def stop(self, **fields: Any) -> Any:
        return self.api.data("POST", f"/{self.id}/stop", fields, expect=200 if fields.get("wait_for_completion") else 202)

    def view(self) -> Any:
        return self.api.data("GET", f"/{self.id}", include_metrics="false", include_cost_breakdown="false")

    def phase(self, name: str) -> Any:
        return next(each for each in self.view()["operation"]["phases"] if each["name"] == name)

    def start(self) -> None:
        for left in self.workspace.iterdir():
            left.unlink()
        self.api.data("POST", f"/{self.id}/start", {"wait_for_ready": True})


# Isolated: with --all, since it is the same from the agent on, and another cluster.
ISOLATED = pytest.param(DataSecurityMode.USER_ISOLATION, id="isolated", marks=pytest.mark.extended)


@pytest.fixture(scope="module", params=[pytest.param(None, id="shared"), ISOLATED])
def place(live: Live, request: pytest.FixtureRequest) -> Place:
    return Place(live, request.param)


def test_what_runs_is_told_saves_and_is_waited_for_whoever_is_killed(place: Place, golden: Golden) -> None:
    live = place.live
    assert live.run(place.id, FORKED) == "-15"
    place.begin(BACKGROUND, until_there="program-begun")
    place.begin(TRAINING, until_there="begun")
    shown = place.stop(save_state=True, snapshot_name="after", stop_reason="night")
    assert shown["status"] == "stopping"
    assert "5 min" in shown["status_details"]
    state = live.get(place.id)
    assert (state.state, state.state_message) == (State.TERMINATING, shown["status_details"])
    with pytest.raises(DatabricksError, match="Terminating"):
        live.context(place.id)
    live.kill(live.server())
    live.start()
    place.api = Api(live.w.config.host or "", live.workspace.stored_token())
    place.api.until(place.id, "stopped")
    assert json.loads(place.file("checkpoint.json").read_text())["step"] > 0
    assert place.file("program").read_text() == "15"
    golden(place.phase("waiting_for_graceful_exit")["message"])
    assert place.phase("creating_snapshot")["status"] == "completed"
    phases = [each["finished_at"] for each in place.view()["operation"]["phases"]]
    assert phases == sorted(phases)
    place.start()


@pytest.mark.extended  # two starts; tests/clusters/v1/test_graceful.py has restarts
def test_the_result_of_a_command_that_may_finish_can_be_read_and_a_restart_waits_too(place: Place, golden: Golden) -> None:
    context, command = place.begin(TRAINING, until_there="begun")
    asked = place.api.data("POST", f"/{place.id}/restart", {"grace_period_minutes": 2}, expect=202)
    golden(asked["status_details"], "2 min")
    ended = place.live.finish(place.id, context, command)
    assert ended.results is not None
    assert ended.results.data == "saved"
    place.api.until(place.id, "running")
    golden(place.phase("stopping_processes")["message"])
    assert place.file("checkpoint.json").exists()
    place.file("begun").unlink()


@pytest.mark.extended  # the shortest grace period is a minute
@pytest.mark.parametrize("place", [None, DataSecurityMode.USER_ISOLATION], indirect=True)
def test_a_command_that_takes_longer_is_ended_and_force_waits_for_nothing(place: Place, golden: Golden) -> None:
    place.begin(ENDLESS, until_there="begun")
    shown = place.stop(grace_period_minutes=1, wait_for_completion=True)
    assert shown["status"] == "stopped"
    assert "1 min" in shown["status_details"]
    place.start()
    place.begin(ENDLESS, until_there="begun")
    assert place.stop(grace_period_minutes=30)["status"] == "stopping"
    until(lambda: place.phase("notifying_processes")["status"] == "completed", "its programs have been told")
    assert place.phase("waiting_for_graceful_exit")["status"] == "in_progress"
    place.stop(force=True, wait_for_completion=True)
    golden(place.phase("waiting_for_graceful_exit")["message"])
    place.start()
    place.begin(ENDLESS, until_there="begun")
    place.live.w.clusters.delete(place.id)
    place.api.until(place.id, "stopped")
    assert place.view()["operation"]["phases"][1]["message"] == ""
