"""The forwarding process: listens for tcp port mappings and carries their connections to drivers.

It is a process of its own so that bulk data neither waits for the server nor keeps it from its work. Each connection has two
threads that wait in the kernel (`sandbox/relay.py`): a side that takes nothing makes the other one wait, with one buffer between
them.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import threading
import time
from collections import Counter
from collections.abc import Sequence

import msgspec

from brickyard.gateway.forwarding.process import SILENCE_S, Door
from brickyard.gateway.ways import short
from brickyard.machine.listening import CannotListen, bound_alone
from brickyard.sandbox.relay import GIVEN, carry, reset

MOST_OF_A_DOOR = 128  # connections at a time, as many as a node lets in for a port; more wait until one ends
MOST_OF_USER = 500  # of all doors of the clusters of one user, so that none takes all
MOST = 2_000  # of all doors
BACKLOG = 64
CONNECT_S = 12.0  # a node tries two addresses, each for 5 s
STACK = 192 << 10  # bytes, of each thread
PAUSE_S = 0.05  # when no descriptor or thread is free
# Finds out within about two minutes that a client has vanished. Not every system has all three.
_ALIVE = (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4))

_decode = msgspec.json.Decoder(list[Door]).decode


class Opened:
    """A door that is open. Its connections are carried on threads; everything else happens on the main one."""

    def __init__(self, door: Door) -> None:
        """Raises CannotListen."""
        self._door = door
        self.user = door.user
        self._lock = threading.Lock()
        self._ends: set[socket.socket] = set()
        self._closed = False
        self.count = 0  # connections; changed with the forwarder's lock
        self.listener = bound_alone(door.address, door.port)
        self.listener.listen(BACKLOG)
        self.listener.setblocking(False)

    def close(self) -> None:
        """Listens no more, and ends all connections."""
        self.listener.close()
        with self._lock:
            self._closed = True
            for each in self._ends:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)

    def lead(self, client: socket.socket) -> None:
        """Carries a connection until it has ended on both sides."""
        try:
            client.setblocking(True)
            _keep_alive(client)
            inside = self._connected()
        except OSError:
            reset(client)
            return
        with self._lock:
            self._ends |= {client, inside}
            if self._closed:
                client.shutdown(socket.SHUT_RDWR)
        try:
            carry(client, inside)
        finally:
            with self._lock:
                self._ends -= {client, inside}

    def _connected(self) -> socket.socket:
        """A connection to the driver's port."""
        door = self._door
        if not door.way:
            made = socket.create_connection((door.host, door.host_port), timeout=CONNECT_S)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        else:
            made = _given(door.way) or _unix(socket.SOCK_STREAM, door.way)
        made.settimeout(None)
        return made


class Forwarder:
    """All doors that are open."""

    def __init__(self) -> None:
        self._opened: dict[Door, Opened] = {}
        self._count = 0
        self._of_user: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._bell, self._ring = socket.socketpair()  # a connection has ended
        self._bell.setblocking(False)
        self._ring.setblocking(False)

    def tell(self, doors: Sequence[Door]) -> list[str]:
        """Has exactly these doors open. Returns why each is not, or ""."""
        for door in set(self._opened) - set(doors):
            self._opened.pop(door).close()
        return [self._open(door) for door in doors]

    def _open(self, door: Door) -> str:
        if door not in self._opened:
            try:
                self._opened[door] = Opened(door)
            except CannotListen as error:
                return str(error)
            except OSError as error:
                return f"nothing can listen there: {error.strerror}"
        return ""

    def serve(self, control: int, seconds: float) -> None:
        """Takes connections until the control can be read. Raises TimeoutError if it cannot for so long."""
        until = time.monotonic() + seconds
        while True:
            doors = {each.listener.fileno(): each for each in self._opened.values() if self._has_room(each)}
            waiting = select.poll()  # unlike select, for descriptors of any number
            for each in (control, self._bell.fileno(), *doors):
                waiting.register(each, select.POLLIN)
            ready = [each for each, _ in waiting.poll(max(0.0, until - time.monotonic()) * 1000)]
            if control in ready:
                return
            if not ready:
                raise TimeoutError
            with contextlib.suppress(BlockingIOError):
                self._bell.recv(4096)
            for each in ready:
                if each in doors:
                    self._accept(doors[each])

    def _has_room(self, door: Opened) -> bool:
        return door.count < MOST_OF_A_DOOR and self._of_user[door.user] < MOST_OF_USER and self._count < MOST

    def _accept(self, door: Opened) -> None:
        try:
            client = door.listener.accept()[0]
        except (BlockingIOError, ConnectionError):
            return  # it has gone already
        except OSError:
            time.sleep(PAUSE_S)  # no descriptor is free
            return
        self._counted(door, 1)
        try:
            threading.Thread(target=self._lead, args=(door, client), daemon=True).start()
        except RuntimeError:
            reset(client)
            self._counted(door, -1)
            time.sleep(PAUSE_S)

    def _lead(self, door: Opened, client: socket.socket) -> None:
        try:
            door.lead(client)
        except (OSError, RuntimeError):
            reset(client)
        finally:
            self._counted(door, -1)
            with contextlib.suppress(BlockingIOError):  # it rings already
                self._ring.send(b".")

    def _counted(self, door: Opened, change: int) -> None:
        with self._lock:
            door.count += change
            self._count += change
            self._of_user[door.user] += change


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


def main() -> None:
    """Does what the lines of stdin say, until they end or do not come."""
    threading.stack_size(STACK)
    forwarder, read = Forwarder(), b""
    with contextlib.suppress(TimeoutError, BrokenPipeError):
        while True:
            forwarder.serve(0, SILENCE_S)
            if not (more := os.read(0, 1 << 16)):
                break
            *lines, read = (read + more).split(b"\n")
            for line in lines:
                os.write(1, msgspec.json.encode(forwarder.tell(_decode(line))) + b"\n")
    os._exit(0)  # with all threads, and so with all connections


if __name__ == "__main__":
    main()
