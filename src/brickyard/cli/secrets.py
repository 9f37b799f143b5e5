"""`brickyard secrets`: the key that encrypts the workspace's secrets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from brickyard.cli.api import open_api
from brickyard.cli.options import place


@click.group("secrets")
def command() -> None:
    """Change the key that encrypts the workspace's secrets."""


@command.command("rotate-key")
@place
def rotate_key(config_file: Path | None, **options: Any) -> None:
    """Encrypt all secrets with a new key.

    The server does it while it runs. With keys in the setting encryption_key, first start all servers with the new key before
    the old one. If the command is interrupted, all secrets can still be read: repeat it.
    """
    count = open_api(config_file, options).call("POST", "/api/2.0/secrets/rotate-key", {})["secrets"]
    click.echo(
        f"{count} secret{' is' if count == 1 else 's are'} encrypted with the new key. Back up the key, and forget the old one."
    )
