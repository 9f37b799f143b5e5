"""`brickyard down`: stop the server."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import click

from brickyard.cli import CliError
from brickyard.cli.http import get
from brickyard.cli.options import found_by, place, settings
from brickyard.cli.progress import working
from brickyard.config.settings import Settings
from brickyard.server.datadir import RunningServer, Workspace, WorkspaceError
from brickyard.server.messages import files_removed, nodes_left
from brickyard.storage.directory import Storage, StorageInUse

LIMIT_S = 60.0
SPEAK_S = 3.0
ANSWER_S = 3.0  # for a server that is about to be stopped anyway


@click.command("down")
@place
@click.option("--keep-nodes", is_flag=True, help="Leave nodes running for the next start to adopt.")
def command(keep_nodes: bool, config_file: Path | None, **options: Any) -> None:
    """Stop the server and end its nodes."""
    chosen = settings(config_file, **options)
    workspace = Workspace(chosen.data_dir, chosen.storage_dir)
    if (removed := workspace.removed()) is not None:
        raise CliError(files_removed(workspace.data_dir, removed))
    running = workspace.running()
    kept, found = keep_nodes or chosen.keep_nodes, found_by(config_file, **options)
    if running is not None:
        click.echo(f"Stopping the server on {workspace.data_dir} (chosen {found}): {running}.")
        elsewhere = {} if kept else nodes_elsewhere(workspace, running)
        stop_server(workspace, running, keep_nodes=kept)
        click.echo("The server has stopped." + (" Its nodes keep running." if kept else ""))
        for provider, number in elsewhere.items():
            click.echo(
                f"{number} node{' goes' if number == 1 else 's go'} on at provider {provider}, for the next server to adopt. "
                f"Without one, they end after {chosen.orphan_grace_s:g} s (orphan_grace_s). To end them at once, terminate their "
                "clusters before the server."
            )
        return
    click.echo(f"No server runs on {workspace.data_dir} (chosen {found}).")
    if not kept and (ended := end_nodes(workspace) + end_simulated(workspace)):
        click.echo(f"Ended {ended} node{'' if ended == 1 else 's'} that a server had left behind.")


def nodes_elsewhere(workspace: Workspace, running: RunningServer) -> dict[str, int]:
    """The number of nodes on other machines, by provider: they do not end with their server. Empty if the server does not
    say."""
    try:
        machine = json.loads(get(f"{running.url}/api/2.1/machine", token=workspace.stored_token(), timeout_s=ANSWER_S))
        return {each["name"]: each["nodes"] for each in machine["providers"] if each["where"] == "elsewhere" and each["nodes"]}
    except (OSError, ValueError, KeyError, WorkspaceError):
        return {}


def stop_server(workspace: Workspace, running: RunningServer, *, keep_nodes: bool) -> None:
    """Stops the server and waits until it has ended, with its nodes unless they are to be kept.

    Raises CliError if it cannot be stopped or takes too long, or if nodes keep running.
    """
    storage = workspace.storage  # read while the server can still tell its storage
    _stop(workspace, running, keep_nodes=keep_nodes)
    if not keep_nodes:
        end_nodes(workspace, storage)


def end_nodes(workspace: Workspace, storage: Storage | None = None) -> int:
    """Ends the nodes of this machine that no server looks after; returns their number. Raises CliError if some keep running.

    A stopping server ends its nodes itself: this is for nodes that it could not end, or for a server that was killed.
    """
    storage = storage or workspace.storage
    if not storage.instances.is_dir() or not any(storage.instances.iterdir()):
        return 0
    from brickyard.providers.local.provider import LocalProvider  # noqa: PLC0415 - rarely needed, and not light

    try:
        workspace.lock()
    except WorkspaceError:
        return 0  # another server has started and owns them
    try:
        storage.hold(alone=True, patience_s=0)
        with working("Ending nodes"):
            chosen = Settings(data_dir=workspace.data_dir, storage_url=str(storage.root))
            provider = LocalProvider(settings=chosen, server_file=workspace.server_file)
            found = len(provider.observe())
            provider.close(keep_nodes=False)
            left = sorted(provider.observe())
    except StorageInUse:
        return 0  # another of several servers is alive
    finally:
        storage.close()
        workspace.unlock()
    if left:
        raise CliError(nodes_left(left))
    return found


def end_simulated(workspace: Workspace) -> int:
    """The same for simulated nodes, which live on in a separate process if their servers were killed. Servers that stop in
    order end them themselves; nodes that another server uses are left alone."""
    place = workspace.storage.simulated
    if not place.is_dir():
        return 0
    from brickyard.providers.base import ProviderError  # noqa: PLC0415 - rarely needed
    from brickyard.providers.simulated import remote  # noqa: PLC0415 - likewise

    try:
        return remote.end_unused(place)
    except ProviderError as error:
        raise CliError(f"{error}. Run `brickyard down` again.") from error


def _stop(workspace: Workspace, running: RunningServer, *, keep_nodes: bool) -> None:
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
