"""A minimal HTTP/1.1 for agents: a client with one kept connection, and a small server.

A full library would double the agent's memory and triple its start-up time, and every instance has an agent. llhttp (httptools)
does the parsing, the error-prone part; every size and every wait is bounded.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable
from typing import Protocol
from urllib.parse import parse_qs, urlsplit

import httptools
import msgspec

from brickyard.domain.endpoints import Endpoint
from brickyard.domain.nodeops import TUNNEL
from brickyard.machine.frames import CHUNK, Streams, carry, keep_alive
from brickyard.machine.tls import Peer, TlsListener, fingerprint_of, load_pem, server_context

MAX_BODY = 32 << 20
MAX_HEADERS = 64 << 10
MAX_CONNECTIONS = 64
MAX_TLS_CONNECTIONS = 512  # with those of strangers; each tunnelled connection is one
HEAD_TIMEOUT_S = 10.0
IDLE_TIMEOUT_S = 90.0
_CHUNK = 64 << 10
_REASONS = {200: "OK", 202: "Accepted", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found", 405: "Method Not Allowed"}


class HttpError(Exception):
    """No usable message came: the peer is missing, does not speak HTTP, or is not allowed to speak to us (`status`)."""

    def __init__(self, message: str, *, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


class Request(msgspec.Struct, frozen=True, kw_only=True):
    method: str
    path: str
    query: dict[str, str]
    body: bytes
    traceparent: str = ""


class Response(msgspec.Struct, frozen=True):
    status: int
    body: bytes  # JSON


_Parser = httptools.HttpRequestParser | httptools.HttpResponseParser


class _Message:
    """Collects one message from the parser's callbacks."""

    def __init__(self) -> None:
        self.url = b""
        self.headers: dict[bytes, bytes] = {}
        self.body = bytearray()
        self.started = False
        self.complete = False
        self.parser: _Parser | None = None
        self.keep = False  # whether the peer keeps the connection after this message
        self._header_bytes = 0

    @property
    def bearer(self) -> str:
        scheme, _, token = self.headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        return token.strip() if scheme.lower() == "bearer" else ""

    def on_message_begin(self) -> None:
        if self.complete:
            raise HttpError("a second message came before the first was answered")
        self.started = True

    def on_url(self, url: bytes) -> None:
        self._bound(len(url))
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._bound(len(name) + len(value))
        if name.lower() == b"authorization" and b"authorization" in self.headers:
            raise HttpError("two Authorization headers")
        self.headers[name.lower()] = value

    def on_body(self, data: bytes) -> None:
        if len(self.body) + len(data) > MAX_BODY:
            raise HttpError("the body is too large")
        self.body += data

    def on_message_complete(self) -> None:
        self.complete = True
        # Asked now because the parser forgets the message's headers after this call.
        self.keep = self.parser is not None and self.parser.should_keep_alive()

    def _bound(self, size: int) -> None:
        self._header_bytes += size
        if self._header_bytes > MAX_HEADERS:
            raise HttpError("the headers are too large")


async def _read_message(reader: asyncio.StreamReader, message: _Message, parser: _Parser) -> None:
    """Feeds the parser until the message is complete. Raises HttpError, or EOFError if the peer left before it began."""
    message.parser = parser
    while not message.complete:
        data = await reader.read(_CHUNK)
        if not data:
            if message.started:
                raise HttpError("the connection was closed in the middle of a message")
            raise EOFError
        try:
            parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            cause = error.__context__
            raise cause if isinstance(cause, HttpError) else HttpError(f"not HTTP: {error}") from error


# ── client ──────────────────────────────────────────────────────────────────────────────────────────────────────────────────


