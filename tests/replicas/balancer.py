"""What stands before a workspace's servers for agents: passes each connection on to the first server that takes it."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from collections.abc import Iterator, Sequence

from tests.support.patience import PATIENCE_S


@contextlib.contextmanager
def balancer(port: int, targets: Sequence[int], *, tls: ssl.SSLContext | None = None) -> Iterator[None]:
    """It listens on that port of loopback while the block runs. `tls`: it has the certificate, and servers get plain HTTP."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="balancer")
    thread.start()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for target in targets:
            with contextlib.suppress(OSError):
                theirs, ours = await asyncio.open_connection("127.0.0.1", target)
                await asyncio.gather(_pass_on(reader, ours), _pass_on(theirs, writer))
                return
        writer.close()

    async def stop() -> None:
        server.close()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    server = asyncio.run_coroutine_threadsafe(asyncio.start_server(connected, "127.0.0.1", port, ssl=tls), loop).result(
        PATIENCE_S
    )
    try:
        yield
    finally:
        asyncio.run_coroutine_threadsafe(stop(), loop).result(PATIENCE_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()
