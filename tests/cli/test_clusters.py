"""`brickyard cluster` against a running server."""

from __future__ import annotations

import json
import os
import signal
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
    golden.line(done.stdout, "restoring_snapshot: completed: ")  # with what there is to say
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
    golden(one_line(wrong), "--cores: ", "--storage: ", "--idle-minutes: ", "--max-cost: ")
    golden(one_line(cli.run("cluster", "logs", cluster_id, "none")))
    nothing = cli.run("cluster", "list", "--search", "nobody")
    assert nothing.stdout == ""
    golden(nothing.stderr)


def test_a_cluster_is_created_restarted_and_deleted(cli: Cli, golden: Golden) -> None:
    assert json.loads(cli.run("up", "--detach", "--json").stdout)["data_dir"] == str(cli.data)
    w = cli.client()
    types = [each for each in w.clusters.list_node_types().node_types or [] if not each.num_gpus]
    smallest = min(types, key=lambda each: (each.memory_mb, each.num_cores)).node_type_id
    pool = w.instance_pools.create(instance_pool_name="warm", node_type_id=smallest).instance_pool_id
    rules = {
        "spark_version": {"type": "fixed", "value": "17.3.x-scala2.13"},
        "instance_pool_id": {"type": "fixed", "value": pool},
        "autotermination_minutes": {"type": "fixed", "value": 45},
    }
    policy = w.cluster_policies.create(name="small", definition=json.dumps(rules)).policy_id

    made = said(cli, "create", "alone", "--conf", "spark.a.b=c=d", "--env", "X=1", "--tag", "team=a", "--wait")
    assert (made["status"], made["operation"]["status"]) == ("running", "completed")
    alone = w.clusters.get(made["id"])
    assert ((alone.spark_conf or {})["spark.a.b"], alone.spark_env_vars) == ("c=d", {"X": "1"})
    assert (alone.custom_tags or {})["team"] == "a"
    assert alone.is_single_node
    assert alone.node_type_id == smallest
    ruled = w.clusters.get(said(cli, "create", "ruled", "--policy", "small", "--workers", "1:3")["id"])
    assert (ruled.policy_id, ruled.instance_pool_id, ruled.autotermination_minutes) == (policy, pool, 45)
    assert ruled.autoscale is not None and (ruled.autoscale.min_workers, ruled.autoscale.max_workers) == (1, 3)
    sized = w.clusters.get(
        said(cli, "create", "sized", "--pool", "warm", "--workers", "2", "--runtime", "16.4.x-scala2.12")["id"]
    )
    assert (sized.num_workers, sized.instance_pool_id, sized.spark_version) == (2, pool, "16.4.x-scala2.12")
    for wrong in (["--workers", "some"], ["--policy", "none"], ["--node-type", "x", "--pool", "warm"], ["--runtime", "1.x"]):
        golden(one_line(cli.run("cluster", "create", "wrong", *wrong)))

    before = w.clusters.get(made["id"]).start_time
    again = said(cli, "restart", "alone", "--force", "--wait")
    assert (again["status"], again["operation"]["kind"]) == ("running", "restart")
    lines = cli.run("cluster", "events", "alone", "--json", "--limit", "500").stdout.splitlines()
    kinds = [json.loads(line)["type"] for line in lines]
    assert kinds[0] == "CREATING" and "RESTARTING" in kinds and kinds[-1] != "CREATING", "the newest are last"
    shown = cli.run("cluster", "events", "alone", "--limit", "500").stdout.splitlines()
    assert [line.split()[2] for line in shown] == kinds
    assert before is not None and cli.run("cluster", "events", "alone", "--limit", "1").stdout.count("\n") == 1

    asked = cli.run("cluster", "delete", "alone")
    assert (asked.returncode, asked.stdout) == (1, ""), "nobody answers, and standard output is for results"
    assert "--yes" in asked.stderr
    assert w.clusters.get(made["id"]).cluster_id == made["id"]
    assert said(cli, "delete", "alone", "--yes") == {"cluster_id": made["id"]}
    golden(one_line(cli.run("cluster", "events", made["id"])))


def test_events_that_happen_are_shown(cli: Cli) -> None:
    assert cli.run("up", "--detach").returncode == 0
    made = said(cli, "create", "one", "--wait")
    following = cli.start("cluster", "events", "one", "--follow", "--json", PYTHONUNBUFFERED="1")
    assert following.stdout is not None
    try:
        assert json.loads(following.stdout.readline())["type"] == "CREATING"
        cli.client().clusters.pin(made["id"])
        for line in following.stdout:
            if json.loads(line)["type"] == "PINNED":
                break
        else:
            raise AssertionError(f"it has ended: {following.communicate()}")
    finally:
        os.killpg(following.pid, signal.SIGINT)
        following.communicate()


def test_clusters_and_what_they_can_have_are_completed(cli: Cli) -> None:
    def completed(*words: str) -> list[str]:
        environment = {
            "_BRICKYARD_COMPLETE": "bash_complete",
            "COMP_WORDS": "brickyard " + " ".join(words),
            "COMP_CWORD": str(len(words)),
        }
        done = cli.run(**environment)
        return [line.partition(",")[2] for line in done.stdout.splitlines() if line]

    assert "cluster" in completed("clu")
    assert completed("cluster", "start", "m") == [], "without a server, there is nothing to complete"
    assert cli.run("up", "--detach").returncode == 0
    made = said(cli, "create", "mine")
    assert completed("cluster", "start", "m") == ["mine"]
    assert completed("cluster", "exec", made["id"][:8]) == [made["id"]]
    assert "17.3.x-scala2.13" in completed("cluster", "create", "x", "--runtime", "17")
    (first, *_) = cli.client().clusters.list_node_types().node_types or []
    assert first.node_type_id in completed("cluster", "create", "x", "--node-type", first.node_type_id[:4])


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
    assert refused.returncode == 1
    golden(one_line(refused))
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
    assert failed.returncode == 1
    golden(one_line(failed))
    assert "is deleted" in cli.run("cluster", "snapshot", "delete", "dev", "monday").stdout
    golden(one_line(cli.run("cluster", "snapshot", "list", "none")))


def test_an_id_names_its_cluster_and_its_snapshot_whatever_others_are_called(cli: Cli) -> None:
    assert cli.run("up", "--detach").returncode == 0
    do = cli.client().api_client.do
    made = do("POST", "/v1/clusters", body={"name": "mine", "cpu_cores": 4, "auto_start": False})["data"]["id"]
    theirs = said(cli, "create", made)
    row = said(cli, "snapshot", "create", made, "--name", "one", "--wait")
    assert row["cluster_id"] == made
    said(cli, "snapshot", "create", made, "--name", row["id"], "--wait")
    assert said(cli, "snapshot", "delete", made, row["id"])["id"] == row["id"]
    assert said(cli, "delete", made, "--yes") == {"cluster_id": made}
    assert [each["id"] for each in said(cli, "list")] == [theirs["id"]]


def test_a_cluster_that_is_not_there_is_one_line_whatever_its_name(cli: Cli) -> None:
    assert cli.run("up", "--detach").returncode == 0
    for name in ("my cluster", "Übung", "a/../b", "?", "#", ""):
        assert "there is no cluster" in one_line(cli.run("cluster", "snapshot", "list", name))
    unnamed = cli.client().clusters.create("17.3.x-scala2.13", node_type_id="i3.xlarge", num_workers=1).cluster_id
    assert "there is no cluster" in one_line(cli.run("cluster", "delete", "", "--yes"))
    assert [each["id"] for each in said(cli, "list")] == [unnamed]
