"""A server that is started before its database."""

from __future__ import annotations

import asyncio
import time

import pytest

from brickyard.server.databasewait import wait_for_database
from tests.support.ports import free_port

LONG_S = 600.0


async def waited(url: str, *, limit_s: float, stop: asyncio.Event | None = None) -> list[str]:
    reasons: list[str] = []
    await wait_for_database(
        url, limit_s=limit_s, stop=stop or asyncio.Event(), on_wait=lambda address, reason: reasons.append(f"{address} {reason}")
    )
    return reasons


async def test_it_waits_until_something_listens() -> None:
    port = free_port()
    waiting = asyncio.create_task(waited(f"postgresql://u:p@127.0.0.1:{port}/d", limit_s=LONG_S))
    await asyncio.sleep(0.7)
    assert not waiting.done()
    async with await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", port):
        (reason,) = await waiting
    assert reason.startswith(f"127.0.0.1:{port} ")


def test_a_name_that_does_not_exist_yet_is_waited_for_up_to_the_limit() -> None:
    began = time.monotonic()
    (reason,) = asyncio.run(waited("postgresql://u:p@no-such-name.invalid/d", limit_s=0.6))
    assert reason.startswith("no-such-name.invalid:5432 ")
    assert time.monotonic() - began >= 0.6


async def test_a_signal_ends_the_wait() -> None:
    stop = asyncio.Event()
    waiting = asyncio.create_task(waited(f"postgresql://u@127.0.0.1:{free_port()}/d", limit_s=LONG_S, stop=stop))
    await asyncio.sleep(0.1)
    stop.set()
    await waiting


@pytest.mark.parametrize("url", ["", "sqlite:////srv/x.db", "postgresql:///d?host=/var/run", "postgresql://%2Fvar%2Frun/d"])
def test_a_database_without_an_address_is_not_waited_for(url: str) -> None:
    assert asyncio.run(waited(url, limit_s=LONG_S)) == []
