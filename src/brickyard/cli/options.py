"""Options shared by several commands, and the settings derived from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from brickyard.cli import CliError
from brickyard.config.load import load, source
from brickyard.config.settings import ConfigError, Declaration, Settings, declared

F = TypeVar("F", bound=Callable[..., Any])


PLACE = ("data_dir", "storage_url", "cache_dir")


def place(function: F) -> F:
    """--data-dir, --storage-url, --cache-dir and --config: the location of a workspace."""
    config = click.option(
        "--config", "config_file", type=click.Path(path_type=Path, dir_okay=False), help="TOML file with settings."
    )
    return _of(PLACE, config(function))


def serving(function: F) -> F:
    """All other settings, which `up` and `quickstart` pass to the server that they start (docs/configuration.md)."""
    return _of([name for name in declared() if name not in PLACE], function)


def _of(names: Sequence[str], function: F) -> F:
    """Adds the options of these settings."""
    for name in reversed(names):
        function = _option(declared()[name])(function)
    return function


def _option(setting: Declaration) -> Callable[[F], F]:
    text = setting.help.text
    if setting.type is not bool:
        kind = click.Path(path_type=Path) if setting.type is Path else setting.type
        return click.option(setting.option, type=kind, help=text)
    if setting.default:
        return click.option(f"{setting.option}/{setting.option.replace('--', '--no-', 1)}", default=None, help=text)
    return click.option(setting.option, is_flag=True, default=None, help=text)


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
