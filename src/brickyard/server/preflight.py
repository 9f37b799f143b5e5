"""What a server checks and acquires before it loads anything heavy: limits, paths, the data directory's lock, the port."""

from __future__ import annotations

import contextlib
import errno
import socket

import click

from brickyard.config.settings import Settings
from brickyard.machine import limits
from brickyard.providers import pricing
from brickyard.server.datadir import Workspace

_REMEDIES = {
    errno.EADDRNOTAVAIL: "Name an address of this machine with --host.",
    errno.EACCES: "Ports below 1024 are for root: choose a higher one with --port.",
}


class ServerError(Exception):
    """Why a server cannot start, or why it ended: one line that says what is wrong and what to do."""


def prepared(chosen: Settings, workspace: Workspace) -> socket.socket:
    """Locks the data directory and binds the port. Raises ServerError, WorkspaceError."""
    _check_limits()
    if warning := workspace.prepare():
        with contextlib.suppress(OSError):  # the terminal may be a file on that disk
            click.echo(f"Warning: {warning}", err=True)
    _check_places(chosen)
    workspace.lock()
    return listen(chosen.host, chosen.port)


def _check_places(chosen: Settings) -> None:
    """Checks paths that would otherwise fail only when a cluster or a task needs them. Raises ServerError."""
    if chosen.cache_dir.exists() and not chosen.cache_dir.is_dir():
        raise ServerError(f"cache_dir is {chosen.cache_dir}, which is a file. Choose a directory with --cache-dir.")
    if chosen.task_files_dir and not chosen.task_files_dir.is_dir():
        raise ServerError(f"task_files_dir is {chosen.task_files_dir}, which is not a directory. Create it, or omit the setting.")
    if chosen.node_prices:
        try:
            pricing.check(pricing.read(chosen.node_prices), providers=chosen.providers)
        except ValueError as error:
            raise ServerError(f"node_prices is {chosen.node_prices}: {error}.") from error


def _check_limits() -> None:
    """Raises the limit of open files as far as allowed; nodes inherit it. Raises ServerError if it is too low for one node."""
    limits.raise_files()
    limits.dump_nothing()
    found = limits.files()
    if found.state == "broken":
        raise ServerError(found.text)
    if found.state == "note":
        click.echo(f"Warning: {found.text}", err=True)


def listen(host: str, port: int) -> socket.socket:
    """A listening socket. Raises ServerError."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise ServerError(f"cannot listen on {host}: {error.strerror}. Name an address of this machine with --host.") from error
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(address)
        listening.listen(1024)
    except OSError as error:
        listening.close()
        remedy = _REMEDIES.get(error.errno or 0, "Choose another port with --port (0 finds a free one).")
        raise ServerError(f"cannot listen on {host}:{port}: {error.strerror}. {remedy}") from error
    return listening
