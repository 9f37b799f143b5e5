"""`brickyard ui`: the workspace's web page in a browser, logged in."""

from __future__ import annotations

import os
import sys
import webbrowser
from pathlib import Path
from typing import Any

import click

from brickyard.cli.client import administering
from brickyard.cli.options import place


@click.command("ui")
@click.option("--print", "only_print", is_flag=True, help="Print the link; open nothing.")
@place
def command(*, only_print: bool, config_file: Path | None, **options: Any) -> None:
    """Open the web page, logged in as the administrator. The link works once, for 10 minutes.

    It is printed where this machine has no screen: then open it wherever the server can be reached.
    """
    with administering(config_file, options) as workspace:
        answer = workspace.api_client.do("POST", "/api/2.1/login-links")
    assert isinstance(answer, dict)  # noqa: S101 - the operation's answer
    url = str(answer["url"])
    if not only_print and _has_screen() and webbrowser.open(url):
        click.echo("Opened the web page in the browser.")
    else:
        click.echo(url)


def _has_screen() -> bool:
    """Elsewhere the only browsers are those of the terminal, which run no scripts."""
    return sys.platform in ("darwin", "win32") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
