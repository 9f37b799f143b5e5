"""`brickyard user`: who may use the workspace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from brickyard.cli import CliError, printable
from brickyard.cli.client import administering, client_url
from brickyard.cli.options import json_option, place
from brickyard.cli.token import create, days_option, present

if TYPE_CHECKING:
    from databricks.sdk import WorkspaceClient
    from databricks.sdk.service.iam import User

CREATES = ("allow-cluster-create", "allow-instance-pool-create")


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
    with administering(config_file, options) as workspace:
        user, new = _added(workspace, user_name, display_name, admin=admin, restricted=restricted)
        token = "" if no_token else create(workspace, str(user.user_name), comment="made by brickyard user add", days=days)
        url = client_url(config_file, options)
    if as_json:
        click.echo(
            json.dumps(
                {"user_name": user.user_name, "id": user.id, "new": new, "host": url, **({"token": token} if token else {})}
            )
        )
        return
    click.echo(f"{printable(str(user.user_name))} {'may use the workspace now' if new else 'could use the workspace before'}.")
    if token:
        present(token, url)


@command.command("list")
@json_option
@place
def list_users(*, as_json: bool, config_file: Path | None, **options: Any) -> None:
    """Show the users and service principals."""
    with administering(config_file, options) as workspace:
        rows = [
            *(_row(str(each.user_name), "user", each) for each in workspace.users.list()),
            *(_row(str(each.application_id), "service principal", each) for each in workspace.service_principals.list()),
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
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
@place
def remove(user_name: str, *, yes: bool, as_json: bool, config_file: Path | None, **options: Any) -> None:
    """Remove a user, with their tokens and permissions.

    Their clusters stay, and go on running; administrators can change the owner."""
    with administering(config_file, options) as workspace:
        user = _user(workspace, user_name)
        if user is None:
            raise CliError(f"there is no user {printable(user_name)}. `brickyard user list` shows all.")
        if not yes:
            click.confirm(f"Remove {printable(str(user.user_name))}, with their tokens and permissions?", abort=True)
        workspace.users.delete(str(user.id))
    if as_json:
        click.echo(json.dumps({"user_name": user.user_name, "id": user.id}))
    else:
        click.echo(f"{printable(str(user.user_name))} is removed.")


def _added(workspace: WorkspaceClient, user_name: str, display_name: str, *, admin: bool, restricted: bool) -> tuple[User, bool]:
    """The user, and whether they are new."""
    from databricks.sdk.errors import ResourceConflict  # noqa: PLC0415 - half a second of imports
    from databricks.sdk.service.iam import ComplexValue, Patch, PatchOp, PatchSchema  # noqa: PLC0415 - as above

    entitlements = [] if restricted else [ComplexValue(value=each) for each in CREATES]
    try:
        user, new = (
            workspace.users.create(user_name=user_name, display_name=display_name or None, entitlements=entitlements),
            True,
        )
    except ResourceConflict:
        found = _user(workspace, user_name)
        if found is None:
            raise
        user, new = found, False
    if admin:
        [admins] = workspace.groups.list(filter='displayName eq "admins"', attributes="id")
        joined = Patch(op=PatchOp.ADD, path="members", value=[{"value": user.id}])
        workspace.groups.patch(
            str(admins.id), operations=[joined], schemas=[PatchSchema.URN_IETF_PARAMS_SCIM_API_MESSAGES_2_0_PATCH_OP]
        )
    return user, new


def _user(workspace: WorkspaceClient, user_name: str) -> User | None:
    quoted = json.dumps(user_name, ensure_ascii=False)
    return next(iter(workspace.users.list(filter=f"userName eq {quoted}")), None)


def _row(name: str, kind: str, found: Any) -> dict[str, Any]:
    groups = [str(each.display) for each in found.groups or []]
    return {
        "user_name": name,
        "id": found.id,
        "kind": kind,
        "display_name": found.display_name if found.display_name != name else "",
        "active": bool(found.active),
        "admin": "admins" in groups,
        "groups": groups,
    }
