"""The carrier process: `python -m brickyard.nodes.carrier DIRECTORY SILENCE_S` has open what the last line of stdin says
(`routes.py`), until there are no more lines, or none for so long."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
import threading
import weakref
from collections.abc import Sequence
from pathlib import Path

import msgspec

from brickyard.domain.sources import HERE, Admission, SourceRules, source_of
from brickyard.machine.listening import CannotListen, bound_alone
from brickyard.machine.tls import pinning_context
from brickyard.nodes.carrier.routes import LINE, NodePort, Route, Socket, Tcp, Told
from brickyard.nodes.carrier.sockets import carry_on_threads
from brickyard.nodes.carrier.tls import carry_to_node

MOST_OF_ROUTE = 128  # connections at a time, as many as a node lets in for a port; more wait until one ends
MOST_OF_USER = 500  # of all routes of one user, so that none takes all
MOST = 2_000  # of all routes
BACKLOG = 512
STACK = 192 << 10  # bytes, of each thread
PAUSE_S = 0.05  # when no descriptor is free

_decode = msgspec.json.Decoder(Told).decode
Room = contextlib.AbstractAsyncContextManager[None]


class Opened:
    """A route that is open."""

    def __init__(self, route: Route, routes: Routes) -> None:
        """Raises CannotListen and OSError."""
        self.route = route
        self._routes = routes
        self._room = asyncio.Semaphore(MOST_OF_ROUTE)
        self._room_of_user = routes.room_of(route.user)
        self._listening = _listening(route.listener)
        self._sources: dict[asyncio.Task[None], str] = {}  # of connections to a port of an address
        self._tasks = {asyncio.create_task(self._accept())}

    async def close(self) -> None:
        """Listens no more, and breaks all connections."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._listening.close()
        if isinstance(self.route.listener, Socket):
            _remove(self.route.listener)

    def end_refused(self) -> None:
        """Breaks the connections from sources that are no longer let in."""
        for task in [task for task, source in self._sources.items() if not self._routes.sources.admits(source)]:
            task.cancel()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, peer = await loop.sock_accept(self._listening)
            except OSError:  # it has gone already, or no descriptor is free
                await asyncio.sleep(PAUSE_S)
                continue
            listener = self.route.listener
            source = source_of(peer[0], own_address=listener.host) if isinstance(listener, Tcp) else HERE
            if not self._routes.sources.admits(source):
                connection.close()
                continue
            admitted = asyncio.Event()
            task = asyncio.create_task(self._serve(connection, admitted))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            self._sources[task] = source
            task.add_done_callback(self._sources.pop)
            await admitted.wait()  # the others wait in the kernel

    async def _serve(self, connection: socket.socket, admitted: asyncio.Event) -> None:
        try:
            async with self._room, self._room_of_user, self._routes.room:
                admitted.set()
                await self._carry(connection, self.route.target)
        except (OSError, EOFError, ValueError):
            pass  # it has been reset
        finally:
            if not admitted.is_set():
                connection.close()
                admitted.set()

    async def _carry(self, connection: socket.socket, target: Tcp | Socket | NodePort) -> None:
        if isinstance(target, NodePort):
            await carry_to_node(connection, target, self._routes.context)
        else:
            await carry_on_threads(connection, target)


class Routes:
    """All routes that are open."""

    def __init__(self) -> None:
        self._opened: dict[Tcp | Socket, Opened] = {}
        self.room = asyncio.Semaphore(MOST)
        self._of_users = weakref.WeakValueDictionary[str, asyncio.Semaphore]()
        self.context = pinning_context()
        self.sources = Admission(None)

    async def tell(self, routes: Sequence[Route], sources: SourceRules | None = None) -> list[str]:
        """Has exactly these routes open, those of addresses for these sources. Returns why each is not, or ""."""
        if sources != self.sources.rules:
            self.sources = Admission(sources)
            for opened in self._opened.values():
                opened.end_refused()
        wanted = {each.listener: each for each in routes}
        for listener, opened in list(self._opened.items()):
            # Who uses a way to a node keeps it when that has moved. A tcp mapping that leads elsewhere is another one.
            if listener not in wanted or (isinstance(listener, Tcp) and opened.route != wanted[listener]):
                await self._opened.pop(listener).close()
        return [self._open(route) for route in routes]

    def room_of(self, user: str) -> Room:
        """For a user's connections."""
        if not user:
            return contextlib.nullcontext()
        return self._of_users.setdefault(user, asyncio.Semaphore(MOST_OF_USER))

    def _open(self, route: Route) -> str:
        if (opened := self._opened.get(route.listener)) is not None:
            opened.route = route
            return ""
        try:
            self._opened[route.listener] = Opened(route, self)
        except CannotListen as error:
            return str(error)
        except OSError as error:
            return f"nothing can listen there: {error.strerror or error}"
        return ""


def _listening(at: Tcp | Socket) -> socket.socket:
    if isinstance(at, Tcp):
        made = bound_alone(at.host, at.port)
    else:
        Path(at.path).parent.mkdir(exist_ok=True)
        _remove(at)
        made = socket.socket(socket.AF_UNIX)
        made.bind(at.path)
    made.listen(BACKLOG)
    made.setblocking(False)
    return made


def _remove(at: Socket) -> None:
    Path(at.path).unlink(missing_ok=True)


async def main(silence_s: float) -> None:
    """Ends with stdin, and with it all connections."""
    routes = Routes()
    reader = asyncio.StreamReader(limit=LINE)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    with contextlib.suppress(TimeoutError, BrokenPipeError):
        while True:
            async with asyncio.timeout(silence_s or None):
                line = await reader.readline()
            if not line:
                break
            told = _decode(line)
            os.write(1, msgspec.json.encode(await routes.tell(told.routes, told.sources)) + b"\n")
    os._exit(0)  # with all threads


if __name__ == "__main__":
    import uvloop

    os.umask(0o077)
    os.chdir(sys.argv[1])  # so that the names of sockets are short
    threading.stack_size(STACK)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main(float(sys.argv[2])))
