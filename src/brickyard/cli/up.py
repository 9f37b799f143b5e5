"""`brickyard up`: runs the server in the foreground or detached."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec

from brickyard.cli import CliError, as_called
from brickyard.cli.http import get
from brickyard.cli.interrupts import held_back
from brickyard.cli.options import Grouped, json_option, place, serving, settings
from brickyard.cli.progress import working
from brickyard.config.settings import Settings
from brickyard.interrupts import Importing
from brickyard.logs.serverlog import LOG_LIMIT
from brickyard.sandbox.firstprocess import guarded
from brickyard.server.datadir import Workspace, WorkspaceError
from brickyard.server.messages import ended_line, external_line, tls_line, token_line, why_it_ended
from brickyard.server.preflight import ServerError, prepared

START_LIMIT_S = 90.0
NEXT = "`brickyard ui` (the web page), `brickyard configure`, `brickyard status`; stop it with `brickyard down`."


class Started(NamedTuple):
    """A running server. `new_token` is the administrator's if it was just created; show it only once."""

    url: str
    new_token: str


@click.command("up", cls=Grouped)
@place
@serving
@click.option("--detach", is_flag=True, envvar="BRICKYARD_DETACH", help="Run in the background; return once it serves.")
@json_option
def command(*, detach: bool, as_json: bool, config_file: Path | None, **options: Any) -> None:
    """Start a workspace server. Ctrl-C, SIGTERM and `brickyard down` stop it and end its nodes.

    Every option is also a BRICKYARD_* variable and a key of the TOML file: docs/configuration.md.
    """
    if as_json and not detach:
        raise click.UsageError("--json goes with --detach.")
    chosen = settings(config_file, **options)
    workspace = Workspace(chosen.data_dir, chosen.storage_dir)
    try:
        if detach:
            with contextlib.nullcontext() if as_json else working("Starting the server"):
                started = start_detached(chosen, workspace)
            if as_json:
                token = {"admin_token": started.new_token} if started.new_token else {}
                click.echo(
                    json.dumps({"url": started.url, "data_dir": str(chosen.data_dir), "log": str(workspace.log_file), **token})
                )
                return
            click.echo(f"Brickyard serves at {started.url} (data in {chosen.data_dir}, log in {workspace.log_file}).")
            if external := chosen.external_origin:
                click.echo(external_line(external))
            if started.new_token:
                click.echo(token_line(workspace, started.new_token))
            if chosen.serves_tls:
                click.echo(tls_line(started.url.replace("http://", "https://", 1), str(chosen.ca_file or "")))
            click.echo(as_called(f"Next: {NEXT}"))
        # As a container's first process, it would be the parent of its nodes' orphans.
        elif code := guarded(lambda: serve(chosen, workspace)):
            sys.exit(code)
    except (ServerError, WorkspaceError) as error:
        if not detach and chosen.log_format == "json":  # a log of JSON ends with JSON, too
            click.echo(ended_line(str(error), as_json=True), err=True)
            sys.exit(1)
        raise CliError(str(error)) from error


def start_detached(chosen: Settings, workspace: Workspace) -> Started:
    """Starts a server in the background; returns once it serves. Raises CliError with its message if it fails to."""
    if warning := workspace.prepare():
        click.echo(f"Warning: {warning}", err=True)
    if running := workspace.running():
        raise CliError(f"another Brickyard server ({running}) is using {chosen.data_dir}. Stop it with `brickyard down`.")
    token_is_new = not chosen.admin_token and not workspace.storage.admin_token_file.exists()
    log, start = _open_log(workspace)
    process: subprocess.Popen[bytes] | None = None
    try:
        with log, held_back():
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "brickyard.server"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **as_environment(chosen), "PYTHONPATH": _absolute_path()},
                start_new_session=True,
                cwd="/",
            )
        url = _wait_until_it_serves(process, workspace, start)
    except BaseException:
        if process is not None:
            process.terminate()  # also after Ctrl-C: a server that the user does not know of must not stay
        raise
    return Started(url, workspace.stored_token() if token_is_new else "")


def serve(chosen: Settings, workspace: Workspace) -> int:
    """Runs the server in this process until it is stopped, and returns the exit code. Raises ServerError, WorkspaceError."""
    listening = prepared(chosen, workspace)
    with Importing():
        from brickyard.server.process import run  # noqa: PLC0415 - heavy, and not needed to find that the port is taken

    run(chosen, workspace, listening, detached=False)
    return 0


def as_environment(chosen: Settings) -> dict[str, str]:
    """The settings as BRICKYARD_* variables, so that the child's command line shows no token."""
    found = {}
    for name in Settings.names():
        value = getattr(chosen, name)
        if value is None:
            continue
        found[f"BRICKYARD_{name.upper()}"] = str(value).lower() if isinstance(value, bool) else str(value)
    for provider, section in chosen.sections.items():
        for key, value in section.items():
            text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
            found[f"BRICKYARD_{provider.upper().replace('-', '_')}_{key.upper()}"] = text
    return {**found, "BRICKYARD_CONFIG": os.devnull}  # neither another file nor that of the machine


def _wait_until_it_serves(process: subprocess.Popen[bytes], workspace: Workspace, start: int) -> str:
    deadline = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise CliError(_last_words(workspace.log_file, start))
        running = workspace.running()
        if running and running.pid == process.pid and running.url and _ready(running.url):
            return running.url
        time.sleep(0.05)
    raise CliError(f"the server was not ready within {START_LIMIT_S:.0f} s. Its log is {workspace.log_file}.")


def _ready(url: str) -> bool:
    try:
        get(f"{url}/readyz", timeout_s=2)
    except OSError:  # includes HTTPError
        return False
    return True


def _absolute_path() -> str:
    """PYTHONPATH with absolute paths, for a child that runs in another directory."""
    parts = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return os.pathsep.join(str(Path(part).resolve()) for part in parts if part)


def _open_log(workspace: Workspace) -> tuple[Any, int]:
    """The log, open for appending, and its current end. Raises CliError."""
    path = workspace.log_file
    try:
        if path.exists() and path.stat().st_size > LOG_LIMIT:
            path.replace(path.with_name("server.log.1"))
        log = os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600), "ab")
    except OSError as error:
        raise CliError(f"cannot write {path}: {error.strerror}. Fix its owner, or choose another --data-dir.") from error
    return log, log.seek(0, os.SEEK_END)


def _last_words(log: Path, start: int) -> str:
    lines = [line for line in log.read_bytes()[start:].decode(errors="replace").splitlines() if line.strip()]
    said = next((words for line in reversed(lines) if (words := why_it_ended(line))), "")
    return said or f"the server ended at once. Its log {log} says: {' / '.join(lines[-3:]) or 'nothing'}"
