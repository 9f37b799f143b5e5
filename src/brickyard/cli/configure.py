"""`brickyard configure`: writes a profile for Databricks tools."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import click

from brickyard.cli import CliError
from brickyard.cli.client import serving
from brickyard.cli.options import found_by, json_option, place, settings
from brickyard.server.datadir import Workspace, WorkspaceError
from brickyard.server.messages import trust_line
from brickyard.storage.private import write_private

DEFAULT, OURS = "DEFAULT", "brickyard"
MARK = "# written by brickyard configure"  # the next `configure` may replace a profile with this mark


@click.command("configure")
@place
@click.option("--profile", envvar="BRICKYARD_PROFILE", help="Name of the profile: DEFAULT if there is none yet, else brickyard.")
@click.option("--replace", is_flag=True, help="Write the profile even if one of that name points to another workspace.")
@json_option
def command(*, profile: str | None, replace: bool, as_json: bool, config_file: Path | None, **options: Any) -> None:
    """Write host and token of the running workspace to ~/.databrickscfg.

    Other profiles, including [DEFAULT], are unchanged. The previous file is kept beside it, as .bak.
    """
    if profile is not None and not re.fullmatch(r"[^\s\[\]]+", profile):
        raise click.UsageError(f"{profile!r} is not a valid profile name: it must have no spaces and no brackets.")
    chosen = settings(config_file, **options)
    workspace = Workspace(chosen.data_dir, chosen.storage_dir)
    found = found_by(config_file, **options)
    running, path = serving(workspace, found), profile_file()
    url = running.client_url
    try:
        before = path.read_text() if path.exists() else ""
        name = profile or (DEFAULT if _is_free(before, DEFAULT, url) else OURS)
        if not (replace or _is_free(before, name, url)):
            raise CliError(
                f"profile {name} in {path} points to {_host(before, name) or 'somewhere else'} and is unchanged. "
                "Choose another name with --profile, or give --replace."
            )
        after = with_profile(before, name, host=url, token=workspace.stored_token())
        if before and after != before:
            write_private(path.with_name(f"{path.name}.bak"), before)
        write_private(path, after)
    except (OSError, UnicodeDecodeError) as error:
        raise CliError(f"cannot write {path}: {error}. Name another file with DATABRICKS_CONFIG_FILE.") from error
    except WorkspaceError as error:
        raise CliError(str(error)) from error
    if as_json:
        click.echo(json.dumps({"profile": name, "file": str(path), "host": url}))
        return
    click.echo(f"Profile {name} in {path} points to {url}, the server on {workspace.data_dir} (chosen {found}).")
    if name != DEFAULT:
        click.echo(f'To use it: export DATABRICKS_CONFIG_PROFILE={name}, or WorkspaceClient(profile="{name}").')
    if ca_file := running.about.get("ca_file"):
        click.echo(trust_line(ca_file))
    if profile is None and name == OURS:
        click.echo(f"[DEFAULT] points to {_host(before, DEFAULT) or 'somewhere else'} and is unchanged.")


def profile_file() -> Path:
    """The file in which Databricks tools look for profiles."""
    return Path(os.environ.get("DATABRICKS_CONFIG_FILE") or "~/.databrickscfg").expanduser().resolve()


def profile_to_use() -> str:
    """The default profile for the workspace: the one that `configure` chose."""
    if named := os.environ.get("DATABRICKS_CONFIG_PROFILE"):
        return named
    try:
        return OURS if _body(profile_file().read_text(), OURS) is not None else DEFAULT
    except (OSError, UnicodeDecodeError):
        return DEFAULT


def with_profile(text: str, profile: str, *, host: str, token: str) -> str:
    """The text of a Databricks configuration file with one profile replaced or added, and all other lines unchanged.

    Everything in the old profile is dropped, because another login method would override the token. Comments at its end stay:
    they belong to what follows.
    """
    wanted = f"[{profile}]\n{MARK}\nhost  = {host}\ntoken = {token}\n"
    lines = text.splitlines(keepends=True)
    if (found := _section(lines, profile)) is None:
        gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
        return f"{text}{gap}{wanted}"
    start, end = found
    return "".join([*lines[:start], wanted, *lines[end:]])


def _section(lines: list[str], profile: str) -> tuple[int, int] | None:
    """The start and end of a profile. Its comments are those before its last value, and our mark."""
    start = next((at for at, line in enumerate(lines) if line.strip() == f"[{profile}]"), None)
    if start is None:
        return None
    end = next((at for at in range(start + 1, len(lines)) if lines[at].lstrip().startswith("[")), len(lines))
    while end > start + 1 and (not lines[end - 1].strip() or lines[end - 1].lstrip().startswith(("#", ";"))):
        end -= 1
    return start, end


def _body(text: str, profile: str) -> list[str] | None:
    lines = text.splitlines()
    found = _section(lines, profile)
    return None if found is None else [line.strip() for line in lines[found[0] + 1 : found[1]] if line.strip()]


def _host(text: str, profile: str) -> str:
    for line in _body(text, profile) or []:
        name, _, value = line.partition("=")
        if name.strip() == "host":
            return value.strip().rstrip("/")
    return ""


def _is_free(text: str, profile: str, url: str) -> bool:
    """Whether writing the profile loses nobody's settings: it is missing, empty or ours, or leads to this workspace already."""
    body = _body(text, profile)
    return not body or body[0] == MARK or _host(text, profile) == url
