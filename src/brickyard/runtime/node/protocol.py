"""The pipe to the agent: JSON objects, one per line (docs/dev/node.md, "Node host protocol")."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

MAX_LINE = 16 << 20


class OpError(Exception):
    """An operation failed; `code` is a protocol code (NOT_FOUND, LIMIT, DEAD, INVALID) or a termination code."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Log(Protocol):
    """Takes lines for the node's log: the agent's channel, or a role's report."""

    def log(self, line: str) -> None: ...


class Channel:
    """Both directions of the pipe. `send` may be called on any thread; lines never mix."""

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self._read = os.fdopen(read_fd, "rb", buffering=1 << 16)
        self._write_fd = write_fd
        self._lock = threading.Lock()

    @classmethod
    def take_over(cls) -> Channel:
        """Moves the pipe away from descriptors 0 and 1, so that nothing else that reads or prints breaks it, and no child
        inherits it."""
        read_fd, write_fd = os.dup(0), os.dup(1)  # dup sets close-on-exec
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        os.dup2(2, 1)
        return cls(read_fd, write_fd)

    def messages(self) -> Iterator[dict[str, Any]]:
        """Yields the agent's objects until it closes the pipe. Drops other lines, with a log line."""
        while True:
            line = self._read.readline(MAX_LINE + 1)
            if not line:
                return
            try:
                message = json.loads(line)
            except ValueError:
                message = None
            if isinstance(message, dict):
                yield message
            else:
                self.log("a message of the agent makes no sense and is dropped")

    def send(self, message: dict[str, Any]) -> None:
        data = json.dumps(message, ensure_ascii=True, separators=(",", ":"), default=str).encode() + b"\n"
        with self._lock, contextlib.suppress(OSError):  # the agent is gone: the reader notices and ends us
            view = memoryview(data)
            while view:
                view = view[os.write(self._write_fd, view) :]

    def status(self, **fields: Any) -> None:
        self.send({"event": "status", **fields})

    def log(self, line: str) -> None:
        self.send({"event": "log", "line": line})


def hosts(message: Mapping[str, Any]) -> tuple[str, str]:
    """Returns the addresses for the cluster's other nodes and for everything else."""
    host = str(message.get("host") or "127.0.0.1")
    return bracketed(host), str(message.get("private_host") or host)


def bracketed(host: str) -> str:
    """The address as URLs and Spark have it."""
    return f"[{host}]" if ":" in host else host
