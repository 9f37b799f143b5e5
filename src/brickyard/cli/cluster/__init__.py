"""`brickyard cluster`: make, start, use, stop and look at clusters, as the administrator of the server on this machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from brickyard.cli import printable
from brickyard.cli.api import open_api
from brickyard.cli.cluster.create import create
from brickyard.cli.cluster.events import events
from brickyard.cli.cluster.execute import execute
from brickyard.cli.cluster.found import cluster_argument, every, find, nothing, pairs
from brickyard.cli.cluster.logs import logs
from brickyard.cli.cluster.operations import operate, wait_option
from brickyard.cli.cluster.ports import ports
from brickyard.cli.cluster.schedules import schedule
from brickyard.cli.cluster.snapshots import snapshot
from brickyard.cli.options import confirm, json_option, place, yes_option


@click.group("cluster")
def command() -> None:
    """Create, start, use, stop and look at clusters.

    CLUSTER is an id, or a name that only one cluster has."""


for each in (create, events, execute, logs, ports, schedule, snapshot):
    command.add_command(each)


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
@cluster_argument
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
    if environment := {**pairs(variables, option="--env"), **dict.fromkeys(unset)}:
        body["environment_updates"] = environment
    sizes = {"cpu_cores": cores, "memory_gb": memory, "gpu_count": gpus, "storage_gb": storage}
    if size := {name: value for name, value in sizes.items() if value is not None}:
        body["update_configuration"] = size
    limits = {"idle_minutes": idle_minutes, "max_runtime_minutes": max_runtime_minutes, "at": stop_at, "max_cost": max_cost}
    if limits := {name: value or None for name, value in limits.items() if value is not None}:
        body["auto_terminate_updates"] = limits
    operate("start", cluster, body, wait=wait, as_json=as_json, config_file=config_file, options=options)


@command.command("stop")
@cluster_argument
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


@command.command("restart")
@cluster_argument
@click.option("--grace", type=int, metavar="MINUTES", help="Let finish what runs, for so long at most; else for 5 minutes.")
@click.option("--force", is_flag=True, help="Do not wait for what runs. Also cuts short a wait that goes on.")
@wait_option
@json_option
@place
def restart(
    cluster: str, *, grace: int | None, force: bool, wait: bool, as_json: bool, config_file: Path | None, **options: Any
) -> None:
    """Restart a cluster: new nodes, the same id and specification."""
    body: dict[str, Any] = {} if grace is None else {"grace_period_minutes": grace}
    if force:
        body["force"] = True
    operate("restart", cluster, body, wait=wait, as_json=as_json, config_file=config_file, options=options)


@command.command("delete")
@cluster_argument
@yes_option
@json_option
@place
def delete(cluster: str, *, yes: bool, as_json: bool, config_file: Path | None, **options: Any) -> None:
    """Delete a cluster permanently, with its workspace directory. Its snapshots stay."""
    workspace = open_api(config_file, options)
    found = find(workspace, cluster)
    if not yes:
        confirm(f"Permanently delete {printable(found['name'])} ({found['id']}), which is {found['status']}?")
    workspace.call("POST", "/api/2.1/clusters/permanent-delete", {"cluster_id": found["id"]})
    click.echo(json.dumps({"cluster_id": found["id"]}) if as_json else f"{printable(found['name'])} is deleted.")
