"""`brickyard cluster snapshot`: what a cluster's workspace directory held at one moment."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click

from brickyard.cli import CliError, printable
from brickyard.cli.api import Api, open_api
from brickyard.cli.cluster.found import cluster_argument, find, named, nothing
from brickyard.cli.cluster.operations import POLL_S, operate, wait_option
from brickyard.cli.options import json_option, place
from brickyard.machine.disk import file_text


@click.group("snapshot")
def snapshot() -> None:
    """Take, show, restore and delete snapshots of a cluster's workspace directory.

    SNAPSHOT is an id, or a name that only one snapshot of the cluster has."""


@snapshot.command("list")
@cluster_argument
@json_option
@place
def list_snapshots(cluster: str, *, as_json: bool, config_file: Path | None, **options: Any) -> None:
    """Show the snapshots of a cluster, newest first."""
    workspace = open_api(config_file, options)
    rows = list(_every(workspace, _cluster_id(workspace, cluster)))
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    if not rows:
        nothing("snapshots")
    for row in rows:
        _show(row)


@snapshot.command("create")
@cluster_argument
@click.option("--name", help="By default the time.")
@wait_option
@json_option
@place
def create(cluster: str, *, name: str | None, wait: bool, as_json: bool, config_file: Path | None, **options: Any) -> None:
    """Take a snapshot of a cluster, whether it runs or not."""
    workspace = open_api(config_file, options)
    body = {} if name is None else {"name": name}
    row = workspace.call("POST", f"/v1/clusters/{_cluster_id(workspace, cluster)}/snapshots", body)["data"]
    if wait:
        row = _watched(workspace, row, quiet=as_json)
    if as_json:
        click.echo(json.dumps(row, indent=2))
    else:
        _show(row)
    if wait and row["status"] == "failed":
        raise CliError(f"the snapshot was not taken: {printable(row['reason'])}")


@snapshot.command("restore")
@cluster_argument
@click.argument("snapshot")
@click.option("--restart", is_flag=True, help="Do so also if the cluster runs, which ends what it does.")
@wait_option
@json_option
@place
def restore(
    cluster: str, snapshot: str, *, restart: bool, wait: bool, as_json: bool, config_file: Path | None, **options: Any
) -> None:
    """Start a stopped cluster with its workspace directory as the snapshot holds it."""
    workspace = open_api(config_file, options)
    found = find(workspace, cluster)
    body = {"restore_from_snapshot": _named(workspace, found["id"], snapshot)["id"]}
    verb = "restart" if restart and found["status"] == "running" else "start"
    operate(verb, found["id"], body, wait=wait, as_json=as_json, config_file=config_file, options=options)


@snapshot.command("delete")
@cluster_argument
@click.argument("snapshot")
@json_option
@place
def delete(cluster: str, snapshot: str, *, as_json: bool, config_file: Path | None, **options: Any) -> None:
    """Delete a snapshot. CLUSTER may be the id of a cluster that was deleted."""
    workspace = open_api(config_file, options)
    row = _named(workspace, _cluster_id(workspace, cluster), snapshot)
    gone = workspace.call("DELETE", f"/v1/snapshots/{row['id']}")["data"]
    click.echo(json.dumps(gone, indent=2) if as_json else f"{row['id']} is deleted.")


def _cluster_id(workspace: Api, cluster: str) -> str:
    """The id of a cluster; of a deleted one, whose snapshots were kept, what was given."""
    try:
        return str(find(workspace, cluster)["id"])
    except CliError as error:
        with contextlib.suppress(CliError):
            workspace.call("GET", f"/v1/clusters/{quote(cluster, safe='')}/snapshots", limit=1)
            return cluster
        raise error from None


def _every(workspace: Api, cluster_id: str) -> Iterator[Any]:
    page = 1
    while True:
        data = workspace.call("GET", f"/v1/clusters/{cluster_id}/snapshots", page=page, limit=100)["data"]
        yield from data["snapshots"]
        if page >= data["pagination"]["total_pages"]:
            return
        page += 1


def _named(workspace: Api, cluster_id: str, wanted: str) -> Any:
    """The snapshot that somebody names. Raises CliError."""
    found = named(_every(workspace, cluster_id), wanted)
    if len(found) > 1:
        raise CliError(f"{len(found)} snapshots are called {wanted!r}: {', '.join(row['id'] for row in found)}. Name its id.")
    if not found:
        raise CliError(f"the cluster has no snapshot {wanted!r}. `brickyard cluster snapshot list` shows them.")
    return found[0]


def _watched(workspace: Api, row: Any, *, quiet: bool) -> Any:
    """The snapshot once it is taken, or has failed."""
    from rich.console import Console  # noqa: PLC0415 - only for commands that take a while

    console = Console(highlight=False, quiet=quiet, stderr=True)
    with console.status(f"taking {printable(row['name'])}") if console.is_terminal else contextlib.nullcontext():
        while row["status"] == "creating":
            time.sleep(POLL_S)
            row = workspace.call("GET", f"/v1/snapshots/{row['id']}")["data"]
    return row


def _show(row: Any) -> None:
    size = _size(row["size_bytes"], row["files"]) if row["status"] == "available" else printable(row["reason"])
    click.echo(f"{row['id']}  {printable(row['name'])}  {row['status']}  {row['created_at']}  {size}".rstrip())


def _size(size: int, files: int) -> str:
    return f"{file_text(size)} in {files} {'file' if files == 1 else 'files'}"
