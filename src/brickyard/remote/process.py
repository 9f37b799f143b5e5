"""The process of `brickyard ui --workspace`: from the check of workspace and token to Ctrl-C."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import sys
from collections.abc import Callable, Iterator

import uvicorn

from brickyard.api.edge.serving import serving
from brickyard.domain.caller import Caller
from brickyard.domain.clock import Ids, SystemClock
from brickyard.features.credentials.loginlinks import link_path
from brickyard.remote.app import RemotePage
from brickyard.remote.sessions import LinkedSessions
from brickyard.remote.token import TokenFile
from brickyard.remote.workspace import About, RemoteWorkspace

Opened = Callable[[About, str], None]


def run(url: str, token: TokenFile, listening: socket.socket, *, opened: Opened) -> None:
    """`serve`, until a signal arrives. Raises ApiError."""

    async def until_signal() -> None:
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        await serve(url, token, listening, opened=opened, stop=stop)

    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # it would print a traceback for an answer that breaks off
    asyncio.run(until_signal())


async def serve(url: str, token: TokenFile, listening: socket.socket, *, opened: Opened, stop: asyncio.Event) -> None:
    """Serves the page until `stop`. `opened` is told who the token's owner is and a link that logs a browser in: once it serves,
    and again whenever somebody presses Enter at the terminal. Raises ApiError if the workspace cannot be used."""
    workspace = RemoteWorkspace(url, token)
    stopping = asyncio.create_task(stop.wait())
    try:
        asked = asyncio.create_task(workspace.about())
        await asyncio.wait({asked, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not asked.done():
            asked.cancel()
            return
        about, port = asked.result(), listening.getsockname()[1]
        caller = Caller(user_name=about.user_name, user_id=about.user_id, is_admin=False, token_id="")
        sessions = LinkedSessions(caller, clock=SystemClock(), ids=Ids())
        page = RemotePage(workspace, about, sessions, cookie=f"brickyard-ui-{port}")
        server = uvicorn.Server(serving(page))
        served = asyncio.create_task(server._serve(sockets=[listening]))  # `serve` without its signal handlers

        def tell() -> None:
            opened(about, f"http://127.0.0.1:{port}{link_path(sessions.link())}")

        tell()
        with _on_enter(tell):
            await asyncio.wait({served, stopping}, return_when=asyncio.FIRST_COMPLETED)
        page.close()
        server.should_exit = True
        await served
    finally:
        stopping.cancel()
        await workspace.close()


@contextlib.contextmanager
def _on_enter(tell: Callable[[], None]) -> Iterator[None]:
    """Calls `tell` for every line at the terminal, if there is one."""
    if not sys.stdin or not sys.stdin.isatty():
        yield
        return
    loop = asyncio.get_running_loop()

    def read() -> None:
        if sys.stdin.readline():
            tell()
        else:  # the terminal has gone
            loop.remove_reader(sys.stdin)

    loop.add_reader(sys.stdin, read)
    try:
        yield
    finally:
        loop.remove_reader(sys.stdin)
