"""`brickyard restore`: makes an empty workspace that of a backup."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import click

from brickyard.cli import CliError, as_called
from brickyard.cli.backup import teller
from brickyard.cli.options import json_option, place, settings
from brickyard.cli.progress import working
from brickyard.machine.disk import file_text
from brickyard.server.datadir import WorkspaceError


@click.command("restore")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@place
@click.option("--database-url", help="postgresql://... of an empty database; by default SQLite in the data directory.")
@click.option("--check", is_flag=True, help="Only compare the backup with its checksums.")
@json_option
def command(file: Path, *, check: bool, as_json: bool, config_file: Path | None, **options: Any) -> None:
    """Restore a backup into an empty data directory and database, while no server runs.

    The backup is checked before anything is put in its place. If the command is interrupted, run it again.
    """
    from brickyard.server.restore import RestoreFailed, check_backup, restore  # noqa: PLC0415 - heavy: SQLAlchemy
    from brickyard.store.opening import StoreError  # noqa: PLC0415 - as above

    chosen = settings(config_file, **options)
    try:
        with working("Checking" if check else "Restoring", silent=as_json) as shown:
            done = check_backup(file, teller(shown)) if check else restore(chosen, file, teller(shown))
    except (RestoreFailed, WorkspaceError, StoreError) as error:
        raise CliError(str(error)) from error
    if as_json:
        click.echo(
            json.dumps(
                {
                    "workspace_id": done.workspace_id,
                    "version": done.version,
                    "created_ms": done.created_ms,
                    "files": done.files,
                    "bytes": done.size,
                    "secrets_key": done.secrets_key,
                    "restored": not check,
                }
            )
        )
        return
    made = datetime.datetime.fromtimestamp(done.created_ms / 1000, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    what = f"workspace {done.workspace_id} of {made}, with {done.files:,} files ({file_text(done.size)})"
    if done.secrets_key == "setting":
        click.echo("Its secrets are encrypted with the setting encryption_key, which is not in the backup.")
    if check:
        click.echo(f"{file} is complete: {what}, made by Brickyard {done.version}.")
    else:
        click.echo(as_called(f"Restored {what}. Start it with `brickyard up`."))
