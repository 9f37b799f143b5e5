"""Starts, connects to and ends a JVM with a Py4J gateway."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from ..processes import Spawner
from . import launch
from .archives import refusal
from .launch import JvmOptions

if TYPE_CHECKING:
    from ..documents import ManifestDocument

START_TIMEOUT_S = 240.0
POLL_S = 0.01
LOOPBACK = "127.0.0.1"  # where gateways listen
AUTH_COMMAND_NAME = "A"  # of Py4J: the secret follows
_SAID = 1 << 16  # bytes: what a JVM that has just started has said is short
_PASSED_ON = ("gateway.info", "submit.properties")  # in its conf directory only until it runs


class JvmError(Exception):
    """The JVM did not start; the message is meant for users."""


class Jvm:
    """One JVM process. `gateway` is thread-safe: every thread gets its own connection."""

    def __init__(self, *, spawner: Spawner, manifest: ManifestDocument, options: JvmOptions, node_dir: Path, host: str) -> None:
        self.options = options
        self.manifest = manifest
        self.node_dir = node_dir
        self.host = host
        self.port = 0
        self.secret = ""
        self.gateway: Any = None
        self.exit_code: int | None = None
        self.log_file = node_dir / "logs" / launch.LOG
        self.stdout_file = node_dir / "logs" / "stdout"
        self.stderr_file = node_dir / "logs" / "stderr"
        self._spawner = spawner
        self._process: subprocess.Popen[bytes] | None = None
        self._ended = threading.Event()
        self._read: dict[str, tuple[int, int]] = {}  # what it reads once, as it was when the process was started
        self._on_end: Callable[[int], None] | None = None

    def spawn(self, *, submit_conf: Mapping[str, str] | None = None) -> None:
        """Starts the process; `connect` waits for it. `submit_conf`: the whole conf, if it starts through SparkSubmit."""
        for name in ("work/local", "tmp", "home", "logs/eventlog", "conf"):
            (self.node_dir / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        launch.log4j_file(self.node_dir).write_text(launch.log4j_text(self.log_file))
        properties = ""
        if submit_conf is not None:
            properties = str(self.node_dir / "conf" / _PASSED_ON[1])
            write_private(Path(properties), launch.properties_text(submit_conf))
        info = self._info_file()
        with contextlib.suppress(FileNotFoundError):
            info.unlink()
        argv = launch.command(
            self.manifest,
            self.options,
            node_dir=self.node_dir,
            archive=usable(launch.archive_of(self.manifest, self.options)),
            properties=properties,
        )
        env = launch.environment(self.manifest, self.options, os.environ, host=self.host, node_dir=self.node_dir)
        env["_PYSPARK_DRIVER_CONN_INFO_PATH"] = str(info)
        self._read = files_read(self.node_dir, self.manifest)
        with self.stdout_file.open("ab") as stdout, self.stderr_file.open("ab") as stderr:
            self._process = self._start(argv, env, stdout, stderr)
        threading.Thread(target=self._wait, name="jvm-wait", daemon=True).start()

    def _start(self, argv: list[str], env: dict[str, str], stdout: IO[bytes], stderr: IO[bytes]) -> subprocess.Popen[bytes]:
        try:
            # The gateway ends when its stdin does: closing this pipe ends it gracefully, and so does our death.
            work = self.node_dir / "work"
            return self._spawner.popen(argv, env=env, stdin=subprocess.PIPE, stdout=stdout, stderr=stderr, cwd=work)
        except OSError as error:
            raise JvmError(f"Java cannot be started from {argv[0]}: {error.strerror}.") from error

    @property
    def outputs(self) -> tuple[Path, ...]:
        """The files that it writes what it says to: what is logged first."""
        return (self.log_file, self.stdout_file, self.stderr_file)

    def forget_log(self) -> None:
        """Empties the log: what was written so far is no cluster's. The JVM appends, and so goes on at the file's beginning.
        Raises OSError."""
        os.truncate(self.log_file, 0)

    def connect(self) -> None:
        """Waits until the gateway answers. Raises JvmError if the JVM ends instead."""
        info = self._info_file()
        deadline = time.monotonic() + START_TIMEOUT_S
        while not info.exists():
            if self._ended.wait(POLL_S):
                raise JvmError(f"Java ended with code {self.exit_code} before it was ready.")
            if time.monotonic() > deadline:
                raise JvmError(f"Java was not ready within {START_TIMEOUT_S:.0f} s.")
        data = info.read_bytes()
        info.unlink()
        with contextlib.suppress(FileNotFoundError):
            (self.node_dir / "conf" / _PASSED_ON[1]).unlink()  # it contains the conf's secrets, and has been read
        port, length = struct.unpack(">ii", data[:8])
        self._enter(port, data[8 : 8 + length].decode())

    @property
    def refused_archive(self) -> str:
        """Why Java started without its archive or cache, or "" if it uses it or has none."""
        with self.stdout_file.open("rb") as said:
            return refusal(said.read(_SAID).decode(errors="replace"))

    def _enter(self, port: int, secret: str) -> None:
        """Opens the gateway. Spark's own port accepts unbounded data from strangers, so our port replaces it, except while our
        classes still have to be compiled, when nobody else is there."""
        from .gateway import bounded, open_gateway  # importing Py4J takes time, and Java starts meanwhile

        self.port, self.secret, self.gateway = port, secret, open_gateway(port, secret)
        if self.manifest.get("classes"):
            first = self.gateway
            self.port, self.secret, _ = bounded(first.jvm)
            self.gateway = open_gateway(self.port, self.secret)
            first.shutdown()

    def knock(self) -> None:
        """Opens a connection and has it answered, for which the JVM must still accept connections and make threads. It may never
        return. Raises OSError."""
        with socket.create_connection((LOOPBACK, self.port)) as line:
            line.sendall(f"{AUTH_COMMAND_NAME}\n{self.secret}\n".encode())
            if not line.recv(1):
                raise ConnectionResetError("the JVM has closed the connection")

    @property
    def outdated(self) -> bool:
        """Whether a file that it reads only when it starts has changed since then."""
        return files_read(self.node_dir, self.manifest) != self._read

    @property
    def alive(self) -> bool:
        return self._process is not None and not self._ended.is_set()

    def ended(self, patience_s: float) -> bool:
        """Returns whether it has ended, or does so within `patience_s`."""
        return self._ended.wait(patience_s)

    @property
    def pid(self) -> int:
        return self._process.pid if self._process else 0

    def on_end(self, callback: Callable[[int], None]) -> None:
        """Calls `callback(exit code)` when it ends; immediately if it has ended. Negative codes are signals."""
        self._on_end = callback
        if self._ended.is_set() and self.exit_code is not None:
            callback(self.exit_code)

    def stop(self, grace_s: float) -> None:
        """Ends it: gracefully within `grace_s`, otherwise by force. No longer reports its end to `on_end`."""
        self._on_end = None
        process = self._process
        if process is None:
            return
        with contextlib.suppress(OSError):
            if process.stdin:
                process.stdin.close()
        if not self._ended.wait(grace_s):
            process.kill()
            self._ended.wait(5.0)

    def _wait(self) -> None:
        assert self._process is not None  # noqa: S101 - `spawn` has set it
        self.exit_code = self._process.wait()
        self._ended.set()
        if self._on_end is not None:
            self._on_end(self.exit_code)

    def _info_file(self) -> Path:
        return self.node_dir / "conf" / _PASSED_ON[0]


def files_read(node_dir: Path, manifest: ManifestDocument) -> dict[str, tuple[int, int]]:
    """Returns size and time of every file that a JVM reads once, at its start: its configuration, Spark's jars, and those that
    init scripts have added."""
    found: dict[str, tuple[int, int]] = {}
    scripts = (node_dir / launch.JARS, launch.driver_conf_dir(node_dir))
    for directory in (node_dir / "conf", *scripts, Path(manifest["spark_home"], "jars"), Path(manifest["spark_home"], "conf")):
        with contextlib.suppress(OSError), os.scandir(directory) as entries:
            for entry in entries:
                if entry.name not in _PASSED_ON:
                    with contextlib.suppress(OSError):
                        info = entry.stat()
                        found[entry.path] = (info.st_size, info.st_mtime_ns)
    return found


def usable(archive: str) -> str:
    """Returns the archive's path, or "" if there is no such file: a missing archive costs time, not the cluster."""
    return archive if archive and Path(archive).is_file() else ""


def write_private(path: Path, text: str) -> None:
    """Writes a file that only its owner can read, from the first byte."""
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
