"""Options shared by several commands, and the settings derived from them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from brickyard.cli import CliError
from brickyard.config.load import load, source
from brickyard.config.settings import ConfigError, Declaration, Settings, declared

yes_option = click.option("--yes", is_flag=True, help="Do not ask.")
json_option = click.option("--json", "as_json", is_flag=True, help="For programs.")
F = TypeVar("F", bound=Callable[..., Any])


_MARKDOWN = re.compile(r"\[([^]]*)\]\([^)]*\)")  # a link
PLACE = ("data_dir", "storage_url", "cache_dir")


def place(function: F) -> F:
    """--data-dir, --storage-url, --cache-dir and --config: the location of a workspace."""
    config = click.option(
        "--config", "config_file", type=click.Path(path_type=Path, dir_okay=False), help="TOML file with settings."
    )
    return _of(PLACE, config(function))


def serving(function: F) -> F:
    """All other settings, which are passed to a server (docs/configuration.md). The help of `up` has them, in their groups."""
    return _of([name for name in declared() if name not in PLACE], function)


def serving_too(function: F) -> F:
    """The same for a command whose help does not repeat them."""
    return _of([name for name in declared() if name not in PLACE], function, hidden=True)


class Grouped(click.Command):
    """A command whose help shows settings below the headings of their groups, after its other options."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        shown = [(each, record) for each in self.get_params(ctx) if (record := each.get_help_record(ctx)) is not None]
        sections: dict[str, list[tuple[str, str]]] = {"Options": []}
        for each, record in shown:
            setting = declared().get(each.name or "")
            sections.setdefault(setting.group if setting is not None else "Options", []).append(record)
        for heading, records in sections.items():
            with formatter.section(heading):
                formatter.write_dl(records)


def _of(names: Sequence[str], function: F, *, hidden: bool = False) -> F:
    """Adds the options of these settings."""
    for name in reversed(names):
        function = _option(declared()[name], hidden=hidden)(function)
    return function


def _option(setting: Declaration, *, hidden: bool) -> Callable[[F], F]:
    default = _MARKDOWN.sub(r"\1", setting.shown_default).replace("`", "")
    text = f"{setting.help.text}  [default: {default}]" if default else setting.help.text
    if setting.type is not bool:
        kind = click.Path(path_type=Path) if setting.type is Path else setting.type
        return click.option(setting.option, type=kind, help=text, hidden=hidden)
    if setting.default:
        negative = setting.option.replace("--", "--no-", 1)
        return click.option(f"{setting.option}/{negative}", default=None, help=text, hidden=hidden)
    return click.option(setting.option, is_flag=True, default=None, help=setting.help.text, hidden=hidden)


def confirm(question: str) -> None:
    """Asks on standard error, since standard output is for results. Raises CliError unless the answer is yes."""
    try:
        agreed = click.confirm(question, err=True)
    except click.Abort as error:
        if not isinstance(error.__context__, EOFError):  # Ctrl-C
            raise
        click.echo(err=True)
        raise CliError("this must be confirmed: run it at a terminal, or with --yes.") from None
    if not agreed:
        raise CliError("nothing was changed.")


def settings(config_file: Path | None, **options: Any) -> Settings:
    """The settings merged from all sources. Raises CliError."""
    try:
        chosen = load(config_file=config_file, options=options)
    except ConfigError as error:
        raise CliError(str(error)) from error
    if chosen.default_runtime:
        from brickyard.runtime.catalogue import find, unknown  # noqa: PLC0415 - rarely needed

        if find(chosen.default_runtime) is None:
            where = source("default_runtime", config_file=config_file, options=options)
            raise CliError(f"{where}: {unknown(chosen.default_runtime)}")
    return chosen


def found_by(config_file: Path | None, **options: Any) -> str:
    """Says how the data directory, and so the server, was chosen: words to follow the directory's name in a message."""
    return f"by {source('data_dir', config_file=config_file, options=options)}"
