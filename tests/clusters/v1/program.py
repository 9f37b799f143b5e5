"""A program on a driver, as users run them: a web server, and sockets that do what no web server should."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

from aiohttp import WSMsgType, web

from tests.support.patience import PATIENCE_S
from tests.support.ports import free_port

PAGE = "<html><head><title>A program</title></head><body><a href='%s/next'>next</a></body></html>"


class Program:
    """Echoes requests, and keeps what it saw."""

    def __init__(self, base: str = "") -> None:
        self.port = free_port()
        self.base = base  # the path that its links begin with
        self.seen: list[web.Request] = []
        self.taken = 0  # bytes of uploads
        self.more = threading.Event()
        self.sockets = 0  # websockets that are open

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.seen.append(request)
        match request.path.removeprefix(self.base):
            case "/" | "/page":
                coded = {"Content-Encoding": "identity"} if request.query_string else {}  # as TensorBoard says: it is not
                return web.Response(text=PAGE % self.base, content_type="text/html", headers=coded)
            case "/upload":
                async for chunk in request.content.iter_any():
                    self.taken += len(chunk)
                return web.Response(text=str(self.taken))
            case "/away":
                raise web.HTTPFound("http://evil.example.com/steal?x=1")
            case "/deeper":
                raise web.HTTPFound(f"{self.base}/page?a=b")
            case "/walls":
                return web.Response(text="x", headers=_hostile_headers())
            case "/stream" | "/flood" as path:
                return await self._much(request, endless=path == "/stream")
            case "/ws":
                return await self._websocket(request)
        return await self._echo(request)

    async def _much(self, request: web.Request, *, endless: bool) -> web.StreamResponse:
        """Ticks until it is told to stop, or 64 MiB."""
        answer = web.StreamResponse()
        await answer.prepare(request)
        while endless and not self.more.is_set():
            await answer.write(b"tick\n")
            await asyncio.sleep(0.05)
        for _ in range(0 if endless else 1024):
            await answer.write(b"z" * (1 << 16))
        return answer

    async def _echo(self, request: web.Request) -> web.Response:
        text = (await request.read()).decode()
        seen = {"path": request.path_qs, "method": request.method, "headers": dict(request.headers), "body": text}
        return web.json_response(seen)

    async def _websocket(self, request: web.Request) -> web.WebSocketResponse:
        opened = web.WebSocketResponse(protocols=("kernel",), max_msg_size=0)
        await opened.prepare(request)
        self.sockets += 1
        with contextlib.suppress(ConnectionError):
            async for message in opened:
                if message.type is WSMsgType.TEXT and message.data == "huge":
                    await opened.send_bytes(b"z" * (64 << 20))
                elif message.type is WSMsgType.TEXT:
                    await opened.send_str(message.data)
        self.sockets -= 1
        return opened

    @contextlib.contextmanager
    def running(self) -> Iterator[Program]:
        """Runs it until the block ends."""
        loop, started = asyncio.new_event_loop(), threading.Event()

        async def serve() -> None:
            application = web.Application(client_max_size=1 << 30)
            application.router.add_route("*", "/{rest:.*}", self.handle)
            runner = web.AppRunner(application, shutdown_timeout=0.1)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", self.port).start()
            started.set()
            await stop.wait()
            await runner.cleanup()

        stop = asyncio.Event()
        thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
        thread.start()
        assert started.wait(PATIENCE_S)
        try:
            yield self
        finally:
            self.more.set()
            loop.call_soon_threadsafe(stop.set)
            thread.join(PATIENCE_S)
            loop.close()


def _hostile_headers() -> dict[str, str]:
    return {
        "Clear-Site-Data": '"*"',
        "Content-Security-Policy": "default-src *",
        "Access-Control-Allow-Origin": "http://evil.example.com",
        "Access-Control-Allow-Credentials": "true",
        "Strict-Transport-Security": "max-age=1",
        "Service-Worker-Allowed": "/",
        "WWW-Authenticate": "Basic realm=x",
        "X-Accel-Redirect": "/etc/passwd",
        "ETag": '"1"',
    }


@contextlib.contextmanager
def raw(answer: Callable[[Any], None]) -> Iterator[int]:
    """A listener that has `answer` talk on each connection, on a thread of its own. Yields its port."""
    import socket  # noqa: PLC0415 - only here

    port, threads, opened = free_port(), list[threading.Thread](), list[socket.socket]()

    def talk(connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            answer(connection)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection = listener.accept()[0]
                opened.append(connection)
                threads.append(threading.Thread(target=talk, args=(connection,)))
                threads[-1].start()

    with socket.create_server(("127.0.0.1", port)) as listener:
        accepting = threading.Thread(target=accept)
        accepting.start()
        try:
            yield port
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            accepting.join(PATIENCE_S)
            for each in opened:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
            for thread in threads:
                thread.join(PATIENCE_S)
