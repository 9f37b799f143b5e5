"""`brickyard ui`: the workspace's web page in a browser, logged in."""

from __future__ import annotations

import os
import sys
import webbrowser
from pathlib import Path
from typing import Any

import click

from brickyard.cli import CliError, printable
from brickyard.cli.api import open_api
from brickyard.cli.options import place

PORT = 8090


@click.command("ui")
@click.option("--print", "only_print", is_flag=True, help="Print the link; open nothing.")
@click.option("--workspace", help="https:// URL of a workspace elsewhere, of Databricks or Brickyard: the page in front of it.")
@click.option("--token-file", type=click.Path(path_type=Path, dir_okay=False), help="File with an access token of --workspace.")
@click.option("--port", type=click.IntRange(0, 65535), help=f"With --workspace: port of the page ({PORT}); 0 picks a free one.")
@click.option("--plain-http", is_flag=True, help="With --workspace: accept a URL with http, which shows the token on its way.")
@place
def command(
    *,
    only_print: bool,
    workspace: str | None,
    token_file: Path | None,
    port: int | None,
    plain_http: bool,
    config_file: Path | None,
    **options: Any,
) -> None:
    """Open the web page, logged in as the administrator. The link works once, for 10 minutes.

    It is printed where this machine has no screen: then open it wherever the server can be reached.

    With --workspace, the page shows a workspace elsewhere, as the user of the token, which stays in this process. It listens on
    this machine only, until Ctrl-C.
    """
    if workspace is None:
        for name, given in (("--token-file", token_file), ("--port", port is not None), ("--plain-http", plain_http)):
            if given:
                raise click.UsageError(f"{name} is for --workspace, which is missing.")
    elif token_file is None:
        raise click.UsageError("--workspace needs --token-file, a file with an access token of that workspace.")
    else:
        _remote(workspace, token_file, PORT if port is None else port, plain_http=plain_http, only_print=only_print)
        return
    url = str(open_api(config_file, options).call("POST", "/api/2.1/login-links")["url"])
    if not only_print and _has_screen() and webbrowser.open(url):
        click.echo("Opened the web page in the browser.")
    else:
        click.echo(url)


def _remote(given: str, token_file: Path, port: int, *, plain_http: bool, only_print: bool) -> None:
    """Serves the page in front of a workspace elsewhere, until a signal arrives."""
    from brickyard.domain.errors import ApiError  # noqa: PLC0415 - these load the web server
    from brickyard.remote.process import run  # noqa: PLC0415
    from brickyard.remote.token import TokenFile, TokenTrouble  # noqa: PLC0415
    from brickyard.remote.workspace import About, WrongUrl, workspace_url  # noqa: PLC0415
    from brickyard.server.preflight import ServerError, listen  # noqa: PLC0415

    def opened(about: About, link: str) -> None:
        click.echo(f"{url} as {printable(about.user_name)}. The page, by a link that works once: {link}")
        if not only_print and _has_screen():
            webbrowser.open(link)
        if sys.stdin.isatty():
            click.echo("Enter makes another link, Ctrl-C stops.")

    token = TokenFile(token_file)
    try:
        url = workspace_url(given, plain_http=plain_http)
        token.read()
        if token.seen_by_others():
            click.echo(f"Warning: other users of this machine can read {token_file}: chmod 600 {token_file}", err=True)
        with listen("127.0.0.1", port) as listening:
            run(url, token, listening, opened=opened)
    except (WrongUrl, TokenTrouble, ServerError) as error:
        raise CliError(str(error)) from error
    except ApiError as error:
        raise CliError(printable(error.message)) from error


def _has_screen() -> bool:
    """Elsewhere the only browsers are those of the terminal, which run no scripts."""
    return sys.platform in ("darwin", "win32") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
