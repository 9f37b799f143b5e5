"""Stands in for Python where Spark starts Python workers: `front.py NODE_DIR -m DAEMON WORKER`, or `-m WORKER` for one worker.

It behaves as `pyspark.daemon` does, or as a single worker, but users' code runs in a cell: each connection of Spark's is handed
over to `worker.py` there. Spark wants a pid that its JVM sees, and no process of the cell has one: a stand-in beside us
has one, which lives as long as the worker. The cell ends when this process does.

What comes from the cell may be users' own: a hostile cell can disturb only itself. This program runs alone and imports as little
as possible, because Spark waits for it, so it knows nothing of the package.
"""

from __future__ import annotations

import array
import json
import os
import select
import signal
import socket
import struct
import sys

TYPE_CHECKING = False  # importing `typing` would take time
if TYPE_CHECKING:
    from typing import NoReturn

SOCKET = "python-workers"  # in the node's `conf`; `door.py` listens there
SESSION, NO_SESSION = "SPARK_JOB_ARTIFACT_UUID", "default"
PORT, SECRET = "PYTHON_WORKER_FACTORY_PORT", "PYTHON_WORKER_FACTORY_SECRET"
IDLE_S = 120.0  # without a worker: Spark keeps its daemon when a session has ended, and starts it again when it needs one
LOOK_S = 5.0  # between looks whether Spark, which started us for a single worker, is still there


def main() -> None:
    node_dir, *arguments = sys.argv[1:]
    if arguments[:1] == ["-c"]:  # Spark asks for Python's version
        os.execv(sys.executable, [sys.executable, "-I", "-S", *arguments])  # noqa: S606 - deliberately without a shell
    if arguments[:1] != ["-m"] or len(arguments) not in (2, 3):
        sys.exit(f"{sys.argv[0]} only starts Spark's Python workers")
    try:
        door, control = open_cell(node_dir, module=arguments[-1])
    except OSError as error:
        sys.exit(f"This cluster keeps its users apart, and this node has no cell for Python: {error}")
    front = Front(door, control)
    if len(arguments) == 2:
        front.serve_one(int(os.environ[PORT]), os.environ[SECRET])
    front.serve()


def open_cell(node_dir: str, *, module: str) -> tuple[socket.socket, socket.socket]:
    """Returns the connection that the cell lives as long as, and ours to the program in it. Raises OSError."""
    control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    place = os.open(f"{node_dir}/conf", os.O_PATH | os.O_DIRECTORY)  # the path of a socket may have no more than 107 bytes
    door.connect(f"/proc/self/fd/{place}/{SOCKET}")
    os.close(place)
    files = os.getcwd() if os.environ.get(SESSION, NO_SESSION) != NO_SESSION else ""  # noqa: PTH109 - as above: time
    request = {"module": module, "files": files, "env": environment(dict(os.environ))}
    hand_over(door, json.dumps(request).encode(), theirs.fileno(), 2)
    theirs.close()
    return door, control


def environment(own: dict[str, str]) -> dict[str, str]:
    """Returns the variables for the cell: without those from which Spark's own processes take secrets."""
    return {name: value for name, value in own.items() if not name.startswith(("_", "SPARK_AUTH_SECRET", "PYSPARK_GATEWAY_"))}


def hand_over(link: socket.socket, message: bytes, *fds: int) -> None:
    link.sendmsg([message], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else [])


class Front:
    """The workers of one cell."""

    def __init__(self, door: socket.socket, control: socket.socket) -> None:
        self._door = door
        self._control = control
        self._last = 0
        self._lives: dict[int, tuple[int, int, socket.socket]] = {}  # by descriptor: worker's number, stand-in's pid, its life
        self._poll = select.poll()
        for link in (door, control):
            self._poll.register(link, select.POLLIN)

    def serve(self) -> NoReturn:
        """Forks workers for Spark, which connects for each, until it closes our input or needs none any more."""
        listener = listen()
        os.write(1, struct.pack("!i", listener.getsockname()[1]))
        for each in (listener.fileno(), 0):
            self._poll.register(each, select.POLLIN)
        while True:
            found = self._poll.poll(None if self._lives else IDLE_S * 1000)
            if not found:
                sys.exit(0)
            for fd, _ in found:
                if fd == 0:
                    self._stop(os.read(0, 4))
                elif fd == listener.fileno():
                    self._begin(listener.accept()[0])
                elif fd in self._lives:
                    self._end(fd)
                else:
                    self._hear(fd)

    def serve_one(self, port: int, secret: str) -> NoReturn:
        """Connects one worker to Spark. Spark ends it by ending us."""
        parent, link = os.getppid(), connect(port, secret)
        link.sendall(struct.pack("!i", os.getpid()))
        hand_over(self._control, b"once 0", link.fileno())
        link.close()
        while os.getppid() == parent and not self._poll.poll(LOOK_S * 1000):  # nothing but the end comes
            pass
        sys.exit(0)

    def _begin(self, link: socket.socket) -> None:
        self._last += 1
        ours, life = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            stand_in(life)
        life.close()
        self._lives[ours.fileno()] = (self._last, pid, ours)
        self._poll.register(ours, select.POLLIN)
        try:
            link.sendall(struct.pack("!i", pid))
            hand_over(self._control, f"work {self._last}".encode(), link.fileno())
        except OSError:  # Spark, or the cell, has gone
            os.kill(pid, signal.SIGKILL)
        link.close()

    def _stop(self, said: bytes) -> None:
        """Spark ends a worker by its pid, or all of them."""
        if len(said) < 4:
            sys.exit(0)
        (pid,) = struct.unpack("!i", said)
        if any(pid == each for _, each, _ in self._lives.values()):
            os.kill(pid, signal.SIGKILL)

    def _end(self, fd: int) -> None:
        """A stand-in has ended, and its worker ends with it."""
        number, pid, life = self._lives.pop(fd)
        self._poll.unregister(fd)
        life.close()
        os.waitpid(pid, 0)
        try:
            hand_over(self._control, f"kill {number}".encode())
        except OSError:  # the cell has ended
            sys.exit(1)

    def _hear(self, fd: int) -> None:
        """A worker has ended, and its stand-in ends with it; or all of the cell has."""
        try:
            said = self._control.recv(64) if fd == self._control.fileno() else b""
        except OSError:  # it has ended before it had read all
            said = b""
        if not said:
            sys.exit(1)
        for number, pid, _ in self._lives.values():
            if said == f"ended {number}".encode():
                os.kill(pid, signal.SIGKILL)


def stand_in(life: socket.socket) -> NoReturn:
    """Runs in a child: holds nothing of ours open, and ends when we do."""
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - as above: time
        if int(name) != life.fileno():
            try:
                os.close(int(name))
            except OSError:  # the one with which this list was read
                continue
    life.recv(1)
    os._exit(0)


def loopback() -> str:
    """Returns the address at which Spark and its Python workers meet."""
    return "::1" if os.environ.get("SPARK_PREFER_IPV6", "false").lower() == "true" else "127.0.0.1"


def listen() -> socket.socket:
    host = loopback()
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    listener.bind((host, 0))
    listener.listen(1024)
    return listener


def connect(port: int, secret: str) -> socket.socket:
    """Returns a connection to Spark, which knows us by the secret."""
    link = socket.create_connection((loopback(), port))
    link.sendall(struct.pack("!i", len(secret)) + secret.encode())
    reader = link.makefile("rb", buffering=0)
    (size,) = struct.unpack("!i", reader.read(4))
    if reader.read(size) != b"ok":
        sys.exit("Spark has refused its Python worker")
    return link


if __name__ == "__main__":
    main()