class Client:
    """Sends requests to one server at a time over one kept connection. Not for concurrent use: make one per loop."""

    def __init__(self, trust: ssl.SSLContext | None = None) -> None:
        """`trust`: for https://; None: what the machine trusts."""
        self._trust = trust
        self._origin = ""
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def request(
        self, method: str, url: str, *, bearer: str, body: bytes = b"", timeout_s: float, may_connect: Callable[[], bool]
    ) -> Response:
        """Makes one exchange. Raises HttpError whenever no answer comes.

        If the server has closed the kept connection meanwhile, it is replaced once: our requests may be repeated. Before every
        new connection `may_connect` says whether the server is still there: its port may be a stranger's now.
        """
        try:
            async with asyncio.timeout(timeout_s):
                kept = await self._connect(url, may_connect)
                try:
                    return await self._exchange(method, url, bearer, body)
                except (EOFError, ConnectionError):
                    if not kept:
                        raise
                    self.close()
                    await self._connect(url, may_connect)
                    return await self._exchange(method, url, bearer, body)
        except (OSError, EOFError, ValueError) as error:  # TimeoutError is an OSError
            self.close()
            raise HttpError(str(error) or type(error).__name__) from error
        except BaseException:
            self.close()  # the rest of this exchange must not be read as the next answer
            raise

    async def _connect(self, url: str, may_connect: Callable[[], bool]) -> bool:
        """Ensures a connection to the URL's origin. Returns True if it is a kept one."""
        parts = urlsplit(url)
        origin = f"{parts.scheme}://{parts.netloc}"
        if self._writer is not None and self._origin == origin and not self._writer.is_closing():
            return True
        self.close()
        if not may_connect():
            raise EOFError("the server's process has ended")
        secure = parts.scheme == "https"
        port = parts.port or (443 if secure else 80)
        trust = (self._trust or True) if secure else None
        self._reader, self._writer = await asyncio.open_connection(parts.hostname, port, ssl=trust, limit=_CHUNK)
        self._origin = origin
        return False

    async def _exchange(self, method: str, url: str, bearer: str, body: bytes) -> Response:
        reader, writer = self._reader, self._writer
        assert reader is not None and writer is not None  # noqa: S101 - `_connect` has set them
        parts = urlsplit(url)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        head = (
            f"{method} {target} HTTP/1.1\r\nHost: {parts.netloc}\r\nAuthorization: Bearer {bearer}\r\n"
            f"Accept: application/json\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        writer.write(head.encode("latin-1") + body)
        await writer.drain()
        message = _Message()
        parser = httptools.HttpResponseParser(message)
        await _read_message(reader, message, parser)
        if not message.keep:
            self.close()
        return Response(parser.get_status_code(), bytes(message.body))

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._reader = self._writer = None


# ── server ──────────────────────────────────────────────────────────────────────────────────────────────────────────────────


class Site(Protocol):
    """What a server serves. An agent's is `link.server.Routes`."""

    def knows(self, token: str) -> bool:
        """Whether a client with this bearer token may ask anything."""
        ...

    async def handle(self, request: Request) -> Response:
        """Serves one request of such a client."""
        ...

    async def tunnel(self, request: Request) -> Streams | Response:
        """Serves a request of TUNNEL: with a connection that the client then has, or an error."""
        ...


class _Asked(_Message):
    """A request. Strangers are rejected before they can make us hold a body."""

    def __init__(self, site: Site, peer: Peer | None) -> None:
        super().__init__()
        self._site = site
        self._peer = peer

    def on_headers_complete(self) -> None:
        if not self._site.knows(self.bearer):
            raise HttpError("a valid token is needed", status=401)
        if self._peer is not None:
            self._peer.known()


class Server:
    """Serves a site on a free port of `host`. `tunnels`: whether it has tunnels."""

    def __init__(self, site: Site, *, host: str, tunnels: bool = False) -> None:
        self._site = site
        self._host = host
        self._tunnels = tunnels
        self._server: asyncio.Server | None = None
        self._listener: TlsListener | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.endpoint = Endpoint("")

    @property
    def url(self) -> str:
        return self.endpoint.url

    async def start(self) -> None:
        self._server = await asyncio.start_server(self.accept, self._host, 0, limit=_CHUNK)
        address = self._server.sockets[0].getsockname()
        self.endpoint = Endpoint(f"http://{address[0]}:{address[1]}")

    def start_tls(self, pem: bytes) -> None:
        """Serves TLS instead, with this key and certificate."""
        context = server_context()
        load_pem(context, pem)
        listening = socket.create_server((self._host, 0), family=socket.AF_INET6 if ":" in self._host else socket.AF_INET)
        self._listener = TlsListener(listening, context, self._met, most=MAX_TLS_CONNECTIONS)
        self._listener.start()
        host, port = self._listener.address
        self.endpoint = Endpoint(f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}", fingerprint_of(pem))

    def _met(self, peer: Peer) -> asyncio.StreamReaderProtocol:
        return _TlsProtocol(peer, self)

    async def stop(self) -> None:
        """Refuses new connections and ends the open ones."""
        if self._server is not None:
            self._server.close()
        if self._listener is not None:
            await self._listener.stop()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, peer: Peer | None = None) -> None:
        """Serves one connection to its end."""
        task = asyncio.current_task()
        if task is None or (peer is None and len(self._tasks) >= MAX_CONNECTIONS):
            writer.close()
            return
        self._tasks.add(task)
        try:
            await self._serve(reader, writer, peer)
        except (OSError, EOFError, asyncio.CancelledError):
            pass  # the client left or was too slow, or we are stopping; nobody needs an answer
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, peer: Peer | None) -> None:
        wait_s = HEAD_TIMEOUT_S
        keep = True
        while keep:
            message = _Asked(self._site, peer)
            parser = httptools.HttpRequestParser(message)
            try:
                async with asyncio.timeout(wait_s):
                    await _read_message(reader, message, parser)
                request = _request(message, parser.get_method().decode())
                keep = message.keep
                if self._tunnels and request.path == TUNNEL:
                    opened = await self._site.tunnel(request)
                    if isinstance(opened, Streams):
                        await _lead(Streams(reader, writer), opened)
                        return
                    response = opened
                else:
                    response = await self._site.handle(request)
            except HttpError as error:
                code = "UNAUTHENTICATED" if error.status == 401 else "INVALID"
                keep, response = False, failure(error.status, code, str(error))
            except ValueError as error:
                keep, response = False, failure(400, "INVALID", str(error))
            await _write(writer, response, keep=keep)
            wait_s = IDLE_TIMEOUT_S


