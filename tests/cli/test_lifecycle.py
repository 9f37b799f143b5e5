"""The brickyard command as a person uses it: real processes on the simulated provider, on free ports."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from databricks.sdk import WorkspaceClient
from databricks.sdk.service.compute import CommandStatus, Language, State, TerminationReasonCode

from brickyard.cli.http import get
from tests.support.command import Cli, processes_of
from tests.support.golden import Golden
from tests.support.patience import PATIENCE_S, until
from tests.support.postgres import Postgres

REAL_SERVERS = True  # they are what is tested


def test_up_status_configure_down(cli: Cli, golden: Golden) -> None:
    cache = cli.data.parent / "elsewhere"
    up = cli.run("up", "--detach", "--cache-dir", str(cache))
    assert up.returncode == 0, up.stderr
    assert (cli.data.stat().st_mode & 0o777, (cli.data / "admin-token").stat().st_mode & 0o777) == (0o700, 0o600)
    assert (cli.data / "workspace.key").stat().st_mode & 0o777 == 0o600
    assert cli.client().current_user.me().user_name == "admin@brickyard.local"
    status = json.loads(cli.run("status", "--json").stdout)
    assert (status["running"], status["provider"], status["nodes"], status["clusters"]) == (True, "simulated", 0, [])
    assert (status["runtimes"], status["cache_dir"]) == ([], str(cache)), "the server's, whatever this command would take"
    assert status["found"] == "by BRICKYARD_DATA_DIR"
    golden(status["isolation"])
    profile = cli.data.parent / ".databrickscfg"
    profile.write_text("[other]\nhost = https://example.com\n")
    assert cli.run("configure", "--profile", "mine").returncode == 0
    assert "[other]" in profile.read_text()
    assert cli.workspace.stored_token() in profile.read_text()
    client = WorkspaceClient(profile="mine", config_file=str(profile))  # as newcomers do: nothing but the profile
    assert client.current_user.me().user_name == "admin@brickyard.local"
    assert profile.stat().st_mode & 0o777 == 0o600
    assert cli.run("down").returncode == 0
    assert cli.run("status").returncode == 3
    assert cli.run("down").returncode == 0


def test_status_shows_clusters_and_nodes(cli: Cli, golden: Golden) -> None:
    assert cli.run("up", "--detach").returncode == 0
    make = cli.client().clusters.create
    ended = make(cluster_name="ended", spark_version="17.3.x-scala2.13", node_type_id="i3.xlarge", num_workers=2).result()
    cli.client().clusters.delete(str(ended.cluster_id))
    make(cluster_name="runs", spark_version="17.3.x-scala2.13", node_type_id="i3.xlarge", num_workers=3).result()
    cli.client().clusters.wait_get_cluster_terminated(str(ended.cluster_id))
    status = json.loads(cli.run("status", "--json").stdout)
    assert {each["cluster_name"]: (each["state"], each["nodes"]) for each in status["clusters"]} == {
        "ended": ("TERMINATED", 0),
        "runs": ("RUNNING", 4),
    }
    assert status["nodes"] == 4
    shown = cli.run("status").stdout
    assert f"at {status['url']} (process {status['pid']})" in shown
    golden.line(shown, "Provider: simulated; ")
    golden.line(shown, "Installed runtimes: ")
    assert "Clusters: 2 (" in shown
    assert str(ended.cluster_id) in shown, "ids are never cut"


def test_status_shows_pools(cli: Cli) -> None:
    assert cli.run("up", "--detach").returncode == 0
    w = cli.client()
    made = w.instance_pools.create(instance_pool_name="ready", node_type_id="i3.xlarge", min_idle_instances=2, max_capacity=3)
    running = w.clusters.create(
        cluster_name="one", spark_version="17.3.x-scala2.13", instance_pool_id=made.instance_pool_id, num_workers=0,
        spark_conf={"spark.databricks.cluster.profile": "singleNode", "spark.master": "local[*]"},
        custom_tags={"ResourceClass": "SingleNode"},
    ).result()  # fmt: skip
    assert running.cluster_id
    pool_id = str(made.instance_pool_id)
    until(lambda: w.instance_pools.get(pool_id).stats.idle_count == 2)  # type: ignore[union-attr] # `get` always has it
    (pool,) = json.loads(cli.run("status", "--json").stdout)["instance_pools"]
    assert {name: pool[name] for name in ("instance_pool_name", "node_type_id", "max_capacity", "message")} == {
        "instance_pool_name": "ready", "node_type_id": "i3.xlarge", "max_capacity": 3, "message": "",
    }  # fmt: skip
    counts = {"idle": 2, "used": 1, "pending_idle": 0, "pending_used": 0}
    assert {name: pool[f"{name}_count"] for name in counts} == counts
    shown = cli.run("status").stdout
    assert str(made.instance_pool_id) in shown, "ids are never cut"
    measures = get(f"{json.loads(cli.run('status', '--json').stdout)['url']}/metrics", token="", timeout_s=PATIENCE_S)
    for name, number in counts.items():
        assert f'brickyard_pool_instances{{count="{name}",instance_pool_id="{made.instance_pool_id}"}} {number:.1f}' in measures


def test_down_says_in_each_cluster_why_it_ended(cli: Cli, golden: Golden) -> None:
    assert cli.run("up", "--detach").returncode == 0
    made = cli.client().clusters.create(spark_version="17.3.x-scala2.13", node_type_id="i3.xlarge", num_workers=1).result()
    assert made.cluster_id
    assert cli.run("down").returncode == 0
    assert cli.run("up", "--detach").returncode == 0
    ended = cli.client().clusters.wait_get_cluster_terminated(made.cluster_id)
    assert ended.termination_reason is not None
    assert ended.termination_reason.code is TerminationReasonCode.CLOUD_PROVIDER_SHUTDOWN
    golden(str(ended.state_message), "SIGTERM")
    assert cli.client().clusters.start(made.cluster_id).result().state is State.RUNNING
    assert cli.run("down").returncode == 0


def test_a_killed_server_is_followed_by_the_next(cli: Cli) -> None:
    assert cli.run("up", "--detach", BRICKYARD_ADMIN_TOKEN="dapi-mine").returncode == 0
    made = cli.client().clusters.create(spark_version="17.3.x-scala2.13", node_type_id="i3.xlarge", num_workers=1)
    kill(cli)
    assert cli.run("status").returncode == 3
    assert cli.run("up", "--detach").returncode == 0
    assert cli.workspace.stored_token() == "dapi-mine"
    assert cli.client().clusters.get(made.cluster_id).cluster_id == made.cluster_id
    assert cli.run("down").returncode == 0


def test_on_postgresql_simulated_nodes_outlive_a_killed_server(
    cli: Cli, postgres: Postgres, tmp_path: Path, golden: Golden
) -> None:
    """Their world is a process of its own there: it may have several servers."""
    knobs, begun, database = tmp_path / "knobs.toml", tmp_path / "begun", postgres.new_database()
    knobs.write_text(f'commands_file = "{begun}"')
    up = ("up", "--detach", "--database-url", database, "--simulated-knobs", str(knobs))
    assert cli.run(*up).returncode == 0
    w = cli.client()
    made = w.clusters.create(spark_version="17.3.x-scala2.13", node_type_id="i3.xlarge", num_workers=2).result()
    cluster_id = str(made.cluster_id)
    context = w.command_execution.create(cluster_id=cluster_id, language=Language.PYTHON).result()
    command = w.command_execution.execute(
        cluster_id=cluster_id, context_id=context.id, language=Language.PYTHON, command="1 + 1"
    ).result()
    assert begun.read_text().split() == [command.id]

    kill(cli)
    assert cli.run(*up).returncode == 0
    w = cli.client()
    found = w.clusters.get(cluster_id)
    assert (found.state, found.driver) == (State.RUNNING, made.driver), "the next server adopts them"
    again = w.command_execution.command_status(cluster_id, str(context.id), str(command.id))
    assert again.status is CommandStatus.FINISHED
    assert begun.read_text().split() == [command.id], "it began once"
    assert w.clusters.resize(cluster_id, num_workers=3).result().state is State.RUNNING

    os.kill(json.loads((cli.data / "simulated" / "world.json").read_text())["pid"], signal.SIGKILL)
    ended = w.clusters.wait_get_cluster_terminated(cluster_id)
    assert ended.termination_reason is not None
    assert ended.termination_reason.code is TerminationReasonCode.DRIVER_UNREACHABLE
    assert w.clusters.start(cluster_id).result().state is State.RUNNING, "there is another world"

    kill(cli)
    golden.line(cli.run("down").stdout, "4 nodes")
    assert cli.run(*up).returncode == 0
    ended = cli.client().clusters.wait_get_cluster_terminated(cluster_id)
    assert ended.termination_reason is not None
    assert ended.termination_reason.code is TerminationReasonCode.DRIVER_UNREACHABLE
    assert cli.run("down").returncode == 0
    until(lambda: not processes_of(tmp_path), "nothing is left")


def kill(cli: Cli) -> None:
    """End the server as a machine that fails does."""
    running = cli.workspace.running()
    assert running is not None
    os.kill(running.pid, signal.SIGKILL)
    until(lambda: cli.workspace.running() is None, "the end of the server")


def test_help_imports_nothing_heavy() -> None:
    program = (
        "import sys\nsys.argv = ['brickyard', '--help']\nfrom brickyard.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print([name for name in ('aiohttp', 'sqlalchemy', 'databricks', 'uvicorn', 'rich', 'msgspec') if name in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert shown.splitlines()[-1] == "[]"
