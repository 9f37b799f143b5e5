"""Accepts and carries connections for a network process. Two threads carry each connection: waiting in the kernel costs
nothing, and no event loop stands between the two sockets. Standard library only, like its neighbour `netproc.py`."""

# ruff: noqa: PTH108 - pathlib costs start-up time, which every node pays
from __future__ import annotations

import contextlib
import errno
import os
import socket
import struct
import threading

TYPE_CHECKING = False  # importing `typing` costs start-up time
if TYPE_CHECKING:
    from collections.abc import Callable

CHUNK = 256 << 10
GIVEN = ".connection"  # after a way into a network: the socket that gives a connection to its port away


def carry(left: socket.socket, right: socket.socket) -> None:
    """Forwards bytes in both directions until both sides have ended."""
    back = threading.Thread(target=one_way, args=(right, left), daemon=True)
    back.start()
    one_way(left, right)
    back.join()
    left.close()
    right.close()


def one_way(source: socket.socket, target: socket.socket) -> None:
    try:
        if not _splice(source, target):
            _copy(source, target)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        for each in (source, target):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


def _copy(source: socket.socket, target: socket.socket) -> None:
    buffer = memoryview(bytearray(CHUNK))
    while count := source.recv_into(buffer):
        target.sendall(buffer[:count])


def _splice(source: socket.socket, target: socket.socket) -> bool:
    """Does the same without copying, where the kernel can. Returns False if it cannot: what it has taken by then is sent on."""
    if not hasattr(os, "splice"):
        return False
    try:
        pipe = os.pipe()
    except OSError:  # no descriptor is free
        return False
    try:
        while (count := _spliced(source.fileno(), pipe[1], CHUNK)) > 0:
            while count > 0:
                moved = _spliced(pipe[0], target.fileno(), count)
                if moved < 0:
                    target.sendall(os.read(pipe[0], count))
                    return False
                count -= moved
        return count == 0
    finally:
        for each in pipe:
            os.close(each)


def _spliced(source: int, target: int, most: int) -> int:
    """How many bytes were moved, 0 at the end; -1 if these two cannot be spliced."""
    try:
        return os.splice(source, target, most)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOSYS, errno.EPERM):
            return -1
        raise


def reset(connection: socket.socket) -> None:
    """Resets a connection: the closest to a refusal once it has been accepted."""
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("=ii", 1, 0))
    connection.close()


def serve(listener: socket.socket, handle: Callable[[socket.socket], None], room: threading.Semaphore) -> None:
    """Handles each connection on its own thread; at the maximum number, the next connection waits."""

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
            except (OSError, RuntimeError):  # the connection is already gone, or no descriptor or thread is free right now
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
