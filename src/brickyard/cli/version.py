"""`brickyard version`."""

from __future__ import annotations

import click

from brickyard import __version__


@click.command("version")
def command() -> None:
    """Show the version."""
    click.echo(__version__)
