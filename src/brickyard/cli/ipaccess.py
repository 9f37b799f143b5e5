"""`brickyard ip-access`: IP access lists, from the server's own machine, which they never keep out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from brickyard.cli import printable
from brickyard.cli.api import open_api
from brickyard.cli.options import place

SETTING = "enableIpAccessLists"


@click.group("ip-access")
def command() -> None:
    """Show IP access lists, and turn them on or off."""


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@place
def list_lists(*, as_json: bool, config_file: Path | None, **options: Any) -> None:
    """Show the lists, and whether they are in force."""
    workspace = open_api(config_file, options)
    on = workspace.call("GET", "/api/2.0/workspace-conf", keys=SETTING)[SETTING].lower() == "true"
    rows = workspace.call("GET", "/api/2.0/ip-access-lists").get("ip_access_lists", [])
    if as_json:
        click.echo(json.dumps({"enabled": on, "ip_access_lists": rows}, indent=2))
        return
    click.echo(f"IP access lists are {'on' if on else 'off'}.")
    for row in rows:
        state = "" if row["enabled"] else "  (disabled)"
        click.echo(printable(f"{row['list_type']}  {row['label']}  {', '.join(row.get('ip_addresses', []))}{state}"))


@command.command("off")
@place
def off(*, config_file: Path | None, **options: Any) -> None:
    """Let every address in: the way back for administrators who are locked out. The lists are kept."""
    _set("false", config_file, options)
    click.echo("IP access lists are off: every address is let in.")


@command.command("on")
@place
def on(*, config_file: Path | None, **options: Any) -> None:
    """Put the lists in force again."""
    _set("true", config_file, options)
    click.echo("IP access lists are on.")


def _set(value: str, config_file: Path | None, options: dict[str, Any]) -> None:
    open_api(config_file, options).call("PATCH", "/api/2.0/workspace-conf", {SETTING: value})
