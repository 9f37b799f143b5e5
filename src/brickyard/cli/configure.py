"""`brickyard configure`: a profile for Databricks tools."""

from __future__ import annotations

import configparser
import os
from pathlib import Path
from typing import Any

import click

from brickyard.cli import CliError
from brickyard.cli.options import place, settings
from brickyard.lifecycle.workspace import Workspace, WorkspaceError


@click.command("configure")
@place
@click.option("--profile", default="DEFAULT", show_default=True, help="Name of the profile.")
def command(profile: str, config_file: Path | None, **options: Any) -> None:
    """Write host and token of the running workspace to ~/.databrickscfg; other profiles stay as they are."""
    workspace = Workspace(settings(config_file, **options).data_dir)
    running = workspace.running()
    if running is None or not running.url:
        raise CliError(f"no server runs on {workspace.data_dir}. Start one with `brickyard up`.")
    path = Path(os.environ.get("DATABRICKS_CONFIG_FILE") or Path.home() / ".databrickscfg").expanduser()
    try:
        write_profile(path, profile, host=running.url, token=workspace.stored_token())
    except (OSError, configparser.Error, WorkspaceError) as error:
        raise CliError(f"cannot write {path}: {error}") from error
    click.echo(f"Profile {profile} in {path} leads to {running.url}.")


def write_profile(path: Path, profile: str, *, host: str, token: str) -> None:
    """Set one profile of a Databricks configuration file, atomically, for its owner only. Raises OSError, configparser.Error."""
    parser = configparser.ConfigParser(interpolation=None, default_section="\0none")
    if path.exists():
        parser.read(path)
    if not parser.has_section(profile):
        parser.add_section(profile)
    for key in list(parser[profile]):
        parser.remove_option(profile, key)  # other ways to log in would win over the token
    parser[profile]["host"] = host
    parser[profile]["token"] = token
    draft = path.with_name(path.name + ".brickyard")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        parser.write(file)
        file.flush()
        os.fsync(file.fileno())
    draft.rename(path)
