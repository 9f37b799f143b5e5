"""At a start, waits until the database's name and port are there: servers may be started beside their database, or before it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from urllib.parse import unquote, urlsplit

PORT = 5432
PAUSE_S = 0.5
ANSWER_S = 5.0


async def wait_for_database(url: str, *, limit_s: float, stop: asyncio.Event, on_wait: Callable[[str, str], None]) -> None:
    """Returns when a program listens at the database's address, after `limit_s`, or when `stop` is set. Opening the database then
    tells what is wrong. `on_wait` is called once, with the address and the reason, if it has to wait at all. Does nothing for a
    database that has no address."""
    parts = urlsplit(url)
    host = unquote(parts.hostname or "")
    if not parts.scheme.startswith("postgresql") or not host or host.startswith("/") or "," in parts.netloc:
        return
    port, deadline, waits = parts.port or PORT, time.monotonic() + limit_s, False
    while not stop.is_set():
        reason = await _unreachable(host, port)
        if not reason or time.monotonic() >= deadline:
            return
        if not waits:
            waits = True
            on_wait(f"{host}:{port}", reason)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), PAUSE_S)


async def _unreachable(host: str, port: int) -> str:
    """Why nothing listens there; "" if something does."""
    try:
        async with asyncio.timeout(ANSWER_S):
            _, writer = await asyncio.open_connection(host, port)
    except TimeoutError:
        return "it does not answer"
    except OSError as error:
        return error.strerror or str(error)
    writer.close()
    return ""
