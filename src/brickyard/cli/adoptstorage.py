"""`brickyard adopt-storage`: makes a storage and a database one workspace after the other half of one was lost."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from brickyard.cli import CliError, as_called
from brickyard.cli.options import place, settings
from brickyard.server.datadir import Workspace, WorkspaceError
from brickyard.store.servers import JoinRefused

if TYPE_CHECKING:
    from brickyard.server.adoption import Offer


@click.command("adopt-storage")
@place
@click.option("--database-url", help="postgresql://...; by default SQLite in the data directory.")
@click.option("--yes", is_flag=True, help="Do it without asking.")
def command(yes: bool, config_file: Path | None, **options: Any) -> None:
    """Join a storage and a database that do not know each other, after the other half of a workspace was lost.

    A storage whose database is lost gets a new one; a database whose storage is lost gets another one. Says what is kept and what
    is lost, and asks. Restore a backup instead if there is one: docs/operations.md.
    """
    from brickyard.server.adoption import Declined, adopt  # noqa: PLC0415 - heavy: SQLAlchemy
    from brickyard.store.opening import StoreError  # noqa: PLC0415 - as above

    chosen = settings(config_file, **options)

    def accept(offer: Offer) -> bool:
        click.echo(offer.what)
        for head, lines in (("Kept:", offer.kept), ("Lost:", offer.lost)):
            click.echo("\n".join([head, *(f"* {line}" for line in lines)]))
        if not yes and not sys.stdin.isatty():
            raise CliError("this must be confirmed: run it at a terminal, or with --yes.")
        return yes or click.confirm("Join them?")

    try:
        number = adopt(chosen, Workspace(chosen.data_dir, chosen.storage_dir), accept)
    except Declined:
        raise CliError("nothing was changed.") from None
    except (WorkspaceError, StoreError, JoinRefused) as error:
        raise CliError(str(error)) from error
    click.echo(as_called(f"They are workspace {number} now. Start it with `brickyard up`."))
