"""`brickyard user`: who may use the workspace."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from brickyard.cli import CliError, printable
from brickyard.cli.api import Api, Refused, open_api
from brickyard.cli.options import confirm, json_option, place, yes_option
from brickyard.cli.token import create, days_option, present

CREATES = ("allow-cluster-create", "allow-instance-pool-create")
SCIM = "/api/2.0/preview/scim/v2"
PATCH = "urn:ietf:params:scim:api:messages:2.0:PatchOp"
_CONFLICT = 409
PAGE = 100


@click.group("user")
def command() -> None:
    """Add, list and remove users."""


@command.command("add")
@click.argument("user_name")
@click.option("--name", "display_name", default="", help="The name to show.")
@click.option("--admin", is_flag=True, help="An administrator: may do everything.")
@click.option("--restricted", is_flag=True, help="May not create clusters and pools of their own, except by a cluster policy.")
@days_option
@click.option("--no-token", is_flag=True, help="Create no token: they log in through an identity provider.")
@json_option
@place
def add(
    user_name: str,
    *,
    display_name: str,
    admin: bool,
    restricted: bool,
    days: int | None,
    no_token: bool,
    as_json: bool,
    config_file: Path | None,
    **options: Any,
) -> None:
    """Give somebody access: adds the user and prints a token for them, which is shown only this once.

    They may create clusters and use them; other people's clusters they see once they are granted a permission on them. Somebody
    who was there before gets another token, and becomes an administrator with --admin; nothing else of theirs changes."""
    if admin and restricted:
        raise click.UsageError("an administrator cannot be restricted.")
    workspace = open_api(config_file, options)
    user, new = _added(workspace, user_name, display_name, admin=admin, restricted=restricted)
    name, url = user["userName"], workspace.client_url
    token = "" if no_token else create(workspace, name, comment="made by brickyard user add", days=days)
    if as_json:
        click.echo(
            json.dumps({"user_name": name, "id": user["id"], "new": new, "host": url} | ({"token": token} if token else {}))
        )
        return
    click.echo(f"{printable(name)} {'may use the workspace now' if new else 'could use the workspace before'}.")
    if token:
        present(token, url)


@command.command("list")
@json_option
@place
def list_users(*, as_json: bool, config_file: Path | None, **options: Any) -> None:
    """Show the users and service principals."""
    workspace = open_api(config_file, options)
    rows = [
        *(_row(each["userName"], "user", each) for each in _every(workspace, "Users")),
        *(_row(each["applicationId"], "service principal", each) for each in _every(workspace, "ServicePrincipals")),
    ]
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    width = max([len(printable(row["user_name"])) for row in rows], default=0)
    for row in rows:
        said = [row["kind"], *(["administrator"] if row["admin"] else []), *([] if row["active"] else ["deactivated"])]
        name = f" ({row['display_name']})" if row["display_name"] else ""
        click.echo(printable(f"{row['user_name']:<{width}}  {', '.join(said)}{name}"))


@command.command("remove")
@click.argument("user_name")
@yes_option
@json_option
@place
def remove(user_name: str, *, yes: bool, as_json: bool, config_file: Path | None, **options: Any) -> None:
    """Remove a user, with their tokens and permissions.

    Their clusters stay, and go on running; administrators can change the owner."""
    workspace = open_api(config_file, options)
    user = _user(workspace, user_name)
    if user is None:
        raise CliError(f"there is no user {printable(user_name)}. `brickyard user list` shows all.")
    name = user["userName"]
    if not yes:
        confirm(f"Remove {printable(name)}, with their tokens and permissions?")
    workspace.call("DELETE", f"{SCIM}/Users/{user['id']}")
    if as_json:
        click.echo(json.dumps({"user_name": name, "id": user["id"]}))
    else:
        click.echo(f"{printable(name)} is removed.")


def _added(workspace: Api, user_name: str, display_name: str, *, admin: bool, restricted: bool) -> tuple[Any, bool]:
    """The user, and whether they are new."""
    entitlements = [] if restricted else [{"value": each} for each in CREATES]
    asked = {"userName": user_name, "entitlements": entitlements} | ({"displayName": display_name} if display_name else {})
    try:
        user, new = workspace.call("POST", f"{SCIM}/Users", asked), True
    except Refused as error:
        user, new = _user(workspace, user_name) if error.status == _CONFLICT else None, False
        if user is None:
            raise
    if admin:
        [admins] = _every(workspace, "Groups", filter='displayName eq "admins"', attributes="id")
        joined = {"op": "add", "path": "members", "value": [{"value": user["id"]}]}
        workspace.call("PATCH", f"{SCIM}/Groups/{admins['id']}", {"schemas": [PATCH], "Operations": [joined]})
    return user, new


def _user(workspace: Api, user_name: str) -> Any:
    """None if there is none."""
    quoted = json.dumps(user_name, ensure_ascii=False)
    return next(_every(workspace, "Users", filter=f"userName eq {quoted}"), None)


def _every(workspace: Api, what: str, **query: str) -> Iterator[Any]:
    """All of a SCIM list, page by page."""
    start = 1
    while rows := workspace.call("GET", f"{SCIM}/{what}", startIndex=start, count=PAGE, **query).get("Resources"):
        yield from rows
        start += len(rows)


def _row(name: str, kind: str, found: Any) -> dict[str, Any]:
    groups = [str(each["display"]) for each in found.get("groups") or []]
    return {
        "user_name": name,
        "id": found["id"],
        "kind": kind,
        "display_name": shown if (shown := found.get("displayName")) != name else "",
        "active": bool(found.get("active")),
        "admin": "admins" in groups,
        "groups": groups,
    }
