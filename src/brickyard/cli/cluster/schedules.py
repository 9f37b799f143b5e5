"""`brickyard cluster schedule`: the times at which a cluster starts and stops by itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click

from brickyard.cli import CliError, printable
from brickyard.cli.api import Api, open_api
from brickyard.cli.cluster.found import cluster_argument, find, nothing
from brickyard.cli.options import json_option, place


@click.group("schedule")
def schedule() -> None:
    """Start and stop a cluster at certain times."""


@schedule.command("list")
@cluster_argument
@json_option
@place
def list_schedules(cluster: str, *, as_json: bool, config_file: Path | None, **options: Any) -> None:
    """Show the schedules of a cluster, with their next and last runs."""
    workspace = open_api(config_file, options)
    rows = workspace.call("GET", _of(workspace, cluster))["data"]["schedules"]
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    if not rows:
        nothing("schedules")
    for row in rows:
        _show(row)


@schedule.command("add")
@cluster_argument
@click.argument("action", type=click.Choice(["start", "stop"]))
@click.argument("cron")
@click.option("--timezone", default="UTC", show_default=True, help="An IANA time zone, such as Europe/Berlin.")
@click.option("--skip-missed", is_flag=True, help="Do not catch up on a run for which no server was there.")
@click.option("--start", "parameters", metavar="JSON", help="Parameters of the start call, such as auto_terminate_updates.")
@json_option
@place
def add(
    cluster: str,
    action: str,
    cron: str,
    *,
    timezone: str,
    skip_missed: bool,
    parameters: str | None,
    as_json: bool,
    config_file: Path | None,
    **options: Any,
) -> None:
    """Start or stop CLUSTER at the times of CRON: minute, hour, day of month, month, day of week, such as '0 8 * * MON-FRI'."""
    body: dict[str, Any] = {"action": action, "cron": cron, "timezone": timezone, "missed": "skip" if skip_missed else "run"}
    if parameters is not None:
        try:
            body["start"] = json.loads(parameters)
        except ValueError as error:
            raise CliError(f"--start is no JSON: {error}") from error
    workspace = open_api(config_file, options)
    _answer(workspace.call("POST", _of(workspace, cluster), body)["data"], as_json=as_json)


@schedule.command("pause")
@cluster_argument
@click.argument("schedule_id", metavar="SCHEDULE")
@click.option("--resume", is_flag=True, help="End the pause. What was missed meanwhile is not done.")
@json_option
@place
def pause(cluster: str, schedule_id: str, *, resume: bool, as_json: bool, config_file: Path | None, **options: Any) -> None:
    """Pause a schedule, or end its pause."""
    workspace = open_api(config_file, options)
    path = f"{_of(workspace, cluster)}/{quote(schedule_id, safe='')}"
    _answer(workspace.call("PATCH", path, {"paused": not resume})["data"], as_json=as_json)


@schedule.command("remove")
@cluster_argument
@click.argument("schedule_id", metavar="SCHEDULE")
@json_option
@place
def remove(cluster: str, schedule_id: str, *, as_json: bool, config_file: Path | None, **options: Any) -> None:
    """Remove a schedule."""
    workspace = open_api(config_file, options)
    done = workspace.call("DELETE", f"{_of(workspace, cluster)}/{quote(schedule_id, safe='')}")["data"]
    click.echo(json.dumps(done, indent=2) if as_json else f"{done['id']} is removed.")


def _of(workspace: Api, cluster: str) -> str:
    return f"/v1/clusters/{find(workspace, cluster)['id']}/schedules"


def _answer(row: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(row, indent=2))
    else:
        _show(row)


def _show(row: Mapping[str, Any]) -> None:
    following = "paused" if row["paused"] else f"next {row['next_run_at'] or 'never'}"
    last = row["last_run"]
    before = f", last {last['at']} {last['result']}" if last else ""
    why = f": {printable(last['reason'])}" if last and last["reason"] else ""
    click.echo(f"{row['id']}  {row['action']:5}  {printable(row['cron'])} {row['timezone']}, {following}{before}{why}")
