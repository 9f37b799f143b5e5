"""A program that talks over TCP, and what its clients measure: throughput both ways, round trips, new connections."""

from __future__ import annotations

import contextlib
import socket
import statistics
from collections.abc import Callable, Iterator

from bench._harness import timed

AMOUNT, TRIPS, CONNECTIONS = 512 << 20, 2_000, 200
# Its first byte says what a connection is for: to give back what comes, to take it all, or to send.
_PROGRAM = """
import socket, threading
def talk(c):
    c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    kind, buffer = c.recv(1), bytearray(1 << 18)
    if kind == b"e":
        while data := c.recv(64):
            c.sendall(data)
    elif kind == b"t":
        count = 0
        while more := c.recv_into(buffer):
            count += more
        c.sendall(b"%d" % count)
    else:
        for _ in range({amount} // len(buffer)):
            c.sendall(buffer)
    c.close()
def accept():
    while True:
        threading.Thread(target=talk, args=(server.accept()[0],), daemon=True).start()
server = socket.create_server(({host!r}, {port}))
"""
Connect = Callable[[], socket.socket]


def program(host: str, port: int) -> str:
    """Its source, up to `accept()`, which never ends."""
    return _PROGRAM.format(amount=AMOUNT, host=host, port=port)


@contextlib.contextmanager
def _connected(connect: Connect, kind: bytes) -> Iterator[socket.socket]:
    with connect() as made:
        if made.family == socket.AF_INET:
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        made.sendall(kind)
        yield made


def sent(connect: Connect) -> float:
    """MiB/s until the program says that it has everything."""
    buffer = bytearray(1 << 18)

    def send() -> None:
        for _ in range(AMOUNT // len(buffer)):
            made.sendall(buffer)
        made.shutdown(socket.SHUT_WR)
        assert made.recv(64) == b"%d" % AMOUNT

    with _connected(connect, b"t") as made:
        return AMOUNT / 2**20 / timed(send)


def received(connect: Connect) -> float:
    """MiB/s of what the program sends."""
    buffer = bytearray(1 << 18)

    def receive() -> None:
        count = 0
        while more := made.recv_into(buffer):
            count += more
        assert count == AMOUNT

    with _connected(connect, b"s") as made:
        return AMOUNT / 2**20 / timed(receive)


def trip(connect: Connect) -> float:
    """Milliseconds of a small message and its answer, the median of many."""

    def once() -> None:
        made.sendall(b"x")
        made.recv(64)

    with _connected(connect, b"e") as made:
        return 1000 * statistics.median(timed(once) for _ in range(TRIPS))


def opening(connect: Connect) -> float:
    """Milliseconds until the first byte has come back over a new connection, the median of many."""

    def once() -> None:
        with connect() as made:
            made.sendall(b"ex")
            made.recv(1)

    return 1000 * statistics.median(timed(once) for _ in range(CONNECTIONS))
