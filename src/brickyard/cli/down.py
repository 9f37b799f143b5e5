"""`brickyard down`: stop the server."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import click

from brickyard.cli import CliError
from brickyard.cli.options import place, settings
from brickyard.lifecycle.workspace import Workspace

LIMIT_S = 60.0


@click.command("down")
@place
@click.option("--keep-nodes", is_flag=True, help="Leave nodes running for the next start to adopt.")
def command(keep_nodes: bool, config_file: Path | None, **options: Any) -> None:
    """Stop the server and end its nodes."""
    workspace = Workspace(settings(config_file, **options).data_dir)
    running = workspace.running()
    if running is None:
        click.echo(f"No server runs on {workspace.data_dir}.")
        return
    if keep_nodes:
        (workspace.data_dir / "keep-nodes").touch()
    os.kill(running.pid, signal.SIGTERM)
    started = time.monotonic()
    spoken = started
    while workspace.running() is not None:
        now = time.monotonic()
        if now - started > LIMIT_S:
            raise CliError(f"process {running.pid} has not ended after {LIMIT_S:.0f} s. Its log is {workspace.log_file}.")
        if now - spoken > 3:
            spoken = now
            click.echo(f"Waiting for its nodes to end ({now - started:.0f} s) ...")
        time.sleep(0.05)
    click.echo("The server has stopped." + (" Its nodes run on." if keep_nodes else ""))
