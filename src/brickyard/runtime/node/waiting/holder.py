"""Holds an executor's JVM: `start.py hold-executor DIRECTORY`, a child of the node host.

Spark's worker starts `launcher.py` in Java's place, which connects to DIRECTORY/socket. The first command is the rehearsal: the
holder starts the JVM with the options of that command, and the JVM is that executor, to its end. Then it waits. The next command
is handed to it, if it suits; in any case there is no third one. A line of JSON on standard output tells the node host of each
step.

The JVM is our child, and shares our working directory (CLONE_FS): so it can be changed, which Java cannot do. The JVM dies with
us, we die with the node host, and it is killed when its launcher dies.
"""

from __future__ import annotations

import array
import contextlib
import json
import os
import select
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from ..processes import hide_memory
from . import command
from .child import HoldError, exit_code, spawn
from .command import Command
from .pump import Pump, available, write_all

MAIN = "brickyard.WaitingExecutor"
WAITS = b"brickyard: the executor waits\n"
SOCKET = "socket"
REQUEST_S = 10.0
MAX_REQUEST = 8 << 20
TAIL = 4000
DRAIN_S = 5.0
EARLY_S = 3.0  # a JVM of its own would take longer to start


class Request:
    """A command, as its launcher sent it, and the launcher's connection and output."""

    def __init__(self, link: socket.socket) -> None:
        """Reads it. Raises OSError, ValueError."""
        if not same_user(link):
            raise ValueError("no other user starts executors here")
        self.link, self.came = link, time.monotonic()
        link.settimeout(REQUEST_S)
        size, ancillary, _, _ = link.recvmsg(4, socket.CMSG_SPACE(2 * struct.calcsize("i")), socket.MSG_CMSG_CLOEXEC)
        fds = array.array("i")
        for level, kind, data in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                fds.frombytes(data)
        self.output = list(fds)
        wanted = int.from_bytes(size, "big")
        if len(size) != 4 or len(fds) != 2 or wanted > MAX_REQUEST:
            raise ValueError("this is no request of a launcher")
        text = bytearray()
        while len(text) < wanted:
            piece = link.recv(min(1 << 16, wanted - len(text)))
            if not piece:
                raise ValueError("the request ends early")
            text += piece
        directory, count, *rest = bytes(text).split(b"\0")
        self.directory = os.fsdecode(directory)
        argv, variables = rest[: int(count)], rest[int(count) :]
        pairs = (os.fsdecode(each).partition("=") for each in variables)
        self.command = command.parse([os.fsdecode(each) for each in argv], {key: value for key, _, value in pairs})

    def answer(self, text: str) -> None:
        with contextlib.suppress(OSError):  # the launcher has gone
            self.link.sendall(f"{text}\n".encode())

    def close(self) -> None:
        self.link.close()
        for fd in self.output:
            os.close(fd)
        self.output = []


