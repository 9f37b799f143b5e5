"""`brickyard down`: stop the server."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from brickyard.cli import CliError
from brickyard.cli.options import place, settings
from brickyard.cli.progress import working
from brickyard.lifecycle.workspace import Running, Workspace, WorkspaceError

LIMIT_S = 60.0
SPEAK_S = 3.0


@click.command("down")
@place
@click.option("--keep-nodes", is_flag=True, help="Leave nodes running for the next start to adopt.")
def command(keep_nodes: bool, config_file: Path | None, **options: Any) -> None:
    """Stop the server and end its nodes."""
    chosen = settings(config_file, **options)
    workspace = Workspace(chosen.data_dir)
    running = workspace.running()
    if running is None:
        click.echo(f"No server runs on {workspace.data_dir}.")
        return
    kept = keep_nodes or chosen.keep_nodes
    stop_server(workspace, running, keep_nodes=kept)
    click.echo("The server has stopped." + (" Its nodes run on." if kept else ""))


def stop_server(workspace: Workspace, running: Running, *, keep_nodes: bool) -> None:
    """Stop the server and wait until it has ended. Raises CliError when it cannot be stopped, or takes too long."""
    try:
        workspace.stop(running, keep_nodes=keep_nodes)
    except WorkspaceError as error:
        raise CliError(str(error)) from error
    with working(f"Stopping the server (process {running.pid})") as say:
        started = spoken = time.monotonic()
        while (now := workspace.running()) is not None and now.pid == running.pid:
            if time.monotonic() - started > LIMIT_S:
                raise CliError(
                    f"process {running.pid} has not ended after {LIMIT_S:.0f} s. See {workspace.log_file}; to end it at once: "
                    f"kill -9 {running.pid}"
                )
            if time.monotonic() - spoken > SPEAK_S:
                spoken = time.monotonic()
                say(f"Waiting for its nodes to end ({spoken - started:.0f} s) ...")
            time.sleep(0.05)
