"""`brickyard backup`: writes a backup of the workspace while it runs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from brickyard.cli import CliError
from brickyard.cli.options import json_option, place, settings
from brickyard.cli.progress import Shown, working
from brickyard.machine.disk import file_text
from brickyard.server.datadir import WorkspaceError

TELL_S = 5.0  # between two lines, where there is no terminal


@click.command("backup")
@click.argument("target", metavar="FILE_OR_DIR", type=click.Path(path_type=Path))
@place
@click.option("--database-url", help="postgresql://...; by default SQLite in the data directory.")
@json_option
def command(target: Path, *, as_json: bool, config_file: Path | None, **options: Any) -> None:
    """Write a backup of the workspace, its database and its files, to one new file.

    Servers and clusters go on. The backup has the keys of the workspace: keep it secret. `brickyard restore` reads it.
    """
    from brickyard.server.backup import BackupFailed, back_up  # noqa: PLC0415 - heavy: SQLAlchemy
    from brickyard.store.opening import StoreError  # noqa: PLC0415 - as above

    chosen = settings(config_file, **options)
    if not target.is_dir() and not target.absolute().parent.is_dir():
        raise CliError(f"{target.absolute().parent} is not a directory. Create it, or choose another one.")
    started = time.monotonic()
    try:
        with working("Backing up", silent=as_json) as shown:
            made = back_up(chosen, target, teller(shown))
    except (BackupFailed, WorkspaceError, StoreError) as error:
        raise CliError(str(error)) from error
    if as_json:
        click.echo(
            json.dumps(
                {
                    "file": str(made.file),
                    "workspace_id": made.workspace_id,
                    "files": made.files,
                    "bytes": made.size,
                    "secrets_key": made.secrets_key,
                    "unsteady_files": made.unsteady,
                    "left_out": made.left_out,
                    "seconds": round(time.monotonic() - started, 3),
                }
            )
        )
        return
    if made.secrets_key == "lost":
        click.echo("Warning: the key of its secrets is lost, so they cannot be read after a restore (docs/secrets.md).", err=True)
    for name in made.unsteady:
        click.echo(
            f"Warning: {name} changed each time that it was read, so the backup may have parts of several versions.", err=True
        )
    for name in made.left_out:
        click.echo(f"Warning: {name[:200]}... is not in the backup: its path is too long.", err=True)
    click.echo(
        f"{made.file} is a backup of workspace {made.workspace_id}: {made.files:,} files, {file_text(made.size)}. It has "
        "the keys of the workspace: keep it secret."
    )


def teller(shown: Shown) -> Callable[[str, int, int], None]:
    """Shows how far it is: in place, and a line every few seconds."""
    spoken = drawn = time.monotonic()

    def tell(what: str, done: int, of: int) -> None:
        nonlocal spoken, drawn
        if (now := time.monotonic()) - drawn < 0.1:
            return
        drawn = now
        amount = file_text if what == "files" else "{:,}".format
        line = f"{what}: {amount(done)}" + (f" of {amount(of)}" if of else "")
        shown.now(line)
        if now - spoken > TELL_S:
            spoken = now
            shown(line)

    return tell
