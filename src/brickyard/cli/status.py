"""`brickyard status`: what runs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from brickyard import __version__
from brickyard.cli.client import client
from brickyard.cli.options import place, settings
from brickyard.cli.up import isolation_here
from brickyard.lifecycle.workspace import Workspace


@click.command("status")
@place
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def command(as_json: bool, config_file: Path | None, **options: Any) -> None:
    """Show the server, its clusters and their nodes. Exit code 3 when no server runs."""
    chosen = settings(config_file, **options)
    workspace = Workspace(chosen.data_dir)
    running = workspace.running()
    kind, reason = isolation_here()
    report: dict[str, Any] = {
        "version": __version__,
        "data_dir": str(chosen.data_dir),
        "running": running is not None,
        "isolation": kind if kind != "none" else f"none: {reason}",
    }
    if running is not None:
        clusters = list(client(workspace).clusters.list())
        report |= {"pid": running.pid, "url": running.url, "clusters": [_cluster(each.as_dict()) for each in clusters]}
    click.echo(json.dumps(report, indent=2)) if as_json else _show(report)
    if running is None:
        sys.exit(3)


def _cluster(view: dict[str, Any]) -> dict[str, Any]:
    nodes = len(view.get("executors") or []) + ("driver" in view)
    return {
        "cluster_id": view["cluster_id"],
        "cluster_name": view.get("cluster_name", ""),
        "state": view.get("state"),
        "nodes": nodes,
        "state_message": view.get("state_message", ""),
    }


def _show(report: dict[str, Any]) -> None:
    from rich.console import Console  # noqa: PLC0415 - only where a table is drawn
    from rich.table import Table  # noqa: PLC0415 - likewise

    console = Console(highlight=False)
    if not report["running"]:
        console.print(f"No server runs on {report['data_dir']}. Start one with `brickyard up`.", markup=False)
    else:
        console.print(f"Brickyard {report['version']} at {report['url']} (process {report['pid']})", markup=False)
    console.print(f"Isolation of clusters: {report['isolation']}", markup=False)
    if report.get("clusters"):
        table = Table("Cluster", "Name", "State", "Nodes", "Message")
        for each in report["clusters"]:
            message = each["state_message"].splitlines()[0] if each["state_message"] else ""
            table.add_row(each["cluster_id"], each["cluster_name"], each["state"], str(each["nodes"]), message)
        console.print(table)
    elif report["running"]:
        console.print("No clusters.")
