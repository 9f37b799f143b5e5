"""`brickyard cluster logs`: what the nodes of a cluster have written, and write."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import click

from brickyard.cli import CliError, printable
from brickyard.cli.api import Api, open_api
from brickyard.cli.cluster.found import cluster_argument, find, nothing
from brickyard.cli.options import json_option, place

_STEP = 65_536  # bytes of a log that one call reads
FOLLOW_S = 0.5  # between two looks at a log that is being written


@click.command("logs")
@cluster_argument
@click.argument("file", required=False)
@click.option(
    "--follow", "-f", is_flag=True, help="Go on printing what is written, until the node ends. Without FILE: the driver's."
)
@json_option
@place
def logs(cluster: str, file: str | None, *, follow: bool, as_json: bool, config_file: Path | None, **options: Any) -> None:
    """List the logs of a cluster's nodes, or print one."""
    workspace = open_api(config_file, options)
    cluster_id = find(workspace, cluster)["id"]
    if follow and file is None:
        file = _of_driver(_logs(workspace, cluster_id)["files"], cluster)
    if file is not None:
        try:
            _print_log(workspace, cluster_id, file, follow=follow, as_json=as_json)
        except CliError as error:
            if file in {each["file"] for each in _logs(workspace, cluster_id)["files"]}:
                raise
            raise CliError(f"there is no log {file!r}. `brickyard cluster logs {cluster}` lists them.") from error
        return
    found = _logs(workspace, cluster_id)
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return
    if not found["files"]:
        nothing("logs of its nodes")
    for each in found["files"]:
        state = "running" if each["running"] else "ended"
        click.echo(f"{printable(each['file'])}  {each['size']} bytes  {each.get('role', '')}  {state}")
    for each in found["unreachable"]:
        click.echo(f"{printable(each['node'])}: {printable(each['message'])}", err=True)


def _logs(workspace: Api, cluster_id: str) -> Any:
    """The logs of the nodes, and the nodes that do not answer."""
    return workspace.call("GET", "/api/2.1/clusters/logs/list", cluster_id=cluster_id)


def _of_driver(files: list[Any], cluster: str) -> str:
    """The log of the driver that runs. Raises CliError."""
    for each in files:
        if each["running"] and each.get("role") != "worker" and each["path"] == "log4j-active.log":
            return str(each["file"])
    raise CliError(f"no driver of this cluster runs. `brickyard cluster logs {cluster}` lists the logs there are.")


def _print_log(workspace: Api, cluster_id: str, file: str, *, follow: bool, as_json: bool) -> None:
    position = ""
    while True:
        where = {"cluster_id": cluster_id, "file": file, "position": position}
        piece = workspace.call("GET", "/api/2.1/clusters/logs/read", **where, limit=_STEP)
        if as_json:
            if piece["text"] or not position:
                click.echo(json.dumps(piece))
        else:
            click.echo("\n".join(printable(line) for line in piece["text"].split("\n")), nl=False)
        if piece["at_end"]:
            if not (follow and piece["running"]):
                return
            time.sleep(FOLLOW_S)
        position = piece["next_position"]
