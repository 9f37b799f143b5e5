"""Starts, restarts and stops, for the commands of `brickyard cluster`: asked for, and watched until they have ended."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from brickyard.cli import CliError, printable
from brickyard.cli.api import Api, open_api
from brickyard.cli.cluster.found import find

POLL_S = 0.3
STATUS_ALONE = {"include_metrics": "false", "include_cost_breakdown": "false"}
wait_option = click.option("--wait", is_flag=True, help="Return when it has ended, and show how far it is.")


def operate(
    verb: str, cluster: str, body: dict[str, Any], *, wait: bool, as_json: bool, config_file: Path | None, options: dict[str, Any]
) -> None:
    """Begins a start, restart or stop, and shows the cluster then, or after it. Raises CliError if it fails."""
    workspace = open_api(config_file, options)
    found = find(workspace, cluster)
    view = workspace.call("POST", f"/v1/clusters/{found['id']}/{verb}", body)["data"]
    show(workspace, view, verb, wait=wait, as_json=as_json)


def show(workspace: Api, view: Any, verb: str, *, wait: bool, as_json: bool, called: str = "") -> None:
    """Shows a cluster whose operation has begun, or with `wait` ended; `called` in words. Raises CliError if it fails."""
    if wait:
        view = _watched(workspace, view, quiet=as_json)
    if as_json:
        click.echo(json.dumps(view, indent=2))
    else:
        click.echo(f"{called or printable(view['name'])} is {view['status']}.")
    if wait and view["operation"]["status"] == "failed":
        raise CliError(f"{view['name']} did not {verb}: {view['status_details']}")


def _watched(workspace: Api, view: Any, *, quiet: bool) -> Any:
    """The cluster once the operation has ended, or another one has begun. Shows the phases until then."""
    operation_id = view["operation"]["id"]
    with _phases(quiet=quiet) as show:
        while True:
            show(view["operation"])
            if view["operation"]["id"] != operation_id:
                raise CliError(f"somebody else has begun another operation of {view['name']}, which is {view['status']} now.")
            if view["operation"]["status"] != "in_progress":
                return view
            time.sleep(POLL_S)
            view = workspace.call("GET", f"/v1/clusters/{view['id']}", **STATUS_ALONE)["data"]


@contextmanager
def _phases(*, quiet: bool) -> Iterator[Callable[[Any], None]]:
    """Shows an operation: on a terminal as a bar, otherwise as a line for each phase that is over."""
    from rich.console import Console  # noqa: PLC0415 - only for commands that take a while

    console, told = Console(highlight=False, soft_wrap=True, quiet=quiet), set[str]()
    if not console.is_terminal or quiet:

        def lines(operation: Any) -> None:
            for each in operation["phases"]:
                if each["status"] in ("completed", "failed") and each["name"] not in told:
                    told.add(each["name"])
                    said = f": {printable(each['message'])}" if each["message"] else ""
                    console.print(f"{each['name']}: {each['status']}{said}", markup=False)

        yield lines
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415 - as above

    columns = (
        TextColumn("{task.description:26}", markup=False),
        BarColumn(bar_width=24),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}", markup=False),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=100, left="")

        def bar(operation: Any) -> None:
            now = next((each["name"] for each in operation["phases"] if each["status"] == "in_progress"), "")
            seconds = operation["estimated_seconds_left"]
            left = f"about {seconds} s left" if seconds is not None else ""
            progress.update(task, description=now.replace("_", " "), completed=operation["progress_percent"], left=left)

        yield bar
