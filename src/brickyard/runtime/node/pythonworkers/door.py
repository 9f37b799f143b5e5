"""Gives Spark's Python workers their cells: `front.py`, beside a JVM of this node, asks for one and keeps it by its connection.

Whoever reaches the socket gets no more than a Python in a cell. Only the node host's own cell sees it.
"""

from __future__ import annotations

import array
import contextlib
import json
import os
import shutil
import socket
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..contexts.process import MAX_REQUEST, Cells, KernelDirectories, Process
from ..protocol import Log
from .front import SOCKET

START = Path(__file__).parent.parent / "start.py"


class Door:
    """Listens until the node host ends."""

    def __init__(self, cells: Cells, *, python: str, node_dir: Path, log: Log) -> None:
        """`python`: the interpreter for users' code."""
        self._cells = cells
        self._python = python
        self._node_dir = node_dir
        self._log = log

    def open(self) -> None:
        """Raises OSError."""
        directory = self._node_dir / "conf"
        directory.mkdir(mode=0o700, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            (directory / SOCKET).unlink()
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        place = os.open(str(directory), os.O_PATH | os.O_DIRECTORY)  # the path of a socket may have no more than 107 bytes
        listener.bind(f"/proc/self/fd/{place}/{SOCKET}")
        os.close(place)
        listener.listen(64)
        threading.Thread(target=self._listen, args=(listener,), name="python-workers", daemon=True).start()

    def _listen(self, listener: socket.socket) -> None:
        while True:
            link, _ = listener.accept()
            threading.Thread(target=self._serve, args=(link,), name="python-cell", daemon=True).start()

    def _serve(self, link: socket.socket) -> None:
        """Runs a cell for as long as its front holds the connection."""
        fds: list[int] = []
        root: Path | None = None
        try:
            data, rights, _, _ = link.recvmsg(MAX_REQUEST, socket.CMSG_LEN(8))
            for _, _, each in rights:
                fds += array.array("i", each)
            if not data:
                return
            directories = self._cells.directories(self._node_dir)
            root = directories.root
            process = self._start(json.loads(data), directories, fds)
            for fd in fds:
                os.close(fd)
            fds = []
            threading.Thread(target=tell_end, args=(process, link), name="python-cell-end", daemon=True).start()
            link.recv(1)
            process.kill()
            process.wait()
        except (OSError, ValueError, LookupError) as error:
            self._log.log(f"a Python worker got no cell: {error}")
        finally:
            for fd in fds:
                os.close(fd)
            link.close()
            if root is not None:
                shutil.rmtree(str(root), ignore_errors=True)

    def _start(self, request: Mapping[str, Any], directories: KernelDirectories, fds: list[int]) -> Process:
        argv = [self._python, str(START), "python-worker", str(request["module"])]
        control, output = fds
        with os.fdopen(os.dup(output), "wb") as log:
            return self._cells.start(
                directories, argv, self._environment(request["env"]), node_dir=self._node_dir, stdin=control, log=log,
                files=str(request["files"]),
            )  # fmt: skip

    def _environment(self, env: Mapping[str, str]) -> dict[str, str]:
        """Returns the whole environment of a cell: the JVM's own directories are not there."""
        own = {name: value for name, value in env.items() if name != "PYTHON_FAULTHANDLER_DIR"}
        interpreters = dict.fromkeys(("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"), self._python)
        return {**own, **interpreters, "TMPDIR": "/tmp", "SPARK_LOCAL_DIRS": "/tmp"}  # noqa: S108 - the cell's own


def tell_end(process: Process, link: socket.socket) -> None:
    """Lets the front know when its cell has ended, and wakes who waits for the front."""
    process.wait()
    with contextlib.suppress(OSError):
        link.shutdown(socket.SHUT_RDWR)
