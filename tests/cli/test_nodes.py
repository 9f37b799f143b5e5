"""What becomes of nodes when their server stops: real agents, whose runtime never comes, so that no Spark is needed."""

from __future__ import annotations

import fcntl
import json
import os
import resource
import signal
from pathlib import Path

import pytest
from databricks.sdk.service.compute import State

from brickyard.cli import CliError
from brickyard.cli.down import end_nodes
from brickyard.providers.local import provider as providers_local
from brickyard.server.datadir import Workspace
from tests.support.command import Cli, processes_of
from tests.support.golden import Golden
from tests.support.patience import PATIENCE_S, until


def agents(cli: Cli) -> set[str]:
    """Command lines of the agents that live. A child that an agent has just forked has its command line for a moment."""
    return {line for line in processes_of(cli.data.parent) if "brickyard.agent --config" in line}


def with_a_starting_cluster(cli: Cli) -> str:
    """A detached server and a cluster whose agents run and have said which processes they are; returns the cluster's id."""
    assert cli.run("up", "--detach").returncode == 0
    node_type = min(cli.client().clusters.list_node_types().node_types or [], key=lambda each: each.memory_mb)
    made = cli.client().clusters.create(spark_version="17.3.x-scala2.13", node_type_id=node_type.node_type_id, num_workers=1)
    until(lambda: len(list((cli.data / "instances").glob("*/agent.pid"))) >= 2, "both nodes' agents")
    return str(made.cluster_id)


def instances(cli: Cli) -> set[str]:
    return {path.name for path in (cli.data / "instances").iterdir()}


def test_nodes_that_are_kept_are_adopted_by_the_next_server_of_another_version(
    local: Cli, tmp_path: Path, golden: Golden
) -> None:
    (tmp_path / "newer").mkdir()
    (tmp_path / "newer" / "sitecustomize.py").write_text("import brickyard\nbrickyard.__version__ = '99.1'\n")
    cluster_id = with_a_starting_cluster(local)
    before, there = agents(local), instances(local)
    down = local.run("down", "--keep-nodes")
    assert down.returncode == 0
    golden(down.stdout.splitlines()[-1])
    assert agents(local) == before
    assert local.run("up", "--detach", PYTHONPATH=str(tmp_path / "newer")).returncode == 0
    assert json.loads((local.data / "server.json").read_text())["version"] == "99.1"
    assert local.client().clusters.get(cluster_id).state is State.PENDING
    assert agents(local) == before, "no other one was launched"
    assert instances(local) == there
    assert local.run("down").returncode == 0
    assert processes_of(local.data.parent) == []
    assert instances(local) == set()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_server_in_the_foreground_ends_its_nodes_on_a_signal(local: Cli, number: signal.Signals, golden: Golden) -> None:
    server = local.start("up")
    assert server.stdout is not None
    golden(server.stdout.readline(), "http://127.0.0.1:")
    token = server.stdout.readline()
    assert "shown this once" in token
    assert local.workspace.stored_token() in token
    made = local.client().clusters.create(spark_version="17.3.x-scala2.13", node_type_id="m5.large", num_workers=1)
    until(lambda: agents(local), "a node's agent")
    os.kill(server.pid, number)
    _, said = server.communicate(timeout=PATIENCE_S)
    assert server.returncode == 0
    golden.line(said, "Stopping")
    assert processes_of(local.data.parent) == []
    assert local.run("up", "--detach").returncode == 0
    ended = local.client().clusters.wait_get_cluster_terminated(made.cluster_id)
    assert ("Ctrl-C" if number is signal.SIGINT else "SIGTERM") in str(ended.state_message)
    assert local.run("down").returncode == 0


def test_a_node_that_is_killed_is_not_left_in_pieces(local: Cli, tmp_path: Path) -> None:
    """SIGKILL of the server and of every agent at once: the next server cleans up after them."""
    cluster_id = with_a_starting_cluster(local)
    pids = {int(path.name) for path in Path("/proc").glob("[0-9]*") if _is_ours(path, tmp_path)}
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    until(lambda: local.workspace.running() is None, "the end of the server")
    assert local.run("up", "--detach").returncode == 0
    ended = local.client().clusters.wait_get_cluster_terminated(cluster_id)
    assert ended.termination_reason is not None
    assert local.run("down").returncode == 0
    assert processes_of(local.data.parent) == []
    assert instances(local) == set()


def test_nodes_end_although_nothing_can_be_written(local: Cli, golden: Golden) -> None:
    """A full disk, for the server's process: neither the database nor a note beside an instance can be written."""
    with_a_starting_cluster(local)
    running = local.workspace.running()
    assert running is not None
    resource.prlimit(running.pid, resource.RLIMIT_FSIZE, (0, resource.prlimit(running.pid, resource.RLIMIT_FSIZE)[1]))
    down = local.run("down")
    assert down.returncode == 0
    golden(down.stdout.splitlines()[-1])
    assert processes_of(local.data.parent) == []
    assert instances(local) == set()


def test_down_ends_what_a_killed_server_has_left(local: Cli, golden: Golden) -> None:
    with_a_starting_cluster(local)
    running = local.workspace.running()
    assert running is not None
    os.kill(running.pid, signal.SIGKILL)
    until(lambda: local.workspace.running() is None, "the end of the server")
    assert agents(local)
    golden(local.run("down").stdout.splitlines()[-1], "2 nodes")
    assert processes_of(local.data.parent) == []
    assert instances(local) == set()


def test_down_tells_which_nodes_live_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: Golden) -> None:
    monkeypatch.setattr(providers_local, "CLOSE_PATIENCE_S", 0.2)
    stubborn = tmp_path / "instances" / "i-stubborn"
    stubborn.mkdir(parents=True)
    with (stubborn / "agent.lock").open("w") as held:  # somebody who has not said which process
        fcntl.flock(held, fcntl.LOCK_EX)
        with golden.refused(CliError):
            end_nodes(Workspace(tmp_path))
    assert end_nodes(Workspace(tmp_path)) == 1
    assert end_nodes(Workspace(tmp_path)) == 0


def _is_ours(process: Path, home: Path) -> bool:
    try:
        return f"HOME={home}\0".encode() in (process / "environ").read_bytes() + b"\0"
    except OSError:
        return False
