"""The server's /v1/clusters API, for the commands of `brickyard cluster`."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.parse import urlencode

import click
from click.shell_completion import CompletionItem

from brickyard.cli import CliError, printable
from brickyard.cli.client import serving
from brickyard.cli.http import send
from brickyard.cli.options import PLACE, settings
from brickyard.server.datadir import Workspace, WorkspaceError

TIMEOUT_S = 30.0  # a local server that does not answer for this long will not answer at all
# What a field of a request is called on the command line, for what the server says of it.
_OPTIONS = {
    "update_configuration.cpu_cores": "--cores",
    "update_configuration.memory_gb": "--memory",
    "update_configuration.gpu_count": "--gpus",
    "update_configuration.storage_gb": "--storage",
    "environment_updates": "--env",
    "auto_terminate_updates.idle_minutes": "--idle-minutes",
    "grace_period_minutes": "--grace",
    "auto_terminate_updates.max_runtime_minutes": "--max-runtime-minutes",
    "auto_terminate_updates.at": "--stop-at",
    "auto_terminate_updates.max_cost": "--max-cost",
    "internal_port": "--add",
    "external_port": "--external-port",
    "restore_from_snapshot": "SNAPSHOT",
}


class Api(NamedTuple):
    """The server on a data directory, as its administrator."""

    url: str
    token: str

    def call(self, method: str, path: str, body: object = None, **query: str | int) -> Any:
        """The answer. Raises CliError with the server's own words."""
        url = f"{self.url}{path}?{urlencode(query)}" if query else f"{self.url}{path}"
        try:
            return json.loads(send(method, url, body, token=self.token, timeout_s=TIMEOUT_S))
        except HTTPError as error:
            raise CliError(_in_words(json.loads(error.read() or b"{}")) or str(error.reason)) from error
        except OSError as error:
            raise CliError(f"the server at {self.url} does not answer: {printable(str(error))}") from error


def _in_words(said: Any) -> str:
    """What the server says: every problem of a request, by the option that it is about."""
    details = said.get("details")  # an object in the /v1 dialect, a list in the other
    problems = details.get("problems") or () if isinstance(details, dict) else ()
    sentences = [f"{_OPTIONS.get(each['field'], each['field'])}: {each['reason'].rstrip('.')}." for each in problems]
    return " ".join(sentences) or str(said.get("message", ""))


def nothing(what: str) -> None:
    """Says, beside the output, that there is nothing to list."""
    click.echo(f"There are no {what}.", err=True)


def open_api(config_file: Path | None, options: Mapping[str, Any]) -> Api:
    """The API of the server that runs. Raises CliError."""
    chosen = settings(config_file, **options)
    workspace = Workspace(chosen.data_dir, chosen.storage_dir)
    running = serving(workspace)
    try:
        return Api(running.url, workspace.stored_token())
    except WorkspaceError as error:
        raise CliError(str(error)) from error


def find(workspace: Api, text: str) -> Any:
    """The cluster with that id, or the only one with that name. Raises CliError."""
    found = [row for row in every(workspace, text) if text in (row["id"], row["name"])]
    if len(found) == 1 or (found and found[0]["id"] == text):
        return found[0]
    if not found:
        raise CliError(f"there is no cluster {text!r}. `brickyard cluster list` shows them.")
    raise CliError(f"{len(found)} clusters are called {text!r}: {', '.join(row['id'] for row in found)}. Name one by its id.")


def every(workspace: Api, search: str) -> Iterator[Any]:
    """All clusters with that text in the name, the description or the id."""
    page = 1
    while True:
        data = workspace.call("GET", "/v1/clusters", search=search, page=page, limit=100)["data"]
        yield from data["clusters"]
        if page >= data["pagination"]["total_pages"]:
            return
        page += 1


def pairs(given: tuple[str, ...], *, option: str) -> dict[str, str]:
    """NAME=VALUE, as often as an option was given. Raises UsageError."""
    found = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals or not name:
            raise click.UsageError(f"{option} {each!r} is not NAME=VALUE.")
        found[name] = value
    return found


def completing(
    path: str, of: str, *names: str, shown: str = ""
) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    """Completes a value in the shell from what an API call lists: `of` is the list's field, `names` the fields of an entry whose
    values can be given, `shown` the one that says what it is. Without a server, there is nothing to complete."""

    def complete(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
        with contextlib.suppress(CliError):
            workspace = open_api(ctx.params.get("config_file"), {name: ctx.params.get(name) for name in PLACE})
            answer = workspace.call("GET", path)
            rows = answer.get("data", answer).get(of) or ()
            given = ((str(row.get(name) or ""), str(row.get(shown) or "")) for row in rows for name in names)
            return [
                CompletionItem(value, help=printable(text) if text != value else None)
                for value, text in given
                if value and value.isprintable() and value.startswith(incomplete)
            ]
        return []

    return complete


cluster_argument = click.argument(
    "cluster", shell_complete=completing("/v1/clusters?limit=100", "clusters", "id", "name", shown="name")
)
