"""`brickyard token`: access tokens, for the administrator and for others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from brickyard.cli.client import administering, client_url
from brickyard.cli.options import json_option, place

if TYPE_CHECKING:
    from databricks.sdk import WorkspaceClient

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
    with administering(config_file, options) as workspace:
        whose = user_name or str(workspace.current_user.me().user_name)
        token = create(workspace, whose, comment=comment, days=days)
        url = client_url(config_file, options)
    if as_json:
        click.echo(json.dumps({"user_name": whose, "host": url, "token": token}))
    else:
        present(token, url)


def create(workspace: WorkspaceClient, user_name: str, *, comment: str, days: int | None) -> str:
    """A new token of that user. Raises the SDK's errors."""
    body: dict[str, Any] = {"user_name": user_name, "comment": comment}
    if days is not None:
        body["lifetime_seconds"] = days * DAY_S
    answer = workspace.api_client.do("POST", "/api/2.1/token-management/tokens", body=body)
    assert isinstance(answer, dict)  # noqa: S101 - the operation's answer
    return str(answer["token_value"])


def present(token: str, host: str) -> None:
    """Shows a token with what to do with it."""
    click.echo(f"\nexport DATABRICKS_HOST={host}\nexport DATABRICKS_TOKEN={token}\n")
    click.echo("This is the only time that the token is shown. Send it over a channel that nobody else reads.")
