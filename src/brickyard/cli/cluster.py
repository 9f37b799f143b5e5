"""`brickyard cluster`: start, stop and look at clusters, through the /v1/clusters API."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from brickyard.cli import CliError, printable
from brickyard.cli.clusterapi import Api, every, find, json_option, nothing, open_api
from brickyard.cli.clusteroperations import operate, wait_option
from brickyard.cli.clusterports import ports
from brickyard.cli.clusterschedules import schedule
from brickyard.cli.clustersnapshots import snapshot
from brickyard.cli.options import place

_STEP = 65_536  # bytes of a log that one call reads


@click.group("cluster")
def command() -> None:
    """Start, stop and look at clusters.

    CLUSTER is an id, or a name that only one cluster has."""


command.add_command(ports)
command.add_command(schedule)
command.add_command(snapshot)


@command.command("list")
@click.option("--search", default="", help="Only those with this in the name, the description or the id.")
@json_option
@place
def list_clusters(*, search: str, as_json: bool, config_file: Path | None, **options: Any) -> None:
    """Show the clusters."""
    workspace = open_api(config_file, options)
    rows = list(every(workspace, search))
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    if not rows:
        nothing("such clusters" if search else "clusters")
    width = max([len(printable(row["name"])) for row in rows], default=0)
    for row in rows:
        size = row["configuration"]
        gpus = f", {size['gpu_count']} x {size['gpu_type']}" if size["gpu_count"] else ""
        shape = f"{size['cpu_cores']:g} {'core' if size['cpu_cores'] == 1 else 'cores'}, {size['memory_gb']:g} GiB{gpus}"
        click.echo(f"{row['id']}  {printable(row['name']):{width}}  {row['status']:8}  {shape}")


@command.command("start")
@click.argument("cluster")
@click.option("--env", "variables", multiple=True, metavar="NAME=VALUE", help="Set an environment variable; may be repeated.")
@click.option("--unset", multiple=True, metavar="NAME", help="Remove an environment variable; may be repeated.")
@click.option("--cores", type=int, help="Cores of each node, at least.")
@click.option("--memory", type=float, help="GiB of memory of each node, at least.")
@click.option("--gpus", type=int, help="GPUs of each node, at least.")
@click.option("--storage", type=int, help="GiB that its workspace directory may take; it only grows.")
@click.option("--idle-minutes", type=int, help="Stop when nothing has run for so long; 0: never.")
@click.option("--max-runtime-minutes", type=int, help="Stop so long after this start; 0: no such limit.")
@click.option("--stop-at", metavar="TIME", help="Stop at this time, like 2026-03-01T18:00:00Z.")
@click.option("--max-cost", type=float, help="Stop when it has cost as much since this start; 0: no such limit.")
@wait_option
@json_option
@place
def start(
    cluster: str,
    *,
    variables: tuple[str, ...],
    unset: tuple[str, ...],
    cores: int | None,
    memory: float | None,
    gpus: int | None,
    storage: int | None,
    idle_minutes: int | None,
    max_runtime_minutes: int | None,
    stop_at: str | None,
    max_cost: float | None,
    wait: bool,
    as_json: bool,
    config_file: Path | None,
    **options: Any,
) -> None:
    """Start a stopped cluster, with changes if there are any. If one of them is wrong, nothing changes."""
    body: dict[str, Any] = {}
    if environment := {**_pairs(variables), **dict.fromkeys(unset)}:
        body["environment_updates"] = environment
    sizes = {"cpu_cores": cores, "memory_gb": memory, "gpu_count": gpus, "storage_gb": storage}
    if size := {name: value for name, value in sizes.items() if value is not None}:
        body["update_configuration"] = size
    limits = {"idle_minutes": idle_minutes, "max_runtime_minutes": max_runtime_minutes, "at": stop_at, "max_cost": max_cost}
    if limits := {name: value or None for name, value in limits.items() if value is not None}:
        body["auto_terminate_updates"] = limits
    operate("start", cluster, body, wait=wait, as_json=as_json, config_file=config_file, options=options)


@command.command("stop")
@click.argument("cluster")
@click.option("--reason", default="", help="Shown with the cluster and in its events.")
@click.option("--save", is_flag=True, help="Take a snapshot of its workspace directory when the last node has gone.")
@click.option("--grace", type=int, metavar="MINUTES", help="Let finish what runs, for so long at most; else for 5 minutes.")
@click.option("--force", is_flag=True, help="Do not wait for what runs. Also cuts short a wait that goes on.")
@wait_option
@json_option
@place
def stop(
    cluster: str,
    *,
    reason: str,
    save: bool,
    grace: int | None,
    force: bool,
    wait: bool,
    as_json: bool,
    config_file: Path | None,
    **options: Any,
) -> None:
    """Stop a cluster, once what runs on it has finished. It can be started again."""
    body: dict[str, Any] = {"stop_reason": reason} if reason else {}
    if save:
        body["save_state"] = True
    if grace is not None:
        body["grace_period_minutes"] = grace
    if force:
        body["force"] = True
    operate("stop", cluster, body, wait=wait, as_json=as_json, config_file=config_file, options=options)


@command.command("logs")
@click.argument("cluster")
@click.argument("file", required=False)
@json_option
@place
def logs(cluster: str, file: str | None, *, as_json: bool, config_file: Path | None, **options: Any) -> None:
    """List the logs of a cluster's nodes, or print one."""
    workspace = open_api(config_file, options)
    cluster_id = find(workspace, cluster)["id"]
    if file is not None:
        try:
            _print_log(workspace, cluster_id, file, as_json=as_json)
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


# -- inside ----------------------------------------------------------------------------------------------------------


def _logs(workspace: Api, cluster_id: str) -> Any:
    """The logs of the nodes, and the nodes that do not answer."""
    return workspace.call("GET", "/api/2.1/clusters/logs/list", cluster_id=cluster_id)


def _print_log(workspace: Api, cluster_id: str, file: str, *, as_json: bool) -> None:
    position = ""
    while True:
        where = {"cluster_id": cluster_id, "file": file, "position": position}
        piece = workspace.call("GET", "/api/2.1/clusters/logs/read", **where, limit=_STEP)
        if as_json:
            click.echo(json.dumps(piece))
        else:
            click.echo("\n".join(printable(line) for line in piece["text"].split("\n")), nl=False)
        if piece["at_end"]:
            return
        position = piece["next_position"]


def _pairs(variables: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for each in variables:
        name, equals, value = each.partition("=")
        if not equals or not name:
            raise click.UsageError(f"--env {each!r} is not NAME=VALUE.")
        found[name] = value
    return found
