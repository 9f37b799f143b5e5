"""`brickyard cluster ports`: what of a cluster's driver is reachable from outside."""

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

SETTLE_S = 3.0


@click.command("ports")
@cluster_argument
@click.option("--add", type=int, metavar="PORT", help="Make this port of the driver node reachable.")
@click.option("--remove", metavar="PORT", help="No longer make it reachable: a port, or the id of a mapping.")
@click.option("--description", default="", help="With --add.")
@click.option(
    "--tcp",
    "is_tcp",
    is_flag=True,
    help="With --add: any protocol, at a port of the server's machine, for everyone who can reach it.",
)
@click.option(
    "--external-port", type=int, metavar="PORT", help="With --tcp: that port of the server's machine; else the same one."
)
@click.option("--keep-prefix", is_flag=True, help="With --add: the program sees the whole paths, /ports/...")
@json_option
@place
def ports(
    cluster: str,
    *,
    add: int | None,
    remove: str | None,
    description: str,
    is_tcp: bool,
    external_port: int | None,
    keep_prefix: bool,
    as_json: bool,
    config_file: Path | None,
    **options: Any,
) -> None:
    """Show the ports of a cluster that are reachable, after a change if there is one."""
    if add is None and (description or keep_prefix or is_tcp):
        raise click.UsageError("--description, --tcp and --keep-prefix go with --add.")
    if external_port is not None and not is_tcp:
        raise click.UsageError("--external-port goes with --tcp: http ports are at the server's own port.")
    if keep_prefix and is_tcp:
        raise click.UsageError("--keep-prefix is for http ports: tcp ports have no path.")
    workspace = open_api(config_file, options)
    proxy = f"/v1/clusters/{find(workspace, cluster)['id']}/proxy"
    if remove is not None:
        workspace.call("DELETE", f"{proxy}/ports/{_named(workspace, proxy, remove)}")
    if add is not None:
        body: dict[str, Any] = {"internal_port": add, "description": description, "protocol": "tcp" if is_tcp else "http"}
        if keep_prefix:
            body["strip_prefix"] = False
        if external_port is not None:
            body["external_port"] = external_port
        workspace.call("POST", f"{proxy}/ports", body)
    rows = _settled(workspace, proxy)
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    if not rows:
        nothing("port mappings")
    for each in rows:
        more = printable("; ".join(each[name] for name in ("description", "status_details") if each[name]))
        click.echo(f"{each['id']}  {each['internal_port']:5}  {each['url']}  {each['status']}  {more}".rstrip())


def _settled(workspace: Api, proxy: str) -> Any:
    """The mappings, after a moment for listeners that are just being opened."""
    until = time.monotonic() + SETTLE_S
    while True:
        rows = workspace.call("GET", proxy)["data"]["port_mappings"]
        if time.monotonic() >= until or all(each["status"] != "pending" for each in rows):
            return rows
        time.sleep(0.1)


def _named(workspace: Api, proxy: str, text: str) -> str:
    """The id of the mapping that somebody names. Raises CliError."""
    rows = workspace.call("GET", proxy)["data"]["port_mappings"]
    found = [each["id"] for each in rows if text in (each["id"], str(each["internal_port"]))]
    if len(found) > 1:
        raise CliError(f"{len(found)} mappings are of port {text}: {', '.join(found)}. Name one by its id.")
    if not found:
        raise CliError(f"the cluster has no mapping {text!r}. Without --remove, its mappings are shown.")
    return str(found[0])
