"""Carries a connection between two sockets on two threads that wait in the kernel (`sandbox/relay.py`): a side that takes nothing
makes the other one wait, with one buffer between them, and no event loop stands in between."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading

from brickyard.nodes.carrier.routes import Socket, Tcp
from brickyard.nodes.ways import short
from brickyard.sandbox.relay import GIVEN, carry, reset

CONNECT_S = 12.0  # a node tries two addresses, each for 5 s
# Finds out within about two minutes that a client has vanished. Not every system has all three.
_ALIVE = (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4))


async def carry_on_threads(client: socket.socket, target: Tcp | Socket) -> None:
    """Carries a connection until it has ended on both sides, and closes it. If cancelled, ends it. Raises OSError if no
    thread is free."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    connection = _Connection(client, target)

    def run() -> None:
        connection.run()
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
            loop.call_soon_threadsafe(ended.set)

    try:
        threading.Thread(target=run, daemon=True).start()
    except RuntimeError as error:
        reset(client)
        raise OSError("no thread is free") from error
    try:
        await ended.wait()
    finally:
        connection.end()


class _Connection:
    def __init__(self, client: socket.socket, target: Tcp | Socket) -> None:
        self._target = target
        self._lock = threading.Lock()
        self._ends = [client]
        self._ended = False

    def run(self) -> None:
        """On a thread of its own."""
        (client,) = self._ends
        try:
            client.setblocking(True)
            if client.family != socket.AF_UNIX:
                _keep_alive(client)
            inside = _connected(self._target)
            with self._lock:
                self._ends.append(inside)
                if self._ended:
                    client.shutdown(socket.SHUT_RDWR)
            carry(client, inside)
        except (OSError, RuntimeError):  # nobody listens there, or no thread is free
            for each in self._ends:
                reset(each)

    def end(self) -> None:
        """Breaks it off."""
        with self._lock:
            self._ended = True
            for each in self._ends:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)


def _connected(target: Tcp | Socket) -> socket.socket:
    if isinstance(target, Socket):
        made = _given(target.path) or _unix(socket.SOCK_STREAM, target.path)
    else:
        made = socket.create_connection((target.host, target.port), timeout=CONNECT_S)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    made.settimeout(None)
    return made


def _given(way: str) -> socket.socket | None:
    """A connection inside the node's network, which its network process has made and does not carry. None if the node is of a
    version that gives none away. Raises OSError if nobody listens there."""
    try:
        asking = _unix(socket.SOCK_SEQPACKET, f"{way}{GIVEN}")
    except (FileNotFoundError, ConnectionRefusedError):
        return None
    with asking:
        found = socket.recv_fds(asking, 64, 1)[1]
    if not found:
        raise ConnectionRefusedError(way)
    return socket.socket(fileno=found[0])


def _unix(kind: int, name: str) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, kind)
    try:
        made.settimeout(CONNECT_S)
        made.connect(short(name))
    except OSError:
        made.close()
        raise
    return made


def _keep_alive(client: socket.socket) -> None:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for name, value in _ALIVE:
        if hasattr(socket, name):
            client.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
