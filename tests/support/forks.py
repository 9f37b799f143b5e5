"""Processes that need not import what they run: each is forked from one that has (`template.py`).

To import is most of what a short command costs: the official SDK alone takes seconds of a slow processor. What is forked is a
process like any other, with an environment, a directory, files and signals of its own. What tests prove of the start itself
(Ctrl-C while Python imports, an old Python, the locale, limits) they prove with `subprocess`.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import select
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.patience import PATIENCE_S

ROOT = Path(__file__).parents[2]
TEMPLATE = Path(__file__).with_name("template.py")
# Runs in a bare Python: hands its arguments, environment and files to the template, and ends as the command does.
CALLER = Path(__file__).with_name("caller.py")
COMMANDS = ("cluster", "configure", "down", "ipaccess", "runtime", "secrets", "status", "token", "ui", "up", "user", "version")


class Forked:
    """A process, with what `subprocess.Popen` offers of one."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._said = b""
        self.returncode: int | None = None
        while b"\n" not in self._said:
            self._hear()
        first, _, self._said = self._said.partition(b"\n")
        self.pid = int(first)

    def _hear(self) -> None:
        if not (more := self._connection.recv(64)):
            raise RuntimeError("the template has ended")
        self._said += more

    def poll(self) -> int | None:
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        if (code := self._ended(timeout)) is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
        return code

    def _ended(self, patience_s: float | None) -> int | None:
        """The exit code, when it has ended within so long."""
        deadline = None if patience_s is None else time.monotonic() + patience_s
        while self.returncode is None:
            if self._said.endswith(b"\n"):  # with the first line already, if it ended at once
                self.returncode = int(self._said)
                self._connection.close()
                break
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not select.select([self._connection], [], [], left)[0]:
                return None
            self._hear()
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def fork(
    place: str,
    call: str,
    *arguments: object,
    argv: Sequence[str],
    environment: Mapping[str, str],
    descriptors: Mapping[int, int],
    directory: str = ".",
    session: bool = False,
) -> Forked:
    """Has the template at that place fork a process that calls a function (`module:name`). `descriptors`: the number of each
    file there -> that here. `session`: in a session of its own."""
    request = {
        "call": call, "arguments": arguments, "argv": argv, "environment": dict(environment),
        "directory": str(Path(directory).resolve()), "descriptors": list(descriptors), "session": session,
    }  # fmt: skip
    body = json.dumps(request).encode()
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(place)
    socket.send_fds(connection, [len(body).to_bytes(4, "big")], list(descriptors.values()))
    connection.sendall(body)
    return Forked(connection)


class Template:
    """A process that has imported modules."""

    def __init__(self, *modules: str) -> None:
        self.place = f"{tempfile.mkdtemp(prefix='forks-')}/s"  # the path of a socket has at most 107 bytes
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("BRICKYARD_", "DATABRICKS_"))}
        environment["PYTHONPATH"] = str(ROOT)  # for what calls functions of tests
        # Its input ends with this process, and it with its input.
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(TEMPLATE), self.place, *modules],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, cwd="/",
        )  # fmt: skip
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n", f"cannot import {modules}"

    def start(
        self, call: str, *arguments: object, argv: Sequence[str], environment: Mapping[str, str], descriptors: Mapping[int, int],
        directory: str = ".",
    ) -> Forked:  # fmt: skip
        """See `fork`."""
        return fork(
            self.place, call, *arguments, argv=argv, environment=environment, descriptors=descriptors, directory=directory
        )

    def run(
        self, call: str, *arguments: object, argv: Sequence[str], environment: Mapping[str, str], patience_s: float = PATIENCE_S
    ) -> subprocess.CompletedProcess[str]:
        """The same to its end, without input, with what it has printed."""
        with (
            tempfile.TemporaryFile("w+", encoding="utf-8") as out,
            tempfile.TemporaryFile("w+", encoding="utf-8") as errors,
            Path(os.devnull).open() as nothing,
        ):
            descriptors = {0: nothing.fileno(), 1: out.fileno(), 2: errors.fileno()}
            process = self.start(call, *arguments, argv=argv, environment=environment, descriptors=descriptors)
            try:
                code = process.wait(patience_s)
            except BaseException:
                process.kill()
                raise
            out.seek(0)
            errors.seek(0)
            return subprocess.CompletedProcess(list(argv), code, out.read(), errors.read())

    def script(self, place: Path, call: str) -> None:
        """Makes a program that does the same with its own arguments, for shells."""
        words = [sys.executable, "-I", "-S", str(CALLER), self.place, call]
        place.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
        place.chmod(0o755)


@functools.cache
def commands() -> Template:
    """Of this test run's process: for the brickyard command, and for programs with the official SDK."""
    return Template("databricks.sdk", "tests.support.forkedservers", *(f"brickyard.cli.{name}" for name in COMMANDS))


@functools.cache
def servers() -> Template:
    """Of this test run's process: for servers that commands start in the background."""
    return Template("brickyard.server.process")


@functools.cache
def agents() -> Template:
    """Of this test run's process: for agents."""
    return Template("brickyard.agent.__main__", "brickyard.agent.run")
