"""`brickyard cluster` against a running server."""

from __future__ import annotations

import json
from typing import Any

from tests.support.command import Cli, one_line
from tests.support.golden import Golden
from tests.support.ports import free_port


def said(cli: Cli, *arguments: str) -> Any:
    done = cli.run("cluster", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_cluster_is_started_watched_listed_and_stopped(cli: Cli, golden: Golden) -> None:
    golden(one_line(cli.run("cluster", "list")))
    assert cli.run("up", "--detach").returncode == 0
    w = cli.client()
    make = {"name": "mine", "cpu_cores": 4, "auto_start": False, "environment_variables": {"OLD": "1"}}
    cluster_id = w.api_client.do("POST", "/v1/clusters", body=make)["data"]["id"]

    changes = ("--env", "A=b=c", "--unset", "OLD", "--cores", "8", "--idle-minutes", "30", "--max-runtime-minutes", "600")
    done = cli.run("cluster", "start", "mine", *changes, "--stop-at", "2099-12-31T18:00:00+01:00", "--wait")
    assert done.returncode == 0, done.stderr
    assert "starting_services: completed" in done.stdout, "a line for each phase"
    assert "restoring_snapshot: completed: No snapshot to restore" in done.stdout, "with what there is to say"
    assert "mine is running." in done.stdout
    (row,) = said(cli, "list")
    assert (row["id"], row["status"], row["environment"]) == (cluster_id, "running", {"A": "b=c"})
    assert row["configuration"]["cpu_cores"] >= 8
    ends = row["auto_terminate"]
    assert (ends["idle_minutes"], ends["max_runtime_minutes"], ends["at"]) == (30, 600, "2099-12-31T17:00:00.000Z")
    assert "mine" in cli.run("cluster", "list").stdout
    assert said(cli, "logs", cluster_id)["files"] == []

    (port,) = said(cli, "ports", "mine", "--add", "8888", "--description", "lab")
    assert (port["internal_port"], port["status"], port["description"]) == (8888, "active", "lab")
    assert f"/ports/{cluster_id}/8888/" in cli.run("cluster", "ports", "mine").stdout
    golden(one_line(cli.run("cluster", "ports", "mine", "--add", "80")))
    golden(one_line(cli.run("cluster", "ports", "mine", "--remove", "9")))
    assert said(cli, "ports", "mine", "--remove", "8888") == []
    (tcp,) = said(cli, "ports", "mine", "--add", "5432", "--tcp", "--external-port", str(free := free_port()))
    assert (tcp["url"], tcp["status"]) == (f"tcp://127.0.0.1:{free}", "failed"), "simulated drivers have no ports"
    assert "--external-port goes with --tcp" in cli.run("cluster", "ports", "mine", "--add", "1", "--external-port", "2").stderr
    assert said(cli, "ports", "mine", "--remove", "5432") == []

    refused = cli.run("cluster", "start", cluster_id)
    assert refused.returncode == 1
    golden(one_line(refused))
    golden(one_line(cli.run("cluster", "stop", "yours")))
    golden(one_line(cli.run("cluster", "start", "mine", "--env", "A")), "NAME", "VALUE")

    golden(one_line(cli.run("cluster", "stop", "mine", "--grace", "31")))
    golden(one_line(cli.run("cluster", "stop", "mine", "--grace", "3", "--force")))
    stopped = said(cli, "stop", "mine", "--reason", "lunch", "--grace", "3", "--wait")
    assert (stopped["status"], stopped["operation"]["status"]) == ("stopped", "completed")
    assert "lunch" in stopped["status_details"]
    log = cli.data / "logs" / cluster_id / "i-1-1" / "stdout"  # of a node that has ended
    log.parent.mkdir(parents=True)
    log.write_text("first\n\x1b[31mred\nlast")
    assert said(cli, "logs", "mine")["files"][0]["file"] == "i-1-1/stdout"
    assert cli.run("cluster", "logs", "mine", "i-1-1/stdout").stdout == "first\n?[31mred\nlast"
    w.api_client.do("POST", "/v1/clusters", body=make)
    golden(one_line(cli.run("cluster", "start", "mine")))
    wrong = cli.run(
        "cluster", "start", cluster_id, "--cores", "100000", "--storage", "0", "--idle-minutes", "1", "--max-cost", "-1"
    )
    assert all(
        each in one_line(wrong) for each in ("--cores: ", "the most is ", "--storage: ", "--idle-minutes: ", "--max-cost: ")
    )
    golden(one_line(cli.run("cluster", "logs", cluster_id, "none")))
    nothing = cli.run("cluster", "list", "--search", "nobody")
    assert (nothing.stdout, nothing.stderr) == ("", "There are no such clusters.\n")


def test_schedules_are_added_listed_paused_and_removed(cli: Cli, golden: Golden) -> None:
    assert cli.run("up", "--detach").returncode == 0
    make = {"name": "batch", "cpu_cores": 4, "auto_start": False}
    cli.client().api_client.do("POST", "/v1/clusters", body=make)
    limits = '{"auto_terminate_updates": {"max_runtime_minutes": 90}}'
    made = said(cli, "schedule", "add", "batch", "start", "0 6 * * MON-FRI", "--timezone", "Europe/Berlin", "--start", limits)
    assert (made["action"], made["timezone"], made["missed"]) == ("start", "Europe/Berlin", "run")
    assert made["start"]["auto_terminate_updates"] == {"max_runtime_minutes": 90}
    assert said(cli, "schedule", "list", "batch") == [made]
    shown = cli.run("cluster", "schedule", "list", "batch").stdout
    assert made["id"] in shown and made["next_run_at"] in shown
    assert "paused" in cli.run("cluster", "schedule", "pause", "batch", made["id"]).stdout
    assert said(cli, "schedule", "pause", "batch", made["id"], "--resume")["next_run_at"] == made["next_run_at"]
    refused = cli.run("cluster", "schedule", "add", "batch", "stop", "* * * * *", "--skip-missed")
    assert (refused.returncode, "more often than every 5 minutes" in one_line(refused)) == (1, True)
    golden(one_line(cli.run("cluster", "schedule", "add", "batch", "start", "0 6 * * *", "--start", "{")))
    assert "is removed" in cli.run("cluster", "schedule", "remove", "batch", made["id"]).stdout
    assert said(cli, "schedule", "list", "batch") == []
    golden(one_line(cli.run("cluster", "schedule", "remove", "batch", made["id"])))


def test_snapshots_are_taken_listed_restored_and_deleted(cli: Cli, golden: Golden) -> None:
    assert cli.run("up", "--detach").returncode == 0
    make = {"name": "dev", "cpu_cores": 4, "auto_start": False}
    cluster_id = cli.client().api_client.do("POST", "/v1/clusters", body=make)["data"]["id"]
    file = cli.data / "workspaces" / cluster_id / "current" / "model"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("one")
    done = cli.run("cluster", "snapshot", "create", "dev", "--name", "monday", "--wait")
    assert (done.returncode, "available" in done.stdout) == (0, True), done.stderr
    (row,) = said(cli, "snapshot", "list", "dev")
    assert (row["name"], row["size_bytes"]) == ("monday", 3)
    assert row["id"] in cli.run("cluster", "snapshot", "list", cluster_id).stdout

    file.write_text("spoilt")
    golden(one_line(cli.run("cluster", "snapshot", "restore", "dev", "tuesday")))
    restored = cli.run("cluster", "snapshot", "restore", "dev", "monday", "--wait")
    assert (restored.returncode, "restoring_snapshot: completed" in restored.stdout) == (0, True), restored.stderr
    assert file.read_text() == "one"
    golden(one_line(cli.run("cluster", "snapshot", "restore", "dev", "monday")))
    assert said(cli, "snapshot", "restore", "dev", "monday", "--restart", "--wait")["operation"]["kind"] == "restart"

    stopped = said(cli, "stop", "dev", "--save", "--force", "--wait")
    assert stopped["operation"]["status"] == "completed"
    assert len(said(cli, "snapshot", "list", "dev")) == 2
    with file.open("wb") as huge:
        huge.truncate(1 << 42)  # without taking room: larger than snapshot_gb
    failed = cli.run("cluster", "snapshot", "create", "dev", "--wait")
    assert (failed.returncode, "was not taken: there are more than" in one_line(failed)) == (1, True)
    assert "is deleted" in cli.run("cluster", "snapshot", "delete", "dev", "monday").stdout
    golden(one_line(cli.run("cluster", "snapshot", "list", "none")))
