"""The use cases of /v1/clusters in docs/examples/: programs with plain HTTP, here on one server with real clusters."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clusters.v1.conftest import Api
from tests.clusters.v1.test_batch import comes
from tests.support.patience import until
from tests.support.server import TOKEN, Server

# In every run, tests/clusters/v1/ has the calls, and test_graceful.py has them on a real cluster.
pytestmark = [pytest.mark.spark, pytest.mark.extended, pytest.mark.timeout(900)]

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
TORCH = os.environ.get("BRICKYARD_TEST_TORCH") == "1"  # downloads 200 MB or more, and needs an index that has it


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server.running(tmp_path_factory.mktemp("live") / "workspace", snapshot_gb=1.0) as running:
        yield running


@pytest.fixture(scope="module")
def api(server: Server) -> Api:
    return Api(server.url)


def begin(server: Server, example: str, *arguments: str) -> subprocess.Popen[str]:
    """The example as its user runs it."""
    env = {"PATH": os.environ["PATH"], "DATABRICKS_HOST": server.url, "DATABRICKS_TOKEN": TOKEN}
    command = [sys.executable, str(EXAMPLES / example), *arguments]
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str]) -> list[str]:
    out, error = process.communicate(timeout=800)
    assert process.returncode == 0, out + error
    return out.splitlines()


def run(server: Server, example: str, *arguments: str) -> list[str]:
    return finish(begin(server, example, *arguments))


def test_the_morning_start_of_a_development_cluster(server: Server, api: Api) -> None:
    *phases, last = run(server, "morning_start.py", "dev-cluster")
    (cluster,) = api.data("GET", search="dev-cluster")["clusters"]
    assert [line.split(" % ")[1] for line in phases][-2:] == ["starting_services", "health_checks"]
    assert last == f"running, JupyterLab's place is {server.url}/ports/{cluster['id']}/8888/"
    shown = api.data("GET", f"/{cluster['id']}")
    assert (shown["status"], shown["auto_terminate"]["idle_minutes"]) == ("running", 60)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", shown["environment"]["STARTED_ON"])
    assert run(server, "morning_start.py", "dev-cluster") == ["it runs already"]
    files = server.data_dir / "workspaces" / cluster["id"] / "current"
    (files / "notes").write_text("of yesterday")
    api.data("POST", f"/{cluster['id']}/stop", {"wait_for_completion": True})

    assert run(server, "morning_start.py", "dev-cluster")[-1] == last, "the next morning"
    assert api.data("GET", search="dev-cluster")["pagination"]["total"] == 1
    assert (files / "notes").read_text() == "of yesterday"
    api.data("DELETE", f"/{cluster['id']}", confirm_deletion="DELETE", force="true")


def test_a_training_run_goes_on_from_its_checkpoint_with_another_configuration(server: Server, api: Api) -> None:
    script = () if TORCH else (str(Path(__file__).with_name("train_numpy.py")), "")
    lines = run(server, "resume_training.py", *script)
    told = [line for line in lines if line.startswith("running")]
    assert [line.split()[2] for line in told] == ["1", "1", "2"], "cores of the three starts"
    epochs = [json.loads(line) for line in lines if line.startswith("{")]
    assert [each["epoch"] for each in epochs] == [1, 2, 3, 4, 4, 5, 6], "the spoilt fourth one is forgotten"
    assert [each["rate"] for each in epochs] == [0.002, 0.002, 0.002, 5, 0.05, 0.05, 0.05]
    losses = [each["loss"] for each in epochs]
    assert losses[2] < losses[0]
    assert not losses[3] < losses[0] * 100, "the run with a rate that is far too high has spoilt its checkpoint"
    assert losses[6] < losses[2] / 100
    assert api.data("GET", search="training-")["clusters"] == []


def test_a_scheduled_batch(server: Server, api: Api) -> None:
    start, stop = run(server, "scheduled_batch.py", "plan", "nightly-batch")
    assert (start[:9], stop[:8]) == ("start at ", "stop at ")
    (cluster,) = api.data("GET", search="nightly-batch")["clusters"]
    working = begin(server, "scheduled_batch.py", "work", "nightly-batch")
    schedules = api.data("GET", f"/{cluster['id']}/schedules")["schedules"]
    assert [each["action"] for each in schedules] == ["start", "stop"]
    comes(server, schedules[0]["id"])
    assert finish(working) == ["SUCCESS batch 499500", "stopped"]
    assert api.data("GET", f"/{cluster['id']}")["status_details"].endswith("the batch is done")
    comes(server, schedules[1]["id"])
    last = api.data("GET", f"/{cluster['id']}/schedules/{schedules[1]['id']}")["last_run"]
    assert last["result"] == "already_stopped"
    api.data("DELETE", f"/{cluster['id']}", confirm_deletion="DELETE")
    until(lambda: api.data("GET", search="nightly-batch")["clusters"] == [], "the cluster has gone")
