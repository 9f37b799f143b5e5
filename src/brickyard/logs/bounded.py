"""Bounded log files: a full file becomes `NAME.1`, replacing the previous one."""

from __future__ import annotations

import json
import logging
import os
import time
from pathlib import Path

MAX_BYTES = 4 << 20


class LogFile:
    """Appends lines with a UTC time; with `as_json`, objects with the fields of the server's log. Never raises: a full disk must
    not end the agent."""

    def __init__(self, path: Path, *, max_bytes: int = MAX_BYTES, as_json: bool = False) -> None:
        self.path = path
        self._as_json = as_json
        self._max_bytes = max_bytes
        self._fd = -1
        self._size = 0

    def write(self, line: str, level: str = "info", **facts: str) -> None:
        """Appends a line. `level` and `facts` are for JSON alone."""
        now = time.time()
        stamp = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(now))}.{int(now * 1000) % 1000:03d}Z"
        text = f"{stamp} {line}"
        if self._as_json:
            text = json.dumps({**facts, "event": line, "level": level, "timestamp": stamp})
        self.append(f"{text}\n".encode(errors="replace"))

    def append(self, data: bytes) -> None:
        """Appends bytes as they are."""
        try:
            if self._fd < 0:
                self._open()
            elif self._size + len(data) > self._max_bytes:
                self.path.replace(self.path.with_name(f"{self.path.name}.1"))
                self._open()
            self._size += os.write(self._fd, data)
        except OSError:
            pass

    def clear(self) -> None:
        """Starts over with an empty file."""
        self.close()
        for path in (self.path, self.path.with_name(f"{self.path.name}.1")):
            path.unlink(missing_ok=True)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1

    def _open(self) -> None:
        self.close()
        flags = os.O_CREAT | os.O_APPEND | os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW
        self._fd = os.open(self.path, flags, 0o600)
        self._size = os.fstat(self._fd).st_size


class LogHandler(logging.Handler):
    """Sends messages from standard library loggers (asyncio) to a log file."""

    def __init__(self, file: LogFile) -> None:
        super().__init__(logging.WARNING)
        self._file = file

    def emit(self, record: logging.LogRecord) -> None:
        self._file.write(self.format(record), record.levelname.lower())
