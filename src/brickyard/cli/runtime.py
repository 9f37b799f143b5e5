"""`brickyard runtime`: Spark runtimes of this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from brickyard.cli import CliError
from brickyard.cli.options import place, settings
from brickyard.cli.progress import installing
from brickyard.domain.runtimes import Runtime
from brickyard.lifecycle.runtimeuse import RuntimeInUse
from brickyard.runtime import catalogue, installer
from brickyard.runtime.installed import installed


@click.group("runtime")
def command() -> None:
    """Install, list and remove Spark runtimes."""


@command.command("list")
@place
def list_runtimes(config_file: Path | None, **options: Any) -> None:
    """Show the available runtimes."""
    cache = settings(config_file, **options).cache_dir
    without = []
    for runtime in catalogue.rows():
        manifest = installed(runtime.environment, cache)
        click.echo(f"{runtime.key:16}  {'installed' if manifest else '':9}  {runtime.name}")  # a terminal's 80 columns
        if manifest is not None and not manifest.has_connect:
            without.append(runtime.key)
    if without:
        click.echo(f"Installed without Spark Connect: {', '.join(without)}.")


@command.command("install")
@click.argument("key", default="")
@place
def install(key: str, config_file: Path | None, **options: Any) -> None:
    """Install the runtime KEY (by default the newest LTS on Spark 4)."""
    chosen = settings(config_file, **options)
    runtime = _find(key or chosen.default_runtime)
    try:
        with installing() as progress:
            manifest = installer.install(runtime, cache_dir=chosen.cache_dir, progress=progress)
    except installer.InstallError as error:
        raise CliError(
            f"{runtime.key} cannot be installed: {error}\nSee what `brickyard doctor` says about the package index and the disk, "
            "then run it again."
        ) from error
    click.echo(f"{runtime.key} is installed in {manifest.home}.")
    again = f"To try again: brickyard runtime remove {runtime.key}, and install it again."
    if not manifest.has_connect:
        click.echo(f"It has no Spark Connect server: {manifest.connect_missing or 'it was not searched for'}. {again}")
    if runtime.iceberg and not manifest.has_iceberg:
        click.echo(f"It has no Iceberg tables: {manifest.iceberg_missing or 'Iceberg was not searched for'}. {again}")


@command.command("remove")
@click.argument("key")
@place
def remove(key: str, config_file: Path | None, **options: Any) -> None:
    """Remove the runtime KEY, and with it those that share its environment."""
    runtime = _find(key)
    try:
        removed = installer.remove(runtime.environment, cache_dir=settings(config_file, **options).cache_dir)
    except RuntimeInUse as error:
        raise CliError(
            f"{runtime.key} is in use: nodes of this machine run on it, of clusters or of pools that keep it warm, or the "
            "Spark UI of past runs does. Terminate those, or stop their server with `brickyard down`, then run it again."
        ) from error
    click.echo(f"{runtime.key} is removed." if removed else f"{runtime.key} was not installed.")


def _find(key: str) -> Runtime:
    runtime = catalogue.find(key) if key else catalogue.default()
    if runtime is None:
        raise CliError(catalogue.unknown(key))
    return runtime
