"""The server process: sockets, signals and logging around `brickyard.app`."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
import time

import click
import structlog
import uvicorn
import uvloop

from brickyard.app import Application
from brickyard.cli import CliError
from brickyard.cli.up import isolation_here, serve, stop_signals
from brickyard.config import Settings, load
from brickyard.lifecycle.workspace import Workspace, WorkspaceError
from brickyard.store.store import StoreError

log = structlog.get_logger("brickyard")


def run(chosen: Settings, workspace: Workspace, listening: socket.socket) -> None:
    """Serve until a signal; the data directory is locked and the socket bound. Raises CliError."""
    _configure_logging(chosen)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_run(chosen, workspace, listening))
    except StoreError as error:
        raise CliError(f"{error}. Check the path and the disk, or database_url.") from error
    finally:
        workspace.withdraw()


async def _run(chosen: Settings, workspace: Workspace, listening: socket.socket) -> None:
    started = time.monotonic()
    token, fresh = workspace.admin_token(chosen.admin_token)
    address = listening.getsockname()
    host = f"[{address[0]}]" if ":" in address[0] else address[0]
    host = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}.get(host, host)  # noqa: S104 - a wildcard is no address to call
    url = f"http://{host}:{address[1]}"
    opened = Application.open(chosen, server_url=url, workspace_key=workspace.key(), admin_token=token)
    # Before the loops look at what a killed server left: agents may only be found missing once they can find us.
    workspace.announce(url)
    async with opened as application:
        config = uvicorn.Config(
            application.asgi, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=2, loop="none"
        )
        server = uvicorn.Server(config)
        stop = asyncio.Event()
        _on_signals(stop)
        serving = asyncio.create_task(server._serve(sockets=[listening]))  # the part of `serve` without its signal handlers
        _greet(chosen, url, token if fresh else "", time.monotonic() - started)
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait([serving, stopping], return_when=asyncio.FIRST_COMPLETED)
        keep = chosen.keep_nodes or (workspace.data_dir / "keep-nodes").exists()
        (workspace.data_dir / "keep-nodes").unlink(missing_ok=True)  # asked for by `down --keep-nodes`
        log.info("stopping", nodes="kept" if keep else "ended")
        await application.close(keep_nodes=keep)
        server.should_exit = True
        await serving
        stopping.cancel()


def _on_signals(stop: asyncio.Event) -> None:
    """The first signal stops in order, the second at once."""

    def handle() -> None:
        if stop.is_set():
            os._exit(130)
        stop.set()

    for number in stop_signals():
        asyncio.get_running_loop().add_signal_handler(number, handle)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


def _greet(chosen: Settings, url: str, new_token: str, seconds: float) -> None:
    click.echo(f"Brickyard serves at {url} after {seconds:.1f} s. Stop it with Ctrl-C or `brickyard down`.")
    if new_token:
        click.echo(f"Admin token (shown this once, kept in {chosen.data_dir / 'admin-token'}): {new_token}")
    if chosen.provider == "local" and chosen.isolation != "off":
        kind, reason = isolation_here()
        if kind == "none":
            click.echo(f"Warning: clusters are not isolated from this machine: {reason} See `brickyard doctor`.")
    sys.stdout.flush()


def _configure_logging(chosen: Settings) -> None:
    level = getattr(logging, chosen.log_level.upper(), logging.INFO)
    logging.basicConfig(level=max(level, logging.WARNING), format="%(asctime)s %(name)s %(message)s", stream=sys.stderr)
    renderer = (
        structlog.processors.JSONRenderer()
        if chosen.log_format == "json"
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


def main() -> int:
    """`python -m brickyard.cli.server`: what `up --detach` starts; its settings are in the environment."""
    try:
        chosen = load()
        serve(chosen, Workspace(chosen.data_dir))
    except (CliError, WorkspaceError) as error:
        sys.stderr.write(f"brickyard: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
