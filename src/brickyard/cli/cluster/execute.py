"""`brickyard cluster exec`: runs code on a cluster, in an execution context of its own, as a cell of a notebook does."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from brickyard.cli import CliError, printable
from brickyard.cli.api import Api, open_api
from brickyard.cli.cluster.found import cluster_argument, find
from brickyard.cli.options import json_option, place

POLL_S, POLLS_LATER_S = 0.1, 1.0
LANGUAGES = {".py": "python", ".sql": "sql", ".scala": "scala", ".r": "r"}
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@click.command("exec")
@cluster_argument
@click.argument("code", required=False)
@click.option("--file", "file", type=click.Path(path_type=Path, dir_okay=False, exists=True), help="The code, instead of CODE.")
@click.option("--language", type=click.Choice(sorted(LANGUAGES.values())), help="Default: by the ending of --file, else python.")
@json_option
@place
def execute(
    cluster: str,
    code: str | None,
    *,
    file: Path | None,
    language: str | None,
    as_json: bool,
    config_file: Path | None,
    **options: Any,
) -> None:
    """Run CODE on a running cluster and print its result. Without CODE and --file, or with -, it is read from standard input.

    Exit code 1 if the code fails. Ctrl-C cancels it. With --json, the results as the API has them."""
    if file is not None and code is not None:
        raise click.UsageError("CODE and --file are both given: leave one out.")
    if file is not None:
        code = file.read_text()
    elif code in (None, "-"):
        code = sys.stdin.read()
    chosen = language or LANGUAGES.get(file.suffix.lower() if file is not None else "", "python")
    workspace = open_api(config_file, options)
    cluster_id = find(workspace, cluster)["id"]
    results = _executed(workspace, cluster_id, code, chosen)
    if as_json:
        click.echo(json.dumps(results, indent=2))
    elif results["resultType"] != "error":
        _show(results)
    if results["resultType"] == "error":
        click.echo(_text(results.get("cause") or results.get("summary") or "The code failed."), err=True)
        raise click.exceptions.Exit(1)


def _executed(workspace: Api, cluster_id: str, code: str, language: str) -> Any:
    """The results of the code, in a context that is gone afterwards. Raises CliError."""
    where = {"clusterId": cluster_id}
    context_id = workspace.call("POST", "/api/1.2/contexts/create", {**where, "language": language})["id"]
    where["contextId"] = context_id
    try:
        made = _until(
            lambda: workspace.call("GET", "/api/1.2/contexts/status", **where), lambda answer: answer["status"] != "Pending"
        )
        if made["status"] != "Running":
            raise CliError("the cluster could not begin an execution context. See `brickyard cluster logs`.")
        sent = {**where, "language": language, "command": code}
        command_id = workspace.call("POST", "/api/1.2/commands/execute", sent)["id"]
        try:
            done = _until(
                lambda: workspace.call("GET", "/api/1.2/commands/status", **where, commandId=command_id),
                lambda answer: answer["status"] in ("Finished", "Error", "Cancelled"),
            )
        except KeyboardInterrupt:
            workspace.call("POST", "/api/1.2/commands/cancel", {**where, "commandId": command_id})
            raise
        if done["status"] == "Cancelled":
            raise CliError("somebody has cancelled the code.")
        return done["results"]
    finally:
        workspace.call("POST", "/api/1.2/contexts/destroy", where)


def _until(ask: Callable[[], Any], enough: Callable[[Any], bool]) -> Any:
    began = time.monotonic()
    while not enough(answer := ask()):
        time.sleep(min(max((time.monotonic() - began) / 10, POLL_S), POLLS_LATER_S))
    return answer


def _show(results: Any) -> None:
    data = results.get("data")
    if results["resultType"] == "table":
        _table([str(each["name"]) for each in results.get("schema") or ()], data or [])
        if results.get("truncated"):
            click.echo("There are more rows.", err=True)
    elif results["resultType"] == "text":
        if data:
            click.echo(_text(data))
    else:
        click.echo(f"The result is of the kind {printable(str(results['resultType']))}; --json prints it.", err=True)


def _table(names: list[str], rows: list[Any]) -> None:
    cells = [names, *([printable("null" if value is None else str(value)).strip() for value in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        click.echo("  ".join(f"{value:<{width}}" for value, width in zip(row, widths, strict=True)).rstrip())


def _text(text: str) -> str:
    """Without what a terminal would obey; a traceback's colours are taken out with it."""
    return "\n".join(printable(line) for line in _COLOUR.sub("", text).rstrip("\n").split("\n"))