class Holder:
    """One JVM, from its rehearsal to its end. Single-threaded until the JVM has its executor."""

    def __init__(self, directory: str) -> None:
        os.chdir(directory)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(SOCKET)  # noqa: PTH108 - relative to the working directory, whose path may be long
        self._home = os.open(".", os.O_PATH | os.O_DIRECTORY)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(SOCKET)
        self._listener.listen(4)
        self._listening = True
        woken, waker = os.pipe()
        os.set_blocking(waker, False)
        os.set_blocking(woken, False)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._sources: dict[int, Callable[[], None]] = {
            0: self._node_host,
            woken: self._child,
            self._listener.fileno(): self._accept,
        }
        self._woken = woken
        self._pid = 0
        self._orders = self._stdout = self._stderr = -1
        self._command: Command | None = None  # the rehearsal's
        self._waits = False
        self._rehearsal: Request | None = None
        self._early: Request | None = None  # came before the JVM waited
        self._executor: Request | None = None
        self._said, self._tail = b"", b""
        self._pumps: list[Pump] = []

    def run(self) -> NoReturn:
        """Runs until the JVM has ended, or the node host."""
        tell("open")
        while True:
            poll = select.poll()
            for fd in self._sources:
                poll.register(fd, select.POLLIN)
            waits_for = self._early if not self._waits else None
            events = poll.poll(100 if waits_for is not None else None)
            if waits_for is not None and time.monotonic() > waits_for.came + EARLY_S:
                self._refuse(waits_for, "the waiting JVM was not ready yet")
            for fd, _ in events:
                if fd in self._sources:
                    self._sources[fd]()

    # ── what happens ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _node_host(self) -> None:
        """It says nothing: it has ended, or wants us to."""
        self._end()

    def _child(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._woken, 4096)
        if not self._pid:
            return
        pid, status = os.waitpid(self._pid, os.WNOHANG)
        if not pid:
            return
        code = exit_code(status)
        self._pid = 0
        if self._executor is None:
            self._read_errors()
            lines = [line for line in os.fsdecode(self._tail).splitlines() if line.strip()]
            last = lines[-1] if lines else ""
            why = f"the JVM ended with code {code} before it had an executor. {last}".strip()
            if self._early is not None:
                self._refuse(self._early, why)
            tell("failed", reason=why)
            self._end()
        for pump in self._pumps:
            pump.finish(DRAIN_S)
        self._executor.answer(str(code if code >= 0 else 128 - code))
        tell("ended", code=code)
        self._end()

    def _accept(self) -> None:
        link, _ = self._listener.accept()
        try:
            request = Request(link)
        except (OSError, ValueError):
            link.close()
            return
        if self._command is None:
            self._rehearse(request)
        elif self._waits:
            self._give(request)
        elif self._early is None:
            self._early = request  # the rehearsal is about to end
        else:
            request.answer("cold another executor was first")
            request.close()

    # ── the rehearsal ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _rehearse(self, request: Request) -> None:
        wanted = request.command
        if wanted is None:
            self._refuse(request, command.misfit(Command("", (), (), (), {}, {}), wanted))
        self._command, self._rehearsal = wanted, request
        try:
            self._start(wanted)
            self._order(request, wanted)
        except (OSError, HoldError) as error:
            self._refuse(request, str(error))
        request.answer("taken")
        tell("rehearses", pid=self._pid)
        self._sources[self._stdout] = self._read_marks
        self._sources[self._stderr] = self._read_errors
        request.link.setblocking(False)
        self._sources[request.link.fileno()] = self._rehearsal_launcher

    def _start(self, wanted: Command) -> None:
        """Raises OSError, HoldError."""
        theirs = [os.pipe() for _ in range(3)]
        (orders, self._orders), (self._stdout, out), (self._stderr, err) = theirs
        self._pid = spawn(command.start(wanted, MAIN), wanted.kept, (orders, out, err))
        for fd in (orders, out, err):
            os.close(fd)
        os.set_blocking(self._stdout, False)
        os.set_blocking(self._stderr, False)

    def _order(self, request: Request, wanted: Command) -> None:
        """Tells the JVM which executor to be. Raises OSError."""
        os.chdir(request.directory)  # the JVM's as well
        variables = {**wanted.kept, **wanted.given}
        lists = ([os.getcwd()], wanted.arguments, pairs(variables.items()), pairs(wanted.settings))  # noqa: PTH109 - as text
        write_all(self._orders, b"".join(packed(each) for each in lists))

    def _rehearsal_launcher(self) -> None:
        """Spark's worker tells it to end, or it has ended, since the rehearsal is over. The JVM must not hear that."""
        assert self._rehearsal is not None  # noqa: S101 - it is there while this is called
        with contextlib.suppress(OSError):
            self._rehearsal.link.recv(64)
        self._dismiss()

    def _dismiss(self) -> None:
        """Ends the rehearsal's launcher."""
        if self._rehearsal is not None:
            self._sources.pop(self._rehearsal.link.fileno(), None)
            self._rehearsal.answer("0")
            self._rehearsal.close()
            self._rehearsal = None

    def _read_marks(self) -> None:
        for piece in available(self._stdout):
            self._said = (self._said + piece)[-TAIL:]
        if not self._waits and WAITS in self._said:
            self._waits = True
            os.fchdir(self._home)
            self._dismiss()
            tell("waits", pid=self._pid)
            if self._early is not None:
                self._give(self._early)

    def _read_errors(self) -> None:
        for piece in available(self._stderr):
            self._tail = (self._tail + piece)[-TAIL:]

    # ── the executor ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _give(self, request: Request) -> None:
        assert self._command is not None  # noqa: S101 - there was a rehearsal
        wanted = request.command
        why = command.misfit(self._command, wanted)
        if why or wanted is None:
            self._refuse(request, why)
        for fd in (self._stdout, self._stderr):
            list(available(fd))  # what is left of the rehearsal is nobody's
        try:
            self._order(request, wanted)
        except OSError as error:
            self._refuse(request, f"the waiting JVM cannot take over: {error}")
        request.answer("taken")
        self._close_door()
        self._executor = request
        self._sources = {fd: act for fd, act in self._sources.items() if fd not in (self._stdout, self._stderr)}
        request.link.setblocking(True)
        self._sources[request.link.fileno()] = self._launcher
        self._pumps = [Pump(self._stdout, request.output[0]), Pump(self._stderr, request.output[1])]
        tell("taken", pid=self._pid)

    def _launcher(self) -> None:
        """It passes signals on. When it has ended, so must the JVM."""
        assert self._executor is not None  # noqa: S101 - it is there while this is called
        try:
            numbers = self._executor.link.recv(64)
        except OSError:
            numbers = b""
        if not numbers:
            del self._sources[self._executor.link.fileno()]
        for number in numbers or bytes([signal.SIGKILL]):
            if self._pid:
                os.kill(self._pid, number)

    def _refuse(self, request: Request, why: str) -> NoReturn:
        """The command takes the cold way, and nothing waits any more: what it would wait for has come."""
        self._close_door()
        self._kill()
        tell("cold", reason=why)
        request.answer(f"cold {why}")
        os._exit(0)

    # ── the end ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _close_door(self) -> None:
        if self._listening:
            self._listening = False
            self._sources.pop(self._listener.fileno(), None)
            with contextlib.suppress(OSError):
                os.unlink(SOCKET, dir_fd=self._home)
            self._listener.close()

    def _kill(self) -> None:
        if self._pid:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
            self._pid = 0

    def _end(self) -> NoReturn:
        self._close_door()
        self._kill()
        os._exit(0)


def pairs(values: Iterable[tuple[str, str]]) -> list[str]:
    return [f"{key}={value}" for key, value in values]


def packed(texts: Sequence[str]) -> bytes:
    """Returns texts as WaitingExecutor.java reads them: how many, and each with its length."""
    found = [struct.pack(">i", len(texts))]
    for text in texts:
        data = os.fsencode(text)
        found += [struct.pack(">i", len(data)), data]
    return b"".join(found)


def same_user(link: socket.socket) -> bool:
    _, uid, _ = struct.unpack("3i", link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    return bool(uid == os.getuid())


def tell(event: str, **fields: Any) -> None:
    """Tells the node host."""
    with contextlib.suppress(OSError):  # it is ending
        os.write(1, json.dumps({"event": event, **fields}).encode() + b"\n")


def main() -> NoReturn:
    hide_memory()  # the rehearsal's and the executor's secrets pass through here
    directory = Path(sys.argv[1])
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    Holder(str(directory)).run()
