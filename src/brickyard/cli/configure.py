"""`brickyard configure`: a profile for Databricks tools."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import click

from brickyard.cli import CliError
from brickyard.cli.client import serving
from brickyard.cli.options import place, settings
from brickyard.lifecycle.workspace import Workspace, WorkspaceError, write_private


@click.command("configure")
@place
@click.option("--profile", default="DEFAULT", show_default=True, envvar="BRICKYARD_PROFILE", help="Name of the profile.")
def command(profile: str, config_file: Path | None, **options: Any) -> None:
    """Write host and token of the running workspace to ~/.databrickscfg; other profiles stay as they are."""
    if not re.fullmatch(r"[^\s\[\]]+", profile):
        raise click.UsageError(f"{profile!r} is no name of a profile: it must have no spaces and no brackets.")
    workspace = Workspace(settings(config_file, **options).data_dir)
    running = serving(workspace)
    path = Path(os.environ.get("DATABRICKS_CONFIG_FILE") or "~/.databrickscfg").expanduser().resolve()
    try:
        before = path.read_text() if path.exists() else ""
        write_private(path, with_profile(before, profile, host=running.url, token=workspace.stored_token()))
    except (OSError, UnicodeDecodeError) as error:
        raise CliError(f"cannot write {path}: {error}. Name another file with DATABRICKS_CONFIG_FILE.") from error
    except WorkspaceError as error:
        raise CliError(str(error)) from error
    click.echo(f"Profile {profile} in {path} leads to {running.url}.")


def with_profile(text: str, profile: str, *, host: str, token: str) -> str:
    """The text of a Databricks configuration file with one profile replaced or added, and every other line as it was.

    All that the profile held goes: another way to log in would win over the token. Comments at its end stay: they belong to what
    follows it.
    """
    wanted = f"[{profile}]\nhost  = {host}\ntoken = {token}\n"
    lines = text.splitlines(keepends=True)
    start = next((at for at, line in enumerate(lines) if line.strip() == f"[{profile}]"), None)
    if start is None:
        gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
        return f"{text}{gap}{wanted}"
    end = next((at for at in range(start + 1, len(lines)) if lines[at].lstrip().startswith("[")), len(lines))
    while end > start + 1 and (not lines[end - 1].strip() or lines[end - 1].lstrip().startswith(("#", ";"))):
        end -= 1
    return "".join([*lines[:start], wanted, *lines[end:]])
