"""The server's port: HTTP or, with the setting `tls`, HTTPS and Spark Connect on one port.

Which of the two a connection is for shows in what its client offers at the beginning of TLS (ALPN). gRPC offers HTTP/2 alone. Who
offers HTTP/1.1, or nothing, gets HTTP/1.1: browsers, Go's clients and curl offer both.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import resource
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec
import uvicorn
from starlette.types import ASGIApp

from brickyard.api.edge.bounded import BoundedHttp
from brickyard.api.edge.serving import serving
from brickyard.config.settings import Settings
from brickyard.machine.clienthello import MOST, Offer, offer
from brickyard.machine.tls import HANDSHAKE_S, Peer, TlsListener

if TYPE_CHECKING:
    from brickyard.gateway.passthrough import Passthrough
    from brickyard.gateway.tls import ServerCertificate

MOST_STRANGERS = 256
_HTTP1, _HTTP2 = b"http/1.1", b"h2"
_PLAIN = "This port speaks TLS. Write https:// instead of http://."
_GOODBYE_S = 0.5  # for a client to get what is left to send, and to say goodbye, when the server stops
_HANG_UP_S = 2.0  # for a client to read why it was refused
_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class WebServer:
    """Serves an application on a socket that is bound and listens."""

    def __init__(
        self,
        application: ASGIApp,
        listening: socket.socket,
        settings: Settings,
        *,
        certificate: ServerCertificate | None = None,
        connect: Passthrough | None = None,
    ) -> None:
        self._listening = listening
        self._config = serving(application, trusted_proxies=settings.trusted_proxies, external=settings.external_origin)
        self._server = uvicorn.Server(self._config)
        self._port: TlsPort | None = None
        if certificate is not None:
            plain = _networks(settings.trusted_proxies)
            self._port = TlsPort(listening, certificate, http=self._http, connect=connect, plain=plain)

    @property
    def started(self) -> bool:
        return self._server.started

    async def run(self) -> None:
        """Serves until `stop`."""
        if self._port is None:
            await self._server._serve(sockets=[self._listening])  # `serve` without its signal handlers
            return
        served = asyncio.create_task(self._server._serve(sockets=[]))
        try:
            while not self._server.started and not served.done():  # noqa: ASYNC110 - uvicorn sets no event
                await asyncio.sleep(0.01)
            self._port.start()
            await asyncio.shield(served)
        finally:
            self._server.should_exit = True
            await self._port.stop()
            await served

    def stop(self) -> None:
        """Ends soon, after what is being answered."""
        self._server.should_exit = True

    def _http(self) -> asyncio.Protocol:
        return _Http(config=self._config, server_state=self._server.server_state, app_state=self._server.lifespan.state)


class _Http(BoundedHttp):
    """A connection of the web server, with or without TLS."""

    def shutdown(self) -> None:
        super().shutdown()
        if self.transport.is_closing():  # it is idle, and its client may not look: TLS would wait for an answer
            self.loop.call_later(_GOODBYE_S, self.transport.abort)


class TlsPort(TlsListener):
    """Accepts connections, and gives each to the web server or to Spark Connect. From then on the web server's own limits hold; a
    connection of Spark Connect is a stranger's until it has shown a token.

    `connect` None: there is no Spark Connect. `plain`: networks of proxies that may use HTTP without TLS, as this machine may.
    """

    def __init__(
        self,
        listening: socket.socket,
        certificate: ServerCertificate,
        *,
        http: Callable[[], asyncio.Protocol],
        connect: Passthrough | None,
        plain: tuple[_Network, ...] = (),
    ) -> None:
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 8  # one of Spark Connect takes three descriptors
        strangers = min(MOST_STRANGERS, most // 2)
        super().__init__(listening, certificate.context, lambda _: http(), most=most, most_strangers=strangers)
        self._http, self._connect, self._plain = http, connect, plain
        self._certificate = certificate

    async def meet(self, connection: socket.socket, peer: Peer) -> None:
        """Finds out what the client speaks, within the time for a handshake."""
        with contextlib.suppress(OSError):  # it has gone, was too slow, or ssl.SSLError: no TLS, or another trust than ours
            async with asyncio.timeout(HANDSHAKE_S):
                offered = await _offered(connection)
            if not offered.tls and not self._may_be_plain(connection):
                await _refuse_plain(connection)
            elif offered.tls and self._connect is not None and _HTTP2 in offered.protocols and _HTTP1 not in offered.protocols:
                await self._connect.carry(connection, peer)
            else:
                await self.serve(connection, peer, self._http, context=self._certificate.context if offered.tls else None)
                peer.gone()

    def _may_be_plain(self, connection: socket.socket) -> bool:
        """Whether nothing of it passes a network: it comes from this machine, or from a proxy that is trusted to encrypt."""
        there, here = (_address(name[0]) for name in (connection.getpeername(), connection.getsockname()))
        return there.is_loopback or there == here or any(there in network for network in self._plain)


async def _offered(connection: socket.socket) -> Offer:
    """What the client offers. Its bytes stay in the socket, for whoever gets the connection. Raises OSError."""
    needed = 1
    while True:
        # It is readable once so much has arrived, or it has ended.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, needed)
        await _readable(connection)
        try:
            data = connection.recv(MOST, socket.MSG_PEEK)
        except BlockingIOError:
            continue
        found = offer(data)
        if isinstance(found, Offer):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
            return found
        if len(data) < needed:
            raise ConnectionResetError("it has ended before it began")
        needed = found.needed


async def _readable(connection: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    arrived = asyncio.Event()
    loop.add_reader(connection, arrived.set)
    try:
        await arrived.wait()
    finally:
        loop.remove_reader(connection)


async def _refuse_plain(connection: socket.socket) -> None:
    """Answers an HTTP client that speaks no TLS. Raises OSError."""
    body = msgspec.json.encode({"error_code": "BAD_REQUEST", "message": _PLAIN})
    head = f"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(_HANG_UP_S):
        await loop.sock_sendall(connection, head.encode() + b"connection: close\r\n\r\n" + body)
        connection.shutdown(socket.SHUT_WR)
        while await loop.sock_recv(connection, MOST):  # what is not read would make the kernel drop the answer
            pass


def _address(text: str) -> _Address:
    """The address; of an IPv4 client of an IPv6 socket, that of IPv4."""
    found = ipaddress.ip_address(text.partition("%")[0])
    return (found.ipv4_mapped or found) if isinstance(found, ipaddress.IPv6Address) else found


def _networks(proxies: str) -> tuple[_Network, ...]:
    return tuple(ipaddress.ip_network(each.strip(), strict=False) for each in proxies.split(",") if each.strip())
