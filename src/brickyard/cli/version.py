"""`brickyard version`."""

from __future__ import annotations

import json

import click

from brickyard import __version__
from brickyard.cli.options import json_option


@click.command("version")
@json_option
def command(*, as_json: bool) -> None:
    """Show the version."""
    click.echo(json.dumps({"version": __version__}) if as_json else __version__)
