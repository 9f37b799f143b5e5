"""`brickyard user` and `brickyard token` against a running server, as the person at its machine uses them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from databricks.sdk import WorkspaceClient
from databricks.sdk.errors import NotFound, PermissionDenied, Unauthenticated

from tests.support.command import Cli, one_line
from tests.support.golden import Golden


def said(cli: Cli, *arguments: str) -> Any:
    done = cli.run(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def as_user(cli: Cli, token: str) -> WorkspaceClient:
    return WorkspaceClient(host=cli.client().config.host, token=token, auth_type="pat")


def test_giving_a_colleague_access_is_one_command(cli: Cli, golden: Golden) -> None:
    golden(one_line(cli.run("user", "list")))
    assert cli.run("up", "--detach").returncode == 0

    done = cli.run("user", "add", "anna@example.com", "--name", "Anna O")
    assert done.returncode == 0, done.stderr
    [exported] = [line for line in done.stdout.splitlines() if line.startswith("export DATABRICKS_TOKEN=")]
    anna = as_user(cli, exported.partition("=")[2])
    assert anna.current_user.me().display_name == "Anna O"
    made = anna.clusters.create(cluster_name="hers", spark_version="17.3.x-scala2.13", node_type_id="i3.xlarge", num_workers=1)
    with pytest.raises(PermissionDenied):
        list(anna.token_management.list())

    assert said(cli, "user", "add", "Anna@Example.com")["new"] is False
    boss = said(cli, "user", "add", "boss@example.com", "--admin", "--days", "1")
    assert len(list(as_user(cli, boss["token"]).token_management.list())) >= 3
    guest = said(cli, "user", "add", "guest@example.com", "--restricted")
    with pytest.raises(PermissionDenied):
        as_user(cli, guest["token"]).clusters.create(
            cluster_name="theirs", spark_version="17.3.x-scala2.13", node_type_id="i3.xlarge", num_workers=1
        )
    assert "token" not in said(cli, "user", "add", "later@example.com", "--no-token")

    rows = {row["user_name"]: row for row in said(cli, "user", "list")}
    assert {name for name, row in rows.items() if row["admin"]} == {"boss@example.com", cli.client().current_user.me().user_name}
    assert rows["anna@example.com"]["active"] and rows["anna@example.com"]["display_name"] == "Anna O"
    shown = cli.run("user", "list").stdout
    assert "boss@example.com" in shown and "administrator" in shown

    again = said(cli, "token", "create", "--user", "anna@example.com", "--comment", "laptop")["token"]
    assert as_user(cli, again).current_user.me().user_name == "anna@example.com"
    mine = said(cli, "token", "create")
    assert as_user(cli, mine["token"]).current_user.me().user_name == cli.client().current_user.me().user_name

    asked = cli.run("user", "remove", "anna@example.com")
    assert (asked.returncode, asked.stdout) == (1, ""), "nobody answers the question"
    assert "--yes" in asked.stderr
    assert cli.run("user", "remove", "anna@example.com", "--yes").returncode == 0
    for gone in (anna, as_user(cli, again)):
        with pytest.raises(Unauthenticated):
            gone.current_user.me()
    assert cli.client().clusters.get(made.cluster_id).creator_user_name == "anna@example.com"
    golden(one_line(cli.run("user", "remove", "anna@example.com", "--yes")))
    golden(one_line(cli.run("token", "create", "--user", "nobody@example.com")))
    with pytest.raises(NotFound):
        cli.client().api_client.do("POST", "/api/2.1/token-management/tokens", body={"user_name": "nobody@example.com"})
    own = str(cli.client().current_user.me().user_name)
    assert cli.run("user", "remove", "boss@example.com", "--yes").returncode == 0
    assert "administrator" in one_line(cli.run("user", "remove", own, "--yes"))
