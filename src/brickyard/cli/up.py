"""`brickyard up`: the server, in the foreground or detached."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import click

from brickyard.cli import CliError
from brickyard.cli.options import place, serving, settings
from brickyard.config import Settings
from brickyard.lifecycle.workspace import Workspace, WorkspaceError

START_LIMIT_S = 60.0


@click.command("up")
@place
@serving
@click.option("--detach", is_flag=True, help="Run in the background; return once it serves.")
def command(detach: bool, config_file: Path | None, **options: Any) -> None:
    """Start a workspace server. Ctrl-C, SIGTERM and `brickyard down` stop it and end its nodes."""
    chosen = settings(config_file, **options)
    workspace = Workspace(chosen.data_dir)
    try:
        workspace.prepare()
        if detach:
            url = start_detached(chosen, workspace)
            click.echo(f"Brickyard serves at {url} (data in {chosen.data_dir}, log in {workspace.log_file}).")
            click.echo("Next: brickyard configure, brickyard status; stop it with brickyard down.")
        else:
            serve(chosen, workspace)
    except WorkspaceError as error:
        raise CliError(str(error)) from error


def start_detached(chosen: Settings, workspace: Workspace) -> str:
    """Start a server in the background; returns its URL once it serves. Raises CliError with what it said when it did not."""
    workspace.prepare()
    if running := workspace.running():
        raise CliError(f"a server runs already: process {running.pid} at {running.url}. Stop it with `brickyard down`.")
    environment = {**os.environ, **_as_environment(chosen)}
    with workspace.log_file.open("ab") as log:
        start = log.tell()
        process = subprocess.Popen(
            [sys.executable, "-m", "brickyard.cli.server"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            start_new_session=True,
            cwd="/",
        )
    deadline = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise CliError(_last_words(workspace.log_file, start))
        running = workspace.running()
        if running and running.url and _ready(running.url):
            return running.url
        time.sleep(0.05)
    process.terminate()
    raise CliError(f"the server did not serve within {START_LIMIT_S:.0f} s. Its log is {workspace.log_file}.")


def serve(chosen: Settings, workspace: Workspace) -> None:
    """Run the server in this process until it is told to stop. Raises CliError, WorkspaceError."""
    listening = _bind(chosen.host, chosen.port)
    workspace.prepare()
    workspace.lock()
    from brickyard.cli.server import run  # noqa: PLC0415 - heavy, and not needed to find out that the port is taken

    run(chosen, workspace, listening)


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(1024)
    except OSError as error:
        listening.close()
        raise CliError(
            f"cannot listen on {host}:{port}: {error.strerror}. Choose another with --port (0 finds a free one)."
        ) from error
    return listening


def _as_environment(chosen: Settings) -> dict[str, str]:
    """The settings as BRICKYARD_* variables: a child's command line shows no token."""
    found = {}
    for name in Settings.__struct_fields__:
        value = getattr(chosen, name)
        found[f"BRICKYARD_{name.upper()}"] = "" if value is False else str(value)
    return {**found, "BRICKYARD_CONFIG": ""}


def _ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/readyz", timeout=2) as answer:  # noqa: S310 - our own server's http URL
            return bool(answer.status == 200)
    except OSError:
        return False


def _last_words(log: Path, start: int) -> str:
    lines = [line for line in log.read_bytes()[start:].decode(errors="replace").splitlines() if line.strip()]
    said = next((line.removeprefix("brickyard: ") for line in reversed(lines) if line.startswith("brickyard: ")), "")
    return said or f"the server ended at once. Its log {log} says: {' / '.join(lines[-3:]) or 'nothing'}"


def stop_signals() -> tuple[signal.Signals, ...]:
    """What ends a server in order."""
    return (signal.SIGTERM, signal.SIGINT)


def isolation_here() -> tuple[str, str]:
    """How clusters can be kept apart on this machine: (kind, reason where there is none)."""
    done = subprocess.run(
        [sys.executable, "-m", "brickyard.agent", "--probe"], capture_output=True, text=True, check=False, timeout=60
    )
    try:
        answer = json.loads(done.stdout)
        return str(answer["isolation"]), str(answer["reason"])
    except (ValueError, KeyError):
        return "none", done.stderr.strip()[-300:] or "the probe failed"
