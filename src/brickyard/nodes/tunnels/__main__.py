"""The tunnel process: `python -m brickyard.nodes.tunnels DIRECTORY` does what the lines of stdin say, until they end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
import sys
from pathlib import Path
from urllib.parse import urlencode

import msgspec

from brickyard.domain.nodeops import TUNNEL
from brickyard.machine.frames import CHUNK, Streams, carry, keep_alive, reset
from brickyard.machine.tls import fingerprint, pinning_context
from brickyard.nodes.tunnels.doors import LINE, Answer, Door, Told

_decode_told = msgspec.json.Decoder(Told).decode


MOST_OF_A_DOOR = 128  # connections at a time, as many as a node with its own network lets in for a port; more wait
MOST = 2_000  # of all doors
CONNECT_S = 15.0  # the agent tries two addresses, each for 5 s


class _Refused(Exception):
    """The agent has another certificate, or did not open the port."""


class Opened:
    """A door that is open."""

    def __init__(self, door: Door, room: asyncio.Semaphore, context: ssl.SSLContext) -> None:
        self.door = door
        self._room = room
        self._own_room = asyncio.Semaphore(MOST_OF_A_DOOR)
        self._context = context
        self._server: asyncio.AbstractServer | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def listen(self) -> None:
        """Raises OSError."""
        _make_room(self.door.name)
        self._server = await asyncio.start_unix_server(self._serve, self.door.name, limit=CHUNK)

    async def close(self) -> None:
        """Listens no more, and breaks all connections."""
        if self._server is not None:
            self._server.close()
        with contextlib.suppress(OSError):
            os.unlink(self.door.name)  # noqa: PTH108 - no more than that, on a local disk
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - the server makes one for each connection
        self._tasks.add(task)
        try:
            async with self._own_room, self._room:
                await carry(await connected(self.door, self._context), Streams(reader, writer))
        except (OSError, EOFError, ValueError, _Refused):
            reset(writer)
        except asyncio.CancelledError:
            reset(writer)
            raise
        finally:
            self._tasks.discard(task)


def _make_room(name: str) -> None:
    """Makes the directory of a socket, and removes one of that name."""
    path = Path(name)
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)


async def connected(door: Door, context: ssl.SSLContext) -> Streams:
    """A connection to the node's port, as frames. Raises OSError, EOFError, ValueError, _Refused."""
    async with asyncio.timeout(CONNECT_S):
        reader, writer = await asyncio.open_connection(door.host, door.port, ssl=context, limit=CHUNK)
        try:
            await _ask(door, reader, writer)
        except BaseException:
            reset(writer)
            raise
        return Streams(reader, writer)


async def _ask(door: Door, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Makes sure that it is the agent, and then asks for the port."""
    if fingerprint(writer.get_extra_info("ssl_object").getpeercert(True) or b"") != door.fingerprint:
        raise _Refused("it has another certificate")
    keep_alive(writer)
    query = urlencode({"port": door.node_port, "generation": door.generation})
    head = f"POST {TUNNEL}?{query} HTTP/1.1\r\nHost: agent\r\nAuthorization: Bearer {door.token}\r\n"
    writer.write(f"{head}Content-Length: 0\r\n\r\n".encode("latin-1"))
    answer = await reader.readuntil(b"\r\n\r\n")
    if answer.split(b" ", 2)[1] != b"200":
        raise _Refused(answer.partition(b"\r\n")[0].decode("latin-1"))


class Doors:
    """All doors."""

    def __init__(self) -> None:
        self._opened: dict[str, Opened] = {}
        self._room = asyncio.Semaphore(MOST)
        self._context = pinning_context()

    async def tell(self, told: Told) -> Answer:
        """Does what one line says."""
        if told.close:
            for name in [name for name in self._opened if name.startswith(told.close)]:
                await self._opened.pop(name).close()
        if told.open is not None:
            if (opened := self._opened.get(told.open.name)) is not None:
                opened.door = told.open
                return Answer()
            opened = Opened(told.open, self._room, self._context)
            try:
                await opened.listen()
            except OSError as error:
                return Answer(f"{told.open.name}: {error.strerror or error}")
            self._opened[told.open.name] = opened
        return Answer()


async def main() -> None:
    """Ends with stdin, and with it all connections."""
    doors = Doors()
    reader = asyncio.StreamReader(limit=LINE)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        answer = await doors.tell(_decode_told(line))
        with contextlib.suppress(BrokenPipeError):
            os.write(1, msgspec.json.encode(answer) + b"\n")
    os._exit(0)


if __name__ == "__main__":
    import uvloop

    os.umask(0o077)
    os.chdir(sys.argv[1])  # so that the names of sockets are short
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
