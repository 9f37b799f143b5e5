"""`brickyard runtime export` and `import`: runtimes for machines without a package index."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from brickyard.cli import CliError
from brickyard.cli.backup import teller
from brickyard.cli.options import json_option, place, settings
from brickyard.cli.progress import Shown, working
from brickyard.machine.disk import file_text
from brickyard.runtime import catalogue
from brickyard.runtime.installed import installed
from brickyard.runtime.transfer import Tell, TransferError, bring_in, export


@click.command("export")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.argument("keys", nargs=-1)
@json_option
@place
def export_runtimes(file: Path, keys: tuple[str, ...], *, as_json: bool, config_file: Path | None, **options: Any) -> None:
    """Write installed runtimes to FILE, for a machine without a package index: those with these KEYS, or all.

    Java, layers and packages go along. `brickyard runtime import` reads it.
    """
    cache = settings(config_file, **options).cache_dir
    chosen = {each.environment: each for each in catalogue.rows() if not keys and installed(each.environment, cache)}
    for key in keys:
        if (runtime := catalogue.find(key)) is None:
            raise CliError(catalogue.unknown(key))
        chosen[runtime.environment] = runtime
    if not chosen:
        raise CliError(f"no runtime is installed in {cache}. Install one with `brickyard runtime install`.")
    try:
        with working("Exporting", silent=as_json) as shown:
            written = export(list(chosen.values()), file, cache_dir=cache, tell=_counted(shown))
    except TransferError as error:
        raise CliError(str(error)) from error
    size = file.stat().st_size
    if as_json:
        click.echo(json.dumps({"file": str(file.absolute()), "environments": written, "bytes": size}))
    else:
        click.echo(f"{file} has {', '.join(written)}: {file_text(size)}. `brickyard runtime import` installs them.")


@click.command("import")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@json_option
@place
def import_runtimes(file: Path, *, as_json: bool, config_file: Path | None, **options: Any) -> None:
    """Install the runtimes of a file that `brickyard runtime export` has written.

    It needs no network, and a Python of the version that the runtimes have. Runtimes that are installed stay as they are.
    """
    cache = settings(config_file, **options).cache_dir
    try:
        with working("Importing", silent=as_json) as shown:
            done = bring_in(file, cache_dir=cache, tell=_counted(shown))
    except TransferError as error:
        raise CliError(str(error)) from error
    if as_json:
        click.echo(json.dumps({"added": done.added, "there": done.there}))
        return
    for name in done.there:
        click.echo(f"{name} was installed before, and stays as it is.")
    if done.added:
        click.echo(f"Installed {', '.join(done.added)} in {cache}. A server trains them later, for faster starts.")


def _counted(shown: Shown) -> Tell:
    tell, done = teller(shown), 0

    def moved(size: int) -> None:
        nonlocal done
        done += size
        tell("files", done, 0)

    return moved
