"""Connections to ports of nodes on other machines: TLS to the node's agent, then frames (`machine/frames.py`)."""

from __future__ import annotations

import asyncio
import socket
import ssl
from urllib.parse import urlencode

from brickyard.domain.nodeops import TUNNEL
from brickyard.machine.frames import CHUNK, Streams, carry, keep_alive, reset
from brickyard.machine.tls import fingerprint
from brickyard.nodes.carrier.routes import NodePort

CONNECT_S = 15.0  # the agent tries two addresses, each for 5 s


class Refused(ConnectionError):
    """The agent has another certificate, or did not open the port."""


async def carry_to_node(connection: socket.socket, target: NodePort, context: ssl.SSLContext) -> None:
    """Carries a connection until it has ended on both sides, and closes it. Raises as `connected`, after which it is reset."""
    client = await _streams(connection)
    try:
        node = await connected(target, context)
    except BaseException:
        reset(client.writer)
        raise
    await carry(node, client)


async def connected(target: NodePort, context: ssl.SSLContext) -> Streams:
    """A connection to the node's port, as frames. Raises OSError, EOFError and ValueError."""
    async with asyncio.timeout(CONNECT_S):
        reader, writer = await asyncio.open_connection(target.host, target.port, ssl=context, limit=CHUNK)
        try:
            await _ask(target, reader, writer)
        except BaseException:
            reset(writer)
            raise
        return Streams(reader, writer)


async def _ask(target: NodePort, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Makes sure that it is the agent, and then asks for the port."""
    if fingerprint(writer.get_extra_info("ssl_object").getpeercert(True) or b"") != target.fingerprint:
        raise Refused("it has another certificate")
    keep_alive(writer)
    query = urlencode({"port": target.node_port, "generation": target.generation})
    head = f"POST {TUNNEL}?{query} HTTP/1.1\r\nHost: agent\r\nAuthorization: Bearer {target.token}\r\n"
    writer.write(f"{head}Content-Length: 0\r\n\r\n".encode("latin-1"))
    answer = await reader.readuntil(b"\r\n\r\n")
    if answer.split(b" ", 2)[1] != b"200":
        raise Refused(answer.partition(b"\r\n")[0].decode("latin-1"))


async def _streams(connection: socket.socket) -> Streams:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=CHUNK, loop=loop)
    protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
    transport, _ = await loop.connect_accepted_socket(lambda: protocol, connection)
    return Streams(reader, asyncio.StreamWriter(transport, protocol, reader, loop))
