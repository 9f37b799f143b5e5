"""`brickyard token`: access tokens, for the administrator and for others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from brickyard.cli.api import Api, open_api
from brickyard.cli.options import json_option, place

DAY_S = 86_400
days_option = click.option("--days", type=click.IntRange(1, 36_500), help="The token expires after so many days. Default: never.")


@click.group("token")
def command() -> None:
    """Create access tokens."""


@command.command("create")
@click.option("--user", "user_name", default="", help="Whose: a user name or an application id. Default: the administrator's.")
@click.option("--comment", default="", help="What it is for.")
@days_option
@json_option
@place
def create_token(
    *, user_name: str, comment: str, days: int | None, as_json: bool, config_file: Path | None, **options: Any
) -> None:
    """Create a token and print it, which happens only this once. Whoever has it may do whatever its user may."""
    workspace = open_api(config_file, options)
    whose = user_name or workspace.call("GET", "/api/2.0/preview/scim/v2/Me")["userName"]
    token = create(workspace, whose, comment=comment, days=days)
    if as_json:
        click.echo(json.dumps({"user_name": whose, "host": workspace.client_url, "token": token}))
    else:
        present(token, workspace.client_url)


def create(workspace: Api, user_name: str, *, comment: str, days: int | None) -> str:
    """A new token of that user. Raises CliError."""
    body: dict[str, Any] = {"user_name": user_name, "comment": comment}
    if days is not None:
        body["lifetime_seconds"] = days * DAY_S
    return str(workspace.call("POST", "/api/2.1/token-management/tokens", body)["token_value"])


def present(token: str, host: str) -> None:
    """Shows a token with what to do with it."""
    click.echo(f"\nexport DATABRICKS_HOST={host}\nexport DATABRICKS_TOKEN={token}\n")
    click.echo("This is the only time that the token is shown. Send it over a channel that nobody else reads.")
