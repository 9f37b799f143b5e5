"""Clusters by name or id, for the commands of `brickyard cluster`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import click
from click.shell_completion import CompletionItem

from brickyard.cli import CliError, printable
from brickyard.cli.api import Api, open_api
from brickyard.cli.options import PLACE


def nothing(what: str) -> None:
    """Says, beside the output, that there is nothing to list."""
    click.echo(f"There are no {what}.", err=True)


def find(workspace: Api, text: str) -> Any:
    """The cluster with that id, or the only one with that name. Raises CliError."""
    found = named(every(workspace, text), text)
    if len(found) == 1:
        return found[0]
    if not found:
        raise CliError(f"there is no cluster {text!r}. `brickyard cluster list` shows them.")
    raise CliError(f"{len(found)} clusters are called {text!r}: {', '.join(row['id'] for row in found)}. Name one by its id.")


def named(rows: Iterable[Any], text: str) -> list[Any]:
    """The row with that id, otherwise all with that name: others may be called what the id of one is. Nothing names none: a
    shell's variable that is not set must not delete what has no name."""
    found = [row for row in rows if text and text in (row["id"], row["name"])]
    return [row for row in found if row["id"] == text] or found


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
