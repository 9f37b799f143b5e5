"""Connections that a network process accepts and carries. Two threads carry each one: waiting in the kernel costs nothing, and no
event loop stands between two sockets. Standard library only, as `netproc.py`, whose neighbour it is.
"""

# ruff: noqa: PTH108 - pathlib costs start-up time, which every node pays
from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading

TYPE_CHECKING = False  # typing's own costs an import of `typing`
if TYPE_CHECKING:
    from collections.abc import Callable

CHUNK = 128 << 10


def carry(left: socket.socket, right: socket.socket) -> None:
    """Pass bytes on, both ways, until both sides have ended."""
    back = threading.Thread(target=one_way, args=(right, left), daemon=True)
    back.start()
    one_way(left, right)
    back.join()
    left.close()
    right.close()


def one_way(source: socket.socket, target: socket.socket) -> None:
    buffer = memoryview(bytearray(CHUNK))
    try:
        while count := source.recv_into(buffer):
            target.sendall(buffer[:count])
        target.shutdown(socket.SHUT_WR)
    except OSError:
        for each in (source, target):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


def reset(connection: socket.socket) -> None:
    """The nearest to a refusal that is left once a connection is accepted."""
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("=ii", 1, 0))
    connection.close()


def serve(listener: socket.socket, handle: Callable[[socket.socket], None], room: threading.Semaphore) -> None:
    """Handle each connection on a thread of its own; when there are as many as there may be, the next one waits."""

    def handled(connection: socket.socket) -> None:
        try:
            handle(connection)
        except (OSError, RuntimeError):
            connection.close()
        finally:
            room.release()

    def loop() -> None:
        while True:
            room.acquire()
            try:
                connection = listener.accept()[0]
                threading.Thread(target=handled, args=(connection,), daemon=True).start()
            except (OSError, RuntimeError):  # it was gone again, or there is no descriptor or thread left just now
                room.release()
                threading.Event().wait(0.05)

    threading.Thread(target=loop, daemon=True).start()


def unix_listener(name: str, kind: int) -> socket.socket:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name)
    listener = socket.socket(socket.AF_UNIX, kind)
    listener.bind(name)
    listener.listen(64)
    return listener
