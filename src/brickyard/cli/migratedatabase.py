"""`brickyard migrate-database`: moves a workspace from SQLite to PostgreSQL."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from brickyard.cli import CliError
from brickyard.cli.options import place, settings
from brickyard.cli.progress import Shown, working
from brickyard.server.datadir import DATABASE, Workspace, WorkspaceError
from brickyard.store.servers import JoinRefused

if TYPE_CHECKING:
    from brickyard.store.tablecopy import Progress, Tell

TELL_S = 5.0  # between two lines of a long table, where there is no terminal


@click.command("migrate-database")
@place
@click.option("--database-url", help="postgresql://...: where to move to (better: BRICKYARD_DATABASE_URL, or the file).")
def command(config_file: Path | None, **options: Any) -> None:
    """Move the workspace's database from SQLite to PostgreSQL, while no server runs.

    All rows are copied and compared; only then does the workspace belong to the new database, and no server starts on the old one
    any more. If the command is interrupted, run it again: it goes on where it was.
    """
    from brickyard.server.databasemove import move_database  # noqa: PLC0415 - heavy: SQLAlchemy
    from brickyard.store.opening import StoreError, shown_url  # noqa: PLC0415 - as above

    chosen = settings(config_file, **options)
    workspace = Workspace(chosen.data_dir, chosen.storage_dir)
    try:
        with working("Moving the database") as shown:
            rows = move_database(chosen, workspace, _teller(shown), shown)
    except (WorkspaceError, StoreError, JoinRefused) as error:
        raise CliError(str(error)) from error
    click.echo(
        f"The workspace's database is {shown_url(chosen.database_url)} now ({rows:,} rows). Start servers with this "
        f"database_url. {chosen.data_dir / DATABASE} is not used any more."
    )


def _teller(shown: Shown) -> Tell:
    """Shows how far it is: in place, and a line for each table and every few seconds."""
    spoken, told = time.monotonic(), ""

    def tell(progress: Progress) -> None:
        nonlocal spoken, told
        line = f"{progress.table}: {progress.rows:,} of {progress.of:,} rows"
        shown.now(line)
        whole = progress.rows == progress.of and progress.of > 0 and line != told
        if whole or time.monotonic() - spoken > TELL_S:
            spoken, told = time.monotonic(), line
            shown(line)

    return tell
