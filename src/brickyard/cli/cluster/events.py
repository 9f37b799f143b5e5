"""`brickyard cluster events`: what has happened to a cluster."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from brickyard.cli import printable
from brickyard.cli.api import Api, open_api
from brickyard.cli.cluster.found import cluster_argument, find, nothing
from brickyard.cli.options import json_option, place

FOLLOW_S = 1.0  # between two looks at the events
_MOST = 500  # events of one call
_LONG = ("attributes", "previous_attributes")  # whole specifications: --json has them


@click.command("events")
@cluster_argument
@click.option("--limit", type=click.IntRange(1, _MOST), default=25, show_default=True, help="The newest ones, so many at most.")
@click.option("--follow", "-f", is_flag=True, help="Go on with those that happen, until Ctrl-C.")
@json_option
@place
def events(cluster: str, *, limit: int, follow: bool, as_json: bool, config_file: Path | None, **options: Any) -> None:
    """Show what has happened to a cluster, the newest events last. With --json, a line for each."""
    workspace = open_api(config_file, options)
    cluster_id = find(workspace, cluster)["id"]
    before = _page(workspace, cluster_id, limit=limit)[::-1]
    if not before and not follow:
        nothing("events")
    for each in before:
        _show(each, as_json=as_json)
    if follow:
        for each in _later(workspace, cluster_id, before):
            _show(each, as_json=as_json)


def _later(workspace: Api, cluster_id: str, seen: list[Any]) -> Iterator[Any]:
    """Events after those, oldest first, for ever. Several may have the time of the last one."""
    while True:
        since = seen[-1]["timestamp"] if seen else 0
        known = [each for each in seen if each["timestamp"] == since]
        found = [each for each in _page(workspace, cluster_id, limit=_MOST, start_time=since)[::-1] if each not in known]
        yield from found
        seen = [*known, *found]
        time.sleep(FOLLOW_S)


def _page(workspace: Api, cluster_id: str, **asked: int) -> list[Any]:
    """Events, newest first."""
    found: list[Any] = workspace.call("POST", "/api/2.1/clusters/events", {"cluster_id": cluster_id, **asked}).get("events") or []
    return found


def _show(event: Any, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(event))
        return
    at = datetime.fromtimestamp(event["timestamp"] / 1000).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    said = ", ".join(
        f"{name}: {value}" for name, value in _flat({k: v for k, v in event.get("details", {}).items() if k not in _LONG})
    )
    click.echo(printable(f"{at}  {event['type']:<20}  {said}".rstrip()))


def _flat(details: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """The details of an event as names and values. What is nested is named by its innermost field."""
    if isinstance(details, dict):
        for key, value in details.items():
            yield from _flat(value, key)
    elif isinstance(details, list):
        for value in details:
            yield from _flat(value, name)
    elif details not in (None, ""):
        yield name.replace("_", " "), str(details)
