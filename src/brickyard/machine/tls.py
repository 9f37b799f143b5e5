"""TLS between agents and servers on different machines: contexts, and listeners that strangers cannot fill.

A listener accepts by itself, because asyncio's own servers limit neither the number of handshakes nor that of connections which
never say who they are. A connection is a stranger's until its peer is `known`. Of strangers' connections only so many exist; the
next one takes the place of the oldest, once that has had a moment: a thousand agents may come at once when a server starts.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import socket
import ssl
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

MOST_STRANGERS = 64
MOST = 2_048
HANDSHAKE_S = 10.0
MOMENT_S = 0.5  # that a stranger has in any case
_PAUSE_S = 0.05  # when no descriptor is free


class Peer:
    """A connection, from the moment it is accepted. Its protocol tells what becomes of it."""

    def __init__(self, listener: TlsListener) -> None:
        self._listener = listener
        self.since = time.monotonic()
        self.shaking: asyncio.Task[None] | None = None
        self.transport: asyncio.Transport | None = None

    def known(self) -> None:
        """It has shown a valid token."""
        self._listener.strangers.pop(self, None)

    def gone(self) -> None:
        """It is lost."""
        self._listener.strangers.pop(self, None)
        self._listener.peers.discard(self)

    def end(self) -> None:
        self.gone()
        if self.shaking is not None:
            self.shaking.cancel()
        if self.transport is not None:
            self.transport.abort()


class TlsListener:
    """Serves TLS on a socket that is bound and listens. `protocol` makes each connection's protocol, which must call its peer's
    `known` and `gone`."""

    def __init__(
        self,
        listening: socket.socket,
        context: ssl.SSLContext,
        protocol: Callable[[Peer], asyncio.BaseProtocol],
        *,
        most: int = MOST,
        most_strangers: int = MOST_STRANGERS,
    ) -> None:
        listening.setblocking(False)
        self._listening = listening
        self._context = context
        self._protocol = protocol
        self._most = most
        self._most_strangers = most_strangers
        self.peers: set[Peer] = set()
        self.strangers: dict[Peer, None] = {}  # those of them that are not known, the oldest first
        self._accepting: asyncio.Task[None] | None = None

    @property
    def address(self) -> tuple[str, int]:
        host, port = self._listening.getsockname()[:2]
        return str(host), int(port)

    def start(self) -> None:
        self._accepting = asyncio.create_task(self._accept())

    async def stop(self) -> None:
        """Accepts nothing more, and ends the connections of strangers."""
        strangers = list(self.strangers)
        for each in strangers:
            each.end()
        tasks = [task for task in (self._accepting, *(each.shaking for each in strangers)) if task is not None]
        if self._accepting is not None:
            self._accepting.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._listening.close()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(self._listening)
            except OSError:  # the connection has gone already, or no descriptor is free
                await asyncio.sleep(_PAUSE_S)
                continue
            if len(self.peers) >= self._most:
                connection.close()
                continue
            while len(self.strangers) >= self._most_strangers:
                oldest = next(iter(self.strangers))
                if (left_s := oldest.since + MOMENT_S - time.monotonic()) <= 0:
                    oldest.end()
                else:  # others wait in the kernel meanwhile
                    await asyncio.sleep(min(left_s, _PAUSE_S))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            peer = Peer(self)
            self.peers.add(peer)
            self.strangers[peer] = None
            peer.shaking = asyncio.create_task(self.meet(connection, peer))
            peer.shaking.add_done_callback(lambda _, peer=peer, connection=connection: _unless_met(peer, connection))  # type: ignore[misc]

    async def meet(self, connection: socket.socket, peer: Peer) -> None:
        """Shakes hands with a stranger. A connection without a transport is closed afterwards."""
        with contextlib.suppress(OSError):  # ssl.SSLError is one: no TLS, or another trust than ours
            await self.serve(connection, peer, lambda: self._protocol(peer), context=self._context)

    async def serve(
        self,
        connection: socket.socket,
        peer: Peer,
        protocol: Callable[[], asyncio.BaseProtocol],
        *,
        context: ssl.SSLContext | None,
    ) -> None:
        """Gives the connection to a protocol, behind TLS unless `context` is None. Raises OSError."""
        peer.transport, _ = await asyncio.get_running_loop().connect_accepted_socket(
            protocol, connection, ssl=context, ssl_handshake_timeout=HANDSHAKE_S if context is not None else None
        )
        if peer not in self.peers:  # ended meanwhile
            peer.transport.abort()


def _unless_met(peer: Peer, connection: socket.socket) -> None:
    """After a handshake: closes the connection if it did not succeed, or was cancelled before it began."""
    if peer.transport is None:
        peer.gone()
        connection.close()


def server_context() -> ssl.SSLContext:
    """A context without a certificate yet."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    return context


def client_context(ca: str) -> ssl.SSLContext:
    """Trusts what these certificates (PEM) have signed, or without any what the machine trusts; and only for the right host."""
    return ssl.create_default_context(cadata=ca or None)


def pinning_context() -> ssl.SSLContext:
    """For a server of which only the certificate's fingerprint is known. Who uses it must compare `fingerprint` before anything
    is sent."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def fingerprint(der: bytes) -> str:
    return hashlib.sha256(der).hexdigest()


def fingerprint_of(pem: bytes) -> str:
    """That of the certificate in a PEM text."""
    text = pem.decode()
    begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    return fingerprint(ssl.PEM_cert_to_DER_cert(begin + text.partition(begin)[2].partition(end)[0] + end))


def load_pem(context: ssl.SSLContext, pem: bytes, *, password: Callable[[], str] | None = None) -> None:
    """Gives the context a private key and its certificate. `ssl` reads only files: it gets one in memory, if there are such.
    `password` is called if the key has a passphrase."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("certificate", os.MFD_CLOEXEC)
        try:
            os.write(fd, pem)
            context.load_cert_chain(f"/proc/self/fd/{fd}", password=password)
        finally:
            os.close(fd)
        return
    fd, name = tempfile.mkstemp()  # only we can read it
    try:
        os.write(fd, pem)
        context.load_cert_chain(name, password=password)
    finally:
        os.close(fd)
        with contextlib.suppress(OSError):
            Path(name).unlink()
