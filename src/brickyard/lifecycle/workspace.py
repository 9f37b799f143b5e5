"""A workspace's data directory: its lock, its secrets, and the note that says where its server is."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import time
from pathlib import Path
from typing import NamedTuple


class WorkspaceError(Exception):
    """The data directory cannot be used; one line that says why and what to do."""


class Running(NamedTuple):
    """The server that holds a data directory. `url` is "" while it starts."""

    pid: int
    url: str


class Workspace:
    """One data directory."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self._lock: int | None = None

    @property
    def server_file(self) -> Path:
        return self.data_dir / "server.json"

    @property
    def log_file(self) -> Path:
        return self.data_dir / "server.log"

    def prepare(self) -> None:
        """Make the directory, for its owner only. Raises WorkspaceError."""
        try:
            self.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.data_dir.chmod(0o700)
            probe = self.data_dir / ".writable"
            probe.write_bytes(b"x" * 4096)
            probe.unlink()
        except OSError as error:
            raise WorkspaceError(
                f"cannot use the data directory {self.data_dir}: {error.strerror or error}. Free space there, fix its owner, "
                "or choose another with --data-dir."
            ) from error

    def lock(self) -> None:
        """Hold the directory until this process ends, however it ends. Raises WorkspaceError when another server has it."""
        handle = os.open(self.data_dir / "server.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            running = self.running()
            who = f"process {running.pid} at {running.url}" if running and running.url else "one that is starting or stopping"
            raise WorkspaceError(
                f"another Brickyard server uses {self.data_dir} ({who}). Stop it with `brickyard down`, or choose another "
                "--data-dir."
            ) from None
        os.ftruncate(handle, 0)
        os.write(handle, str(os.getpid()).encode())
        self._lock = handle
        self.server_file.unlink(missing_ok=True)  # a killed server's note

    def running(self) -> Running | None:
        """The server that holds the directory now, if there is one. The lock decides: a killed server leaves its note behind."""
        try:
            handle = os.open(self.data_dir / "server.lock", os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return None
        except BlockingIOError:
            pid = os.read(handle, 32).decode() or "0"
        finally:
            os.close(handle)
        try:
            note = json.loads(self.server_file.read_text())
            return Running(pid=int(note["pid"]), url=str(note["url"]))
        except (OSError, ValueError, KeyError):
            return Running(pid=int(pid), url="")

    def announce(self, url: str) -> None:
        """Say where the server is: agents and commands read it."""
        note = {"pid": os.getpid(), "url": url, "started_ms": time.time_ns() // 1_000_000}
        _write_private(self.server_file, json.dumps(note))

    def withdraw(self) -> None:
        """The server has stopped."""
        self.server_file.unlink(missing_ok=True)

    def key(self) -> bytes:
        """The workspace's own secret, made at the first start."""
        path = self.data_dir / "workspace.key"
        if not path.exists():
            _write_private(path, secrets.token_hex(32))
        return bytes.fromhex(path.read_text().strip())

    def admin_token(self, given: str) -> tuple[str, bool]:
        """The administrator's token, and whether it was made just now. A given one replaces what is stored."""
        path = self.data_dir / "admin-token"
        if given:
            if not path.exists() or path.read_text().strip() != given:
                _write_private(path, given + "\n")
            return given, False
        if path.exists():
            return path.read_text().strip(), False
        token = "dapi" + secrets.token_hex(16)
        _write_private(path, token + "\n")
        return token, True

    def stored_token(self) -> str:
        """The administrator's token of a workspace that has been started. Raises WorkspaceError."""
        try:
            return (self.data_dir / "admin-token").read_text().strip()
        except OSError as error:
            raise WorkspaceError(f"{self.data_dir} has no admin token: start the workspace once with `brickyard up`.") from error


def _write_private(path: Path, text: str) -> None:
    """All of the file or none, readable by its owner only, on the disk before it counts."""
    draft = path.with_name(path.name + ".tmp")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.write(handle, text.encode())
        os.fsync(handle)
    finally:
        os.close(handle)
    draft.rename(path)
