"""Leads connections of Spark Connect clients from the server's TLS port to the gateway (TLS passthrough).

gRPC takes no open connection from others, so each is carried to a port of the gateway on loopback, as the bytes that it is: gRPC
ends the TLS. To gRPC the client is this process; the gateway finds the client's own address here, by the address and port that
the connection to gRPC has on this side.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
from collections import Counter
from typing import NamedTuple

from brickyard.domain.errors import TemporarilyUnavailable
from brickyard.gateway.connect import address_in
from brickyard.machine.tls import Peer
from brickyard.plan.attach import Client

CLOSE_S = 10.0  # for what is still to be sent to one side when the other has ended
MOST_OF_ADDRESS = 256  # connections of one address: a program has one, and its sessions share it
_BUFFER = 256 << 10


class _Client(NamedTuple):
    address: str
    peer: Peer


class Passthrough:
    """One per server. `port`: the gateway's, on loopback."""

    kind = Client.NOTEBOOKS  # its connections are Spark Connect clients'
    port = 0

    def __init__(self) -> None:
        self._clients: dict[tuple[str, int], _Client] = {}  # by this side of a connection to gRPC
        self._held: Counter[str] = Counter()  # connections of each address

    def address(self, peer: str) -> str:
        """The client's address. Raises TemporarilyUnavailable."""
        return self._client(peer).address

    def known(self, peer: str) -> None:
        """The client has shown a valid token."""
        self._client(peer).peer.known()

    def _client(self, peer: str) -> _Client:
        client = self._clients.get(address_in(peer))
        if client is None:  # it has gone, or has never come through the server's port
            raise TemporarilyUnavailable("The client has closed the connection.")
        return client

    async def carry(self, connection: socket.socket, peer: Peer) -> None:
        """Begins to carry the connection, which ends with either side. Raises OSError, also if the address has too many."""
        address = str(connection.getpeername()[0])
        if self._held[address] >= MOST_OF_ADDRESS:
            raise ConnectionRefusedError(address)
        outside, inside = _End(), _End()
        outside.other, inside.other = inside, outside
        own = await self._connected(inside)
        self._clients[own] = _Client(address, peer)  # before gRPC has a byte of it
        self._held[address] += 1

        def ended(_: asyncio.Future[None]) -> None:
            del self._clients[own]
            self._held[address] -= 1
            if not self._held[address]:
                del self._held[address]

        inside.lost.add_done_callback(ended)
        outside.lost.add_done_callback(lambda _: peer.gone())
        try:
            peer.transport, _ = await asyncio.get_running_loop().connect_accepted_socket(lambda: outside, connection)
        except BaseException:
            inside.close()
            raise
        if inside.lost.done():
            outside.close()

    async def _connected(self, end: _End) -> tuple[str, int]:
        """Connects an end to gRPC, and returns its name there. Raises OSError."""
        loop = asyncio.get_running_loop()
        made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            made.setblocking(False)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with contextlib.suppress(OSError):  # not every system has more than 127.0.0.1
                # No other connection has this name soon, so that a call of one that has ended is nobody else's.
                made.bind((f"127.{random.randint(64, 127)}.{random.randint(0, 255)}.{random.randint(1, 254)}", 0))  # noqa: S311 - no secret
            await loop.sock_connect(made, ("127.0.0.1", self.port))
            host, port = made.getsockname()
            await loop.connect_accepted_socket(lambda: end, made)
        except BaseException:
            if end.transport is None:
                made.close()
            else:
                end.close()
            raise
        return host, port


class _End(asyncio.Protocol):
    """One end of a carried connection. It reads no faster than the other end writes."""

    other: _End
    transport: asyncio.Transport | None = None

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.lost: asyncio.Future[None] = self._loop.create_future()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # that is what TCP has
        self.transport = transport
        transport.set_write_buffer_limits(high=_BUFFER)

    def data_received(self, data: bytes) -> None:
        if (target := self.other.transport) is not None:
            target.write(data)

    def pause_writing(self) -> None:
        source = self.other.transport
        if source is not None and not source.is_closing():
            source.pause_reading()

    def resume_writing(self) -> None:
        source = self.other.transport
        if source is not None and not source.is_closing():
            source.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set_result(None)
        self.other.close()

    def close(self) -> None:
        """Ends once what has been written is sent, or could have been."""
        if self.transport is not None and not self.lost.done():
            self.transport.close()
            self._loop.call_later(CLOSE_S, self.transport.abort)