class _TlsProtocol(asyncio.StreamReaderProtocol):
    """One connection, whose peer is told when it is lost."""

    def __init__(self, peer: Peer, server: Server) -> None:
        super().__init__(asyncio.StreamReader(limit=CHUNK), lambda reader, writer: server.accept(reader, writer, peer))
        self._peer = peer

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._peer.gone()


async def _lead(client: Streams, inside: Streams) -> None:
    """Gives the connection to the client, as frames behind the answer's headers."""
    keep_alive(client.writer)
    client.writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nConnection: close\r\n\r\n")
    await carry(client, inside)


def _request(message: _Message, method: str) -> Request:
    url = httptools.parse_url(message.url)
    query = parse_qs((url.query or b"").decode("latin-1"), max_num_fields=20)
    return Request(
        method=method,
        path=url.path.decode("latin-1"),
        query={key: values[-1] for key, values in query.items()},
        body=bytes(message.body),
        traceparent=message.headers.get(b"traceparent", b"").decode("latin-1"),
    )


async def _write(writer: asyncio.StreamWriter, response: Response, *, keep: bool) -> None:
    head = (
        f"HTTP/1.1 {response.status} {_REASONS.get(response.status, 'Error')}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(response.body)}\r\nConnection: {'keep-alive' if keep else 'close'}\r\n\r\n"
    )
    writer.write(head.encode("latin-1") + response.body)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(IDLE_TIMEOUT_S):
            await writer.drain()


def failure(status: int, code: str, message: str) -> Response:
    """Returns a response with the body `{"error": {"code", "message"}}`."""
    return Response(status, msgspec.json.encode({"error": {"code": code, "message": message}}))
