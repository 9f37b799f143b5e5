"""Spark's Python workers in a cell: `worker.py MODULE` forks one for each connection that `front.py` hands over.

Its input is the connection to the front. A packet is `work N` or `once N` with Spark's connection, or `kill N`; the answer is
`ended N`. `once`: the connection is good for one task, and Spark knows us already.
"""

from __future__ import annotations

import array
import contextlib
import gc
import os
import select
import signal
import socket
import sys
import traceback
from typing import Any, NoReturn


def main() -> None:
    control = take_control()
    sys.argv[:] = ["pyspark.daemon", sys.argv[1]]  # from where the next import takes the worker's module
    from pyspark import daemon

    Workers(control, daemon).serve()


def take_control() -> socket.socket:
    """Takes the connection out of the reach of what users' code reads as its input."""
    control = socket.socket(fileno=os.dup(0))
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    return control


class Workers:
    """The workers of one cell, by the numbers that the front gives them."""

    def __init__(self, control: socket.socket, daemon: Any) -> None:
        self._control = control
        self._daemon = daemon
        self._running: dict[int, int] = {}  # pid -> number
        self._woken, self._waker = os.pipe()
        for each in (self._woken, self._waker):
            os.set_blocking(each, False)

    def serve(self) -> NoReturn:
        signal.set_wakeup_fd(self._waker, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        poll = select.poll()
        for each in (self._control.fileno(), self._woken):
            poll.register(each, select.POLLIN)
        while True:
            for fd, _ in poll.poll():
                if fd == self._woken:
                    os.read(self._woken, 4096)
                    self._reap()
                else:
                    self._take()

    def _take(self) -> None:
        said, rights, _, _ = self._control.recvmsg(64, socket.CMSG_LEN(4))
        if not said:
            os._exit(0)
        word, number = said.decode().split()
        if word == "kill":
            for pid, each in self._running.items():
                if each == int(number):
                    os.kill(pid, signal.SIGKILL)
            return
        link = socket.socket(fileno=array.array("i", rights[0][2])[0])
        pid = os.fork()
        if pid == 0:
            self._work(link, once=word == "once")
        link.close()
        self._running[pid] = int(number)

    def _work(self, link: socket.socket, *, once: bool) -> NoReturn:
        """Runs in a child: does tasks for Spark until it closes the connection."""
        signal.set_wakeup_fd(-1)
        for each in (self._woken, self._waker):
            os.close(each)
        self._control.close()
        reuse, known = bool(os.environ.get("SPARK_REUSE_WORKER")) and not once, once
        code: Any = 1
        try:
            code = self._daemon.worker(link, known)
            while reuse and not code:
                gc.collect()
                code = self._daemon.worker(link, True)
            with contextlib.suppress(OSError):
                while not once and link.recv(1024):  # until Spark has read all and closes it
                    pass
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1 if code else 0)

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while pid := os.waitpid(-1, os.WNOHANG)[0]:
                number = self._running.pop(pid, None)
                if number is not None:
                    self._control.send(f"ended {number}".encode())
