"""What commands print where `external_url` names the address by which people and clients reach the workspace."""

from __future__ import annotations

import json

from tests.support.command import Cli

EXTERNAL = "https://bricks.example.com"


def test_every_command_that_gives_an_address_gives_that_one(cli: Cli) -> None:
    started = cli.run("up", "--detach", "--external-url", f"{EXTERNAL}/")
    assert started.returncode == 0, started.stderr
    assert EXTERNAL in started.stdout

    added = cli.run("user", "add", "anna@example.com")
    assert f"export DATABRICKS_HOST={EXTERNAL}\n" in added.stdout
    assert f"export DATABRICKS_HOST={EXTERNAL}\n" in cli.run("token", "create").stdout
    for command in (("token", "create"), ("configure",)):
        assert json.loads(cli.run(*command, "--json").stdout)["host"] == EXTERNAL
    assert cli.run("ui", "--print").stdout.startswith(f"{EXTERNAL}/login/")

    status = json.loads(cli.run("status", "--json").stdout)
    assert (status["client_url"], status["url"].startswith("http://127.0.0.1:")) == (EXTERNAL, True)
    assert EXTERNAL in cli.run("status").stdout


def test_without_it_the_address_is_the_servers(cli: Cli) -> None:
    url = json.loads(cli.run("up", "--detach", "--json").stdout)["url"]
    assert f"export DATABRICKS_HOST={url}\n" in cli.run("token", "create").stdout
    status = json.loads(cli.run("status", "--json").stdout)
    assert (status["client_url"], status["config"]) == (url, "")


def test_what_to_type_next_is_as_it_was_called(cli: Cli) -> None:
    here = {"BRICKYARD_CALLED_AS": "./dev"}
    assert "`./dev up`" in cli.run("status", **here).stdout
    assert "`./dev up`" in cli.run("token", "create", **here).stderr
    assert "`./dev ui`" in cli.run("up", "--detach", **here).stdout
    assert "`brickyard up`" in cli.run("status", "--data-dir", "/nowhere").stdout
